"""Shapes and attributes with which operators make sense, by operator.

A recipe settles whatever the pattern and the nodes before have left free. It need not be complete: what an operator would refuse
is thrown away, so recipes only keep the share of such instances small.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import MappingProxyType

import numpy as np

from rewriter.proof.arrays import POSITIVE, SMALL
from rewriter.proof.draft import Draft

Recipe = Callable[[Draft], None]


def settle(draft: Draft) -> None:
    """Settles the operands and the attributes of one node."""
    RECIPES.get(draft.op, _elementwise)(draft)
    for position in range(len(draft.inputs)):
        draft.shape(position)


def _elementwise(draft: Draft) -> None:
    """All operands alike; also the last resort for operators without a recipe of their own."""
    first = draft.shape(0)
    for position in range(1, len(draft.inputs)):
        draft.want(position, first)


def _broadcast(draft: Draft) -> None:
    positions = range(len(draft.inputs))
    settled = next((p for p in positions if draft.known(p)), None)
    base = list(draft.shape(settled if settled is not None else 0))
    if draft.dims.chance(0.15):
        base = [draft.dims.draw(1), *base]
    for position in positions:
        draft.want(position, _part(draft, base))


def _part(draft: Draft, base: list[int]) -> list[int]:
    """A shape that broadcasts to `base`."""
    way = draft.dims.below(10)
    if way < 5:
        return base
    if way < 7:
        return [1 if draft.dims.chance(0.4) else d for d in base]
    if way < 9:
        return base[draft.dims.below(len(base) + 1) :]
    return [] if draft.dims.chance(0.5) else [1]


def _where(draft: Draft) -> None:
    base = draft.known(1) or draft.known(2) or draft.shape(0)
    for position in range(3):
        draft.want(position, _part(draft, list(base)))


def _prelu(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3, 4)
    channel = [shape[1], *[1] * (len(shape) - 2)] if len(shape) > 2 else shape[-1:]
    choices = [channel, shape[-1:], [1], list(shape)]
    draft.want(1, choices[draft.dims.below(4)])


def _gemm(draft: Draft) -> None:
    turned_a, turned_b = bool(draft.attr("transA", 1, 0.3)), bool(draft.attr("transB", 1, 0.4))
    left, right = draft.known(0), draft.known(1)
    rows = left[-1 if turned_a else 0] if left else draft.dims.draw()
    inner = left[0 if turned_a else -1] if left else right[-1 if turned_b else 0] if right else draft.dims.draw(1)
    columns = right[0 if turned_b else -1] if right else draft.dims.draw()
    draft.want(0, [inner, rows] if turned_a else [rows, inner])
    draft.want(1, [columns, inner] if turned_b else [inner, columns])
    bias = [[columns], [1, columns], [rows, columns], [rows, 1], [1], []][draft.dims.below(6)]
    draft.want(2, bias)
    draft.attr("alpha", 0.5, 0.2)
    draft.attr("beta", 2.0, 0.2)


def _matmul(draft: Draft) -> None:
    left, right = draft.known(0), draft.known(1)
    inner = left[-1] if left else (right[-2] if len(right) > 1 else right[0]) if right else draft.dims.draw(1)
    if left is None:
        left = [*_batch(draft, right), draft.dims.draw(), inner] if draft.dims.chance(0.9) else [inner]
        draft.want(0, left)
    if right is None:
        columns = [draft.dims.draw()] if draft.dims.chance(0.9) else []
        batch = _batch(draft, left) if columns else []
        draft.want(1, [*batch, inner, *columns])


def _batch(draft: Draft, other: list[int] | None) -> list[int]:
    shape = list(other[:-2]) if other else draft.dims.shape([0, 0, 1, 2][draft.dims.below(4)])
    return _part(draft, shape) if draft.dims.chance(0.3) else shape


def _convolution(draft: Draft) -> None:
    weight = draft.known(1)
    shape = draft.ranked(4, 4, 3, 5) if weight is None else draft.ranked(len(weight))
    spatial = max(len(shape) - 2, 1)
    channels = shape[1] if len(shape) > 1 else 1
    group = channels if channels > 1 and draft.dims.chance(0.25) else 1
    group = int(draft.attr("group", group, 1.0 if group > 1 else 0.2) or 1)
    kernel = weight[2:] if weight else [min(1 + draft.dims.below(3), 3) for _ in range(spatial)]
    features = draft.dims.draw(1)
    if draft.op == "ConvTranspose":
        draft.want(1, [channels, features, *kernel])
        features *= group
    else:
        features *= group
        draft.want(1, [features, max(channels // group, 1), *kernel])
    draft.want(2, [features])
    draft.attr("kernel_shape", kernel, 0.5)
    if "auto_pad" not in draft.attrs:
        draft.attr("pads", [draft.dims.below(2) for _ in range(2 * spatial)], 0.5)
    draft.attr("strides", [1 + draft.dims.below(2) for _ in range(spatial)], 0.4)
    draft.attr("dilations", [1 + draft.dims.below(2) for _ in range(spatial)], 0.2)


def _pool(draft: Draft) -> None:
    shape = draft.ranked(4, 4, 3)
    spatial = max(len(shape) - 2, 1)
    kernel = draft.attr("kernel_shape", [1 + draft.dims.below(3) for _ in range(spatial)])
    draft.attr("pads", [draft.dims.below(min(k, 2)) for k in (*kernel, *kernel)], 0.6)
    draft.attr("strides", [1 + draft.dims.below(2) for _ in range(spatial)], 0.5)
    if draft.op == "AveragePool":
        draft.attr("count_include_pad", 1, 0.4)
    if draft.version >= 10 and draft.op != "LpPool":
        draft.attr("ceil_mode", 1, 0.2)


def _per_channel(draft: Draft) -> None:
    shape = draft.ranked(4, 2, 3) if draft.op == "BatchNormalization" else draft.ranked(3, 4)
    channels = shape[1] if len(shape) > 1 else 1
    for position in range(1, len(draft.inputs)):
        draft.want(position, [channels])
    if draft.op == "BatchNormalization":
        draft.role(4, POSITIVE)
    draft.attr("epsilon", 0.25, 0.4)


def _layer_normalization(draft: Draft) -> None:
    shape = draft.ranked(2, 3)
    axis = draft.axis(len(shape), len(shape) - 1)
    draft.want(1, shape[axis:])
    draft.want(2, shape[axis:])
    draft.attr("epsilon", 0.25, 0.4)


def _on_an_axis(draft: Draft) -> None:
    rank = len(draft.ranked(2, 3, 1, 4))
    draft.axis(rank, 1 if draft.version < 13 else -1)


def _reshape(draft: Draft) -> None:
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


def _flatten(draft: Draft) -> None:
    rank = len(draft.shape(0))
    draft.axis(rank, 1, end=1, chance=0.7)


def _transpose(draft: Draft) -> None:
    wanted = draft.attrs.get("perm")
    rank = len(wanted) if isinstance(wanted, list) else len(draft.ranked(2, 3, 4))
    draft.ranked(rank)
    draft.attr("perm", [int(i) for i in draft.dims.rng.permutation(rank)], 0.9)


def _squeeze(draft: Draft) -> None:
    shape = draft.known(0)
    if shape is None:
        shape = [1 if draft.dims.chance(0.5) else draft.dims.draw() for _ in range(1 + draft.dims.below(4))]
        draft.want(0, shape)
        shape = draft.shape(0)
    ones = [i for i, d in enumerate(shape) if d == 1 and draft.dims.chance(0.7)]
    _axes(draft, [_signed(draft, i, len(shape)) for i in ones])


def _unsqueeze(draft: Draft) -> None:
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


def _concat(draft: Draft) -> None:
    settled = next((p for p in range(len(draft.inputs)) if draft.known(p) is not None), 0)
    base = draft.ranked(1, 2, 3, position=settled)
    axis = draft.axis(len(base), 0, chance=1.0)
    for position in range(len(draft.inputs)):
        draft.want(position, [draft.dims.draw() if i == axis else d for i, d in enumerate(base)])


def _split(draft: Draft) -> None:
    parts = len(draft.outputs)
    shape = draft.known(0)
    if shape is None:
        shape = draft.ranked(1, 2, 3)
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


def _slice(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3)
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


def _gather(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3)
    axis = draft.axis(len(shape), 0)
    draft.role(1, ("index", shape[axis] if axis < len(shape) else 1))
    draft.want(1, draft.dims.shape(draft.dims.below(3)))


def _gather_elements(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3)
    axis = draft.axis(len(shape), 0)
    draft.role(1, ("index", shape[axis] if axis < len(shape) else 1))
    for position in range(1, len(draft.inputs)):
        draft.want(position, shape)


def _pad(draft: Draft) -> None:
    shape = draft.ranked(2, 3, 4)
    rank = len(shape)
    around = [draft.dims.below(2) if rank < 3 or i % rank > 1 or draft.dims.chance(0.1) else 0 for i in range(2 * rank)]
    draft.attr("mode", str(draft.dims.pick(["constant", "constant", "edge", "reflect"])), 0.5)
    if draft.version < 11:
        draft.attr("pads", around)
        draft.attr("value", 0.5, 0.3)
        return
    draft.ints(around, 1)
    draft.want(2, [])


def _expand(draft: Draft) -> None:
    shape = draft.shape(0)
    draft.ints([draft.dims.draw(1) if d == 1 else d for d in shape], 1)


def _tile(draft: Draft) -> None:
    draft.ints([1 + draft.dims.below(2) for _ in draft.shape(0)], 1)


def _reduce(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3)
    count = draft.dims.below(len(shape) + 1)
    axes = [_signed(draft, int(i), len(shape)) for i in sorted(draft.dims.rng.permutation(len(shape))[:count])]
    draft.attr("keepdims", draft.dims.below(2), 0.7)
    if draft.version >= (13 if draft.op == "ReduceSum" else 18):
        draft.ints(axes, 1)
    elif axes:
        draft.attr("axes", axes, 0.8)


def _arg(draft: Draft) -> None:
    draft.axis(len(draft.ranked(1, 2, 3)), 0)
    draft.attr("keepdims", draft.dims.below(2), 0.6)


def _clip(draft: Draft) -> None:
    draft.shape(0)
    if draft.version < 11:
        draft.attr("min", -1.5 + draft.dims.below(4), 0.7)
        draft.attr("max", -0.5 + draft.dims.below(4), 0.7)
    draft.want(1, [])
    draft.want(2, [])


def _top_k(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 3)
    axis = draft.axis(len(shape), len(shape) - 1)
    count = 1 + draft.dims.below(min(shape[axis], 3)) if axis < len(shape) and shape[axis] else 0
    if draft.version < 10:
        draft.attr("k", count)
    else:
        draft.ints([count], 1)


def _cumulative_sum(draft: Draft) -> None:
    rank = len(draft.ranked(1, 2, 3))
    kind = np.int32 if draft.dims.chance(0.3) else np.int64
    draft.give(1, np.array(draft.dims.below(rank), dtype=kind))
    draft.attr("exclusive", 1, 0.2)
    draft.attr("reverse", 1, 0.2)


def _dropout(draft: Draft) -> None:
    draft.shape(0)
    draft.attr("ratio", 0.25, 0.3 if draft.version < 12 else 0.0)
    draft.want(1, [])
    draft.want(2, [])
    if draft.there(2):
        term = draft.inputs[2]
        if term is not None and term.value is None:
            term.value = np.array(False)


def _constant_of_shape(draft: Draft) -> None:
    draft.ints(draft.dims.shape(draft.dims.below(3)), 0)


def _depth(draft: Draft) -> None:
    block = int(draft.attr("blocksize", 2))
    shape = draft.dims.shape(4)
    draft.want(0, [shape[0], shape[1] * block**2, *shape[2:]] if draft.op == "DepthToSpace" else [*shape[:2], 2 * block, block])


def _upsample(draft: Draft) -> None:
    shape = draft.ranked(4)
    scales = np.array([1.0] * min(len(shape), 2) + [float(1 + draft.dims.below(2)) for _ in shape[2:]], dtype=np.float32)
    if draft.version < 9:
        draft.attr("scales", scales.tolist())
    elif len(draft.inputs) > 2:
        draft.want(1, [0])
        draft.give(2, scales)
    else:
        draft.give(1, scales)


def _einsum(draft: Draft) -> None:
    one, two = ["ij->ji", "ij->i", "ijk->kij"], ["ij,jk->ik", "bij,bjk->bik", "ij,ij->i", "bi,bj->bij"]
    equation = draft.attr("equation", str(draft.dims.pick(one if len(draft.inputs) == 1 else two)))
    lengths: dict[str, int] = {}
    for position, letters in enumerate(str(equation).replace(" ", "").split("->")[0].split(",")):
        known = draft.known(position)
        shape = [lengths.setdefault(c, known[i] if known else draft.dims.draw()) for i, c in enumerate(letters)]
        draft.want(position, shape)


def _pow(draft: Draft) -> None:
    draft.role(1, SMALL)
    _broadcast(draft)


def _slope(draft: Draft) -> None:
    draft.shape(0)
    draft.attr("alpha", 0.5, 0.5)


def _lrn(draft: Draft) -> None:
    draft.ranked(4, 3)
    draft.attr("size", 3)


RECIPES = MappingProxyType(
    {
        **dict.fromkeys(
            ("Add", "Sub", "Mul", "Div", "Mod", "And", "Or", "Xor", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal",
             "Max", "Min", "Mean", "Sum", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"), _broadcast),
        **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
        **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
        **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _per_channel),
        **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), lambda d: d.ranked(3, 4) and None),
        **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), _on_an_axis),
        **dict.fromkeys(
            ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
             "ReduceLogSum", "ReduceLogSumExp"), _reduce),
        **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _depth),
        **dict.fromkeys(("Upsample", "Resize"), _upsample),
        **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), _slope),
        **dict.fromkeys(("GatherElements", "ScatterElements"), _gather_elements),
        "Where": _where, "PRelu": _prelu, "Gemm": _gemm, "MatMul": _matmul, "LayerNormalization": _layer_normalization,
        "Reshape": _reshape, "Flatten": _flatten, "Transpose": _transpose, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
        "Concat": _concat, "Split": _split, "Slice": _slice, "Gather": _gather, "Pad": _pad, "Expand": _expand, "Tile": _tile,
        "Clip": _clip, "TopK": _top_k, "CumSum": _cumulative_sum, "Dropout": _dropout, "ConstantOfShape": _constant_of_shape,
        "Einsum": _einsum, "Pow": _pow, "LRN": _lrn,
    }
)  # fmt: skip
"""Operator → recipe; `_elementwise` for all others."""
