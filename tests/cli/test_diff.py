"""`rewriter diff`, on what `fix` made of recorded exports."""

from __future__ import annotations

import json
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.cli.call import GAMMA, GEMM, POOL, Call


def test_equal_models(call: Call) -> None:
    done = call("diff", GEMM, GEMM)
    assert (done.code, done.out) == (0, "")


def test_a_repair_is_all_that_differs(call: Call, tmp_path: Path) -> None:
    call("fix", GEMM, "-o", tmp_path / "fixed.onnx")
    done = call("diff", GEMM, tmp_path / "fixed.onnx")
    assert done.code == 1
    assert done.out.splitlines()[2:] == [
        "@@ nodes: 1 @@",
        "+fc1_flat = Flatten<axis = 1>(data)",
        "@@ operands: 1 @@",
        " fc1: operand 0",
        "-data, an input",
        "+fc1_flat, made by Flatten",
    ]


def test_statistics_of_a_weight(call: Call, tmp_path: Path) -> None:
    call("fix", GAMMA, "-o", tmp_path / "fixed.onnx")
    done = call("diff", GAMMA, tmp_path / "fixed.onnx")
    assert "+  from 1 to 1, mean 1\n   8 of 8 elements differ, by at most 0.520084" in done.out


def test_json(call: Call, tmp_path: Path) -> None:
    call("fix", POOL, "-o", tmp_path / "fixed.onnx")
    told = json.loads(call("diff", POOL, tmp_path / "fixed.onnx", "--format", "json").out)
    assert (told["command"], told["different"], told["counts"]) == ("diff", True, {"attribute": 1})
    assert told["differences"][0]["part"] == "count_include_pad"
    assert json.loads(call("diff", POOL, POOL, "--format", "json").out)["different"] is False


def test_hostile_names(call: Call, tmp_path: Path) -> None:
    evil = "\x1b[2J\n+"
    for name, op in (("a", "Relu"), ("b", f"Tanh{evil}")):
        x = helper.make_tensor_value_info(f"x{evil}{name}", TensorProto.FLOAT, [f"N{evil}"])
        node = helper.make_node(op, [f"x{evil}{name}"], [f"y{evil}"], name=f"n{evil}", **{f"a{evil}": f"{name}{evil}"})
        y = helper.make_tensor_value_info(f"y{evil}", TensorProto.FLOAT, [2])
        onnx.save(helper.make_model(helper.make_graph([node], name + evil, [x], [y])), tmp_path / f"{name}.onnx")
    for arguments in ((), ("--format", "json")):
        done = call("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", *arguments)
        assert done.code == 1 and "\x1b" not in done.out and "\n+\n" not in done.out


def test_help_and_errors(call: Call) -> None:
    assert "example: rewriter diff net.onnx net.fixed.onnx" in call("diff", "--help").out
    assert call("diff", GEMM, "nowhere.onnx").code == 2


def test_many_nodes_that_compute_the_same(call: Call, tmp_path: Path) -> None:
    """They are paired by name, then in their order, without holding each against each: that took half a minute."""
    for prefix in "ab":
        names = [f"{prefix}{number}" for number in range(4000)]
        nodes = [helper.make_node("Relu", ["x"], [name]) for name in names]
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
        graph = helper.make_graph([*nodes, helper.make_node("Sum", names, ["y"])], "g", ports[:1], ports[1:])
        onnx.save(helper.make_model(graph), tmp_path / f"{prefix}.onnx")
    started = time.process_time()
    assert call("diff", tmp_path / "a.onnx", tmp_path / "b.onnx").code == 0
    assert time.process_time() - started < 5
