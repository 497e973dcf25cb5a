"""Every tensor that a model computes, not only its outputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from rewriter.proof.instances.instance import Array
from rewriter.proof.oracles import ORACLES, Refusal


def values_of(model: onnx.ModelProto, inputs: Mapping[str, Array], oracle: str) -> dict[str, Array] | Refusal:
    """Every tensor that a model computes, in the order of its nodes."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    try:
        known = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # a model that cannot be inferred may run nevertheless
        known = model.graph
    kinds = {info.name: info.type.tensor_type.elem_type for info in (*known.value_info, *known.output)}
    listed = {info.name for info in wide.graph.output}
    for node in wide.graph.node:
        for name in node.output:
            if name and name not in listed and kinds.get(name):
                wide.graph.output.append(helper.make_tensor_value_info(name, kinds[name], None))
    loaded = next(o for o in ORACLES if o.name == oracle).load(wide)
    answer = loaded if isinstance(loaded, Refusal) else loaded(inputs)
    if isinstance(answer, Refusal):
        return answer
    order = [name for node in wide.graph.node for name in node.output if name in answer]
    return {name: answer[name] for name in order}
