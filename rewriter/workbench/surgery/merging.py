"""Several models as one: one after the other, or side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError, counted
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.index import GraphIndex, NameTable
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Function, FunctionKey, Graph, Node, callee, key_of, opset_versions, with_inner
from rewriter.core.graph.values import Constant, constant_array, elem_type, static_shape
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.onnxfile.model_file import Payload, digest
from rewriter.core.record import field, record
from rewriter.trust.proof.validity import Candidate
from rewriter.trust.stamp import Unreadable, dumps, history
from rewriter.workbench.surgery.data_files import DataFiles
from rewriter.workbench.surgery.edition import edit
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.opset_conversion import align, convert_opset, set_versions
from rewriter.workbench.surgery.ports import names_in, same_each_time, shown, tensors_of
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement

# Local functions of merged models: equal ones are united, different ones of one name are renamed.


def unite_functions(first: Model, second: Model) -> list[str]:
    """Adds the functions of a model to another one; returns the names that had to change, as `local::F -> local::F_1`."""
    own, theirs = _functions(first), _functions(second)
    called_here, called_there = _calls(first), _calls(second)
    # A function that only one model defines is an operator of a runtime if the other one calls it.
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
    """All nodes, including nodes of functions and bodies."""
    for nodes in (model.graph.nodes, *(function.nodes for function in model.graph.functions)):
        yield from with_inner(nodes)


def _calls(model: Model) -> set[FunctionKey]:
    return set(map(callee, _nodes(model)))


def _calls_any(function: gs.Function, keys: set[FunctionKey]) -> bool:
    return any(callee(node) in keys for node in with_inner(function.nodes))


def _rename(model: Model, names: dict[FunctionKey, str]) -> list[str]:
    """Renames functions and their calls; returns the renamings, in words."""
    if names:
        for node in _nodes(model):
            node.op = names.get(callee(node), node.op)
        for key, function in _functions(model).items():
            function.name = names.get(key, function.name)
    return [f"{key[0]}::{key[1]} -> {name}" for key, name in names.items()]


def _equal(one: gs.Function, other: gs.Function) -> bool:
    if not isinstance(one, Function) or not isinstance(other, Function):
        return False
    a, b = one.origin.message, other.origin.message
    return bool(a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True))


def _spread(unequal: set[FunctionKey], theirs: dict[FunctionKey, gs.Function], own: dict[FunctionKey, gs.Function]) -> None:
    """Adds the functions that call an unequal one: they are unequal as well."""
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


# Initializers and constants that both models have, found by their contents; weights in files are not loaded.

_STRING = int(onnx.TensorProto.STRING)
_BEGINNING = 256  # bytes that mostly distinguish two initializers


class Known:
    """The initializers of a model by type, first bytes and contents. The first bytes are read only if another initializer has
    the same type, and the others only if its first bytes are the same, too.
    """

    def __init__(self, tensors: list[gs.Tensor]) -> None:
        self._keys: set[tuple[object, ...]] = set()
        self._waiting: dict[tuple[object, ...], list[Constant]] = {}  # by type, or type and first bytes
        self._equal: dict[tuple[object, ...], dict[str, Constant]] = {}  # by all three, then by name
        self._digests: dict[int, str | None] = {}
        self._files = DataFiles()
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: gs.Tensor) -> None:
        if isinstance(tensor, Constant):
            self._enter((_type(tensor),), tensor)

    def like(self, tensor: gs.Tensor) -> Constant | None:
        """An initializer of the same type and contents; of several, one with the same name."""
        if not isinstance(tensor, Constant):
            return None
        key: tuple[object, ...] = (_type(tensor),)
        for finer in (self._beginning, self._digest):
            if key not in self._keys or (part := finer(tensor)) is None:
                return None
            for other in self._waiting.pop(key, ()):
                self._enter((*key, finer(other)), other)
            key = (*key, part)
        found = self._equal.get(key, {})
        return found.get(tensor.name) or next(iter(found.values()), None)

    def _enter(self, key: tuple[object, ...], tensor: Constant) -> None:
        self._keys.add(key)
        if len(key) < 3:
            self._waiting.setdefault(key, []).append(tensor)
        else:
            self._equal.setdefault(key, {}).setdefault(tensor.name, tensor)

    def _digest(self, tensor: Constant) -> str | None:
        if id(tensor) not in self._digests:
            try:
                self._digests[id(tensor)] = digest([self._contents(tensor)])
            except RewriterError:
                self._digests[id(tensor)] = None
        return self._digests[id(tensor)]

    def _beginning(self, tensor: Constant) -> bytes | None:
        """The first bytes of an initializer; None if it cannot be read."""
        try:
            found = self._contents(tensor)
            return (
                found[:_BEGINNING] if isinstance(found, bytes) else found.file.read(found.offset, min(_BEGINNING, found.length))
            )
        except RewriterError:
            return None

    def _contents(self, tensor: Constant) -> bytes | Payload:
        """The bytes of an initializer; equal ones may be stored in different ways. Raises RewriterError."""
        if tensor.elem_type == _STRING:
            return repr(constant_array(tensor).tolist()).encode()
        return self._files.contents(tensor)


def _type(tensor: Constant) -> tuple[Any, ...]:
    listed = tensor.name if tensor.listed else None  # callers may override it by its name
    return elem_type(tensor), tuple(tensor.shape), isinstance(tensor.proto, onnx.SparseTensorProto), listed


def unite_constant_nodes(first: list[gs.Node], second: list[gs.Node], wired: dict[int, gs.Tensor]) -> set[int]:
    """Finds nodes of the second model that are also in the first, and that are computed from constants alone.

    Args:
        first, second: the nodes.
        wired: by id(), the replacements of tensors of the second model; the outputs of these nodes are added.

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
            output_pairs = [(id(own), other) for own, other in zip(node.outputs, like.outputs, strict=True)]
            wired.update(output_pairs)
            fixed.update(number for number, _ in output_pairs)
    return found


