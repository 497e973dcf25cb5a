"""`rewriter extract`: the part that is asked for, all that it needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.core.graph.model_text import type_text
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.tensors import encode
from rewriter.trust.check_record import audit
from rewriter.workbench.surgery.ports import parsed_type
from tests.cli.call import Call
from tests.surgery import texts


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "part.onnx"


def names(infos: object) -> list[str]:
    return [info.name for info in infos]  # type: ignore[attr-defined]


def test_a_part_has_what_it_needs_and_no_more(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    done = call("extract", net, "--from", "a", "--to", "flat", "-o", out)
    assert done.code == 0, done.err
    assert "3 nodes of 5" in done.out and "computes the same" in done.out
    part = onnx.load(out)
    onnx.checker.check_model(part, full_check=True)
    assert [node.op_type for node in part.graph.node] == ["Relu", "GlobalAveragePool", "Flatten"]
    assert (names(part.graph.input), names(part.graph.output)) == (["a"], ["m"])
    assert [dim.dim_value for dim in part.graph.input[0].type.tensor_type.shape.dim] == [1, 4, 8, 8]
    assert not part.graph.initializer and not part.graph.value_info


def test_what_bodies_capture_is_read(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.CAPTURES)
    assert call("extract", net, "--from", "scaled,c", "--to", "chosen", "-o", out).code == 0
    part = onnx.load(out)
    onnx.checker.check_model(part, full_check=True)
    assert names(part.graph.initializer) == ["w"]
    assert [node.op_type for node in part.graph.node] == ["Add", "If"]


def test_what_is_needed_and_not_given_is_named(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.CAPTURES)
    done = call("extract", net, "--from", "shifted", "--to", "chosen", "-o", out)
    assert done.code == 2 and not out.exists()
    assert "'x', 'c'" in done.err or "'c', 'x'" in done.err
    assert "--auto-inputs" in done.err
    assert call("extract", net, "--from", "shifted", "--to", "chosen", "--auto-inputs", "-o", out).code == 0
    assert names(onnx.load(out).graph.input) == ["shifted", "x", "c"]


def test_functions_in_bodies_and_in_functions_go_along(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.FUNCTIONS)
    done = call("extract", net, "--to", "k", "-o", out)
    assert done.code == 0, done.err
    part = onnx.load(out)
    onnx.checker.check_model(part, full_check=True)
    assert [function.name for function in part.functions] == ["inner", "outer"]
    assert [entry.domain for entry in part.opset_import] == ["", "local"]
    feed = {"x": np.ones((2, 4), np.float32), "c": np.array(True)}
    assert np.allclose(texts.ran(out, feed)["k"], -np.exp(feed["x"]))


def test_a_type_that_is_not_known_is_asked_for(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.FUNCTIONS)
    done = call("extract", net, "--from", "h", "--to", "z", "-o", out)
    assert done.code == 2 and "--type 'z:float[1,3]'" in done.err
    assert call("extract", net, "--from", "h", "--to", "z", "--type", "z:float[2,4]", "-o", out).code == 0
    assert call("extract", net, "--from", "h", "--to", "z", "--type", "z:flat", "-o", out, "--force").code == 2
    done = call("extract", net, "--from", "h", "--to", "z", "--type", "y:float", "--type", "z:float[2,4]", "-o", out, "--force")
    assert done.code == 2 and "--type: the part has no input or output 'y'; there is h, z" in done.err


def test_an_output_of_a_node_that_is_given_and_another_that_is_made(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[4] x) => (float[2] y) { a, b = Split(x)  c = Add(a, b)  y = Neg(c) }""",
    )
    assert call("extract", net, "--from", "a,x", "--to", "y", "-o", out).code == 0
    feed = {"a": np.array([10, 20], np.float32), "x": np.array([1, 2, 3, 4], np.float32)}
    assert texts.ran(out, feed)["y"].tolist() == [-13, -24]


