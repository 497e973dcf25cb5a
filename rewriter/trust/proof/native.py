"""The questions to native code, as the child process carries them out.

A rejection is an answer like any other. Lack of memory is no answer: `MemoryError` reports it, whichever class or message the
code chose for it.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rewriter.core.record import record
from rewriter.trust.proof import onnx_runtime

# How long ONNX Runtime takes, measured in the child process: only the run is timed, not the way to the child.

NodeTime = tuple[str, str, float, int]
"""Name and operator of a node as it ran, its microseconds in a run, and how often it ran in that."""

MOST_EVENTS = 40_000
"""Events of a profile; each is some hundred bytes of JSON."""
FEWEST, MOST = 3, 1000
"""Runs if no number is set."""


def bench(
    models: Sequence[tuple[str, Mapping[str, Any]]],
    runs: int | None,
    warmup: int,
    seconds: float,
    threads: int,
    optimize: bool,
    profiles: str,
) -> list[dict[str, Any]]:
    """Times models in turns, so that a machine that becomes slower does so for all of them.

    Args:
        models: files with their inputs.
        runs: of each; None: as many as fit.
        warmup: runs of each before any is timed.
        seconds: for all timed runs, if no number is set.
        threads: for one model; 0 leaves that to the runtime.
        optimize: whether the runtime optimizes the models.
        profiles: a folder for profiles.

    Returns:
        For each model `load`, seconds; `times`, seconds; and `nodes`; or `refused`, why it does not run.
    """
    found: list[dict[str, Any]] = []
    ready = []
    for path, feed in models:
        one: dict[str, Any] = {"times": [], "nodes": []}
        found.append(one)
        try:
            start = time.perf_counter()
            session = _timed_session(path, threads, optimize, None)
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
        if "refused" not in one:
            one["nodes"] = _profile(path, dict(feed), threads, optimize, profiles, max(warmup, 1), len(one["times"]))
    return found


def _profile(
    path: str, feed: dict[str, Any], threads: int, optimize: bool, folder: str, warmup: int, runs: int
) -> list[NodeTime]:
    """The nodes of a model, the longest first."""
    session = _timed_session(path, threads, optimize, folder)
    try:
        for _ in range(warmup):
            session.run(None, feed)
    finally:
        file = Path(session.end_profiling())
    once = max(file.stat().st_size // (200 * warmup), 1)
    file.unlink()
    runs = max(min(runs, MOST_EVENTS // once), 1)
    session = _timed_session(path, threads, optimize, folder)
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


def _timed_session(path: str, threads: int, optimize: bool, profiles: str | None) -> Any:
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


REFERENCE = "onnx.reference"
KEPT = 1 << 25
"""Bytes of models whose sessions are kept; one that is larger, or has weights in other files, is kept alone."""

_NO_MEMORY = ("Failed to allocate memory", "bad allocation", "std::bad_alloc", "bad_alloc", "Unable to allocate")


@record(frozen=True, slots=True)
class Refused:
    """Why a check rejects a model: the class of the error, and one line."""

    kind: str
    reason: str


class NotKept:
    """There is no session of this number here any more."""


class _Sessions:
    """Models loaded for runs."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Any, int]] = OrderedDict()

    def find(self, key: int) -> Any:
        return self._kept[key][0] if key in self._kept else None

    def make(self, key: int, runtime: str, data: bytes, folder: Path | None) -> Any:
        """A new session; if all would be too large, the others are released before, so that no weights are in memory twice."""
        size = len(data) if folder is None else KEPT
        while self._kept and size + sum(size for _, size in self._kept.values()) > KEPT:
            self._kept.popitem(last=False)
        session = _session(runtime, data, folder)
        self._kept[key] = session, size
        return session


_sessions = _Sessions()


def answer(question: str, *arguments: Any) -> Any:
    """Answers one question, by the name of its function here. Raises MemoryError if that is the meaning of an error."""
    try:
        return _QUESTIONS[question](*arguments)
    except Exception as error:
        if question not in _WORDS:
            raise
        if isinstance(error, MemoryError) or any(lack in str(error) for lack in _NO_MEMORY):
            raise MemoryError from error
        return Refused(type(error).__name__, _WORDS[question](error))


