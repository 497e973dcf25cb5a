"""Two graphs become one: the inputs of the second are what the first gives, or stay inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex, NameTable
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Function, Graph, Node
from rewriter.core.graph.values import Constant, LazyTensor, constant_array, elem_type
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.weights_apart import digest
from rewriter.core.onnxfile.weights_in_files import payload_of
from rewriter.workbench.surgery.data_files import size_of_proto
from rewriter.workbench.surgery.keep import FunctionKey, called, key_of, with_inner
from rewriter.workbench.surgery.parts import same_each_time

# Local functions of models that become one: equal ones are one, others of one name get another.


def unite_functions(first: Model, second: Model) -> list[str]:
    """Adds the functions of a model to those of another one; names that had to change, as `local::F -> local::F_1`."""
    own, theirs = _functions(first), _functions(second)
    called_here, called_there = _calls(first), _calls(second)
    # What only one model defines is an operator of a runtime where the other one calls it.
    foreign = {key for key in own if key not in theirs and key in called_there}
    unequal = {key for key in theirs if key not in own and key in called_here}
    unequal |= {key for key in theirs if key in own and (not _equal(theirs[key], own[key]) or _calls_any(own[key], foreign))}
    _spread(unequal, theirs, own)
    taken = {*own, *theirs, *called_here, *called_there}
    notes = _rename(first, {key: _free_name(key, taken) for key in own if key in foreign})
    notes += _rename(second, {key: _free_name(key, taken) for key in theirs if key in unequal})
    first.graph.functions.extend(function for key, function in theirs.items() if key in unequal or key not in own)
    return notes


def _functions(model: Model) -> dict[FunctionKey, gs.Function]:
    return {key_of(function): function for function in model.graph.functions}


def _nodes(model: Model) -> Iterator[gs.Node]:
    """All nodes, those of functions and bodies included."""
    for nodes in (model.graph.nodes, *(function.nodes for function in model.graph.functions)):
        yield from with_inner(nodes)


def _calls(model: Model) -> set[FunctionKey]:
    return set(map(called, _nodes(model)))


def _calls_any(function: gs.Function, keys: set[FunctionKey]) -> bool:
    return any(called(node) in keys for node in with_inner(function.nodes))


def _rename(model: Model, names: dict[FunctionKey, str]) -> list[str]:
    """Gives functions other names, also where they are called; what was renamed, in words."""
    if names:
        for node in _nodes(model):
            node.op = names.get(called(node), node.op)
        for key, function in _functions(model).items():
            function.name = names.get(key, function.name)
    return [f"{key[0]}::{key[1]} -> {name}" for key, name in names.items()]


def _equal(one: gs.Function, other: gs.Function) -> bool:
    if not isinstance(one, Function) or not isinstance(other, Function):
        return False
    a, b = one.origin.message, other.origin.message
    return bool(a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True))


def _spread(unequal: set[FunctionKey], theirs: dict[FunctionKey, gs.Function], own: dict[FunctionKey, gs.Function]) -> None:
    """A function that calls one which is to be renamed is another one, too."""
    grew = True
    while grew:
        grew = False
        for key, function in theirs.items():
            if key in own and key not in unequal and _calls_any(function, unequal):
                unequal.add(key)
                grew = True


def _free_name(key: FunctionKey, taken: set[FunctionKey]) -> str:
    number = 1
    while (key[0], f"{key[1]}_{number}", key[2]) in taken:
        number += 1
    taken.add((key[0], f"{key[1]}_{number}", key[2]))
    return f"{key[1]}_{number}"


# Initializers and constants that two models have both, found by their contents, weights in files without loading them.

_RAW_DATA = 9  # the field
_AT_ONCE = 1 << 20
_BEGINNING = 256  # bytes that mostly tell two initializers apart


class Known:
    """The initializers of a model by what they hold. Their contents are looked at only when another one has their type."""

    def __init__(self, tensors: list[gs.Tensor]) -> None:
        self._by_type: dict[tuple[Any, ...], list[Constant]] = {}
        self._digests: dict[int, str | None] = {}
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: gs.Tensor) -> None:
        if isinstance(tensor, Constant):
            self._by_type.setdefault(_type(tensor), []).append(tensor)

    def like(self, tensor: gs.Tensor) -> Constant | None:
        """An initializer of the same type and contents; of several one of the same name."""
        if not isinstance(tensor, Constant):
            return None
        candidates = self._by_type.get(_type(tensor))
        if not candidates:
            return None
        first = beginning(tensor)
        candidates = [other for other in candidates if first is None or beginning(other) in (None, first)]
        wanted = self._digest(tensor) if candidates else None
        found = [other for other in candidates if wanted is not None and self._digest(other) == wanted]
        return next((other for other in found if other.name == tensor.name), found[0] if found else None)

    def _digest(self, tensor: Constant) -> str | None:
        if id(tensor) not in self._digests:
            try:
                self._digests[id(tensor)] = contents_digest(tensor)
            except RewriterError:
                self._digests[id(tensor)] = None
        return self._digests[id(tensor)]


def beginning(tensor: Constant) -> bytes | None:
    """The first bytes of an initializer that is in a file; None for others, of which the digest costs little."""
    values = tensor._values
    if not isinstance(values, LazyTensor) or not isinstance(values.proto, onnx.TensorProto):
        return None
    try:
        left_out = payload_of(values.proto)
        if left_out is not None and left_out.field == _RAW_DATA:
            return left_out.file.read(left_out.offset, min(_BEGINNING, left_out.length))
        if external_data.is_external(values.proto) and values.folder is not None:
            place = external_data.reference(values.proto)
            with external_data.opened(values.folder, place.location) as (descriptor, _):
                return os.pread(descriptor, min(_BEGINNING, size_of_proto(values.proto)), place.offset)
    except RewriterError:
        return None
    return bytes(values.proto.raw_data[:_BEGINNING]) if values.proto.HasField("raw_data") else None


def contents_digest(tensor: Constant) -> str:
    """SHA-256 of the bytes of an initializer; equal ones may be stored in different ways. Raises RewriterError."""
    values = tensor._values
    if isinstance(values, LazyTensor) and isinstance(values.proto, onnx.TensorProto):
        proto = values.proto
        left_out = payload_of(proto)
        if left_out is not None and left_out.field == _RAW_DATA:
            return digest([left_out])
        if external_data.is_external(proto) and values.folder is not None:
            return _external_digest(proto, values.folder)
        if proto.HasField("raw_data"):
            return sha256(proto.raw_data).hexdigest()
    array = constant_array(tensor)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else None
    return sha256(array.tobytes() if data is None else data).hexdigest()


def _external_digest(proto: onnx.TensorProto, folder: Path) -> str:
    place, size = external_data.reference(proto), size_of_proto(proto)
    found = sha256()
    with external_data.opened(folder, place.location) as (descriptor, _):
        for offset in range(place.offset, place.offset + size, _AT_ONCE):
            found.update(os.pread(descriptor, min(_AT_ONCE, place.offset + size - offset), offset))
    return found.hexdigest()


def _type(tensor: Constant) -> tuple[Any, ...]:
    listed = tensor.name if tensor.listed else None  # callers may override it by its name
    return elem_type(tensor), tuple(tensor.shape), isinstance(tensor.proto, onnx.SparseTensorProto), listed


def unite_constant_nodes(first: list[gs.Node], second: list[gs.Node], wired: dict[int, gs.Tensor]) -> set[int]:
    """Finds nodes of the second model that the first has as well, and that are computed from constants alone.

    Args:
        first, second: the nodes.
        wired: what tensors of the second model, by id(), become; what these nodes make is added.

    Returns:
        The nodes of the second model that are not needed, by id().
    """
    known: dict[bytes | None, gs.Node] = {data: node for node in first if (data := _bytes(node)) is not None}
    fixed = {number for number, tensor in wired.items() if isinstance(tensor, gs.Constant)}
    found: set[int] = set()
    for node in second:
        like = known.get(_bytes(node))
        if like is None or not same_each_time(node):
            continue
        pairs = [pair for pair in zip(node.inputs, like.inputs, strict=True) if pair[0].name or pair[1].name]
        if all(id(own) in fixed and wired[id(own)] is other for own, other in pairs):
            found.add(id(node))
            made = [(id(own), other) for own, other in zip(node.outputs, like.outputs, strict=True)]
            wired.update(made)
            fixed.update(number for number, _ in made)
    return found


def _bytes(node: gs.Node) -> bytes | None:
    """What a node was read from; None when it has become another operator since, or has other attributes or operands."""
    if not isinstance(node, Node) or node._read is None:
        return None
    before = node._read[0], node._read[2], len(node._read[3])
    edited = before != (node.op, node.domain, len(node.inputs)) or (node._attrs is not None and node._attrs is not node._loaded)
    return None if edited else node.data


def join(first: Model, second: Model, wires: Mapping[int, gs.Tensor], known: set[int]) -> list[str]:
    """Puts the nodes of a model behind those of another one.

    Args:
        first: is edited.
        second: is used up.
        wires: what inputs of the second model, by id(), become: tensors of the first.
        known: tensors of both, by id(), that callers know by their names; no two of them have the same.

    Returns:
        Notes on what had to be named otherwise.
    """
    one, other = first.graph, second.graph
    assert isinstance(one, Graph) and isinstance(other, Graph)
    notes = [f"function {text}, since another operator has this name" for text in unite_functions(first, second)]
    index = GraphIndex(other)
    wired = dict(wires)
    dropped = _unite_constants(one, other, wired)
    _replace(index, wired)
    other.nodes[:] = [node for node in other.nodes if id(node) not in dropped]
    other.initializers = [tensor for tensor in other.initializers if id(tensor) not in wired]
    _name_apart(GraphIndex(one), index, wired, known)
    other.origin.annotations = [[wired.get(id(tensor), tensor) for tensor in part] for part in other.origin.annotations]
    one.origin = one.origin.joined(other.origin)
    one.nodes.extend(other.nodes)
    one.initializers = [*one.initializers, *other.initializers]
    one.inputs = [*one.inputs, *(tensor for tensor in other.inputs if id(tensor) not in wired)]
    one.outputs = [*one.outputs, *other.outputs]
    one.__dict__.setdefault("joined_weights", []).append(other.weights)  # the file has to stay open
    return notes


def _unite_constants(one: Graph, other: Graph, wired: dict[int, gs.Tensor]) -> set[int]:
    """Notes which initializers and constants of the second graph the first has; the nodes that are not needed, by id().

    What the second graph gives out stays, since callers know it by its name.
    """
    known, given = Known(one.initializers), set(map(id, other.outputs))
    for tensor in other.initializers:
        like = None if id(tensor) in given else known.like(tensor)
        if like is not None:
            wired[id(tensor)] = like
    nodes = [node for node in other.nodes if given.isdisjoint(map(id, node.outputs))]
    return unite_constant_nodes(one.nodes, nodes, wired)


def _replace(index: GraphIndex, wired: Mapping[int, gs.Tensor]) -> None:
    """Has all readers read other tensors; also where bodies and the graph hand one out."""
    if not wired:
        return
    for node in index.all_nodes():
        for position, tensor in enumerate(node.inputs):
            if id(tensor) in wired:
                node.inputs[position] = wired[id(tensor)]
    for scope in index.scopes:
        if any(id(tensor) in wired for tensor in scope.graph.outputs):
            scope.graph.outputs = [wired.get(id(tensor), tensor) for tensor in scope.graph.outputs]


def _name_apart(one: GraphIndex, other: GraphIndex, wired: Mapping[int, gs.Tensor], known: set[int]) -> None:
    """Gives tensors and nodes of the second graph other names where the first has theirs, unless callers know them: then the
    first gives way.
    """
    own = {id(tensor): tensor for tensor in _tensors(one)}
    theirs = {id(t): t for t in _tensors(other) if id(t) not in own and id(t) not in wired}
    names = NameTable(tensor.name for tensor in chain(own.values(), theirs.values()))
    fixed = {tensor.name for tensor in theirs.values() if id(tensor) in known}
    for tensor in own.values():
        if tensor.name in fixed and id(tensor) not in known:
            tensor.name = names.fresh(tensor.name)
    taken = {tensor.name for tensor in own.values()}
    for tensor in theirs.values():
        if tensor.name in taken and id(tensor) not in known:
            tensor.name = names.fresh(tensor.name)
    nodes = {node.name for node in one.all_nodes()} - {""}
    new = [node for scope in other.scopes if not scope.is_function for node in scope.graph.nodes]
    table = NameTable(chain(nodes, (node.name for node in new)))
    for node in new:
        if node.name in nodes:
            node.name = table.fresh(node.name)


def _tensors(index: GraphIndex) -> Iterator[gs.Tensor]:
    """The tensors of the main graph and of bodies, some of them several times."""
    for scope in index.scopes:
        if scope.is_function:
            continue
        graph = scope.graph
        held = graph.initializers if isinstance(graph, Graph) else ()
        for part in (graph.inputs, graph.outputs, held, *(n.inputs for n in graph.nodes), *(n.outputs for n in graph.nodes)):
            yield from (tensor for tensor in part if tensor.name)
