"""`rewriter merge`: several models as one, checked against them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.metadata import HISTORY
from rewriter.core.graph.model import Model
from rewriter.core.graph.scopes import opset_versions
from rewriter.core.graph.values import elem_type, static_shape
from rewriter.core.record import field, record
from rewriter.trust.proof.models.validity import Candidate
from rewriter.trust.provenance.stamp import Unreadable, dumps, history
from rewriter.workbench.style import counted
from rewriter.workbench.surgery.edit.edition import edit
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.merge.join import join
from rewriter.workbench.surgery.merge.join_versions import align, set_versions
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.parts import names_in
from rewriter.workbench.surgery.ports import shown
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement
from rewriter.workbench.surgery.versions.opset_conversion import convert_opset

# Which inputs of models are which outputs of models before them.

_BETWEEN = (".", ":")


@record(frozen=True, slots=True)
class Port:
    """An input or output of one of the models, by its number."""

    model: int
    tensor: gs.Tensor


@record(slots=True)
class Wiring:
    """How models hang together.

    Attributes:
        wires: for inputs, by id(), the outputs of earlier models that they are, or the inputs that they share.
        read: outputs, by id(), that became inputs.
    """

    wires: dict[int, Port] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)


class Joints:
    """Finds the joints of models.

    Args:
        models: in the order in which they run.
        names: what people call them, besides by their numbers.
    """

    def __init__(self, models: Sequence[Model], names: Sequence[str]) -> None:
        self._names = names
        self._inputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.inputs]
        self._outputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.outputs]
        self.found = Wiring()

    def map(self, text: str) -> None:
        """`OUTPUT=INPUT`, each as a name, or with the model before it: `a.out=b.in`. Raises RewriterError."""
        places = [i for i, letter in enumerate(text) if letter == "="]
        choices = [(self._ports(self._outputs, text[:i]), self._ports(self._inputs, text[i + 1 :])) for i in places]
        for given, taken in choices:
            pairs = [(one, other) for one in given for other in taken if one.model < other.model]
            if len(pairs) == 1:
                self._wire(*pairs[0])
                return
            if len(pairs) > 1:
                raise RewriterError(f"--map {text}: this fits {len(pairs)} pairs of models; write it as {self._example()}")
        if not places:
            raise RewriterError(f"--map {text}: is not OUTPUT=INPUT")
        given, taken = choices[0]
        left, right = text[: places[0]], text[places[0] + 1 :]
        if not given:
            raise RewriterError(f"--map {text}: no model has an output {left!r}; there is {_list(self._outputs)}")
        if not taken:
            raise RewriterError(f"--map {text}: no model has an input {right!r}; there is {_list(self._inputs)}")
        raise RewriterError(f"--map {text}: {right!r} is no input of a model after that of {left!r}; give the models in order")

    def by_names(self) -> None:
        """Wires inputs to outputs of the same name, of the last model before that has one."""
        for port in self._inputs:
            if id(port.tensor) in self.found.wires:
                continue
            before = [one for one in self._outputs if one.model < port.model and one.tensor.name == port.tensor.name]
            if before:
                self._wire(before[-1], port)

    def by_position(self) -> bool:
        """Wires each model's only output to the only input of the next; False where there are several."""
        last = max((port.model for port in self._outputs), default=0)
        for model in range(last):
            given = [port for port in self._outputs if port.model == model]
            taken = [port for port in self._inputs if port.model == model + 1]
            if len(given) != 1 or len(taken) != 1:
                return False
            self._wire(given[0], taken[0])
        return True

    def share(self, patterns: Iterable[str]) -> None:
        """Makes one input of those of one name. Raises RewriterError when a pattern fits none, or the types differ."""
        for pattern in patterns:
            shared = False
            first: dict[str, Port] = {}
            for port in self._inputs:
                name = port.tensor.name
                if id(port.tensor) in self.found.wires or not (name == pattern or fnmatchcase(name, pattern)):
                    continue
                if name in first:
                    _check_types(first[name].tensor, port.tensor, "be shared with")
                    self.found.wires[id(port.tensor)] = first[name]
                    shared = True
                first.setdefault(name, port)
            if not shared and not _is_pattern(pattern):
                raise RewriterError(f"--share {pattern}: there are no two inputs of this name")

    def clashes(self) -> None:
        """Raises RewriterError when callers would know two tensors by one name."""
        seen: dict[str, tuple[str, Port]] = {}
        for what, ports in (("input", self._inputs), ("output", self._outputs)):
            for port in ports:
                if id(port.tensor) in self.found.wires or id(port.tensor) in self.found.read:
                    continue
                other = seen.setdefault(port.tensor.name, (what, port))
                if other[1].tensor is port.tensor or other[1].model == port.model:
                    continue
                told = f"{self._names[other[1].model]} has an {other[0]} {port.tensor.name!r}"
                told += f" and {self._names[port.model]} an {what} of this name"
                share = f"--share {port.tensor.name} makes one of them, " if what == other[0] == "input" else ""
                raise RewriterError(f"{told}; {share}--prefix keeps them apart")

    def _wire(self, given: Port, taken: Port) -> None:
        if id(taken.tensor) in self.found.wires:
            raise RewriterError(f"input {taken.tensor.name!r} of {self._names[taken.model]} is mapped twice")
        _check_types(given.tensor, taken.tensor, "be given to")
        self.found.wires[id(taken.tensor)] = given
        self.found.read.add(id(given.tensor))

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


