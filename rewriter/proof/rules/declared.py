"""What a rule on the interface has declared anew: such inputs cannot be fed as before, such outputs are others on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx

from rewriter.language import ast
from rewriter.language.rule import Rule
from rewriter.language.walk import walk
from rewriter.proof.instances.instance import Array
from rewriter.proof.oracles import Answer, Refusal

Dimension = int | str | None
Infos = Sequence[onnx.ValueInfoProto]


class Interface:
    """The inputs and outputs of a result as those of the model before; `kept` are the outputs that must be what they were."""

    def __init__(self, rule: Rule, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
        self._inputs = names_now(before.graph.input, after.graph.input)
        self._outputs = names_now(before.graph.output, after.graph.output)
        drops = any(isinstance(part, ast.Delete) and part.place.field is None for part in walk(rule.ast.rewrites))
        kept = outputs_as_before(before, after)
        self.kept = kept & self._outputs.keys() if drops else kept

    def fed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {self._inputs[name]: array for name, array in inputs.items() if name in self._inputs}

    def read(self, answer: Answer) -> Answer:
        if isinstance(answer, Refusal):
            return answer
        return {name: answer[now] for name, now in self._outputs.items() if now in answer}


def names_now(before: Infos, after: Infos) -> dict[str, str]:
    """What inputs, or outputs, are called now, by their names before; one that is missing has another name in its place."""
    known, now = {info.name for info in before}, {info.name for info in after}
    found = {name: name for name in known & now}
    if len(after) >= len(before):
        new = {old.name: info.name for old, info in zip(before, after, strict=False) if info.name not in known}
        found |= {old: name for old, name in new.items() if old not in now}
    return found


def asks_otherwise(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Whether an input that is left does not take any more what it took: another element type, rank or length.

    A fixed length that became a name takes the old length still.
    """
    now = {info.name: info.type for info in after.graph.input}
    names = names_now(before.graph.input, after.graph.input)
    return any(info.name in names and not _takes(info.type, now[names[info.name]]) for info in before.graph.input)


def outputs_as_before(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str]:
    """Names of the outputs of `before` whose type stayed, or changed by lengths that became names, or that went."""
    now = {info.name: info.type for info in after.graph.output}
    names = names_now(before.graph.output, after.graph.output)
    return frozenset(
        info.name for info in before.graph.output if info.name not in names or _takes(info.type, now[names[info.name]])
    )


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
