"""A report as JUnit XML, which continuous integration shows as tests: a suite for each model, a test case for each rule.

In a check, a rule that would fire is a failure. In a repair, a rule that fired is a test that passed, and a rewrite that was
rolled back is a failure. A model that failed and a rule that failed are errors. A rule that an unknown fact blocks is skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rewriter.app.report.document import ModelRecord, Report, by_rule, change_lines, place_text, repair_text, rolled_place, verb
from rewriter.app.style import clean
from rewriter.core.errors import counted
from rewriter.core.log import Blocked, Firing

LISTED = 100  # firings of one rule and model
_OUTCOMES = ("failure", "error", "skipped")
_TOTALS = ("tests", "failures", "errors")


def report_pieces(report: Report) -> Iterator[str]:
    """The XML document. The totals come first, so every model is read twice."""
    root = Element("testsuites", name=f"rewriter {report.command}")
    totals = Counter[str]()
    for model in report.models:
        suite = _suite(report, model)
        totals.update({attribute: int(suite.get(attribute, "0")) for attribute in _TOTALS})
    for attribute in _TOTALS:
        root.set(attribute, str(totals[attribute]))
    root.set("time", f"{report.summary.seconds:.3f}")
    root.text = "\n"
    head, end = tostring(root, encoding="unicode").split("\n")
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n'
    for model in report.models:
        suite = _suite(report, model)
        indent(suite, " ", level=1)
        yield f" {tostring(suite, encoding='unicode').rstrip()}\n"
    yield f"{end}\n"


def _suite(report: Report, model: ModelRecord) -> Element:
    suite = Element("testsuite", name=clean(model.path))
    properties = {file.role: file.sha256 for file in model.files if file.role in ("input", "output") and file.sha256}
    if properties:
        holder = SubElement(suite, "properties")
        for role, digest in properties.items():
            SubElement(holder, "property", name=f"{role}.sha256", value=str(digest))
    _cases(suite, report, model)
    if suite.find("testcase") is None:
        _case(suite, model, "no rule would fire" if report.command == "check" else "nothing to say")
    found = {kind: len(suite.findall(f"testcase/{kind}")) for kind in _OUTCOMES}
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(found["failure"]))
    suite.set("errors", str(found["error"]))
    suite.set("skipped", str(found["skipped"]))
    suite.set("time", f"{model.seconds:.3f}")
    return suite


def _cases(suite: Element, report: Report, model: ModelRecord) -> None:
    if model.error:
        _outcome(_case(suite, model, "can be worked on"), "error", "cannot be worked on", model.error)
    if model.refused:
        text = f"{clean(model.refused)}\n{repair_text(model)}"
        _outcome(_case(suite, model, "ONNX Runtime loads it"), "failure", "rejected by ONNX Runtime", text)
    for code, firings in by_rule(model.firings).items():
        case = _case(suite, model, f"{code} {firings[0].title}", sum(firing.microseconds for firing in firings) / 1e6)
        if report.command == "check":
            _outcome(case, "failure", counted(len(firings), verb(report)), _listed(firings))
        else:
            SubElement(case, "system-out").text = _listed(firings)
    for rolled in model.rolled_back:
        text = "\n".join([f"{rolled_place(rolled)}: {clean(rolled.reason)}", *change_lines(rolled.changes)])
        _outcome(_case(suite, model, f"{rolled.rule} {rolled.title} (rolled back)"), "failure", "rolled back", text)
    for one in model.suppressed:
        case = _case(suite, model, f"{one.rule} {one.title} (suppressed)")
        _outcome(case, "skipped", f"suppressed at {place_text(one)}", f"{one.reason} ({one.origin})")
    for stop in model.stops:
        _outcome(_case(suite, model, f"ends by itself: {stop.kind}"), "failure", stop.kind, stop.message)
    _blocked(suite, model, [blocked for blocked in model.blocked if blocked.error], "error", "failed")
    _blocked(suite, model, [blocked for blocked in model.blocked if not blocked.error], "skipped", "unknown")


def _blocked(suite: Element, model: ModelRecord, entries: Sequence[Blocked], kind: str, word: str) -> None:
    for code in dict.fromkeys(entry.rule for entry in entries):
        mine = [entry for entry in entries if entry.rule == code]
        text = "\n".join(f"{place_text(entry)}: {clean(entry.reason)}" for entry in mine[:LISTED])
        case = _case(suite, model, f"{code} {mine[0].title} ({word})")
        _outcome(case, kind, f"{word} at {counted(len(mine), 'place')}", text)


def _case(suite: Element, model: ModelRecord, name: str, seconds: float = 0.0) -> Element:
    return SubElement(suite, "testcase", classname=clean(model.path), name=clean(name), time=f"{seconds:.6f}")


def _outcome(case: Element, kind: str, message: str, text: str) -> None:
    shown = "\n".join(map(clean, text.split("\n")))
    if kind == "skipped":
        SubElement(case, kind, message=f"{clean(message)}: {shown}")
    else:
        SubElement(case, kind, message=clean(message), type=kind).text = shown


def _listed(firings: Sequence[Firing]) -> str:
    lines: list[str] = []
    for firing in firings[:LISTED]:
        lines += [f"{firing.number} {place_text(firing)}", *(f"  {line}" for line in change_lines(firing.changes))]
    if len(firings) > LISTED:
        lines.append(f"and {len(firings) - LISTED:,} more")
    return "\n".join(lines)
