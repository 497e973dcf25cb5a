"""`rewriter text`: every form of a model gives the same model back, and a text may be edited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rewriter.workbench.surgery.file_forms import JSON, TEXT, read_form, write_form
from tests.cli.call import Call
from tests.surgery import texts

MODELS = Path(__file__).parent.parent / "models"


def awkward(tmp_path: Path) -> Path:
    """What the text format cannot say, or says otherwise: doc strings, NaN, typed values, bytes that are no text, odd names."""
    many = numpy_helper.from_array(np.arange(40, dtype=np.float32).reshape(10, 4), "w 1")
    typed = helper.make_tensor("typed", onnx.TensorProto.FLOAT, [20], np.arange(20.0))
    integers = helper.make_tensor("ints", onnx.TensorProto.INT32, [20], range(-10, 10))
    halves = helper.make_tensor("halves", onnx.TensorProto.FLOAT16, [20], np.arange(20.0))
    odd = numpy_helper.from_array(np.array([np.nan, -0.0, 1 / 3], np.float32), "odd")
    strings = onnx.TensorProto(name="strings", data_type=8, dims=[1], string_data=[b"\xff\x00"])
    unnamed = numpy_helper.from_array(np.arange(100, dtype=np.int64))
    named = numpy_helper.from_array(np.array(2.0, np.float32), "helper.constant.0")
    nodes = [
        helper.make_node("Constant", [], ["c/0"], name="constant", value=unnamed),
        helper.make_node("Constant", [], ["two"], value=named),
        helper.make_node("MatMul", ["x", "w 1"], ["h"], name="/m/mul", doc_string="multiplies"),
        helper.make_node(
            "Mine.1", ["h", "two", "strings"], ["y"], domain="my/own", word=b"\xfe", words=[b"\xfd", b"a"], alpha=float("nan")
        ),
    ]
    nodes[2].metadata_props.add(key="namespace", value="m: Linear")
    graph = helper.make_graph(
        nodes,
        "g of mine",
        [helper.make_tensor_value_info("x", 1, ["N", 10])],
        [helper.make_tensor_value_info("y", 1, None)],
        [many, typed, integers, halves, odd, strings],
        doc_string="a graph",
    )
    graph.quantization_annotation.add(tensor_name="h").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="odd")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my/own", 1)])
    path = tmp_path / "awkward.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def holds_no_strings(path: Path) -> bool:
    """Whether an attribute is an empty list of strings, which ONNX's text cannot represent."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    return any(one.type == onnx.AttributeProto.STRINGS and not one.strings for node in nodes for one in node.attribute)


@pytest.mark.parametrize("ending", ["onnxtxt", "json", "textproto"])
def test_a_text_gives_the_bytes_again(call: Call, tmp_path: Path, ending: str) -> None:
    exports = [path for path in sorted(MODELS.glob("*/model.onnx")) if not holds_no_strings(path)]
    shipped = [*exports[::9], *sorted(MODELS.glob("*.onnx"))[::3]]
    for number, model in enumerate([awkward(tmp_path), texts.written(tmp_path, texts.FUNCTIONS), *shipped]):
        text, again = tmp_path / f"{number}.{ending}", tmp_path / f"{number}.again.onnx"
        done = call("text", model, "-o", text)
        assert done.code == 0 and str(text) in done.out, done.err
        done = call("text", text, "-o", again)
        assert done.code == 0 and not done.err, done.err
        assert onnx.load(again).SerializeToString(deterministic=True) == onnx.load(model).SerializeToString(deterministic=True)
        assert again.read_bytes() == model.read_bytes() or number > 1  # some exporters order fields otherwise


