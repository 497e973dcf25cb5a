"""Shapes and attributes with which operators make sense, by operator.

A recipe settles everything that the pattern and the nodes before have left free. It need not be complete: instances that an
operator rejects are thrown away, so recipes only keep the share of such instances small.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType

import numpy as np
from onnx import helper

from rewriter.core.language import schema
from rewriter.core.language.operator_traits import pick
from rewriter.trust.proof.instances import contrib_operators
from rewriter.trust.proof.instances.draft import Draft
from rewriter.trust.proof.instances.random_arrays import operand_role

# Shapes and attributes of operators that move, join, cut, choose or sum elements; `recipes` has the table of all.

ANY_RANK = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5, 6)
"""Ranks of an operator with an axis, as often as they are drawn."""


def on_an_axis(draft: Draft) -> None:
    """One operand and an axis."""
    rank = len(draft.ranked(2, 3, *ANY_RANK))
    draft.axis(rank, 1 if draft.version < 13 else -1)


def reshape_recipe(draft: Draft) -> None:
    """A target of the same size, with -1 and 0 at places that allow them."""
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
    draft.axis(len(shape), 0)
    draft.want(1, draft.dims.shape(draft.dims.below(3)))


def gather_elements(draft: Draft) -> None:
    """Positions and updates of the shape of the data."""
    shape = draft.ranked(*ANY_RANK)
    draft.axis(len(shape), 0)
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
    count = 1 + draft.dims.below(min(shape[axis], 3)) if -len(shape) <= axis < len(shape) and shape[axis] else 0
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
    """Mostly outside of training, since it draws random numbers in training."""
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


_DISTURBED = 0.12  # of nodes
_TYPES = ("to", "dtype", "stash_type", "axis")  # an axis is for the recipe
_FLAGS = ("keepdims", "saturate")  # if saturate is not 0 or 1, ONNX Runtime writes nothing at all


def settle(draft: Draft) -> None:
    """Settles the operands and the attributes of one node."""
    recipe = (
        contrib_operators.RECIPES[draft.op]
        if contrib_operators.known(draft.op, draft.domain)
        else pick(RECIPES, draft.op) or _elementwise
    )
    recipe(draft)
    axis = draft.attrs.get("axis", 0)
    for position in range(len(draft.inputs)):
        draft.shape(position)
        draft.role(position, operand_role(draft.op, position, axis if isinstance(axis, int) else 0, draft.known(0)))


def disturb(draft: Draft) -> None:
    """Another value for one of the attributes that have a default and that neither the pattern nor the recipe mentions.

    If the operator rejects the value, the instance is thrown away, so this is not done often.
    """
    operator = schema.schema(draft.op, draft.domain, draft.version)
    if operator is None or not draft.dims.chance(_DISTURBED):
        return
    free = [
        (a.name, a.default)
        for a in operator.attributes.values()
        if a.name not in draft.attrs and a.name not in draft.closed and a.name not in _TYPES
    ]
    numbers = [(name, value) for name, value in free if isinstance(value, int | float)]
    if numbers:
        name, value = numbers[draft.dims.below(len(numbers))]
        changed = value + 1 if isinstance(value, int) else 2 * value + 0.25
        draft.attrs[name] = 0 if name in _FLAGS else changed


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
        tail = base[draft.dims.below(len(base) + 1) :]
        return [*tail[:1], *[1] * (len(tail) - 1)] if draft.dims.chance(0.3) else tail  # one axis only, as biases have
    return [] if draft.dims.chance(0.5) else [1]


def _where(draft: Draft) -> None:
    base = draft.known(1) or draft.known(2) or draft.shape(0)
    for position in range(3):
        draft.want(position, _part(draft, list(base)))


def _prelu(draft: Draft) -> None:
    shape = draft.ranked(1, 2, 2, 3, 3, 4, 4, 5)
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
    shape = list(other[:-2]) if other else draft.dims.shape([0, 0, 0, 0, 1, 1, 2, 2, 3, 4][draft.dims.below(10)])
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
    if kernel:  # a weight that another node makes may have none
        draft.attr("kernel_shape", kernel, 0.5)
    if "auto_pad" not in draft.attrs:
        draft.attr("pads", [draft.dims.below(2) for _ in range(2 * spatial)], 0.5)
    draft.attr("strides", [1 + draft.dims.below(2) for _ in range(spatial)], 0.4)
    draft.attr("dilations", [1 + draft.dims.below(2) for _ in range(spatial)], 0.2)


def _pool(draft: Draft) -> None:
    shape = draft.ranked(4, 4, 4, 3, 3, 5)
    spatial = max(len(shape) - 2, 1)
    kernel = draft.attr("kernel_shape", [1 + draft.dims.below(3) for _ in range(spatial)])
    draft.attr("pads", [draft.dims.below(min(k, 2)) for k in (*kernel, *kernel)], 0.6)
    draft.attr("strides", [1 + draft.dims.below(2) for _ in range(spatial)], 0.5)
    if draft.op == "AveragePool":
        draft.attr("count_include_pad", 1, 0.4)
    if draft.version >= 10 and draft.op != "LpPool":
        draft.attr("ceil_mode", 1, 0.2)


def _per_channel(draft: Draft) -> None:
    shape = draft.ranked(4, 4, 2, 3, 3, 5) if draft.op == "BatchNormalization" else draft.ranked(3, 3, 4, 4, 5)
    channels = shape[1] if len(shape) > 1 else 1
    for position in range(1, len(draft.inputs)):
        draft.want(position, [channels])
    draft.attr("epsilon", 0.25, 0.4)


def _layer_normalization(draft: Draft) -> None:
    shape = draft.ranked(2, 2, 2, 3, 3, 3, 1, 4, 5)
    axis = draft.axis(len(shape), len(shape) - 1)
    draft.want(1, shape[axis:])
    draft.want(2, shape[axis:])
    draft.attr("epsilon", 0.25, 0.4)


def _recurrent(draft: Draft) -> None:
    """Operands in the order of the three operators: x, w, r, b, the length of each sequence, h, and of an LSTM c and p."""
    draft.want(0, [draft.dims.draw(1) for _ in range(3)])  # ONNX Runtime aborts if there is none
    shape = draft.ranked(3)
    if len(shape) != 3:
        return
    steps, batch, features = shape
    hidden = int(draft.attr("hidden_size", draft.dims.draw(1)) or 1)
    directions = 2 if draft.attr("direction", "bidirectional", 0.25) == "bidirectional" else 1
    rows = {"LSTM": 4, "GRU": 3}.get(draft.op, 1) * hidden
    draft.want(1, [directions, rows, features])
    draft.want(2, [directions, rows, hidden])
    draft.want(3, [directions, 2 * rows])
    draft.give(4, np.full(batch, steps, dtype=np.int32))
    draft.want(5, [directions, batch, hidden])
    draft.want(6, [directions, batch, hidden])
    draft.want(7, [directions, 3 * hidden])


def _shift(draft: Draft) -> None:
    draft.attr("direction", draft.dims.pick(("LEFT", "RIGHT")))
    _broadcast(draft)


def _slope(draft: Draft) -> None:
    draft.shape(0)
    draft.attr("alpha", 0.5, 0.5)


def _regions(draft: Draft) -> None:
    """Corners of regions, and the image of each."""
    draft.ranked(4)
    count = draft.dims.draw(1)
    draft.want(1, [count, 4])
    draft.want(2, [count])


def _lrn(draft: Draft) -> None:
    draft.ranked(4, 3)
    draft.attr("size", 3)


RECIPES = MappingProxyType(
    {
        **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _per_channel),
        **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), on_an_axis),
        **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), _slope),
        **dict.fromkeys(("convolution", "deconvolution"), _convolution),
        **dict.fromkeys(("gather_elements", "ScatterElements"), gather_elements),
        "BitShift": _shift, "Clip": clip, "CumSum": cumulative_sum, "Dropout": dropout, "LRN": _lrn,
        "LayerNormalization": _layer_normalization, "RoiAlign": _regions, "Where": _where,
        "arg": arg, "broadcast": _broadcast, "concat": concat, "constant_of_shape": constant_of_shape, "depth": depth,
        "einsum": einsum, "expand": expand, "flatten": flatten, "gather": gather, "gemm": _gemm,
        "global_pool": lambda d: d.ranked(3, 3, 4, 4, 5, 6) and None, "matrix_product": _matmul, "pad": pad, "pool": _pool,
        "recurrent": _recurrent, "reduction": reduce, "reshape": reshape_recipe, "resize": upsample, "slice": slice_recipe,
        "sloped": _prelu, "split": split, "squeeze": squeeze, "tile": tile, "top_k": top_k, "transpose": transpose,
        "unsqueeze": unsqueeze,
    }
)  # fmt: skip
"""Operator, or form of operators → recipe; `_elementwise` for all others."""
