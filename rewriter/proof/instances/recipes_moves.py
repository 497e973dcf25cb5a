"""Shapes and attributes of operators that move, join, cut, choose or sum elements; `recipes` has the table of all."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import helper

from rewriter.proof.instances.draft import Draft

ANY_RANK = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5, 6)
"""Ranks of an operator with an axis, as often as they are drawn."""


def on_an_axis(draft: Draft) -> None:
    """One operand and an axis."""
    rank = len(draft.ranked(2, 3, *ANY_RANK))
    draft.axis(rank, 1 if draft.version < 13 else -1)


def reshape_recipe(draft: Draft) -> None:
    """A target of the same size, with -1 and 0 where they may stand."""
    shape = draft.shape(0)
    total = prod(shape)
    if draft.dims.chance(0.3):
        target = [total]
    elif len(shape) > 1 and draft.dims.chance(0.5):
        at = draft.dims.below(len(shape) - 1)
        target = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    else:
        target = [*shape, 1] if draft.dims.chance(0.5) else list(reversed(shape))
    if target and total and draft.dims.chance(0.4):
        target[draft.dims.below(len(target))] = -1
    if target and shape and target[0] == shape[0] and draft.dims.chance(0.3):
        target[0] = 0
    draft.ints(target, 1)


def flatten(draft: Draft) -> None:
    """Any axis, the one behind the last included."""
    rank = len(draft.shape(0))
    draft.axis(rank, 1, end=1, chance=0.7)


def transpose(draft: Draft) -> None:
    """Any permutation."""
    wanted = draft.attrs.get("perm")
    rank = len(wanted) if isinstance(wanted, list) else len(draft.ranked(2, 3, 4, *ANY_RANK[3:]))
    draft.ranked(rank)
    draft.attr("perm", [int(i) for i in draft.dims.rng.permutation(rank)], 0.9)


def squeeze(draft: Draft) -> None:
    """Some of the axes of length 1."""
    shape = draft.known(0)
    if shape is None:
        shape = [1 if draft.dims.chance(0.5) else draft.dims.draw() for _ in range(1 + draft.dims.below(4))]
        draft.want(0, shape)
        shape = draft.shape(0)
    ones = [i for i, d in enumerate(shape) if d == 1 and draft.dims.chance(0.7)]
    _axes(draft, [_signed(draft, i, len(shape)) for i in ones])


def unsqueeze(draft: Draft) -> None:
    """One or two new axes."""
    count = 1 + draft.dims.below(2)
    rank = len(draft.shape(0)) + count
    _axes(draft, [_signed(draft, int(i), rank) for i in sorted(draft.dims.rng.permutation(rank)[:count])])


def _signed(draft: Draft, axis: int, rank: int) -> int:
    return axis - rank if draft.version >= 11 and draft.dims.chance(0.25) else axis


def _axes(draft: Draft, axes: list[int]) -> None:
    if draft.version < 13:
        if axes:
            draft.attr("axes", axes)
    else:
        draft.ints(axes, 1)


def concat(draft: Draft) -> None:
    """Operands that differ along the axis."""
    settled = next((p for p in range(len(draft.inputs)) if draft.known(p) is not None), 0)
    base = draft.ranked(*ANY_RANK, position=settled)
    axis = draft.axis(len(base), 0, chance=1.0)
    for position in range(len(draft.inputs)):
        draft.want(position, [draft.dims.draw() if i == axis else d for i, d in enumerate(base)])


def split(draft: Draft) -> None:
    """Sizes that add up, equal or not."""
    parts = len(draft.outputs)
    shape = draft.known(0)
    if shape is None:
        shape = draft.ranked(*ANY_RANK)
        axis = draft.axis(len(shape), 0)
        if axis < len(shape):
            shape[axis] = parts * max(1, draft.dims.draw())
    else:
        axis = draft.axis(len(shape), 0)
    if axis >= len(shape):
        return
    sizes = [shape[axis] // parts] * parts
    if parts > 1 and sizes[0] > 0 and draft.dims.chance(0.4):
        sizes[0], sizes[1] = sizes[0] - 1, sizes[1] + 1
    sizes[-1] += shape[axis] - sum(sizes)
    equal = len(set(sizes)) == 1
    if draft.version < 13:
        draft.attr("split", sizes, 0.5 if equal else 1.0)
    elif draft.there(1):
        draft.ints(sizes, 1)
    elif draft.version >= 18:
        draft.attr("num_outputs", parts)


def slice_recipe(draft: Draft) -> None:
    """A piece along one axis."""
    shape = draft.ranked(*ANY_RANK)
    axis = draft.dims.below(len(shape))
    start, stop = draft.dims.below(shape[axis] + 1) if shape else 0, 2 + draft.dims.below(3)
    start = -start if draft.dims.chance(0.2) else start
    if draft.version < 10:
        draft.attr("starts", [start])
        draft.attr("ends", [stop])
        draft.attr("axes", [axis])
        return
    for position, value in ((1, start), (2, stop), (3, axis), (4, 1)):
        draft.ints([value], position)


def gather(draft: Draft) -> None:
    """Positions on the axis."""
    shape = draft.ranked(*ANY_RANK)
    axis = draft.axis(len(shape), 0)
    draft.role(1, ("index", shape[axis] if axis < len(shape) else 1))
    draft.want(1, draft.dims.shape(draft.dims.below(3)))


def gather_elements(draft: Draft) -> None:
    """Positions and updates of the shape of the data."""
    shape = draft.ranked(*ANY_RANK)
    axis = draft.axis(len(shape), 0)
    draft.role(1, ("index", shape[axis] if axis < len(shape) else 1))
    for position in range(1, len(draft.inputs)):
        draft.want(position, shape)


def pad(draft: Draft) -> None:
    """Mostly spatial axes, by one at most."""
    shape = draft.ranked(2, 3, 4, 4, 2, 3, 4, 5)
    rank = len(shape)
    around = [draft.dims.below(2) if rank < 3 or i % rank > 1 or draft.dims.chance(0.1) else 0 for i in range(2 * rank)]
    draft.attr("mode", str(draft.dims.pick(["constant", "constant", "edge", "reflect"])), 0.5)
    if draft.version < 11:
        draft.attr("pads", around)
        draft.attr("value", 0.5, 0.3)
        return
    draft.ints(around, 1)
    draft.want(2, [])


def expand(draft: Draft) -> None:
    """Axes of length 1 get another length."""
    shape = draft.shape(0)
    draft.ints([draft.dims.draw(1) if d == 1 else d for d in shape], 1)


def tile(draft: Draft) -> None:
    """Once or twice along each axis."""
    draft.ints([1 + draft.dims.below(2) for _ in draft.shape(0)], 1)


def reduce(draft: Draft) -> None:
    """Some axes, as attribute or operand."""
    shape = draft.ranked(*ANY_RANK)
    count = draft.dims.below(len(shape) + 1)
    axes = [_signed(draft, int(i), len(shape)) for i in sorted(draft.dims.rng.permutation(len(shape))[:count])]
    draft.attr("keepdims", draft.dims.below(2), 0.7)
    if draft.version >= (13 if draft.op == "ReduceSum" else 18):
        draft.ints(axes, 1)
    elif axes:
        draft.attr("axes", axes, 0.8)


def arg(draft: Draft) -> None:
    """One axis."""
    draft.axis(len(draft.ranked(*ANY_RANK)), 0)
    draft.attr("keepdims", draft.dims.below(2), 0.6)


def clip(draft: Draft) -> None:
    """Scalar bounds."""
    draft.shape(0)
    if draft.version < 11:
        draft.attr("min", -1.5 + draft.dims.below(4), 0.7)
        draft.attr("max", -0.5 + draft.dims.below(4), 0.7)
    draft.want(1, [])
    draft.want(2, [])


def top_k(draft: Draft) -> None:
    """At most as many as there are."""
    shape = draft.ranked(*ANY_RANK)
    axis = draft.axis(len(shape), len(shape) - 1)
    count = 1 + draft.dims.below(min(shape[axis], 3)) if axis < len(shape) and shape[axis] else 0
    if draft.version < 10:
        draft.attr("k", count)
    else:
        draft.ints([count], 1)


def cumulative_sum(draft: Draft) -> None:
    """A scalar axis."""
    rank = len(draft.ranked(*ANY_RANK))
    kind = np.int32 if draft.dims.chance(0.3) else np.int64
    draft.give(1, np.array(draft.dims.below(rank), dtype=kind))
    draft.attr("exclusive", 1, 0.2)
    draft.attr("reverse", 1, 0.2)


def dropout(draft: Draft) -> None:
    """Mostly outside of training, where it draws random numbers."""
    draft.shape(0)
    draft.attr("ratio", 0.25, 0.3 if draft.version < 12 else 0.0)
    ratio = draft.inputs[1] if draft.there(1) else None
    if ratio is not None:
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(ratio.dtype))
        draft.give(1, np.array([0.0, 0.25, 0.5][draft.dims.below(3)], dtype=kind))
    draft.give(2, np.array(draft.dims.chance(0.25)))


def constant_of_shape(draft: Draft) -> None:
    """A short shape."""
    draft.ints(draft.dims.shape(draft.dims.below(3)), 0)


def depth(draft: Draft) -> None:
    """Blocks of two by two."""
    block = int(draft.attr("blocksize", 2))
    shape = draft.dims.shape(4)
    draft.want(0, [shape[0], shape[1] * block**2, *shape[2:]] if draft.op == "DepthToSpace" else [*shape[:2], 2 * block, block])


def upsample(draft: Draft) -> None:
    """Whole factors for the image."""
    shape = draft.ranked(4)
    scales = np.array([1.0] * min(len(shape), 2) + [float(1 + draft.dims.below(2)) for _ in shape[2:]], dtype=np.float32)
    if draft.version < 9:
        draft.attr("scales", scales.tolist())
    elif len(draft.inputs) > 2:
        draft.want(1, [0])
        draft.give(2, scales)
    else:
        draft.give(1, scales)


def einsum(draft: Draft) -> None:
    """One of the usual equations."""
    one, two = ["ij->ji", "ij->i", "ijk->kij"], ["ij,jk->ik", "bij,bjk->bik", "ij,ij->i", "bi,bj->bij"]
    equation = draft.attr("equation", str(draft.dims.pick(one if len(draft.inputs) == 1 else two)))
    lengths: dict[str, int] = {}
    for position, letters in enumerate(str(equation).replace(" ", "").split("->")[0].split(",")):
        known = draft.known(position)
        shape = [lengths.setdefault(c, known[i] if known else draft.dims.draw()) for i, c in enumerate(letters)]
        draft.want(position, shape)
