"""Rules, and the findings of `verify`, `lint` and `coverage` about them, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rewriter.app.style import Style, clean
from rewriter.core.errors import counted
from rewriter.core.language.ast import Evidence, OpsetRange
from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import called_defines

if TYPE_CHECKING:
    from rewriter.core.language.diagnostics import Diagnostic, SourceText
    from rewriter.trust.proof.rules.verdict import Verdict


def rule_object(rule: Rule) -> dict[str, Any]:
    """Everything about a rule, for JSON."""
    return {
        "code": rule.code,
        "slug": rule.slug,
        "title": rule.title,
        "doc": rule.doc,
        "kind": {"name": rule.kind.name, "rtol": rule.kind.rtol, "atol": rule.kind.atol},
        "evidence": None if rule.evidence is None else evidence_text(rule.evidence),
        "runs": runs(rule),
        "phase": rule.phase,
        "severity": rule.severity,
        "exporters": list(rule.exporters),
        "versions": rule.versions,
        "opset": [rule.opset.first, rule.opset.last],
        "ir": [rule.ir.first, rule.ir.last],
        "needs_source": rule.needs_source,
        "before": list(rule.before),
        "default": rule.default,
        "targets": list(rule.targets),
        "issues": list(rule.issues),
        "symptoms": list(rule.header.symptoms),
        "unverified": rule.header.unverified,
        "params": [{"name": param.name, "type": param.type, "required": param.default is None} for param in rule.ast.params],
        "tests": len(rule.ast.tests),
        "path": rule.path,
        "digest": rule.digest,
    }


def rule_lines(rule: Rule, style: Style) -> Iterator[str]:
    """The description of a rule as a page, without its text."""
    yield f"{style.paint('cyan', rule.code)} {style.paint('bold', clean(rule.slug))}"
    yield ""
    for line in rule.ast.doc:
        yield f"  {clean(line)}".rstrip()
    if rule.ast.doc:
        yield ""
    for name, value in facts(rule):
        yield f"  {style.paint('bold', name.ljust(10))} {clean(value)}"
    yield ""
    number, _ = rule.source.line_col(rule.ast.span.start)
    yield style.paint("dim", f"{clean(rule.path)}:{number}")
    yield ""


def text_lines(rule: Rule) -> Iterator[str]:
    """The defines that the rule calls, and the rule as it is written, without its comment, which is in `rule_lines`."""
    for define in called_defines(rule):
        yield from (f"  /// {clean(line)}".rstrip() for line in define.doc)
        yield f"  {clean(define.text)}"
        yield ""
    for text in rule.text.splitlines():
        if not text.startswith("///"):
            yield f"  {clean(text.expandtabs(4))}".rstrip()


def facts(rule: Rule) -> Iterator[tuple[str, str]]:
    """The values of the header, with defaults, as (name, value)."""
    bounds = [f"{name}={value:g}" for name, value in (("rtol", rule.kind.rtol), ("atol", rule.kind.atol)) if value]
    yield "kind", rule.kind.name + (f" ({', '.join(bounds)})" if bounds else "")
    if rule.evidence is not None:
        yield "evidence", evidence_text(rule.evidence)
    yield "runs", "by default" if rule.default else when_asked(rule)
    yield "phase", rule.phase
    yield "severity", rule.severity
    yield "exporter", " or ".join(rule.exporters) + (f" {rule.versions}" if rule.versions else "") or "any"
    yield "opset", _range(rule.opset)
    if (rule.ir.first, rule.ir.last) != (None, None):
        yield "ir_version", _range(rule.ir)
    if rule.needs_source:
        yield "needs", "the framework's own file (--source)"
    if rule.header.once:
        yield "once", "on a model" if rule.header.once == "model" else "at each node, and not at nodes that the rule made"
    if rule.targets:
        yield "target", ", ".join(rule.targets)
    if rule.before:
        yield "before", ", ".join(rule.before)
    for param in rule.ast.params:
        yield "parameter", f"--set {rule.code}.{param.name}=... ({param.type}{', required' if param.default is None else ''})"
    if rule.header.unverified:
        yield "unverified", rule.header.unverified
    for symptom in rule.header.symptoms:
        yield "symptom", symptom
    for issue in rule.issues:
        yield "issue", issue


def when_asked(rule: Rule) -> str:
    """The command or option that runs a rule that does not run by default."""
    if rule.guess:
        first = "with --guess, or "
    elif rule.header.on_target:
        first = f"with --target {' or '.join(rule.targets)}, or "
    else:
        first = "by `rewriter optimize`, or " if rule.optimizes else ""
    return f"{first}when selected: --select DEFAULT,{rule.code}"


def runs(rule: Rule) -> str:
    """When a rule runs, in one word: "default", "guess" (with --guess), "target" (with its target) or "selected"."""
    if rule.default:
        return "default"
    return "guess" if rule.guess else "target" if rule.header.on_target else "selected"


def evidence_text(evidence: Evidence) -> str:
    """The evidence as it is written in a header: "refused(onnxruntime)"."""
    return f"{evidence.name}({evidence.runtime})" if evidence.runtime else evidence.name


def _range(versions: OpsetRange) -> str:
    return f"{'' if versions.first is None else versions.first}..{'' if versions.last is None else versions.last}"


_MARK = {"default": "", "guess": "?", "target": "@", "selected": "*"}
MARKS = "runs: unmarked by default, ? with --guess, @ for its --target, * if selected"
HANG = 9


def rule_table(rules: Sequence[Rule], style: Style, *, is_ranked: bool) -> Iterator[str]:
    """Rules one a line, below a line for their exporter; ranked ones in their order."""
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault("" if is_ranked else " or ".join(rule.exporters) or "any exporter", []).append(rule)
    for exporter, members in sorted(groups.items()):
        if exporter:
            yield style.paint("bold", f"{clean(exporter)}: {counted(len(members), 'rule')}")
        for rule in members:
            code = f"{rule.code}{_MARK[runs(rule)]}".ljust(HANG - 1)
            yield f"{style.paint('cyan', code)} {clean(rule.title).removesuffix('.')}"


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """The verdict on a rule, for JSON."""
    unneeded = [{"code": "W504", "line": found.line, "text": found.text, "broke": found.broke} for found in verdict.unneeded]
    extra = {
        "rule": verdict.rule,
        "code": verdict.code,
        "tried": verdict.tried,
        "crashed": verdict.crashed,
        "locked": verdict.locked,
    }
    return {**extra, **verdict.record(), "unneeded": unneeded, "counterexample": verdict.obligation}


def verdict_lines(verdict: Verdict, rule: Rule | None, style: Style) -> list[str]:
    """The verdict on a rule as lines; `rule` is None if it is not loaded."""
    color = {"tested": "green", "counterexample": "red"}.get(verdict.status, "yellow")
    code = f" [{verdict.code}]" if verdict.code else ""
    why = f": {clean(verdict.why)}" if verdict.why else ""
    found = [f"{verdict.rule} {style.paint(color, verdict.status)}{code}{_figures(verdict)}{why}"]
    if rule is not None and rule.guess:
        found.append("    a guess: only its rewrite was tested; whether a model needs it, the user decides")
    if verdict.quarantine:
        found.append(f"    the two runtimes disagree on {', '.join(verdict.quarantine)}; ONNX Runtime alone decided")
    if verdict.crashed:
        found.append(f"    left out: {counted(verdict.crashed, 'random model')} on which ONNX Runtime crashed")
    if verdict.still_rejected:
        first, reason = next(iter(verdict.still_rejected.items()))
        found.append(
            f"    still rejected after the repair with {', '.join(verdict.still_rejected)}; for {first}: {clean(reason)}"
        )
    if verdict.raised and verdict.status == "unverified":
        found.append(f"    a condition raised: {clean(verdict.raised)}")
    for line in verdict.unneeded:
        models = counted(line.broke, "random model")
        message = f"`{clean(line.text)}` may be unnecessary: {models} violated it, and the rule was correct without it"
        found.append(f"    warning[W504] {clean(rule.path if rule else '')}:{line.line}: {message}")
        found.append('      leave it out, or show what it is for: a test "..." unchanged, whose model breaks this line only')
    found += [f"    {clean(line)}" for line in verdict.obligation.splitlines()]
    return found


def _figures(verdict: Verdict) -> str:
    if verdict.status == "counterexample":
        return ""
    rate = f", {verdict.samples / verdict.tried:.0%} of those tried" if verdict.tried else ""
    error = f", largest error {verdict.error:.2g} ({verdict.bound})" if verdict.bound and verdict.samples else ""
    opsets = f", opset {_ranges(verdict.opsets)}" if verdict.opsets else ""
    ranks = f", rank {_ranges(verdict.ranks)}" if verdict.ranks else ""
    kinds = f", {' '.join(verdict.dtypes)}" if verdict.dtypes else ""
    return f" ({counted(verdict.samples, 'random model')}{rate}{kinds}{opsets}{ranks}{error})"


def _ranges(numbers: Sequence[int]) -> str:
    """ "7 to 13, 18" for the numbers that were tried. Numbers in between that were not tried are left out."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs)


