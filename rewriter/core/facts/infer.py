"""The output types of one node, from the types and constants it reads.

`onnx.shape_inference` does it if it can. Files that need repair hold nodes that it rejects: attributes of another version of
the operator, operators that were removed. Such a node is read as the version of its operator that has its attributes. Without
such a version, a plain rule may still apply. Types and nodes are passed as cached bytes and equal nodes are inferred once,
since deep models repeat themselves.

Wrong results of the inference (onnx 1.23) are corrected, or made unknown, by operator. `benchmarks/facts.py` finds such errors:
it compares inferred shapes with the shapes that a runtime computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.shape_rules import RULES, NodeFacts, add, divide_exactly, multiply, output_shape
from rewriter.core.graph.attributes import AttributeWriter
from rewriter.core.language.operator_traits import pick, traits
from rewriter.core.language.schema import registered, registered_at, schema
from rewriter.core.onnxfile.tensors import UNKNOWN_TYPE, Dim, TensorType, decode, encode, refine_shape

# Nodes at which the C++ code of `onnx.shape_inference` reads behind the end of something, which ends the process, never comes
# back, or fills the memory.
#
# Found by giving every operator attributes and shapes that make no sense (onnx 1.23). Such a node is broken anyway: it is kept
# from the inference and treated like any other node that fails in it.

MOST_SIZES = 1 << 16
"""Length of an operand that holds sizes: of an Expand with 2^31 of them the inference writes a shape of 2^31 dimensions."""

_EINSUM = re.compile(r"[A-Za-z,.\-> ]*")


def survives(facts: NodeFacts) -> bool:
    """Whether a node may be passed to the inference."""
    check = CHECKS.get(facts.op)
    if check is not None and not check(facts):
        return False
    return all(_few(facts.shape(i)) for i in traits(facts.op).deciding)


def _few(shape: tuple[Dim, ...] | None) -> bool:
    return shape is None or not any(isinstance(size, int) and size > MOST_SIZES for size in shape)


def _axis_in_rank(facts: NodeFacts) -> bool:
    shape, axis = facts.shape(0), facts.integer("axis", -1)
    return axis is not None and (shape is None or -len(shape) <= axis < len(shape))


def _batch_dims(facts: NodeFacts) -> bool:
    shape, dims = facts.shape(0), facts.integer("batch_dims", 0)
    return dims is not None and dims >= 0 and (shape is None or dims <= len(shape))


def _as_many_parts_as_outputs(facts: NodeFacts) -> bool:
    parts = facts.integer("num_outputs", len(facts.outputs))
    return parts == len(facts.outputs)


def _never(facts: NodeFacts) -> bool:
    return False


def _one_table(facts: NodeFacts) -> bool:
    return all(sum(name.startswith(kind) for name in facts.attrs) == 1 for kind in ("keys_", "values_"))


def _plain_equation(facts: NodeFacts) -> bool:
    """It never comes back from some characters."""
    equation = facts.text("equation", "")
    return bool(equation) and _EINSUM.fullmatch(equation) is not None


CHECKS: dict[str, Callable[[NodeFacts], bool]] = {
    "DictVectorizer": _never,
    "Einsum": _plain_equation,
    "GatherND": _batch_dims,
    "LabelEncoder": _one_table,
    "LayerNormalization": _axis_in_rank,
    "RMSNormalization": _axis_in_rank,
    "Split": _as_many_parts_as_outputs,
}
"""Operator → the check that a node must pass before it is inferred."""


A = onnx.AttributeProto
MOST_DATA = 4096
"""Constants of more elements are never read for the sake of a type."""

MOST_DIMENSIONS = 64
"""The highest rank of a tensor whose shape is followed, as in NumPy. Only in a cycle, an operator adds dimensions without end.
"""

_BOOL = 9
_MOST_CACHED = 1 << 14  # bytes of a node and its constants; trees and lookup tables are inferred once anyway
_NAMES = tuple((f"i{i}", f"o{i}") for i in range(64))


def output_types(facts: NodeFacts, imports: Mapping[str, int]) -> list[TensorType]:
    """The type of each output that follows from the operands, else unknown.

    Args:
        facts: the node; operators of other domains than ONNX's own, or of a domain that `imports` lacks, give unknown types.
        imports: opset version by domain.
    """
    found = corrected(facts, _inferred(facts, imports))
    if not found or found[0].other:
        return found
    dtype, shape = found[0].dtype, found[0].shape
    if shape is not None and len(shape) > MOST_DIMENSIONS:
        return [kind._replace(shape=None) for kind in found]
    if shape is None or None in shape:
        shape = refine_shape(shape, output_shape(facts))
    if dtype is None and not facts.domain and traits(facts.op).shape in RULES:
        dtype = _likely_dtype(facts)
    found[0] = TensorType(dtype, shape)
    if not facts.domain and all(kind.dtype is None and not kind.other for kind in found):
        for i, source in enumerate(type_sources(facts.op, facts.version or 0, len(found))):
            if source is not None and (kind := facts.type(source)).dtype is not None:
                found[i] = found[i]._replace(dtype=kind.dtype)
    return found


def type_sources(op: str, version: int, count: int) -> list[int | None]:
    """For each output, the operand whose element type it has by the operator's schema, even if the shapes are wrong."""
    found = schema(op, "", version)
    if found is None or found.deprecated or not found.outputs:
        return []
    kinds = ["" if one.mixed else one.kind for one in found.inputs]
    formals = [found.outputs[min(i, len(found.outputs) - 1)] for i in range(count)]
    return [kinds.index(one.kind) if not one.mixed and one.kind in kinds else None for one in formals]


