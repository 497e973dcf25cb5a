"""One node as a model of its own, with the element types and ranks that are known of its operands.

A runtime can then be asked whether it has a kernel for the node without being shown the model around it, whose other nodes may
be what it refuses.
"""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from rewriter.core.facts.facts import Facts
from rewriter.core.facts.infer import plain_attributes
from rewriter.core.graph.scopes import Scope

IR_VERSION = 8
"""Every runtime of today reads it, and a model without initializers needs no later one."""


def single_node(node: gs.Node, facts: Facts, scope: Scope) -> onnx.ModelProto | None:
    """The node alone; its operands are inputs of the types that are known, dimensions left open.

    Returns:
        None where an operand's element type is unknown, or where an attribute is a subgraph or refers to one of a function.
    """
    attributes = plain_attributes(node)
    operands = [tensor for tensor in node.inputs if tensor.name]
    types = [facts.dtype(tensor) for tensor in operands]
    if attributes is None or not all(types):
        return None
    proto = onnx.NodeProto(op_type=node.op, domain=node.domain or "")
    proto.attribute.extend(attributes)
    names = iter([f"i{number}" for number in range(len(operands))])
    proto.input.extend(next(names) if tensor.name else "" for tensor in node.inputs)
    proto.output.extend(f"o{number}" if tensor.name else "" for number, tensor in enumerate(node.outputs))
    inputs = [
        helper.make_tensor_value_info(f"i{number}", dtype or 0, _open_shape(facts, tensor))
        for number, (tensor, dtype) in enumerate(zip(operands, types, strict=True))
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = helper.make_graph([proto], "node", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in sorted(scope.opsets.items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _open_shape(facts: Facts, tensor: gs.Tensor) -> list[None] | None:
    """As many unknown dimensions as the tensor has; None where its rank is unknown."""
    shape = facts.shape(tensor)
    return None if shape is None else [None] * len(shape)
