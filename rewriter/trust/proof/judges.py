"""Checks of models by ONNX's checker, ONNX Runtime and onnx.reference, in a child process within the limits of a model.

If the system cannot fork, they run in this process, without limits. A rejection is an answer like any other. Lack of memory is
no answer: `MemoryError` reports it, whichever class or message the code chose for it.

ONNX Runtime runs with one thread and no terminal output; with its default optimizations, as users have it, or with none. It is
optional, and it is imported when it first checks a model: a run in which no rule fires does not wait for it.

Rules with `evidence: refused(onnxruntime)` lower precision or take a detour only because a kernel is missing. A newer runtime
may have the kernel, so the installed runtime itself checks each node that such a rule would rewrite.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rewriter.core.isolation.budget import current
from rewriter.core.isolation.child import LARGE, Child, NoAnswer, TooSlow, possible
from rewriter.core.onnxfile import wire
from rewriter.core.record import record

if TYPE_CHECKING:
    import onnx


NAME = "ONNX Runtime"
PLAIN = "ONNX Runtime with optimizations off"
MODERATE = 2**28
"""Bytes of a model, with its data, up to which it is loaded only to find out whether it is rejected."""
MANY_NODES = 4096
"""Nodes of a model beyond which ONNX Runtime merges no equal ones: its pass for that takes a time that grows with the square of
their number and more, half a second for 8,000 of them, and no answer in time for 100,000."""
_GRAPH, _NODE = 7, 1  # numbers of fields, in a model and in a graph
_MERGING = ["CommonSubexpressionElimination"]
_FOLDER = "session.model_external_initializers_file_folder_path"
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE_FILE = re.compile(
    r"(?<!\S)\S*/(onnxruntime|onnx)/\S+?:\d+ "
    # and the C++ function, which can be longer than what is printed of a message
    r"(?:[\w:<>*&,~ ]*::[\w:<>*&,~ ]*\((?:[^()]|\([^()]*\))*\) (?:const )?(?:\[with [^\]]*\] )?)?"
)
_MOST = 300  # characters of a message
_READ = 2000  # characters that are read: a name of a megabyte may occur in it


@lru_cache(maxsize=1)
def installed() -> bool:
    """Whether ONNX Runtime can be imported; finding that out does not import it."""
    return find_spec("onnxruntime") is not None


def session(data: bytes, folder: Path | None, *, optimized: bool = False) -> Any:
    """An `onnxruntime.InferenceSession` of a serialised model.

    Args:
        data: the model; at most 2 GiB.
        folder: of external data; the caller has made sure that no tensor leads out of it.
        optimized: by default the model is optimized, and fails where an optimization does; of more than `MANY_NODES` nodes
            equal ones are not merged. Without optimizations, its weights stay where they are: weights in other files are only
            mapped into memory.

    Raises:
        Exception: of any class that ONNX Runtime chose; `reason` makes a line of it.
    """
    runtime = module()
    options = runtime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", "1")  # useful only for many runs of a model
    if folder is not None:
        options.add_session_config_entry(_FOLDER, str(folder))
    skipped = _MERGING if optimized and has_many_nodes(data) else None
    # Its fallback after a failure prints a message on the terminal, and there is no other provider to try.
    return runtime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"], enable_fallback=0, disabled_optimizers=skipped
    )


def has_many_nodes(data: bytes) -> bool:
    """Whether the graph of a serialised model has more than `MANY_NODES` nodes; the others are not looked at."""
    if len(data) <= 2 * MANY_NODES:  # a node takes two bytes and its content
        return False
    source = wire.Source.of(data)
    try:
        parts = ((start, stop) for number, _, _, start, stop in wire.fields(source, 0, len(data)) if number == _GRAPH)
        nodes = (1 for start, stop in parts for number, *_ in wire.fields(source, start, stop) if number == _NODE)
        return next(islice(nodes, MANY_NODES, None), 0) == 1
    except wire.MalformedError:  # ONNX Runtime reports the fault
        return False


def version() -> str:
    """ "ONNX Runtime 1.20.1"."""
    return f"{NAME} {module().__version__}"


def reason(error: Exception) -> str:
    """Why ONNX Runtime rejected the model, as one line without its codes, its own source files and their functions."""
    return one_line(_SOURCE_FILE.sub("", _PREFIX.sub("", str(error)[:_READ])))


def one_line(message: str) -> str:
    """A message on one line of bearable length."""
    line = " ".join(message.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."


def is_cut(message: str) -> bool:
    """Whether a line of `one_line` lacks the end of the message."""
    return len(message) > _MOST


@lru_cache(maxsize=1)
def module() -> Any:
    """ONNX Runtime's module, without its telemetry: as soon as it is imported it would write an identifier of the machine into
    the user's cache folder, and send it to its maker.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # type: ignore[import-untyped]

    onnxruntime.disable_telemetry_events()
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime


