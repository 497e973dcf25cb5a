"""`rewriter opset`, `infer` and `save`: what a model says changes, and nothing that it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.workbench.surgery import moved_weights
from tests.cli.call import Call
from tests.surgery import texts


def test_a_version_in_which_all_means_the_same(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, texts.CHAIN), tmp_path / "out.onnx"
    done = call("opset", net, "12", "-o", out)
    assert done.code == 0 and "computes the same" in done.out, done.err
    assert onnx.load(out).opset_import[0].version == 12
    assert call("opset", net, "21", "-o", out, "--force").code == 0
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert (model.opset_import[0].version, model.ir_version) == (21, 10)


def test_types_are_written(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, texts.CAPTURES), tmp_path / "out.onnx"
    done = call("infer", net, "-o", out, "--no-stamp")
    assert done.code == 0 and " declared before, 0 unknown\n" in done.out
    declared = {info.name: info.type.tensor_type for info in onnx.load(out).graph.value_info}
    assert {"scaled", "shifted", "chosen"} <= declared.keys()
    assert [dim.dim_param or dim.dim_value for dim in declared["chosen"].shape.dim] == ["N", 4]
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_weights_go_out_and_come_in_again(call: Call, tmp_path: Path) -> None:
    data = texts.with_data(tmp_path)
    one, apart, again = tmp_path / "one.onnx", tmp_path / "apart.onnx", tmp_path / "again.onnx"
    assert call("save", data, "--inline", "-o", one).code == 0
    assert not any(tensor.external_data for tensor in onnx.load(one, load_external_data=False).graph.initializer)
    assert call("save", one, "--external", "--location", "weights.bin", "-o", apart).code == 0
    tensors = onnx.load(apart, load_external_data=False).graph.initializer
    assert {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"} == {"weights.bin"}
    assert call("diff", data, apart).code == 0
    assert call("save", apart, "--inline", "-o", again).code == 0
    assert again.read_bytes() == one.read_bytes()
    assert "--threshold" in call("save", one, "--external", "--threshold", "1M", "-o", tmp_path / "none.onnx").err
    for more in (("--threshold", "1"), ("--location", "w.data")):
        done = call("save", one, "--inline", *more, "-o", tmp_path / "none.onnx")
        assert done.code == 2 and f"{more[0]} has no effect without --external" in done.err
    assert "leads out" in call("save", one, "--external", "--location", "../w", "-o", tmp_path / "none.onnx").err
    assert "exists" in call("save", one, "--external", "--location", "weights.bin", "-o", tmp_path / "none.onnx").err
    assert not (tmp_path / "none.onnx").exists()


@pytest.mark.parametrize("more", [False, True], ids=["dense", "sparse and training"])
def test_all_weights_come_in_whatever_holds_them(call: Call, tmp_path: Path, more: bool) -> None:
    net, folder = texts.with_data_everywhere(tmp_path, more=more), tmp_path / "in"
    folder.mkdir()
    done = call("save", net, "--inline", "-o", folder / "out.onnx")
    assert done.code == 0 and f"{10 if more else 5} weights brought" in done.out, done.err
    assert [path.name for path in folder.iterdir()] == ["out.onnx"]
    assert set(texts.locations(folder / "out.onnx")) == {""}
    assert call("diff", net, folder / "out.onnx").code == 0


@pytest.mark.parametrize(
    "command",
    [["save", "--external", "--threshold", "0"], ["edit", "--rename", "a=renamed"], ["infer"], ["extract", "--to", "y"]],
    ids=lambda command: command[0],
)
def test_weights_outside_stay_outside_whatever_holds_them(call: Call, tmp_path: Path, command: list[str]) -> None:
    net, folder = texts.with_data_everywhere(tmp_path), tmp_path / "apart"
    folder.mkdir()
    done = call(command[0], net, *command[1:], "-o", folder / "out.onnx")
    assert done.code == 0, done.err
    assert sorted(path.name for path in folder.iterdir()) == ["out.onnx", "out.onnx.data"]
    assert b"what no model refers to" not in (folder / "out.onnx.data").read_bytes()
    assert texts.locations(folder / "out.onnx") == ["out.onnx.data"] * 5
    feed = {"x": np.ones(4, np.float32), "c": np.array(True)}
    assert np.array_equal(texts.ran(folder / "out.onnx", feed)["y"], [16, 17, 29, 32])


def test_no_file_goes_along_for_a_sparse_weight(call: Call, tmp_path: Path) -> None:
    net, folder = texts.with_data_everywhere(tmp_path, more=True), tmp_path / "edited"
    folder.mkdir()
    done = call("edit", net, "--rename", "a=renamed", "-o", folder / "out.onnx")
    assert done.code == 0, done.err
    assert sorted(path.name for path in folder.iterdir()) == ["out.onnx", "out.onnx.data"]
    assert texts.locations(folder / "out.onnx") == [""] * 5 + ["out.onnx.data"] * 5


def test_a_lost_file_is_told_whatever_refers_to_it(call: Call, tmp_path: Path) -> None:
    net = texts.with_data_everywhere(tmp_path, more=True)
    (tmp_path / "all.weights").unlink()
    done = call("save", net, "--inline", "-o", tmp_path / "out.onnx")
    assert (done.code, done.err.count("\n")) == (2, 1) and "all.weights" in done.err
    assert not (tmp_path / "out.onnx").exists()


def test_axes_stay_in_the_model_whatever_the_threshold(call: Call, tmp_path: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
  g (float[1,3] x) => (float[3] z) <int64[1] axes = {0}, float[3] w = {1,2,3}> { y = Mul(x, w)  z = Squeeze(y, axes) }
""",
    )
    assert call("save", net, "--external", "--threshold", "0", "-o", tmp_path / "out.onnx").code == 0
    assert call("run", tmp_path / "out.onnx").code == 0
    held = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer
    assert [tensor.data_location for tensor in held] == [onnx.TensorProto.DEFAULT, onnx.TensorProto.EXTERNAL]


