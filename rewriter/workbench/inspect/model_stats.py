"""The costs of a model and the contents of its weights: parameters, multiplications and bytes by node and by module.

Shapes are derived from the inputs. A dimension without a length counts as 1, unless `--static` sets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.engine.firing_audit import known_type
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph, Node
from rewriter.core.graph.tidy import Static, fix_shapes
from rewriter.core.graph.values import Constant, constant_array, elem_type
from rewriter.core.language.operator_traits import of_form, pick
from rewriter.core.onnxfile.tensors import byte_size, numpy_dtype, text
from rewriter.core.record import field, record
from rewriter.trust.proof.benchmark import described

# The modules of the framework that nodes belong to, as the exporter recorded them or named the nodes.

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata in which PyTorch's dynamo exporter lists the modules around a node, outermost first."""


def module_of(node: onnx.NodeProto, name: str) -> list[str]:
    """The modules around a node, outermost first: what the exporter recorded, or the parts of its name between slashes."""
    for entry in node.metadata_props:
        if text(entry.key) == SCOPES:
            scopes = [scope for scope in re.findall(r"'([^']*)'", text(entry.value))[:-1] if scope]
            return [scope.rpartition(".")[2] for scope in scopes]
    return [part for part in name.split("/")[:-1] if part]


# Multiplications of a node, by its operator and the shapes around it.
#
# Only multiplications whose products are added up are counted, as in convolutions and matrix products (MACs), not
# multiplications of each element once.

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]


@record(frozen=True, slots=True)
class _Sizes:
    """A node with the shapes of its operands and results; a shape that is unknown raises _Unknown."""

    attrs: Mapping[str, Any]
    ins: Shapes
    outs: Shapes

    def operand(self, i: int) -> Shape:
        return _known(self.ins, i)

    def result(self) -> Shape:
        return _known(self.outs, 0)


class _Unknown(Exception):
    pass


