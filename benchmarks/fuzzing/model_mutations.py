"""Damaged models: what a fuzzer of bytes hardly ever makes, since it knows nothing of fields, names and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

MOST = 200_000  # bytes of an input; what is larger becomes slow and finds no more
_NO_TEXT = "ā"  # in the bytes it becomes what is no UTF-8, of the same length
_TEXTS = (
    "",
    "x",
    "ai.onnx",
    "com.microsoft",
    _NO_TEXT,
    f"a{_NO_TEXT}b",
    "\0",
    "../../etc/passwd",
    "/",
    "a" * 3000,
    "\x1b[2J\n",
    "😀",
)
_NUMBERS = (0, 1, -1, 2, 3, 7, 16, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
_REALS = (0.0, -0.0, 1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"))
_ATTRIBUTES = (
    "axis", "axes", "perm", "kernel_shape", "strides", "pads", "dilations", "to", "mode", "equation", "value", "keepdims",
    "group", "auto_pad", "shape", "starts", "ends", "split", "body", "then_branch", "else_branch", "num_outputs", "epsilon",
    "dtype",
)  # fmt: skip
_LOCATIONS = ("data.bin", "model.onnx", "gone.bin", ".", "/etc/passwd", "../model.onnx", "a/" * 500, _NO_TEXT, "", "data.bin\0")
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "own", _NO_TEXT)
_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def mutate_model(data: bytes, random: Random, donor: bytes) -> bytes:
    """A model with one to six things wrong, some of them taken from another one."""
    try:
        model, other = ModelProto.FromString(data), ModelProto.FromString(donor)
    except Exception:  # it was damaged before
        return mutate_bytes(data, random)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        random.choice(_MUTATIONS)(model, random, other)
        if model.ByteSize() > MOST:
            return mutate_bytes(data, random)
    made = bytes(model.SerializeToString()).replace(_NO_TEXT.encode(), b"\xff\xfe")
    return mutate_bytes(made, random) if random.random() < 0.15 else made


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Bytes with a few of them changed, left out, doubled or moved."""
    made = bytearray(data[:MOST])
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randrange(len(made) + 1)
        stop = min(len(made), start + random.choice((1, 1, 2, 4, 8, 64, 1000)))
        what = random.randrange(6)
        if what == 0 and start < stop:
            made[start] ^= 1 << random.randrange(8)
        elif what == 1:
            del made[start:stop]
        elif what == 2:
            made[start:start] = made[start:stop] * random.choice((1, 2, 50))
        elif what == 3:
            made[start:start] = random.randbytes(random.choice((1, 2, 9)))
        elif what == 4:
            made[start:stop] = random.choice((b"\xff", b"\0", b"\x80", b"\x0a")) * (stop - start)
        else:
            del made[start:]
    return bytes(made)


def _messages(message: Any, depth: int = 0) -> Iterator[Any]:
    """A message and all in it."""
    yield message
    for field, value in message.ListFields() if depth < 60 else ():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                yield from _messages(one, depth + 1)


def _graphs(model: ModelProto) -> list[Any]:
    """The graph of a model, though it may have lost it, others in nodes, and functions, which all have nodes."""
    found = [one for one in _messages(model) if isinstance(one, GraphProto | FunctionProto)]
    return found if model.HasField("graph") else [model.graph, *found]


def _nodes(model: ModelProto) -> list[NodeProto]:
    return [node for graph in _graphs(model) for node in graph.node]


