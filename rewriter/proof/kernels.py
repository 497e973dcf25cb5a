"""Whether ONNX Runtime, as it is installed, has a kernel for a node.

Rules with `evidence: refused(onnxruntime)` lower precision or take a detour only because a kernel is missing. A newer runtime
may have it, so the runtime itself is asked about each node that such a rule would rewrite.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx

from rewriter.proof import onnx_runtime
from rewriter.proof.judges import judges

REFUSALS = frozenset({"NotImplemented", "InvalidGraph"})
"""Classes of errors by which ONNX Runtime says that it has no kernel, or none for these element types."""

SAYS_AT_RUN = frozenset({"LSTM", "GRU"})
"""Operators with a kernel that loads for every floating-point type, and says when it runs that it does not take one."""
AT_RUN = "does not support"


def has_kernel(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime takes a model of one node; None where it cannot say."""
    if not onnx_runtime.installed():
        return None
    runs = model.graph.node[0].op_type in SAYS_AT_RUN
    if runs:
        model = _of_any_rank(model)
    return _takes(model.SerializeToString(deterministic=True), runs)


def _of_any_rank(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, whose inputs do not say their ranks: those that it is run on have three dimensions each."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        info.type.tensor_type.ClearField("shape")
    return copy


@lru_cache(maxsize=4096)
def _takes(data: bytes, runs: bool) -> bool | None:
    try:
        refused = judges.kernel(data, _FEED if runs else None)
    except judges.NoAnswer:
        return None
    if refused is None:
        return True
    return AT_RUN not in refused.reason if refused.kind == "run" else refused.kind not in REFUSALS


_NUMPY = {"tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int32)": np.int32, "": np.float32}
_FEED = {kind: np.zeros((1, 1, 1), dtype) for kind, dtype in _NUMPY.items()}
"""Shapes do not matter: a kernel looks at the type first."""
