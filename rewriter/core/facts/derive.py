"""Derives the facts of a node's outputs from the facts of its operands, and the facts of tensors that no node makes.

All functions are pure: `facts.py` keeps the results and decides what to derive when.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.array_functions import fold, foldable, output_values
from rewriter.core.facts.infer import MOST_DATA, output_types
from rewriter.core.facts.shape_rules import INTEGERS, NodeFacts, ShapeValue, followed, of_array
from rewriter.core.graph.objects import Node
from rewriter.core.graph.values import Constant, Variable, constant_array, declared, elem_type, static_shape
from rewriter.core.onnxfile.tensors import (
    UNKNOWN_TYPE,
    TensorType,
    clean,
    count,
    decode,
    dtype_number,
    numpy_dtype,
    read_sparse,
    refine,
)

Array = np.ndarray[Any, Any]


class Fact(NamedTuple):
    """The facts of a tensor.

    `mark` is None if it is no constant; two constants with the same mark have the same contents.
    """

    type: TensorType = UNKNOWN_TYPE
    value: ShapeValue | None = None
    mark: int | None = None


NOTHING = Fact()
ONNX_DOMAINS = frozenset(("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"))
"""Domains whose operators are known."""


def declared_type(tensor: gs.Tensor) -> TensorType:
    """The type that the file, or the maker of the tensor, declares; exact for a constant. Weights are not loaded."""
    if isinstance(tensor, Variable) and tensor.silent:
        return UNKNOWN_TYPE
    kind = "tensor_type" if isinstance(tensor, gs.Constant) else getattr(tensor, "type", None)
    if kind in (None, "tensor_type"):
        return TensorType(elem_type(tensor), static_shape(tensor))
    for info in getattr(tensor, "infos", ()):
        if info.type.WhichOneof("value") == kind:
            return decode(_without_lengths(info.type, dtype_number(tensor.dtype)).SerializeToString())
    dtype = dtype_number(tensor.dtype)
    if kind == "sequence_type" and dtype is not None:
        proto = onnx.TypeProto()
        proto.sequence_type.elem_type.tensor_type.elem_type = dtype
        return TensorType(other=proto.SerializeToString())
    return UNKNOWN_TYPE


def _without_lengths(kind: onnx.TypeProto, dtype: int | None) -> onnx.TypeProto:
    """A type of sequences, optionals or maps, with tensors of `dtype` inside if it is known; runtimes do not check lengths."""
    result = onnx.TypeProto()
    result.CopyFrom(kind)
    inner = result
    while (name := inner.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        inner = inner.map_type.value_type if name == "map_type" else getattr(inner, name).elem_type
    if name in ("tensor_type", "sparse_tensor_type"):
        getattr(inner, name).ClearField("shape")
        getattr(inner, name).elem_type = dtype or getattr(inner, name).elem_type
    return result


def initializer_fact(tensor: gs.Constant, mark: int, overridable: bool) -> Fact:
    """The facts of an initializer; if a caller may override it, only the type that the inputs declare."""
    known = declared_type(tensor)
    if overridable:
        shape = clean(declared(tensor.infos[:1]).shape) if isinstance(tensor, Constant) else None
        return Fact(known if shape is None else known._replace(shape=shape))
    value = None
    if followed(known.dtype, known.shape):
        try:
            value = of_array(constant_array(tensor))
        except RewriterError:  # data that cannot be read: a constant nevertheless, about which no more is known
            value = None
    return Fact(known, value, mark)


def constant_node_array(node: gs.Node) -> Array | None:
    """The value of a Constant node, from any of its attributes; None if it is unreadable or a reference."""
    name, value = next(iter(node.attrs.items()), ("", None))
    try:
        if isinstance(value, gs.Constant):
            return constant_array(value)
        if isinstance(value, onnx.AttributeProto):
            return read_sparse(value.sparse_tensor, None) if value.HasField("sparse_tensor") else None
        if isinstance(value, np.ndarray):
            return value
        dtype = _PLAIN_ATTRIBUTES.get(name)
        return np.array(value, dtype) if dtype is not None and not isinstance(value, gs.Node.AttributeRef) else None
    except (RewriterError, TypeError, ValueError, OverflowError):
        return None


_PLAIN_ATTRIBUTES: Mapping[str, Any] = {
    "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32,
    "value_string": object, "value_strings": object,
}  # fmt: skip


def constant_node_fact(node: gs.Node, mark: int) -> Fact:
    """The facts of the output of a Constant node; a tensor that carries no shape is not loaded."""
    value = next(iter(node.attrs.values()), None)
    if isinstance(value, gs.Constant):
        return initializer_fact(value, mark, overridable=False)
    if isinstance(value, onnx.AttributeProto):
        if not value.HasField("sparse_tensor"):
            return NOTHING
        sparse = value.sparse_tensor
        return Fact(TensorType(sparse.values.data_type or None, clean(sparse.dims)), None, mark)
    array = constant_node_array(node)
    if array is None:
        return NOTHING
    known = TensorType(dtype_number(array.dtype), tuple(array.shape))
    return Fact(known, of_array(array) if followed(*known[:2]) else None, mark)


def node_facts(
    node: gs.Node, imports: Mapping[str, int], operands: Sequence[Fact | None], constant: Callable[[int], Array | None]
) -> NodeFacts:
    """The record that the rules work on.

    Args:
        imports: opset version by domain of the node's scope.
        operands: None for omitted ones.
        constant: the array of operand i, which is constant.
    """
    domain = "" if node.domain in (None, "ai.onnx") else node.domain

    def small(i: int) -> Array | None:
        fact = operands[i] if i < len(operands) else None
        size = count(fact.type.shape) if fact is not None and fact.mark is not None else None
        return constant(i) if size is not None and size <= MOST_DATA else None

    return NodeFacts(
        node.op,
        domain,
        imports.get(domain),
        node,
        [None if fact is None else fact.type for fact in operands],
        [None if fact is None else fact.value for fact in operands],
        tuple([bool(tensor.name) for tensor in node.outputs]),
        small,
    )


def output_facts(
    facts: NodeFacts, imports: Mapping[str, int], operands: Sequence[Fact | None], arrays: Callable[[], list[Array | None]]
) -> tuple[list[Fact], bool]:
    """The facts of each output of an ordinary node, and whether declarations of the file went into them.

    Args:
        facts, imports, operands: as in `node_facts`.
        arrays: the arrays of all operands; called only if all are constant and the result is small enough to carry a shape.
    """
    types, adds = output_types(facts, imports), False
    for i, tensor in enumerate(facts.node.outputs):
        if tensor.name and not types[i].other and not types[i].complete:
            types[i], before = (
                refine(types[i], uncontested(declared_type(tensor), facts, facts.domain not in ONNX_DOMAINS)),
                types[i],
            )
            adds = adds or types[i] != before
    values = output_values(facts, types)
    found = [Fact(kind, value, _value_mark(kind, value)) for kind, value in zip(types, values, strict=True)]
    if found and found[0].mark is None:
        found[0] = _folded(facts, operands, found[0], arrays)
    return found, adds


def uncontested(claim: TensorType, facts: NodeFacts, opaque: bool) -> TensorType:
    """The part of an output's declaration that counts.

    A declaration is a claim: it was true for the lengths that an exporter saw. Its element type counts. Its shape counts only
    if the operator is unknown (`opaque`), and only the rank if a length of an operand may vary. If a known operator has no
    inferred shape, the shape depends on the inputs of the caller, or the node is broken. Exporters are known to declare shapes
    that no runtime computes (CatBoost: [N] for the [N, 1] of a TreeEnsembleRegressor).
    """
    if claim.other or claim.shape is None:
        return claim
    if not opaque:
        return TensorType(claim.dtype)
    varies = not all(known is None or known.complete for known in facts.types)
    return TensorType(claim.dtype, (None,) * len(claim.shape)) if varies else claim


def _value_mark(known: TensorType, value: ShapeValue | None) -> int | None:
    """Mark of a tensor whose values are all known although its operands are no constants (`Shape` of a known shape)."""
    if value is None or known.dtype not in INTEGERS or value.known() is None:
        return None
    return hash((known.dtype, value))


def _folded(facts: NodeFacts, operands: Sequence[Fact | None], fact: Fact, arrays: Callable[[], list[Array | None]]) -> Fact:
    marks = [operand.mark for operand in operands if operand is not None]
    if facts.op == "Identity" and not facts.domain and marks:
        return fact._replace(mark=marks[0])
    if not marks or None in marks or not foldable(facts, fact.type):
        return fact
    value = fact.value
    sizes = [count(operand.type.shape) for operand in operands if operand is not None]
    if followed(*fact.type[:2]) and all(size is not None and size <= MOST_DATA for size in sizes):
        array = fold(facts, arrays(), fact.type)
        if array is None:
            return fact
        value = of_array(array)
    present = tuple(operand is not None for operand in operands)
    return Fact(fact.type, value, hash((facts.op, _attribute_key(facts.node), present, tuple(marks))))


def _attribute_key(node: gs.Node) -> str:
    """A text that differs when the attributes of a node that folds do."""
    return repr([(name, _contents(value)) for name, value in node.attrs.items()])


def _contents(value: Any) -> Any:
    if not isinstance(value, gs.Constant):
        return value
    try:
        return (elem_type(value), constant_array(value).tolist()) if count(static_shape(value)) == 1 else id(value)
    except RewriterError:
        return id(value)


def array_of_value(fact: Fact) -> Array | None:
    """The array of a tensor whose every item is known; None for another."""
    dtype = numpy_dtype(fact.type.dtype or 0)
    items = fact.value.known() if fact.value is not None and fact.type.dtype in INTEGERS else None
    return None if items is None or dtype is None or fact.value is None else np.array(items, dtype).reshape(fact.value.shape)


# The facts derived for one node hold for every node that looks the same to the rules of derivation.
#
# Deep models repeat themselves: thousands of nodes of one operator, with equal attributes, work on operands of equal types.
# Deriving the outputs of such a node takes 20 to 50 microseconds, recognising the node takes two.

A = onnx.AttributeProto
_MOST = 1 << 15  # looks of nodes that are kept
_PLAIN = (int, float, str, bool)
_SINGLE = (A.INT, A.FLOAT, A.STRING, A.INTS, A.FLOATS, A.STRINGS)


_LONGEST = 2048  # characters of a look that is kept
_known: dict[Hashable, tuple[list[Fact], list[int]]] = {}
"""By look, the facts of a node's outputs, and the outputs with incomplete facts; for all models of this process."""


