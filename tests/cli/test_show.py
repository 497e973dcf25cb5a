"""`rewriter show`, on recorded exports and on names that would steer a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.cli.call import GEMM, MODELS, Call


def test_a_recorded_export(call: Call) -> None:
    done = call("show", GEMM)
    assert done.code == 0
    for text in (
        "mxnet",
        "by its graph name",
        "ai.onnx 8",
        "4 of them are also inputs",
        "Gemm 2",
        "data  float[2,4,9,9]",
    ):
        assert text in done.out
    assert "fc1_weight" not in done.out


def test_nodes(call: Call) -> None:
    done = call("show", MODELS / "pytorch-2.13-reshape-chain.onnx", "--nodes")
    assert "[/Gather] /Gather_output_0 = Gather<axis = 0>(/Shape_output_0, /Constant_output_0)" in done.out


def test_json(call: Call) -> None:
    told = json.loads(call("show", GEMM, "--format", "json").out)
    assert (told["command"], told["operators"], told["initializers"]["elements"]) == ("show", {"Gemm": 2}, 1643)
    assert "lines" not in told
    told = json.loads(call("show", GEMM, "--nodes", "--format", "json").out)
    assert [line["op"] for line in told["lines"]] == ["Gemm", "Gemm"]


def test_hostile_names(call: Call, tmp_path: Path) -> None:
    evil = "\x1b[2J\n\u202e"
    node = helper.make_node(f"Op{evil}", [f"x{evil}"], [f"y{evil}"], name=evil, domain=f"d{evil}", **{f"a{evil}": evil})
    x = helper.make_tensor_value_info(f"x{evil}", TensorProto.FLOAT, [f"N{evil}"])
    model = helper.make_model(helper.make_graph([node], evil, [x], []), producer_name=evil)
    helper.set_model_props(model, {f"key{evil}": evil})
    onnx.save(model, tmp_path / "m.onnx")
    for arguments in ((), ("--nodes",), ("--format", "json"), ("--nodes", "--format", "json")):
        done = call("show", tmp_path / "m.onnx", *arguments)
        assert done.code == 0 and "\x1b" not in done.out and "\u202e" not in done.out


def test_no_graph_is_built() -> None:
    code = (
        "import sys; from rewriter.app.cli.main import main; "
        f"main(['show', {str(GEMM)!r}]); print('rewriter.core.graph.load' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


def test_help_and_errors(call: Call) -> None:
    assert "example: rewriter show net.onnx --nodes" in call("show", "--help").out
    assert call("show", "nowhere.onnx").code == 2


def test_it_counts_nodes_as_optimize_does(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 13]>
      g (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1, 2}>()  t = Add(x, c)  y = Relu(t) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert "  nodes      2: Add 1, Relu 1; 1 Constant\n" in call("show", tmp_path / "net.onnx").out
    assert "net.onnx: 2 nodes, " in call("optimize", tmp_path / "net.onnx", "-o", tmp_path / "o.onnx", "--runtime", "no").out
