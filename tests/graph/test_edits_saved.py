"""What is edited is written, and only that: nodes, attributes, names, types, initializers, subgraphs, functions, imports."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import helper, numpy_helper

from rewriter import Model, RewriterError
from rewriter.core.graph.objects import Constant, Graph, Node, Variable, new_constant, new_node, new_variable

TEXT = """
<ir_version: 8, opset_import: ["": 17, "local": 1]>
main (float[N,4] x, bool c) => (float[N,4] y)
<float[4] w = {1, 2, 3, 4}, float[4] unused = {0, 0, 0, 0}, float[N,4] h> {
  [add] h = Add(x, w)
  [leaky] k = LeakyRelu<alpha = 0.5>(h)
  [if] y = If(c) <
    then_branch = then () => (t) { t = Add(k, w) },
    else_branch = else () => (e) <float one = {1}> { e = local.F<beta = 2>(k) }
  >
}
<domain: "local", opset_import: ["": 17]>
F <beta> (a) => (b) { b = Neg(a) }
"""


@pytest.fixture
def model() -> Model:
    return Model.from_proto(onnx.parser.parse_model(TEXT))


def written(model: Model) -> onnx.ModelProto:
    """The model as it is read back from what would be saved."""
    return onnx.ModelProto.FromString(model.to_proto().SerializeToString())


def names(protos: object) -> list[str]:
    return [proto.name for proto in protos]  # type: ignore[attr-defined]


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def test_nothing_is_edited_at_first(model: Model) -> None:
    assert not model.edited
    assert written(model) == model.proto


def test_operator_name_domain(model: Model) -> None:
    node = model.graph.nodes[0]
    node.op, node.name, node.domain = "Sub", "sub", "local"
    result = written(model).graph.node[0]
    assert (result.op_type, result.name, result.domain) == ("Sub", "sub", "local")
    assert written(model).graph.node[1:] == model.proto.graph.node[1:]


def test_inputs_edited_without_graphsurgeons_hooks(model: Model) -> None:
    list.__setitem__(model.graph.nodes[0].inputs, 0, model.graph.nodes[0].inputs[1])
    assert list(written(model).graph.node[0].input) == ["w", "w"]


def test_an_attribute_changed_added_removed(model: Model) -> None:
    node = model.graph.nodes[1]
    node.attrs["alpha"] = 0.25
    node.attrs["extra"] = [1, 2]
    assert attributes(written(model).graph.node[1]) == {"alpha": 0.25, "extra": [1, 2]}
    del node.attrs["alpha"]
    assert attributes(written(model).graph.node[1]) == {"extra": [1, 2]}
    node.attrs = {"alpha": 0.5}
    assert not model.edited


def test_a_list_attribute_edited_in_place() -> None:
    proto = helper.make_model(helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1])], "g", [], []))
    model = Model.from_proto(proto)
    model.graph.nodes[0].attrs["perm"][0] = 1
    assert attributes(written(model).graph.node[0]) == {"perm": [1, 1]}


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, "INT", 1),
        (np.int64(3), "INT", 3),
        (np.float32(0.5), "FLOAT", 0.5),
        ("a", "STRING", b"a"),
        (b"\xff", "STRING", b"\xff"),
        ((1, 2), "INTS", [1, 2]),
        (np.array([1, 2]), "INTS", [1, 2]),
        ([1, 0.5], "FLOATS", [1.0, 0.5]),
        (["a", b"\xff"], "STRINGS", [b"a", b"\xff"]),
        ([], "INTS", []),
        (np.float16, "INT", 10),
        (np.dtype("int64"), "INT", 7),
    ],
)
def test_values_of_new_attributes(model: Model, value: object, kind: str, expected: object) -> None:
    model.graph.nodes[0].attrs["new"] = value
    result = written(model).graph.node[0].attribute[0]
    assert onnx.AttributeProto.AttributeType.Name(result.type) == kind
    assert helper.get_attribute_value(result) == expected


def test_messages_as_values(model: Model) -> None:
    node = model.graph.nodes[0]
    node.attrs["t"] = new_constant("inner", np.float32([1]))
    node.attrs["plain"] = gs.Constant("p", np.int64([2]))
    node.attrs["type"] = helper.make_tensor_type_proto(1, [])
    node.attrs["types"] = [helper.make_tensor_type_proto(1, [])]
    node.attrs["tensors"] = [new_constant("a", np.float32([1]))]
    node.attrs["ref"] = gs.Node.AttributeRef("beta", float)
    node.attrs["raw"] = onnx.AttributeProto(name="other", type=onnx.AttributeProto.INT, i=4)
    found = {a.name: a for a in written(model).graph.node[0].attribute}
    assert numpy_helper.to_array(found["t"].t).tolist() == [1.0]
    assert found["plain"].t.data_type == onnx.TensorProto.INT64
    assert found["type"].tp.tensor_type.elem_type == 1
    assert len(found["types"].type_protos) == len(found["tensors"].tensors) == 1
    assert (found["ref"].ref_attr_name, found["ref"].type) == ("beta", onnx.AttributeProto.FLOAT)
    assert found["raw"].i == 4


def test_the_schema_says_what_a_bare_number_is(model: Model) -> None:
    model.graph.nodes[1].attrs["alpha"] = 1
    result = written(model).graph.node[1].attribute[0]
    assert (result.type, result.f) == (onnx.AttributeProto.FLOAT, 1.0)


@pytest.mark.parametrize("value", [None, object(), 2**70, {"a": 1}, [1, "a"], [[1]]])
def test_values_that_attributes_cannot_have(model: Model, value: object) -> None:
    model.graph.nodes[0].attrs["bad"] = value
    with pytest.raises(RewriterError, match="'bad' of Add cannot hold"):
        model.to_proto()


def test_a_renamed_tensor_is_renamed_everywhere(model: Model) -> None:
    proto = model.proto
    entry = proto.graph.quantization_annotation.add(tensor_name="h")
    entry.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model = Model.from_proto(proto)
    h, w = model.graph.nodes[0].outputs[0], model.graph.nodes[0].inputs[1]
    h.name, w.name = "h2", "w2"
    graph = written(model).graph
    assert list(graph.node[0].output) == list(graph.node[1].input) == ["h2"]
    assert [info.name for info in graph.value_info] == ["h2"]
    assert graph.quantization_annotation[0].tensor_name == "h2"
    assert graph.quantization_annotation[0].quant_parameter_tensor_names[0].value == "w2"
    assert graph.initializer[0].name == "w2"
    assert numpy_helper.to_array(graph.initializer[0]).tolist() == [1, 2, 3, 4]
    assert list(graph.node[2].attribute[0].g.node[0].input) == ["k", "w2"]


def test_an_omitted_operand_that_is_given_a_name() -> None:
    model = Model.from_proto(onnx.parser.parse_model("g (float[2] x) => (float[2] y) { y = Clip(x, , x) }"))
    model.graph.nodes[0].inputs[1].name = "least"
    assert list(written(model).graph.node[0].input) == ["x", "least", "x"]


@pytest.mark.parametrize("place", ["outputs", "op", "name", "domain", "attrs", "rules"])
def test_other_inputs_and_something_else(model: Model, place: str) -> None:
    """Of a node that reads other tensors than before, all else is looked at too."""
    node = model.graph.nodes[0]
    node.inputs[0] = model.graph.inputs[0].copy()
    node.inputs[0].name = "other"
    model.marks_nodes, model.graph.ir_version = True, 10
    if place == "outputs":
        node.outputs[0].name = "renamed"
    elif place == "attrs":
        node.attrs["axis"] = 1
    else:
        setattr(node, place, ("RULE1",) if place == "rules" else "New")
    result = written(model).graph.node[0]
    assert list(result.input) == ["other", "w"]
    before = model.proto.graph.node[0]
    assert (list(result.output) != list(before.output)) == (place == "outputs")
    assert (result.op_type != before.op_type) == (place == "op")
    assert (result.name != before.name) == (place == "name")
    assert (result.domain != before.domain) == (place == "domain")
    assert (len(result.attribute) == 1) == (place == "attrs")
    assert (len(result.metadata_props) == 1) == (place == "rules")


def test_removed_nodes_take_their_value_info_along(model: Model) -> None:
    entry = model.proto.graph.quantization_annotation.add(tensor_name="h")
    assert entry is not None
    model = Model.from_proto(model.proto)
    add, leaky = model.graph.nodes[0], model.graph.nodes[1]
    leaky.inputs[0] = model.graph.inputs[0]
    model.graph.nodes.remove(add)
    graph = written(model).graph
    assert list(graph.value_info) == list(graph.quantization_annotation) == []
    assert [node.name for node in graph.node] == ["leaky", "if"]


def test_types_are_edited_field_by_field(model: Model) -> None:
    model.proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.proto.graph.input[0].doc_string = "picture"
    model = Model.from_proto(model.proto)
    x, h, y = model.graph.inputs[0], model.graph.nodes[0].outputs[0], model.graph.outputs[0]
    x.shape[0] = 8
    h.dtype = np.float16
    y.shape = None
    graph = written(model).graph
    dim = graph.input[0].type.tensor_type.shape.dim[0]
    assert (dim.dim_value, dim.denotation, graph.input[0].doc_string) == (8, "DATA_BATCH", "picture")
    assert graph.value_info[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert len(graph.value_info[0].type.tensor_type.shape.dim) == 2
    assert not graph.output[0].type.tensor_type.HasField("shape")
    x.shape = ["N", 4, None]
    dims = written(model).graph.input[0].type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == ["dim_param", "dim_value", None]
    x.dtype = onnx.TensorProto.BFLOAT16
    assert written(model).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16


def test_a_new_tensor_of_a_known_type_gets_value_info(model: Model) -> None:
    x = model.graph.inputs[0]
    for tensor in (new_variable("typed", np.float32, ["N", 4]), gs.Variable("plain", np.int64, [1]), new_variable("unknown")):
        model.graph.nodes.append(new_node("Neg", None, "", {}, [x], [tensor]))
    infos = written(model).graph.value_info
    assert [(i.name, i.type.tensor_type.elem_type) for i in infos] == [("h", 1), ("typed", 1), ("plain", 7)]


def test_an_output_made_by_another_tensor_of_its_name_keeps_its_declaration(model: Model) -> None:
    new = gs.Variable("y")
    model.graph.nodes[2].outputs = [new]
    model.graph.outputs = [new]
    assert not model.edited


def test_inputs_and_outputs_added_and_removed(model: Model) -> None:
    graph = model.graph
    graph.inputs.insert(0, gs.Variable("first", np.int64, ["M"]))
    graph.outputs.append(graph.nodes[0].outputs[0])
    result = written(model).graph
    assert [info.name for info in result.input] == ["first", "x", "c"]
    assert result.output[1] == result.value_info[0] == model.proto.graph.value_info[0]
    graph.inputs = graph.inputs[2:]
    assert [info.name for info in written(model).graph.input] == ["c"]


# --- subgraphs and functions -----------------------------------------------------------------------------------------------


def test_outer_tensors_know_their_users_in_subgraphs(model: Model) -> None:
    k = model.graph.nodes[1].outputs[0]
    assert [node.op for node in k.outputs] == ["Add", "F"]
    assert model.graph.nodes[2].bodies["then_branch"].nodes[0].inputs[0] is k


def test_a_new_subgraph(model: Model) -> None:
    plain = gs.Graph(nodes=[], outputs=[model.graph.nodes[1].outputs[0]], name="new")
    constant = gs.Constant("two", np.array(2, np.float32))
    plain.nodes.append(gs.Node("Add", inputs=[model.graph.inputs[0], constant], outputs=[gs.Variable("sum")]))
    model.graph.nodes[2].attrs["then_branch"] = plain
    result = written(model).graph.node[2].attribute
    assert names(result) == ["then_branch", "else_branch"]
    assert names(result[0].g.initializer) == ["two"]
    assert result[1] == model.proto.graph.node[2].attribute[1]


def test_function_edits(model: Model) -> None:
    function = model.graph.functions[0]
    function.nodes[0].inputs[0] = new_constant("zero", np.float32(0))
    function.attrs["beta"] = 3
    function.opset = 18
    result = written(model).functions[0]
    assert [node.op_type for node in result.node] == ["Constant", "Neg"]
    assert list(result.attribute) == []
    assert result.attribute_proto[0].i == 3
    assert result.opset_import[0].version == 18
    assert written(model).opset_import == model.proto.opset_import


def test_functions_added_and_removed(model: Model) -> None:
    a, b = gs.Variable("a"), gs.Variable("b")
    new = gs.Function("G", "local", [gs.Node("Neg", inputs=[a], outputs=[b])], [a], [b], opset=17)
    model.graph.functions.append(new)
    assert names(written(model).functions) == ["F", "G"]
    assert written(model).functions[1].opset_import[0].version == 17
    model.graph.functions.clear()
    assert names(written(model).functions) == []


# --- the model -------------------------------------------------------------------------------------------------------------


def test_operator_sets(model: Model) -> None:
    model.graph.opset = 19
    assert [(o.domain, o.version) for o in written(model).opset_import] == [("", 19), ("local", 1)]
    model.graph.import_domains.append(helper.make_opsetid("com.acme", 2))
    assert [(o.domain, o.version) for o in written(model).opset_import][2] == ("com.acme", 2)
    model.graph.nodes.append(new_node("T", "ai.onnx.ml", "", {}, [], []))
    model.graph.nodes.append(new_node("T", "else.where", "", {}, [], []))
    assert [(o.domain, o.version) for o in written(model).opset_import][3:] == [("ai.onnx.ml", 3), ("else.where", 1)]


@pytest.mark.parametrize("imports", ['["local": 1]', '["": 17]', "[]"])
def test_a_renamed_node_asks_for_no_operator_set_that_its_model_does_not_import(imports: str) -> None:
    model = Model.from_proto(onnx.parser.parse_model(TEXT.replace('["": 17, "local": 1]', imports, 1)))
    inner = model.graph.nodes[2].attrs["else_branch"].nodes[0]
    for node in (*model.graph.nodes, inner):
        node.name = f"{node.name}_renamed"
    result = written(model)
    assert names(result.graph.node) == ["add_renamed", "leaky_renamed", "if_renamed"]
    assert result.opset_import == model.proto.opset_import
    inner.domain = "com.acme"
    assert [entry.domain for entry in written(model).opset_import][-1] == "com.acme"


def test_model_fields(model: Model) -> None:
    model.graph.ir_version = 9
    model.graph.producer_name, model.graph.producer_version = "rewriter", "1"
    model.graph.name, model.graph.doc_string, model.graph.model_doc_string = "net", "text", "of the model"
    model.metadata["rewriter"] = "digest"
    result = written(model)
    assert (result.ir_version, result.producer_name, result.producer_version) == (9, "rewriter", "1")
    assert (result.graph.name, result.graph.doc_string, result.doc_string) == ("net", "text", "of the model")
    assert result.metadata_props == [onnx.StringStringEntryProto(key="rewriter", value="digest")]


def test_metadata_is_edited_in_place() -> None:
    proto = onnx.parser.parse_model(TEXT)
    for key, value in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")):
        proto.metadata_props.add(key=key, value=value)
    model = Model.from_proto(proto)
    assert model.metadata == {"a": "3", "b": "2", "c": "4"}
    model.metadata["a"] = "new"
    del model.metadata["b"]
    assert [(e.key, e.value) for e in written(model).metadata_props] == [("a", "1"), ("a", "new"), ("c", "4")]


def test_names_that_are_no_text(model: Model) -> None:
    model.graph.nodes[0].name = "\udcff"
    with pytest.raises(RewriterError, match="cannot be written"):
        model.to_proto()


def test_another_graph_altogether(model: Model) -> None:
    x, y = gs.Variable("x", np.float32, [1]), gs.Variable("y", np.float32, [1])
    model.graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y], opset=13, ir_version=8)
    result = written(model)
    onnx.checker.check_model(result)
    assert [node.op_type for node in result.graph.node] == ["Neg"]


# --- graphsurgeon's own functions ------------------------------------------------------------------------------------------


def test_graphsurgeon_scripts_work(model: Model) -> None:
    graph = model.graph
    assert isinstance(graph, Graph)
    assert isinstance(graph.nodes[0], Node)
    graph.cleanup().toposort(mode="nodes")  # the sorting of functions loops for ever over an If
    assert names(written(model).graph.node) == names(model.proto.graph.node)
    [new] = graph.layer(op="Neg", inputs=[graph.inputs[0]], outputs=["neg"])
    graph.outputs.append(new)
    new.dtype, new.shape = np.float32, ["N", 4]
    onnx.checker.check_model(written(model))
    graph.cleanup()
    copy = graph.copy()
    assert [node.op for node in copy.nodes] == ["Add", "LeakyRelu", "If", "Neg"]


def test_constructors_are_graphsurgeons(model: Model) -> None:
    scale = Constant("scale", np.ones(4, np.float32))
    made = Variable("made", np.float32, ["N", 4])
    model.graph.nodes.append(Node("Mul", "mul", {}, [model.graph.inputs[0], scale], [made]))
    model.graph.outputs.append(made)
    assert made.inputs[0] is model.graph.inputs[0].outputs[-1] is scale.outputs[0] is model.graph.nodes[-1]
    result = written(model).graph
    assert (result.node[-1].op_type, result.initializer[-1].name, result.output[-1].name) == ("Mul", "scale", "made")


def test_graphsurgeons_export_changes_nothing(model: Model) -> None:
    model.graph.initializers[0].name = "renamed"
    gs.export_onnx(model.graph)
    model.graph.initializers[0].name = "w"
    assert not model.edited


def test_copies_of_nodes_keep_what_else_their_message_says(model: Model) -> None:
    model.proto.graph.node[0].metadata_props.add(key="k", value="v")
    model = Model.from_proto(model.proto)
    add = model.graph.nodes[0]
    model.graph.nodes.insert(1, add.copy(list(add.inputs), [new_variable("twin")]))
    twin = written(model).graph.node[1]
    assert (twin.op_type, list(twin.output), len(twin.metadata_props)) == ("Add", ["twin"], 1)


def test_a_tensor_can_be_found_among_thousands_by_identity() -> None:
    first, second = new_variable("same"), new_variable("same")
    assert first != second
    assert len({first, second}) == 2


def test_a_node_out_of_a_graph_that_is_gone_has_the_names_it_got() -> None:
    model = Model.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (bool p, float[2] x) => (float[2] y) '
            "{ y = If (p) <then_branch = t () => (float[2] a) { a = Abs (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }> }"
        )
    )
    graph = model.graph
    (choice,) = graph.nodes
    (moved,) = choice.bodies["then_branch"].nodes
    moved.outputs[0].name = "y"
    graph.nodes[:] = [moved]
    graph.outputs[:] = moved.outputs
    assert [node.output[0] for node in model.to_proto().graph.node] == ["y"]
