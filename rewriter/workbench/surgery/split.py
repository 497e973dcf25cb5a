"""Places where a model is split into parts that run one after the other, and the parts.

Each node of the main graph is in one part, except constants, which are in each part that reads them. A tensor that a part
reads from an earlier part is an input of the one and an output of the other, however far apart they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError, counted, listed
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph, Node
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.core.record import record
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery.data_files import save, size_of
from rewriter.workbench.surgery.extract import keep_nodes, same_as_whole, upstream
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish, size_of_runs
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import Parts, Ports, parsed_types, reads, same_each_time


@record(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
        nodes: their places in the list of nodes of the whole, including constants that are also in other parts.
        inputs, outputs: names of tensors.
        weights: bytes of its initializers.
    """

    nodes: list[int]
    inputs: list[str]
    outputs: list[str]
    weights: int


@record(frozen=True, slots=True)
class Cuts:
    """How a model is split; exactly one of the four is set.

    Attributes:
        at: for each cut, the tensors or nodes after which it lies.
        places: names of nodes; a cut lies before each of these groups.
        every: number of nodes in each part.
        max_size: most bytes of weights in each part.
    """

    at: Sequence[str] = ()
    places: Sequence[Sequence[str]] = ()
    every: int | None = None
    max_size: int | None = None


class Splitter:
    """Plans a split.

    Raises:
        RewriterError: raised by the constructor: a cut matches nothing, or leaves nothing before or behind it.
    """

    def __init__(self, model: Model, cuts: Cuts) -> None:
        assert isinstance(model.graph, Graph)
        self.graph = model.graph
        self.index = GraphIndex(model.graph)
        self.parts = Parts(self.index)
        self._facts = Facts(self.index, model.overridable)
        self._ordered = self.index.members(self.index.scopes[0])
        self._place = {id(node): place for place, node in enumerate(self.graph.nodes)}
        self._constants = _constant_nodes(self._ordered, self.index, model.overridable)
        self._needed: dict[int, list[gs.Tensor]] = {}
        self._work = [node for node in self._ordered if id(node) not in self._constants]
        if cuts.at:
            self._groups = self._at([(f"--at {text}", self.parts.outputs_of([text])) for text in cuts.at])
        elif cuts.places:
            self._groups = self._before(cuts.places)
        elif cuts.every is not None:
            self._groups = [self._work[i : i + cuts.every] for i in range(0, len(self._work), cuts.every)]
        else:
            self._groups = self._sized(cuts.max_size or 0)

    def plan(self) -> list[Part]:
        """The parts, in the order in which they run."""
        groups = self._groups = self._handing_out(self._groups)
        home = {id(tensor): i for i, group in enumerate(groups) for node in group for tensor in node.outputs if tensor.name}
        last_read = _last_read(groups)
        return [self._part(i, group, home, last_read) for i, group in enumerate(groups)]

    def _handing_out(self, groups: list[list[gs.Node]]) -> list[list[gs.Node]]:
        """The groups; a group without readers joins the next, since no runtime runs a part without outputs."""
        known, last_read = set(map(id, self.graph.outputs)), _last_read(groups)
        found: list[list[gs.Node]] = []
        unread: list[gs.Node] = []
        for i, group in enumerate(groups):
            unread = [*unread, *group]
            if any(id(t) in known or last_read.get(id(t), i) > i for node in group for t in node.outputs):
                found.append(unread)
                unread = []
        return [*found[:-1], [*found[-1], *unread]] if found else [unread]

    def _part(self, i: int, group: list[gs.Node], home: Mapping[int, int], last_read: Mapping[int, int]) -> Part:
        known = set(map(id, self.graph.outputs))
        # The last part returns the model's outputs that no part makes: inputs and constants.
        loose = [t for t in self.graph.outputs if id(t) not in home] if i == len(self._groups) - 1 else []
        read = {id(t): t for node in group for t in self._needs(node) if t.name}
        for tensor in loose:
            read[id(tensor)] = tensor
            maker = self.index.producer(tensor)
            read.update((id(t), t) for t in (self._needs(maker) if maker is not None else ()))
        inputs = [t for t in self.graph.inputs if id(t) in read]
        inputs += [t for t in read.values() if home.get(id(t), i) < i]
        outputs = [t for node in group for t in node.outputs if t.name and (id(t) in known or last_read.get(id(t), i) > i)]
        makers = [self.index.producer(t) for t in read.values()]
        copies = {id(maker): maker for maker in makers if maker is not None and id(maker) in self._constants}
        return Part(
            sorted(self._place[id(node)] for node in (*group, *copies.values())),
            [t.name for t in inputs],
            [t.name for t in (*outputs, *loose)],
            sum(size_of(t) for t in read.values() if isinstance(t, gs.Constant)),
        )

    def _needs(self, node: gs.Node) -> list[gs.Tensor]:
        """The operands of a node, and the tensors from which its constant operands are computed."""
        found = self._needed.get(id(node))
        if found is None:
            found = list(reads(node))
            for tensor in tuple(found):
                maker = self.index.producer(tensor)
                if maker is not None and id(maker) in self._constants:
                    found += self._needs(maker)
            self._needed[id(node)] = found
        return found

    def types(self, parts: Iterable[Part], declared: Mapping[str, TensorType]) -> dict[str, TensorType]:
        """Types of the tensors between the parts. Raises RewriterError if a type is unknown."""
        outer = {tensor.name for tensor in (*self.graph.inputs, *self.graph.outputs)}
        between = dict.fromkeys(name for part in parts for name in (*part.inputs, *part.outputs) if name not in outer)
        return Ports(self._facts, declared).types(self.parts.tensor(name) for name in between)

    def _before(self, places: Sequence[Sequence[str]]) -> list[list[gs.Node]]:
        """Cuts before groups of nodes, in the order of computation; groups with nothing new before them make none."""
        matched = [[node for name in names if (node := self.parts.find_node(name)) is not None] for names in places]
        own = [nodes for nodes, names in zip(matched, places, strict=True) if len(nodes) == len(names)]
        order = {id(node): place for place, node in enumerate(self._ordered)}
        cuts: list[tuple[str, list[gs.Tensor]]] = []
        known: set[int] = set(self._constants)
        for nodes in sorted(own, key=lambda nodes: min(order[id(node)] for node in nodes)):
            inside = set(map(id, nodes))
            read = [t for node in nodes for t in reads(node) if id(self.index.producer(t)) not in inside]
            above = set(map(id, upstream(self.index, read, set())[0])) - known
            if any(id(node) in above for node in self._work):
                cuts.append(("--rule", read))
                known |= above
        if not cuts:
            raise RewriterError("--rule: no node comes before a place at which a rule fires, so there is nothing to cut")
        return self._at(cuts)

    def _at(self, cuts: Sequence[tuple[str, list[gs.Tensor]]]) -> list[list[gs.Node]]:
        groups: list[list[gs.Node]] = []
        done: set[int] = set(self._constants)
        seeds: list[gs.Tensor] = []
        for said, tensors in cuts:
            seeds += tensors
            above = set(map(id, upstream(self.index, seeds, set())[0])) - done
            group = [node for node in self._work if id(node) in above]
            if not group:
                raise RewriterError(f"{said}: no node is left before this cut; pass the cuts in the order of computation")
            groups.append(group)
            done |= above
        rest = [node for node in self._work if id(node) not in done]
        if not rest:
            raise RewriterError(f"{cuts[-1][0]}: no node is left after this cut")
        return [*groups, rest]

    def _sized(self, most: int) -> list[list[gs.Node]]:
        groups: list[list[gs.Node]] = [[]]
        counted_weights: set[int] = set()
        size = 0
        for node in self._work:
            own = {id(t): size_of(t) for t in self._needs(node) if isinstance(t, gs.Constant)}
            data = len(node.data or b"") if isinstance(node, Node) else 0
            alone = sum(own.values()) + data
            if alone > most:
                name = repr(node.name) if node.name else node.op
                raise RewriterError(f"--max-size: {name} alone needs {alone:,} bytes of weights")
            more = data + sum(bytes_ for number, bytes_ in own.items() if number not in counted_weights)
            if groups[-1] and size + more > most:
                groups.append([])
                counted_weights, size, more = set(), 0, alone
            groups[-1].append(node)
            counted_weights.update(own)
            size += more
        return groups


