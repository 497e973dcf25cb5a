"""`rewriter edit`: each edit does what it says, in order, and what is refused leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.app.cli.options import EDITS
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model, load
from rewriter.workbench.surgery.edition import KINDS, TOGETHER, TYPE, edit
from tests.cli.call import MODELS, Call
from tests.surgery import texts

Edit = Callable[..., onnx.ModelProto]


@pytest.fixture
def edited(call: Call, tmp_path: Path) -> Edit:
    """The model of a text after edits by the command."""

    def run(text: str, *options: str) -> onnx.ModelProto:
        net, out = texts.written(tmp_path, text), tmp_path / "out.onnx"
        done = call("edit", net, *options, "-o", out, "--force")
        assert done.code == 0, done.err
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        return model

    return run


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def shape(info: onnx.ValueInfoProto) -> list[object]:
    return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]


def test_names_change_wherever_they_are_read(edited: Edit) -> None:
    model = edited(
        texts.CAPTURES, "--rename", "scaled=first", "--rename", r"/^(x|y)$/my_\1/", "--rename", "w=weight", "--no-stamp"
    )
    text = onnx.printer.to_text(model)
    assert "scaled" not in text and "shifted" in text
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("my_x", "my_y")
    bodies = [attribute.g for node in model.graph.node for attribute in node.attribute]
    assert [list(body.node[0].input) for body in bodies] == [["first", "weight"], ["shifted"]] or [
        list(body.node[0].input) for body in bodies
    ] == [["shifted"], ["first", "weight"]]


def test_devices_share_tensors_by_their_names_now() -> None:
    text = """<ir_version: 11, opset_import: ["": 17]> g (float[2] x) => (float[2] y, float[2] z) {
        h = Relu(x)  y = Add(x, h)  [last] z = Neg(h) }"""
    proto = texts.parsed(text)
    proto.configuration.add(name="pair", num_devices=2)
    for node in proto.graph.node:
        device = node.device_configurations.add(configuration_id="pair")
        for name in (*node.input, *node.output, ""):
            device.sharding_spec.add(tensor_name=name)
    model = Model.from_proto(proto)
    edit(model, [("rename", "h=x2"), ("rename", "x=h"), ("insert-after", "x2=Identity(_)")])
    edit(model, [("insert-after", "h=Sigmoid(_)")])
    for node in model.to_proto().graph.node:
        named = [spec.tensor_name for device in node.device_configurations for spec in device.sharding_spec]
        assert named == ([*node.input, *node.output, ""] if named else []), node
        assert bool(named) == (node.op_type in ("Relu", "Add", "Neg"))


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/model.onnx"))[::12], ids=lambda path: path.parent.name)
def test_renamed_and_named_back_it_has_the_bytes(path: Path) -> None:
    model = load(path)
    edit(model, [("rename", r"/^(.*)$/there_\1/")])
    there = Model.from_proto(model.to_proto())
    edit(there, [("rename", "/^there_//")])
    assert there.to_proto().SerializeToString(deterministic=True) == path.read_bytes()


def test_outputs_come_and_go(edited: Edit) -> None:
    model = edited(texts.CHAIN, "--add-output", "op:Conv", "--drop-output", "m")
    assert [info.name for info in model.graph.output] == ["y", "a"]
    assert shape(model.graph.output[1]) == [1, 4, 8, 8]
    assert ops(model) == ["Conv", "Relu", "Sigmoid"]


def test_nodes_are_taken_out(edited: Edit) -> None:
    assert ops(edited(texts.CHAIN, "--drop", "act")) == ["Conv", "GlobalAveragePool", "Flatten", "Sigmoid"]
    model = edited(texts.CHAIN, "--drop", "last")
    assert list(model.graph.node[1].output) == ["y"] and list(model.graph.node[2].input) == ["y"]
    model = edited(texts.CHAIN, "--add-output", "a", "--drop", "act", "--with-children")
    assert (ops(model), [info.name for info in model.graph.output]) == (["Conv"], ["a"])
    model = edited('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }', "--drop", "y")
    assert ops(model) == ["Identity"]


def test_nodes_are_put_in(edited: Edit) -> None:
    model = edited(texts.CHAIN, "--insert-after", "x=Mul(_, 0.5)", "--insert-after", "y=Softmax<axis=1>")
    assert ops(model)[0] == "Mul" and ops(model)[-1] == "Softmax"
    assert list(model.graph.node[-1].output) == ["y"]
    assert model.graph.initializer[-1].data_type == onnx.TensorProto.FLOAT
    model = edited(texts.CHAIN, "--insert-after", "x=Mul(_, 0.0039)", "--dtype", "x=uint8")
    readers = [node.op_type for node in model.graph.node if "x" in node.input]
    assert (model.graph.input[0].type.tensor_type.elem_type, readers) == (onnx.TensorProto.UINT8, ["Cast"])
    model = edited(texts.CHAIN, "--insert-after", "a=Cast<to=10>")
    assert {info.type.tensor_type.elem_type for info in model.graph.output} == {onnx.TensorProto.FLOAT16}


def test_operators_and_attributes(edited: Edit) -> None:
    assert "Tanh" in ops(edited(texts.CHAIN, "--replace", "Relu=Tanh"))
    model = edited(texts.CHAIN, "--set", "conv.pads=[1,1,1,1]")
    assert shape(model.graph.output[0]) == [1, 4, 10, 10]
    assert list(edited(texts.CHAIN, "--set", "flat.axis=1", "--set", "flat.axis=none").graph.node[3].attribute) == []


def test_shapes_are_followed(edited: Edit) -> None:
    model = edited(texts.CHAIN, "--shape", "x:N,3,H,W")
    assert [shape(info) for info in model.graph.output] == [["N", 4, "H", "W"], ["N", 4]]
    model = edited(texts.CHAIN, "--shape", "x:4,3,16,16")
    assert [shape(info) for info in model.graph.output] == [[4, 4, 16, 16], [4, 4]]
    two = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1,6] a, float[1,6] b) => (float[1,2,3] y) <int64[3] s = {1, 2, 3}> { c = Add(a, b)  y = Reshape(c, s) }"""
    assert shape(edited(two, "--batch", "N").graph.output[0]) == ["N", 2, 3]
    named = """<ir_version: 8, opset_import: ["": 17]>
    g (float[N,6] a, float[N,6] b) => (float[N,6] y) { y = Add(a, b) }"""
    model = edited(named, "--shape", "a:4,6")
    assert [shape(info) for info in (*model.graph.input, *model.graph.output)] == [[4, 6]] * 3