def macs(
    op: str, domain: str, attrs: Mapping[str, Any], ins: Sequence[Shape | None], outs: Sequence[Shape | None]
) -> int | None:
    """The number; 0 for operators that add nothing up, None if a shape that the number depends on is unknown."""
    count = pick(_COUNTS, op) if domain in ("", "ai.onnx", "com.microsoft") else None
    if count is None:
        return 0
    try:
        return count(_Sizes(attrs, ins, outs))
    except (_Unknown, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None


def _known(shapes: Shapes, i: int) -> Shape:
    found = shapes[i] if i < len(shapes) else None
    if found is None:
        raise _Unknown
    return found


def _conv(weight: int) -> Callable[[_Sizes], int]:
    return lambda node: prod(node.result()) * prod(node.operand(weight)[1:])


def _conv_transpose(node: _Sizes) -> int:
    return prod(node.operand(0)) * prod(node.operand(1)[1:])


def _matmul(node: _Sizes) -> int:
    return prod(node.result()) * node.operand(0)[-1]


def _gemm(node: _Sizes) -> int:
    return prod(node.result()) * node.operand(0)[0 if node.attrs.get("transA", 0) else 1]


def _einsum(node: _Sizes) -> int:
    equation = str(node.attrs["equation"]).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    for i, labels in enumerate(equation.split(",")):
        if "." in labels:
            raise _Unknown
        sizes.update(zip(labels, node.operand(i), strict=True))
    return prod(sizes.values()) if "," in equation else 0


def _recurrent(node: _Sizes) -> int:
    return prod(node.operand(0)[:2]) * (prod(node.operand(1)) + prod(node.operand(2)))


def _attention(node: _Sizes) -> int:
    query, key, value = (node.operand(i) for i in range(3))
    if len(query) == 4:
        return prod(query[:3]) * key[2] * (query[3] + value[3])
    heads = int(node.attrs["q_num_heads"])
    kept = int(node.attrs["kv_num_heads"])
    return query[0] * query[1] * key[1] * (query[2] + value[2] // kept * heads)


_COUNTS: dict[str, Callable[[_Sizes], int]] = {
    **dict.fromkeys(("convolution", "FusedConv", "DeformConv"), _conv(1)),
    "QLinearConv": _conv(3),
    "deconvolution": _conv_transpose,
    **dict.fromkeys(("matrix_product", "MatMulInteger", "QLinearMatMul", "FusedMatMul"), _matmul),
    **dict.fromkeys(("gemm", "FusedGemm"), _gemm),
    "einsum": _einsum,
    "recurrent": _recurrent,
    "Attention": _attention,
}


_STRING = 8
_LAST = of_form("matrix_product") | {"MatMulInteger", "FusedMatMul"}


@record(slots=True)
class Cost:
    """The costs of some nodes together.

    Attributes:
        nodes, parameters: numbers; a weight counts where it is first read.
        weights, results: bytes of these parameters, and of the outputs of the nodes.
        macs: multiplications that are added up.
        unknown: nodes whose shapes are unknown.
    """

    nodes: int = 0
    parameters: int = 0
    weights: int = 0
    macs: int = 0
    results: int = 0
    unknown: int = 0

    def add(self, other: Cost) -> None:
        """Adds the costs of other nodes."""
        for name in ("nodes", "parameters", "weights", "macs", "results", "unknown"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@record(slots=True)
class NodeCost:
    """One node: `place` is "main" or a body, `module` the modules around it, `types` the types of its outputs
    (`float[N,4]`)."""

    place: str
    name: str
    op: str
    module: tuple[str, ...]
    cost: Cost
    types: tuple[str, ...] = ()


@record(slots=True)
class WeightStats:
    """The contents of one weight; numbers are None if it has none, as in texts, and `problem` says why it was not read.

    Attributes:
        channels, constant, dead: for a weight with several dimensions that one node reads: how many entries its axis of outputs
            has, in how many of them all numbers are equal, and in how many 0.
    """

    name: str
    type: str
    shape: Shape
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nan: int = 0
    inf: int = 0
    channels: int = 0
    constant: int = 0
    dead: int = 0
    problem: str = ""


@record(slots=True)
class ModelStats:
    """The costs of a model; `open` are dimensions that count as 1, `functions` calls of functions, which cost nothing here."""

    total: Cost
    nodes: list[NodeCost]
    open: list[str]
    functions: int
    weights: list[WeightStats] = field(default_factory=list)

    def modules(self, depth: int) -> Iterator[tuple[tuple[str, ...], Cost]]:
        """Modules down to a depth with their contents, each before its inner modules, in the order of the nodes."""
        found: dict[tuple[str, ...], Cost] = {}
        for node in self.nodes:
            for length in range(1, min(depth, len(node.module)) + 1):
                found.setdefault(node.module[:length], Cost()).add(node.cost)
        below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for path in found:
            below.setdefault(path[:-1], []).append(path)
        waiting = below.get((), [])[::-1]
        while waiting:
            path = waiting.pop()
            yield path, found[path]
            waiting.extend(below.get(path, [])[::-1])


def model_stats(model: Model, static: Static = (), *, weights: bool = True) -> ModelStats:
    """The costs of a model; with `weights` also the contents of its weights, which are read one after the other.

    Raises:
        RewriterError: an input cannot have the shape in `static`.
    """
    fix_shapes(model.graph, static)
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    counter = _Counter(index, facts)
    nodes = [counter.node(node) for scope in index.scopes if not scope.is_function for node in index.members(scope)]
    total = Cost()
    for node in nodes:
        total.add(node.cost)
    stats = ModelStats(total, nodes, sorted(counter.open), counter.functions)
    if weights:
        stats.weights = [_weight(tensor, counter.readers.get(id(tensor), [])) for tensor in counter.initializers]
    return stats


class _Counter:
    def __init__(self, index: GraphIndex, facts: Facts) -> None:
        self._index = index
        self._facts = facts
        self._functions = {(function.domain, function.name) for function in index.graph.functions}
        self._counted: set[int] = set()
        self.open: set[str] = set()
        self.functions = 0
        graphs = [scope.graph for scope in index.scopes if isinstance(scope.graph, Graph)]
        self.initializers = [tensor for graph in graphs for tensor in graph.initializers if isinstance(tensor, Constant)]
        self.readers: dict[int, list[tuple[gs.Node, int]]] = {}

    def node(self, node: gs.Node) -> NodeCost:
        scope = self._index.scope(node)
        self.functions += (node.domain or "", node.op) in self._functions
        cost = Cost(nodes=1)
        for position, tensor in enumerate(node.inputs):
            if isinstance(tensor, Constant):
                self.readers.setdefault(id(tensor), []).append((node, position))
                if id(tensor) not in self._counted:
                    self._counted.add(id(tensor))
                    cost.parameters += prod(tensor.shape)
                    cost.weights += _bytes(elem_type(tensor), tuple(tensor.shape))
        outs = [self._shape(tensor) for tensor in node.outputs]
        found = macs(node.op, node.domain or "", node.attrs, [self._shape(tensor) for tensor in node.inputs], outs)
        cost.macs = found or 0
        for tensor, shape in zip(node.outputs, outs, strict=True):
            dtype = self._facts.dtype(tensor)
            if tensor.name and shape is not None and dtype and node.op == "Constant":
                cost.parameters, cost.weights = prod(shape), _bytes(dtype, shape)
            elif tensor.name and shape is not None and dtype:
                cost.results += _bytes(dtype, shape)
        cost.unknown = int(found is None or any(t.name and s is None for t, s in zip(node.outputs, outs, strict=True)))
        name = node.name or next((tensor.name for tensor in node.outputs if tensor.name), "")
        proto = node.proto if isinstance(node, Node) else None
        module = tuple(module_of(proto, node.name)) if proto is not None else ()
        types = tuple(known_type(self._facts, tensor) if tensor.name else "" for tensor in node.outputs)
        return NodeCost(scope.path, name, node.op, module, cost, types)

    def _shape(self, tensor: gs.Tensor) -> Shape | None:
        shape = self._facts.shape(tensor) if tensor.name else None
        if shape is None:
            return None
        self.open.update("?" if dim is None else dim for dim in shape if not isinstance(dim, int))
        return tuple(dim if isinstance(dim, int) else 1 for dim in shape)


def _bytes(number: int | None, shape: Shape) -> int:
    return 0 if number in (None, _STRING) else byte_size(number or 0, prod(shape))


def _weight(tensor: Constant, readers: Sequence[tuple[gs.Node, int]]) -> WeightStats:
    number = elem_type(tensor)
    dtype = numpy_dtype(number)
    found = WeightStats(tensor.name, "string" if number == _STRING else str(dtype or number), tuple(tensor.shape))
    try:
        values = np.asarray(constant_array(tensor))
    except RewriterError as error:
        found.problem = str(error)
        return found
    if values.dtype.kind in "OUSc" or not values.size:
        return found
    numbers = described(values)
    found.min, found.max, found.mean = (numbers.get(name) for name in ("min", "max", "mean"))
    found.nan, found.inf = numbers.get("nan", 0), numbers.get("inf", 0)
    axis = _axis_of_channels(readers, values.ndim)
    if axis is not None:
        rows: Any = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        same = (rows == rows[:, :1]).all(axis=1)
        found.channels, found.constant = len(rows), int(same.sum())
        found.dead = int((same & (rows[:, 0] == 0)).sum())
    return found


def _axis_of_channels(readers: Sequence[tuple[gs.Node, int]], rank: int) -> int | None:
    """The axis of a weight along which its outputs lie."""
    if len(readers) != 1 or rank < 2:
        return None
    node, position = readers[0]
    if node.op in _LAST:
        return rank - 1 if position == 1 else None
    if node.op == "Gemm":
        return (0 if node.attrs.get("transB", 0) else 1) if position == 1 else None
    if node.op == "ConvTranspose":
        return 1 if position == 1 else None
    return 0 if node.op in ("Conv", "ConvInteger", "FusedConv") and position == 1 else None