def _bytes(node: gs.Node) -> bytes | None:
    """The bytes from which a node was read; None if its operator, attributes or operands have changed since."""
    if not isinstance(node, Node) or node._read is None:
        return None
    before = node._read[0], node._read[2], len(node._read[3])
    edited = before != (node.op, node.domain, len(node.inputs)) or (node._attrs is not None and node._attrs is not node._loaded)
    return None if edited else node.data


def join(first: Model, second: Model, wires: Mapping[int, gs.Tensor], known: set[int]) -> list[str]:
    """Puts the nodes of a model behind the nodes of another one.

    Args:
        first: is edited.
        second: is used up.
        wires: by id(), the replacements of inputs of the second model: tensors of the first.
        known: tensors of both, by id(), whose names callers know; no two of them have the same name.

    Returns:
        Notes on tensors and nodes that had to be renamed.
    """
    one, other = first.graph, second.graph
    assert isinstance(one, Graph) and isinstance(other, Graph)
    notes = [f"function {text}, because another operator has this name" for text in unite_functions(first, second)]
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
    """Notes which initializers and constants of the second graph are in the first; returns the needless nodes, by id().

    Outputs of the second graph stay, since callers know their names.
    """
    known, output_ids = Known(one.initializers), set(map(id, other.outputs))
    for tensor in other.initializers:
        like = None if id(tensor) in output_ids else known.like(tensor)
        if like is not None:
            wired[id(tensor)] = like
    nodes = [node for node in other.nodes if output_ids.isdisjoint(map(id, node.outputs))]
    return unite_constant_nodes(one.nodes, nodes, wired)


def _replace(index: GraphIndex, wired: Mapping[int, gs.Tensor]) -> None:
    """Makes all readers read other tensors, including bodies and graphs that return one."""
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
    """Renames tensors and nodes of the second graph whose names the first has. If callers know the name, the first graph's
    tensor is renamed.
    """
    own = {id(tensor): tensor for tensor in tensors_of(one)}
    theirs = {id(t): t for t in tensors_of(other) if id(t) not in own and id(t) not in wired}
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