def test_an_initializer_can_be_an_input(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    assert call("extract", net, "--from", "x,w", "--to", "a", "-o", out).code == 0
    part = onnx.load(out)
    assert names(part.graph.input) == ["x", "w"] and not part.graph.initializer


def test_only_the_data_that_the_part_needs_are_copied(call: Call, tmp_path: Path) -> None:
    net = texts.with_data(tmp_path)
    (tmp_path / "parts").mkdir()
    out = tmp_path / "parts" / "part.onnx"
    done = call("extract", net, "--from", "t1", "--to", "n1", "-o", out)
    assert done.code == 0 and "computes the same" in done.out, done.err
    assert sorted(path.name for path in out.parent.iterdir()) == ["part.onnx", "part.onnx.data"]
    assert (out.parent / "part.onnx.data").stat().st_size == 4096 * 4
    assert texts.ran(out, {"t1": np.ones((1, 4096), np.float32)})["t2"].max() == 2
    again = call("extract", net, "--from", "t1", "--to", "n1", "-o", out.parent / "other.onnx", "--dry-run")
    assert again.code == 0 and len(list(out.parent.iterdir())) == 2
    refused = call("extract", net, "--from", "t1", "--to", "n1", "-o", "-")
    assert refused.code == 2 and "standard output" in refused.err


def test_broken_models_may_be_cut(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[4] x) => (float[4] y) { a = NoSuchOperator(x)  b = Relu(x)  c = Add(a, b)  y = Neg(c) }""",
    )
    assert call("extract", net, "--to", "b", "-o", out).code == 0
    onnx.checker.check_model(onnx.load(out), full_check=True)
    done = call("extract", net, "--to", "a", "--type", "a:float[4]", "-o", out, "--force")
    assert done.code == 0 and "still rejected by" in done.out


def test_the_record_and_the_file_that_is_there(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    assert call("extract", net, "--to", "b", "-o", out).code == 0
    assert "command   extract --to b" in call("history", out).out
    assert "which an audit does not repeat" in audit(net, out, RuleSet(())).findings[0]
    before = out.read_bytes()
    refused = call("extract", net, "--to", "a", "-o", out)
    assert (refused.code, out.read_bytes()) == (2, before) and "exists" in refused.err
    assert call("extract", net, "--to", "a", "-o", net).code == 2
    assert call("extract", net, "--to", "b", "--no-stamp", "-o", out, "--force").code == 0
    assert not onnx.load(out).metadata_props


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "nothing"], "there is no tensor or node 'nothing'"),
        (["--to", "bb"], "there is 'b'"),
        (["--to", "op:Gemm"], "no node of the operator 'Gemm'"),
        ([], "--to, --from"),
    ],
)
def test_one_line_says_what_is_wrong(call: Call, tmp_path: Path, out: Path, arguments: list[str], words: str) -> None:
    done = call("extract", texts.written(tmp_path, texts.CHAIN), *arguments, "-o", out)
    assert (done.code, done.err.count("\n"), out.exists()) == (2, 1, False)
    assert words in done.err
    inside = call("extract", texts.written(tmp_path, texts.CAPTURES), "--to", "b", "-o", out)
    assert "inside of" in inside.err


def test_from_standard_input_to_standard_output(tmp_path: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    with open(net, "rb") as file, open(tmp_path / "out.onnx", "wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "rewriter", "extract", "-", "--to", "b", "-o", "-"],
            stdin=file,
            stdout=out,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 0 and b"standard input -> -" in done.stderr
    assert names(onnx.load(tmp_path / "out.onnx").graph.output) == ["b"]


def test_urls(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    net = texts.with_data(tmp_path)
    (tmp_path / "there").mkdir()
    url = f"file://{tmp_path}/there/part.onnx"
    done = call("extract", f"file://{net}", "--to", "n1", "-o", url)
    assert done.code == 0, done.err
    assert texts.ran(tmp_path / "there" / "part.onnx", {"x": np.ones((1, 4096), np.float32)})["t2"].max() == 2
    assert "exists" in call("extract", net, "--to", "n1", "-o", url).err


MADE = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
  g (float[1,3] x, int64 i) => (float[M] y) { s = my.Make(x)  t = my.Make(x)  y = SequenceAt(s, i)  z = OptionalHasElement(t) }
"""


@pytest.mark.parametrize(
    ("start", "to", "spelling"), [("s,i", "y", "seq(float[1])"), ("t", "z", "optional(float[1])"), ("x", "s", "seq(float[1])")]
)
def test_the_message_shows_a_type_that_fits(call: Call, tmp_path: Path, out: Path, start: str, to: str, spelling: str) -> None:
    net = texts.written(tmp_path, MADE)
    done = call("extract", net, "--from", start, "--to", to, "-o", out)
    name = to if start == "x" else start[0]
    assert done.code == 2 and f"--type '{name}:{spelling}'" in done.err
    assert call("extract", net, "--from", start, "--to", to, "--type", f"{name}:{spelling}", "--dry-run").code == 0


@pytest.mark.parametrize(
    "kind",
    [
        "seq(float[1,N])", "optional(float[1])", "optional(seq(float[1]))", "map(int64, float[2])", "seq(float)", "float", "float[]", "seq(float[])",
        "seq(map(int64, float[2]))", "sparse_tensor(float[2])", "int4[3]",
    ],
)  # fmt: skip
def test_a_type_may_be_written_as_it_is_shown(kind: str) -> None:
    known = parsed_type(kind)
    assert parsed_type(type_text(onnx.TypeProto.FromString(encode(known)))) == known


def test_a_new_input_may_be_a_scalar(call: Call, tmp_path: Path, out: Path) -> None:
    net = texts.written(
        tmp_path, '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[3] x) => (float y) { s = my.Make(x)  y = Relu(s) }'
    )
    assert call("extract", net, "--from", "s", "--type", "s:float[]", "-o", out).code == 0
    assert type_text(onnx.load(out).graph.input[0].type) == "float[]"


def test_what_is_no_type(call: Call, tmp_path: Path, out: Path) -> None:
    done = call("extract", texts.written(tmp_path, texts.CHAIN), "--to", "b", "--type", "b:list(float)", "-o", out)
    assert "write it as float[1,3,N], int64[?] or seq(float[1]), optional(float[1]), map(int64, float[1])" in done.err
