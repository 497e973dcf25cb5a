"""Which operators compute the same thing for every height, width or length, whatever becomes of the size on the way.

A batch has to reach the results as it is or in proportion: each image has a result of its own. Other dimensions need not. A
convolution without padding takes its border off, a stride of two rounds, and a global pool leaves nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise, zip_longest
from operator import mul

import onnx_graphsurgeon as gs

from rewriter.core.language.operator_traits import having, of_form, traits
from rewriter.core.onnxfile.tensors import Dim
from rewriter.repairs.dim_follow.follower import Follower

SUMMARIES = of_form("arg", "global_pool", "reduction", "shape", "size")
"""Their results may be as large as before."""

_FORMS = (
    "broadcast", "sloped", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "expand", "tile", "slice", "split",
    "gather", "concat", "pad", "depth", "resize", "convolution", "deconvolution", "pool", "matrix_product",
    "constant_of_shape", "range",
)  # fmt: skip
OF_ANY_SIZE = having("elementwise") | having("any_size") | of_form(*_FORMS)
"""Their results grow with what they read, by whatever amount."""

PRIME = 104729
"""In products of sizes, a power of it stands for each dimension that has a name and no size."""

Shape = tuple[Dim, ...]


def takes_any_size(follower: Follower, node: gs.Node) -> bool:
    """Whether a node gives what it should for other sizes of what it reads, too."""
    if (node.domain or "") not in ("", "ai.onnx") or node.op not in SUMMARIES | OF_ANY_SIZE:
        return False
    changed = node.op in SUMMARIES
    for tensor in node.outputs:
        if not tensor.name:
            continue
        old, new = follower.old.shape(tensor), follower.new.shape(tensor)
        if old is None or new is None or len(old) != len(new) or not all(map(_told, old, new)):
            return False
        changed = changed or old != new or follower.old.value(tensor) != follower.new.value(tensor)
    return changed and _fits(follower, node)


def _told(old: Dim, new: Dim) -> bool:
    return old == new or (isinstance(old, int) and isinstance(new, int))


def _fits(follower: Follower, node: gs.Node) -> bool:
    """Whether what the node reads still fits together, and what it gives is that."""
    read = [follower.new.shape(tensor) for tensor in node.inputs]
    made = follower.new.shape(node.outputs[0])
    form = traits(node.op).shape
    if form in ("broadcast", "sloped"):  # inference believes operands that do not fit together
        return _together(read)
    if form == "expand":
        return _together([read[0], made])
    if form == "matrix_product":
        one, other = read[0] or (None,), read[1] or (None,)
        return one[-1] == other[-2 if len(other) > 1 else -1] is not None
    if form == "concat":
        axis = node.attrs.get("axis", 1)
        return len({None if shape is None else (*shape[:axis], *shape[axis:][1:]) for shape in read}) == 1
    return form != "pool" or not _over_all(follower, node)


def _over_all(follower: Follower, node: gs.Node) -> bool:
    """Whether a pool's kernel covers all of an old height or width: a global pool with its size written down."""
    kernel = node.attrs.get("kernel_shape", ())
    old, new = (shapes.shape(node.inputs[0]) or () for shapes in (follower.old, follower.new))
    return any(before != after and size == before for size, before, after in zip(kernel, old[2:], new[2:], strict=False))


def _together(shapes: Sequence[Shape | None]) -> bool:
    """Whether these shapes can be broadcast to one."""
    if any(shape is None for shape in shapes):
        return False
    aligned = zip_longest(*(reversed(shape) for shape in shapes if shape is not None), fillvalue=1)
    return all(len({dim for dim in dims if dim != 1}) <= 1 for dims in aligned)


def keeps_order(follower: Follower, node: gs.Node) -> bool:
    """Whether each element stays where it belongs behind a Reshape to a shape that does not follow the size.

    A -1 takes what is left of any size, though it be that of another dimension: where a dimension grows, the dimensions that
    are cut or merged have to be the same ones as before, and may be merged only.
    """
    if len(node.inputs) < 2 or follower.old.value(node.inputs[1]) != follower.new.value(node.inputs[1]):
        return True
    data, result = node.inputs[0], node.outputs[0]
    before, after = follower.old.shape(result), follower.new.shape(result)
    cuts = _cuts(follower.old.shape(data), before)
    if cuts is None or before is None or after is None or cuts != _cuts(follower.new.shape(data), after):
        return False
    runs = [range(start, end) for (_, start), (_, end) in pairwise([(0, 0), *cuts])]
    return all(sum(after[i] != 1 for i in run) == 1 for run in runs if any(before[i] != after[i] for i in run))


def _cuts(read: Shape | None, made: Shape | None) -> list[tuple[int, int]] | None:
    """Where both shapes have had equally many elements, from the first dimension on; None where that cannot be told."""
    if read is None or made is None or None in read or None in made:
        return None
    named = {dim: PRIME**number for number, dim in enumerate(dict.fromkeys(read + made), start=1) if isinstance(dim, str)}
    one, other = (
        {size: place for place, size in enumerate(accumulate(sizes, mul), start=1)}
        for sizes in ([named[dim] if isinstance(dim, str) else dim or 0 for dim in shape] for shape in (read, made))
    )
    return (
        [(one[size], other[size]) for size in sorted(one.keys() & other.keys())]
        if max(one, default=1) == max(other, default=1)
        else None
    )
