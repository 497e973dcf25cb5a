"""Functions of expressions that ask the framework's own file; unknown where there is none, or where it does not tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context, label
from rewriter.conditions.rule_values import ABSENT, UNKNOWN
from rewriter.source.exports import may_become
from rewriter.source.info import Missing


def _own_key(context: Context, node: gs.Node) -> Any:
    """The name of the framework node that became this node, as its operator shows; UNKNOWN where it has only got its name.

    After a rewrite, a node may have the name of another one: where a scale is folded into a BatchNormalization, the result is
    called after the multiplication. Asked about an attribute, that one would answer with the default.
    """
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    known = context.source.nodes[key]
    if context.source.framework and not may_become(known, node.op):
        operator = known.operator or "without an operator"
        return context.doubt(f"{label(node)} is {operator} in the source file, which is not exported to {node.op}")
    return key


def _source(context: Context, node: gs.Node, attribute: str, like: Any = ABSENT) -> Any:
    key = _own_key(context, node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    found = context.source.attribute(key, attribute, None if like is ABSENT else like)
    if found is Missing.ATTRIBUTE or found is None:
        return like
    if isinstance(found, Missing):
        return context.doubt(f"`{attribute}` of {label(node)} in {context.source.path or 'the source'}: {found.value}")
    return list(found) if isinstance(found, tuple) else found


def _source_op(context: Context, node: gs.Node) -> Any:
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    operator = context.source.nodes[key].operator
    return operator or context.doubt(f"the source information has no operator for {label(node)}")


def _source_edge(context: Context, node: gs.Node, at: int) -> Any:
    key = _own_key(context, node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    found = context.source.source_input(key, at)
    return context.doubt(f"the source information has no input {at} for {label(node)}") if found is None else found


def _source_input(context: Context, node: gs.Node, at: int) -> Any:
    edge = _source_edge(context, node, at)
    return edge if edge is UNKNOWN else edge[0]


def _source_index(context: Context, node: gs.Node, at: int) -> Any:
    edge = _source_edge(context, node, at)
    return edge if edge is UNKNOWN else edge[1]


def _source_is_output(context: Context, node: gs.Node) -> Any:
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    if not context.source.heads:
        return context.doubt("the source information does not list the graph's outputs")
    return any(name == key for name, _ in context.source.heads)


def _source_has(context: Context, node: gs.Node) -> bool:
    return context.source is not None and context.source.node_for(node.name, [t.name for t in node.outputs]) is not None


def _source_outputs(context: Context) -> Any:
    """Names of the tensors that stand for the heads of the framework's graph, in its order; UNKNOWN when one is not found."""
    if context.source is None or not context.source.heads:
        return context.doubt("the source information does not list the graph's outputs")
    made = context.index.made_in(context.index.scopes[0])
    found = []
    for key, index in context.source.heads:
        several = [f"{key}{index}", f"{key}_output{index}"] if context.source.output_count(key) > 1 else []
        name = next((name for name in (*several, *([key] if index == 0 else [])) if name in made), None)
        if name is None:
            return context.doubt(f"no tensor stands for output {index} of {key!r} in the source information")
        found.append(name)
    return found


def _source_nodes(context: Context) -> Any:
    if context.source is None:
        return context.doubt("there is no source information")
    return list(context.source.nodes)


BODIES: dict[str, Callable[..., Any]] = {
    "source": _source,
    "source_op": _source_op,
    "source_input": _source_input,
    "source_index": _source_index,
    "source_is_output": _source_is_output,
    "source_outputs": _source_outputs,
    "source_nodes": _source_nodes,
    "source_has": _source_has,
}
