"""The keys of a rule's header, with the defaults filled in.

Reading is tolerant: a malformed key counts as absent here, and `check_header` reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rewriter.core.language import ast
from rewriter.core.language.schema import OLDEST_OPSET
from rewriter.core.record import record

KINDS = ("exact", "approx", "repair", "lossy", "interface")
SAME_NUMBERS = ("exact", "approx", "repair")
"""Kinds that change no result that was right, so that choosing a target is asking for them."""
EVIDENCE = ("refused", "contradiction", "source", "exporter", "guess")
ONCE = ("model", "node")
RUNTIMES = ("onnxruntime",)
"""Runtimes that `refused(...)` may name: the guard can run them."""
SEVERITIES = ("error", "warning", "info")
PHASES = ("interface", "repair", "canonical", "optimize", "cleanup")
PHASE_OF_KIND: Mapping[str, str] = MappingProxyType(
    {"exact": "canonical", "approx": "optimize", "repair": "repair", "lossy": "canonical", "interface": "interface"}
)


@record(frozen=True)
class Header:
    """The header of one rule. `opset` and `ir` are ranges of versions; `opset` always has a beginning. `unverified` is the
    reason why running the rule cannot show that it is correct. `default` is whether the rule runs by default; a rule with
    `targets` or with `evidence: guess` never does. `on_target` is whether it runs if one of its targets is chosen. `evidence`
    is the evidence of a repair, None for the other kinds. `question` is the question to a person about a guess. `replaces` are
    the codes of the rules that this one replaced. `once` is "model" or "node": the rule fires once in a model, or at a node.
    """

    kind: ast.Kind
    evidence: ast.Evidence | None
    exporters: tuple[str, ...]
    versions: str | None
    opset: ast.OpsetRange
    ir: ast.OpsetRange
    severity: str
    phase: str
    before: tuple[str, ...]
    replaces: tuple[str, ...]
    needs_source: bool
    default: bool
    targets: tuple[str, ...]
    on_target: bool
    issues: tuple[str, ...]
    symptoms: tuple[str, ...]
    unverified: str | None
    question: str | None
    once: str | None = None


def read_header(meta: Iterable[ast.MetaItem]) -> Header:
    """The header's items with defaults: kind exact, opset 7.., severity and phase by kind, `default` by kind and severity."""
    items = {item.key: item.value for item in meta}
    kind = items.get("kind")
    if not isinstance(kind, ast.Kind) or kind.name not in KINDS:
        kind = ast.Kind("exact")
    kind = ast.Kind(kind.name, kind.rtol, kind.atol)
    evidence = items.get("evidence")
    evidence = ast.Evidence(evidence.name, evidence.runtime) if isinstance(evidence, ast.Evidence) else None
    guess = evidence is not None and evidence.name == "guess"
    severity = _choice(items.get("severity"), SEVERITIES) or ("error" if kind.name == "repair" else "info")
    targets = _words(items.get("target"))
    unasked = kind.name == "repair" or (kind.name == "exact" and severity != "info")
    written = _choice(items.get("default"), ("on", "off"))
    versions, unverified, question = items.get("versions"), items.get("unverified"), items.get("question")
    return Header(
        kind=kind,
        evidence=evidence,
        exporters=_words(items.get("exporter")),
        versions=versions if isinstance(versions, str) else None,
        opset=_opset(items.get("opset")),
        ir=_range(items.get("ir")),
        severity=severity,
        phase=_choice(items.get("phase"), PHASES) or PHASE_OF_KIND[kind.name],
        before=_words(items.get("before")),
        replaces=_words(items.get("replaces")),
        needs_source="source" in _words(items.get("needs")),
        default=not targets and not guess and (unasked if written is None else written == "on"),
        targets=targets,
        on_target=bool(targets) and kind.name in SAME_NUMBERS and written != "off",
        issues=_words(items.get("issue")),
        symptoms=_words(items.get("symptom")),
        unverified=unverified if isinstance(unverified, str) else None,
        question=question if isinstance(question, str) else None,
        once=_choice(items.get("once"), ONCE),
    )


def _range(value: object) -> ast.OpsetRange:
    return ast.OpsetRange(value.first, value.last) if isinstance(value, ast.OpsetRange) else ast.OpsetRange()


def _opset(value: object) -> ast.OpsetRange:
    written = _range(value)
    first = written.first
    if first is None:
        first = OLDEST_OPSET if written.last is None or written.last >= OLDEST_OPSET else 1
    return ast.OpsetRange(first, written.last)


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return value if isinstance(value, tuple) else ()


def _choice(value: object, choices: tuple[str, ...]) -> str | None:
    return value if isinstance(value, str) and value in choices else None
