"""Facts for a part of a model: the types of tensors that become inputs, and one node as a model of its own.

The model of one node shows whether a runtime has a kernel for the node. In the whole model, the runtime may reject other nodes.
"""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.facts.facts import Facts
from rewriter.core.facts.infer import plain_attributes
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Scope
from rewriter.core.onnxfile.part import Whole
from rewriter.core.onnxfile.tensors import TensorType, encode, refine

IR_VERSION = 8
"""Every runtime of today reads it, and a model without initializers needs no later one."""


def single_node(node: gs.Node, facts: Facts, scope: Scope) -> onnx.ModelProto | None:
    """The node alone; its operands are inputs of the types that are known, dimensions left open.

    Returns:
        None if an operand's element type is unknown, or an attribute is a subgraph or refers to a function's attribute.
    """
    attributes = plain_attributes(node)
    operands = [tensor for tensor in node.inputs if tensor.name]
    types = [facts.dtype(tensor) for tensor in operands]
    if attributes is None or not all(types):
        return None
    model = onnx.ModelProto(ir_version=IR_VERSION, graph=onnx.GraphProto(name="node"))
    for domain, version in sorted(scope.opsets.items()):
        model.opset_import.add(domain=domain, version=version)
    proto = model.graph.node.add(op_type=node.op, domain=node.domain or "", attribute=attributes)
    names = iter([f"i{number}" for number in range(len(operands))])
    proto.input.extend(next(names) if tensor.name else "" for tensor in node.inputs)
    proto.output.extend(f"o{number}" if tensor.name else "" for number, tensor in enumerate(node.outputs))
    ranks = ((dtype, facts.shape(tensor)) for dtype, tensor in zip(types, operands, strict=True))
    opened = (TensorType(dtype, None if shape is None else (None,) * len(shape)) for dtype, shape in ranks)
    known = {f"i{number}": encode(one) for number, one in enumerate(opened)}
    return Whole(model).part([0], types=known, outputs=filter(None, proto.output))


def known_types(model: Model) -> dict[str, bytes]:
    """The known type of each tensor of a model and its bodies."""
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    found: dict[str, bytes] = {}
    for node in index.all_nodes():
        for tensor in (*node.inputs, *node.outputs):
            if tensor.name and tensor.name not in found and (data := _type(facts, tensor)):
                found[tensor.name] = data
    return found


def _type(facts: Facts, tensor: gs.Tensor) -> bytes:
    known = facts.fact(tensor).type
    return encode(known if known.other else refine(known, TensorType(*facts.declared(tensor))))