def _check(model: bytes | str, full: bool) -> None:
    """The result of `onnx.checker` for a model, or for a file."""
    import onnx

    onnx.checker.check_model(model, full_check=full)


def _open(key: int, runtime: str, data: bytes, folder: Path | None) -> list[str]:
    """Makes a model ready to run; the names of its outputs."""
    return _outputs(_sessions.make(key, runtime, data, folder))


def _run(
    key: int, runtime: str, data: bytes | None, folder: Path | None, names: Sequence[str] | None, feed: Mapping[str, Any]
) -> Any:
    """Runs a model; returns its outputs or, if `names` is empty, only that it ran.

    Pass `data` if the model may have to be loaded again.
    """
    import numpy as np

    session = _sessions.find(key)
    if session is None:
        if data is None:
            return NotKept()
        session = _sessions.make(key, runtime, data, folder)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx.reference computes in NumPy, which warns of every overflow
        found = session.run(None if not names else list(names), dict(feed))
    return [] if names is not None and not names else found


_NUMPY = {"double": "float64", "float": "float32", "bfloat16": "uint16"}


def _kernel(data: bytes, shapes: Sequence[Sequence[int]] | None) -> Refused | None:
    """Whether ONNX Runtime takes a model of one node: it is loaded and, with `shapes`, run on zeros of these shapes."""
    session = onnx_runtime.session(data, None)
    if shapes is None:
        return None
    inputs = session.get_inputs()
    fed = {one.name: _zeros(one.type[7:-1], shapes[min(at, len(shapes) - 1)]) for at, one in enumerate(inputs)}
    try:
        session.run_with_ort_values([one.name for one in session.get_outputs()], fed)
    except Exception as error:
        return Refused("run", str(error))
    return None


def _zeros(element: str, shape: Sequence[int]) -> Any:
    """A tensor of zeros of this element type in ONNX Runtime. NumPy has no bfloat16, whose zeros are integers of its size."""
    import numpy as np
    import onnx

    values, make = np.zeros(shape, _NUMPY.get(element, element)), onnx_runtime.module().OrtValue
    if element == "bfloat16":
        return make.ortvalue_from_numpy_with_onnx_type(values, onnx.TensorProto.BFLOAT16)
    return make.ortvalue_from_numpy(values)


def _print_text(data: bytes) -> str:
    """A model in ONNX's own text."""
    import onnx
    from onnx import printer

    return str(printer.to_text(onnx.ModelProto.FromString(data)))


def _parse_text(text: str) -> bytes:
    """The model of a text, serialised."""
    from onnx import parser

    return bytes(parser.parse_model(text).SerializeToString())


def _line(error: Exception) -> str:
    """The error message of ONNX, on one line; its parser returns the message as bytes."""
    said = error.args[0] if error.args else ""
    return onnx_runtime.one_line(said.decode(errors="backslashreplace") if isinstance(said, bytes) else str(error))


def _session(runtime: str, data: bytes, folder: Path | None) -> Any:
    if runtime != REFERENCE:
        return onnx_runtime.session(data, folder, optimized=runtime == onnx_runtime.NAME)
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto.FromString(data)
    if folder is not None:
        onnx.load_external_data_for_model(model, str(folder))
    return ReferenceEvaluator(model)


def _outputs(session: Any) -> list[str]:
    names = getattr(session, "output_names", None)
    return [output.name for output in session.get_outputs()] if names is None else list(names)


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "check": _check,
    "open": _open,
    "run": _run,
    "kernel": _kernel,
    "print": _print_text,
    "parse": _parse_text,
    "bench": bench,
    "version": onnx_runtime.version,
}

_WORDS: dict[str, Callable[[Exception], str]] = {
    **dict.fromkeys(("open", "run", "kernel"), onnx_runtime.reason),
    **dict.fromkeys(("check", "print", "parse"), _line),
}
"""The questions whose errors are rejections, with the function that makes the message of an error."""
