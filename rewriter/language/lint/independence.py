"""Two rules that fit the same node though it does not matter which goes first: neither reads what the other writes.

Many repairs change one attribute or one operand and keep the rest. Such rules need no `before`.
"""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.lint.outcome import consumes_root
from rewriter.language.lint.overlay import Overlay
from rewriter.language.lint.rule_graph import RuleSubject
from rewriter.language.lint.terms import TermRef
from rewriter.language.walk import pattern_nodes, walk

Place = tuple[TermRef, str, int]
"""A node, the name of an attribute or "inputs", and the operand's position (0 for attributes)."""

ALL = "*"


def independent(one: RuleSubject, other: RuleSubject, overlay: Overlay) -> bool:
    """Whether the order of two firings at this place makes no difference."""
    mine, theirs = _writes(one), _writes(other)
    if mine is not None and theirs is not None:
        reads, others = {_there(place, overlay) for place in _reads(one)}, _reads(other)
        moved = {_there(place, overlay) for place in mine}
        return not (_touch(moved, theirs) or _touch(moved, others) or _touch(theirs, reads))
    if mine is not None and consumes_root(other):
        return _root_only(one, mine) and not _touch({_there(place, overlay) for place in mine}, _reads(other))
    if theirs is not None and consumes_root(one):
        return _root_only(other, theirs) and not _touch(theirs, {_there(place, overlay) for place in _reads(one)})
    return False


def _root_only(subject: RuleSubject, writes: set[Place]) -> bool:
    return subject.picture is not None and {place[0] for place in writes} <= {subject.picture.root}


def _there(place: Place, overlay: Overlay) -> Place:
    return overlay.nodes.get(place[0], place[0]), place[1], place[2]


def _touch(written: set[Place], read: set[Place]) -> bool:
    return any({(node, name, at), (node, ALL, 0), (node, name, -1)} & read for node, name, at in written)


def _writes(subject: RuleSubject) -> set[Place] | None:
    """The places that a rule edits; None when it does anything else to the matched nodes."""
    known = subject.names.known
    found: set[Place] = set()
    for block in subject.rule.ast.rewrites:
        for statement in block.statements:
            if isinstance(statement, ast.Build) and not any(output.name in known for output in statement.outputs):
                continue
            place = statement.place if isinstance(statement, ast.Edit | ast.Delete) else None
            node = known.get(place.base) if place is not None else None
            if place is None or place.field in (None, "op") or not (isinstance(node, TermRef) and node.kind == "node"):
                return None
            if place.field != "inputs":
                found.add((node, str(place.field), 0))
            elif isinstance(place.index, ast.Literal) and isinstance(place.index.value, int):
                found.add((node, "inputs", place.index.value))
            else:
                return None
    return found


def _reads(subject: RuleSubject) -> set[Place]:
    """Everything that the rule's firing depends on at matched nodes: tested attributes, operands that it speaks of."""
    assert subject.pattern is not None
    known, side = subject.names.known, subject.names.side
    found: set[Place] = set()
    spoken = _spoken(subject)
    for node in subject.pattern.nodes:
        ref = TermRef("node", side, node.number)
        found |= {(ref, attr.name, 0) for attr in node.source.attrs}
        for position, operand in enumerate(node.source.inputs):
            plain = isinstance(operand, ast.Capture) and not (operand.const or operand.type or operand.optional)
            if not (
                isinstance(operand, ast.Wildcard) or (plain and isinstance(operand, ast.Capture) and operand.name not in spoken)
            ):
                found.add((ref, "inputs", position))
        if spoken & {output.name for output in node.source.outputs}:
            found.add((ref, ALL, 0))  # what is true of its output depends on all of the node
    for record in _said(subject):
        if isinstance(record, ast.Field) and isinstance(record.value, ast.Name):
            node_ref = known.get(record.value.id)
            found.add((node_ref, record.name, -1 if record.name == "inputs" else 0)) if isinstance(node_ref, TermRef) else None
        elif isinstance(record, ast.Call) and len(record.args) > 1 and isinstance(record.args[0], ast.Name):
            node_ref, name = known.get(record.args[0].id), record.args[1]
            if isinstance(node_ref, TermRef) and isinstance(name, ast.Literal) and isinstance(name.value, str):
                found.add((node_ref, name.value, 0))
        elif isinstance(record, ast.AttrCopy) and isinstance(node_ref := known.get(record.label), TermRef):
            found.add((node_ref, ALL, 0))
    return found


def _said(subject: RuleSubject) -> list[object]:
    """All records of the rule outside of its pattern and its tests."""
    rule = subject.rule.ast
    return [record for part in (*rule.wheres, *rule.lets, *rule.rewrites) for record in walk(part)]


def _spoken(subject: RuleSubject) -> set[str | None]:
    """Names that the rule uses outside of its pattern, or that stand in it more than once."""
    names: set[str | None] = {record.id for record in _said(subject) if isinstance(record, ast.Name)}
    names |= {record.name for record in _said(subject) if isinstance(record, ast.Ref)}
    seen: set[str] = set()
    for node in pattern_nodes(subject.rule.ast.match):
        for operand in node.inputs:
            if isinstance(operand, ast.Capture | ast.Variadic):
                if operand.name in seen:
                    names.add(operand.name)
                seen.add(operand.name)
    return names
