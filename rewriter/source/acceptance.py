"""Whether a source file is the one of this very model, and not that of another network that looks like it.

Symbol files are told apart by their names only (`symbol.json` says nothing), networks of one family have nodes of the same
names, and a rule believes what the file says of attributes that the model has lost. So a symbol file is used only where it
says of everything that the model has kept what the model says: every variable and operator, every edge, every attribute, the
outputs. What then still differs are attributes that no exporter writes.

A table of attributes never was a graph: of one it is asked only that its nodes are in the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rewriter.source.agreement import constant_value, disagreement, is_constant
from rewriter.source.exports import HELPERS, exported_to
from rewriter.source.info import VARIABLE, SourceInfo, SourceNode

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs

Edge = tuple[str, int | None]  # a node of the file and its output; None where the model does not tell which one

_LOSSES = frozenset(
    [
        "SoftmaxOutput",
        "Softmax",
        "LogisticRegressionOutput",
        "LinearRegressionOutput",
        "MAERegressionOutput",
        "SVMOutput",
        "MakeLoss",
    ]
)
_SCALAR = frozenset(
    ["_mul_scalar", "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_div_scalar", "_rdiv_scalar", "_power_scalar"]
)
# Helpers of MXNet up to 1.8 that are named by the place of the operator, not after it.
_PLACED = re.compile(r"flatten_\d+|transpose\d+_[ab]")
# Helpers of MXNet 1.9 that are named after the operand and belong to the operator that reads it (linalg_gemm2).
_NEXT = ("_shape", "_data_8_dim")
# Operators of MXNet whose operands are those of the ONNX operator, in the same order.
_PLAIN = frozenset(
    [
        "Convolution",
        "Deconvolution",
        "BatchNorm",
        "InstanceNorm",
        "FullyConnected",
        "LeakyReLU",
        "LRN",
        "Concat",
        "add_n",
        "dot",
        "elemwise_add",
        "elemwise_sub",
        "elemwise_mul",
        "elemwise_div",
        "broadcast_add",
        "broadcast_sub",
        "broadcast_mul",
        "broadcast_div",
        "broadcast_power",
        "_power",
        "_maximum",
        "_minimum",
        "broadcast_equal",
        "broadcast_greater",
        "broadcast_lesser",
        "broadcast_logical_and",
        "broadcast_logical_or",
        "broadcast_logical_xor",
    ]
)


def objection(info: SourceInfo, graph: gs.Graph) -> str:
    """Why a source file is not that of a model, in one line without the file's name; "" where it is."""
    joined = _Join(info, graph)
    if info.framework != "mxnet":
        absent = next((name for name in info.nodes if name not in joined.parts), None)
        return "" if absent is None else f"{absent!r} is not in the model"
    return next(_objections(joined), "")


