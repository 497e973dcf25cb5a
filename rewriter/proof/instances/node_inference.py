"""Types and shapes of what a drafted node gives, by the operator's own inference."""

from __future__ import annotations

import onnx
from onnx import TypeProto, defs, helper, shape_inference

from rewriter.proof.instances import contrib_operators
from rewriter.proof.instances.draft import Draft
from rewriter.proof.instances.instance import ir_version

Found = tuple[int, list[int] | None] | None


def infer(draft: Draft, opset: int) -> list[Found]:
    """Element type and shape of each output; None where inference says nothing or refuses."""
    names = [f"i{n}" if term is not None else "" for n, term in enumerate(draft.inputs)]
    outputs = [f"o{n}" for n in range(len(draft.outputs))]
    if contrib_operators.known(draft.op, draft.domain):
        return [None if shape is None else (0, shape) for shape in contrib_operators.shapes(draft)]
    try:
        schema = defs.get_schema(draft.op, draft.version, draft.domain)
        node = helper.make_node(draft.op, names, outputs, domain=draft.domain, **draft.attrs)
        types, data = {}, {}
        for name, term in zip(names, draft.inputs, strict=True):
            if term is not None:
                types[name] = helper.make_tensor_type_proto(term.dtype, term.shape)
                if term.value is not None and term.value.dtype.kind in "if" and term.value.size < 64:
                    data[name] = onnx.numpy_helper.from_array(term.value, name)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(draft.domain, draft.version)][: 1 + bool(draft.domain)]
        found = shape_inference.infer_node_outputs(schema, node, types, data, None, imports, ir_version(opset))
    except Exception:  # onnx raises what its C++ side threw
        return [None] * len(outputs)
    return [_read(found.get(name)) for name in outputs]


def _read(found: TypeProto | None) -> Found:
    if found is None or not found.HasField("tensor_type"):
        return None
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return tensor.elem_type, None if None in dims else [dim or 0 for dim in dims]