# `rewriter merge`: several models as one, checked against them.

# The inputs of models that are outputs of earlier models.

_BETWEEN = (".", ":")


@record(frozen=True, slots=True)
class Port:
    """An input or output of one of the models, by its number."""

    model: int
    tensor: gs.Tensor


class Joints:
    """Finds the joints of models.

    Args:
        models: in the order in which they run.
        names: names of the models, in addition to their numbers.

    Attributes:
        wires: for inputs, by id(), the outputs of earlier models that replace them, or the inputs that they share.
        read: outputs, by id(), that became inputs.
    """

    def __init__(self, models: Sequence[Model], names: Sequence[str]) -> None:
        self._names = names
        self._inputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.inputs]
        self._outputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.outputs]
        self.wires: dict[int, Port] = {}
        self.read: set[int] = set()

    def map(self, text: str) -> None:
        """`OUTPUT=INPUT`, each as a name, or with the model before it: `a.out=b.in`. Raises RewriterError."""
        places = [i for i, letter in enumerate(text) if letter == "="]
        choices = [(self._ports(self._outputs, text[:i]), self._ports(self._inputs, text[i + 1 :])) for i in places]
        for outputs, taken in choices:
            pairs = [(one, other) for one in outputs for other in taken if one.model < other.model]
            if len(pairs) == 1:
                self._wire(*pairs[0])
                return
            if len(pairs) > 1:
                raise RewriterError(f"--map {text}: this matches {len(pairs)} pairs of models; write it as {self._example()}")
        if not places:
            raise RewriterError(f"--map {text}: is not OUTPUT=INPUT")
        outputs, taken = choices[0]
        left, right = text[: places[0]], text[places[0] + 1 :]
        if not outputs:
            raise RewriterError(f"--map {text}: no model has an output {left!r}; there is {_list(self._outputs)}")
        if not taken:
            raise RewriterError(f"--map {text}: no model has an input {right!r}; there is {_list(self._inputs)}")
        raise RewriterError(f"--map {text}: {right!r} is no input of a model after that of {left!r}; pass the models in order")

    def by_names(self) -> None:
        """Wires inputs to outputs of the same name, of the last earlier model that has one."""
        for port in self._inputs:
            if id(port.tensor) in self.wires:
                continue
            before = [one for one in self._outputs if one.model < port.model and one.tensor.name == port.tensor.name]
            if before:
                self._wire(before[-1], port)

    def by_position(self) -> bool:
        """Wires each model's only output to the only input of the next; False if a model has several."""
        last = max((port.model for port in self._outputs), default=0)
        for model in range(last):
            outputs = [port for port in self._outputs if port.model == model]
            taken = [port for port in self._inputs if port.model == model + 1]
            if len(outputs) != 1 or len(taken) != 1:
                return False
            self._wire(outputs[0], taken[0])
        return True

    def share(self, patterns: Iterable[str]) -> None:
        """Unites inputs of the same name. Raises RewriterError if a pattern matches none, or the types differ."""
        for pattern in patterns:
            shared = False
            first: dict[str, Port] = {}
            for port in self._inputs:
                name = port.tensor.name
                if id(port.tensor) in self.wires or not (name == pattern or fnmatchcase(name, pattern)):
                    continue
                if name in first:
                    _check_types(first[name].tensor, port.tensor, "be shared with")
                    self.wires[id(port.tensor)] = first[name]
                    shared = True
                first.setdefault(name, port)
            if not shared and not _is_pattern(pattern):
                raise RewriterError(f"--share {pattern}: there are no two inputs of this name")

    def clashes(self) -> None:
        """Raises RewriterError if two tensors known to callers would have one name."""
        seen: dict[str, tuple[str, Port]] = {}
        for what, ports in (("input", self._inputs), ("output", self._outputs)):
            for port in ports:
                if id(port.tensor) in self.wires or id(port.tensor) in self.read:
                    continue
                other = seen.setdefault(port.tensor.name, (what, port))
                if other[1].tensor is port.tensor or other[1].model == port.model:
                    continue
                message = f"{self._names[other[1].model]} has an {other[0]} {port.tensor.name!r}"
                message += f" and {self._names[port.model]} an {what} of this name"
                share = f"--share {port.tensor.name} makes one of them, " if what == other[0] == "input" else ""
                raise RewriterError(f"{message}; {share}--prefix keeps them apart")

    def _wire(self, output: Port, taken: Port) -> None:
        if id(taken.tensor) in self.wires:
            raise RewriterError(f"input {taken.tensor.name!r} of {self._names[taken.model]} is mapped twice")
        _check_types(output.tensor, taken.tensor, "be connected to")
        self.wires[id(taken.tensor)] = output
        self.read.add(id(output.tensor))

    def _ports(self, ports: list[Port], text: str) -> list[Port]:
        exact = [port for port in ports if port.tensor.name == text]
        named = [
            port
            for port in ports
            for label in (self._names[port.model], str(port.model + 1))
            for between in _BETWEEN
            if text == f"{label}{between}{port.tensor.name}"
        ]
        return named or exact

    def _example(self) -> str:
        return f"{self._names[0]}.OUTPUT={self._names[-1]}.INPUT"


