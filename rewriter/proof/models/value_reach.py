"""Which inputs of a model have values that decide how large a tensor is, or how often something is computed.

Any number may be given to the other inputs. The number 10^9 as the length of a dimension asks for more memory than there is,
and as the number of turns of a loop for more time. The search follows values, not shapes: `Reshape(y, Shape(x))` needs the
shape of `x` and none of its values.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from rewriter.facts.operator_shapes import SIZE_OPERANDS

SHAPE_ONLY = frozenset({"Shape", "Size", "ConstantOfShape", "EyeLike", "RandomNormalLike", "RandomUniformLike"})
"""Operators whose results hold nothing of the values of their operands."""

SIZES = {**SIZE_OPERANDS, "Loop": (0,)}
"""Operands that decide sizes, or turns. An operator that is not of ONNX itself may have such operands anywhere."""

_ONNX = ("", "ai.onnx", "ai.onnx.ml")
_BODIES = (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)  # old models say no type


def sizing_inputs(model: onnx.ModelProto, names: Iterable[str]) -> frozenset[str]:
    """Those of these inputs whose values reach an operand that decides a size."""
    if not any(map(_may_decide, model.graph.node)):
        return frozenset()
    return frozenset(name for name in names if _decides(model.graph, {name}))


def _may_decide(node: onnx.NodeProto) -> bool:
    """Whether a node has an operand that decides a size, or bodies in which there may be one."""
    if node.op_type in SIZES or node.domain not in _ONNX:
        return True
    return any(attribute.type in _BODIES for attribute in node.attribute)


def _decides(graph: onnx.GraphProto, reached: set[str]) -> bool:
    """Whether a value in `reached` decides a size in the graph; adds to `reached` what these values lead to."""
    decides = False
    for node in graph.node:
        bodies = [body for attribute in node.attribute for body in (attribute.g, *attribute.graphs) if body.node or body.output]
        operands = [place for place, name in enumerate(node.input) if name in reached]
        if not bodies and not operands:
            continue
        inner = False
        for body in bodies:
            own = reached | ({info.name for info in body.input} if operands else set())
            decides |= _decides(body, own)
            inner |= any(output.name in own for output in body.output)
        if operands:
            foreign = node.domain not in _ONNX
            decides |= foreign or any(place in SIZES.get(node.op_type, ()) for place in operands)
        if inner or (operands and node.op_type not in SHAPE_ONLY):
            reached.update(filter(None, node.output))
    return decides
