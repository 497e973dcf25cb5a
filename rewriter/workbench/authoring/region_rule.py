"""One region in which two models differ, as the pattern, the conditions and the rewrite of a rule.

Facts that only this pair of models shows are guesses, and the file marks them: that a constant may have any value, that ranks
and element types matter, that a list of numbers follows from a shape.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.onnxfile.tensors import dtype_number, text
from rewriter.core.record import field, record
from rewriter.trust.difference import ComparedGraphs, ConstantContents, Side, attribute_digest, key, of_graph
from rewriter.workbench.authoring.rule_text import (
    Array,
    Names,
    attribute_values,
    default_text,
    derived,
    doc_comment,
    literal,
    number_text,
    operator_text,
    pattern_literal,
    quoted,
    since,
    sizes_of,
    slug_of,
    value_text,
)

# The regions in which a model and its repair differ; `rewriter new --to` makes a rule of each.
#
# Nodes are paired as `rewriter diff` pairs them. Nodes without a counterpart were removed or added. A paired node is edited if
# its attributes or operands differ. A tensor is redirected if all its readers read one other tensor in its place. Changes that
# share a tensor are one region.

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


GUESS = "GUESS"
"""Marks a line that is true for the two models, and perhaps not for others."""

MAX_LITERAL = 16  # elements of a constant that a rewrite writes out
MAX_PATTERN_LITERAL = 8
_PLAIN_NAME = re.compile(r"[a-z][a-z_]{0,15}")


class RegionRule:
    """The parts of a rule that turns the first graph into the second in one region.

    Attributes:
        nodes: nodes of the first graph that are in the pattern.
        guesses: sentences about facts that the two models do not decide.
        guard: a condition that no longer holds once the rule has fired; "" if the pattern itself no longer matches.
    """

    def __init__(
        self,
        region: Region,
        types: Mapping[str, bytes],
        version: int,
        *,
        with_neighbours: bool = False,
        with_attributes: bool = False,
        inline: str = "",
    ) -> None:
        """
        Args:
            region: the change that the rule makes.
            types: types of the tensors of the first model, by name.
            version: opset of ONNX's operators.
            with_neighbours: the pattern also has the nodes next to the change.
            with_attributes: the pattern has every attribute, for a rule that does not yet change anything.
            inline: the body of the one removed node, which replaces it.

        Raises:
            RewriterError: no rule can express the change; the text says what is missing.
        """
        self._region, self._types, self._version = region, types, version
        self.one, self.other = region.graphs.one, region.graphs.other
        self.nodes = sorted({*region.removed, *region.staying})
        if with_neighbours:
            self.nodes = sorted({*self.nodes, *(near for number in self.nodes for near in self._near(number))})
        if not inline:
            self._check_pattern()
        self.guesses: list[str] = []
        self.conditions: list[str] = []
        given = Names(f"n{number + 1}" for number in range(len(self.nodes)))
        self._fresh, self._fixes_lengths = given.fresh, False
        self._names: dict[str, str] = {"": "_"}  # of tensors of the first graph; the other graph's follow below
        self._new_names: dict[str, str] = {"": "_"}
        self._captured: set[str] = set()
        self._labels: set[int] = set()
        self._free: set[tuple[int, str]] = set()  # attributes that may have any value
        self._has_all_attributes = with_attributes
        for number in self.nodes:
            for names, wish in zip(self.one.names(number), ("", text(self.one.nodes[number].op_type).lower()), strict=True):
                for name in (name for name in names if name not in self._names):
                    wished = wish or ("w" if self.one.constant(name) is not None else "x")
                    self._names[name] = self._fresh(name if _PLAIN_NAME.fullmatch(name) else wished)
        self.rewrite = [f"inline {self._label(self.nodes[0])}.{inline}"] if inline else list(self._statements())
        self.guard = self._guard()
        self.pattern = [self._pattern_line(number) for number in self.nodes]
        self.conditions += self._facts()

    @property
    def oldest(self) -> int:
        """The first opset in which all nodes, old and new, have the form that they have here."""
        nodes = *map(self.one.nodes.__getitem__, self.nodes), *map(self.other.nodes.__getitem__, self._region.added)
        return max((since(node, self._version) for node in nodes), default=1)

    @property
    def fix(self) -> str:
        """The effect of the rule, in a sentence."""
        kinds = (self.one, self._region.removed), (self.other, self._region.added), (self.one, self._region.staying)
        old, new, staying = (" and ".join(dict.fromkeys(text(s.nodes[n].op_type) for n in numbers)) for s, numbers in kinds)
        if old and new:
            return f"Replaces {old} by {new}." if old != new else f"Makes {old} anew, at another place or of other operands."
        return f"Removes {old}." if old else f"Adds {new} at {staying}." if new else f"Changes {staying}."

    def lines(self, code: str, header: Iterable[str], fix: str, guesses: Iterable[str], where: Iterable[str]) -> Iterator[str]:
        """The rule without tests.

        Args:
            code: code of the rule.
            header: entries of the header.
            fix: the sentence of the doc comment that says what the rule does.
            guesses: guesses in addition to the guesses about the region.
            where: conditions in addition to the conditions of the region.
        """
        yield from doc_comment(next((line.split('"')[1] for line in header if line.startswith("exporter")), ""), fix)
        yield f"rule {code} {slug_of(self.one.nodes[number] for number in self.nodes)}"
        yield f"<{', '.join(header)}>"
        yield from (f"# {GUESS}: {guess}" for guess in dict.fromkeys(filter(None, [*guesses, *self.guesses])))
        yield f"match {'' if self.one.outer is None else f'inside {self.one.path} '}{{"
        yield from (*(f"  {line}" for line in self.pattern), "}")
        if self.conditions:
            yield f"# {GUESS}: true of this model; leave out needless ones, and add conditions that exclude correct models."
        yield from (f"where {condition}" for condition in (*self.conditions, *filter(None, where)))
        yield from ("rewrite {", *(f"  {line}" for line in self.rewrite), "}")

    def _label(self, number: int) -> str:
        self._labels.add(number)
        return f"n{self.nodes.index(number) + 1}"

    def _check_pattern(self) -> None:
        """Raises RewriterError if the nodes are not connected, or lack a tensor that the rewrite reads."""
        region, tensors = self._region, [self._tensors(number) for number in self.nodes]
        read = [name for number in region.added for name in self.other.names(number)[0]]
        needed = {*map(region.counterpart, [*read, *region.operands.values(), *region.redirects.values()])} - {None, ""}
        if len(joined(tensors)) > 1 or not needed <= set[str | None]().union(*tensors):
            ops = ", ".join(text(self.one.nodes[number].op_type) for number in self.nodes)
            raise RewriterError(f"the changed nodes ({ops}) and their neighbours are not connected, as a pattern must be")

    def _near(self, number: int) -> list[int]:
        """The nodes that make the operands of a node or read its outputs."""
        operands, outputs = self.one.names(number)
        makers = [self.one.makers[name][0] for name in operands if name in self.one.makers]
        return [*makers, *(reader for name in outputs for reader, _ in self.one.read.get(name, ()))]

    def _tensors(self, number: int) -> set[str]:
        return {name for names in self.one.names(number) for name in names if name and name not in self.one.constants}

    # The rewrite.

    def _statements(self) -> Iterator[str]:
        region = self._region
        targets = {after: before for before, after in reversed(region.redirects.items())}
        for number in region.added:
            node = self.other.nodes[number]
            operands, outputs = self.other.names(number)
            shown = ", ".join(map(self._operand, operands))
            for name in outputs:
                is_read = name in targets or self.other.read.get(name)
                wish = text(node.op_type).lower()
                self._new_names[name] = self._names.get(targets.get(name, "?")) or (self._fresh(wish) if is_read else "_")
            attributes = ", ".join(self._new_attributes(node))
            names = ", ".join(self._new_names[name] for name in outputs).removesuffix(", _")
            yield f"{names} = {operator_text(node)}{f'<{attributes}>' if attributes else ''}({shown})"
        for before, after in region.redirects.items():
            if self._new_names.get(after) != self._names[before]:
                yield f"{self._names[before]} = {self._operand(after)}"
        for (number, position), after in region.operands.items():
            yield f"{self._label(number)}.inputs[{position}] = {self._operand(after)}"
        for (number, name), attribute in region.attributes.items():
            field = f"{self._label(number)}.{name}"
            yield f"del {field}" if attribute is None else f"{field} = {self._attribute(attribute)}"

    def _operand(self, name: str) -> str:
        contents = self.other.constant(name) if name not in self._new_names else None
        if contents is not None:
            return self._constant(contents)
        shown = self._new_names.get(name) or self._names.get(self._region.counterpart(name) or "?")
        if shown is None:
            raise RewriterError(f"the repaired model reads {name!r}, which the original model does not have")
        return shown

    def _new_attributes(self, node: onnx.NodeProto) -> Iterator[str]:
        """Attributes of a new node: copied from a removed node, or from one with the same name and value, or else the value."""
        old = {n: {text(a.name): a for a in self.one.nodes[n].attribute} for n in self._region.removed}
        names = {text(attribute.name) for attribute in node.attribute}
        alike = [n for n, found in old.items() if found and names >= found.keys() and key(self.one.nodes[n]) == key(node)]
        origin = next((n for n in alike if self.one.nodes[n] == node), next(iter(alike), None))
        if origin is not None:
            yield f"..{self._label(origin)}"
        for attribute in node.attribute:
            name, digest = text(attribute.name), attribute_digest(attribute, self.other)
            same = [n for n, found in old.items() if name in found and attribute_digest(found[name], self.one) == digest]
            is_telling = attribute.type != attribute.INT or abs(attribute.i) > 1
            if origin in same:
                self._free.add((origin or 0, name))
            elif same and is_telling:
                self._free.add((same[0], name))
                yield f"{name}={self._label(same[0])}.{name}"
            else:
                yield f"{name}={self._attribute(attribute)}"

    def _attribute(self, attribute: onnx.AttributeProto) -> str:
        value = onnx.helper.get_attribute_value(attribute)
        for name, (array, _) in self._old_constants().items():
            if isinstance(value, float) and array.size == 1 and value not in (0, 1) and np.float32(value) == array.flat[0]:
                self._captured.add(name)
                return f"float({self._names[name]})"
        shown = value_text(value)
        if shown is None:
            raise RewriterError(f"attribute {attribute.name!r} of the repair is a tensor or a body, which no rewrite can write")
        return shown

    def _old_constants(self) -> dict[str, tuple[Array, bytes]]:
        """Constants that nodes of the pattern read: values and digests."""
        found = {}
        for name in (name for number in self.nodes for name in self.one.names(number)[0]):
            contents = self.one.constant(name)
            values = None if contents is None else contents.values()
            if contents is not None and values is not None:
                found[name] = values, contents.digest
        return found

    def _constant(self, contents: ConstantContents) -> str:
        """A constant of the rewrite: one of the pattern, one derived from these, or its values. Raises RewriterError."""
        values, known = contents.values(), self._old_constants()
        if values is None:
            raise RewriterError(f"the values of the constant {contents.name!r} cannot be read: {contents.problem}")
        is_whole, is_short = values.dtype.kind in "iub", values.size <= MAX_LITERAL
        same = next((name for name, (_, digest) in known.items() if digest == contents.digest), None)
        if same and not (is_short and is_whole):
            self._captured.add(same)
            return self._names[same]
        if is_whole and values.size and np.abs(values).max() > 1:
            if found := self._sizes(values):
                return found
            self._fixes_lengths = True
        if values.size > 1 and not (is_whole and is_short):
            found = next(derived(values, {self._names[name]: array for name, (array, _) in known.items()}), "")
            if found:
                self._captured.update(name for name in known if re.search(rf"\b{self._names[name]}\b", found))
                self.guesses.append(f"`{found}` equals the constant of this repair; check whether it always does.")
                return f"{{{found}}}"
            self.guesses.append(f"the {values.size} values of {contents.type} are taken from this repair.")
        if not is_short:
            raise RewriterError(
                f"the constant {contents.name!r} ({contents.type}) of the repair does not follow from the constants next to "
                "it, either by a transposition, reshape, factor, summand or cast of one, or by a combination of two"
            )
        return literal(values)

    def _sizes(self, values: Array) -> str:
        """A list of whole numbers as products of the lengths of a tensor; "" if they are not such products."""
        for name, shown in self._names.items():
            found = sizes_of(values, self._lengths(name) or [], shown) if self.one.constant(name) is None else ""
            if found:
                self.guesses.append(f"`{found}` is {values.tolist()} in this model.")
                return f"{DTYPE_NAMES[dtype_number(values.dtype) or 0]}{{{found}}}"
        return ""

    # The conditions.

    def _lengths(self, name: str) -> list[int | None] | None:
        found = onnx.TypeProto.FromString(self._types.get(name, b"")).tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in found.shape.dim]
        return dims if found.HasField("shape") else None

    def _facts(self) -> Iterator[str]:
        """Ranks and element types of the pattern's inputs, and lengths on which numbers of the rewrite depend."""
        changed = [number for number in self.nodes if number in (*self._region.removed, *self._region.staying)]
        for name in dict.fromkeys(name for number in changed for name in self.one.names(number)[0]):
            shown, is_inner = self._names[name], self.one.makers.get(name, (-1, 0))[0] in self.nodes
            if is_inner or self.one.constant(name) is not None or not self._has(self.pattern, name):
                continue
            lengths, element = self._lengths(name), onnx.TypeProto.FromString(self._types.get(name, b"")).tensor_type.elem_type
            if lengths is not None:
                yield f"rank({shown}) == {len(lengths)}"
            if element:
                yield f"dtype({shown}) == {DTYPE_NAMES[element]}"
            if self._fixes_lengths:
                yield from (f"dim({shown}, {axis}) == {length}" for axis, length in enumerate(lengths or []) if length)

    def _guard(self) -> str:
        """For nodes that are only inserted: the condition that they are not there already."""
        region = self._region
        if region.removed or region.attributes:
            return ""
        for (number, position), after in region.operands.items():
            if self.other.makers.get(after, (-1, 0))[0] in region.added:
                operator = text(self.other.nodes[self.other.makers[after][0]].op_type)
                return f"producer({self._names[self.one.names(number)[0][position]]}) != {quoted(operator)}"
        for before in region.redirects:
            for number in region.added:
                if before in map(region.counterpart, self.other.names(number)[0]):
                    return f"users({self._names[before]}) != [{quoted(text(self.other.nodes[number].op_type))}]"
        return ""

    # The pattern.

    def _pattern_line(self, number: int) -> str:
        node, stays = self.one.nodes[number], number not in self._region.removed
        operands, outputs = self.one.names(number)
        shown = [self._pattern_operand(number, place, name, stays) for place, name in enumerate(operands)]
        results = [self._names[name] if not stays or self._is_mentioned(name) else "_" for name in outputs]
        for texts, least in ((shown, 0), (results, 1)):
            count = len(texts)
            while stays and len(texts) > least and texts[-1] == "_":
                texts.pop()
            texts += ["..."] * (len(texts) < count)
        attributes = ", ".join(self._pattern_attributes(number, stays))
        label = f"[{self._label(number)}] " if number in self._labels else ""
        operator = f"{operator_text(node)}{f'<{attributes}>' if attributes else ''}"
        return f"{label}{', '.join(results)} = {operator}({', '.join(shown)})"

    def _has(self, lines: Sequence[str], name: str) -> bool:
        return any(re.search(rf"\b{self._names[name]}\b", line) for line in lines)

    def _is_mentioned(self, name: str) -> bool:
        """Whether the rewrite, the guard or another node of the pattern mentions a tensor."""
        uses = sum(name in names for number in self.nodes for names in self.one.names(number))
        return bool(name) and (uses > 1 or self._has((*self.rewrite, self.guard), name))

    def _pattern_operand(self, number: int, place: int, name: str, stays: bool) -> str:
        if not name:
            return "_" if stays else f"{self._fresh('absent')}?"
        if stays and (number, place) not in self._region.operands and not self._is_mentioned(name):
            return "_"
        shown, (values, _) = self._names[name], self._old_constants().get(name, (None, b""))
        is_edited = (number, place) in self._region.operands
        if values is None or (stays and name not in self._captured and not (is_edited and 0 < values.size <= MAX_LITERAL)):
            return shown
        if name in self._captured:
            self.conditions.append(f"rank({shown}) == {values.ndim}")
            if values.size == 1:
                self.guesses.append(f"`{shown}` may have any value; it is {pattern_literal(values)} in this model.")
        elif values.ndim == 1 and values.size > 1 and (owner := self._with_shape(values.tolist())):
            self.conditions.append(f"to_list({shown}) == shape({owner})")
        elif values.size == 1 or is_edited or (values.dtype.kind in "iub" and 0 < values.size <= MAX_PATTERN_LITERAL):
            return f"{{{pattern_literal(values)}}}"
        elif values.dtype.kind in "iuf" and values.size and (values == values.flat[0]).all():
            self.conditions.append(f"all({shown} == {number_text(values.flat[0])})")
        elif values.size:
            self.guesses.append(f"the values of `{shown}` do not matter.")
        return f"const {shown}"

    def _with_shape(self, wanted: list[int]) -> str | None:
        """A tensor that nodes of the pattern read and that has this shape."""
        read = [name for number in self.nodes for name in self.one.names(number)[0] if self.one.constant(name) is None]
        return next((self._names[name] for name in read if self._lengths(name) == wanted and max(wanted) > 1), None)

    def _pattern_attributes(self, number: int, stays: bool) -> Iterator[str]:
        node = self.one.nodes[number]
        for name, shown in attribute_values(node, self._version) if not stays else ():
            if self._has_all_attributes or (number, name) not in self._free:
                yield f"{name}={shown}"
        for name in (name for place, name in self._region.attributes if place == number):
            default = default_text(node, name, self._version)
            old = next((value_text(onnx.helper.get_attribute_value(a)) for a in node.attribute if a.name == name), default)
            yield f"!{name}" if old is None else f"{name}={old}"