def _check_types(output: gs.Tensor, taken: gs.Tensor, verb: str) -> None:
    kinds = elem_type(output), elem_type(taken)
    one, other = static_shape(output), static_shape(taken)
    names = f"{output.name!r} cannot {verb} {taken.name!r}"
    if kinds[0] is not None and kinds[1] is not None and kinds[0] != kinds[1]:
        raise RewriterError(f"{names}: one is {DTYPE_NAMES[kinds[0]]}, the other {DTYPE_NAMES[kinds[1]]}")
    if one is None or other is None:
        return
    fits = len(one) == len(other) and not any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(one, other, strict=True)
    )
    if not fits:
        raise RewriterError(f"{names}: one has the shape {list(one)}, the other {list(other)}")


def _list(ports: list[Port]) -> str:
    return ", ".join(dict.fromkeys(repr(port.tensor.name) for port in ports))


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


_PREFIX = re.compile(r"[\w./:-]*")


@record(frozen=True, slots=True)
class Plan:
    """How models are merged.

    Attributes:
        maps: `OUTPUT=INPUT` of two models.
        prefixes: prefixes of all names of each model; none, or one for each model.
        share: names and patterns of inputs that become one.
        beside: only the ports in `maps` are connected.
        inputs, outputs: inputs and outputs of the result, in their order; None: all that were not connected.
    """

    maps: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    share: Sequence[str] = ()
    beside: bool = False
    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None


@record(slots=True)
class Merged:
    """One model, and the places of its pieces in it: for each piece, its own names of inputs and outputs and the new ones."""

    model: Model
    inputs: list[dict[str, str]] = field(default_factory=list)
    outputs: list[dict[str, str]] = field(default_factory=list)
    wanted: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def merge(models: Sequence[Model], plan: Plan, names: Sequence[str] = ()) -> Merged:
    """Merges models into the first of them.

    Raises:
        RewriterError: the models cannot be connected.
    """
    names = names or [f"model {number}" for number in range(1, len(models) + 1)]
    if len(models) < 2:
        raise RewriterError("there is only one model; a merge needs two")
    converted = _to_one_opset(models, names)
    own = [[[t.name for t in ports] for ports in (m.graph.inputs, m.graph.outputs)] for m in models]
    _prefix(models, plan.prefixes, plan.share)
    joints = _joints(models, names, plan)
    result = Merged(models[0], notes=converted)
    between = _trace(result, models, own, joints)
    versions = align(models, names)
    ir_version = max(int(model.graph.ir_version or 0) for model in models) or None
    for model in models:
        set_versions(model, versions, ir_version)
    outputs = [tensor for model in models for tensor in model.graph.outputs]
    known = {id(tensor) for model in models for tensor in model.graph.inputs if id(tensor) not in joints.wires}
    known |= {id(tensor) for tensor in outputs if id(tensor) not in joints.read}
    for model, name in zip(models[1:], names[1:], strict=True):
        wires = {id(t): joints.wires[id(t)].tensor for t in model.graph.inputs if id(t) in joints.wires}
        result.notes += join(models[0], model, wires, known)
        _take_metadata(result, model, name)
        _take_configurations(result.model, model, name)
        if model.training_info:
            result.notes.append(f"the training information of {name} is left out")
    graph = models[0].graph
    graph.outputs = [tensor for tensor in outputs if id(tensor) not in joints.read]
    if plan.outputs is not None:
        graph.outputs = _chosen(plan.outputs, outputs, "output")
    if not graph.outputs:
        raise RewriterError("every output is mapped to an input; name the outputs that remain with --outputs")
    if plan.inputs is not None:
        graph.inputs = _ordered(plan.inputs, graph.inputs)
    result.wanted = {tensor.name: between[id(tensor)] for tensor in graph.outputs}
    return result


