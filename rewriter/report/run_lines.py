"""What a run gave, and how long runs take, as lines of text or as JSON.

The JSON object of `run` holds

    schema, command, model
    runtime, seconds
    inputs, outputs    by name {dtype, shape, min, max, mean, nan, inf}; the last five of numbers only
    written            the file of `-o`, or null

and that of `bench`

    schema, command, runtime
    models             [{model, inputs, load, runs, median, p95, min, mean, nodes}], times in seconds;
                       nodes are [{name, operator, microseconds, calls}] of a run
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewriter.proof.models.benchmark import Timing
from rewriter.proof.models.single_run import SingleRun, described
from rewriter.report.style import Style, clean, counted

_OPERATORS = 8  # that a summary of times lists


def run_object(model: str, run: SingleRun, written: str | None) -> dict[str, Any]:
    """A run, as JSON has it."""
    return {
        "schema": 1,
        "command": "run",
        "model": model,
        "runtime": run.runtime,
        "seconds": run.seconds,
        "inputs": {name: described(value) for name, value in run.feed.items()},
        "outputs": {name: described(value) for name, value in run.outputs.items()},
        "written": written,
    }


def run_lines(model: str, run: SingleRun, written: str | None, style: Style) -> Iterator[str]:
    """A run, for people."""
    yield f"{style.paint('bold', clean(model))}  {run.runtime}, {_time(run.seconds)}"
    yield from _values("inputs", run.feed)
    yield from _values("outputs", run.outputs)
    if written is not None:
        yield f"  written  {clean(written)}"


def bench_object(timings: Sequence[Timing], runtime: str) -> dict[str, Any]:
    """Times, as JSON has them."""
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
    return {"schema": 1, "command": "bench", "runtime": runtime, "models": models}


def bench_lines(timings: Sequence[Timing], runtime: str, *, nodes: bool, style: Style) -> Iterator[str]:
    """Times, for people; `nodes` lists each node."""
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


def _shown(found: Mapping[str, Any]) -> str:
    kind = f"{found['dtype']}[{','.join(map(str, found['shape']))}]"
    parts = [f"{word} {found[word]:.6g}" for word in ("min", "max", "mean") if word in found]
    parts += [f"{found[word]:,} {told}" for word, told in (("nan", "NaN"), ("inf", "infinite")) if found.get(word)]
    return f"{kind}  {', '.join(parts)}" if parts else kind


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
