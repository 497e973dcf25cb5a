"""Applying a rewrite block to a match, as one transaction.

First everything is computed, while the graph is as it was matched. Then the new parts are built, wired and put in order, and
dead nodes are swept away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import truth
from rewriter.core.language import ast
from rewriter.core.record import record
from rewriter.core.rewriting.build import apply_delete, apply_edit, build, redirect
from rewriter.core.rewriting.model_edits import add_output
from rewriter.core.rewriting.prepare import NOTHING, NewNode, computes, prepare, prepare_node
from rewriter.core.rewriting.transaction import Refused, Rewriting
from rewriter.core.whole_model import repairs

# `each x in n.inputs if ... { x = Op(x) }`: new tensors replace some operands, for any number of operands.
#
# This is a statement of its own, since a rule does not know how many operands a node has. A tensor in several positions is
# rewritten once.


@record(frozen=True, slots=True)
class _Chosen:
    """A tensor that passes the test, and the node that takes its place."""

    tensor: gs.Tensor
    new: NewNode


def prepare_each(rewriting: Rewriting, each: ast.Each) -> tuple[Any, Any]:
    """The computed parts for every operand that passes the test. Raises Undecided if a test is unknown."""
    outer, chosen = rewriting.names, dict[int, _Chosen]()
    for tensor in _operands(rewriting, each):
        if not tensor.name or id(tensor) in chosen:
            continue
        rewriting.names = outer.within(each.name, tensor)
        try:
            if each.test is None or truth(rewriting.value(each.test)):
                chosen[id(tensor)] = _Chosen(tensor, prepare_node(rewriting, each.value))
        finally:
            rewriting.names = outer
    return chosen, None


def apply_each(rewriting: Rewriting, each: ast.Each, value: Any, at: Any) -> None:
    """Builds the new nodes and hands them to the node, or to those who read the run from here on."""
    outer, new_tensors = rewriting.names, dict[int, gs.Tensor]()
    for number, one in value.items():
        rewriting.names = outer.within(each.name, one.tensor)
        try:
            new_tensors[number] = build(rewriting, each.value, one.new)
        finally:
            rewriting.names = outer
    operands = _operands(rewriting, each)
    if not each.inputs:
        rewriting.new_values[each.base] = [new_tensors.get(id(tensor), tensor) for tensor in operands]
        return
    node = rewriting.node(each.base)
    for position, tensor in enumerate(operands):
        if id(tensor) in new_tensors:
            rewriting.edits.set_input(node, position, new_tensors[id(tensor)])


def _operands(rewriting: Rewriting, each: ast.Each) -> list[gs.Tensor]:
    if each.inputs:
        return list(rewriting.node(each.base).inputs)
    return list(rewriting.new_values.get(each.base) or rewriting.run(each.base))


class Block:
    """A rewrite block, with the facts that are known of it before any match.

    Attributes:
        opset: the opset for which the block is written, None for all.
        steps: statements in their order, each with whether a part of it is computed first, and the function that performs it.
        computes: whether a part of any statement is computed first.
        reread: names that the block redefines and also reads. Their old values get names of their own.
    """

    __slots__ = ("computes", "opset", "reread", "steps")

    def __init__(self, block: ast.Rewrite) -> None:
        self.opset = block.opset
        self.steps = tuple((statement, computes(statement), _PERFORM[type(statement)]) for statement in block.statements)
        self.computes = any(computed for _, computed, _ in self.steps)
        redefined = {o.name for s in block.statements if isinstance(s, ast.Build) for o in s.outputs if o.name}
        self.reread = tuple(sorted(redefined.intersection(_read(block))))


def apply_block(rewriting: Rewriting, block: Block) -> None:
    """Builds and wires. Raises Failure or Refused; the caller rolls back."""
    if not block.computes:
        for statement, _, perform in block.steps:
            perform(rewriting, statement, None, None)
    else:
        _compute_and_perform(rewriting, block)
    _order(rewriting)
    rewriting.edits.sweep([*rewriting.matched, *rewriting.new_nodes])


def _compute_and_perform(rewriting: Rewriting, block: Block) -> None:
    prepared = [_prepared(rewriting, statement) if computed else NOTHING for statement, computed, _ in block.steps]
    for name in block.reread:
        if isinstance(found := rewriting.names.bound.get(name), gs.Tensor):
            is_input = rewriting.index.producer(found) is None  # an input stays an input
            rewriting.kept[name] = found if is_input else rewriting.fresh("before", found)
    for (statement, _, perform), (value, at) in zip(block.steps, prepared, strict=True):
        perform(rewriting, statement, value, at)


def _prepared(rewriting: Rewriting, statement: ast.Statement) -> tuple[Any, Any]:
    return prepare_each(rewriting, statement) if isinstance(statement, ast.Each) else prepare(rewriting, statement)


def _build(rewriting: Rewriting, statement: ast.Build, value: Any, at: Any) -> None:
    if not statement.outlined:
        build(rewriting, statement, value)
        return
    from rewriter.core.rewriting.outline import outline

    outline(rewriting, statement, value)


def _delete(rewriting: Rewriting, statement: ast.Delete, value: Any, at: Any) -> None:
    apply_delete(rewriting, statement, at)


def _mend(rewriting: Rewriting, statement: ast.Mend, value: Any, at: Any) -> None:
    repairs().mend(statement.fault, rewriting)


def _add_output(rewriting: Rewriting, statement: ast.AddOutput, value: Any, at: Any) -> None:
    add_output(rewriting, statement.name)


def _inline(rewriting: Rewriting, statement: ast.Inline, value: Any, at: Any) -> None:
    from rewriter.core.rewriting.inline import inline

    inline(rewriting, statement)


_PERFORM: Mapping[type, Callable[[Rewriting, Any, Any, Any], None]] = {
    ast.Build: _build,
    ast.Redirect: redirect,
    ast.Edit: apply_edit,
    ast.Delete: _delete,
    ast.Mend: _mend,
    ast.Inline: _inline,
    ast.Each: apply_each,
    ast.AddOutput: _add_output,
}


def _order(rewriting: Rewriting) -> None:
    """Makes every new edge lead forwards. Raises Refused if an edge would close a cycle."""
    index = rewriting.index
    for node in (*rewriting.new_nodes, *rewriting.edits.edited.values()):
        if node._scope is not None and not index.put_behind(node):
            raise Refused("it would close a cycle")
    for node in rewriting.new_nodes:
        if node._scope is not None and not index.put_before(node):
            raise Refused("it would close a cycle")


def _read(block: ast.Rewrite) -> list[str]:
    """Names that the operands of a block's new nodes and edits read."""
    found: list[str] = []
    waiting: list[Any] = list(block.statements)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Build):
            waiting.extend(item.inputs)
        elif isinstance(item, ast.Each) or (isinstance(item, ast.Edit) and item.place.field == "inputs"):
            waiting.append(item.value)
        elif isinstance(item, ast.Ref | ast.Name):
            found.append(item.name if isinstance(item, ast.Ref) else item.id)
    return found