def _last_read(groups: Iterable[Iterable[gs.Node]]) -> dict[int, int]:
    """For each tensor, by id(), the last group that reads it."""
    return {id(tensor): i for i, group in enumerate(groups) for node in group for tensor in reads(node)}


def take(model: Model, part: Part, types: Mapping[str, TensorType]) -> None:
    """Cuts a model down to one of its parts."""
    graph = model.graph
    assert isinstance(graph, Graph)
    index = GraphIndex(graph)
    named = Parts(index)
    inputs, outputs = [named.tensor(name) for name in part.inputs], [named.tensor(name) for name in part.outputs]
    ports = Ports(Facts(index, model.overridable), types)
    ports.declare([t for t in inputs if t.name in types], "input")
    ports.declare([t for t in outputs if t.name in types], "output")
    keep_nodes(graph, [graph.nodes[place] for place in part.nodes])
    graph.inputs, graph.outputs = inputs, outputs


def _constant_nodes(nodes: list[gs.Node], index: GraphIndex, overridable: Collection[str]) -> set[int]:
    """Nodes, by id(), that are computed from constants alone, and return the same each time."""
    found: set[int] = set()
    for node in nodes:
        if not same_each_time(node):
            continue
        if all(_is_constant(tensor, index, found, overridable) for tensor in node.inputs if tensor.name):
            found.add(id(node))
    return found


def _is_constant(tensor: gs.Tensor, index: GraphIndex, constant_nodes: set[int], overridable: Collection[str]) -> bool:
    if isinstance(tensor, gs.Constant):
        return tensor.name not in overridable
    maker = index.producer(tensor)
    return maker is not None and id(maker) in constant_nodes


# `rewriter split`: a model as several that run one after the other, checked against the whole.

PLACE = "{}"
"""The place of a part's number in the name of its file."""

_SHOWN = 4  # tensors of a part


