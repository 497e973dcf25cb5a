"""Faults in what a model declares: types and shapes, branch inputs, listed initializers, node order, operator domains, states
of Loops that never change, and names of nodes and tensors that are there twice, not at all, or that some consumers cannot read.

Each fault is a pair of functions, one that finds it and one that repairs it; `HOMES` of the folder has them by name.

The graph itself is hardly ever in doubt: a use means the latest definition before it (`meant_inputs` has the exception), and
each definition has its own tensor since loading. So the repairs of names only name nodes and tensors. Names of the model's
inputs and outputs never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.facts.derive import node_facts
from rewriter.core.facts.facts import refresh
from rewriter.core.facts.infer import output_types
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Graph, Scope, operator_key
from rewriter.core.graph.values import Constant, constant_array, declared, elem_type
from rewriter.core.language import schema
from rewriter.core.language.schema import FLOATS
from rewriter.core.onnxfile.tensors import Dim, dtype_number, gs_dtype, numpy_dtype
from rewriter.core.rewriting.model_edits import agrees, declares_inner, import_domain
from rewriter.core.rewriting.transaction import Refused, Rewriting

# Branches of If that declare inputs, which the operator does not pass: a branch reads the tensors around it by name.


def branch_inputs(context: Context) -> list[str]:
    return [tensor.name for scope in _branches(context.index) for tensor in scope.graph.inputs]


def read_around(rewriting: Rewriting) -> None:
    """Raises Refused if it is unknown which tensor an input means."""
    index, edits = rewriting.index, rewriting.edits
    owners: dict[int, gs.Node] = {}
    for scope in list(_branches(index)):
        assert scope.owner is not None
        owners[id(scope.owner)] = scope.owner
        for position, tensor in enumerate(list(scope.graph.inputs)):
            if index.is_used(tensor):
                edits.replace_uses(tensor, _meant(index, scope, position, tensor))
            edits.retyped[id(tensor)] = tensor  # a node that reads another tensor of the same name looks as it did
        edits.later(setattr, scope.graph, "inputs", scope.graph.inputs)
        scope.graph.inputs = []
    for owner in owners.values():
        edits.set_inputs(owner, owner.inputs[:1])


def _branches(index: GraphIndex) -> Iterator[Scope]:
    for scope in index.scopes:
        if scope.owner is not None and operator_key(scope.owner) == ("", "If") and scope.graph.inputs:
            yield scope


def _meant(index: GraphIndex, scope: Scope, position: int, tensor: gs.Tensor) -> gs.Tensor:
    """The tensor that an input of a branch means: the tensor of that name around it, else the operand of If in that place."""
    owner = scope.owner
    assert owner is not None
    if index.output_of(tensor):
        raise Refused(f"input {tensor.name!r} of a branch of {node_name(owner)!r} is its output, too")
    around = scope.parent
    while around is not None:
        known = {one.name: one for one in around.graph.inputs} | index.made_in(around)
        known |= {one.name: one for one in vars(around.graph).get("initializers", ())}
        if tensor.name in known:
            return known[tensor.name]
        around = around.parent
    if len(owner.inputs) == 1 + len(scope.graph.inputs):
        return owner.inputs[1 + position]
    raise Refused(f"there is no tensor {tensor.name!r} around the branches of {node_name(owner)!r}")


# Initializers that are listed among the inputs, and are therefore no constants to those who load the model.

FREE_SINCE = 4  # the ir_version from which on initializers need not be listed


def listed_initializers(context: Context) -> Iterator[Constant]:
    graph = context.index.graph
    if isinstance(graph, Graph):
        yield from (tensor for tensor in graph.initializers if isinstance(tensor, Constant) and tensor.listed)


def unlist_initializers(rewriting: Rewriting) -> None:
    graph, edits = rewriting.index.graph, rewriting.edits
    for tensor in list(listed_initializers(rewriting.context)):
        edits.later(setattr, tensor, "listed", True)
        edits.declare("input", tensor.name, (tensor.dtype, tensor.shape), None)
        tensor.listed = False
    if 0 < (graph.ir_version or 0) < FREE_SINCE:
        edits.later(setattr, graph, "ir_version", graph.ir_version)
        edits.declare("model", "ir_version", graph.ir_version, FREE_SINCE)
        graph.ir_version = FREE_SINCE


# Initializers whose values have another element type than the input of their name declares.


def mistyped_initializers(context: Context) -> Iterator[tuple[Constant, int]]:
    """Floating-point initializers with the other floating-point type that their input declares."""
    for tensor in listed_initializers(context):
        dtype = declared(tensor.infos[:1]).elem_type
        if dtype != tensor.elem_type and {dtype, tensor.elem_type} <= FLOATS:
            yield tensor, dtype


def retype_initializers(rewriting: Rewriting) -> None:
    edits = rewriting.edits
    for tensor, dtype in list(mistyped_initializers(rewriting.context)):
        edits.later(tensor.to_constant, tensor._values, tensor.data_location, tensor._export_dtype)
        edits.declare("initializer", tensor.name, (tensor.dtype, tensor.shape), (gs_dtype(dtype), tensor.shape))
        tensor.to_constant(constant_array(tensor).astype(numpy_dtype(dtype)))
        edits.retyped[id(tensor)] = tensor


# Nodes that come before their operands. The order in which they can run is known since the model was indexed.


def unsorted_nodes(context: Context) -> list[gs.Node]:
    return [node for scope in context.index.scopes for node in context.index.misplaced(scope)]


def sort_nodes(rewriting: Rewriting) -> None:
    index = rewriting.index
    for scope in index.scopes:
        for node in index.misplaced(scope):
            rewriting.edits.declare("order", node_name(node), None, f"{node_name(node)} behind what it reads")
        if index.misplaced(scope):
            rewriting.edits.reorder(scope)


# Operator domains that a model uses and does not import, or imports and does not use.


def missing_imports(context: Context) -> list[str]:
    return sorted({domain for _, domain, _ in _missing(context.index)})


def add_imports(rewriting: Rewriting) -> None:
    for scope, domain, nodes in _missing(rewriting.index):
        import_domain(rewriting.index, rewriting.edits, scope, domain, nodes)


def _missing(index: GraphIndex) -> list[tuple[Scope, str, list[gs.Node]]]:
    """Domains, with their nodes, by the main graph or function that needs them, if it cannot matter which version is meant."""
    domains = {domain for domain, _ in index.by_operator.keys}
    if all(domains <= scope.opsets.keys() for scope in index.scopes):
        return []
    wanted: dict[tuple[int, str], tuple[Scope, list[gs.Node]]] = {}
    doubtful: set[tuple[int, str]] = set()
    for scope in index.scopes:
        for node in index.nodes_of(scope):
            domain, op = operator_key(node)
            if domain in scope.opsets:
                continue
            root = scope
            while root.parent is not None:
                root = root.parent
            wanted.setdefault((root.number, domain), (root, []))[1].append(node)
            if not domain or len(schema.history(op, domain)) > 1:
                doubtful.add((root.number, domain))
    return [(root, domain, nodes) for (number, domain), (root, nodes) in wanted.items() if (number, domain) not in doubtful]


def unused_imports(context: Context) -> list[str]:
    from rewriter.core.graph.tidy import unused_domains

    return unused_domains(context.index)


def drop_imports(rewriting: Rewriting) -> None:
    from rewriter.core.graph.tidy import unused_domains

    graph, gone = rewriting.index.graph, unused_domains(rewriting.index)
    before: Any = graph.import_domains
    rewriting.edits.later(setattr, graph, "import_domains", before)
    graph.import_domains = [entry for entry in before if entry.domain not in gone]
    for entry in before:
        if entry.domain in gone:
            rewriting.edits.declare("opset", entry.domain, entry.version, None)


Shape = tuple[Dim, ...]


def misdeclared_tensors(context: Context) -> Iterator[gs.Tensor]:
    index, facts = context.index, context.facts
    if not declares_inner(index):
        return
    for scope in index.scopes:
        for node in index.nodes_of(scope):
            for tensor in node.outputs:
                dtype, shape = facts.declared(tensor)
                if (dtype is None and shape is None) or index.output_of(tensor):
                    continue
                if not agrees(dtype, shape, facts.dtype(tensor), facts.shape(tensor)):
                    yield tensor


def declare_inner(rewriting: Rewriting) -> None:
    facts = rewriting.context.facts
    for tensor in list(misdeclared_tensors(rewriting.context)):
        dtype, shape = facts.dtype(tensor), facts.shape(tensor)
        rewriting.edits.correct_type(tensor, gs_dtype(dtype) if dtype else None, None if shape is None else list(shape))


def misdeclared_outputs(context: Context) -> Iterator[tuple[gs.Tensor, Shape]]:
    """Outputs of the model with the shape that they should declare; names are only changed to names that others bear."""
    for tensor in context.index.graph.outputs:
        if context.index.producer(tensor) is None or not isinstance(tensor, gs.Variable):
            continue
        declared, found = context.facts.declared(tensor)[1], _without_declaration(context, tensor)
        if declared is None or found is None:
            continue
        if len(declared) != len(found):
            yield tensor, found
            continue
        wanted = tuple(is_now if is_now is not None else was for was, is_now in zip(declared, found, strict=True))
        if wanted != declared:
            yield tensor, wanted


def declare_outputs(rewriting: Rewriting) -> None:
    for tensor, shape in list(misdeclared_outputs(rewriting.context)):
        rewriting.edits.correct_type(tensor, tensor.dtype, list(shape))


def misdeclared_maps(context: Context) -> Iterator[gs.Variable]:
    """Outputs that a ZipMap returns and that declare maps of double precision, in models with such an input."""
    graph = context.index.graph
    if not any(elem_type(tensor) == onnx.TensorProto.DOUBLE for tensor in graph.inputs):
        return  # the census of a model shows its inputs, and not what the maps hold
    for tensor in graph.outputs:
        node = context.index.producer(tensor)
        if node is None or operator_key(node) != ("ai.onnx.ml", "ZipMap") or not isinstance(tensor, gs.Variable):
            continue
        if tensor.type == "sequence_type" and dtype_number(tensor.dtype) == onnx.TensorProto.DOUBLE:
            yield tensor


def declare_maps(rewriting: Rewriting) -> None:
    for tensor in list(misdeclared_maps(rewriting.context)):
        rewriting.edits.correct_type(tensor, gs_dtype(onnx.TensorProto.FLOAT), tensor.shape)


def _without_declaration(context: Context, tensor: gs.Variable) -> Any:
    """The shape of a tensor as its node computes it, independent of its own declaration."""
    dtype, shape = tensor.dtype, tensor.shape
    try:
        tensor.dtype, tensor.shape = None, None
        refresh(context.facts, [tensor])
        return context.facts.shape(tensor)
    finally:
        tensor.dtype, tensor.shape = dtype, shape
        refresh(context.facts, [tensor])


# States of Loops that no iteration changes: the value before the loop can replace them.
#
# tf2onnx passes every weight of a recurrent layer through its loop in this way. If the body reads the weight itself, its shape
# and its contents are known there, and values computed from it alone can be computed once.


def unchanged_states(context: Context) -> Iterator[tuple[gs.Tensor, gs.Tensor]]:
    """The states that are read, as inputs of bodies and as outputs of their loops, each with its value before the loop.

    If a body declares another shape than the state has, it runs in some runtimes, as long as they do not know the shape.
    """
    index, facts = context.index, context.facts
    for scope in index.scopes:
        loop, inputs, outputs = scope.owner, scope.graph.inputs, scope.graph.outputs
        if loop is None or loop not in index or loop.op != "Loop" or loop.domain not in (None, "", "ai.onnx"):
            continue
        for i, initial in enumerate(loop.inputs[2 : len(inputs)]):
            if i + 1 >= len(outputs) or outputs[i + 1] is not inputs[i + 2] or not initial.name:
                continue
            if not agrees(*facts.declared(inputs[i + 2]), facts.dtype(initial), facts.shape(initial)):
                continue
            if index.uses(inputs[i + 2]) and not _is_hidden(initial.name, scope, index):
                yield inputs[i + 2], initial
            if i < len(loop.outputs) and index.uses(loop.outputs[i]):
                yield loop.outputs[i], initial


def read_before_loops(rewriting: Rewriting) -> None:
    """The readers of such a state, in the body and after the loop, read its value before the loop."""
    for state, initial in list(unchanged_states(rewriting.context)):
        rewriting.edits.replace_uses(state, initial)


def _is_hidden(name: str, body: Scope, index: GraphIndex) -> bool:
    """Whether the body, or one inside it, has another tensor of that name."""
    for scope in index.scopes:
        around: Scope | None = scope
        while around is not None and around is not body:
            around = around.parent
        own = (tensor.name for tensor in scope.graph.inputs)
        if around is body and (name in index.made_in(scope) or name in own or name in _initializer_names(scope)):
            return True
    return False


def _initializer_names(scope: Scope) -> set[str]:
    return {tensor.name for tensor in vars(scope.graph).get("initializers", ())}


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