def test_types_and_values_of_inputs(edited: Edit) -> None:
    model = edited(texts.CHAIN, "--dtype", "x=uint8", "--dtype", "y=float16")
    assert (ops(model)[0], ops(model)[-1]) == ("Cast", "Cast")
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    model = edited(texts.CHAIN, "--constant", "x=0.5")
    assert not model.graph.input and model.graph.initializer[-1].name == "x"
    model = edited(texts.CHAIN, "--free", "w")
    assert [info.name for info in model.graph.input] == ["x", "w"] and not model.graph.initializer


def test_weights_from_files(edited: Edit, tmp_path: Path) -> None:
    weights = np.arange(12, dtype=np.float32).reshape(4, 3, 1, 1)
    np.savez(tmp_path / "w.npz", w=weights)
    model = edited(texts.CHAIN, "--set-weight", f"w=@{tmp_path / 'w.npz'}")
    assert np.array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weights)


def test_what_is_said_beside_the_graph(edited: Edit) -> None:
    model = edited(texts.CHAIN, "--doc", "hello", "--meta", "a=b", "--meta", "c=d", "--meta", "a=", "--no-stamp")
    assert (model.doc_string, [(entry.key, entry.value) for entry in model.metadata_props]) == ("hello", [("c", "d")])
    model = edited(texts.CHAIN, "--doc", "hello", "--meta", "c=d", "--strip", "doc,metadata,names,value_info", "--no-stamp")
    assert not model.doc_string and not model.metadata_props and not any(node.name for node in model.graph.node)


SAYING = """
<ir_version: 10, opset_import: ["": 17, "local": 1]>
g (float[2] x) => (float[2] y) {
    k = Constant <value: tensor = float[2] k {1, 2}> ()
    s = Constant <value_floats = [1.0, 2.0]> ()
    t = Add(k, s)
    y = local.f(x, t)
}
<domain: "local", opset_import: ["": 17]>
f <alpha: float = 1.0> (u, v) => (r) { e = Elu <alpha: float = @alpha> (u)  r = Add(e, v) }
"""


