"""Types that cross the border of a subgraph: from an `If`, `Loop` or `Scan` into its bodies and back.

What a Loop carries may change its shape from one iteration to the next, so a body knows the element type of what comes in but
of the shape only the rank, and the loop's result has what the first value and the body's result have in common. What a Scan
carries keeps its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_graphsurgeon as gs

from rewriter.graph.scopes import bodies
from rewriter.onnxfile.tensor_types import UNKNOWN, Dim, TensorType, join, refine

_INT64, _BOOL = 7, 9
KINDS = frozenset(("If", "Loop", "Scan"))


def inner_graphs(node: gs.Node, version: int | None) -> list[gs.Graph]:
    """The bodies of an `If` (both branches), `Loop` or `Scan`; empty when they are not what these operators have.

    `version` is that of the default domain; the Scan of opset 8, with its batch axis, is left alone.
    """
    if node.op not in KINDS or node.domain not in (None, "", "ai.onnx") or (node.op == "Scan" and (version or 0) < 9):
        return []
    found = dict(bodies(node))
    names = ("then_branch", "else_branch") if node.op == "If" else ("body",)
    return [found[name] for name in names] if all(name in found for name in names) else []


def body_input(
    node: gs.Node, i: int, types: Sequence[TensorType], declared: TensorType, ends: Sequence[TensorType]
) -> TensorType:
    """Type of input i of the body of a Loop or Scan.

    Args:
        node: the owner, whose operands have `types`.
        i: which input.
        types: see there.
        declared: what the body declares of it; `ends`: and of its outputs.
    """
    if node.op == "Loop":
        if i < 2:
            return refine(declared, TensorType(_BOOL if i else _INT64, ()))
        return _carried(types[i : i + 1], declared, ends[i - 1 : i])
    states = _states(node, len(types))
    if states is None or i >= len(types):
        return TensorType(declared.dtype)
    if i < states:
        return refine(types[i], TensorType(declared.dtype))
    axis = _axis(node, "scan_input_axes", i - states)
    whole = types[i].shape
    if whole is None or axis is None or not -len(whole) <= axis < len(whole):
        return TensorType(types[i].dtype if types[i].dtype is not None else declared.dtype)
    shape = list(whole)
    del shape[axis]
    return TensorType(types[i].dtype if types[i].dtype is not None else declared.dtype, tuple(shape))


def _carried(first: Sequence[TensorType], declared: TensorType, last: Sequence[TensorType]) -> TensorType:
    """What a Loop's body gets from the iteration before, of the rank on which the first value and both declarations agree."""
    if not first or not last:
        return TensorType(declared.dtype)
    if first[0].other:
        return TensorType(other=first[0].other)
    shapes = (first[0].shape, declared.shape, last[0].shape)
    ranks = {None if shape is None else len(shape) for shape in shapes}
    rank = ranks.pop() if len(ranks) == 1 else None
    dtype = first[0].dtype if first[0].dtype is not None else declared.dtype
    return TensorType(dtype, None if rank is None else (None,) * rank)


def output_types(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    """Types of the outputs of an If, Loop or Scan.

    Args:
        node: the owner.
        types: of its operands.
        results: of the outputs of each of its bodies, in the order of `inner_graphs`.
    """
    rule = {"If": _if, "Loop": _loop, "Scan": _scan}[node.op]
    found = rule(node, types, results)[: len(node.outputs)]
    return found + [UNKNOWN] * (len(node.outputs) - len(found))


def _if(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    return [join(a, b) for a, b in zip(*results, strict=False)]


def _loop(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    made, carried = list(results[0][1:]), max(len(types) - 2, 0)
    return [_after(types[2 + i], kind) if i < carried else _stacked(kind, 0, None) for i, kind in enumerate(made)]


def _scan(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    made, states = list(results[0]), _states(node, len(types))
    if states is None:
        return []
    length: Dim = None
    for i, kind in enumerate(types[states:]):
        axis = _axis(node, "scan_input_axes", i)
        if kind.shape is not None and axis is not None and -len(kind.shape) <= axis < len(kind.shape):
            length = length if isinstance(length, int) or kind.shape[axis] is None else kind.shape[axis]
    return [
        refine(types[i], kind) if i < states else _stacked(kind, _axis(node, "scan_output_axes", i - states), length)
        for i, kind in enumerate(made)
    ]


def _after(first: TensorType, last: TensorType) -> TensorType:
    """Type of what a loop carried, after any number of iterations."""
    both = join(first, last)
    return TensorType(last.dtype if last.dtype is not None else first.dtype, both.shape) if not both.other else both


def _stacked(kind: TensorType, axis: int | None, length: Dim) -> TensorType:
    """Type of the results of all iterations side by side."""
    if kind.shape is None or axis is None or not -len(kind.shape) - 1 <= axis <= len(kind.shape):
        return TensorType(kind.dtype)
    shape = list(kind.shape)
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, length)
    return TensorType(kind.dtype, tuple(shape))


def _states(node: gs.Node, operands: int) -> int | None:
    """How many operands of a Scan are state."""
    scanned = node.attrs.get("num_scan_inputs")
    return operands - scanned if isinstance(scanned, int) and 0 < scanned <= operands else None


def _axis(node: gs.Node, name: str, i: int) -> int | None:
    axes = node.attrs.get(name, [])
    if not isinstance(axes, list):
        return None
    axis = axes[i] if i < len(axes) else 0
    return axis if isinstance(axis, int) else None