class _Join:
    """A model and a source file side by side.

    Attributes:
        parts: the ONNX nodes that stand for a framework node, by its name.
        made: the nodes of the model by the names of their outputs; `constants` and `inputs` are the tensors that none makes.
        operators: the nodes of the file that are no variables.
        folded: names of the constants that scalar operators on a weight became, with those operators.
        beside: nodes of the model that stand for nothing in the file.
    """

    def __init__(self, info: SourceInfo, graph: gs.Graph) -> None:
        self.info = info
        self.graph = graph
        self.parts: dict[str, list[gs.Node]] = {}
        self.made: dict[str, gs.Node] = {}
        self.owner: dict[int, str] = {}
        self.beside: list[gs.Node] = []
        self.outputs = [tensor.name for tensor in graph.outputs]
        self.inputs = {tensor.name: tensor for tensor in graph.inputs}
        for node in graph.nodes:
            key = info.node_for(node.name, [tensor.name for tensor in node.outputs])
            if is_constant(node) and (key is None or _is_variable(info, node.outputs[0].name)):
                continue  # a weight, also where 1.9 could have named a helper so
            self.made.update((tensor.name, node) for tensor in node.outputs)
            if key is None:
                self.beside.append(node)
            else:
                self.owner[id(node)] = key
                self.parts.setdefault(key, []).append(node)
        self.constants = {tensor.name: tensor for tensor in _constants(graph)}
        self.folded = dict(self._folded())
        self._behind: dict[str, frozenset[Edge]] = {}
        self.operators = dict(_operators(info))

    def _folded(self) -> Iterator[tuple[str, str]]:
        """A scalar operator on a weight is no node: its result is a constant, named after the weight and the place."""
        for key, node in self.info.nodes.items():
            if node.operator in _SCALAR and key not in self.parts and node.inputs:
                for name in (key, f"{node.inputs[0][0]}{node.position}"):
                    if name in self.constants:
                        yield name, key

    def finals(self, key: str) -> dict[str, int]:
        """The tensors of the model that are outputs of a framework node, with their numbers."""
        if key in self.made:
            several = self.info.output_count(key) > 1
            return {key: 0} | (dict(self._numbered(key)) if several else {})
        return dict(self._numbered(key)) or {name: 0 for name, of in self.folded.items() if of == key}

    def _numbered(self, key: str) -> Iterator[tuple[str, int]]:
        for node in self.parts.get(key, ()):
            for tensor in node.outputs:
                if found := re.fullmatch(re.escape(key) + r"(?:_output)?(\d{1,9})", tensor.name):
                    yield tensor.name, int(found[1])

    def mains(self, key: str) -> list[gs.Node]:
        """The nodes that make the outputs of a framework node."""
        finals = self.finals(key)
        return [self._worker(key, node) for node in self.parts.get(key, ()) if any(t.name in finals for t in node.outputs)]

    def _worker(self, key: str, node: gs.Node) -> gs.Node:
        """What made the operand of an Identity that another tool put at the end of a framework node."""
        while node.op == "Identity" and len(node.inputs) == 1:
            maker = self.made.get(node.inputs[0].name)
            if maker is None or maker is node or self.owner.get(id(maker)) != key:
                break
            node = maker
        return node

    def behind(self, name: str) -> frozenset[Edge]:
        """The outputs of framework nodes that a tensor comes from, seen through nodes that stand for nothing in the file."""
        if name not in self._behind:
            self._behind[name] = frozenset(self._sources(name))
        return self._behind[name]

    def _sources(self, name: str) -> Iterator[Edge]:
        waiting, seen = [name], {name}
        while waiting:
            tensor = waiting.pop()
            node = self.made.get(tensor)
            if node is not None and id(node) not in self.owner:
                more = {operand.name for operand in node.inputs if operand.name} - seen
                seen |= more
                waiting.extend(more)
            elif (edge := self._edge(tensor, node)) is not None:
                yield edge

    def _edge(self, tensor: str, node: gs.Node | None) -> Edge | None:
        if node is not None:
            key = self.owner[id(node)]
            unparted = tensor == key and len(node.outputs) == 1 < self.info.output_count(key)  # 1.3 writes one output of many
            return key, None if unparted else self.finals(key).get(tensor)
        if tensor in self.folded:
            return self.folded[tensor], 0
        known = self.info.nodes.get(tensor)
        if known is None:
            return None
        return tensor, 0 if known.operator == VARIABLE else None  # up to 1.8, a tensor that nothing makes stands for a node


def _operators(info: SourceInfo) -> Iterator[tuple[str, SourceNode]]:
    """Those of one name in a file also have names by their place; each is told once."""
    told: set[int] = set()
    for key, node in info.nodes.items():
        if node.operator != VARIABLE and id(node) not in told:
            told.add(id(node))
            yield key, node


def _constants(graph: gs.Graph) -> Iterator[gs.Tensor]:
    from onnx_graphsurgeon import Constant  # whether it is one is asked by its class: to ask for its values would read them

    yield from (tensor for tensor in vars(graph).get("initializers", ()))
    yield from (node.outputs[0] for node in graph.nodes if is_constant(node))
    yield from (tensor for node in graph.nodes for tensor in node.inputs if isinstance(tensor, Constant) and not tensor.inputs)


