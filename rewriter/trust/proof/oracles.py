"""Two runtimes that compute the outputs of a model: ONNX Runtime without optimisations, and onnx.reference.

Neither is trusted alone. If they disagree on a model that no rule has touched, its operator is put into quarantine.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import numpy as np
import onnx

from rewriter.core.errors import RewriterError, install
from rewriter.core.isolation.budget import within_limits
from rewriter.core.record import record
from rewriter.trust.proof import judges
from rewriter.trust.proof.instances.instance import Array

SECONDS = 5.0
"""For a run in onnx.reference, which computes in Python."""
NO_KERNEL = ("Could not find an implementation", "NOT_IMPLEMENTED", "NotImplemented")
_RIGHT_FROM = {"BatchNormalization": 14, "Softmax": 13, "LogSoftmax": 13, "Hardmax": 13, "PRelu": 7}
_BFLOAT16 = onnx.TensorProto.BFLOAT16

logging.getLogger("onnx").setLevel(logging.ERROR)


@record(frozen=True, slots=True)
class Refusal:
    """Why an oracle does not run a model; `stage` is "load" or "run"."""

    stage: str
    reason: str

    @property
    def no_kernel(self) -> bool:
        """The oracle lacks the operator for these types; this is no fault of the model."""
        return any(word in self.reason for word in NO_KERNEL)

    def __str__(self) -> str:
        return self.reason


Answer = dict[str, Array] | Refusal


class Loaded(Protocol):
    """A model ready to run."""

    def __call__(self, inputs: Mapping[str, Array]) -> Answer: ...


class OnnxRuntime:
    """ONNX Runtime on the CPU."""

    name = judges.NAME

    def load(self, model: onnx.ModelProto) -> Loaded | Refusal:
        """The model in a session."""
        try:
            session = judges.session(model.SerializeToString(), None)
        except Exception as error:
            return Refusal("load", judges.reason(error))
        kinds = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
        names = [output.name for output in session.get_outputs()]
        with_bfloat16 = any(output.type == "tensor(bfloat16)" for output in session.get_outputs())

        def run(inputs: Mapping[str, Array]) -> Answer:
            try:
                fed = {
                    i.name: _to_runtime(inputs[i.name], kinds.get(i.name, 0)) for i in session.get_inputs() if i.name in inputs
                }
                if with_bfloat16:
                    return _with_bfloat16(session, fed, names)
                return dict(zip(names, session.run(names, fed), strict=True))
            except Exception as error:
                return Refusal("run", judges.reason(error))

        return run


class ReferenceOracle:
    """The reference implementation of onnx, in NumPy."""

    name = "onnx.reference"

    def load(self, model: onnx.ModelProto) -> Loaded | Refusal:
        """The model in an evaluator."""
        from onnx.reference import ReferenceEvaluator

        if (name := _distrusted(model)) is not None:
            return Refusal("load", f"{name} is in quarantine")
        try:
            evaluator = ReferenceEvaluator(model)
        except Exception as error:
            return Refusal("load", _words(error))
        names = [output.name for output in model.graph.output]

        def run(inputs: Mapping[str, Array]) -> Answer:
            try:
                with within_limits(SECONDS, None), np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return dict(zip(names, map(np.asarray, evaluator.run(None, dict(inputs))), strict=True))
            except Exception as error:
                return Refusal("run", _words(error))

        return run


def _distrusted(model: onnx.ModelProto) -> str | None:
    """An operator of the model that onnx.reference is known to compute wrongly.

    It runs BatchNormalization of opset 9 to 13 in training mode, and Softmax and its like below opset 13 over one axis. Below
    opset 7 it aligns the slopes of PRelu with the last axis.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    return next((f"{n.op_type}-{opset}" for n in model.graph.node if opset < _RIGHT_FROM.get(n.op_type, 0)), None)


ORACLES = (OnnxRuntime(), ReferenceOracle())


def answer(model: onnx.ModelProto, inputs: Mapping[str, Array], oracle: str) -> Answer:
    """The outputs of a model, computed by the oracle of this name."""
    loaded = next(one for one in ORACLES if one.name == oracle).load(model)
    return loaded if isinstance(loaded, Refusal) else loaded(inputs)


def require_runtime() -> None:
    """Raises RewriterError when ONNX Runtime is not installed."""
    if not judges.installed():
        raise RewriterError(f"verifying needs ONNX Runtime; install it with: {install('verify')}")


def versions() -> dict[str, str]:
    """Versions of the oracles, for the record."""
    return {"onnx": str(onnx.__version__), "onnxruntime": judges.version().split()[-1]}


@cache
def newest_opset() -> int:
    """The newest opset that both oracles run."""
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        graph = onnx.parser.parse_graph("g (float[1] x) => (float[1] y) { y = Identity(x) }")
        imports = [onnx.helper.make_opsetid("", version)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        if not isinstance(ORACLES[0].load(model), Refusal):
            return version
    raise RewriterError("the installed ONNX Runtime runs no opset at all")


def _words(error: Exception) -> str:
    return judges.one_line(f"{type(error).__name__}: {error}")


def _to_runtime(array: Array, kind: int) -> Any:
    if kind == _BFLOAT16:
        onnxruntime = importlib.import_module("onnxruntime")
        bits = np.ascontiguousarray(array).view(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)
    return array


def _with_bfloat16(session: Any, fed: dict[str, Any], names: list[str]) -> Answer:
    """NumPy has no bfloat16, so such results come out as values of the runtime and are read by their bits."""
    import ml_dtypes

    onnxruntime = importlib.import_module("onnxruntime")
    values = {n: v if not isinstance(v, np.ndarray) else onnxruntime.OrtValue.ortvalue_from_numpy(v) for n, v in fed.items()}
    results = session.run_with_ort_values(names, values)
    found: dict[str, Array] = {}
    for name, value in zip(names, results, strict=True):
        if value.data_type() == "tensor(bfloat16)":
            data = ctypes.string_at(value.data_ptr(), 2 * int(np.prod(value.shape())))
            found[name] = np.frombuffer(data, dtype=ml_dtypes.bfloat16).reshape(value.shape())
        else:
            found[name] = value.numpy()
    return found
