"""The differences of two models, one record each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

from rewriter.core.graph.message_text import attribute_text, type_text
from rewriter.core.graph.metadata import HISTORY
from rewriter.core.onnxfile.read import read_model_file
from rewriter.core.onnxfile.tensors import text
from rewriter.core.record import record
from rewriter.trust.diff import sides
from rewriter.trust.diff.sides import ConstantContents, Pairing, Side, Statistics, attribute_digest, statistics


@record(frozen=True, slots=True)
class Difference:
    """One difference. `before` is None for what only the second model has, `after` for what only the first has.

    Attributes:
        kind: "model", "opset", "metadata", "input", "output", "function", "node", "attribute", "operand", "result", or
            "constant".
        place: path of the graph, "" for the model as a whole.
        name: what differs: an opset's domain, a key, a tensor, the node.
        part: the attribute's name, or the operand's or output's position.
        statistics: of two constants of one shape.
    """

    kind: str
    place: str
    name: str
    part: str
    before: str | None
    after: str | None
    statistics: Statistics | None = None


def compare_files(one: Path, other: Path) -> list[Difference]:
    """The differences of two model files, weights compared by value.

    Raises:
        RewriterError: a file is missing or no ONNX model.
    """
    first, second = read_model_file(one), read_model_file(other)  # each keeps the file open that its weights stayed in
    folders = one.absolute().parent, other.absolute().parent
    return list(compare(first.proto, second.proto, *folders))


def compare(
    one: onnx.ModelProto, other: onnx.ModelProto, folder: Path | None = None, other_folder: Path | None = None
) -> Iterator[Difference]:
    """The differences of two models; folders are those of their external data."""
    yield from _model(one, other)
    yield from _interface(one.graph, other.graph)
    first = sides.of_graph(one.graph, "main", folder)
    second = sides.of_graph(other.graph, "main", other_folder)
    yield from _graphs(first, second)
    mine, theirs = _functions(one), _functions(other)
    for name in sorted({*mine, *theirs}):
        if name not in mine or name not in theirs:
            yield Difference("function", "", name, "", _count(mine.get(name)), _count(theirs.get(name)))
            continue
        path = f"function {name}"
        yield from _declared(path, mine[name], theirs[name])
        yield from _graphs(sides.of_function(mine[name], path, folder), sides.of_function(theirs[name], path, other_folder))


def _functions(model: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    found = {}
    for function in model.functions:
        overload = f":{text(function.overload)}" if function.overload else ""
        found[f"{text(function.domain)}::{text(function.name)}{overload}"] = function
    return found


def _declared(path: str, one: onnx.FunctionProto, other: onnx.FunctionProto) -> Iterator[Difference]:
    """What two functions of one name say of their attributes, and the opsets of their nodes."""
    yield from _tables("opset", _opsets(one), _opsets(other), path)
    mine, theirs = _defaults(one), _defaults(other)
    for name in dict.fromkeys([*mine, *theirs]):
        if mine.get(name) != theirs.get(name):
            yield Difference("attribute", path, "defaults", name, mine.get(name), theirs.get(name))


def _defaults(function: onnx.FunctionProto) -> dict[str, str]:
    """The attributes of a function by name."""
    written = {text(attribute.name): attribute_text(attribute) for attribute in function.attribute_proto}
    return {**dict.fromkeys(map(text, function.attribute), "no default"), **written}


def _count(function: onnx.FunctionProto | None) -> str | None:
    return None if function is None else f"{len(function.node)} nodes"


# --- the model and its interface ---------------------------------------------------------------------------------------------


def _model(one: onnx.ModelProto, other: onnx.ModelProto) -> Iterator[Difference]:
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        yield from _changed("model", "", name, _plain(getattr(one, name)), _plain(getattr(other, name)))
    yield from _changed("model", "", "graph name", _plain(one.graph.name), _plain(other.graph.name))
    yield from _tables("opset", _opsets(one), _opsets(other))
    props = [{text(entry.key): text(entry.value) for entry in model.metadata_props} for model in (one, other)]
    for table in props:
        table.pop(HISTORY, None)
    yield from _tables("metadata", props[0], props[1])


def _opsets(of: onnx.ModelProto | onnx.FunctionProto) -> dict[str, str]:
    return {text(entry.domain) or "ai.onnx": str(entry.version) for entry in of.opset_import}


def _tables(kind: str, one: Mapping[str, str], other: Mapping[str, str], place: str = "") -> Iterator[Difference]:
    for name in dict.fromkeys([*one, *other]):
        yield from _changed(kind, place, name, one.get(name), other.get(name))


def _changed(kind: str, place: str, name: str, before: str | None, after: str | None) -> Iterator[Difference]:
    if before != after:
        yield Difference(kind, place, name, "", before, after)


def _plain(value: Any) -> str | None:
    return text(value) or None if isinstance(value, str | bytes) else str(value)


def _interface(one: onnx.GraphProto, other: onnx.GraphProto) -> Iterator[Difference]:
    """Inputs that a caller must give, and outputs, by name; and whether they stand in another order."""
    for kind, ports in (("input", _inputs), ("output", _outputs)):
        mine, theirs = ports(one), ports(other)
        yield from _tables(kind, mine, theirs)
        common = [[name for name in side if name in mine and name in theirs] for side in (mine, theirs)]
        if common[0] != common[1]:
            yield Difference(kind, "", "order", "", ", ".join(common[0]), ", ".join(common[1]))
    yield from _overridable(_listed(one), _listed(other))


def _overridable(one: list[str], other: list[str]) -> Iterator[Difference]:
    """Initializers among the inputs that only one model has there, or all of them where only the order differs."""
    if one == other:
        return
    mine, theirs = [name for name in one if name not in other], [name for name in other if name not in one]
    before, after = (mine, theirs) if mine or theirs else (one, other)
    yield Difference("input", "", "initializers among the inputs", "", ", ".join(before) or "none", ", ".join(after) or "none")


def _held(graph: onnx.GraphProto) -> set[str]:
    return {text(t.name) for t in graph.initializer} | {text(t.values.name) for t in graph.sparse_initializer}


def _inputs(graph: onnx.GraphProto) -> dict[str, str]:
    held = _held(graph)
    return {text(value.name): type_text(value.type) for value in graph.input if text(value.name) not in held}


def _listed(graph: onnx.GraphProto) -> list[str]:
    """Initializers that a caller may override."""
    held = _held(graph)
    return [name for value in graph.input if (name := text(value.name)) in held]


def _outputs(graph: onnx.GraphProto) -> dict[str, str]:
    """Types by name; of a name that is given more than once, each time."""
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for value in graph.output:
        name = text(value.name)
        times[name] += 1
        found[name if times[name] == 1 else f"{name} ({times[name]})"] = type_text(value.type)
    return found


# --- graphs ------------------------------------------------------------------------------------------------------------------


def _graphs(one: Side, other: Side, outer: Callable[[str, str], bool] | None = None) -> Iterator[Difference]:
    """Differences of two graphs, those of the bodies inside of them behind those of the nodes that hold them."""
    yield from _Graphs(one, other, outer).differences()


class _Graphs:
    def __init__(self, one: Side, other: Side, outer: Callable[[str, str], bool] | None) -> None:
        self._one = one
        self._other = other
        self._outer = outer
        self._pairing = Pairing(one, other)
        self._compared: set[tuple[str, str]] = set()

    def differences(self) -> Iterator[Difference]:
        one, other, pairing = self._one, self._other, self._pairing
        for number in range(len(one.nodes)):
            counterpart = pairing.forth.get(number)
            if counterpart is None:
                yield Difference("node", one.path, _name(one, number), "", node_line(one, number), None)
            else:
                yield from self._nodes(number, counterpart)
        for number in range(len(other.nodes)):
            if number not in pairing.back:
                yield Difference("node", other.path, _name(other, number), "", None, node_line(other, number))
        yield from self._results()
        yield from self._unread()

    def _nodes(self, number: int, counterpart: int) -> Iterator[Difference]:
        one, other = self._one, self._other
        name = _name(one, number)
        mine = {text(a.name): a for a in one.nodes[number].attribute}
        theirs = {text(a.name): a for a in other.nodes[counterpart].attribute}
        for part in dict.fromkeys([*mine, *theirs]):
            yield from self._attributes(name, part, mine.get(part), theirs.get(part))
        if one.count_of_outputs(number) != other.count_of_outputs(counterpart):
            yield Difference("node", one.path, name, "", node_line(one, number), node_line(other, counterpart))
        operands, others = one.names(number)[0], other.names(counterpart)[0]
        for position in range(max(len(operands), len(others))):
            before = operands[position] if position < len(operands) else ""
            after = others[position] if position < len(others) else ""
            yield from self._tensors("operand", name, str(position), before, after)

    def _attributes(
        self, name: str, part: str, before: onnx.AttributeProto | None, after: onnx.AttributeProto | None
    ) -> Iterator[Difference]:
        place = self._one.path
        if before is None or after is None:
            shown = tuple(None if a is None else attribute_text(a) for a in (before, after))
            yield Difference("attribute", place, name, part, shown[0], shown[1])
        elif before.HasField("g") and after.HasField("g"):
            prefix = "" if place == "main" else f"{place}/"
            bodies = [
                sides.of_graph(a.g, f"{prefix}{name}.{part}", side.folder, side)
                for a, side in ((before, self._one), (after, self._other))
            ]
            yield from _graphs(bodies[0], bodies[1], self._same)
        elif attribute_digest(before, self._one) != attribute_digest(after, self._other):
            yield Difference("attribute", place, name, part, attribute_text(before), attribute_text(after))

    def _tensors(self, kind: str, name: str, part: str, before: str, after: str) -> Iterator[Difference]:
        """Two tensors that stand at one place."""
        if self._same(before, after):
            return
        mine, theirs = self._one.constant(before), self._other.constant(after)
        if mine is None or theirs is None:
            shown = _tensor(self._one, before), _tensor(self._other, after)
            yield Difference(kind, self._one.path, name, part, *shown)
        elif (before, after) not in self._compared:
            self._compared.add((before, after))
            yield _constants(self._one.path, mine, theirs)

    def _same(self, before: str, after: str) -> bool:
        """Whether two tensors are made by one pair of nodes, are the same input, or have the same values."""
        one, other = self._one, self._other
        if not before or not after:
            return before == after
        mine, theirs = one.made.get(before), other.made.get(after)
        if mine is not None and theirs is not None:
            return self._pairing.forth.get(mine[0]) == theirs[0] and mine[1] == theirs[1]
        if mine is not None or theirs is not None:
            return False
        if before in one.inputs or after in other.inputs:
            if self._one.positional and before in one.inputs and after in other.inputs:
                return one.inputs.index(before) == other.inputs.index(after)
            return before == after and before in one.inputs and after in other.inputs
        if before in one.held or after in other.held or self._outer is None:
            return one.digest(before) == other.digest(after)
        return self._outer(before, after)

    def _results(self) -> Iterator[Difference]:
        """What the outputs of the graphs are: by name in the model, by position elsewhere."""
        one, other = self._one, self._other
        if self._one.positional:
            for position in range(max(len(one.outputs), len(other.outputs))):
                before, after = ("".join(side.outputs[position : position + 1]) for side in (one, other))
                yield from self._tensors("result", after or before, str(position), before, after)
            return
        for name in one.outputs:
            if name in other.outputs:
                yield from self._tensors("result", name, "", name, name)

    def _unread(self) -> Iterator[Difference]:
        """Constants without a counterpart: which values one model has and the other has not."""
        counted = [{pair[side] for pair in self._compared} for side in (0, 1)]
        values = [{held.digest for held in side.held.values()} for side in (self._one, self._other)]
        for held in self._one.held.values():
            if held.digest not in values[1] and held.name not in counted[0]:
                yield Difference("constant", self._one.path, held.name, "", held.type, None)
        for held in self._other.held.values():
            if held.digest not in values[0] and held.name not in counted[1]:
                yield Difference("constant", self._one.path, held.name, "", None, held.type)


def _constants(place: str, one: ConstantContents, other: ConstantContents) -> Difference:
    before, after = ((f"{c.type}, not readable: {c.problem}" if c.problem else c.type) for c in (one, other))
    found = None if one.problem or other.problem else statistics(one, other)
    name = one.name if one.name == other.name else f"{one.name} -> {other.name}"
    return Difference("constant", place, name, "", before, after, found)


def _name(side: Side, number: int) -> str:
    node = side.nodes[number]
    return text(node.name) or next((name for name in side.names(number)[1] if name), text(node.op_type))


def _tensor(side: Side, name: str) -> str | None:
    """A tensor with what it is: `h, made by Relu`, `w, float[5,3]`."""
    if not name:
        return None
    if name in side.made:
        return f"{name}, made by {text(side.nodes[side.made[name][0]].op_type)}"
    held = side.constant(name)
    return f"{name}, {held.type}" if held is not None else f"{name}, an input" if name in side.inputs else name


def node_line(side: Side, number: int) -> str:
    """`y = Gemm<transB = 1>(x, w)`."""
    node = side.nodes[number]
    attributes = ", ".join(f"{text(a.name)} = {attribute_text(a)}" for a in node.attribute)
    operands, outputs = (", ".join(name or '""' for name in names) for names in side.names(number))
    domain, op, _ = sides.key(node)
    return f"{outputs} = {f'{domain}.' if domain else ''}{op}{f'<{attributes}>' if attributes else ''}({operands})"