@pytest.mark.parametrize("ending", ["onnxtxt", "json", "textproto"])
def test_the_largest_numbers_keep_their_bits(call: Call, tmp_path: Path, ending: str) -> None:
    largest, double = float(np.finfo(np.float32).max), 3.4028235e38
    floats = [largest, -largest, float(np.finfo(np.float32).tiny), 1e-45, float("inf"), -0.0]
    nodes = [
        helper.make_node("Mine", ["x"], ["h"], domain="my/own", floats=floats),
        helper.make_node("Clip", ["h"], ["y"], min=-largest, max=largest),
    ]
    held = [
        helper.make_tensor("few", onnx.TensorProto.FLOAT, [6], floats),
        helper.make_tensor("doubles", onnx.TensorProto.DOUBLE, [3], [double, -largest, np.finfo(np.float64).max]),
    ]
    ports = [[helper.make_tensor_value_info(name, 1, [2])] for name in "xy"]
    imports = [helper.make_opsetid("", 10), helper.make_opsetid("my/own", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", *ports, held), opset_imports=imports, ir_version=8)
    net, text, again = (tmp_path / name for name in ("net.onnx", f"net.{ending}", "again.onnx"))
    net.write_bytes(model.SerializeToString(deterministic=True))
    assert call("text", net, "-o", text).code == 0
    done = call("text", text, "-o", again)
    assert done.code == 0, done.err
    assert again.read_bytes() == net.read_bytes()


def test_weights_that_stay_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewriter.core.onnxfile.files.LARGE", 1000)
    monkeypatch.setattr("rewriter.core.onnxfile.model_file.LEAST_FIELD", 64)
    model = awkward(tmp_path)
    for form in (TEXT, JSON):
        before, _ = read_form(model)
        assert before.is_large
        write_form(before, tmp_path / f"net.{form}", form)
        after, notes = read_form(tmp_path / f"net.{form}")
        write_form(after, tmp_path / f"{form}.onnx", "onnx")
        assert (tmp_path / f"{form}.onnx").read_bytes() == model.read_bytes() and not notes


def test_data_in_other_files_stay_there(call: Call, tmp_path: Path) -> None:
    net, folder = texts.with_data(tmp_path), tmp_path / "other"
    folder.mkdir()
    assert call("text", net, "-o", folder / "net.onnxtxt").code == 0
    assert call("text", folder / "net.onnxtxt", "-o", folder / "net.onnx").code == 0
    assert (folder / "net.onnx").read_bytes() == net.read_bytes()
    assert call("diff", net, folder / "net.onnx").code == 0


def test_a_text_is_printed_and_may_be_edited(call: Call, tmp_path: Path) -> None:
    net = awkward(tmp_path)
    done = call("text", net)
    assert done.code == 0 and '"w 1" = ["sha256": "' in done.out and "MatMul" in done.out
    printed = tmp_path / "printed.onnxtxt"
    printed.write_text(done.out)
    done = call("text", printed, "-o", tmp_path / "o.onnx")
    assert done.code == 2 and "only the SHA-256" in done.err and not (tmp_path / "o.onnx").exists()

    text = tmp_path / "net.onnxtxt"
    assert call("text", net, "-o", text).code == 0
    text.write_text(text.read_text().replace("MatMul", "Gemm").replace("[constant]", "# gone\n [constant]"))
    assert call("text", text, "-o", tmp_path / "edited.onnx").code == 0
    node = onnx.load(tmp_path / "edited.onnx").graph.node[2]
    assert (node.op_type, node.doc_string, node.metadata_props[0].key) == ("Gemm", "multiplies", "namespace")
    text.write_text(text.read_text().replace(" h = ", " other = "))
    done = call("text", text, "-o", tmp_path / "renamed.onnx")
    assert done.code == 0 and "is no longer in the text, left out: 1" in done.err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.onnxtxt", '<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) { y = Relu(x }', "ParseError"),
        ("bad.json", '{"graph": {"node": [{"op": 1}]}}', 'no field named "op"'),
        ("bad.json", "{}", "has no graph"),
        ("bad.textproto", "graph { what: 1 }", 'no field named "what"'),
        ("bad.onnxtxt", b"\xff\xfe", "not a text"),
        ("deep.json", '{"graph":' * 500, "not a model in protobuf's"),
    ],
)
def test_what_is_no_text_of_a_model(call: Call, tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    file, out = tmp_path / name, tmp_path / "out.onnx"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = call("text", file, "-o", out)
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1, done.err
    assert not out.exists()


def test_weights_that_were_changed(call: Call, tmp_path: Path) -> None:
    text = tmp_path / "net.onnxtxt"
    assert call("text", awkward(tmp_path), "-o", text).code == 0
    data = tmp_path / "net.onnxtxt.data"
    data.write_bytes(b"\1" * data.stat().st_size)
    done = call("text", text, "-o", tmp_path / "o.onnx")
    assert done.code == 2 and "do not match its checksum" in done.err
    (tmp_path / "net.onnxtxt.rest.json").write_text('{"graph": {"node": 3}}')
    assert "not a file that was written next to a text" in call("text", text, "-o", tmp_path / "o.onnx").err
    data.unlink()
    (tmp_path / "net.onnxtxt.rest.json").unlink()
    assert "no such file" in call("text", text, "-o", tmp_path / "o.onnx").err
    assert "does not select a form" in call("text", text, "-o", tmp_path / "o.what").err


@pytest.mark.parametrize("attribute", [False, True], ids=["initializer", "attribute"])
def test_every_element_type(tmp_path: Path, attribute: bool) -> None:
    """Also those of which the text has no numbers, and typed values of those that are long."""
    types = {name: number for name, number in onnx.TensorProto.DataType.items() if number}
    made = [
        helper.make_tensor(f"{name}_{count}", number, [count], ([b"a"] if name == "STRING" else [1]) * count)
        for name, number in types.items()
        for count in (0, 3, 20)
    ]
    made += [numpy_helper.from_array(numpy_helper.to_array(one), f"raw_{one.name}") for one in made if one.data_type != 8]
    nodes = [helper.make_node("Constant", [], [one.name], value=one) for one in made] if attribute else []
    ports = [helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in made]
    graph = helper.make_graph(nodes, "g", [], ports, [] if attribute else made)
    net, text, again = tmp_path / "net.onnx", tmp_path / "net.onnxtxt", tmp_path / "again.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), net)
    write_form(read_form(net)[0], text, "onnxtxt")
    write_form(read_form(text)[0], again, "onnx")
    assert again.read_bytes() == net.read_bytes()


@pytest.mark.parametrize("form", ["onnxtxt", "json", "textproto"])
@pytest.mark.parametrize("field", ["producer_name", "doc_string"])
def test_a_text_that_is_not_utf_8_is_an_error(call: Call, tmp_path: Path, form: str, field: str) -> None:
    """Printed, ONNX's text was an internal error, and JSON held Python's way of writing bytes."""
    model = onnx.load(MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx")
    setattr(model, field, "PLACE")
    net = tmp_path / "net.onnx"
    net.write_bytes(model.SerializeToString().replace(b"PLACE", b"\xff\xfeabc"))
    for target in ([], ["-o", tmp_path / f"net.{form}"]):
        done = call("text", net, "--as", form, *target)
        assert done.code == 2 and rf"cannot be written as {form}: its {field} '\xff\xfeabc' is not valid UTF-8" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