def _check_types(given: gs.Tensor, taken: gs.Tensor, verb: str) -> None:
    kinds = elem_type(given), elem_type(taken)
    one, other = static_shape(given), static_shape(taken)
    names = f"{given.name!r} cannot {verb} {taken.name!r}"
    if None not in kinds and kinds[0] != kinds[1]:
        raise RewriterError(f"{names}: one is {given.dtype}, the other {taken.dtype}")
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
    """How models become one.

    Attributes:
        maps: `OUTPUT=INPUT` of two models.
        prefixes: of all names of each model; none, or as many as there are models.
        share: names and patterns of inputs that are one.
        beside: nothing is connected but what `maps` says.
        inputs, outputs: which there are in the end, in their order; None: all but those that were connected.
    """

    maps: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    share: Sequence[str] = ()
    beside: bool = False
    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None


@record(slots=True)
class Merged:
    """One model, and how its pieces are found in it: for each, its own names of inputs and outputs to those in between."""

    model: Model
    inputs: list[dict[str, str]] = field(default_factory=list)
    outputs: list[dict[str, str]] = field(default_factory=list)
    wanted: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def merge(models: Sequence[Model], plan: Plan, names: Sequence[str] = ()) -> Merged:
    """Puts models into the first of them.

    Raises:
        RewriterError: they do not fit together.
    """
    names = names or [f"model {number}" for number in range(1, len(models) + 1)]
    if len(models) < 2:
        raise RewriterError("there is only one model; a merge needs two")
    converted = _to_one_opset(models, names)
    own = [[[t.name for t in ports] for ports in (m.graph.inputs, m.graph.outputs)] for m in models]
    _prefix(models, plan.prefixes, plan.share)
    joints = _joints(models, names, plan)
    wiring = joints.found
    result = Merged(models[0], notes=converted)
    between = _trace(result, models, own, wiring)
    versions = align(models, names)
    ir_version = max(int(model.graph.ir_version or 0) for model in models) or None
    for model in models:
        set_versions(model, versions, ir_version)
    outputs = [tensor for model in models for tensor in model.graph.outputs]
    known = {id(tensor) for model in models for tensor in model.graph.inputs if id(tensor) not in wiring.wires}
    known |= {id(tensor) for tensor in outputs if id(tensor) not in wiring.read}
    for model, name in zip(models[1:], names[1:], strict=True):
        wires = {id(t): wiring.wires[id(t)].tensor for t in model.graph.inputs if id(t) in wiring.wires}
        result.notes += join(models[0], model, wires, known)
        _take_metadata(result, model, name)
        _take_configurations(result.model, model, name)
        if model.training_info:
            result.notes.append(f"the training information of {name} is left out")
    graph = models[0].graph
    graph.outputs = [tensor for tensor in outputs if id(tensor) not in wiring.read]
    if plan.outputs is not None:
        graph.outputs = _chosen(plan.outputs, outputs, "output")
    if not graph.outputs:
        raise RewriterError("every output is mapped to an input; say with --outputs which remain")
    if plan.inputs is not None:
        graph.inputs = _ordered(plan.inputs, graph.inputs)
    result.wanted = {tensor.name: between[id(tensor)] for tensor in graph.outputs}
    return result


