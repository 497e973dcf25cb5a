"""Shapes that `onnx.shape_inference` gets wrong: where every runtime computes something else, or runtimes disagree."""

from __future__ import annotations

import numpy as np

from rewriter.facts.node_facts import NodeFacts
from rewriter.onnxfile.tensor_types import Dim

_POOLS = ("MaxPool", "AveragePool", "LpPool")


def corrected(facts: NodeFacts, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The inferred shape of the first output, with what is wrong in it put right or made unknown."""
    if facts.domain:
        return shape
    if facts.op in _POOLS and facts.integer("ceil_mode", 0):
        return _ceiled(facts, shape)
    if facts.op in ("Resize", "Upsample"):
        return _scaled(facts, shape)
    return shape


def _ceiled(facts: NodeFacts, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Pooling that rounds up leaves out a window that would begin behind the input; the inference counts it."""
    source, kernel = facts.shape(0), facts.integers("kernel_shape")
    if source is None or kernel is None or len(source) != len(shape) != len(kernel) + 1:
        return shape
    axes = len(kernel)
    strides = facts.integers("strides") or [1] * axes
    pads = facts.integers("pads") or [0] * (2 * axes)
    if facts.text("auto_pad", "NOTSET") != "NOTSET" or len(strides) != axes or len(pads) != 2 * axes:
        return shape
    dims = list(shape)
    for i, dim in enumerate(source[2:]):
        made = dims[i + 2]
        if isinstance(dim, int) and isinstance(made, int) and (made - 1) * strides[i] >= dim + pads[i]:
            dims[i + 2] = made - 1
    return tuple(dims)


def _scaled(facts: NodeFacts, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """A length times a scale: unknown where it is rounded differently in single and in double precision."""
    source = facts.shape(0)
    scales = facts.constant(2 if facts.op == "Resize" and len(facts.types) > 2 else 1)
    axes = facts.integers("axes") or list(range(len(shape)))
    if facts.has(3) or source is None or scales is None or scales.shape != (len(axes),) or len(source) != len(shape):
        return shape
    dims = list(shape)
    for axis, scale in zip(axes, np.asarray(scales, np.float32), strict=True):
        dim = source[axis] if -len(dims) <= axis < len(dims) else None
        if isinstance(dim, int) and np.floor(np.float32(dim) * scale) != np.floor(float(dim) * float(scale)):
            dims[axis] = None
    return tuple(dims)