def _is_variable(info: SourceInfo, name: str) -> bool:
    known = info.nodes.get(name)
    return known is not None and known.operator == VARIABLE


def _objections(joined: _Join) -> Iterator[str]:
    yield from _of_variables(joined)
    yield from _of_operators(joined)
    yield from _of_the_rest(joined)
    yield from _of_outputs(joined)
    for key, node in joined.operators.items():
        if key in joined.parts:
            yield from _of_edges(joined, key, node)
        mains = joined.mains(key)
        for part in joined.parts.get(key, ()):
            if found := disagreement(node, part, whole=part in mains, version=joined.info.release):
                yield f"{key!r} is {node.operator} with {found}"


def _of_variables(joined: _Join) -> Iterator[str]:
    info = joined.info
    used = {source for node in info.nodes.values() for source, _ in _operands(node)} | {name for name, _ in info.heads}
    for name, node in info.nodes.items():  # in their order: the first one is told
        if name in used and node.operator == VARIABLE and name not in joined.inputs and name not in joined.constants:
            yield f"the variable {name!r} is not in the model"
    for name, tensor in joined.inputs.items():
        known = info.nodes.get(name)
        if known is None or known.operator != VARIABLE:
            yield f"the input {name!r} of the model is not in the file"
        elif found := _other_shape(known, tensor.shape):
            yield found
    for name, constant in joined.constants.items():
        known = info.nodes.get(name)
        if known is not None and (found := _other_shape(known, constant.shape)):
            yield found


def _other_shape(variable: SourceNode, shape: Sequence[int | str | None] | None) -> str:
    from rewriter.source.literal import parse_literal

    told = parse_literal(variable.attributes.get("__shape__", ""))
    if not isinstance(told, list) or shape is None or not told:
        return ""
    pairs = zip(told, shape, strict=False)
    if len(told) != len(shape) or any(isinstance(b, int) and a not in (0, -1, b) and b > 0 for a, b in pairs):
        return f"the variable {variable.name!r} has the shape {told}, in the model {list(shape)}"
    return ""


def _of_operators(joined: _Join) -> Iterator[str]:
    """Each operator is there, and makes its result itself: exporters name after it what prepares its operands. What goes on
    with its result was put there by somebody, who may have repaired it so.
    """
    folded = set(joined.folded.values())
    for key, node in joined.operators.items():
        if key in folded:
            continue
        mains, finals = joined.mains(key), joined.finals(key)
        if not mains:
            yield f"{node.operator} {key!r} is not in the model"
        fitting = exported_to(node)
        for part in joined.parts.get(key, ()):
            is_main = part in mains
            after = not is_main and any(tensor.name in finals for tensor in part.inputs)
            if after and not any(tensor.name.endswith(_NEXT) for tensor in part.outputs):
                yield f"{part.op} {part.name or part.outputs[0].name!r} of the model is not in the file"
            if fitting and part.op not in fitting and (is_main or part.op not in HELPERS):
                yield f"{key!r} is {_called(node)}, in the model {part.op}"


def _called(node: SourceNode) -> str:
    """ "Activation (relu)"."""
    kind = node.attributes.get("act_type") or node.attributes.get("pool_type")
    return f"{node.operator} ({kind})" if kind else node.operator


def _of_the_rest(joined: _Join) -> Iterator[str]:
    for node in joined.beside:
        output = next((tensor.name for tensor in node.outputs), "")
        if node.op != "Identity" and not _is_helper(joined, output):
            yield f"{node.op} {node.name or output!r} of the model is not in the file"


def _is_helper(joined: _Join, output: str) -> bool:
    """Whether a node that no operator of the file is named after is one that MXNet adds: 1.9 names some after a variable."""
    if _PLACED.fullmatch(output):
        return True
    stem = output
    while (cut := stem.rfind("_")) > 0:
        stem = stem[:cut]
        if _is_variable(joined.info, stem):
            return True
    return False