def _value(field: Any, before: Any, random: Random) -> Any:
    """What may stand in a field that holds no message."""
    if field.cpp_type in _INTEGERS:
        least, most = _INTEGERS[field.cpp_type]
        near = before + random.choice((-1, 1)) if isinstance(before, int) else 0
        return min(max(random.choice((*_NUMBERS, near)), least), most)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice(_REALS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return not before
    if field.cpp_type == field.CPPTYPE_ENUM:
        return random.choice([value.number for value in field.enum_type.values])
    if field.type == field.TYPE_BYTES:
        return mutate_bytes(before or b"1234", random)
    return random.choice((*_TEXTS, f"{before}{before}", str(before)[1:]))


def _field(model: ModelProto, random: Random, other: ModelProto) -> None:
    """Any field of any message: set, cleared, one of its elements removed, doubled, moved or taken from the other model."""
    message = random.choice(list(_messages(model)))
    field = random.choice(message.DESCRIPTOR.fields)
    there = getattr(message, field.name)
    if not field.is_repeated:
        if random.random() < 0.3:
            message.ClearField(field.name)
        elif field.type != field.TYPE_MESSAGE:
            setattr(message, field.name, _value(field, there, random))
        else:
            _copy_any(there, random, other)
        return
    what = random.randrange(4)
    if what == 0 and there:
        del there[random.randrange(len(there))]
    elif what == 1 and there:
        one = random.choice(there)
        there.extend([one] * random.choice((1, 2, 20)))
    elif field.type == field.TYPE_MESSAGE:
        _copy_any(there.add(), random, other)
    elif what == 2 and there:
        place = random.randrange(len(there))
        there[place] = _value(field, there[place], random)
    else:
        there.append(_value(field, None, random))


def _copy_any(target: Any, random: Random, other: ModelProto) -> None:
    """Some message of the same type from another model."""
    found = [one for one in _messages(other) if one.DESCRIPTOR is target.DESCRIPTOR]
    if found and (chosen := random.choice(found)).ByteSize() < 20_000:
        target.CopyFrom(chosen)


def _rewire(model: ModelProto, random: Random, other: ModelProto) -> None:
    """An operand or output by the name of something else."""
    nodes = _nodes(model)
    if not nodes:
        return
    names = [name for node in nodes for name in (*node.input, *node.output)] or ["x"]
    node = random.choice(nodes)
    ends = random.choice((node.input, node.output))
    if ends and random.random() < 0.8:
        ends[random.randrange(len(ends))] = random.choice((*names, *names, "", _NO_TEXT, "nowhere"))
    else:
        ends.append(random.choice((*names, "", "nowhere")))


def _operator(model: ModelProto, random: Random, other: ModelProto) -> None:
    if nodes := _nodes(model):
        node = random.choice(nodes)
        node.op_type = random.choice((random.choice(_OPERATORS), random.choice(nodes).op_type, "Nothing", _NO_TEXT))
        node.domain = random.choice((node.domain, node.domain, "", "ai.onnx", "ai.onnx.ml", "own"))


def _attribute(model: ModelProto, random: Random, other: ModelProto) -> None:
    nodes = _nodes(model)
    if not nodes:
        return
    node = random.choice(nodes)
    if node.attribute and random.random() < 0.6:
        attribute = random.choice(node.attribute)
        kind = random.choice(("i", "ints", "f", "floats", "s", "type"))
    else:
        attribute = node.attribute.add(name=random.choice(_ATTRIBUTES))
        kind = random.choice(("i", "ints", "f", "floats", "s", "t", "g", "ref"))
    if kind == "type":
        attribute.type = random.choice([*AttributeProto.AttributeType.values()])
    elif kind == "i":
        attribute.i, attribute.type = random.choice(_NUMBERS), AttributeProto.INT
    elif kind == "ints":
        attribute.ClearField("ints")
        attribute.ints.extend(random.choices(_NUMBERS, k=random.choice((0, 1, 2, 4, 9))))
        attribute.type = AttributeProto.INTS
    elif kind == "f":
        attribute.f, attribute.type = random.choice(_REALS), AttributeProto.FLOAT
    elif kind == "floats":
        attribute.floats.extend(random.choices(_REALS, k=random.choice((0, 1, 5))))
        attribute.type = AttributeProto.FLOATS
    elif kind == "s":
        attribute.s = random.choice((b"", b"SAME_UPPER", b"ij,jk->ik", b"...", b"\xff\xfe", b"a" * 500, b"reflect"))
        attribute.type = AttributeProto.STRING
    elif kind == "t":
        attribute.type = AttributeProto.TENSOR
        _copy_any(attribute.t, random, other)
    elif kind == "g":
        attribute.type = AttributeProto.GRAPH
        chosen = random.choice([one for one in _graphs(model) if isinstance(one, GraphProto)])
        attribute.g.ParseFromString(chosen.SerializeToString())  # by bytes, since it may hold the node
    else:
        attribute.ref_attr_name = random.choice(_ATTRIBUTES)


def _dims(model: ModelProto, random: Random, other: ModelProto) -> None:
    """Shapes that do not go with the data, or with anything."""
    kinds = TensorProto, onnx.TensorShapeProto
    found = [one for one in _messages(model) if isinstance(one, kinds)]
    if not found:
        return
    one = random.choice(found)
    if isinstance(one, TensorProto):
        if one.dims and random.random() < 0.6:
            one.dims[random.randrange(len(one.dims))] = random.choice(_NUMBERS)
        else:
            one.dims.append(random.choice(_NUMBERS))
        if random.random() < 0.2:
            one.data_type = random.randrange(28)
    elif one.dim and random.random() < 0.7:
        dim = random.choice(one.dim)
        if random.random() < 0.5:
            dim.dim_value = random.choice(_NUMBERS)
        else:
            dim.dim_param = random.choice(_TEXTS)
    else:
        one.dim.add(dim_value=random.choice(_NUMBERS))


def _external(model: ModelProto, random: Random, other: ModelProto) -> None:
    """Weights in another file, which is not there, not one, or shorter."""
    found = [one for one in _messages(model) if isinstance(one, TensorProto)]
    tensor = random.choice(found) if found else model.graph.initializer.add(name="w", data_type=1, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    if random.random() < 0.7:
        for name in ("raw_data", "float_data", "int64_data"):
            tensor.ClearField(name)
    locations = (
        "data.bin",
        "model.onnx",
        "gone.bin",
        ".",
        "..",
        "/etc/passwd",
        "../model.onnx",
        "a/" * 500,
        _NO_TEXT,
        "",
        "data.bin\0",
    )
    tensor.external_data.add(key="location", value=random.choice(locations))
    for key in random.sample(("offset", "length", "checksum", _NO_TEXT), random.randrange(4)):
        tensor.external_data.add(key=key, value=random.choice(("0", "-1", "8", str(2**40), str(2**70), "x", "", "1e3", "٣")))


def _opset(model: ModelProto, random: Random, other: ModelProto) -> None:
    what = random.randrange(4)
    if what == 0:
        model.ir_version = random.choice((0, 1, 3, 4, 8, 10, 13, 14, 99, -1, 2**62))
    elif what == 1 and model.opset_import:
        del model.opset_import[random.randrange(len(model.opset_import))]
    elif what == 2 and model.opset_import:
        random.choice(model.opset_import).version = random.choice((*range(1, 27), 0, -1, 1000, 2**62))
    else:
        model.opset_import.add(domain=random.choice(_DOMAINS), version=random.choice(_NUMBERS))


def _function(model: ModelProto, random: Random, other: ModelProto) -> None:
    """A local function, which a node calls; it may call itself, or have the name of an operator."""
    nodes = _nodes(model)
    if not nodes:
        return
    node, name = random.choice(nodes), random.choice(("f", "Relu", "Conv"))
    domain = random.choice(("own", "", "ai.onnx"))
    body = [helper.make_node(random.choice((name, "Relu")), ["a"], ["b"], domain=random.choice((domain, "")))]
    imports = [helper.make_opsetid(domain, 1), helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function(domain, name, ["a"], ["b"], body, imports, random.choice(([], ["axis"]))))
    node.op_type, node.domain = name, domain


def _order(model: ModelProto, random: Random, other: ModelProto) -> None:
    """Nodes in another order, or those of another model behind them."""
    graph = random.choice(_graphs(model))
    nodes = list(graph.node)
    if random.random() < 0.5:
        random.shuffle(nodes)
    else:
        nodes += list(other.graph.node)[:20]
    del graph.node[:]
    graph.node.extend(nodes)


_MUTATIONS: tuple[Callable[[ModelProto, Random, ModelProto], None], ...] = (
    _field, _field, _field, _field, _rewire, _rewire, _operator, _attribute, _attribute, _attribute, _dims, _dims, _external,
    _opset, _function, _order,
)  # fmt: skip
