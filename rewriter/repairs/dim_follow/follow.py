"""A dimension with a name is followed through the graph; nodes that it does not flow through by itself are repaired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise, zip_longest
from operator import mul

import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import label
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.objects import bodies
from rewriter.core.language.operator_traits import having, of_form, traits
from rewriter.core.onnxfile.tensors import Dim, gs_dtype
from rewriter.core.whole_model import DoesNotFlow
from rewriter.repairs.dim_follow.follower import PRIMES, Follower
from rewriter.repairs.dim_follow.mend import MENDERS

# Operators that compute the same thing for every height, width or length, even if the size changes on the way.
#
# A batch has to reach the results as it is or in proportion: each image has a result of its own. Other dimensions need not. A
# convolution without padding takes its border off, a stride of two rounds, and a global pool leaves nothing of them.

SUMMARIES = of_form("arg", "global_pool", "reduction", "shape", "size")
"""Their results may be as large as before."""

_FORMS = (
    "broadcast", "sloped", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "expand", "tile", "slice", "split",
    "gather", "concat", "pad", "depth", "resize", "convolution", "deconvolution", "pool", "matrix_product",
    "constant_of_shape", "range",
)  # fmt: skip
OF_ANY_SIZE = having("elementwise") | having("any_size") | of_form(*_FORMS)
"""Their results grow with their operands, by any amount."""

PRIME = 104729
"""In products of sizes, a power of it represents each dimension that has a name and no size."""

Shape = tuple[Dim, ...]


def takes_any_size(follower: Follower, node: gs.Node) -> bool:
    """Whether a node also computes the correct result for other sizes of its operands."""
    if (node.domain or "") not in ("", "ai.onnx") or node.op not in SUMMARIES | OF_ANY_SIZE:
        return False
    changed = node.op in SUMMARIES
    for tensor in node.outputs:
        if not tensor.name:
            continue
        old, new = follower.old.shape(tensor), follower.new.shape(tensor)
        if old is None or new is None or len(old) != len(new) or not all(map(_same_or_numbers, old, new)):
            return False
        changed = changed or old != new or follower.old.value(tensor) != follower.new.value(tensor)
    return changed and _fits(follower, node)


def _same_or_numbers(old: Dim, new: Dim) -> bool:
    return old == new or (isinstance(old, int) and isinstance(new, int))


def _fits(follower: Follower, node: gs.Node) -> bool:
    """Whether the operands of the node still fit together, and the result fits them."""
    read = [follower.new.shape(tensor) for tensor in node.inputs]
    output_shape = follower.new.shape(node.outputs[0])
    form = traits(node.op).shape
    if form in ("broadcast", "sloped"):  # inference does not check that operands fit together
        return _together(read)
    if form == "expand":
        return _together([read[0], output_shape])
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
    """Whether each element stays in its place behind a Reshape to a shape that does not follow the size.

    A -1 takes the rest of any size, even of another dimension. So if a dimension grows, the dimensions that are cut or merged
    have to be the same as before, and may be merged only.
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


def _cuts(read: Shape | None, output_shape: Shape | None) -> list[tuple[int, int]] | None:
    """The places up to which both shapes have equally many elements, from the first dimension on; None if unknown."""
    if read is None or output_shape is None or None in read or None in output_shape:
        return None
    named = {
        dim: PRIME**number for number, dim in enumerate(dict.fromkeys(read + output_shape), start=1) if isinstance(dim, str)
    }
    one, other = (
        {size: place for place, size in enumerate(accumulate(sizes, mul), start=1)}
        for sizes in ([named[dim] if isinstance(dim, str) else dim or 0 for dim in shape] for shape in (read, output_shape))
    )
    return (
        [(one[size], other[size]) for size in sorted(one.keys() & other.keys())]
        if max(one, default=1) == max(other, default=1)
        else None
    )


READERS = of_form("shape", "size")
"""Operators that may read a tensor that depends on a dimension and whose results have a type that does not."""

ALONG = having("along")
FLATTEN = having("flattens")
SCATTERS = having("scatters")


def named_dimensions(group: Iterable[Edits]) -> dict[str, int]:
    """The old sizes of the dimensions that inputs of the graph now have names for.

    Raises:
        DoesNotFlow: one name is to stand for two sizes, or there are more names than can be followed at once.
    """
    sizes: dict[str, int] = {}
    for edits in group:
        for (what, tensor), declarations in edits.declared.items():
            if what != "type":
                continue
            before, after = (shape or () for _, shape in declarations)
            for size, name in zip(before, after, strict=False):
                if isinstance(size, int) and isinstance(name, str) and sizes.setdefault(name, size) != size:
                    raise DoesNotFlow(f"{name!r} would stand for {sizes[name]} and, in {tensor!r}, for {size}")
    if len(sizes) > len(PRIMES) or any(size < 1 for size in sizes.values()):
        raise DoesNotFlow(f"{len(sizes)} dimensions are named at once, and at most {len(PRIMES)} of 1 or more are followed")
    return sizes


