"""Faults of opsets: operators that the imported version lost, lacks or does not have yet."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context, has_form, node_keeps_meaning, obstacle, takes_types
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import operator_key
from rewriter.core.graph.save import newest_import
from rewriter.core.graph.values import elem_type
from rewriter.core.language import schema
from rewriter.core.language.meaning import has_later_form
from rewriter.core.language.operator_traits import BROADCAST_ALL, BROADCAST_LAST, OLD_KERNELS, SETTLED, of_type
from rewriter.core.rewriting.model_edits import set_opset
from rewriter.core.rewriting.transaction import Refused, Rewriting

IMPORTS = 3
"""The first ir_version whose models import opsets."""

_DEFAULTS = frozenset({("Clip", "min"), ("Clip", "max")})
"""Attributes whose default was documented later without changing the operator."""

_TRAINED = frozenset({"BatchNormalization", "Dropout"})
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})


def old_nodes(context: Context) -> list[gs.Node]:
    return [node for node in _old_nodes(context) if _lacks_kernel(context, node)]


def raise_old_opset(rewriting: Rewriting) -> None:
    """Raises Refused if a node would mean something else at opset 7, or if its meaning there is unknown."""
    context, index = rewriting.context, rewriting.index
    if index.graph.functions:
        raise Refused("the functions of the model are written for its opset")
    for node in _old_nodes(context):
        why = _obstacle(context, node)
        if why:
            raise Refused(f"{node.op} {node_name(node)!r} {why}")
    set_opset(index, rewriting.edits, index.scopes[0], "", SETTLED)


def _version(context: Context) -> int | None:
    """The opset of the model; None if it imports none, unless its format is older than imports, which means opset 1."""
    graph = context.index.graph
    if not graph.import_domains and int(getattr(graph, "ir_version", None) or 0) >= IMPORTS:
        return None
    return context.index.scopes[0].opsets.get("")


def _old_nodes(context: Context) -> Iterator[gs.Node]:
    """The nodes of ONNX's own operators, if the model's opset is an old one."""
    version = _version(context)
    if version is None or version >= SETTLED:
        return
    for scope in context.index.scopes:
        for node in context.index.nodes_of(scope):
            if not operator_key(node)[0]:
                yield node


def _lacks_kernel(context: Context, node: gs.Node) -> bool:
    """ONNX Runtime has the forms that operators have at opset 7, and few older ones."""
    was, then = (schema.schema(node.op, "", version) for version in (_version(context) or 0, SETTLED))
    return was is not None and then is not None and was.since < then.since and node.op not in OLD_KERNELS


def _obstacle(context: Context, node: gs.Node) -> str:
    """The different meaning of a node at opset 7; "" if there is none, or if the node is not valid there."""
    was, then = schema.schema(node.op, "", _version(context) or 0), schema.schema(node.op, "", SETTLED)
    if was is None or then is None or was.since == then.since:
        return ""
    if node.op in _TRAINED and not node.attrs.get("is_test"):
        return "lacks is_test=1, and may be in training mode"
    if node.op == "PRelu" and _slope_for_channels(context, node) is not False:
        return "may have one slope for each channel, which would be aligned with the last axis"
    if node.op in _RECURRENT and not node.attrs.get("output_sequence"):
        outputs = [bool(tensor.name) for tensor in node.outputs]
        if outputs[:1] == [True] and outputs.count(True) != then.max_outputs:  # if all are named, the first is the sequence
            return "lacks output_sequence=1, and names its first output"
    for name, attribute in was.attributes.items():
        later = then.attributes.get(name)
        changed = later is not None and later.default != attribute.default and (node.op, name) not in _DEFAULTS
        if changed and name not in node.attrs:
            return f"has another default of {name}"
    return ""


def _slope_for_channels(context: Context, node: gs.Node) -> bool | None:
    """Whether the slope is one-dimensional, of several numbers, and not along the last axis; None if that is unknown."""
    if len(node.inputs) < 2:
        return False
    data, slope = context.facts.shape(node.inputs[0]), context.facts.shape(node.inputs[1])
    if slope is None:
        return None
    if len(slope) != 1 or slope[0] == 1:
        return False
    return None if data is None else len(data) != 2


# A model that imports no version of ONNX's own operators, though its format has imports: the version that is meant is lost.
#
# The version does not matter if every node means the same in all candidates. Candidates are the versions that have all nodes,
# with their attributes, operands and element types, and that existed when the model's format did.


def lost_opset(context: Context) -> list[gs.Node]:
    """The nodes whose version is unknown."""
    graph = context.index.graph
    if graph.import_domains or _format(context) < IMPORTS:
        return []
    return _onnx_nodes(context)


def import_opset(rewriting: Rewriting) -> None:
    """Raises Refused if versions that fit differ in the meaning of a node, or if no version fits."""
    context, index = rewriting.context, rewriting.index
    if index.graph.functions:
        raise Refused("the functions of the model are written for its opset")
    nodes = _onnx_nodes(context)
    versions = [v for v in range(SETTLED, newest_import("", _format(context)) + 1) if all(_has(context, n, v) for n in nodes)]
    if not versions:
        raise Refused("no opset of its time has all of its nodes")
    low, high = versions[0], versions[-1]
    for node in nodes:
        if not node_keeps_meaning(node, "", low, high):
            raise Refused(
                f"{node.op} {node_name(node)!r} has another meaning at opset {low} than at {high}; both have all nodes"
            )
    set_opset(index, rewriting.edits, index.scopes[0], "", high)


def _format(context: Context) -> int:
    return int(getattr(context.index.graph, "ir_version", None) or 0)


def _onnx_nodes(context: Context) -> list[gs.Node]:
    """The nodes of ONNX's own operators, those aside that ONNX never had."""
    index = context.index
    ops = {key for key in index.by_operator.keys if not key[0] and schema.history(key[1], "")}
    nodes = (node for scope in index.scopes if not scope.is_function for node in index.nodes_of(scope))
    return [node for node in nodes if operator_key(node) in ops]