# How long ONNX Runtime takes, measured in the child process: only the run is timed, not the way to the child.

NodeTime = tuple[str, str, float, int]
"""Name and operator of a node as it ran, its microseconds in a run, and how often it ran in that."""

MOST_EVENTS = 40_000
"""Events of a profile; each is some hundred bytes of JSON."""
FEWEST, MOST = 3, 1000
"""Runs if no number is set."""


def measure(
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
            one["refused"] = reason(error)
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
    runtime = module()
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
    loaded = session(data, None)
    if shapes is None:
        return None
    inputs = loaded.get_inputs()
    fed = {one.name: _zeros(one.type[7:-1], shapes[min(at, len(shapes) - 1)]) for at, one in enumerate(inputs)}
    try:
        loaded.run_with_ort_values([one.name for one in loaded.get_outputs()], fed)
    except Exception as error:
        return Refused("run", str(error))
    return None


def _zeros(element: str, shape: Sequence[int]) -> Any:
    """A tensor of zeros of this element type in ONNX Runtime. NumPy has no bfloat16, whose zeros are integers of its size."""
    import numpy as np
    import onnx

    values, make = np.zeros(shape, _NUMPY.get(element, element)), module().OrtValue
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
    return one_line(said.decode(errors="backslashreplace") if isinstance(said, bytes) else str(error))


def _session(runtime: str, data: bytes, folder: Path | None) -> Any:
    if runtime != REFERENCE:
        return session(data, folder, optimized=runtime == NAME)
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
    "measure": measure,
    "version": version,
}

_WORDS: dict[str, Callable[[Exception], str]] = {
    **dict.fromkeys(("open", "run", "kernel"), reason),
    **dict.fromkeys(("check", "print", "parse"), _line),
}
"""The questions whose errors are rejections, with the function that makes the message of an error."""


CHECKER, FULL_CHECK = "onnx.checker", "onnx.checker with shape inference"
SESSION = NAME

_CHILD = Child(answer)
_keys = count(1)