def _to_one_opset(models: Sequence[Model], names: Sequence[str]) -> list[str]:
    """Converts models to the newest version of ONNX's operators among them, if they cannot share a version unchanged. Returns
    what was converted. Raises RewriterError for a node that cannot be converted.
    """
    try:
        align(models, names)
    except RewriterError:
        newest = max(opset_versions(model.graph).get("", 1) for model in models)
        notes = []
        for model, name in zip(models, names, strict=True):
            before = opset_versions(model.graph).get("", newest)
            if before != newest:
                try:
                    convert_opset(model, newest)
                except RewriterError as error:
                    raise RewriterError(f"{name} cannot be converted to opset {newest}: {error}") from error
                notes.append(f"{name} was converted from opset {before} to {newest}")
        return notes
    return []


def merged(sources: Sequence[Opened], plan: Plan, checks: Checks | None = None) -> Surgery:
    """Several models as one, checked and recorded. Raises RewriterError if they cannot be connected."""
    models = [source.read() for source in sources]
    names = _labels(sources)
    result = merge(models, plan, names)
    graph = result.model.graph
    did = [
        f"{counted(len(sources), 'model')}, {counted(len(graph.nodes), 'node')}",
        *(f"input   {shown(tensor)}" for tensor in graph.inputs),
        *(f"output  {shown(tensor)}" for tensor in graph.outputs),
    ]
    lists: list[tuple[str, Sequence[str]]] = [("--map", plan.maps), ("--share", plan.share)]
    lists.append(("--prefix", [",".join(plan.prefixes)] if plan.prefixes else []))
    lists += [("--inputs", plan.inputs or ()), ("--outputs", plan.outputs or ())]

    def numbers(candidate: Candidate, most: int) -> Agreement:
        pieces = [Candidate(source.read()) for source in sources]
        before = [Step(piece, *sides) for piece, *sides in zip(pieces, result.inputs, result.outputs, strict=True)]
        after = [Step(candidate, {}, result.wanted)]
        return agreement(candidate, before, after, list(result.wanted.values()), most=most)

    command = command_text("merge", lists, beside=plan.beside)
    return finish(result.model, sources, command, did, result.notes, checks, numbers)


def _labels(sources: Sequence[Opened]) -> list[str]:
    stems = [source.path.name.removesuffix(".onnx") if source.path else f"model {i}" for i, source in enumerate(sources, 1)]
    return [s if stems.count(s) == 1 else str(Path(str(o.path))) for s, o in zip(stems, sources, strict=True)]


