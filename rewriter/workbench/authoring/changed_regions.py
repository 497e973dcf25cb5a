"""The regions in which a model and its repair differ; `rewriter new --to` makes a rule of each.

Nodes are paired as `rewriter diff` pairs them. Nodes without a counterpart were removed or added. A paired node is edited if
its attributes or operands differ. A tensor is redirected if all its readers read one other tensor in its place. Changes that
share a tensor are one region.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

import onnx

from rewriter.core.onnxfile.tensors import text
from rewriter.core.record import field, record
from rewriter.trust.difference import ComparedGraphs, Side, attribute_digest, of_graph

T = TypeVar("T", bound=Hashable)


@record(slots=True)
class Region:
    """One change. Nodes are numbers in `graphs.one` or, for `added`, in `graphs.other`; each tensor has its name in its graph.

    Attributes:
        removed, added: nodes that only one graph has.
        attributes: by node that stays and name, the new value; None if the attribute is removed.
        operands: by node that stays and position, the tensor that it reads in the other graph.
        redirects: by tensor, the tensor that its readers read in the other graph.
    """

    graphs: ComparedGraphs
    removed: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    attributes: dict[tuple[int, str], onnx.AttributeProto | None] = field(default_factory=dict)
    operands: dict[tuple[int, int], str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)

    @property
    def staying(self) -> list[int]:
        """Nodes that stay and that the change concerns: they are edited, or make a tensor that is redirected."""
        edited = {number for number, _ in (*self.attributes, *self.operands)}
        return sorted(edited.union(self.graphs.one.makers[name][0] for name in self.redirects).difference(self.removed))

    @property
    def size(self) -> int:
        return len(self.removed) + len(self.added) + len(self.staying)

    def counterpart(self, name: str) -> str | None:
        """The tensor of the first graph that corresponds to a tensor of the other; None if only the other graph has it."""
        one, other = self.graphs.one, self.graphs.other
        if name in other.makers:
            number, position = other.makers[name]
            maker = self.graphs.pairing.back.get(number)
            return None if maker is None else one.names(maker)[1][position]
        if other.positional and name in other.inputs:
            return one.inputs[other.inputs.index(name)]
        return name if name in one.inputs or other.outer is not None else None


def joined(sets: Iterable[set[T]]) -> list[set[T]]:
    """Joins the sets that share an item."""
    found: list[set[T]] = []
    for items in sets:
        near = [other for other in found if items & other]
        found = [other for other in found if other not in near] + [items.union(*near)]
    return found


def changed_regions(one: onnx.ModelProto, other: onnx.ModelProto) -> list[Region]:
    """The regions in which the main graphs of two models and their bodies differ, the smallest first; weights are needed."""
    graphs = ComparedGraphs(of_graph(one.graph, "main", None), of_graph(other.graph, "main", None), None)
    return sorted(_regions(graphs), key=lambda region: region.size)


def _regions(graphs: ComparedGraphs) -> Iterator[Region]:
    one, other, forth, back = graphs.one, graphs.other, graphs.pairing.forth, graphs.pairing.back
    for number, counterpart in list(forth.items()):
        if list(map(len, one.names(number))) != list(map(len, other.names(counterpart))):  # no edit makes one of the other
            del forth[number], back[counterpart]
    whole = Region(graphs)
    whole.removed = [number for number in range(len(one.nodes)) if number not in forth]
    whole.added = [number for number in range(len(other.nodes)) if number not in back]
    for number, counterpart in forth.items():
        mine, theirs = ({text(a.name): a for a in s.nodes[n].attribute} for s, n in ((one, number), (other, counterpart)))
        for name in dict.fromkeys([*mine, *theirs]):
            before, after = mine.get(name), theirs.get(name)
            if before is not None and after is not None and before.HasField("g") and after.HasField("g"):
                path = f"{text(one.nodes[number].op_type)}.{name}"
                bodies = of_graph(before.g, path, None, one), of_graph(after.g, path, None, other)
                yield from _regions(ComparedGraphs(*bodies, graphs.same))
            elif before is None or after is None or attribute_digest(before, one) != attribute_digest(after, other):
                whole.attributes[number, name] = after
    _substitute(whole)
    yield from _split(whole)


def _substitute(whole: Region) -> None:
    """Finds the tensors that staying nodes and the outputs read in place of their former operands.

    A node that was put between two others belongs to the one that changed anyway.
    """
    graphs, one, other = whole.graphs, whole.graphs.one, whole.graphs.other
    uses: dict[str, list[tuple[int, int, str]]] = {}
    for number, counterpart in graphs.pairing.forth.items():
        operands = zip(one.names(number)[0], other.names(counterpart)[0], strict=True)
        for position, (before, after) in enumerate(operands):
            uses.setdefault(before, []).append((number, position, after))
    for position, before in enumerate(one.outputs):
        uses.setdefault(before, []).append((-1, position, other.outputs[position] if one.positional else before))
    changed = {name: [use for use in found if not graphs.same(name, use[2])] for name, found in uses.items()}
    edited = {number for number, _ in whole.attributes}
    readers = edited | {number for places in changed.values() for number, _, _ in places}
    makers = edited | {one.makers[name][0] for name, places in changed.items() if places and name in one.makers}
    for before, places in changed.items():
        maker = one.makers.get(before, (-1, 0))[0]
        is_whole = maker >= 0 and len({after for _, _, after in places}) == 1 and len(places) == len(uses[before])
        at_readers = all(number >= 0 for number, _, _ in places)
        if is_whole and maker in graphs.pairing.forth:
            at_readers &= maker not in readers or all(number in makers for number, _, _ in places)
        elif is_whole:
            at_readers &= _is_list_of_sizes(other, places[0][2])
        if is_whole and not at_readers:
            whole.redirects[before] = places[0][2]
        else:
            whole.operands.update({(number, position): after for number, position, after in places if number >= 0})


def _is_list_of_sizes(side: Side, name: str) -> bool:
    """Whether the replacement of a tensor is meaningful only together with its reader: -1 in a shape."""
    contents = side.constant(name)
    return contents is not None and contents.type.startswith("int64[")


def _split(whole: Region) -> Iterator[Region]:
    """The parts that do not touch each other. A tensor without readers needs no rule."""
    one, other = whole.graphs.one, whole.graphs.other

    def maker(name: str) -> set[tuple[str, int]]:
        """The removed node that made a tensor of the first graph."""
        found = one.makers.get(name, (-1, 0))[0]
        return {("one", found)} if found in whole.removed else set()

    def new_maker(name: str) -> set[tuple[str, int]]:
        found = other.makers.get(name, (-1, 0))[0]
        return {("other", found)} if found in whole.added else set()

    def redirected(name: str | None) -> set[tuple[str, int]]:
        return {("one", one.makers[name][0])} if name is not None and name in whole.redirects else set()

    links = [{("one", number)}.union(*map(maker, one.names(number)[0])) for number in whole.removed]
    for number in whole.added:
        names = other.names(number)[0]
        links.append({("other", number)}.union(*map(new_maker, names), *(redirected(whole.counterpart(n)) for n in names)))
    for before, after in whole.redirects.items():
        both_sides = map(redirected, one.names(one.makers[before][0])[0])  # of a node that stays
        links.append(redirected(before).union(new_maker(after), *both_sides))
    for (number, position), after in whole.operands.items():
        links.append({("one", number)} | maker(one.names(number)[0][position]) | new_maker(after))
    for group in joined([*links, *({("one", number)} for number, _ in whole.attributes)]):
        part = Region(whole.graphs)
        part.removed = [number for number in whole.removed if ("one", number) in group]
        part.added = [number for number in whole.added if ("other", number) in group]
        part.attributes = {key: value for key, value in whole.attributes.items() if ("one", key[0]) in group}
        part.operands = {key: value for key, value in whole.operands.items() if ("one", key[0]) in group}
        part.redirects = {key: value for key, value in whole.redirects.items() if redirected(key) <= group}
        if part.attributes or part.operands or part.redirects:
            yield part
