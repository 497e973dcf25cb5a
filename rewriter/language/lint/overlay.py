"""Two graphs laid over each other: in which ways a node of one and a node of the other can be the same node of some model.

Both graphs are known in part only. Where one of them ends (a captured tensor) the other may go on; a tensor that one leaves
free can be whatever the other says. Laying one over the other also tells whether the first asks for nothing that the second
does not have anyway: then it `covers` it, and whatever fits the second fits the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations

from rewriter.language import schema
from rewriter.language.lint.implications import Claim, consistent, facts_of, implied, normal
from rewriter.language.lint.rule_graph import Facts, RuleGraph, RuleNode, absent
from rewriter.language.lint.terms import ABSENT, Term, TermRef, replace
from rewriter.record import record

MOST_ORDERS = 24  # orders of operands that are tried at one node
LIMIT = 64  # ways to lay one graph over another that are looked at


@record(slots=True)
class Overlay:
    """One such way. `nodes` and `tensors` lead from refs of the one to refs of the other, `same` between refs of the other.

    `unsure`: it needs a constant to be a node's result that folds to one, or the like.
    """

    nodes: dict[TermRef, TermRef]
    tensors: dict[TermRef, TermRef | Term]
    same: tuple[tuple[TermRef, TermRef], ...] = ()
    covers: bool = True
    unsure: bool = False

    def copy(self) -> Overlay:
        return Overlay(dict(self.nodes), dict(self.tensors), self.same, self.covers, self.unsure)


def overlays(one: RuleGraph, at: TermRef, other: RuleGraph, place: TermRef) -> Iterator[Overlay]:
    """The ways in which node `at` of the one is node `place` of the other, with everything upwards of them."""
    laying = _Laying(one, other)
    for number, overlay in enumerate(laying.node(Overlay({}, {}), at, place)):
        if number == LIMIT:
            return
        overlay.covers = overlay.covers and len(overlay.nodes) == len(one.nodes)
        yield overlay


def compatible(one: RuleGraph, other: RuleGraph, overlay: Overlay) -> bool:
    """Whether the conditions of both can hold at once."""
    change = renaming(overlay, other.resolve)
    facts = [normal(literal, change) for literal in (*one.facts, *other.facts)]
    if not consistent(facts):
        return False
    mine = [[normal(literal, change) for literal in branch] for branch in one.branches]
    theirs = [[normal(literal, change) for literal in branch] for branch in other.branches]
    theirs = [branch for branch in theirs if consistent([*facts, *branch])]
    return any(consistent([*facts, *branch, *more]) for branch in mine for more in theirs)


def implies(one: RuleGraph, other: RuleGraph, overlay: Overlay, some: bool = False) -> bool:
    """Whether the other's conditions leave those of the one no choice; with `some`, in at least one of its alternatives."""
    if not overlay.covers:
        return False
    change = renaming(overlay, other.resolve)
    known = _told(other, change) if overlay.same else _told_alone(other)

    def follow(asked: Iterable[Claim], facts: Facts) -> bool:
        return all(implied(normal(literal, change), *facts) for literal in asked)

    answers = (follow(one.facts, facts) and any(follow(branch, facts) for branch in one.branches) for facts in known)
    return any(answers) if some else bool(known) and all(answers)


def _told_alone(picture: RuleGraph) -> list[Facts]:
    """What the conditions of a picture say, where no two of its tensors are one: the same however another is laid over it."""
    if picture.told is None:
        picture.told = _told(picture, renaming(Overlay({}, {}), picture.resolve))
    return picture.told


def _told(picture: RuleGraph, change: Callable[[Term], Term]) -> list[Facts]:
    """The facts of each alternative that can hold, and what is only said of things that may be unknown."""
    base = [normal(literal, change) for literal in picture.facts]
    told = []
    for branch in picture.branches:
        known = [*base, *(normal(literal, change) for literal in branch)]
        if consistent(known):
            told.append((facts_of(known), [k for k in known if isinstance(k, Claim) and k.maybe]))
    return told


