"""`rewriter why`, on recorded exports."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.cli.call import GAMMA, GEMM, MODELS, POOL, Call


def test_fires_and_blocked(call: Call) -> None:
    done = call("why", "mx001", GEMM)
    assert done.code == 0
    assert "2 places (Gemm): fires at 1, blocked by an unknown fact at 1" in done.out
    assert "holds: rank(x) > 2" in done.out
    assert "expected: `where rank(x) > 2` (line 17)\n    found:    rank of tensor 'fc1' is unknown\n    help:" in done.out


def test_a_condition_and_its_values(call: Call) -> None:
    done = call("why", "MX061", POOL, "--source", "none")
    assert done.code == 0 and "pool0 (AveragePool): fires" in done.out


def test_guards_first(call: Call) -> None:
    done = call("why", "MX003", MODELS / "pytorch-2.13-reshape-chain.onnx")
    assert "not tried: the exporter is pytorch, not mxnet" in done.out
    assert "no node of the model is AveragePool" in done.out


def test_json_has_everything(call: Call) -> None:
    done = call("why", "MX002", GAMMA, "--format", "json")
    told = json.loads(done.out)
    assert (told["command"], told["rule"], told["ops"]) == ("why", "MX002", ["BatchNormalization"])
    assert told["counts"] == {"places": 1, "fires": 1, "unknown": 0, "errors": 0, "misses": 0}
    first = told["answers"][0]["conditions"][0]
    assert (first["value"], first["found"]) == ("true", "") and 'source(bn, "fix_gamma", true)' in first["text"]


def test_what_is_not_there(call: Call) -> None:
    assert "did you mean MX001?" in call("why", "MX01", GEMM).err
    done = call("why", "MX001", GEMM, "fc9")
    assert done.code == 2 and "did you mean 'fc1'?" in done.err
    assert call("why", "MX001", "nowhere.onnx").code == 2


def test_many_places_are_summed_up_and_hostile_names_escaped(call: Call, tmp_path: Path) -> None:
    evil = "evil\x1b[2J"
    nodes = [helper.make_node("Gemm", ["x", "w"], [f"y{i}{evil}"]) for i in range(20)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 2])
    model = helper.make_model(helper.make_graph(nodes, "g", [x, w], []), opset_imports=[helper.make_opsetid("", 13)])
    path = tmp_path / "many.onnx"
    onnx.save(model, path)
    done = call("why", "MX001", path, "--limit", "2")
    assert "\x1b" not in done.out and "\\x1b[2J" in done.out
    assert "and 18 more places (--limit):\n    18 x `where rank(x) > 2` (line 17)" in done.out


def test_help_has_an_example(call: Call) -> None:
    assert "example: rewriter why MX001 net.onnx fc1" in call("why", "--help").out
