"""Models from strangers: random damage, absurd nesting, names and numbers made to break things. All ends cleanly and soon."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import helper, numpy_helper

from rewriter import Model, RewriterError, load
from rewriter.core.graph.values import constant_array, elem_type, static_shape

FOLDER = Path(onnx.backend.test.__file__).parent / "data"
SEEDS = [path.read_bytes() for path in sorted(FOLDER.glob("*/*/model.onnx")) if path.stat().st_size < 5_000]
MUTATIONS = 300


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few random changes: overwritten, flipped, removed, inserted, repeated."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        i, way = rng.randrange(len(result)), rng.randrange(6)
        if way == 0:
            result[i] = rng.randrange(256)
        elif way == 1:
            result[i] ^= 1 << rng.randrange(8)
        elif way == 2 and len(result) > 30:
            del result[i : i + rng.randrange(1, 20)]
        elif way == 3:
            result[i:i] = rng.randbytes(rng.randrange(1, 8))
        elif way == 4:
            j = rng.randrange(len(result))
            result[i:i] = result[j : j + rng.randrange(1, 40)]
        else:
            result[i] = rng.choice(b"\x00\x01\x7f\x80\xff")
    return bytes(result)


def use(path: Path, out: Path) -> None:
    """Loads a model, looks at all of it, writes it as it is, edits it and writes it again."""
    model = load(path)
    waiting = [model.graph, *model.graph.functions]
    while waiting:
        graph = waiting.pop()
        for node in graph.nodes:
            assert isinstance(node.attrs, dict)
            for tensor in (*node.inputs, *node.outputs):
                elem_type(tensor), static_shape(tensor)
        waiting.extend(graph.subgraphs())
    for constant in model.graph.initializers:
        try:
            array = constant_array(constant)
        except RewriterError:
            continue
        assert array.shape == static_shape(constant)
    assert not model.edited
    model.save(out, force=True)
    assert out.read_bytes() == path.read_bytes()
    for node in model.graph.nodes:
        node.name += "!"
    model.save(out, force=True)


def test_random_damage(tmp_path: Path) -> None:
    rng, results = random.Random(20240601), {"good": 0, "refused": 0}
    for _ in range(MUTATIONS):
        (tmp_path / "m.onnx").write_bytes(damaged(rng.choice(SEEDS), rng))
        started = time.process_time()
        try:
            use(tmp_path / "m.onnx", tmp_path / "out.onnx")
            results["good"] += 1
        except RewriterError as error:
            assert "\n" not in str(error)
            results["refused"] += 1
        assert time.process_time() - started < 2
    assert min(results.values()) > 20


def nested(levels: int) -> onnx.ModelProto:
    model = onnx.ModelProto(ir_version=8)
    graph = model.graph
    for _ in range(levels):
        graph = graph.node.add(op_type="If").attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    graph.node.add(op_type="Neg", input=["x"], output=["deep"])
    return model


def test_deep_nesting(tmp_path: Path) -> None:
    assert not Model.from_proto(nested(30)).edited
    with pytest.raises(RewriterError, match="nested more than 34 levels"):
        Model.from_proto(nested(70))
    deep = b"\x0a\x00"
    for _ in range(2000):
        attribute = b"\x32" + varint(len(deep)) + deep + b"\xa0\x01\x05"
        node = b"\x2a" + varint(len(attribute)) + attribute
        deep = b"\x0a" + varint(len(node)) + node
    (tmp_path / "deep.onnx").write_bytes(b"\x3a" + varint(len(deep)) + deep)
    with pytest.raises(RewriterError, match="nested too deep"):
        load(tmp_path / "deep.onnx")


def varint(value: int) -> bytes:
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def test_an_edit_at_the_bottom_of_many_levels_takes_no_exponential_time() -> None:
    model = Model.from_proto(nested(30))
    graph = model.graph
    while graph.nodes[0].bodies:
        graph = graph.nodes[0].bodies["then_branch"]
    graph.nodes[0].op = "Abs"
    started = time.process_time()
    assert b"Abs" in model.to_proto().SerializeToString()
    assert time.process_time() - started < 1


@pytest.mark.parametrize("field", ["name", "op_type", "domain", "input", "output"])
def test_names_that_are_not_utf8(tmp_path: Path, field: str) -> None:
    node = onnx.NodeProto(name="A", op_type="A", domain="A", input=["A"], output=["A"])
    keep = onnx.NodeProto(op_type="Neg", input=["x"], output=["y"])
    getattr(keep, field).extend(["SPOT"]) if field in ("input", "output") else setattr(keep, field, "SPOT")
    proto = onnx.ModelProto(graph=onnx.GraphProto(node=[node, keep]))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString().replace(b"SPOT", b"S\xffOT"))
    with pytest.raises(RewriterError, match=r"the name 'S\\xffOT' in this model is not valid UTF-8"):
        load(tmp_path / "m.onnx")


def constant(**fields: object) -> onnx.TensorProto:
    return onnx.TensorProto(name="w", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (constant(data_type=1, dims=[3], raw_data=b"123"), "3 bytes, but its type and shape need 12"),
        (constant(data_type=1, dims=[2**31, 2**31, 2**31], raw_data=b"1234"), "which no array has"),
        (constant(data_type=1, dims=[2**62], float_data=[1.0]), "which no array has"),
        (constant(data_type=1, dims=[2], float_data=[1.0]), "do not fit"),
        (constant(data_type=1, dims=[-1], float_data=[1.0]), "negative dimension -1"),
        (constant(data_type=99, dims=[1], raw_data=b"1"), "unknown element type 99"),
        (constant(data_type=0, dims=[1], raw_data=b"1"), "unknown element type 0"),
        (constant(data_type=-3, dims=[1], raw_data=b"1"), "unknown element type -3"),
        (constant(data_type=22, dims=[3], raw_data=b"1"), "1 bytes, but its type and shape need 2"),
        (constant(data_type=8, dims=[3], string_data=[b"1"]), "1 strings, but its shape needs 3"),
        (constant(data_type=8, dims=[2**60]), "which no array has"),
        (constant(data_type=1, dims=[1], float_data=[1], segment=onnx.TensorProto.Segment(begin=0, end=1)), "do not fit"),
        (constant(data_type=1, dims=[1], data_location=1), "names no file"),
    ],
)
def test_weights_that_lie(tensor: onnx.TensorProto, message: str) -> None:
    model = Model.from_proto(onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor])), base_dir=".")
    assert not model.edited
    with pytest.raises(RewriterError, match=message):
        constant_array(model.graph.initializers[0])
    assert not model.edited


@pytest.mark.parametrize(
    ("indices", "dims", "message"),
    [
        (np.int64([5]), [2, 2], "index outside its shape"),
        (np.int64([-1]), [2, 2], "index outside its shape"),
        (np.int64([[0, 2]]), [2, 2], "index outside its shape"),
        (np.int64([[0, 0, 0]]), [2, 2], "wrong type or shape"),
        (np.int64([0, 1]), [2, 2], "wrong type or shape"),
        (np.int32([0]), [2, 2], "wrong type or shape"),
        (np.int64([0]), [2**20, 2**20], "too large"),
    ],
)
def test_sparse_weights_that_lie(indices: np.ndarray, dims: list[int], message: str) -> None:
    values = numpy_helper.from_array(np.float32([1]), "w")
    sparse = onnx.SparseTensorProto(values=values, indices=numpy_helper.from_array(indices), dims=dims)
    model = Model.from_proto(onnx.ModelProto(graph=onnx.GraphProto(sparse_initializer=[sparse])))
    with pytest.raises(RewriterError, match=message):
        constant_array(model.graph.initializers[0])


def test_loading_and_saving_grow_no_faster_than_the_model() -> None:
    def seconds(count: int) -> float:
        nodes = [helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"], name=f"n{i}") for i in range(count)]
        nodes += [helper.make_node("Add", ["t0", f"t{i}"], [f"s{i}"]) for i in range(count)]  # t0 has as many users
        proto = helper.make_model(helper.make_graph(nodes, "g", [], []))
        started = time.process_time()
        model = Model.from_proto(proto)
        model.graph.nodes[count // 2].name = "edited"
        model.to_proto()
        return time.process_time() - started

    small = min(seconds(1_000) for _ in range(3))
    assert min(seconds(10_000) for _ in range(2)) < 40 * small


@pytest.mark.parametrize("side", ["input", "output", "value_info"])
def test_a_name_declared_very_often(side: str) -> None:
    """Where each declaration costs as much as there are before it, this takes more than ten seconds."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }'
    )
    entry = helper.make_tensor_value_info({"input": "w", "output": "y", "value_info": "y"}[side], onnx.TensorProto.FLOAT, [1])
    getattr(model.graph, side).extend([entry] * 30_000)
    started = time.process_time()
    assert Model.from_proto(model).to_proto() == model
    assert time.process_time() - started < 3