class RefusedError(Exception):
    """A check rejects a model, or fails in it; `kind` is the class of the error that it raised."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.kind = refused.kind


def check(model: bytes | str, *, full: bool) -> str:
    """Why `onnx.checker` rejects a model, or the file of one; "" if the model passes.

    Raises:
        NoAnswer: the checker has no result.
    """
    found = _ask(FULL_CHECK if full else CHECKER, "check", model, full)
    return found.reason if found is not None else ""


def print_text(data: bytes) -> str:
    """A serialised model in ONNX's own text.

    Raises:
        RefusedError: the model has a part that cannot be written as text.
        NoAnswer: the printer has no result.
    """
    return str(_taken(_ask("", "print", data)))


def parse_text(text: str) -> bytes:
    """The serialised model of a text. Raises RefusedError if there is an error in the text, and NoAnswer."""
    return bytes(_taken(_ask("", "parse", text)))


def bench(*question: Any) -> list[dict[str, Any]]:
    """The measurements of `measure`. Raises NoAnswer if it does not finish."""
    found: list[dict[str, Any]] = _ask("", "measure", *question)
    return found


@lru_cache(maxsize=1)
def runtime_version() -> str:
    """ "ONNX Runtime 1.20.1"."""
    return str(_ask("", "version"))


class Session:
    """A model loaded for runs, in the child.

    Args:
        data: the model; at most 2 GiB.
        folder: of external data; the caller has made sure that no tensor leads out of it.
        runtime: `SESSION`, `PLAIN` or "onnx.reference".

    Attributes:
        outputs: their names.

    Raises:
        RefusedError: the runtime rejects the model.
        NoAnswer: the runtime has no result.
    """

    def __init__(self, data: bytes, folder: Path | None, runtime: str = SESSION) -> None:
        from rewriter.core.onnxfile.external_data import may_refer

        self._model = runtime, data, folder if may_refer(data) else None
        self._key = next(_keys)
        self.outputs: list[str] = _taken(_ask(runtime, "open", self._key, *self._model))
        self._process = _CHILD.number

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any], *, seconds: float | None = None) -> list[Any]:
        """Runs the model. Returns all outputs for None; an empty list of names only checks that the model runs.

        Raises:
            RefusedError: the model fails.
            NoAnswer: the model does not finish, or ends the process.
        """
        runtime, data, folder = self._model
        request = names, dict(feed)
        judge = f"{runtime}, run" if seconds is None else ""
        found = _ask(judge, "run", self._key, runtime, None, folder, *request, seconds=seconds)
        if isinstance(found, NotKept):
            found = _ask(judge, "run", self._key, runtime, data, folder, *request, seconds=seconds)
            self._process = _CHILD.number
        return list(_taken(found))

    def __del__(self) -> None:
        _, data, folder = self._model
        large = folder is not None or len(data) >= LARGE
        if (_CHILD.worn or large) and getattr(self, "_process", -1) == _CHILD.number:
            _CHILD.close()  # with the memory that a large model takes


def _taken(found: Any) -> Any:
    if isinstance(found, Refused):
        raise RefusedError(found)
    return found


def _ask(judge: str, *question: Any, seconds: float | None = None) -> Any:
    """The answer of the child; a `judge` that was too slow for one state of a model is not used for another state."""
    if not possible():
        return answer(*question)
    if _CHILD.worn and question[0] != "run":
        _CHILD.close()
    silent = current().silent
    if judge in silent:
        raise silent[judge]
    try:
        return _CHILD.ask_within_limits(*question, seconds=seconds)
    except TooSlow as error:
        if judge:
            silent[judge] = error
        raise


REFUSALS = frozenset({"NotImplemented", "InvalidGraph"})
"""Classes of errors by which ONNX Runtime reports that it has no kernel, or none for these element types."""

_ANY_SHAPE: tuple[tuple[int, ...], ...] = ((1, 1, 1),)
SAYS_AT_RUN = {"GRU": _ANY_SHAPE, "LSTM": _ANY_SHAPE, "ScatterElements": _ANY_SHAPE, "ScatterND": ((1,), (1, 1), (1,))}
"""Operators with a kernel that loads for every floating-point type, and rejects some types only when it runs. Each has the
shapes of its operands in such a run. The last shape is also that of all further operands.
"""
AT_RUN = ("does not support", "data type is not supported")
AT_LOAD = ("Failed to construct locale", "Batchwise recurrent operations (layout == 1) are not supported")
"""Errors of a kernel that does not load: the machine lacks a locale that it needs, or it does not know an attribute's value."""


def has_kernel(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime loads a model of one node; None if it has no result.

    A rejection because of shapes, which are not all known, says nothing about kernels: types alone are checked then.
    """
    if not installed():
        return None
    shapes = SAYS_AT_RUN.get(model.graph.node[0].op_type)
    answer = _OTHER if shapes else _answer(model.SerializeToString(deterministic=True), shapes)
    if answer == _OTHER:
        answer = _answer(_of_any_rank(model).SerializeToString(deterministic=True), shapes)
    return None if answer == _NONE else answer != _LACKS


def _of_any_rank(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with inputs of unknown rank and an axis that all ranks have."""

    copy = deepcopy(model)
    for attribute in copy.graph.node[0].attribute:
        if attribute.name == "axis":
            attribute.i = 0
    for info in copy.graph.input:
        info.type.tensor_type.ClearField("shape")
    return copy


@lru_cache(maxsize=4096)
def _answer(data: bytes, shapes: Sequence[Sequence[int]] | None) -> str:
    """The result of loading a model in ONNX Runtime and, if there are `shapes`, of running it on zeros."""
    try:
        refused: Refused | None = _ask("", "kernel", data, shapes)
    except NoAnswer:
        return _NONE
    if refused is None:
        return _TAKES
    if refused.kind == "run":
        return _LACKS if any(words in refused.reason for words in AT_RUN) else _OTHER
    lacks = refused.kind in REFUSALS or any(words in refused.reason for words in AT_LOAD)
    return _LACKS if lacks else _OTHER


_TAKES, _LACKS, _OTHER, _NONE = "loads it", "has no kernel", "rejects it for another reason", "gave no verdict"