@record(frozen=True, slots=True)
class Split:
    """The parts of a model.

    Attributes:
        parts: in the order in which they run.
        plan: a line for each.
        notes: further lines to print.
        same: whether the parts ran and returned the same as the whole; None if they were not run.
        joined: the options with which `merge` joins the parts into the whole again.
    """

    parts: list[Surgery]
    plan: list[str]
    notes: list[str]
    same: bool | None
    joined: list[str]


def split(
    source: Opened, cuts: Cuts, types: Sequence[str] = (), checks: Checks | None = None, rules: RuleSet | None = None
) -> Split:
    """Splits a model; with `rules`, before each place where a rule would fire.

    Raises:
        RewriterError: it cannot be split in this way, or the parts do not return the same as the whole.
    """
    checks = checks or Checks()
    if rules is not None:
        cuts = Cuts(places=_places(source, rules))
    splitter = Splitter(source.read(), cuts)
    planned = splitter.plan()
    known = splitter.types(planned, parsed_types(types))
    inputs, outputs = ([tensor.name for tensor in side] for side in (splitter.graph.inputs, splitter.graph.outputs))
    options = [("--at", list(cuts.at)), ("--every", [str(cuts.every)] if cuts.every else [])]
    options.append(("--rule", [rule.code for rule in rules or ()]))
    options.append(("--max-size", [str(cuts.max_size)] if cuts.max_size else []))
    del splitter
    if checks.stamp:
        source.digest()  # once for all parts
    parts, notes = [], list[str]()
    for number, part in enumerate(planned, 1):
        model = source.read()
        take(model, part, known)
        command = command_text("split", [*options, ("--part", [f"{number}/{len(planned)}"])])
        parts.append(finish(model, [source], command, [], [], checks))
        notes += [f"part {number}: {note}" for note in parts[-1].notes]
    same = None
    if checks.runtime != "no" and not notes:
        candidates = [Candidate(part.model) for part in parts]
        found = same_as_whole(source, candidates, [], outputs, size_of_runs(checks))
        if found.difference:
            raise RewriterError(f"no file was written, because the parts compute other output: {found.difference}")
        same = True if found.ran else None
        if not found.ran:
            notes.append(f"the outputs were not compared: {found.reason}")
    read = {name for part in planned for name in part.inputs}
    if unread := [name for name in inputs if name not in read]:
        notes.append(f"in no part, because no node reads it: {_names(unread)}")
    plan = [_line(number, part) for number, part in enumerate(planned, 1)]
    return Split(parts, plan, notes, same, _joined(planned, inputs, outputs))


def _joined(parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """The options for `merge`: inputs that several parts read, parts without connection, and inputs and outputs whose order
    changes.
    """
    read = Counter(name for part in parts for name in part.inputs)
    output_names = {name for part in parts for name in part.outputs}
    input_names = list(dict.fromkeys(name for name in read if name not in output_names))
    left = [name for part in parts for name in part.outputs if name not in read]
    found = [word for name in input_names if read[name] > 1 for word in ("--share", name)]
    if len(parts) > 1 and not found and output_names.isdisjoint(read):
        found = ["--beside"]
    if input_names != (wanted := [name for name in inputs if name in read]):
        found += ["--inputs", ",".join(wanted)]
    return found if left == list(outputs) else [*found, "--outputs", ",".join(outputs)]


def _places(source: Opened, rules: RuleSet) -> list[tuple[str, ...]]:
    """Names of the nodes that rules match in the places where they would fire. Raises RewriterError if there are none."""
    model = source.read()
    log = run(model.graph, rules, Knowledge(overridable=model.overridable, has_kernel=has_kernel), keep=False)
    places = [firing.matched for firing in log.firings if firing.place == "main"]
    if not places:
        raise RewriterError(f"--rule {', '.join(rule.code for rule in rules)}: no rule fires in the main graph")
    return places


def files_of(pattern: str, parts: int) -> list[Path]:
    """The files of so many parts. Raises RewriterError if the pattern has no place for a number."""
    if pattern.count(PLACE) != 1:
        raise RewriterError(f"-o {pattern}: must have {PLACE} for the number of a part, for example part{PLACE}.onnx")
    return [Path(pattern.replace(PLACE, str(number))) for number in range(1, parts + 1)]


def write_parts(parts: Sequence[Surgery], files: Sequence[Path], *, force: bool) -> list[Path]:
    """Writes all parts, or none. Errors as for `save`."""
    written: list[Path] = []
    existed = {file for file in files if file.exists()}
    try:
        for part, file in zip(parts, files, strict=True):
            written += save(part.model, file, force=force)
    except BaseException:
        for file in written:
            if file not in existed:
                file.unlink(missing_ok=True)
        raise
    return written


def _line(number: int, part: Part) -> str:
    size = f"{part.weights / 2**20:.1f} MiB" if part.weights >= 1 << 20 else f"{part.weights:,} bytes"
    return (
        f"part {number}: {counted(len(part.nodes), 'node')}, {size} of weights: {_names(part.inputs)} -> {_names(part.outputs)}"
    )


def _names(names: Sequence[str]) -> str:
    return listed(names, _SHOWN) or "nothing"