def _likely_dtype(facts: NodeFacts) -> int | None:
    """The element type if the inference gave none: the type of the operand that the schema names, else of the first operand."""
    known = traits(facts.op).dtype
    if known in ("bool", "to"):
        return _BOOL if known == "bool" else None
    operand, *_ = type_sources(facts.op, facts.version or 0, 1) or [0]
    return None if operand is None else facts.type(operand).dtype


def _inferred(facts: NodeFacts, imports: Mapping[str, int]) -> list[TensorType]:
    unknown = [UNKNOWN_TYPE] * len(facts.outputs)
    message = None
    if facts.version is not None and len(facts.types) <= len(_NAMES) >= len(unknown) and survives(facts):
        message = _message(facts)
    if message is not None:
        types, data, key = tuple(facts.types), tuple(_data(facts)), tuple(imports.items())
        small = len(message) + sum(len(tensor) for _, tensor in data) <= _MOST_CACHED
        ask = _infer if small else _infer.__wrapped__
        for other_versions in (False, True):
            found = ask(facts.domain, facts.op, facts.version, other_versions, message, types, data, key)
            if found is not None:
                return [found.get(_NAMES[i][1], UNKNOWN_TYPE) for i in range(len(unknown))]
    return unknown


def _data(facts: NodeFacts) -> Iterator[tuple[int, bytes]]:
    """Serialised constants among the operands that decide the shape."""
    if facts.domain:
        return
    for i in traits(facts.op).deciding:
        if facts.has(i):
            array = facts.constant(i)
            if array is not None:
                yield i, _tensor_bytes(array)


def _tensor_bytes(array: np.ndarray[Any, Any]) -> bytes:
    try:
        return bytes(onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape)).SerializeToString())
    except (TypeError, ValueError, KeyError):
        return b""


def _message(facts: NodeFacts) -> bytes | None:
    """The node as a message with operands i0, i1, … and outputs o0, o1, …; None if its attributes cannot be used.

    That is so for references to attributes of a function, for subgraphs, and for tensors too large to copy.
    """
    operands = tuple(kind is not None for kind in facts.types)
    attributes = plain_attributes(facts.node)
    if attributes is None:
        return None
    if not attributes:
        return _bare_message(facts.op, facts.domain, operands, facts.outputs)
    proto = onnx.NodeProto.FromString(_bare_message(facts.op, facts.domain, operands, facts.outputs))
    proto.attribute.extend(attributes)
    return bytes(proto.SerializeToString())


