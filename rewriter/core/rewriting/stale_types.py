"""Corrects declared types that rewriting has made wrong.

Runtimes reject a model if a value_info entry contradicts the new output of its node. Only tensors downstream of a change are
checked, and only as far as declarations disagree. Declared outputs of the graph are the model's interface and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_graphsurgeon as gs

from rewriter.core.facts.facts import Facts, refresh
from rewriter.core.graph.edits import Edits, NodeState
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Function, Graph
from rewriter.core.onnxfile.tensors import Dim, gs_dtype


def mend_stale_types(index: GraphIndex, facts: Facts, changed: Iterable[gs.Node]) -> None:
    """Declares anew every inner tensor behind `changed` nodes whose declaration is contradicted.

    A tensor without a declaration proves nothing about the tensors behind it. After a correct declaration the search stops.
    """
    if not declares_inner(index):
        return
    waiting = [node for node in changed if node in index]
    seen = {id(node) for node in waiting}
    edits = Edits(index)
    while waiting:
        node = waiting.pop()
        for tensor in node.outputs:
            dtype, shape = facts.declared(tensor)
            if (dtype is not None or shape is not None) and not index.output_of(tensor):
                now, dims = facts.dtype(tensor), facts.shape(tensor)
                if agrees(dtype, shape, now, dims):
                    continue
                edits.set_type(tensor, gs_dtype(now) if now else None, None if dims is None else list(dims))
            for follower in index.uses(tensor):
                if id(follower) not in seen:
                    seen.add(id(follower))
                    waiting.append(follower)


def changed_types(index: GraphIndex, facts: Facts, done: Iterable[Edits]) -> Iterator[gs.Node]:
    """The nodes that edits made, and those that they changed otherwise than by handing them operands of the same types."""
    declares = declares_inner(index)
    for edits in done if declares else ():
        yield from edits.added.values()
        for number, node in edits.edited.items():
            state = edits.before.get(number)
            if state is None or not _reads_alike(facts, state, node):
                yield node


def _reads_alike(facts: Facts, state: NodeState, node: gs.Node) -> bool:
    """Whether a node is unchanged except for operands with the same declarations as the operands before.

    The new operands must have rank 2 or more, since the values of smaller ones may decide the types of the outputs.
    """
    if not state.differs_in_operands_alone(node):
        return False
    for before, now in zip(state.inputs, node.inputs, strict=True):
        if before is not now:
            known = facts.declared(now)
            if known[0] is None or known[1] is None or len(known[1]) < 2 or known != facts.declared(before):
                return False
    return True


def declare_anew(index: GraphIndex, facts: Facts, changed: Iterable[gs.Tensor]) -> None:
    """Infers and declares again all types behind inputs whose type an interface rule changed, also of outputs of the graph.

    The old declarations are not used for this, since a fixed length would outlive the input that it came from.
    """
    edits = Edits(index)
    changed_by_id = {id(tensor): tensor for tensor in changed}
    for node in nodes_behind(index, changed_by_id.values()):
        for tensor in node.outputs:
            dtype, shape = facts.declared(tensor)
            if (dtype is None and shape is None) or id(tensor) in changed_by_id:
                continue
            edits.set_type(tensor, None, None)
            refresh(facts, [tensor])
            now, dims = facts.dtype(tensor) or dtype, facts.shape(tensor)
            edits.set_type(tensor, gs_dtype(now) if now else None, None if dims is None else list(dims))
            refresh(facts, [tensor])


def nodes_behind(index: GraphIndex, tensors: Iterable[gs.Tensor]) -> list[gs.Node]:
    """All nodes that tensors lead to, in execution order. A node with bodies follows the nodes in them."""
    found = {id(user): user for tensor in tensors for user in index.uses(tensor)}
    waiting = list(found.values())
    while waiting:
        node = waiting.pop()
        owner = index.scope(node).owner
        followers = [user for tensor in node.outputs for user in index.uses(tensor)]
        for user in followers if owner is None else [*followers, owner]:
            if id(user) not in found:
                found[id(user)] = user
                waiting.append(user)
    return sorted(found.values(), key=lambda node: _moment(index, node, last=True))


def _moment(index: GraphIndex, node: gs.Node, *, last: bool) -> tuple[tuple[tuple[int, int], bool], ...]:
    """Sort key of a node in execution order: its place and before it the places of the nodes that hold it."""
    owner = index.scope(node).owner
    own = ((index.position(node), last),)
    return own if owner is None else (*_moment(index, owner, last=False), *own)


def declares_inner(index: GraphIndex) -> bool:
    """Whether any tensor but inputs and outputs may declare a type; a graph that was not loaded here may."""
    return any(not isinstance(s.graph, Graph | Function) or s.graph.origin.infos for s in index.scopes)


def agrees(dtype: int | None, shape: tuple[Dim, ...] | None, found: int | None, found_shape: tuple[Dim, ...] | None) -> bool:
    """Whether a declared element type and shape agree with the inferred ones. An unknown one agrees with all."""
    if dtype and found and dtype != found:
        return False
    if shape is None or found_shape is None:
        return True
    if len(shape) != len(found_shape):
        return False
    pairs = zip(shape, found_shape, strict=True)
    return not any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs)