def test_texts_go_wherever_they_are(call: Call, tmp_path: Path) -> None:
    model, out = texts.parsed(SAYING), tmp_path / "out.onnx"
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    places = onnx.numpy_helper.from_array(np.zeros(1, np.int64), "places")
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [2]))
    model.training_info.add().algorithm.node.add(op_type="Relu", input=["x"], output=["z"])
    constant, function = model.graph.node[0].attribute[0], model.functions[0]
    for message in (constant, constant.t, function.attribute_proto[0], function.node[0].attribute[0]):
        message.doc_string = "a secret"
    for message in (model.graph.sparse_initializer[0].values, model.training_info[0].algorithm.node[0]):
        message.doc_string = "a secret"
    constant.t.metadata_props.add(key="of", value="a secret")
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    done = call("edit", tmp_path / "net.onnx", "--strip", "doc,metadata", "-o", out, "--no-stamp")
    assert done.code == 0, done.err
    assert b"secret" not in out.read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rename", "a=b"], "tensor 'a' cannot be named 'b'"),
        (["--rename", "/./z/"], "cannot be named"),
        (["--rename", "/(/z/"], "unterminated"),
        (["--rename", "nothing=b"], "there is no tensor or node 'nothing'"),
        (["--drop-output", "y,m"], "no output left"),
        (["--drop", "act", "--with-children"], "--add-output"),
        (["--insert-after", "a=Relu(("], "no operator"),
        (["--insert-after", "a=NoSuchOperator"], "rejects the result"),
        (["--replace", "Gemm=MatMul"], "there is no node or operator 'Gemm'"),
        (["--rename", "zzz=b"], "`rewriter show MODEL --nodes` lists them"),
        (["--set", "flat.axis=x"], "'axis' is an integer, but 'x' is not"),
        (["--set", "conv.pads=abc"], "'pads' is a list of integers, but 'abc' is not"),
        (["--set", "conv.ceil=none"], "'conv' has no attribute 'ceil'; there is "),
        (["--doc", "x", "--with-children"], "--with-children needs --drop"),
        (["--type", "foo:float"], "--type: there is no tensor 'foo'"),
        (["--type", "a:float[1]"], "--type: 'a' is no new output; --add-output a makes it one"),
        (["--batch", "0"], "a batch of 0 has no data"),
        (["--batch", "-1"], "--batch: '-1' is no dimension"),
        (["--shape", "x:N,3,8"], "has 4 dimensions, not 3"),
        (["--shape", "y:N,4,8,8"], "there is no input 'y'"),
        (["--shape", "x:1,4,8,8"], "Conv 'conv'"),
        (["--dtype", "x=nothing"], "no element type 'nothing'"),
        (["--constant", "x=[1, 2]"], "the value has [2]"),
        (["--set-weight", "w=@missing.npy"], "missing.npy"),
        (["--free", "a"], "is no initializer"),
        (["--strip", "weights"], "cannot be stripped"),
        ([], "--help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line_says_what_is_wrong(call: Call, tmp_path: Path, options: list[str], words: str) -> None:
    net, out = texts.written(tmp_path, texts.CHAIN), tmp_path / "out.onnx"
    done = call("edit", net, *options, "-o", out)
    assert (done.code, done.err.count("\n"), out.exists()) == (2, 1, False)
    assert words in done.err


@pytest.mark.parametrize("option", [["--dtype", "x=float16"], ["--insert-after", "x=Neg(_)"]], ids=lambda option: option[0])
def test_nothing_can_stand_between_an_input_and_itself(call: Call, tmp_path: Path, option: list[str]) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }'
    done = call("edit", texts.written(tmp_path, text), *option, "-o", tmp_path / "out.onnx")
    assert done.code == 2 and f"{option[0]}: 'x' is an input and also an output" in done.err


def test_a_batch_that_is_mixed_is_refused(call: Call, tmp_path: Path) -> None:
    """Shapes flow, numbers do not: two batches at once do not give what each gives."""
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,4] x) => (float[2,4] y)
           <int64[2] s = {1, 8}, int64[2] t = {2, 4}> {
             r = Reshape(x, s)  n = MeanVarianceNormalization<axes = [1]>(r)  y = Reshape(n, t) }""",
    )
    done = call("edit", net, "--batch", "N", "-o", tmp_path / "o.onnx")
    assert done.code == 2 and "with twice the batch" in done.err and not (tmp_path / "o.onnx").exists()


def test_a_node_of_a_body_is_not_replaced_by_name(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, bool c) => (float[4] y) {
      y = If(c) <then_branch = t () => (float[4] a) { [inner] a = Relu(x) }, else_branch = e () => (float[4] b) { b = Neg(x) }> }"""
    done = call("edit", texts.written(tmp_path, text), "--replace", "inner=Abs", "--dry-run")
    assert done.code == 2 and "'inner' is inside of If.then_branch; only the main graph" in done.err