def renaming(overlay: Overlay, resolve: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Rewrites terms of the one, and of the other, into terms of the other."""
    table: dict[Term, Term] = {**overlay.nodes, **overlay.tensors}
    same = dict(overlay.same)

    def step(term: Term) -> Term:
        if isinstance(term, TermRef):
            term = table.get(term, term)
            return same.get(term, term)
        return resolve(term) if isinstance(term, tuple) else term

    return lambda term: replace(term, step)


class _Laying:
    def __init__(self, one: RuleGraph, other: RuleGraph) -> None:
        self._one = one
        self._other = other

    def node(self, overlay: Overlay, at: TermRef, place: TermRef) -> Iterator[Overlay]:
        if at in overlay.nodes or place in overlay.nodes.values():
            if overlay.nodes.get(at) == place:
                yield overlay
            return
        mine, theirs = self._one.nodes[at], self._other.nodes[place]
        common = theirs.ops if mine.ops is None else mine.ops if theirs.ops is None else mine.ops & theirs.ops
        if common is not None and not common:
            return
        overlay = overlay.copy()
        overlay.nodes[at] = place
        overlay.covers = overlay.covers and theirs.ops is not None and (mine.ops is None or theirs.ops <= mine.ops)
        if not self._outputs(overlay, mine, theirs):
            return
        swaps = any(schema.is_commutative(op, domain) for domain, op in common or ())
        for order in self._orders(mine, theirs, swaps):
            yield from self._operands(overlay.copy(), mine, theirs, order, 0)

    def _outputs(self, overlay: Overlay, mine: RuleNode, theirs: RuleNode) -> bool:
        """Outputs that the one does not list must be unused, so the other may not use them."""
        used = {ref.part for node in self._other.nodes.values() for ref in node.inputs if _is_made(ref, theirs.ref)}
        if not mine.more_outputs and any(part >= mine.outputs for part in used):
            return False
        if theirs.outputs < mine.outputs or (theirs.more_outputs and not mine.more_outputs and not theirs.exact):
            overlay.covers = False
        for part in range(max(mine.outputs, theirs.outputs)):
            overlay.tensors[TermRef("made", mine.ref.side, mine.ref.at, part)] = TermRef(
                "made", theirs.ref.side, theirs.ref.at, part
            )
        return True

    @staticmethod
    def _orders(mine: RuleNode, theirs: RuleNode, swaps: bool) -> Iterator[Sequence[TermRef | Term]]:
        several = 1 < len(mine.inputs) <= 4 and not any(isinstance(ref, TermRef) and ref.kind == "run" for ref in mine.inputs)
        if not (swaps and several and not (mine.ordered and (theirs.ordered or theirs.exact))):
            yield mine.inputs
            return
        for number, order in enumerate(permutations(mine.inputs)):
            if number < MOST_ORDERS:
                yield order

    def _operands(
        self, overlay: Overlay, mine: RuleNode, theirs: RuleNode, order: Sequence[TermRef | Term], position: int
    ) -> Iterator[Overlay]:
        if position == 0 and mine.ordered and order is not mine.inputs:
            overlay.covers = False
        if position >= max(len(order), len(theirs.inputs)):
            if theirs.open and not mine.open and not _takes_at_most(theirs, len(order)):
                overlay.covers = False
            yield overlay
            return
        one = order[position] if position < len(order) else None
        other = theirs.inputs[position] if position < len(theirs.inputs) else None
        if _is_run(one) or _is_run(other):
            last = position == len(order) - 1 and not mine.open  # what stands behind a run is not laid over anything
            overlay.covers = overlay.covers and last and _is_run(one) and (other is None or one != other)
            yield overlay
            return
        for following in self._pair(overlay, one, other, mine, theirs, position):
            yield from self._operands(following, mine, theirs, order, position + 1)

    def _pair(
        self, overlay: Overlay, one: TermRef | Term, other: TermRef | Term, mine: RuleNode, theirs: RuleNode, position: int
    ) -> Iterator[Overlay]:
        if one is None:
            if not mine.open:
                if not absent(other) and other not in self._other.optional:
                    return
                overlay.covers = overlay.covers and absent(other)
            yield overlay
        elif other is None or absent(other):
            yield from self._missing(overlay, one, other, theirs, position)
        elif isinstance(one, TermRef) and one.kind == "made":
            yield from self._made(overlay, one, other)
        else:
            if other.kind == "made" and one in self._one.constants:
                overlay.unsure, overlay.covers = True, False
            if other in self._other.optional and one not in self._one.optional:
                overlay.covers = False
            if self._bind(overlay, one, other):
                yield overlay

    def _missing(
        self, overlay: Overlay, one: TermRef, other: TermRef | Term, theirs: RuleNode, position: int
    ) -> Iterator[Overlay]:
        """The one has an operand where the other has none, or says nothing."""
        optional = one in self._one.optional
        if other is None and theirs.open:
            overlay.covers = overlay.covers and optional
            if self._bind(overlay, one, TermRef("open", theirs.ref.side, theirs.ref.at, position)):
                yield overlay
        elif optional and self._bind(overlay, one, ABSENT):
            yield overlay

    def _made(self, overlay: Overlay, one: TermRef, other: TermRef) -> Iterator[Overlay]:
        if other.kind == "made":
            if TermRef("node", other.side, other.at) not in self._other.nodes:  # its rewrite makes this operand anew, somehow
                overlay.covers, overlay.unsure = False, True
                yield overlay
            elif other.part == one.part:
                yield from self.node(overlay, TermRef("node", one.side, one.at), TermRef("node", other.side, other.at))
            return
        overlay.covers = False
        overlay.unsure = overlay.unsure or other in self._other.constants
        if self._bind(overlay, one, other):
            yield overlay

    def _bind(self, overlay: Overlay, one: TermRef, other: TermRef | Term) -> bool:
        """The tensor of the one is this tensor of the other; when it was another one before, the two must be the same."""
        found = overlay.tensors.setdefault(one, other)
        if found == other:
            return True
        if absent(found) or absent(other) or (found.kind == "made" and other.kind == "made"):
            return False
        overlay.covers = False
        overlay.same = (*overlay.same, (other, found))
        return True


def _is_run(ref: TermRef | Term) -> bool:
    return isinstance(ref, TermRef) and ref.kind == "run"


def _is_made(ref: TermRef | Term, by: TermRef) -> bool:
    return isinstance(ref, TermRef) and ref.kind == "made" and (ref.side, ref.at) == (by.side, by.at)


def _takes_at_most(node: RuleNode, count: int) -> bool:
    """Whether the operators of a node have no more operands than that, in any version."""
    versions = [op for domain, name in node.ops or () for op in schema.history(name, domain)]
    return bool(versions) and all(op.max_inputs is not None and op.max_inputs <= count for op in versions)
