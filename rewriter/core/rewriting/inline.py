"""`inline n.then_branch`, `inline n.body` and `inline n`: a branch of an If, the body of a Loop once for each iteration, or the
body of a local function takes the place of the node that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import node_keeps_meaning
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.graph.objects import (
    Function,
    FunctionKey,
    Graph,
    Scope,
    bodies,
    callee,
    key_of,
    new_node,
    new_variable,
    operator_key,
    opset_versions,
)
from rewriter.core.language import ast, schema
from rewriter.core.language.operator_traits import MAY_DRAW
from rewriter.core.rewriting.model_edits import agrees, nodes_behind, set_opset
from rewriter.core.rewriting.transaction import Refused, Rewriting, Undecided

MOST_NODES = 2000
"""As many nodes may take the place of a Loop."""


def inline(rewriting: Rewriting, statement: ast.Inline) -> None:
    """Raises Failure when the body cannot stand in the scope of its node."""
    node = rewriting.node(statement.label)
    if statement.attr is None:
        function, scope = _function(rewriting, node), rewriting.index.scope(node)
        if not body_keeps_meaning(function, scope.opsets, [key_of(one) for one in rewriting.index.graph.functions]):
            raise Failure(_other_opset(function, scope))
        add_imports(rewriting, function, scope)
        inline_function(rewriting, node, function)
    elif operator_key(node) == ("", "Loop"):
        _unroll(rewriting, node)
    else:
        _inline_body(rewriting, node, statement.attr)


def _inline_body(rewriting: Rewriting, node: gs.Node, attribute: str) -> None:
    """Moves the nodes of a body without inputs (a branch of If) into the scope of its node; tensors keep their identity."""
    index, edits = rewriting.index, rewriting.edits
    scope = index.body(node, attribute)
    if scope is None or scope.graph.inputs:
        raise Failure(f"`{attribute}` is no body without inputs")
    if len(scope.graph.outputs) < len(node.outputs):
        raise Failure(f"`{attribute}` has fewer outputs than its node")
    moved = index.members(scope)
    readers = [reader for inner in moved for reader in (inner, *index.inside(inner))]
    pairs = list(zip(node.outputs, scope.graph.outputs, strict=False))
    for outer, inner in pairs:
        _declare(rewriting, outer, inner)
    hidden = [outer for outer, _ in pairs if outer.name and _hides_rank(rewriting, node, outer)]
    for tensor in _declared_behind(rewriting, hidden):
        _declare(rewriting, tensor, tensor)
    outside = [t for reader in readers for t in reader.inputs]
    keys = index.keys_before(node, outside, len(moved) + len(node.outputs)) if moved or node.outputs else []
    constants = _own_constants(rewriting, scope, readers)
    _move_bodies(rewriting, node, scope, moved, constants)
    for inner, key in zip(moved, keys, strict=False):
        _rename(rewriting, [inner, *inner.outputs])
        edits.remove_only(inner)
        edits.add(inner, index.scope(node), key)
    _rename(rewriting, constants.values())
    results = [(outer, inner) for outer, inner in zip(node.outputs, scope.graph.outputs, strict=False) if outer.name]
    _hand_over(rewriting, node, results, set(map(id, moved)), keys[len(moved) :])


def _move_bodies(
    rewriting: Rewriting, node: gs.Node, scope: Scope, moved: list[gs.Node], constants: Mapping[int, gs.Constant]
) -> None:
    """Makes the bodies inside moved nodes bodies of the scope around `node`, which then has the constants that they read."""
    index, edits, outer = rewriting.index, rewriting.edits, rewriting.index.scope(node)
    inside = {body.number: body for inner in moved for body in index.scopes_inside(inner)}
    if not inside:
        return
    for body in inside.values():
        edits.later(body.move_to, body.parent, body.path)
        body.move_to(outer if body.parent is scope else body.parent, outer.prefix + body.path.removeprefix(scope.prefix))
    before = index.scopes_inside(node)
    edits.later(index.set_scopes_inside, node, before)
    index.set_scopes_inside(node, [body for body in before if body.number not in inside])
    if isinstance(scope.graph, Graph) and isinstance(outer.graph, Graph | Function):
        edits.later(outer.graph.origin.dissolved.pop)
        outer.graph.origin.dissolved.append(scope.graph.origin)
    if isinstance(outer.graph, Graph):
        initializers = outer.graph.initializers
        read = {id(tensor) for inner in moved for tensor in inner.inputs}
        edits.later(setattr, outer.graph, "initializers", initializers)
        outer.graph.initializers = [*initializers, *(tensor for number, tensor in constants.items() if number not in read)]


def _hides_rank(rewriting: Rewriting, node: gs.Node, result: gs.Tensor) -> bool:
    """Whether the branches give a result different ranks, so that a checker knows no rank of it as long as the node exists."""
    place = node.outputs.index(result)
    shapes = {rewriting.context.facts.shape(body.outputs[place]) for _, body in bodies(node) if place < len(body.outputs)}
    return None in shapes or len({len(shape) for shape in shapes if shape is not None}) > 1


def _declared_behind(rewriting: Rewriting, tensors: list[gs.Tensor]) -> list[gs.Tensor]:
    """Outputs of graphs that depend on tensors. The declarations of the tensors between are corrected afterwards.

    The readers of these tensors may change, for example when another branch is removed. The rule is then tried again.
    """
    index = rewriting.index
    outputs = [tensor for node in nodes_behind(index, tensors) for tensor in node.outputs]
    for tensor in (*tensors, *outputs):
        rewriting.context.count(tensor)
    return [tensor for tensor in outputs if index.output_of(tensor)]


def _declare(rewriting: Rewriting, outer: gs.Tensor, inner: gs.Tensor) -> None:
    """Corrects the shape that the model declares for a result, if the shape in the body contradicts it.

    The declaration was wrong before. A checker did not see it as long as the branches differed in rank.
    """
    declared, found = rewriting.context.facts.declared(outer)[1], rewriting.context.facts.shape(inner)
    if not agrees(None, declared, None, found) and isinstance(outer, gs.Variable):
        rewriting.edits.correct_type(outer, outer.dtype, list(found or ()))


def _own_constants(rewriting: Rewriting, scope: Scope, moved: list[gs.Node]) -> dict[int, gs.Constant]:
    """The constants of a body: its nodes read them, or they are its outputs. Constants of outer graphs keep their names."""
    index = rewriting.index
    read = [t for inner in moved for t in inner.inputs]
    found = {id(t): t for t in (*read, *scope.graph.outputs) if isinstance(t, gs.Constant) and index.producer(t) is None}
    if isinstance(scope.graph, Graph):
        own = set(map(id, scope.graph.initializers))
    else:  # of graphsurgeon, in which constants have no owner
        inside = set(map(id, moved))
        own = {number for number, t in found.items() if index.users(t).keys() <= inside}
    return {number: t for number, t in found.items() if number in own}


def _rename(rewriting: Rewriting, parts: Iterable[gs.Node | gs.Tensor]) -> None:
    """Assigns fresh names, since the other branch and sibling scopes may use the same names."""
    index = rewriting.index
    for part in parts:
        if part.name and id(part) not in rewriting.renamed:
            rewriting.renamed.add(id(part))
            rewriting.edits.later(setattr, part, "name", part.name)
            part.name = (index.node_names if isinstance(part, gs.Node) else index.names).fresh(part.name)


def _hand_over(
    rewriting: Rewriting, node: gs.Node, results: list[tuple[gs.Tensor, gs.Tensor]], moved: set[int], keys: list[int]
) -> None:
    """The node's outputs get the values of the body's results. If a node inside makes the result, the output replaces it. Else
    an Identity is added.
    """
    index, edits = rewriting.index, rewriting.edits
    spare = [new_variable("") for _ in node.outputs]
    edits.set_outputs(node, spare)
    replaced: dict[int, gs.Tensor] = {}
    for (outer, inner), key in zip(results, keys, strict=False):
        maker = index.producer(inner)
        if maker is not None and id(maker) in moved and id(inner) not in replaced:
            replaced[id(inner)] = outer
            edits.replace_uses(inner, outer)
            edits.set_outputs(maker, [outer if output is inner else output for output in maker.outputs])
            continue
        identity = new_node("Identity", "", index.node_names.fresh(outer.name), {}, [], [])
        list.append(identity.inputs, replaced.get(id(inner), inner))
        list.append(identity.outputs, outer)
        edits.add(identity, index.scope(node), key)
        rewriting.new_nodes.append(identity)
    edits.remove(node)


def _unroll(rewriting: Rewriting, loop: gs.Node) -> None:
    """Copies the body of a Loop once for each iteration. Raises Undecided if constants do not decide how many there are."""
    scope = _loop_body(rewriting, loop)
    nodes = rewriting.index.members(scope)
    _rename(rewriting, _own_constants(rewriting, scope, nodes).values())
    count, condition = (loop.inputs[i] if i < len(loop.inputs) and loop.inputs[i].name else None for i in (0, 1))
    most = None if count is None else int(_known(rewriting, count))
    inner_step, inner_condition, *inner_states = scope.graph.inputs
    next_condition, *results = scope.graph.outputs
    states, rows = list(loop.inputs[2:]), [list[gs.Tensor]() for _ in results[len(inner_states) :]]
    step = 0
    while (most is None or step < most) and (condition is None or bool(_known(rewriting, condition))):
        if (step + 1) * max(len(nodes), 1) > MOST_NODES:
            raise Refused(f"more than {MOST_NODES:,} nodes would take the place of the Loop")
        tensors = dict(zip(map(id, inner_states), states, strict=True))
        tensors[id(inner_step)] = rewriting.constant(np.array(step, np.int64), schema.DTYPES["int64"], "step")
        tensors[id(inner_condition)] = rewriting.constant(np.array(True), schema.DTYPES["bool"], "condition")
        _copies(rewriting, loop, nodes, tensors, lambda inner: inner.attrs)
        condition, *values = (tensors.get(id(tensor), tensor) for tensor in (next_condition, *results))
        states = values[: len(inner_states)]
        for row, value in zip(rows, values[len(inner_states) :], strict=True):
            row.append(value)
        step += 1
    lists = zip(loop.outputs[len(inner_states) :], rows, strict=False)
    stacked = [_stacked(rewriting, loop, row) if outer.name else outer for outer, row in lists]
    pairs = [(outer, inner) for outer, inner in zip(loop.outputs, [*states, *stacked], strict=False) if outer.name]
    keys = rewriting.index.keys_before(loop, [inner for _, inner in pairs], len(loop.outputs))
    _hand_over(rewriting, loop, pairs, set(map(id, rewriting.new_nodes)), keys)


def _loop_body(rewriting: Rewriting, loop: gs.Node) -> Scope:
    """The body of a Loop, if copies of its nodes compute what its iterations compute. Raises Failure or Refused."""
    scope = rewriting.index.body(loop, "body")
    if scope is None or not len(loop.inputs[2:]) == len(scope.graph.inputs) - 2 <= len(scope.graph.outputs) - 1:
        raise Failure("`body` does not fit the operands of its Loop")
    nodes = rewriting.index.members(scope)
    if any(True for inner in nodes for _ in bodies(inner)):
        raise Refused("`body` contains a subgraph of its own, which is not copied")
    if any(inner.op in MAY_DRAW for inner in nodes):
        raise Refused("`body` draws random numbers, and copies would draw the same ones")
    return scope


def _known(rewriting: Rewriting, tensor: gs.Tensor) -> Any:
    """The only item of a tensor. Raises Undecided if no constants decide it."""
    found = rewriting.context.facts.constant(tensor)
    if found is None or found.size != 1:
        raise Undecided(f"constants do not decide how often the Loop runs: {tensor.name}")
    return found.item()


def _stacked(rewriting: Rewriting, loop: gs.Node, values: list[gs.Tensor]) -> gs.Tensor:
    """The values of all iterations along a new first axis."""
    if not values:
        raise Refused("the Loop does not run, and an output of it is a list of iterations")
    version = rewriting.index.scope(loop).opsets.get("", 1)
    axes = {"axes": [0]} if schema.attribute("Unsqueeze", "", version, "axes") else {}
    places = [] if axes else [rewriting.constant(np.zeros(1, np.int64), schema.DTYPES["int64"], "axes")]
    rows = []
    for value in values:
        rows.append(rewriting.fresh("row"))
        rewriting.insert("Unsqueeze", "", rows[-1].name, axes, [value, *places], [rows[-1]])
    whole = rewriting.fresh("rows")
    rewriting.insert("Concat", "", whole.name, {"axis": 0}, rows, [whole])
    return whole


def inline_function(rewriting: Rewriting, call: gs.Node, function: gs.Function) -> None:
    """Copies the body of the local function that a node calls, its attributes filled in. Raises Failure for one with
    subgraphs.
    """
    if any(True for node in function.nodes for _ in bodies(node)):
        raise Failure(f"function {function.name} contains subgraphs, which are not inlined")
    tensors: dict[int, gs.Tensor] = {}
    for position, formal in enumerate(function.inputs):
        tensors[id(formal)] = call.inputs[position] if position < len(call.inputs) else new_variable("")
    copies = _copies(rewriting, call, function.nodes, tensors, partial(_attributes, call=call, function=function))
    results = [(o, tensors.get(id(f), f)) for o, f in zip(call.outputs, function.outputs, strict=False) if o.name]
    keys = rewriting.index.keys_before(call, list(call.inputs), len(call.outputs))
    _hand_over(rewriting, call, results, set(map(id, copies)), keys)


def _copies(
    rewriting: Rewriting,
    holder: gs.Node,
    nodes: Iterable[gs.Node],
    tensors: dict[int, gs.Tensor],
    attributes: Callable[[gs.Node], Mapping[str, Any]],
) -> list[gs.Node]:
    """Copies nodes to right before the node that holds them.

    Args:
        tensors: what a copy reads in place of a tensor, by `id`. The outputs of the copies are added.
        attributes: of the copy of a node.
    """
    index, copies = rewriting.index, list[gs.Node]()
    for inner in nodes:
        operands = [tensors.get(id(t), t) for t in inner.inputs]
        outputs = [new_variable(index.names.fresh(f"{holder.name}_{t.name}") if t.name else "") for t in inner.outputs]
        tensors.update(zip(map(id, inner.outputs), outputs, strict=True))
        name = index.node_names.fresh(f"{holder.name}_{inner.name or inner.op}")
        copy = new_node(inner.op, inner.domain, name, attributes(inner), [], [], getattr(inner, "overload", ""))
        list.extend(copy.inputs, operands)
        list.extend(copy.outputs, outputs)
        copies.append(copy)
    keys = index.keys_before(holder, [t for copy in copies for t in copy.inputs], len(copies)) if copies else []
    for copy, key in zip(copies, keys, strict=True):
        rewriting.edits.add(copy, index.scope(holder), key)
        rewriting.new_nodes.append(copy)
    return copies


def _function(rewriting: Rewriting, call: gs.Node) -> gs.Function:
    found = next((one for one in rewriting.index.graph.functions if key_of(one) == callee(call)), None)
    if found is None:
        raise Failure(f"{call.op} is no local function of the model")
    return found


def _other_opset(function: gs.Function, scope: Scope) -> str:
    domain, own = next((d, v) for d, v in opset_versions(function).items() if scope.opsets.get(d, v) != v)
    return f"function {function.name} is of opset {own} of domain {domain!r}, the model of {scope.opsets[domain]}"


def body_keeps_meaning(function: gs.Function, imported: Mapping[str, int], local: Container[FunctionKey]) -> bool:
    """Whether the nodes of a function mean the same under these imports. `local`: the functions that nodes may call."""
    versions = opset_versions(function)
    for node in function.nodes:
        domain, op = operator_key(node)
        own, outer = versions.get(domain, imported.get(domain)), imported.get(domain)
        if own is None or outer is None or own == outer or callee(node) in local:
            continue
        # For a custom operator, it is unknown what its versions change.
        if not schema.history(op, domain) or not node_keeps_meaning(node, domain, own, outer):
            return False
    return True


def needed_imports(function: gs.Function) -> dict[str, int]:
    """The version of each domain that has a node in the function."""
    needed = {operator_key(node)[0] for node in function.nodes}
    return {domain: version for domain, version in opset_versions(function).items() if domain in needed}


def add_imports(rewriting: Rewriting, function: gs.Function, scope: Scope) -> None:
    """Imports the domains that a function needs and a scope lacks."""
    for domain, version in needed_imports(function).items():
        if domain not in scope.opsets:
            set_opset(rewriting.index, rewriting.edits, scope, domain, version)


def _attributes(node: gs.Node, call: gs.Node, function: gs.Function) -> dict[str, Any]:
    """A body node's attributes, references filled from the call or the function's defaults; without either they are left
    out.
    """
    found: dict[str, Any] = {}
    for name, value in node.attrs.items():
        if isinstance(value, gs.Node.AttributeRef):
            value = call.attrs.get(value.name, (function.attrs or {}).get(value.name))
        if value is not None:
            found[name] = value
    return found