def test_a_batch_of_random_numbers_is_not_called_the_same(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) {
      r = RandomNormalLike(x)  y = Add(x, r) }"""
    done = call("edit", texts.written(tmp_path, text), "--batch", "N", "-o", tmp_path / "o.onnx")
    assert done.code == 0 and "computes the same" not in done.out
    assert "the outputs were not compared: the outputs of the original differ from run to run" in done.out + done.err


def test_an_added_output_that_numpy_cannot_hold(call: Call, tmp_path: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 9, opset_import: ["": 19]>
  g (float[2] x) => (float[2] y) { b = Cast<to=16>(x)  y = Cast<to=1>(b) }
""",
    )
    done = call("edit", net, "--add-output", "b", "-o", tmp_path / "out.onnx")
    assert done.code == 0 and "runs, and computes the same" in done.out, done.err
    done = call("split", net, "--at", "b", "-o", tmp_path / "part{}.onnx")
    assert done.code == 0 and "'b' has an element type that NumPy lacks" in done.out, done.err


TRAINED = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}> { m = Mul(x, w)  y = Relu(m) }"""


def trained(path: Path) -> Path:
    model = onnx.parser.parse_model(TRAINED)
    info = model.training_info.add()
    info.algorithm.name = "step"
    info.algorithm.node.append(onnx.helper.make_node("Neg", ["w"], ["next"]))
    info.update_binding.add(key="w", value="next")
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("words", "kept"), [("edit --rename m=n", 1), ("edit --rename w=v", 0), ("extract --from m", 0)])
def test_training_information_stays_where_its_tensors_do(call: Call, tmp_path: Path, words: str, kept: int) -> None:
    name, *options = words.split()
    out = tmp_path / "out.onnx"
    done = call(name, trained(tmp_path / "net.onnx"), *options, *(["--to", "y"] if name == "extract" else []), "-o", out)
    assert done.code == 0, done.err
    assert len(onnx.load(out).training_info) == kept
    assert ("training information is left out: it names 'w'" in done.out) == (not kept)


def test_training_information_of_a_second_model_is_missed(call: Call, tmp_path: Path) -> None:
    net, out = trained(tmp_path / "net.onnx"), tmp_path / "both.onnx"
    done = call("merge", net, net, "--beside", "--prefix", ",r_", "-o", out)
    assert done.code == 0 and f"the training information of {net} is left out" in done.out, done.err
    assert len(onnx.load(out).training_info) == 1


def test_a_pattern_that_fits_all_of_a_name_fits_it_once(edited: Edit) -> None:
    model = edited(TRAINED, "--rename", r"/(.*)/p_\1/", "--rename", "/x*$/_/", "--no-stamp")
    assert [list(node.input) for node in model.graph.node] == [["p__", "p_w_"], ["p_m_"]]


def test_the_command_has_every_edit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "surgery.md").read_text(encoding="utf-8")
    assert set(EDITS) == {*KINDS, *TOGETHER, TYPE}
    assert [name for name in EDITS if f"--{name} " not in page] == []


def test_a_name_that_begins_with_a_slash_is_no_pattern() -> None:
    """PyTorch's names do; `/conv/Conv_output_0=a` was the pattern `conv`, which renamed every tensor of the layer."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }'
    proto = texts.parsed(text)
    for node, name in zip(proto.graph.node, ("/conv/Abs_output_0", "/conv/Neg_output_0", "y"), strict=True):
        node.output[0] = name
    for node, name in zip(proto.graph.node[1:], ("/conv/Abs_output_0", "/conv/Neg_output_0"), strict=True):
        node.input[0] = name
    model = Model.from_proto(proto)
    edit(model, [("rename", "/conv/Abs_output_0=features")])
    assert [node.output[0] for node in model.to_proto().graph.node] == ["features", "/conv/Neg_output_0", "y"]
    edit(model, [("rename", r"/^\/conv\//c_/")])
    assert [node.output[0] for node in model.to_proto().graph.node] == ["features", "c_Neg_output_0", "y"]
    with pytest.raises(RewriterError, match=r"no tensor or node is named '/conv/Abs_output_0', and '.*' is not /PATTERN/"):
        edit(model, [("rename", "/conv/Abs_output_0=features")])
