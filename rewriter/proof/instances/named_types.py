"""The element types that a model names: of its weights, of its inputs and outputs, and those that it casts to."""

from __future__ import annotations

from typing import Any

import onnx

from rewriter.onnxfile.external_data import tensors_of


def float_types(model: onnx.ModelProto) -> list[Any]:
    """NumPy's types for the floating point types of more than one byte that a model names."""
    codes = {tensor.data_type for tensor in tensors_of(model)}
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        codes.add(info.type.tensor_type.elem_type)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    codes |= {a.i for node in nodes if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
    known = onnx.TensorProto.DataType.values()
    dtypes = (onnx.helper.tensor_dtype_to_np_dtype(code) for code in sorted(codes) if code in known and code)
    return [dtype for dtype in dtypes if dtype.kind in "fV" and dtype.itemsize > 1]
