"""Names of nodes and tensors that are there twice, not at all, or that some consumers cannot read.

The graph itself is hardly ever in doubt: a use means the latest definition before it (`meant_inputs` has the exception), and
each definition has its own tensor since loading. So the repairs only name nodes and tensors. Names of the model's inputs and
outputs never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.facts.derive import node_facts
from rewriter.core.facts.infer import output_types
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Graph, Scope
from rewriter.core.rewriting.transaction import Rewriting

# Which uses of a name mean the model's input although a node makes a tensor of the same name.
#
# A use means the latest definition before it, since in-place operations are written so. PyTorch's exporter inlines functions
# whose local names may be names of inputs; behind such a function the name means the input again. Declared shapes distinguish
# the two.


def uses_meaning_input(context: Context, node_output: gs.Tensor, model_input: gs.Tensor) -> Iterator[tuple[gs.Node, int]]:
    """Nodes with positions of operands that read `node_output`: those whose declared outputs need `model_input` there."""
    shape = context.facts.shape(node_output)
    if shape is None or None in shape:
        return
    for node in context.index.uses(node_output):
        if _gives_the_declared(context, node, node_output, model_input) and not _gives_the_declared(
            context, node, node_output, node_output
        ):
            yield from ((node, i) for i, tensor in enumerate(node.inputs) if tensor is node_output)


def _gives_the_declared(context: Context, node: gs.Node, node_output: gs.Tensor, read: gs.Tensor) -> bool:
    """Whether all outputs of a node have exactly their declared types if it reads `read` in place of `node_output`."""
    facts, imports = context.facts, context.index.scope(node).opsets
    operands = [facts.fact(read if tensor is node_output else tensor) if tensor.name else None for tensor in node.inputs]
    types = output_types(node_facts(node, imports, operands, lambda i: facts.constant(node.inputs[i])), imports)
    declared = [facts.declared(tensor) for tensor in node.outputs]
    return all(
        known.shape is not None and (known.dtype, known.shape) == wanted for known, wanted in zip(types, declared, strict=True)
    )


_NAME, _OUTPUTS = attrgetter("name"), attrgetter("outputs")
_PLAIN = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./-]*")  # the names of operations that TensorFlow allows

# --- nodes -------------------------------------------------------------------------------------------------------------


def repeated_nodes(context: Context) -> list[str]:
    return sorted({node.name for node in _later_namesakes(context.index)})


def name_repeated_nodes(rewriting: Rewriting) -> None:
    for node in list(_later_namesakes(rewriting.index)):
        rewriting.edits.rename(node, rewriting.index.node_names.fresh(node.name))


def _later_namesakes(index: GraphIndex) -> Iterator[gs.Node]:
    """Nodes whose name an earlier node of the same graph has."""
    for scope in index.scopes:
        names = list(filter(None, map(_NAME, index.nodes_of(scope))))
        if len(set(names)) == len(names):
            continue
        seen: set[str] = set()
        for node in index.members(scope):
            if node.name in seen:
                yield node
            elif node.name:
                seen.add(node.name)


def unnamed_nodes(context: Context) -> Iterator[gs.Node]:
    return (node for scope in context.index.scopes for node in context.index.members(scope) if not node.name)


def name_unnamed_nodes(rewriting: Rewriting) -> None:
    for node in list(unnamed_nodes(rewriting.context)):
        rewriting.edits.rename(node, rewriting.index.node_names.fresh(node_name(node)))


# --- both --------------------------------------------------------------------------------------------------------------


def odd_names(context: Context) -> list[str]:
    return sorted({part.name for part in _odd(context.index)})


def name_odd_parts(rewriting: Rewriting) -> None:
    index = rewriting.index
    for part in list(_odd(index)):
        plain = re.sub(r"[^A-Za-z0-9_./-]", "_", part.name)
        plain = plain if _PLAIN.fullmatch(plain) else f"n{plain}"
        rewriting.edits.rename(part, (index.node_names if isinstance(part, gs.Node) else index.names).fresh(plain))


def _odd(index: GraphIndex) -> Iterator[gs.Node | gs.Tensor]:
    seen: set[int] = set()
    for scope in index.scopes:
        for node in index.members(scope):
            for part in (node, *node.inputs, *node.outputs):
                if part.name and not _PLAIN.fullmatch(part.name) and id(part) not in seen and not _is_interface(index, part):
                    seen.add(id(part))
                    yield part


def _is_interface(index: GraphIndex, part: gs.Node | gs.Tensor) -> bool:
    return not isinstance(part, gs.Node) and (
        index.input_of(part) or index.output_of(part) or bool(getattr(part, "listed", False))
    )


# --- tensors -----------------------------------------------------------------------------------------------------------


def repeated_tensors(context: Context) -> list[str]:
    return sorted({tensor.name for tensor, _ in _redefinitions(context.index)})


def name_repeated_tensors(rewriting: Rewriting) -> None:
    dropped: dict[int, set[int]] = {}  # by scope
    inputs = {tensor.name: tensor for tensor in rewriting.index.graph.inputs}
    for tensor, scope in list(_redefinitions(rewriting.index)):
        if isinstance(tensor, gs.Constant) and not rewriting.index.is_used(tensor):
            rewriting.edits.declare("initializer", tensor.name, tensor.name, None)
            dropped.setdefault(scope.number, set()).add(id(tensor))
        else:
            if tensor.name in inputs and rewriting.index.producer(tensor) is not None:
                for node, position in list(uses_meaning_input(rewriting.context, tensor, inputs[tensor.name])):
                    rewriting.edits.set_input(node, position, inputs[tensor.name])
            rewriting.edits.rename(tensor, rewriting.index.names.fresh(tensor.name))
    for number, constants in dropped.items():
        _drop(rewriting, constants, rewriting.index.scopes[number].graph)


def _drop(rewriting: Rewriting, constants: set[int], graph: Graph) -> None:
    """Takes initializers, identified by id(), out of a graph, all at once: there may be thousands of one name."""
    before = graph.initializers
    rewriting.edits.later(setattr, graph, "initializers", before)
    graph.initializers = [tensor for tensor in before if id(tensor) not in constants]


def _redefinitions(index: GraphIndex) -> Iterator[tuple[gs.Tensor, Scope]]:
    """Tensors that share a name with another tensor visible at the same place, and that can be renamed."""
    if not _repeats(index):
        return
    places: list[dict[str, int]] = []  # by scope: name → position of the earliest definition
    positions: dict[int, int] = {}  # by node
    for scope in index.scopes:
        found: dict[str, dict[int, tuple[gs.Tensor, int]]] = {}
        for tensor, position in _definitions(index, scope, positions):
            found.setdefault(tensor.name, {}).setdefault(id(tensor), (tensor, position))
        first = {name: next(iter(known.values())) for name, known in found.items()}
        places.append({name: position for name, (_, position) in first.items()})
        callers = _callers(scope)
        for name, known in found.items():
            # Inputs and initializers of a body may hide outer tensors, outputs of its nodes may not.
            tensor, position = first[name]
            hides = position >= 0 and _seen_outside(scope, name, places, positions)
            theirs = {number for number, (t, _) in known.items() if number in callers or _is_listed(scope, t)}
            keeper = None if hides else next((number for number in known if number in theirs), id(tensor))
            yield from ((t, scope) for number, (t, _) in known.items() if number != keeper and number not in theirs)


def _repeats(index: GraphIndex) -> bool:
    """Whether any name of the model has two definitions; mostly not, and quick to see."""
    defined = [tensor.name for scope in index.scopes for tensor in _named_inputs(scope)]
    defined += filter(None, map(_NAME, chain.from_iterable(map(_OUTPUTS, index.all_nodes()))))
    if len(set(defined)) == len(defined):
        return False
    seen: dict[str, gs.Tensor] = {}
    for scope in index.scopes:
        for tensor, _ in _definitions(index, scope, {}):
            if seen.setdefault(tensor.name, tensor) is not tensor:
                return True
    return False


def _definitions(index: GraphIndex, scope: Scope, positions: dict[int, int]) -> Iterator[tuple[gs.Tensor, int]]:
    """The definitions of names in a scope, with their positions: inputs and initializers first; records positions of nodes."""
    for tensor in _named_inputs(scope):
        yield tensor, -1
    for position, node in enumerate(index.members(scope)):
        positions[id(node)] = position
        for tensor in node.outputs:
            if tensor.name:
                yield tensor, position


def _named_inputs(scope: Scope) -> list[gs.Tensor]:
    """The tensors with a name in a scope before its first node: inputs and initializers."""
    graph = scope.graph
    tensors = [*graph.inputs, *graph.initializers] if isinstance(graph, Graph) else graph.inputs
    return [tensor for tensor in tensors if tensor.name]


def _seen_outside(scope: Scope, name: str, places: list[dict[str, int]], positions: dict[int, int]) -> bool:
    """Whether a scope around this one has defined the name before the node that holds this one."""
    while scope.parent is not None and scope.owner is not None:
        if places[scope.parent.number].get(name, len(positions)) < positions[id(scope.owner)]:
            return True
        scope = scope.parent
    return False


def _callers(scope: Scope) -> frozenset[int]:
    """Tensors, by id(), that callers know by their names."""
    if scope.parent is not None or scope.is_function:
        return frozenset()
    return frozenset(map(id, chain(scope.graph.inputs, scope.graph.outputs)))


def _is_listed(scope: Scope, tensor: gs.Tensor) -> bool:
    """Whether callers know an initializer, since it is listed among the inputs of the model."""
    return scope.parent is None and not scope.is_function and bool(getattr(tensor, "listed", False))
