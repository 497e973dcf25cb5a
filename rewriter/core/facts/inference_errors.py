"""What `onnx.shape_inference` gets wrong (onnx 1.23), by operator: it is put right, or made unknown.

`benchmarks/facts.py` finds such errors: it compares what is inferred with what a runtime computes. `infer.py` asks this module
about each answer before anything is added to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rewriter.core.facts.node_facts import NodeFacts
from rewriter.core.facts.shape_rules import output_shape
from rewriter.core.facts.shape_values import add, divide_exactly, multiply
from rewriter.core.language.operator_traits import pick
from rewriter.core.onnxfile.tensors import Dim, TensorType

Shape = tuple[Dim, ...]
Shapes = list[Shape | None]


def corrected(facts: NodeFacts, found: list[TensorType]) -> list[TensorType]:
    """The inferred types of all outputs of a node, without what is wrong in their shapes."""
    correct = None if facts.domain else pick(CORRECTIONS, facts.op)
    if correct is None:
        return found
    shapes = correct(facts, [known.shape for known in found])
    return [known._replace(shape=shape) for known, shape in zip(found, shapes, strict=True)]


def _pool(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Pooling that rounds up leaves out a window that would begin behind the input; the inference counts it."""
    if facts.integer("ceil_mode", 0) not in (0, 1):
        return [None for _ in shapes]  # the inference rounds up, ONNX Runtime does not
    return [None if shape is None else _ceiled(facts, shape) for shape in shapes]


def _ceiled(facts: NodeFacts, shape: Shape) -> Shape:
    source, kernel = facts.shape(0), facts.integers("kernel_shape")
    if not facts.integer("ceil_mode", 0) or source is None or kernel is None or len(source) != len(shape) != len(kernel) + 1:
        return shape
    axes = len(kernel)
    strides = facts.integers("strides") or [1] * axes
    pads = facts.integers("pads") or [0] * (2 * axes)
    if facts.text("auto_pad", "NOTSET") != "NOTSET" or len(strides) != axes or len(pads) != 2 * axes:
        return shape
    dims = list(shape)
    for i, dim in enumerate(source[2:]):
        size = dims[i + 2]
        if isinstance(dim, int) and isinstance(size, int) and (size - 1) * strides[i] >= dim + pads[i]:
            dims[i + 2] = size - 1
    return tuple(dims)


def _resize(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """A length times a scale: unknown where it is rounded differently in single and in double precision."""
    source, shape = facts.shape(0), shapes[0]
    scales = facts.constant(2 if facts.op == "Resize" and len(facts.types) > 2 else 1)
    if facts.has(3) or shape is None or source is None or scales is None or len(source) != len(shape):
        return shapes
    axes = facts.integers("axes") or list(range(len(shape)))
    if scales.shape != (len(axes),):
        return shapes
    dims = list(shape)
    for axis, scale in zip(axes, np.asarray(scales, np.float32), strict=True):
        dim = source[axis] if -len(dims) <= axis < len(dims) else None
        if isinstance(dim, int) and np.floor(np.float32(dim) * scale) != np.floor(float(dim) * float(scale)):
            dims[axis] = None
    return [tuple(dims), *shapes[1:]]


def _fourier_frames(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Without `onesided` half of the frequencies are left out; the inference counts them all."""
    source, shape = facts.shape(0), shapes[0]
    if shape is None or len(shape) != 4 or "onesided" in facts.attrs:
        return shapes
    lengths, real = shape[2], source is not None and source[-1:] == (1,)
    half = lengths // 2 + 1 if isinstance(lengths, int) and real else None
    return [(*shape[:2], half, shape[3]), *shapes[1:]]


def _attention(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """The inference takes an unknown length for 0, and does not know the fourth output."""
    query, key, value = (facts.shape(i) for i in range(3))
    shapes = [None, *shapes[1:3], *(None for _ in shapes[3:])][: len(shapes)]
    if query is None or key is None or value is None or not len(query) == len(key) == len(value) or len(query) not in (3, 4):
        return shapes
    if len(query) == 3:
        heads: Dim = facts.integer("q_num_heads", 0) or None
        groups = facts.integer("kv_num_heads", 0) or None
        width = multiply(heads, divide_exactly(value[2], groups))
        shapes[0] = (query[0], query[1], width)
        length, added = query[1], key[1]
    else:
        heads, length, added = query[1], query[2], key[2]
        shapes[0] = (query[0], heads, length, value[3])
    past = facts.shape(4)
    before: Dim = 0 if not facts.has(4) else past[2] if past is not None and len(past) == 4 else None
    if len(shapes) > 3:
        shapes[3] = (query[0], heads, length, add(before, added))
    return shapes


def _grid(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """A runtime makes as many grids as there are matrices; the inference believes the size, of whatever batch."""
    matrices, shape = facts.shape(0), shapes[0]
    if not shape:
        return shapes
    agrees = bool(matrices) and matrices is not None and matrices[0] == shape[0]
    return [shape if agrees else (None, *shape[1:]), *shapes[1:]]


def _loss(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Not reduced, there is a loss for each target; the inference takes the lengths of the scores for those of the targets."""
    return [facts.shape(1) if facts.text("reduction", "mean") == "none" else shapes[0], *shapes[1:]]


def _ranks_alone(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Runtimes take lengths from several operands, and check none of them against the others."""
    return [None if shape is None else (None,) * len(shape) for shape in shapes]


def _reduction(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Runtimes differ about what `noop_with_empty_axes` is when it is neither 0 nor 1."""
    return shapes if facts.integer("noop_with_empty_axes", 0) in (0, 1) else [None for _ in shapes]


def _sloped(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """The inference believes that slopes never stretch what they belong to."""
    return [output_shape(facts), *shapes[1:]]


def _slice(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """In opset 10 a part of a named length has that name, too, and steps that nobody knows count as 1.

    The rule of `shape_rules.py` knows which lengths stay.
    """
    shape = shapes[0]
    steps, has_steps = facts.list_or_operand("steps", 4)
    if shape is not None:
        unknown = has_steps and steps is None
        shape = tuple(None if unknown or isinstance(dim, str) else dim for dim in shape)
    return [shape, *shapes[1:]]


CORRECTIONS: dict[str, Callable[[NodeFacts, Shapes], Shapes]] = {
    "reduction": _reduction,
    "pool": _pool,
    "resize": _resize,
    "sloped": _sloped,
    "slice": _slice,
    "AffineGrid": _grid,
    "Attention": _attention,
    **dict.fromkeys(("CausalConvWithState", "LinearAttention"), _ranks_alone),
    "NegativeLogLikelihoodLoss": _loss,
    "STFT": _fourier_frames,
}
"""Form, or operator of the default domain, in all versions → what is right about the shapes of its outputs."""