SCALES = """<ir_version: 8, opset_import: ["": 17]>
  g (float[1,3,4,4] x) => (float[1,3,8,8] z) <float[4] s = {1,1,2,2}, float[3,1,1] w = {1,2,3}> { y = Mul(x, w)  z = Resize(y, , s) }
"""


def test_scales_stay_in_the_model_as_axes_do(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, SCALES), tmp_path / "out.onnx"
    done = call("save", net, "--external", "--threshold", "0", "-o", out)
    assert done.code == 0 and "1 weight outside" in done.out and "computes the same" in done.out
    onnx.checker.check_model(out, full_check=True)


def test_a_result_that_is_refused_is_not_written(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_weights, "_SIZES", ())
    net, out = texts.written(tmp_path, SCALES), tmp_path / "out.onnx"
    (tmp_path / "out.onnx.data").write_bytes(b"of another")
    before = sorted(tmp_path.iterdir())
    for where in (["--dry-run"], ["-o", out, "--force"]):
        done = call("save", net, "--external", "--threshold", "0", *where)
        assert (done.code, done.err.count("\n")) == (2, 1) and "no file was written, because onnx.checker" in done.err
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "out.onnx.data").read_bytes() == b"of another"


def test_a_record_of_moved_weights_only_when_it_is_wanted(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, SCALES), tmp_path / "out.onnx"
    assert call("save", net, "--external", "--threshold", "0", "-o", out).code == 0
    assert not onnx.load(out, load_external_data=False).metadata_props
    assert call("save", out, "--inline", "--stamp", "-o", tmp_path / "in.onnx").code == 0
    assert "save --inline" in call("history", tmp_path / "in.onnx").out


def test_the_newest_version_of_the_installed_onnx(call: Call, tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    net = texts.written(
        tmp_path,
        f'<ir_version: {onnx.IR_VERSION}, opset_import: ["": {newest}]> g (float[2] x) => (float[2] y) {{ y = Relu(x) }}',
    )
    done = call("opset", net, "17", "-o", tmp_path / "older.onnx")
    assert done.code == 0 and f"opset  {newest} -> 17" in done.out, done.err


def test_what_an_option_lacks_is_one_line(call: Call, tmp_path: Path) -> None:
    done = call("save", "net.onnx", "--external", "--threshold", "-1", "-o", tmp_path / "out.onnx")
    assert (done.code, done.err.count("\n")) == (2, 1) and "argument --threshold: '-1' is not a size" in done.err