def _has(context: Context, node: gs.Node, version: int) -> bool:
    return has_form(node, "", version) and takes_types(context, node, "", version)


# Nodes that the imported opset does not have yet: operators, or element types of operators, that came later.
#
# Such a model declares an older opset than it was written for. It is raised to the first opset that has all of these nodes, but
# only if no other node means something else there.

_LATE = frozenset(
    getattr(onnx.TensorProto, name)
    for name in (
        "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1",
        "FLOAT8E8M0", "UINT2", "INT2",
    )
    if hasattr(onnx.TensorProto, name)
)  # fmt: skip
"""Element types that were added to operators one after the other; the other types were there from the beginning."""


def early_nodes(context: Context) -> Iterator[tuple[gs.Node, int]]:
    """Nodes of ONNX's own operators that the model's opset lacks, each with the first opset that has it."""
    index = context.index
    now = index.scopes[0].opsets.get("")
    if now is None:
        return
    late = _has_late_types(context)
    if not late and all(domain or schema.schema(op, "", now) for domain, op in index.by_operator.keys):
        return
    for scope in index.scopes:
        if scope.is_function:
            continue
        for node in index.nodes_of(scope):
            domain, op = operator_key(node)
            found = None if domain else schema.schema(op, "", now)
            if domain or (found and (found.deprecated or not late or takes_types(context, node, "", now, _LATE))):
                continue  # a deprecated operator is one that this opset has: a later one of its name means something else
            first = _first(context, node, now)
            if first is not None and first > now:
                yield node, first


def raise_opset(rewriting: Rewriting) -> None:
    """Raises Refused if the results of the model would change, or if that is unknown."""
    _raise_for(rewriting, [], list(early_forms(rewriting.context)))


def _raise_for(rewriting: Rewriting, *choices: list[tuple[gs.Node, int]]) -> None:
    """Raises the opset for the operators and element types that it lacks, and for the first of these lists of nodes in a later
    form that no other node hinders.

    Raises Refused if there is none.
    """
    context, index = rewriting.context, rewriting.index
    lacking = [first for _, first in early_nodes(context)]
    why = ""
    for forms in choices:
        version = max([*lacking, *(first for _, first in forms)])
        hindrance = _hindrance(context, forms, version)
        if not hindrance:
            set_opset(index, rewriting.edits, index.scopes[0], "", version)
            return
        why = why or hindrance
    raise Refused(why)


def _hindrance(context: Context, forms: list[tuple[gs.Node, int]], version: int) -> str:
    """Why the opset cannot be raised to a version that has these forms; "" if it can."""
    for node, first in forms:
        if not node_keeps_meaning(node, "", first, version):
            return f"{node.op} {node_name(node)!r} has another meaning at opset {first} than at {version}"
    return obstacle(context, "", version, {id(node) for node, _ in forms})


# Nodes in a form that the imported opset does not have yet: with attributes or operands that its version of the operator lacks.
#
# Such a model was written for a later opset, and its import was lowered. It is raised as above. Rules for single nodes come
# first: most of these forms can be said in the older opset.


def early_forms(context: Context) -> Iterator[tuple[gs.Node, int]]:
    """Nodes of ONNX's own operators whose form the model's opset lacks, each with the first opset that has it."""
    now = context.index.scopes[0].opsets.get("")
    if now is None:
        return
    ops = {op for domain, op in context.index.by_operator.keys if not domain and schema.exists(op, "", now)}
    formed = {op for op in ops if has_later_form(op, now)}
    broadcasting = BROADCAST_LAST & ops if now < BROADCAST_ALL else frozenset()
    for node in _onnx_nodes(context) if formed or broadcasting else ():
        if node.op in formed and not has_form(node, "", now):
            first = _first(context, node, now)
            if first is not None:
                yield node, first
        elif node.op in broadcasting and _broadcasts(context, node):
            yield node, BROADCAST_ALL


def _broadcasts(context: Context, node: gs.Node) -> bool:
    """Whether operands surely have different numbers of dimensions."""
    shapes = (context.facts.shape(tensor) for tensor in node.inputs)
    return len({len(shape) for shape in shapes if shape is not None}) > 1


def raise_opset_for_forms(rewriting: Rewriting) -> None:
    """Raises Refused if the results of the model would change, or if that is unknown."""
    _raise_for(rewriting, list(early_forms(rewriting.context)))


def _has_late_types(context: Context) -> bool:
    """Whether such an element type occurs anywhere; checked again only after something new was added."""
    index = context.index
    if context.absent.get("late types") == index.novelty:
        return False
    if any(elem_type(tensor) in _LATE for tensor in _typed(index)):
        return True
    kinds = of_type("to")
    casts = (node for key in index.by_operator.keys if key[1] in kinds for node in index.by_operator.of(key))
    if any(node.attrs.get("to") in _LATE for node in casts):
        return True
    context.absent["late types"] = index.novelty
    return False


def _typed(index: GraphIndex) -> Iterator[gs.Tensor]:
    """Tensors that declare their element type themselves."""
    yield from index.by_operator.constants(index.novelty)
    for scope in index.scopes:
        yield from scope.graph.inputs
        yield from scope.graph.outputs


def _first(context: Context, node: gs.Node, now: int) -> int | None:
    """The first opset from the model's on that has the operator with the element types it is used with; None without one."""
    versions = [max(since, now) for since in schema.versions(node.op) if since > now or schema.exists(node.op, "", now)]
    return next((version for version in dict.fromkeys(versions) if _has(context, node, version)), None)
