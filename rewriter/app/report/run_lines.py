"""The outputs of a run, the times of runs, and the record in a model, as lines of text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rewriter.app.report.comparison_lines import comparison_lines
from rewriter.app.report.printout import Printout
from rewriter.app.style import Style, clean
from rewriter.core.errors import counted
from rewriter.core.log import Firing
from rewriter.trust.check_record import Audit, Mark
from rewriter.trust.proof.benchmark import SingleRun, Timing, described
from rewriter.trust.stamp import RecordedRun

_OPERATORS = 8  # that a summary of times lists


def single_run(model: str, run: SingleRun, written: str | None) -> Printout:
    """A run of a model (`run`)."""
    return Printout(
        lambda: {
            "model": model,
            "runtime": run.runtime,
            "seconds": run.seconds,
            "inputs": {name: described(value) for name, value in run.feed.items()},
            "outputs": {name: described(value) for name, value in run.outputs.items()},
            "written": written,
        },
        partial(_run_lines, model, run, written),
        hang=11,
    )


def _run_lines(model: str, run: SingleRun, written: str | None, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', clean(model))}  {run.runtime}, {_time(run.seconds)}"
    yield from _values("inputs", run.feed)
    yield from _values("outputs", run.outputs)
    if written is not None:
        yield f"  written  {clean(written)}"


def bench(timings: Sequence[Timing], runtime: str, *, nodes: bool) -> Printout:
    """Times of models (`bench`); `nodes` lists each node in the text."""
    return Printout(partial(_bench_object, timings, runtime), partial(_bench_lines, timings, runtime, nodes), hang=11)


def _bench_object(timings: Sequence[Timing], runtime: str) -> dict[str, Any]:
    models = [
        {
            "model": timing.name,
            "inputs": timing.inputs,
            "load": timing.load,
            "runs": len(timing.times),
            "median": timing.quantile(0.5),
            "p95": timing.quantile(0.95),
            "min": min(timing.times),
            "mean": sum(timing.times) / len(timing.times),
            "nodes": [
                {"name": name, "operator": operator, "microseconds": time, "calls": calls}
                for name, operator, time, calls in timing.nodes
            ],
        }
        for timing in timings
    ]
    return {"runtime": runtime, "models": models}


def _bench_lines(timings: Sequence[Timing], runtime: str, nodes: bool, style: Style) -> Iterator[str]:
    first = timings[0]
    for number, timing in enumerate(timings):
        yield f"{style.paint('bold', clean(timing.name))}  {runtime}, {counted(len(timing.times), 'run')}"
        yield f"  inputs   {', '.join(map(clean, timing.inputs)) or 'none'}"
        median = timing.quantile(0.5)
        beside = f"  ({first.quantile(0.5) / median:.2f} x as fast as {clean(first.name)})" if number and median else ""
        yield (f"  latency  median {_time(median)}, p95 {_time(timing.quantile(0.95))}, min {_time(min(timing.times))}{beside}")
        yield f"  load     {_time(timing.load)}"
        total = sum(time for _, _, time, _ in timing.nodes) or 1.0
        for operator, time, count in _by_operator(timing)[:_OPERATORS]:
            yield f"  {100 * time / total:5.1f} %  {_time(time / 1e6):>8}  {clean(operator)}  {count:,}"
        if nodes:
            yield "  nodes"
            for name, operator, time, calls in timing.nodes:
                times = f"  {calls:,} times" if calls > 1 else ""
                yield f"  {100 * time / total:5.1f} %  {_time(time / 1e6):>8}  {clean(name)} ({clean(operator)}){times}"


def _by_operator(timing: Timing) -> list[tuple[str, float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for _, operator, time, calls in timing.nodes:
        before, count = found.get(operator, (0.0, 0))
        found[operator] = before + time, count + calls
    return sorted(((operator, *what) for operator, what in found.items()), key=lambda one: -one[1])


def _values(title: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"  {title:<8} {clean(name)}  {_shown(described(value))}"
        title = ""


def _shown(statistics: Mapping[str, Any]) -> str:
    kind = f"{statistics['dtype']}[{','.join(map(str, statistics['shape']))}]"
    parts = [f"{word} {statistics[word]:.6g}" for word in ("min", "max", "mean") if word in statistics]
    parts += [f"{statistics[word]:,} {label}" for word, label in (("nan", "NaN"), ("inf", "infinite")) if statistics.get(word)]
    return f"{kind}  {', '.join(parts)}" if parts else kind


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


# The record in a model, and the findings of an audit, as lines of text or as JSON.

MOST = 20  # nodes shown, and places that were left out


def history(path: str, runs: Sequence[RecordedRun], marked: Sequence[Mark]) -> Printout:
    """The record in a model (`history`): one paragraph for each run, then the nodes."""
    return Printout(
        lambda: {"path": path, "runs": runs, "nodes": marked},
        partial(_history_lines, path, runs, marked),
    )


def _history_lines(path: str, runs: Sequence[RecordedRun], marked: Sequence[Mark], style: Style) -> Iterator[str]:
    if not runs:
        yield f"{clean(path)}: no record of a rewrite"
    for number, run in enumerate(runs, 1):
        yield f"{style.paint('bold', f'{clean(path)}: run {number} of {len(runs)}')}, by version {clean(run.version)}"
        yield from recorded_run_lines(run, style)
    if marked:
        yield f"{counted(len(marked), 'node')} made or changed by rules:"
        for mark in marked[:MOST]:
            where = "" if mark.place == "main" else f"{clean(mark.place)}: "
            yield f"  {where}{clean(mark.node)} ({clean(mark.op)}): {clean(' '.join(mark.rules))}"
        if len(marked) > MOST:
            yield f"  and {len(marked) - MOST} more"


def recorded_run_lines(run: RecordedRun, style: Style) -> Iterator[str]:
    """The record of a run, without its version."""
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


def audit(before: str, after: str, result: Audit) -> Printout:
    """Whether a result agrees with its record (`audit`): the verdict, its reasons, and the differences."""
    return Printout(
        lambda: {
            "input": before,
            "output": after,
            "as_recorded": result.true,
            "runs": result.runs,
            "findings": result.findings,
            "notes": result.notes,
            "differences": result.differences,
        },
        partial(_audit_lines, before, after, result),
    )


def _audit_lines(before: str, after: str, result: Audit, style: Style) -> Iterator[str]:
    word = style.paint("green", "as recorded") if result.true else style.paint("red", "not as recorded")
    done = [f"{code} {count}" for run in result.runs for code, (count, _) in run.rules.items()]
    yield f"{style.paint('bold', clean(after))}: {word}" + (f": {clean(', '.join(done))}" if done and result.true else "")
    yield from (f"  {clean(finding)}" for finding in result.findings)
    yield from (f"  {style.paint('dim', 'note')}: {clean(note)}" for note in result.notes)
    yield from comparison_lines(f"{before}, by the record", after, result.differences, style)


def recorded_firings(model: str, firings: Sequence[Firing]) -> Printout:
    """The rewrites of a recorded run, for choosing one (`undo`), one a line."""
    listed = [{"number": one.number, "rule": one.rule, "place": one.place, "root": one.root} for one in firings]
    places = ["" if one.place == "main" else f" in {one.place}" for one in firings]
    return Printout(
        lambda: {"input": model, "firings": listed},
        lambda style: (
            clean(f"{one.number:>4}  {one.rule}  {one.root} ({one.op}){place}")
            for one, place in zip(firings, places, strict=True)
        ),
    )