class DimensionWalk(Follower):
    """Goes through a graph, and has nodes repaired that the dimensions do not flow through by themselves."""

    def follow(self) -> None:
        """Repairs the nodes that hold old sizes.

        Raises:
            DoesNotFlow: the dimension does not reach the outputs through every node on its way.
        """
        for node in self.index.members(self.index.scopes[0]):
            if node in self.index:
                self._pass(node)
        for tensor in self.index.graph.outputs:
            if self.ratios(tensor) is None and self.grows(tensor) and not self.any_size:
                raise DoesNotFlow(f"the dimensions of the output {label(tensor)} cannot be determined")
        self._declare()

    # --- nodes -------------------------------------------------------------------------------------------------------------

    def _pass(self, node: gs.Node) -> None:
        if any(True for _ in bodies(node)):
            self._around(node)
            return
        self.tell(node)
        if not any(self.grows(tensor) for tensor in node.inputs) and not self._depends(node):
            return
        self._stays_inside(node)
        mender = MENDERS.get(traits(node.op).shape) if (node.domain or "") in ("", "ai.onnx") else None
        if mender is not None and not (self.any_size and self._uneven(node)) and mender(self, node):
            self.tell(node)
        if (reason := self._wrong(node)) is not None:
            raise DoesNotFlow.through(node, f": {reason}")

    def _uneven(self, node: gs.Node) -> bool:
        """Whether the node reads something that does not grow in proportion, which repairs cannot reckon with."""
        return any(self.grows(tensor) and self.ratios(tensor) is None for tensor in node.inputs)

    def _depends(self, node: gs.Node) -> bool:
        return any(self.old.value(tensor) != self.new.value(tensor) for tensor in node.inputs)

    def _around(self, node: gs.Node) -> None:
        """A node with bodies is left as it is if none of its operands depends on the dimensions."""
        inside = [tensor for inner in self.index.inside(node) for tensor in inner.inputs]
        for tensor in (*node.inputs, *inside):
            if self.grows(tensor) or self.old.value(tensor) != self.new.value(tensor):
                raise DoesNotFlow.through(node, ": its bodies are not followed")
        self.old.keep(node)
        self.new.keep(node)

    def _wrong(self, node: gs.Node) -> str | None:
        """Why the outputs of a node are wrong."""
        if not node.outputs:
            return None
        growing = False
        for tensor in node.outputs:
            if not tensor.name:
                continue
            old, new = self.old.shape(tensor), self.new.shape(tensor)
            if old is None:
                return "its result cannot be determined"
            ratios = self.ratios(tensor)
            if ratios is not None and (twice := {ratio for ratio in ratios if ratio != 1 and ratios.count(ratio) > 1}):
                return f"{ratios.count(twice.pop())} dimensions of the result {_shown(old)} depend on the dimension"
            if ratios is None:
                if new is None:
                    return f"how its result {_shown(old)} changes cannot be determined"
                return f"its result {_shown(old)} does not change in proportion to the size"
            growing = growing or self.grows(tensor) or None in old
        if growing or node.op in READERS or self.old.value(node.outputs[0]) != self.new.value(node.outputs[0]):
            return None
        if not any(self.grows(tensor) for tensor in node.inputs):
            return None
        present = next((tensor for tensor in node.outputs if tensor.name), node.outputs[0])
        return f"its result {_shown(self.old.shape(present))} is the same for every size"

    def _stays_inside(self, node: gs.Node) -> None:
        """Raises DoesNotFlow if elements along the dimension would be mixed, or indices along it are fixed."""
        if node.op in SCATTERS and len(node.inputs) > 1 and self.grows(node.inputs[0]) and not self.grows(node.inputs[1]):
            raise DoesNotFlow.through(node, ", whose indices are for the old size")
        if self.any_size or node.op not in ALONG or not node.inputs:
            return
        ratios, shape = self.ratios(node.inputs[0]), self.old.shape(node.inputs[0])
        if ratios is None or shape is None:
            return
        opset = self.index.scope(node).opsets.get("", 1)
        flat = opset < 13 and node.op in FLATTEN
        axis = node.attrs.get("axis", 1 if flat else -1)
        if (place := traits(node.op).axes) is not None:
            value = self.old.value(node.inputs[place])
            axis = value.items[0] if value is not None else 0
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            return
        axis %= len(shape)
        if any(ratio != 1 for ratio in (ratios[axis:] if flat else ratios[axis : axis + 1])):
            raise DoesNotFlow.through(node, ", which computes along the dimension")

    # --- declarations ------------------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Declares the name in outputs of the graph that have the dimension, and no size in outputs with another size of it."""
        for tensor in self.index.graph.outputs:
            ratios, shape = self.dimension_ratios(tensor), self.context.facts.declared(tensor)[1]
            if ratios is None or shape is None or len(ratios) != len(shape) or all(ratio == 1 for ratio in ratios):
                continue
            old = self.old.shape(tensor)
            assert old is not None
            dims: list[Dim] = []
            for ratio, size, said in zip(ratios, old, shape, strict=True):
                name = None if ratio is None else self._names.get(ratio)
                whole = name is not None and size == self._sizes[name]
                dims.append(said if ratio == 1 else name if whole else None)
            dtype = self.context.facts.dtype(tensor)
            self.edits.set_type(tensor, gs_dtype(dtype) if dtype else tensor.dtype, dims)


class SizeWalk(DimensionWalk):
    """The same for heights, widths and lengths, which need not reach the results."""

    any_size = True

    def _wrong(self, node: gs.Node) -> str | None:
        if traits(node.op).shape == "reshape" and not keeps_order(self, node):
            return "its shape operand holds the old size"
        reason = super()._wrong(node)
        return None if reason is None or takes_any_size(self, node) else reason


def _shown(shape: tuple[Dim, ...] | None) -> str:
    return "of unknown rank" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
