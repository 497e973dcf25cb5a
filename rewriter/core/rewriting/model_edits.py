"""Edits of what a model declares: its interface, its opset imports, its ir_version and metadata, and the types of its tensors.

Runtimes reject a model if a value_info entry contradicts the new output of its node. Only tensors downstream of a change are
checked, and only as far as declarations disagree. Declared outputs of the graph are the model's interface and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import MODEL_TEXTS, label
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.conditions.value_functions import element_type
from rewriter.core.facts.facts import Facts, refresh
from rewriter.core.graph.attributes import HISTORY, RULES
from rewriter.core.graph.edits import Edits, NodeState
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Function, Graph, Scope, new_variable
from rewriter.core.onnxfile.tensors import Dim, gs_dtype
from rewriter.core.rewriting.transaction import Refused, Rewriting, Undecided

# The operator domains that a model imports, and their versions.


def set_opset(index: GraphIndex, edits: Edits, scope: Scope, domain: str, version: int) -> None:
    """Sets or adds the import of a domain for the graph or function that a scope belongs to, with all inside of it."""
    while scope.parent is not None:
        scope = scope.parent
    graph = scope.graph if scope.opsets is not index.scopes[0].opsets else index.graph
    if scope.opsets.get(domain) == version:
        return
    edits.declare("opset", domain or "ai.onnx", scope.opsets.get(domain), version)
    before = list(graph.import_domains or ())
    same = [entry for entry in before if ("" if entry.domain == "ai.onnx" else entry.domain) != domain]
    imports = [*same, onnx.OperatorSetIdProto(domain=domain, version=version)]
    edits.later(setattr, graph, "import_domains", graph.import_domains)
    graph.import_domains = imports
    if domain == "":
        edits.later(setattr, graph, "opset", graph.opset)
        graph.opset = version
    edits.later(_set_version, scope.opsets, domain, scope.opsets.get(domain))
    scope.opsets[domain] = version  # the scopes inside share this table


def _set_version(versions: dict[str, int], domain: str, version: int | None) -> None:
    if version is None:
        versions.pop(domain, None)
    else:
        versions[domain] = version


def import_domain(index: GraphIndex, edits: Edits, scope: Scope, domain: str, nodes: Iterable[gs.Node]) -> None:
    """Adds the import that these nodes of a domain need."""
    from rewriter.core.graph.save import import_version

    ir_version = int(getattr(index.graph, "ir_version", None) or 0)
    set_opset(index, edits, scope, domain, import_version(domain, nodes, ir_version))


# The outputs of the model, and the outputs of the framework's own graph.
#
# Exporters lose outputs, add inner tensors to them, or list them in another order. The framework's file has the correct list.
# Outputs are named by their tensors, in a list: `model.outputs = source_outputs()`.


def set_outputs(rewriting: Rewriting, names: list[Any]) -> None:
    """Makes these tensors the outputs of the main graph.

    A tensor that replaces a former output takes over its name, since callers rely on the name.

    Raises:
        Failure: a name is not a tensor that a node of the main graph makes, or occurs twice.
    """
    index, graph = rewriting.index, rewriting.index.graph
    before = list(graph.outputs)
    tensors_by_name = index.made_in(index.scopes[0]) | {tensor.name: tensor for tensor in before}
    if len(set(names)) != len(names) or not names or any(name not in tensors_by_name for name in names):
        raise Failure(f"{names} are not different tensors of the main graph")
    after = [tensors_by_name[name] for name in names]
    dropped = [tensor for tensor in before if not _among(tensor, after)]
    gained = [tensor for tensor in after if not _among(tensor, before)]
    if len(dropped) == len(gained):
        for old, new in zip(dropped, gained, strict=True):
            _hand_over(rewriting, old, new)
            after = [old if tensor is new else tensor for tensor in after]
        dropped, gained = [], []
    _put(rewriting, after)
    for tensor in dropped:
        index.unlist_output(tensor)
        rewriting.edits.later(index.list_output, tensor)
        rewriting.edits.released[id(tensor)] = tensor
    for tensor in gained:
        _gain(rewriting, tensor)


def add_output(rewriting: Rewriting, name: str) -> None:
    """`output t`: makes a tensor of the main graph the last output. Does nothing if it is already an output.

    Raises:
        Refused: the tensor is in a body or a function, no node makes it, or its element type is not known.
    """
    context, index, graph = rewriting.context, rewriting.index, rewriting.index.graph
    tensor = rewriting.new_values.get(name, rewriting.names.bound.get(name))
    if not isinstance(tensor, gs.Tensor):
        raise Refused(f"`{name}` is not there")
    if _among(tensor, graph.outputs):
        return
    if rewriting.scope is not index.scopes[0]:
        raise Refused("only tensors of the main graph can be outputs of the model")
    if index.producer(tensor) is None:
        raise Refused(f"{label(tensor)} is made by no node, which an output of the model is")
    if name not in rewriting.new_values and not context.facts.dtype(tensor):
        raise Undecided(f"element type of {label(tensor)} is unknown", "run shape inference")
    _put(rewriting, [*graph.outputs, tensor])
    _gain(rewriting, tensor)


def _put(rewriting: Rewriting, after: list[gs.Tensor]) -> None:
    graph = rewriting.index.graph
    before = list(graph.outputs)
    rewriting.edits.later(setattr, graph, "outputs", before)
    rewriting.edits.declare("model", "outputs", [tensor.name for tensor in before], [tensor.name for tensor in after])
    graph.outputs = after


def _gain(rewriting: Rewriting, tensor: gs.Tensor) -> None:
    index = rewriting.index
    index.list_output(tensor)
    rewriting.edits.later(index.unlist_output, tensor)
    rewriting.context.gained[id(tensor)] = tensor


def _hand_over(rewriting: Rewriting, old: gs.Tensor, new: gs.Tensor) -> None:
    """The node that makes `new` makes the output `old` instead. The former value of `old` gets another name for its readers."""
    index, edits = rewriting.index, rewriting.edits
    makers = index.producer(old), index.producer(new)
    if makers[0] is None or makers[1] is None:
        raise Failure(f"output {old.name!r} is made by no node")
    spare = new_variable(index.names.fresh(f"{old.name}_before"))
    edits.set_outputs(makers[0], [spare if tensor is old else tensor for tensor in makers[0].outputs])
    edits.replace_uses(old, spare)
    edits.replace_uses(new, old)
    edits.set_outputs(makers[1], [old if tensor is new else tensor for tensor in makers[1].outputs])


def complete_outputs(context: Context) -> None:
    """Declares the types of outputs that a rule added, at the end of the run. A valid model must declare them."""
    for tensor in context.gained.values():
        if context.index.output_of(tensor) and isinstance(tensor, gs.Variable):
            dtype, shape = context.facts.dtype(tensor), context.facts.shape(tensor)
            tensor.dtype = element_type(dtype) if dtype else tensor.dtype
            tensor.shape = tensor.shape if shape is None else list(shape)


def _among(tensor: gs.Tensor, tensors: list[gs.Tensor]) -> bool:
    return any(tensor is other for other in tensors)


def set_model_field(rewriting: Rewriting, field: str, at: Any, value: Any) -> None:
    """`model.ir_version = 8`, `model.opset["ai.onnx.ml"] = 3`, `model.producer_name = "..."`, `model.outputs = [...]`.
    Raises Failure for other fields.
    """
    graph = rewriting.index.graph
    if field == "opset" and isinstance(value, int):
        set_opset(rewriting.index, rewriting.edits, rewriting.scope, "" if at is None else str(at), value)
    elif field == "outputs" and at is None and isinstance(value, list):
        set_outputs(rewriting, value)
    elif field == "metadata_props" and isinstance(at, str) and isinstance(value, str):
        _set_metadata(rewriting, at, value)
    elif (field == "ir_version" and isinstance(value, int)) or _is_text(graph, field, value):
        kept = MODEL_TEXTS.get(field, field)
        before = getattr(graph, kept, None)
        if before != value:
            rewriting.edits.later(setattr, graph, kept, before)
            rewriting.edits.declare("model", field, before, value)
            setattr(graph, kept, value)
    else:
        raise Failure(f"model.{field} cannot be set to this")


def changed_entry(entries: Mapping[str, str], key: str, value: str) -> dict[str, str]:
    """Entries with another value, or without the key if the value is empty. Raises Failure for keys that rewriter writes."""
    if key in (HISTORY, RULES):
        raise Failure(f"metadata_props[{key!r}] is written by rewriter itself")
    return {name: text for name, text in {**entries, key: value}.items() if text or name != key}


def _set_metadata(rewriting: Rewriting, key: str, value: str) -> None:
    graph = rewriting.index.graph
    entries = vars(graph).get("model_metadata")
    if entries is None:
        raise Failure("this graph is not that of a model, and has no metadata_props")
    before = dict(entries)
    after = changed_entry(before, key, value)
    if after != before:
        rewriting.edits.later(_replace_entries, entries, before)
        rewriting.edits.declare("model", f'metadata_props["{key}"]', before.get(key, ""), value)
        _replace_entries(entries, after)


def _replace_entries(entries: dict[str, str], now: Mapping[str, str]) -> None:
    entries.clear()
    entries.update(now)


def _is_text(graph: gs.Graph, field: str, value: Any) -> bool:
    """Whether a text of the model is set to one. A plain graph of graphsurgeon's has no place for all of them."""
    return field in MODEL_TEXTS and isinstance(value, str) and hasattr(graph, MODEL_TEXTS[field])


