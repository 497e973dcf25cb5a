"""What is read from the bytes of nodes, and written into them, is what protobuf's own messages say, whatever stands in them."""

from __future__ import annotations

import onnx
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import helper

from rewriter import Model
from rewriter.core.graph.gs_lists import makers, users
from rewriter.core.onnxfile.model_file import RawGraph, RawModel, columns, raw_message, raw_model, with_inputs
from rewriter.core.onnxfile.wire import varint

TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "\0", "\1", "\n", "*", "t\x01\0", "x" * 127, "y" * 128, "é" * 300]), st.text(max_size=6)
)
LISTS = st.lists(TEXTS, max_size=4)


@st.composite
def nodes(draw: st.DrawFn) -> onnx.NodeProto:
    node = onnx.NodeProto(input=draw(LISTS), output=draw(LISTS))
    for field in ("name", "op_type", "domain", "doc_string"):
        text = draw(st.none() | TEXTS)
        if text is not None:
            setattr(node, field, text)
    if draw(st.booleans()):
        node.attribute.append(helper.make_attribute("bytes", draw(st.binary(max_size=40))))
    return node


def encoded(protos: list[onnx.NodeProto]) -> list[bytes]:
    return [proto.SerializeToString(deterministic=True) for proto in protos]


@given(st.lists(nodes(), max_size=8))
@example(
    [onnx.NodeProto(input=[chr(code)], output=["a", chr(code)]) for code in range(40)]
)  # no single letter is left as a mark
@example([onnx.NodeProto(op_type="A", output=["a"]), onnx.NodeProto(op_type="B", output=["b"], domain="")])
def test_columns(protos: list[onnx.NodeProto]) -> None:
    read = columns(encoded(protos))
    assert list(read.ops) == [proto.op_type for proto in protos]
    assert list(read.names) == [proto.name for proto in protos]
    assert list(read.domains) == [proto.domain if proto.HasField("domain") else None for proto in protos]
    for column, field in ((read.inputs, "input"), (read.outputs, "output")):
        assert [list(part) for part in column.parts(column.names)] == [list(getattr(proto, field)) for proto in protos]


@given(nodes(), LISTS)
def test_other_inputs(proto: onnx.NodeProto, inputs: list[str]) -> None:
    data = with_inputs(proto.SerializeToString(), len(proto.input), inputs)
    del proto.input[:]
    proto.input.extend(inputs)
    assert data == proto.SerializeToString()


def test_a_shell_is_written_as_the_message() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> main (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] h>'
        "{ h = Add(x, w) y = Selu<alpha = 0.5>(h) }"
    )
    model.doc_string, model.graph.doc_string = "of the model", "of the graph"
    model.functions.add(name="F", domain="local")
    model.training_info.add()
    model.MergeFromString(b"\xf8\xff\x03\x01")  # a field of a newer ONNX
    raw = raw_message(RawModel, model)
    assert list(raw.graph.node) == encoded(list(model.graph.node))
    assert raw.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)
    assert raw_message(RawGraph, model.graph).value_info[0] == model.graph.value_info[0]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["", "x", "a", "b", "c"]), max_size=3),
            st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=2),
        )
    )
)
def test_a_use_means_what_it_means_one_by_one(rows: list[tuple[list[str], list[str]]]) -> None:
    """Whether or not the names of a graph can be looked up at once."""
    protos = [helper.make_node("Op", inputs, outputs) for inputs, outputs in rows]
    inputs = [helper.make_tensor_value_info("x", 1, [2])]
    graph = Model.from_proto(helper.make_model(helper.make_graph(protos, "g", inputs, []))).graph
    for i, node in enumerate(graph.nodes):
        assert all(tensor.name == name for tensor, name in zip(node.inputs, rows[i][0], strict=True))
        assert all(any(maker is node for maker in makers(tensor)) for tensor in node.outputs)
        for tensor in node.inputs:
            before = [j for j in range(i) if tensor.name and tensor.name in rows[j][1]]
            later = [j for j in range(i, len(rows)) if tensor.name and tensor.name in rows[j][1]]
            expected = before[-1:] or later[:1]
            assert [j for j, other in enumerate(graph.nodes) if any(other is maker for maker in makers(tensor))] == expected
            assert sum(user is node for user in users(tensor)) == sum(operand is tensor for operand in node.inputs)
            assert tensor.inputs == list(makers(tensor))
            assert tensor.outputs == list(users(tensor))


@given(st.lists(nodes(), max_size=5))
def test_a_model_that_others_wrote(protos: list[onnx.NodeProto]) -> None:
    """Fields in another order than protobuf's, and one that is given twice."""
    whole = helper.make_model(helper.make_graph(protos, "g", [], []))
    turned = [onnx.NodeProto(op_type="Op", name="n").SerializeToString() + data for data in encoded(protos)]
    graph = b"".join(b"\x0a" + varint(len(data)) + data for data in turned)
    data = b"\x3a" + varint(len(graph)) + graph + whole.SerializeToString()
    assert raw_model(data).SerializeToString() == onnx.ModelProto.FromString(data).SerializeToString()