def finding_object(diagnostic: Diagnostic, sources: Mapping[str, SourceText]) -> dict[str, object]:
    """A message of the compiler or of `lint`, for JSON."""

    def place(path: str, span: Any, label: str) -> dict[str, object]:
        line, column = sources[path].line_col(span.start)
        return {"path": path, "line": line, "column": column, "label": label}

    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        **place(diagnostic.path, diagnostic.span, diagnostic.label),
        "related": [place(other.path, other.span, other.label) for other in diagnostic.related],
        "notes": list(diagnostic.notes),
        "helps": list(diagnostic.helps),
    }


def coverage_lines(counts: Mapping[str, Any], *, everything: bool) -> Iterator[str]:
    """The parts of a rule that were never exercised, from its counts as they are in JSON."""
    code, fired, stood = counts["code"], counts["fired"], counts["stood"]
    times = counted(stood, "time") if stood else "nowhere"
    if not fired:
        yield f"{code} never fired: its pattern matched {times}"
    elif everything:
        yield f"{code} fired {counted(fired, 'time')}: its pattern matched {times}"
    for where in counts["wheres"] if stood else ():
        blocked, passed = where["false"] + where["unknown"], where["true"]
        text = f"{code} line {where['line']} `{where['condition']}`"
        if not blocked + passed:
            yield f"{text} was never evaluated"
        elif not blocked or not passed:
            yield f"{text} was {'never' if blocked else 'always'} true (evaluated {counted(blocked + passed, 'time')})"
        elif everything:
            yield f"{text} was true {counted(passed, 'time')}, and false or unknown {counted(blocked, 'time')}"