def _to_one_opset(models: Sequence[Model], names: Sequence[str]) -> list[str]:
    """Converts models to the newest version of ONNX's operators among them, where there is none that all can have as they are;
    what was converted. Raises RewriterError for a node that cannot be.
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
                    raise RewriterError(f"{name} cannot be of opset {newest}: {error}") from error
                notes.append(f"{name} was converted from opset {before} to {newest}")
        return notes
    return []


def merged(sources: Sequence[Opened], plan: Plan, checks: Checks | None = None) -> Surgery:
    """Several models as one, checked and recorded. Raises RewriterError when they do not fit together."""
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
    return finish(result.model, sources, command, did, result.notes, checks or Checks(), numbers)


def _labels(sources: Sequence[Opened]) -> list[str]:
    stems = [source.path.name.removesuffix(".onnx") if source.path else f"model {i}" for i, source in enumerate(sources, 1)]
    return [s if stems.count(s) == 1 else str(Path(str(o.path))) for s, o in zip(stems, sources, strict=True)]


def _prefix(models: Sequence[Model], prefixes: Sequence[str], share: Sequence[str]) -> None:
    """Gives names their beginnings; inputs that are going to be shared keep their one name."""
    if not prefixes:
        return
    if len(prefixes) != len(models):
        raise RewriterError(f"--prefix: there are {len(prefixes)} prefixes for {len(models)} models; one may be empty, as a_,")
    counts = Counter(tensor.name for model in models for tensor in model.graph.inputs)
    chosen = list(names_in(share, counts.__contains__))
    shared = [name for name, n in counts.items() if n > 1 and any(name == one or fnmatchcase(name, one) for one in chosen)]
    kept = "|".join(re.escape(name).replace("/", "\\/") for name in shared)
    for model, prefix in zip(models, prefixes, strict=True):
        if not _PREFIX.fullmatch(prefix):
            raise RewriterError(f"--prefix: {prefix!r} holds something else than letters, digits and _./:-")
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
    if not plan.beside and not joints.found.wires and not joints.by_position():
        raise RewriterError("no input has the name of an output of a model before; connect them with --map, or use --beside")
    joints.clashes()
    return joints


def _trace(result: Merged, models: Sequence[Model], own: list[list[list[str]]], wiring: Wiring) -> dict[int, str]:
    """Notes what the inputs and outputs of each piece are called while the pieces run one after the other; the names of
    outputs by id().
    """
    made = {id(tensor): f"{number}:{tensor.name}" for number, model in enumerate(models) for tensor in model.graph.outputs}
    for (inputs, outputs), model in zip(own, models, strict=True):
        ports = [(tensor, wiring.wires.get(id(tensor))) for tensor in model.graph.inputs]
        given = [tensor.name if port is None else made.get(id(port.tensor), port.tensor.name) for tensor, port in ports]
        result.inputs.append(dict(zip(inputs, given, strict=True)))
        result.outputs.append(dict(zip(outputs, (made[id(tensor)] for tensor in model.graph.outputs), strict=True)))
    return made


def _take_metadata(result: Merged, model: Model, name: str) -> None:
    """Adds the metadata of a model; what the first one has under a key stays."""
    metadata = result.model.metadata
    for key, value in model.metadata.items():
        if key == HISTORY:
            try:
                metadata[HISTORY] = dumps((*history(metadata), *history(model.metadata)))
            except Unreadable:
                result.notes.append(f"the record in {name} cannot be read and was left out")
        elif metadata.setdefault(key, value) != value:
            result.notes.append(f"metadata {key!r} of {name} is another one and was left out")


def _take_configurations(first: Model, model: Model, name: str) -> None:
    """Adds the sets of devices of a model. Raises RewriterError when one has a name that is taken, and other devices."""
    known = {configuration.name: configuration for configuration in first.configurations}
    for configuration in model.configurations:
        if known.setdefault(configuration.name, configuration) != configuration:
            raise RewriterError(f"{name} has another device configuration {configuration.name!r} than a model before it")
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
