"""Whether ONNX Runtime, as it is installed, has a kernel for a node.

Rules with `evidence: refused(onnxruntime)` lower precision or take a detour only because a kernel is missing. A newer runtime
may have it, so the runtime itself is asked about each node that such a rule would rewrite.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx

from rewriter.trust.proof import onnx_runtime
from rewriter.trust.proof.judges import judges

REFUSALS = frozenset({"NotImplemented", "InvalidGraph"})
"""Classes of errors by which ONNX Runtime says that it has no kernel, or none for these element types."""

SAYS_AT_RUN = frozenset({"GRU", "LSTM", "ScatterElements"})
"""Operators with a kernel that loads for every floating-point type, and says when it runs that it does not take one."""
AT_RUN = ("does not support", "data type is not supported")


def has_kernel(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime takes a model of one node; None where it cannot say.

    That it refuses the node for shapes, which are not all known, says nothing of kernels: it is asked about types alone then.
    """
    if not onnx_runtime.installed():
        return None
    runs = model.graph.node[0].op_type in SAYS_AT_RUN
    answer = _OTHER if runs else _answer(model.SerializeToString(deterministic=True), runs)
    if answer == _OTHER:
        answer = _answer(_of_any_rank(model).SerializeToString(deterministic=True), runs)
    return None if answer == _NONE else answer != _LACKS


def _of_any_rank(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, whose inputs do not say their ranks, and along an axis that all have: it is run on three dimensions."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for attribute in copy.graph.node[0].attribute:
        if attribute.name == "axis":
            attribute.i = 0
    for info in copy.graph.input:
        info.type.tensor_type.ClearField("shape")
    return copy


@lru_cache(maxsize=4096)
def _answer(data: bytes, runs: bool) -> str:
    """What ONNX Runtime says of a model, and of running it."""
    try:
        refused = judges.kernel(data, _FEED if runs else None)
    except judges.NoAnswer:
        return _NONE
    if refused is None:
        return _TAKES
    if refused.kind == "run":
        return _LACKS if any(words in refused.reason for words in AT_RUN) else _OTHER
    return _LACKS if refused.kind in REFUSALS else _OTHER


_TAKES, _LACKS, _OTHER, _NONE = "takes it", "has no kernel", "refuses it for something else", "does not say"
_NUMPY = {"tensor(double)": "float64", **{f"tensor({name})": name for name in ("float16", "int32", "int64")}, "": "float32"}
_FEED = {kind: np.zeros((1, 1, 1), dtype) for kind, dtype in _NUMPY.items()}
"""Shapes do not matter: a kernel looks at the type first."""
