"""Models with known truth on disk: SET/NAME/{model.onnx, data.npz, [data2.npz, ...], meta.json, [symbol.json]}.

The generators write this form and the recorded corpora have it. A case counts only where it is right: ONNX Runtime loads and
runs the model, and its outputs are the framework's within `TOLERANCE`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

TOLERANCE = 1e-3
"""Largest |a - b| / (1 + |b|) of a right model, for every output element b of the framework."""

BROKEN = ("load-fails", "run-fails", "wrong-numbers")
"""What the recorder found of a model that is not right."""

DTYPES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}

Arrays = list[Any]


class NotRightError(Exception):
    """The model does not load, does not run, or its outputs are not the framework's."""


@dataclass(frozen=True)
class Run:
    """Inputs by name, in the order in which they were recorded, and the framework's outputs."""

    inputs: Mapping[str, Any]
    outputs: Sequence[Any]


@dataclass(frozen=True)
class Case:
    """A model, its recorded runs, and the text of its source file where it has one."""

    group: str
    name: str
    exporter: str
    model: onnx.ModelProto
    runs: Sequence[Run]
    symbol: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.group}/{self.name}"


def folders(corpora: Sequence[Path], only: Sequence[str] = ()) -> list[Path]:
    """The folders of all cases in these corpora; `only` keeps the named sets."""
    found = [path.parent for corpus in corpora for path in sorted(corpus.glob("*/*/model.onnx"))]
    return [folder for folder in found if not only or folder.parent.name in only]


def read(folder: Path, *, broken: bool = False) -> Case | None:
    """The case in a folder; None where the framework's outputs are not recorded or the recorder found the model broken, unless
    broken ones are wanted, too.
    """
    meta = json.loads((folder / "meta.json").read_text())
    runs = [run for path in sorted(folder.glob("data*.npz")) if (run := recorded_run(path)) is not None]
    if meta.get("baseline", "ok") not in ("ok", *(BROKEN if broken else ())) or not runs:
        return None
    symbol = folder / "symbol.json"
    return Case(
        folder.parent.name,
        folder.name,
        exporter_of(folder.parent.name),
        onnx.load(folder / "model.onnx"),
        runs,
        symbol.read_text() if symbol.exists() else None,
        meta,
    )


def exporter_of(group: str) -> str:
    """The framework that a set's models come from, by the set's name."""
    for beginning, framework in (
        (("mx", "near", "right-mx"), "MXNet"),
        (("torch", "dynamo", "hf", "timm", "dyn", "right-pt"), "PyTorch"),
        (("tf", "keras"), "TensorFlow and Keras"),
        (("pd",), "Paddle"),
        (("jax",), "JAX"),
        (("sk",), "scikit-learn"),
        (("lib",), "other libraries of PyTorch"),
    ):
        if group.startswith(beginning):
            return framework
    return group


def recorded_run(path: Path) -> Run | None:
    with np.load(path, allow_pickle=True) as data:
        inputs = {key[3:]: data[key] for key in data.files if key.startswith("in_")}
        outputs = [data[f"out_{k}"] for k in range(sum(key.startswith("out_") for key in data.files))]
    return Run(inputs, outputs) if outputs else None


def answers(model: onnx.ModelProto | str, runs: Sequence[Run]) -> list[Arrays]:
    """What ONNX Runtime computes for each run. Raises NotRightError where it refuses."""
    try:
        session = _session(model)
        return [list(leaves(session.run(None, feed(session, run)))) for run in runs]
    except Exception as error:
        raise NotRightError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from None


def _session(model: onnx.ModelProto | str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def feed(session: Any, run: Run) -> dict[str, Any]:
    """The recorded inputs under the session's names: by name where names agree, else by position."""
    wanted = {info.name: info.type for info in session.get_inputs()}
    if set(wanted) <= set(run.inputs):
        pairs = {name: run.inputs[name] for name in wanted}
    elif len(wanted) == len(run.inputs):
        pairs = dict(zip(wanted, run.inputs.values(), strict=True))
    else:
        pairs = {name: value for name, value in run.inputs.items() if name in wanted}
    return {name: _typed(value, wanted[name]) for name, value in pairs.items()}


def _typed(value: Any, wanted: str) -> Any:
    found = re.fullmatch(r"tensor\((\w+)\)", wanted)
    dtype = DTYPES.get(found.group(1)) if found else None
    return value.astype(dtype) if dtype and value.dtype != dtype else value


def leaves(values: Any) -> Iterator[Any]:
    """Tensors of nested outputs (sequences and maps), in order."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from leaves(value)
        elif isinstance(value, Mapping):
            yield from leaves(list(value.values()))
        else:
            yield value


def difference(found: Arrays, wanted: Sequence[Any]) -> str:
    """How outputs differ from the wanted ones beyond `TOLERANCE`, "" where they do not."""
    wanted = list(leaves(wanted))
    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if text := _unlike(np.asarray(a), np.asarray(b)):
            return f"output {k}: {text}"
    return ""


def _unlike(a: Any, b: Any) -> str:
    if a.shape != b.shape:
        return f"shape {a.shape} instead of {b.shape}"
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        return "" if np.array_equal(a.astype(str), b.astype(str)) else "other strings"
    a, b = (x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in (a, b))
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in other places"
    finite = ~np.isnan(a) & ~(np.isinf(a) & np.isinf(b) & (a == b))
    if not finite.any():
        return ""
    with np.errstate(invalid="ignore", over="ignore"):
        worst = float(np.max(np.abs(a[finite] - b[finite]) / (1 + np.abs(b[finite]))))
    return "" if worst <= TOLERANCE else f"differs by {worst:.3g}"


def require_right(model: onnx.ModelProto | str, runs: Sequence[Run]) -> list[Arrays]:
    """The outputs of a right model. Raises NotRightError where it is not right."""
    found = answers(model, runs)
    for outputs, run in zip(found, runs, strict=True):
        if text := difference(outputs, run.outputs):
            raise NotRightError(text)
    return found
