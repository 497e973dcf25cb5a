"""One test for each kind of information that graphsurgeon's own import and export lose, change or stumble over.

Each model is written three times: untouched, with every attribute, type and weight looked at, and with an edit somewhere else.
The first two must equal the model that was read, the third must differ in that edit alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import helper, numpy_helper

from rewriter import Model
from rewriter.core.graph.objects import new_node, new_variable

BASE = """
<ir_version: 10, opset_import: ["": 21, "local": 1]>
main (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> {
  [add] h = Add(x, w)
  [relu] y = Relu(h)
}
"""

KINDS: dict[str, Callable[[onnx.ModelProto], None]] = {}


def kind(build: Callable[[onnx.ModelProto], None]) -> Callable[[onnx.ModelProto], None]:
    KINDS[build.__name__] = build
    return build


def serialised(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def attribute(model: onnx.ModelProto, **fields: object) -> onnx.AttributeProto:
    found = model.graph.node[0].attribute.add(**fields)
    model.graph.node[0].domain = "local"
    return found


@kind
def model_doc_domain_version(m: onnx.ModelProto) -> None:
    m.doc_string, m.domain, m.model_version = "what it is", "org.example", 7


@kind
def model_metadata_with_a_repeated_key(m: onnx.ModelProto) -> None:
    for key, value in (("dictionary", "0123\n" * 2000), ("a", "1"), ("a", "2"), ("", "")):
        m.metadata_props.add(key=key, value=value)


@kind
def graph_metadata_and_doc(m: onnx.ModelProto) -> None:
    m.graph.doc_string = "graph"
    m.graph.metadata_props.add(key="k", value="v")


@kind
def node_metadata_and_doc(m: onnx.ModelProto) -> None:
    for node in m.graph.node:
        node.doc_string = "stack trace"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'conv']")


@kind
def node_overload_and_device(m: onnx.ModelProto) -> None:
    m.graph.node[0].overload = "second"
    m.graph.node[0].device_configurations.add(configuration_id="tp")
    m.configuration.add(name="tp", num_devices=2)


@kind
def value_info_of_intermediates(m: onnx.ModelProto) -> None:
    m.graph.value_info.append(helper.make_tensor_value_info("h", 1, ["N", 4]))


@kind
def value_info_of_outputs_initializers_and_strangers(m: onnx.ModelProto) -> None:
    for name in ("y", "w", "nobody"):
        m.graph.value_info.append(helper.make_tensor_value_info(name, 1, [4], doc_string="doc"))


@kind
def value_info_metadata_and_doc(m: onnx.ModelProto) -> None:
    info = helper.make_tensor_value_info("h", 1, None)
    info.doc_string = "doc"
    info.metadata_props.add(key="k", value="v")
    m.graph.value_info.append(info)


@kind
def denotations(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.denotation = "IMAGE"
    m.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"


@kind
def dimensions_without_value_or_with_a_strange_one(m: onnx.ModelProto) -> None:
    shape = m.graph.input[0].type.tensor_type.shape
    shape.dim[0].Clear()
    shape.dim.add().dim_param = ""
    shape.dim.add().dim_value = -1
    shape.dim.add().dim_value = 2**62


@kind
def unknown_rank_and_rank_zero(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.ClearField("shape")
    m.graph.output[0].type.tensor_type.shape.ClearField("dim")


@kind
def quantization_annotations(m: onnx.ModelProto) -> None:
    entry = m.graph.quantization_annotation.add(tensor_name="h")
    entry.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    entry.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="nobody")


@kind
def unused_initializers(m: onnx.ModelProto) -> None:
    m.graph.initializer.append(numpy_helper.from_array(np.arange(3), "unused"))


@kind
def initializers_that_are_inputs_between_real_ones(m: onnx.ModelProto) -> None:
    m.graph.input.insert(0, helper.make_tensor_value_info("w", 1, [4], doc_string="listed"))
    m.graph.input.append(helper.make_tensor_value_info("z", 1, [1]))


@kind
def initializer_metadata_and_doc(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].doc_string = "weights"
    m.graph.initializer[0].metadata_props.add(key="k", value="v")


@kind
def initializers_in_typed_fields(m: onnx.ModelProto) -> None:
    m.graph.initializer.append(helper.make_tensor("half", onnx.TensorProto.FLOAT16, [2], [1.0, 2.0]))
    m.graph.initializer.append(helper.make_tensor("double", onnx.TensorProto.DOUBLE, [1], [0.1]))
    m.graph.initializer.append(helper.make_tensor("unsigned", onnx.TensorProto.UINT64, [1], [2**63]))


@kind
def sub_byte_and_small_float_initializers(m: onnx.ModelProto) -> None:
    for number in (16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26):
        m.graph.initializer.append(helper.make_tensor(f"t{number}", number, [3], [1, 0, 1]))


@kind
def string_initializers(m: onnx.ModelProto) -> None:
    m.graph.initializer.append(onnx.TensorProto(name="s", data_type=8, dims=[2], string_data=[b"a", b"\xff\xfe"]))


@kind
def sparse_initializers(m: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.float32([1, 2]), "sparse")
    indices = numpy_helper.from_array(np.int64([0, 3]), "positions")
    m.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 2]))


@kind
def external_data_references(m: onnx.ModelProto) -> None:
    tensor = m.graph.initializer.add(name="outside", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "64"), ("checksum", "abc"), ("strange", "kept")):
        tensor.external_data.add(key=key, value=value)


@kind
def attribute_docs_and_order(m: onnx.ModelProto) -> None:
    attribute(m, name="b", type=onnx.AttributeProto.INT, i=1, doc_string="why")
    attribute(m, name="a", type=onnx.AttributeProto.FLOAT, f=0.1)


@kind
def empty_list_attributes(m: onnx.ModelProto) -> None:
    for name in ("INTS", "FLOATS", "STRINGS", "TENSORS", "GRAPHS"):
        attribute(m, name=name, type=onnx.AttributeProto.AttributeType.Value(name))


@kind
def strings_that_are_not_utf8(m: onnx.ModelProto) -> None:
    attribute(m, name="s", type=onnx.AttributeProto.STRING, s=b"\x80abc")
    attribute(m, name="ss", type=onnx.AttributeProto.STRINGS, strings=[b"ok", b"\xff"])


@kind
def floats_that_are_nan_or_minus_zero(m: onnx.ModelProto) -> None:
    attribute(m, name="f", type=onnx.AttributeProto.FLOAT, f=float("nan"))
    attribute(m, name="fs", type=onnx.AttributeProto.FLOATS, floats=[float("nan"), float("inf"), -0.0, 0.1])


@kind
def attribute_type_proto(m: onnx.ModelProto) -> None:
    attribute(m, name="tp", type=onnx.AttributeProto.TYPE_PROTO, tp=helper.make_tensor_type_proto(1, ["N"]))
    types = [helper.make_tensor_type_proto(7, [])]
    attribute(m, name="tps", type=onnx.AttributeProto.TYPE_PROTOS, type_protos=types)


@kind
def attribute_tensors(m: onnx.ModelProto) -> None:
    attribute(m, name="t", type=onnx.AttributeProto.TENSOR, t=numpy_helper.from_array(np.float16([1, 2]), "inner"))
    tensors = [numpy_helper.from_array(np.int64([1]), "first"), numpy_helper.from_array(np.int64([2]))]
    attribute(m, name="ts", type=onnx.AttributeProto.TENSORS, tensors=tensors)


@kind
def attribute_graphs(m: onnx.ModelProto) -> None:
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["i"])], "g", [], [helper.make_empty_tensor_value_info("i")])
    attribute(m, name="gs", type=onnx.AttributeProto.GRAPHS, graphs=[graph, graph])


@kind
def attribute_sparse_tensor(m: onnx.ModelProto) -> None:
    values, indices = numpy_helper.from_array(np.float32([1])), numpy_helper.from_array(np.int64([2]))
    sparse = helper.make_sparse_tensor(values, indices, [3])
    attribute(m, name="st", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse)
    attribute(m, name="sts", type=onnx.AttributeProto.SPARSE_TENSORS, sparse_tensors=[sparse])


@kind
def attribute_of_unknown_or_no_type(m: onnx.ModelProto) -> None:
    attribute(m, name="old", i=3)
    future = onnx.AttributeProto.FromString(b"\x0a\x06future\xa0\x01\x63\xa2\x06\x02hi")  # type 99 and a field nobody knows
    m.graph.node[0].attribute.append(future)


@kind
def attribute_named_twice(m: onnx.ModelProto) -> None:
    attribute(m, name="i", type=onnx.AttributeProto.INT, i=1)
    attribute(m, name="i", type=onnx.AttributeProto.INT, i=2)


@kind
def sequence_map_optional_types(m: onnx.ModelProto) -> None:
    tensor = helper.make_tensor_type_proto(1, ["N"])
    types = {
        "seq": helper.make_sequence_type_proto(tensor),
        "seqseq": helper.make_sequence_type_proto(helper.make_sequence_type_proto(tensor)),
        "map": helper.make_map_type_proto(7, tensor),
        "zipmap": helper.make_sequence_type_proto(helper.make_map_type_proto(7, tensor)),
        "opt": helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
        "sparse": helper.make_sparse_tensor_type_proto(1, [3]),
    }
    for name, of in types.items():
        m.graph.input.append(helper.make_value_info(name, of))
        m.graph.node.add(op_type="Identity", input=[name], output=[name + "_out"])
        m.graph.output.append(helper.make_value_info(name + "_out", of))


@kind
def outputs_without_a_type(m: onnx.ModelProto) -> None:
    m.graph.output[0].ClearField("type")


@kind
def element_types_nobody_knows(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.elem_type = 99
    m.graph.value_info.append(helper.make_tensor_value_info("h", 1, [1]))
    m.graph.value_info[0].type.tensor_type.elem_type = -5


@kind
def functions_with_overloads_defaults_and_docs(m: onnx.ModelProto) -> None:
    for overload in ("", "second"):
        f = helper.make_function("local", "F", ["a"], ["b"], [], [helper.make_opsetid("", 18)], ["plain"], overload=overload)
        node = f.node.add(op_type="LeakyRelu", input=["a"], output=["b"], doc_string="inner")
        node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha", doc_string="ref")
        f.attribute_proto.add(name="alpha", type=onnx.AttributeProto.FLOAT, f=0.5)
        f.doc_string = "function"
        f.metadata_props.add(key="k", value="v")
        f.value_info.append(helper.make_tensor_value_info("b", 1, ["N"]))
        m.functions.append(f)


@kind
def training_information(m: onnx.ModelProto) -> None:
    m.training_info.add().algorithm.name = "sgd"


@kind
def subgraph_details(m: onnx.ModelProto) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["h", "k"], ["s"])], "then", [], [helper.make_empty_tensor_value_info("s")]
    )
    body.doc_string = "body"
    body.initializer.append(numpy_helper.from_array(np.float32(1), "k"))
    body.initializer.append(numpy_helper.from_array(np.float32(2), "unused inside"))
    body.value_info.append(helper.make_tensor_value_info("h", 1, ["N", 4]))
    body.metadata_props.add(key="k", value="v")
    node = m.graph.node.add(op_type="If", input=["c"], output=["s1"])
    for name in ("then_branch", "else_branch"):
        node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH, g=body, doc_string="branch")


@kind
def bodies_that_hand_out_outer_tensors(m: onnx.ModelProto) -> None:
    body = helper.make_graph([], "pass", [], [helper.make_tensor_value_info("h", 1, None)])
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    body.output.extend(helper.make_value_info(name, sequence) for name in ("never defined", ""))
    m.graph.node.add(op_type="If", input=["c"], output=["r"]).attribute.add(name="g", type=onnx.AttributeProto.GRAPH, g=body)


@kind
def no_operator_sets_at_all(m: onnx.ModelProto) -> None:
    m.ClearField("opset_import")
    m.ClearField("ir_version")


@kind
def operator_set_under_its_long_name_and_twice(m: onnx.ModelProto) -> None:
    m.opset_import[0].domain = "ai.onnx"
    m.opset_import.add(domain="unused", version=3)
    m.opset_import.add(domain="unused", version=4)


@kind
def domain_written_or_not(m: onnx.ModelProto) -> None:
    m.graph.node[0].domain = ""
    m.graph.node[1].domain = "ai.onnx"


@kind
def fields_of_a_later_onnx(m: onnx.ModelProto) -> None:
    for message in (m, m.graph, m.graph.node[0], m.graph.initializer[0], m.graph.input[0]):
        message.MergeFromString(b"\xfa\x7f\x06future")


@kind
def docs_that_are_not_utf8(m: onnx.ModelProto) -> None:
    m.MergeFromString(b"\x32\x02\xff\xfe")  # doc_string
    m.graph.MergeFromString(b"\x52\x02\xff\xfe")
    m.graph.node[0].MergeFromString(b"\x32\x02\xff\xfe")


@kind
def names_defined_twice(m: onnx.ModelProto) -> None:
    m.graph.node.add(op_type="Neg", input=["h"], output=["h"])
    m.graph.node.add(op_type="Neg", input=["h"], output=["x"])
    m.graph.node.add(op_type="Neg", input=["w"], output=["w"], name="add")
    m.graph.initializer.append(numpy_helper.from_array(np.float32([9]), "w"))
    m.graph.input.append(m.graph.input[0])


@kind
def names_used_before_and_without_definition(m: onnx.ModelProto) -> None:
    m.graph.node.insert(0, helper.make_node("Add", ["h", "nowhere"], ["early"]))
    m.graph.node.insert(0, helper.make_node("Add", ["early", "late"], ["late"]))
    m.graph.output.append(helper.make_tensor_value_info("missing", 1, []))


@kind
def omitted_operands(m: onnx.ModelProto) -> None:
    m.graph.node.add(op_type="Clip", input=["x", "", "w"], output=["c"])
    m.graph.node.add(op_type="LSTM", input=["x", "w", "w", "", "", "", ""], output=["", "hidden", ""])
    m.graph.node.add(op_type="", input=[""], output=[])


@kind
def cycles(m: onnx.ModelProto) -> None:
    m.graph.node.add(op_type="Neg", input=["q"], output=["p"])
    m.graph.node.add(op_type="Neg", input=["p"], output=["q"])


def test_at_least_twenty_five_kinds() -> None:
    assert len(KINDS) >= 25


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def proto(request: pytest.FixtureRequest) -> onnx.ModelProto:
    model = onnx.parser.parse_model(BASE)
    request.param(model)
    return model


def look_at_everything(graph: gs.Graph) -> None:
    waiting = [graph, *graph.functions]
    while waiting:
        here = waiting.pop()
        for tensor in (*here.inputs, *here.outputs, *(t for n in here.nodes for t in (*n.inputs, *n.outputs))):
            assert (tensor.name, tensor.dtype, tensor.shape) is not None
        for node in here.nodes:
            assert isinstance(node.attrs, dict)
        waiting.extend(here.subgraphs())


def test_kept_when_nothing_is_touched(proto: onnx.ModelProto) -> None:
    assert serialised(Model.from_proto(proto).to_proto()) == serialised(proto)


def test_kept_when_everything_was_looked_at(proto: onnx.ModelProto) -> None:
    model = Model.from_proto(proto)
    look_at_everything(model.graph)
    for constant in model.graph.initializers:
        if "outside" not in constant.name:
            assert constant.values is not None
    assert serialised(model.to_proto()) == serialised(proto)
    assert serialised(model.proto) == serialised(proto)


def test_kept_when_something_else_is_edited(proto: onnx.ModelProto) -> None:
    model = Model.from_proto(proto)
    look_at_everything(model.graph)
    model.graph.nodes[1].name = "renamed"
    model.graph.nodes.append(new_node("Neg", None, "new", {}, [model.graph.inputs[0]], [new_variable("added")]))
    expected = onnx.ModelProto()
    expected.CopyFrom(proto)
    expected.graph.node[1].name = "renamed"
    expected.graph.node.add(op_type="Neg", name="new", input=[model.graph.inputs[0].name], output=["added"])
    assert serialised(model.to_proto()) == serialised(expected)


def test_kept_in_subgraphs_and_functions_when_they_are_edited() -> None:
    proto = onnx.parser.parse_model(BASE)
    subgraph_details(proto)
    functions_with_overloads_defaults_and_docs(proto)
    model = Model.from_proto(proto)
    model.graph.nodes[2].bodies["then_branch"].nodes[0].name = "inner"
    model.graph.functions[1].nodes[0].name = "inner"
    expected = onnx.ModelProto()
    expected.CopyFrom(proto)
    expected.graph.node[2].attribute[0].g.node[0].name = "inner"
    expected.functions[1].node[0].name = "inner"
    assert serialised(model.to_proto()) == serialised(expected)
