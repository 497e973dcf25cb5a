"""Operators of which one oracle cannot be trusted: the two disagree before any rule has touched the model."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from rewriter.language import schema
from rewriter.proof.instances.instance import Array
from rewriter.proof.models.inner_tensors import values_of
from rewriter.proof.models.run_agreement import difference
from rewriter.proof.oracles import ORACLES, Refusal
from rewriter.proof.rules.doubt import ORACLES_AGREE


def suspects(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> set[str]:
    """The first operator whose results differ, as "BatchNormalization-9" (the version of the operator, not of the model)."""
    one, other = (values_of(model, inputs, oracle.name) for oracle in ORACLES)
    if isinstance(one, Refusal) or isinstance(other, Refusal):
        return set()
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    for node in model.graph.node:
        for name in node.output:
            if name in one and name in other and difference(one[name], other[name], ORACLES_AGREE)[0]:
                operator = schema.schema(node.op_type, node.domain, opset)
                return {f"{node.op_type}-{operator.since if operator else opset}"}
    return set()