def drop_input(rewriting: Rewriting, tensor: gs.Tensor) -> bool:
    """Removes an unread graph input. Returns False if the tensor is not an input. Raises Failure if it is read."""
    graph = rewriting.index.graph
    if not any(item is tensor for item in graph.inputs):
        return False
    if rewriting.index.is_used(tensor):
        raise Failure(f"input {tensor.name!r} is still used")
    _replace(rewriting, graph, "inputs", tensor)
    return True


def drop_output(rewriting: Rewriting, tensor: gs.Tensor) -> bool:
    """Removes a graph output, and the nodes that only it needs. Returns False if the tensor is not an output."""
    graph = rewriting.index.graph
    if not any(item is tensor for item in graph.outputs):
        return False
    if len(graph.outputs) == 1:
        raise Failure("the last output of a graph cannot be removed")
    _replace(rewriting, graph, "outputs", tensor)
    rewriting.index.unlist_output(tensor)
    rewriting.edits.later(rewriting.index.list_output, tensor)
    rewriting.edits.released[id(tensor)] = tensor
    return True


def _replace(rewriting: Rewriting, graph: gs.Graph, side: str, tensor: gs.Tensor) -> None:
    before = list(getattr(graph, side))
    rewriting.edits.later(setattr, graph, side, before)
    rewriting.edits.retyped[id(tensor)] = tensor
    rewriting.edits.declare(side.removesuffix("s"), tensor.name, (tensor.dtype, tensor.shape), None)
    setattr(graph, side, [item for item in before if item is not tensor])


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
