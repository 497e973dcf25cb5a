"""Dimensions that a model only names: rules must do without their lengths, though they run with some."""

from __future__ import annotations

import onnx

from rewriter.proof.instances.dims import Dims
from rewriter.proof.instances.instance import Instance, free_inputs
from rewriter.record import replace


def hide(instance: Instance, dims: Dims) -> Instance:
    """The same instance with some lengths of its inputs replaced by names, and nothing said of the outputs' shapes."""
    model = onnx.ModelProto()
    model.CopyFrom(instance.model)
    sizes: dict[str, int] = {}
    for info in free_inputs(model.graph):
        if info.name in instance.fixed:
            continue
        for position, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dims.chance(0.4):
                name = f"d{dim.dim_value}" if dims.chance(0.5) else f"{info.name}_{position}"
                sizes[name] = dim.dim_value
                dim.dim_param = name
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return replace(instance, model=model, sizes=sizes)
