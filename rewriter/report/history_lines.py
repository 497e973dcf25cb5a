"""The record in a model, and what an audit of it found, as lines of text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rewriter.provenance.check_record import Audit
from rewriter.provenance.history_record import RecordedRun
from rewriter.provenance.marks import Mark
from rewriter.record import as_dict
from rewriter.report.comparison_lines import comparison_lines, difference_object
from rewriter.report.style import Style, clean, counted

MOST = 20  # nodes shown, and places that were left out


def history_object(path: str, runs: Sequence[RecordedRun], marked: Sequence[Mark]) -> dict[str, Any]:
    """The record as JSON has it."""
    return {
        "schema": 1,
        "command": "history",
        "path": path,
        "runs": [as_dict(run) for run in runs],
        "nodes": [as_dict(mark) for mark in marked],
    }


def history_lines(path: str, runs: Sequence[RecordedRun], marked: Sequence[Mark], style: Style) -> Iterator[str]:
    """One paragraph a run, then the nodes."""
    if not runs:
        yield f"{clean(path)}: no record of a rewrite"
    for number, run in enumerate(runs, 1):
        yield f"{style.paint('bold', f'{clean(path)}: run {number} of {len(runs)}')}, by version {clean(run.version)}"
        yield from run_lines(run, style)
    if marked:
        yield f"{counted(len(marked), 'node')} made or changed by rules:"
        for mark in marked[:MOST]:
            where = "" if mark.place == "main" else f"{clean(mark.place)}: "
            yield f"  {where}{clean(mark.node)} ({clean(mark.op)}): {clean(' '.join(mark.rules))}"
        if len(marked) > MOST:
            yield f"  and {len(marked) - MOST} more"


def run_lines(run: RecordedRun, style: Style) -> Iterator[str]:
    """What is recorded of a run, without its version."""
    yield f"  input     sha256 {clean(run.input)}"
    if run.source is not None:
        yield f"  source    {clean(run.source[0])}, sha256 {clean(run.source[1])}"
    yield from (f"            sha256 {clean(digest)}" for digest in run.others)
    if run.command:
        yield f"  command   {clean(run.command)}"
        return
    yield f"  fired     {counted(len(run.rules), 'rule')}, digest {clean(run.rule_set)}"
    yield from (f"  pack      {clean(pack)}" for pack in run.packs)
    for code, (count, digest) in run.rules.items():
        yield f"    {style.paint('cyan', clean(code))} {counted(count, 'time')} ({clean(digest)})"
    for place, value in run.set.items():
        yield f"  set       {clean(f'{place} = {value!r}')}"
    for rule, place, root in run.left_out[:MOST]:
        yield f"  left out  {clean(rule)} at {'' if place == 'main' else clean(place) + ': '}{clean(root)}"
    if len(run.left_out) > MOST:
        yield f"            and {len(run.left_out) - MOST} more"
    if run.firings is not None:
        yield f"  stopped   after {run.firings} rewrites"
    for name, shape in run.static:
        yield f"  {clean(name)} got the shape {', '.join(map(str, shape))}"
    if run.tidy:
        yield "  tidied"


def audit_object(before: str, after: str, found: Audit) -> dict[str, Any]:
    """An audit as JSON has it."""
    return {
        "schema": 1,
        "command": "audit",
        "input": before,
        "output": after,
        "as_recorded": found.true,
        "runs": [as_dict(run) for run in found.runs],
        "findings": found.findings,
        "notes": found.notes,
        "differences": [difference_object(difference) for difference in found.differences],
    }


def audit_lines(before: str, after: str, found: Audit, style: Style) -> Iterator[str]:
    """The verdict, what leads to it, and the differences."""
    word = style.paint("green", "as recorded") if found.true else style.paint("red", "not as recorded")
    done = [f"{code} {count}" for run in found.runs for code, (count, _) in run.rules.items()]
    yield f"{style.paint('bold', clean(after))}: {word}" + (f": {clean(', '.join(done))}" if done and found.true else "")
    yield from (f"  {clean(finding)}" for finding in found.findings)
    yield from (f"  {style.paint('dim', 'note')}: {clean(note)}" for note in found.notes)
    yield from comparison_lines(f"{before}, by the record", after, found.differences, style)
