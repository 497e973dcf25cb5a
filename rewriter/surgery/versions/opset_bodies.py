"""Operators that an older version lacks, written out in others: as the body by which ONNX itself defines them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.evaluate import Bindings
from rewriter.facts.facts import Facts
from rewriter.graph.edits import Edits
from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.onnxfile.tensor_types import encode
from rewriter.rewriting.inline import inline_function
from rewriter.rewriting.transaction import Rewriting


def has_body(op: str, version: int) -> bool:
    """Whether ONNX defines an operator by others that a version has."""
    schema: Any = onnx.defs.get_schema(op, version, "")
    return bool(schema.has_function or schema.has_context_dependent_function)


def write_out(index: GraphIndex, overridable: Collection[str], nodes: Sequence[gs.Node], version: int) -> list[gs.Node]:
    """Puts bodies in the place of nodes, whose operators have some in this version; those that stay where they are.

    A body depends on what is known of the operands, and one that holds subgraphs is not written out.
    """
    facts = Facts(index, overridable)
    context = Context(index, facts=facts)
    edits = Edits(index)
    left = []
    for node in nodes:
        function = _body(node, version, facts)
        if function is None:
            left.append(node)
            continue
        inline_function(Rewriting(context, edits, Bindings({}, {}), node, {}, index.scope(node)), node, function)
    edits.sweep(())
    index.finish()
    return left


def _body(node: gs.Node, version: int, facts: Facts) -> gs.Function | None:
    """The body of a node as a local function; None where there is none for these operands."""
    schema: Any = onnx.defs.get_schema(node.op, version, "")
    if any(isinstance(value, gs.Node.AttributeRef | gs.Graph) for value in node.attrs.values()):
        return None
    of = schema.function_opset_versions if schema.has_function else schema.context_dependent_function_opset_versions
    fitting = max((one for one in of if one <= version), default=None)
    if fitting is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(fitting)
    else:
        types = [encode(facts.fact(tensor).type) for tensor in node.inputs]
        if any(tensor.name and not known for tensor, known in zip(node.inputs, types, strict=True)):
            return None
        inputs, outputs = ([tensor.name for tensor in side] for side in (node.inputs, node.outputs))
        message = onnx.helper.make_node(node.op, inputs, outputs, **node.attrs)
        data = schema.get_context_dependent_function_with_opset_version(fitting, message.SerializeToString(), types)
    function = onnx.FunctionProto.FromString(data)
    attributes = [attribute for inner in function.node for attribute in inner.attribute]
    if not function.node or any(attribute.type == onnx.AttributeProto.GRAPH for attribute in attributes):
        return None
    for attribute in attributes:
        if attribute.ref_attr_name and not attribute.type:  # some bodies leave it out
            attribute.type = int(schema.attributes[attribute.ref_attr_name].type)
    function.attribute_proto.extend(a.default_value for a in schema.attributes.values() if a.default_value.name)
    found: gs.Function = Model.from_proto(onnx.ModelProto(ir_version=10, functions=[function])).graph.functions[0]
    return found
