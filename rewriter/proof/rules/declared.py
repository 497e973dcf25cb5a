"""What a rule on the interface has declared anew: such inputs cannot be fed as before, such outputs are others on purpose."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

Dimension = int | str | None


def asks_otherwise(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Whether an input that is left does not take any more what it took: another element type, rank or length.

    A fixed length that became a name takes the old length still.
    """
    told = {info.name: info.type for info in before.graph.input}
    return any(info.name in told and not _takes(told[info.name], info.type) for info in after.graph.input)


def outputs_as_before(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str]:
    """Names of the outputs of `before` whose type stayed, or changed by lengths that became names, or that went."""
    now = {info.name: info.type for info in after.graph.output}
    return frozenset(info.name for info in before.graph.output if info.name not in now or _takes(info.type, now[info.name]))


def _takes(old: onnx.TypeProto, new: onnx.TypeProto) -> bool:
    if old.WhichOneof("value") != "tensor_type" or new.WhichOneof("value") != "tensor_type":
        return old == new
    if old.tensor_type.elem_type != new.tensor_type.elem_type:
        return False
    if not old.tensor_type.HasField("shape") or not new.tensor_type.HasField("shape"):
        return not new.tensor_type.HasField("shape")
    was, now = list(_dims(old.tensor_type.shape.dim)), list(_dims(new.tensor_type.shape.dim))
    return len(was) == len(now) and all(
        b == a or (isinstance(a, int) and isinstance(b, str)) for a, b in zip(was, now, strict=True)
    )


def _dims(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> Iterable[Dimension]:
    for dim in dims:
        yield dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
