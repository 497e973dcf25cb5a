"""Nodes of opsets 1 to 6 that ONNX Runtime does not run, since it begins with the form that opset 7 gave their operators.

Such a model is raised to opset 7. What its nodes then write in the old form (`broadcast`, `consumed_inputs`, `is_test`, a
shape as an attribute) is invalid there, and the rules for stray attributes bring it into the new form. Only a node that would
be valid at opset 7 and mean something else is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.old_kernels import FIRST_KERNEL, SETTLED
from rewriter.graph.index import operator_key
from rewriter.graph.node_text import node_name
from rewriter.language import schema
from rewriter.rewriting.opset_edits import set_opset
from rewriter.rewriting.transaction import Refused, Rewriting

IMPORTS = 3
"""The first ir_version whose models import opsets."""

_DEFAULTS = frozenset({("Clip", "min"), ("Clip", "max")})
"""Attributes whose default was written down later without changing what the operator does."""

_TRAINED = frozenset({"BatchNormalization", "Dropout"})
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})


def old_nodes(context: Context) -> list[str]:
    return [node_name(node) for node in _nodes(context) if _lacks_kernel(context, node)]


def raise_old_opset(rewriting: Rewriting) -> None:
    """Raises Refused where a node would mean something else at opset 7, or where nobody can tell."""
    context, index = rewriting.context, rewriting.index
    if index.graph.functions:
        raise Refused("the functions of the model are written for its opset")
    for node in _nodes(context):
        why = _obstacle(context, node)
        if why:
            raise Refused(f"{node.op} {node_name(node)!r} {why}")
    set_opset(index, rewriting.edits, index.scopes[0], "", SETTLED)


def _version(context: Context) -> int | None:
    """The opset of the model; None where it imports none, unless its format is older than imports, which means opset 1."""
    graph = context.index.graph
    if not graph.import_domains and int(getattr(graph, "ir_version", None) or 0) >= IMPORTS:
        return None
    return context.index.scopes[0].opsets.get("")


def _nodes(context: Context) -> Iterator[gs.Node]:
    """The nodes of ONNX's own operators, where the model's opset is an old one."""
    version = _version(context)
    if version is None or version >= SETTLED:
        return
    for scope in context.index.scopes:
        for node in context.index.nodes_of(scope):
            if not operator_key(node)[0]:
                yield node


def _lacks_kernel(context: Context, node: gs.Node) -> bool:
    found = schema.schema(node.op, "", _version(context) or 0)
    return found is not None and found.since < FIRST_KERNEL.get(node.op, 0)


def _obstacle(context: Context, node: gs.Node) -> str:
    """What would be another meaning of a node at opset 7; "" where there is none, or where the node is not valid there."""
    was, then = schema.schema(node.op, "", _version(context) or 0), schema.schema(node.op, "", SETTLED)
    if was is None or then is None or was.since == then.since:
        return ""
    if node.op in _TRAINED and not node.attrs.get("is_test"):
        return "does not say is_test=1, so that it may be in training"
    if node.op == "PRelu" and _slope_for_channels(context, node) is not False:
        return "may have one slope for each channel, which would be aligned with the last axis"
    if node.op in _RECURRENT and node.outputs and node.outputs[0].name and not node.attrs.get("output_sequence"):
        return "gives a sequence out that it does not have"
    for name, attribute in was.attributes.items():
        later = then.attributes.get(name)
        changed = later is not None and later.default != attribute.default and (node.op, name) not in _DEFAULTS
        if changed and name not in node.attrs:
            return f"has another default of {name}"
    return ""


def _slope_for_channels(context: Context, node: gs.Node) -> bool | None:
    """Whether the slope is one-dimensional, of several numbers, and not along the last axis; None where that is unknown."""
    if len(node.inputs) < 2:
        return False
    data, slope = context.facts.shape(node.inputs[0]), context.facts.shape(node.inputs[1])
    if slope is None:
        return None
    if len(slope) != 1 or slope[0] == 1:
        return False
    return None if data is None else len(data) != 2
