"""How long ONNX Runtime takes, measured in the child process: a run is timed where it happens, and not its way there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rewriter.proof import onnx_runtime

NodeTime = tuple[str, str, float, int]
"""Name and operator of a node as it ran, its microseconds in a run, and how often it ran in that."""

MOST_EVENTS = 40_000
"""Of a profile; each is some hundred bytes of JSON."""
FEWEST, MOST = 3, 1000
"""Runs where no number is given."""


def bench(
    models: Sequence[tuple[str, Mapping[str, Any]]],
    runs: int | None,
    warmup: int,
    seconds: float,
    threads: int,
    optimize: bool,
    profiles: str | None,
) -> list[dict[str, Any]]:
    """Times models in turns, so that a machine that becomes slower does so for all of them.

    Args:
        models: files with their inputs.
        runs: of each; None: as many as fit.
        warmup: runs of each before any is timed.
        seconds: for all timed runs, where no number is given.
        threads: for one model; 0 leaves that to the runtime.
        optimize: whether the runtime optimizes the models.
        profiles: a folder for profiles; None takes none.

    Returns:
        Of each model `load`, seconds; `times`, seconds; `nodes`, where there are profiles; or `refused`, why it does not run.
    """
    found: list[dict[str, Any]] = []
    ready = []
    for path, feed in models:
        one: dict[str, Any] = {"times": [], "nodes": []}
        found.append(one)
        try:
            start = time.perf_counter()
            session = _session(path, threads, optimize, None)
            one["load"] = time.perf_counter() - start
            for _ in range(warmup):
                session.run(None, dict(feed))
            ready.append((session, dict(feed), one["times"]))
        except Exception as error:
            one["refused"] = onnx_runtime.reason(error)
    end = time.perf_counter() + seconds
    for number in range(runs or MOST):
        if runs is None and number >= FEWEST and time.perf_counter() > end:
            break
        for session, feed, times in ready:
            start = time.perf_counter()
            session.run(None, feed)
            times.append(time.perf_counter() - start)
    del ready
    for (path, feed), one in zip(models, found, strict=True):
        if profiles is not None and "refused" not in one:
            one["nodes"] = _profile(path, dict(feed), threads, optimize, profiles, max(warmup, 1), len(one["times"]))
    return found


def _profile(
    path: str, feed: dict[str, Any], threads: int, optimize: bool, folder: str, warmup: int, runs: int
) -> list[NodeTime]:
    """The nodes of a model, the longest first."""
    session = _session(path, threads, optimize, folder)
    try:
        for _ in range(warmup):
            session.run(None, feed)
    finally:
        file = Path(session.end_profiling())
    once = max(file.stat().st_size // (200 * warmup), 1)
    file.unlink()
    runs = max(min(runs, MOST_EVENTS // once), 1)
    session = _session(path, threads, optimize, folder)
    for _ in range(runs + 1):
        session.run(None, feed)
    file = Path(session.end_profiling())
    events = [event for event in json.loads(file.read_bytes()) if event.get("cat") == "Node"]
    file.unlink()
    totals: dict[str, tuple[str, list[float]]] = {}
    for event in events:
        name = str(event.get("name", ""))
        if name.endswith("_kernel_time"):
            operator = str(event.get("args", {}).get("op_name", ""))
            totals.setdefault(name.removesuffix("_kernel_time"), (operator, []))[1].append(float(event.get("dur", 0)))
    nodes = []
    for name, (operator, times) in totals.items():
        calls = max(len(times) // (runs + 1), 1)
        nodes.append((name, operator, calls * median(times[calls:] or times), calls))  # the first run allocates
    return sorted(nodes, key=lambda node: -node[2])


def _session(path: str, threads: int, optimize: bool, profiles: str | None) -> Any:
    runtime = onnx_runtime.module()
    options = runtime.SessionOptions()
    levels = runtime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if profiles is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(profiles) / "profile")
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"], enable_fallback=0)