@lru_cache(maxsize=4096)
def _bare_message(op: str, domain: str, operands: tuple[bool, ...], outputs: tuple[bool, ...]) -> bytes:
    proto = onnx.NodeProto(op_type=op, domain=domain)
    proto.input.extend(_NAMES[i][0] if there else "" for i, there in enumerate(operands))
    proto.output.extend(_NAMES[i][1] if there else "" for i, there in enumerate(outputs))
    return bytes(proto.SerializeToString())


def plain_attributes(node: gs.Node) -> Iterable[A] | None:
    """The attributes of a node as messages; None if one is a subgraph, refers to a function's attribute, or is too large."""
    attributes = _untouched(node)
    return _written(node, node.op, node.domain or "") if attributes is None else attributes


def _untouched(node: gs.Node) -> Iterable[A] | None:
    """The attribute messages of a node from a file, if they are plain and the node's attributes were never read."""
    proto = getattr(node, "proto", None)
    if proto is None or getattr(node, "_attrs", proto) is not None:
        return None
    attributes: Iterable[A] = proto.attribute
    return attributes if all(_plain(attribute) for attribute in attributes) else None


def _plain(attribute: A) -> bool:
    return attribute.type in (A.INT, A.INTS, A.FLOAT, A.FLOATS, A.STRING, A.STRINGS) and not attribute.ref_attr_name


def _refuse(graph: Any) -> Any:
    raise RewriterError("a subgraph is not written for inference")


def _written(node: gs.Node, op: str, domain: str) -> list[A] | None:
    writer = AttributeWriter(None, _refuse, op, domain)
    result = []
    try:
        for name, value in node.attrs.items():
            if isinstance(value, (gs.Node.AttributeRef, gs.Graph)) or (
                isinstance(value, A) and (value.ref_attr_name or value.type == A.GRAPHS)
            ):
                return None
            if isinstance(value, gs.Constant) and np.prod(value.shape, dtype=object) > MOST_DATA:
                return None
            result.append(writer.encode(name, value))
    except Exception:  # a user may have put any value there: a node whose attributes have no message has no inferred type
        return None
    return result


@lru_cache(maxsize=1 << 14)
def _infer(
    domain: str,
    op: str,
    version: int,
    other_versions: bool,
    message: bytes,
    types: tuple[TensorType | None, ...],
    data: tuple[tuple[int, bytes], ...],
    imports: tuple[tuple[str, int], ...],
) -> Mapping[str, TensorType] | None:
    """Output types by the operator's schema, or with `other_versions` by the nearest that fits; None for a failure."""
    # an unknown type is written as an empty one: if an operand has none at all, some operators follow a null pointer
    operand_types = {_NAMES[i][0]: encode(kind) for i, kind in enumerate(types) if kind is not None}
    operand_data = {_NAMES[i][0]: tensor for i, tensor in data if tensor}
    for one in _fitting(domain, op, version, message) if other_versions else _schema(domain, op, version):
        try:
            found = one._infer_node_outputs(message, operand_types, operand_data, {}, dict(imports), onnx.IR_VERSION)
        except Exception:  # C++ raises several unrelated classes if it cannot infer a node; the next way is tried
            continue
        return {name: decode(data) for name, data in found.items()}
    return None


def _schema(domain: str, op: str, version: int) -> tuple[Any, ...]:
    found = registered_at(op, domain, version)
    return () if found is None or found.deprecated else (found,)


def _fitting(domain: str, op: str, version: int, message: bytes) -> list[Any]:
    """Schemas of other versions that have all attributes of the node, the nearest version first.

    If the present schema also has them, only newer ones: they differ in the element types they allow.
    """
    names = {attribute.name for attribute in onnx.NodeProto.FromString(message).attribute}
    present = _schema(domain, op, version)
    fits = bool(present) and names <= present[0].attributes.keys()
    fitting = [
        schema
        for schema in registered(op, domain)
        if not schema.deprecated
        and names <= schema.attributes.keys()
        and (schema.since_version > version if fits else schema not in present)
    ]
    return sorted(fitting, key=lambda schema: abs(schema.since_version - version))


