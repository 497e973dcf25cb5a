"""Whether ONNX Runtime, as it is installed, has a kernel for a node.

Rules with `evidence: refused(onnxruntime)` lower precision or take a detour only because a kernel is missing. A newer runtime
may have it, so the runtime itself is asked about each node that such a rule would rewrite.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx

from rewriter.proof import onnx_runtime

REFUSALS = frozenset({"NotImplemented", "InvalidGraph"})
"""Classes of errors by which ONNX Runtime says that it has no kernel, or none for these element types."""

SAYS_AT_RUN = frozenset({"LSTM", "GRU"})
"""Operators with a kernel that loads for every floating-point type, and says when it runs that it does not take one."""
AT_RUN = "does not support"


def has_kernel(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime takes a model of one node; None where ONNX Runtime is not installed."""
    if not onnx_runtime.installed():
        return None
    return _takes(model.SerializeToString(deterministic=True), model.graph.node[0].op_type in SAYS_AT_RUN)


@lru_cache(maxsize=4096)
def _takes(data: bytes, runs: bool) -> bool:
    try:
        session = onnx_runtime.session(data, None)
    except Exception as error:
        return type(error).__name__ not in REFUSALS
    if not runs:
        return True
    try:  # shapes do not matter: the kernel looks at the type first
        session.run(None, {one.name: np.zeros((1, 1, 1), _NUMPY.get(one.type, np.float32)) for one in session.get_inputs()})
    except Exception as error:
        return AT_RUN not in str(error)
    return True


_NUMPY = {"tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int32)": np.int32}