def _prefix(models: Sequence[Model], prefixes: Sequence[str], share: Sequence[str]) -> None:
    """Adds prefixes to names; inputs that are going to be shared keep their common name."""
    if not prefixes:
        return
    if len(prefixes) != len(models):
        raise RewriterError(
            f"--prefix: {len(models)} models need {len(models)} prefixes, not {len(prefixes)}; one may be empty, as a_,"
        )
    counts = Counter(tensor.name for model in models for tensor in model.graph.inputs)
    chosen = list(names_in(share, counts.__contains__))
    shared = [name for name, n in counts.items() if n > 1 and any(name == one or fnmatchcase(name, one) for one in chosen)]
    kept = "|".join(re.escape(name).replace("/", "\\/") for name in shared)
    for model, prefix in zip(models, prefixes, strict=True):
        if not _PREFIX.fullmatch(prefix):
            raise RewriterError(f"--prefix: {prefix!r} has other characters than letters, digits and _./:-")
        named = {tensor.name for tensor in (*model.graph.inputs, *model.graph.initializers)} - set(shared)
        if prefix and (named or model.graph.nodes):
            escaped = prefix.replace("/", "\\/")
            edit(model, [("rename", f"/^(?!(?:{kept})$)/{escaped}/" if kept else f"/^/{escaped}/")])


def _joints(models: Sequence[Model], names: Sequence[str], plan: Plan) -> Joints:
    joints = Joints(models, names)
    for text in plan.maps:
        joints.map(text)
    if not plan.beside:
        joints.by_names()
    joints.share(names_in(plan.share, lambda name: False))
    if not plan.beside and not joints.wires and not joints.by_position():
        raise RewriterError("no input has the name of an output of an earlier model; connect them with --map, or use --beside")
    joints.clashes()
    return joints


def _trace(result: Merged, models: Sequence[Model], own: list[list[list[str]]], joints: Joints) -> dict[int, str]:
    """Notes the names of the inputs and outputs of each piece while the pieces run one after the other; names of outputs are
    by id().
    """
    labels = {id(tensor): f"{number}:{tensor.name}" for number, model in enumerate(models) for tensor in model.graph.outputs}
    for (inputs, outputs), model in zip(own, models, strict=True):
        ports = [(tensor, joints.wires.get(id(tensor))) for tensor in model.graph.inputs]
        sources = [tensor.name if port is None else labels.get(id(port.tensor), port.tensor.name) for tensor, port in ports]
        result.inputs.append(dict(zip(inputs, sources, strict=True)))
        result.outputs.append(dict(zip(outputs, (labels[id(tensor)] for tensor in model.graph.outputs), strict=True)))
    return labels


def _take_metadata(result: Merged, model: Model, name: str) -> None:
    """Adds the metadata of a model; the first model's value of a key stays."""
    metadata = result.model.metadata
    for key, value in model.metadata.items():
        if key == HISTORY:
            try:
                metadata[HISTORY] = dumps((*history(metadata), *history(model.metadata)))
            except Unreadable:
                result.notes.append(f"the record in {name} cannot be read and was left out")
        elif metadata.setdefault(key, value) != value:
            result.notes.append(f"metadata {key!r} of {name} was left out: an earlier model has another value")


def _take_configurations(first: Model, model: Model, name: str) -> None:
    """Adds the sets of devices of a model. Raises RewriterError if a name is taken by a set with other devices."""
    known = {configuration.name: configuration for configuration in first.configurations}
    for configuration in model.configurations:
        if known.setdefault(configuration.name, configuration) != configuration:
            raise RewriterError(f"{name} has another device configuration {configuration.name!r} than an earlier model")
    added = list(known.values())[len(first.configurations) :]
    first.configurations.extend(added)


def _chosen(names: Sequence[str], tensors: list[gs.Tensor], what: str) -> list[gs.Tensor]:
    known = {tensor.name: tensor for tensor in reversed(tensors)}
    wanted = list(names_in(names, known.__contains__))
    missing = next((name for name in wanted if name not in known), None)
    if missing is not None:
        raise RewriterError(f"--{what}s: there is no {what} {missing!r}; there is {', '.join(map(repr, known))}")
    return [known[name] for name in dict.fromkeys(wanted)]


def _ordered(names: Sequence[str], tensors: list[gs.Tensor]) -> list[gs.Tensor]:
    chosen = _chosen(names, tensors, "input")
    return [*chosen, *(tensor for tensor in tensors if not any(tensor is other for other in chosen))]