Shape = tuple[Dim, ...]
Shapes = list[Shape | None]


def corrected(facts: NodeFacts, found: list[TensorType]) -> list[TensorType]:
    """The inferred types of all outputs of a node, without wrong parts of their shapes."""
    correct = None if facts.domain else pick(CORRECTIONS, facts.op)
    if correct is None:
        return found
    shapes = correct(facts, [known.shape for known in found])
    pairs = zip(found, shapes, strict=False)  # an invalid node may have more outputs than its operator
    return [*(known._replace(shape=shape) for known, shape in pairs), *found[len(shapes) :]]


def _pool(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Pooling that rounds up leaves out a window that would begin behind the input; the inference counts it."""
    if facts.integer("ceil_mode", 0) not in (0, 1):
        return [None for _ in shapes]  # the inference rounds up, ONNX Runtime does not
    return [None if shape is None else _ceiled(facts, shape) for shape in shapes]


def _ceiled(facts: NodeFacts, shape: Shape) -> Shape:
    source, kernel = facts.shape(0), facts.integers("kernel_shape")
    if not facts.integer("ceil_mode", 0) or source is None or kernel is None or len(source) != len(shape) != len(kernel) + 1:
        return shape
    axes = len(kernel)
    strides = facts.integers("strides") or [1] * axes
    pads = facts.integers("pads") or [0] * (2 * axes)
    if facts.text("auto_pad", "NOTSET") != "NOTSET" or len(strides) != axes or len(pads) != 2 * axes:
        return shape
    dims = list(shape)
    for i, dim in enumerate(source[2:]):
        made = dims[i + 2]
        if isinstance(dim, int) and isinstance(made, int) and (made - 1) * strides[i] >= dim + pads[i]:
            dims[i + 2] = made - 1
    return tuple(dims)


def _resize(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """A length times a scale: unknown if it is rounded differently in single and in double precision."""
    source, shape = facts.shape(0), shapes[0]
    scales = facts.constant(2 if facts.op == "Resize" and len(facts.types) > 2 else 1)
    if facts.has(3) or shape is None or source is None or scales is None or len(source) != len(shape):
        return shapes
    axes = facts.integers("axes") or list(range(len(shape)))
    if scales.shape != (len(axes),):
        return shapes
    dims = list(shape)
    for axis, scale in zip(axes, np.asarray(scales, np.float32), strict=True):
        dim = source[axis] if -len(dims) <= axis < len(dims) else None
        if isinstance(dim, int) and np.floor(np.float32(dim) * scale) != np.floor(float(dim) * float(scale)):
            dims[axis] = None
    return [tuple(dims), *shapes[1:]]


def _fourier_frames(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Without `onesided` half of the frequencies are left out; the inference counts them all."""
    source, shape = facts.shape(0), shapes[0]
    if shape is None or len(shape) != 4 or "onesided" in facts.attrs:
        return shapes
    lengths, real = shape[2], source is not None and source[-1:] == (1,)
    half = lengths // 2 + 1 if isinstance(lengths, int) and real else None
    return [(*shape[:2], half, shape[3]), *shapes[1:]]


def _attention(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """The inference treats an unknown length as 0, and does not infer the fourth output."""
    query, key, value = (facts.shape(i) for i in range(3))
    shapes = [None, *shapes[1:3], *(None for _ in shapes[3:])][: len(shapes)]
    if query is None or key is None or value is None or not len(query) == len(key) == len(value) or len(query) not in (3, 4):
        return shapes
    if len(query) == 3:
        heads: Dim = facts.integer("q_num_heads", 0) or None
        groups = facts.integer("kv_num_heads", 0) or None
        width = multiply(heads, divide_exactly(value[2], groups))
        shapes[0] = (query[0], query[1], width)
        length, added = query[1], key[1]
    else:
        heads, length, added = query[1], query[2], key[2]
        shapes[0] = (query[0], heads, length, value[3])
    past = facts.shape(4)
    before: Dim = 0 if not facts.has(4) else past[2] if past is not None and len(past) == 4 else None
    if len(shapes) > 3:
        shapes[3] = (query[0], heads, length, add(before, added))
    return shapes


def _grid(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """A runtime makes as many grids as there are matrices; the inference uses the batch in the size, which may differ."""
    matrices, shape = facts.shape(0), shapes[0]
    if not shape:
        return shapes
    agrees = bool(matrices) and matrices is not None and matrices[0] == shape[0]
    return [shape if agrees else (None, *shape[1:]), *shapes[1:]]


def _loss(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Without a reduction, there is a loss for each target; the inference uses the lengths of the scores instead."""
    return [facts.shape(1) if facts.text("reduction", "mean") == "none" else shapes[0], *shapes[1:]]


def _ranks_alone(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Runtimes take lengths from several operands, and check none of them against the others."""
    return [None if shape is None else (None,) * len(shape) for shape in shapes]


def _reduction(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Runtimes differ about a `noop_with_empty_axes` that is neither 0 nor 1."""
    return shapes if facts.integer("noop_with_empty_axes", 0) in (0, 1) else [None for _ in shapes]


def _sloped(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """The inference assumes that slopes never broadcast their operand to a larger shape."""
    return [output_shape(facts), *shapes[1:]]


def _squeeze(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Below opset 11 the inference ignores negative axes. Exporters write them, and runtimes count them from the end."""
    axes, source = facts.integers("axes"), facts.shape(0)
    if axes is None or min(axes, default=0) >= 0:
        return shapes
    if source is None:
        return [None]
    if facts.op == "Squeeze":
        dropped = {axis % len(source) for axis in axes} if source else set()
        return [tuple(dim for place, dim in enumerate(source) if place not in dropped)]
    added, dims = {axis % (len(source) + len(axes)) for axis in axes}, iter(source)
    return [tuple(1 if place in added else next(dims, None) for place in range(len(source) + len(axes)))]


def _concat(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """Below opset 11 the inference ignores a negative axis. Exporters write it, and runtimes count it from the end."""
    axis, sources = facts.integer("axis", 1), [facts.shape(i) for i in range(len(facts.types))]
    known = [source for source in sources if source is not None]
    ranks = {len(source) for source in known}
    if axis is None or axis >= 0 or shapes[0] is not None or len(known) < len(sources) or len(ranks) != 1 or -axis > min(ranks):
        return shapes
    dims: list[Dim] = [lengths[0] if len(set(lengths)) == 1 else None for lengths in zip(*known, strict=True)]
    dims[axis] = reduce(add, [source[axis] for source in known])
    return [tuple(dims), *shapes[1:]]


def _slice(facts: NodeFacts, shapes: Shapes) -> Shapes:
    """In opset 10, the inference gives a part of a named length the same name, and counts unknown steps as 1.

    The rule in `shape_rules.py` decides which lengths stay.
    """
    shape = shapes[0]
    steps, has_steps = facts.list_or_operand("steps", 4)
    if shape is not None:
        unknown = has_steps and steps is None
        shape = tuple(None if unknown or isinstance(dim, str) else dim for dim in shape)
    return [shape, *shapes[1:]]


CORRECTIONS: dict[str, Callable[[NodeFacts, Shapes], Shapes]] = {
    "reduction": _reduction,
    "pool": _pool,
    "resize": _resize,
    "sloped": _sloped,
    "slice": _slice,
    "Concat": _concat,
    **dict.fromkeys(("squeeze", "unsqueeze"), _squeeze),
    "AffineGrid": _grid,
    "Attention": _attention,
    **dict.fromkeys(("CausalConvWithState", "LinearAttention"), _ranks_alone),
    "NegativeLogLikelihoodLoss": _loss,
    "STFT": _fourier_frames,
}
"""Form, or operator of the default domain, in all versions → the function that corrects the shapes of its outputs."""
