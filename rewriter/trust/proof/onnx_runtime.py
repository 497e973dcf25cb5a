"""ONNX Runtime as a check: one thread, no terminal output; with its default optimizations, as users have it, or with none.

It is optional, and it is imported when it first checks a model: a run in which no rule fires does not wait for it.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from rewriter.core.onnxfile import wire

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