def _of_outputs(joined: _Join) -> Iterator[str]:
    """The model gives out the heads, in the order of the file or in that of the operators, which exporters list them in."""
    heads = joined.info.heads
    if not heads:
        return
    listed = joined.outputs
    last = next(reversed(joined.operators), "")
    only_last = _lists_the_last(joined, last)
    expected: list[str] = []
    for key, number in heads:
        tensors = [name for name, at in joined.finals(key).items() if at == number] or [key] * (key in joined.inputs)
        if shared := re.fullmatch(r"idx_\d+_(.+)", key):  # 1.9 gives out the first of two nodes of one name
            tensors += [shared[1]] * (shared[1] in joined.made)
        if not tensors:
            yield f"output {number} of {key!r} is not in the model"
        if not set(tensors) & set(listed) and not only_last:
            yield f"{key!r} is an output, in the model it is not"
        expected += tensors
    for name in listed:
        if name not in expected and not only_last:
            yield f"{name!r} is an output of the model, in the file it is not"
    order = {key: place for place, key in enumerate(joined.operators)}
    places = [order.get(joined.owner.get(id(joined.made.get(name)), ""), len(order)) for name in listed]
    if not only_last and places != sorted(places) and [name for name in expected if name in listed] != listed:
        yield "the outputs of the model are in another order"


def _lists_the_last(joined: _Join, last: str) -> bool:
    """Whether the outputs are what MXNet 1.3 lists: all nodes that the last operator became, and nothing of the other heads."""
    if joined.info.release >= (1, 4):
        return False
    made = {tensor.name for node in joined.parts.get(last, ()) for tensor in node.outputs}
    others = set(joined.outputs) - made
    return bool(made) and made <= set(joined.outputs) and all(map(_PLACED.fullmatch, others))


def _operands(node: SourceNode) -> tuple[tuple[str, int], ...]:
    """The edges that an exporter follows: not the label of a loss."""
    return node.inputs[:1] if node.operator in _LOSSES else node.inputs


def _of_edges(joined: _Join, key: str, node: SourceNode) -> Iterator[str]:
    wanted = _operands(node)
    found: set[Edge] = set()
    for part in joined.parts[key]:
        for operand in part.inputs:
            if operand.name:
                found |= {edge for edge in joined.behind(operand.name) if edge[0] != key}
    for source, number in wanted:
        if source not in joined.info.nodes or not _has(found, source, number):
            yield f"{source!r} is an operand of {key!r}, in the model it is not"
    for source, at in found:
        if not any(source == name and at in (None, index) for name, index in wanted):
            yield f"{source!r} is an operand of {key!r} in the model, in the file it is not"
    for main in joined.mains(key):
        yield from _of_order(joined, key, main, [source for source, _ in wanted])


def _has(found: set[Edge], source: str, number: int) -> bool:
    return (source, number) in found or (source, None) in found


def _of_order(joined: _Join, key: str, main: gs.Node, wanted: list[str]) -> Iterator[str]:
    if joined.info.nodes[key].operator not in _PLAIN:
        return
    order: list[str] = []
    for at, operand in enumerate(main.inputs):
        behind = sorted({source for source, _ in joined.behind(operand.name)} - {key}) if operand.name else []
        order.extend(behind)
        if operand.name in joined.constants and not behind and not _added(main, at, key):
            yield f"{operand.name!r} is an operand of {key!r} in the model, in the file it is not"
    if main.op != "Reshape" and len(order) == len(wanted) and order != wanted:
        yield f"the operands of {key!r} are {', '.join(wanted)}, in the model {', '.join(order)}"


def _added(main: gs.Node, at: int, key: str) -> bool:
    """Whether an exporter adds such a constant: the bias of a FullyConnected without one; the oldest files lack statistics."""
    operand = main.inputs[at]
    if main.op == "Gemm" and at == 2:
        value = constant_value(operand)
        return value is not None and not value.any()
    return main.op == "Reshape" or operand.name in (f"{key}_moving_mean", f"{key}_moving_var")