def facts_of_look(view: Hashable, node: gs.Node) -> list[Fact] | None:
    """The facts derived for a node of this look; None if the node must be derived by itself."""
    found = _known.get(view)
    if found is None or (found[1] and _declares_more(found[1], node)):
        return None
    return found[0]


def remember_look(view: Hashable, facts: list[Fact]) -> None:
    """Notes the facts that follow from a look alone, without the declarations of a node's outputs."""
    if len(repr(view)) > _LONGEST:
        return
    if len(_known) >= _MOST:
        _known.clear()
    _known[view] = facts, [place for place, fact in enumerate(facts) if not fact.type.other and not fact.type.complete]


def look(node: gs.Node, imports: Mapping[str, int], operands: Sequence[Fact | None]) -> Hashable | None:
    """All that derivation reads of a node, except the contents of constants that carry no shape.

    None if derivation needs the node itself: its attributes are not plain values, or all of its operands are constant, so that
    it may fold.
    """
    seen: list[Hashable] = []
    constant = True
    for fact in operands:
        if fact is None:
            seen.append(None)
        else:
            constant = constant and fact.mark is not None
            seen.append((fact.type, fact.value, fact.mark is None))
    attributes = None if constant else _attributes(node)
    if attributes is None:
        return None
    outputs = tuple([bool(tensor.name) for tensor in node.outputs])
    return node.op, node.domain, tuple(imports.items()), tuple(seen), attributes, outputs


def _attributes(node: gs.Node) -> Hashable | None:
    """The attributes in a form that can be compared; None if some are no plain values."""
    if isinstance(node, Node) and node._attrs is None:
        messages = node.messages
        if not messages:
            return ()
        if any(message.type not in _SINGLE or message.ref_attr_name for message in messages):
            return None
        return tuple([message.SerializeToString() for message in messages])
    found: list[Any] = []
    for name, value in node.attrs.items():
        items = tuple(value) if isinstance(value, list | tuple) else value
        for item in items if isinstance(items, tuple) else (items,):
            if type(item) not in _PLAIN:
                return None
        kinds = tuple(map(type, items)) if isinstance(items, tuple) else type(items)
        found.append((name, kinds, items))
    return tuple(found)


def _declares_more(places: Sequence[int], node: gs.Node) -> bool:
    """Whether the declaration of an output, at one of these places, may add to the facts from the operands."""
    return any(place < len(node.outputs) and declared_type(node.outputs[place]) != UNKNOWN_TYPE for place in places)
