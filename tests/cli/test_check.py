"""`rewriter check`: findings, and what an unknown fact keeps from being decided."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.call import GAMMA, GEMM, MODELS, Call

DECIDES = """
/// Fires where the framework's file says so.
rule TST001 gamma-by-source <kind: repair>
match { [bn] y = BatchNormalization(x, ...) }
where source(bn, "fix_gamma", true)
rewrite { bn.momentum = 0.5 }

/// Fails.
rule TST002 a-mistake <kind: repair>
match { [bn] y = BatchNormalization(x, const gamma, ...) }
where gamma[1000] == 1
rewrite { bn.momentum = 0.5 }
"""


def test_a_finding_is_one_line_and_nothing_is_written(call: Call) -> None:
    before = sorted(MODELS.iterdir())
    done = call("check", GEMM, "--select", "MX001")
    assert done.code == 1
    assert done.out.splitlines()[0].startswith(f"{GEMM}: MX001 fc1 (Gemm): ")
    assert len(done.out.splitlines()) == 1
    assert done.err.startswith("1 model: 1 with findings; 1 finding by 1 rule; ")
    assert sorted(MODELS.iterdir()) == before


def test_nothing_found(call: Call) -> None:
    done = call("check", GEMM, "--select", "MX003")
    assert (done.code, done.out) == (0, "")


def test_blocked_by_an_unknown_fact_and_what_would_make_it_known(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(DECIDES)
    done = call("check", GAMMA, "--rules", tmp_path, "--select", "TST001", "--source", "none")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith(f"{GAMMA}: blocked TST001 bn0 (BatchNormalization): ")
    assert first.endswith("(line 5 of the rule)")
    assert "help: give the framework's own file" in second
    assert call("check", GAMMA, "--rules", tmp_path, "--select", "TST001").code == 1


def test_a_rule_that_raises_is_something_not_repaired(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(DECIDES)
    done = call("check", GAMMA, "--rules", tmp_path, "--select", "TST002")
    assert done.code == 1
    assert f"{GAMMA}: failed TST002 bn0 (BatchNormalization): " in done.out
    assert "1 unfinished" in done.err


def test_json_has_the_same(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(DECIDES)
    done = call("check", GAMMA, "--rules", tmp_path, "--source", "none", "--format", "json")
    report = json.loads(done.out)
    assert (report["command"], report["exit_code"], done.code) == ("check", 1, 1)
    model = report["models"][0]
    assert model["status"] == "clean"
    assert [(blocked["rule"], blocked["error"]) for blocked in model["blocked"]] == [("TST001", False), ("TST002", True)]
    assert model["output"] is None


def test_a_rule_of_another_exporter_is_tried_only_by_its_code(call: Call) -> None:
    chain = MODELS / "pytorch-2.13-reshape-chain.onnx"
    report = json.loads(call("check", chain, "--select", "MX", "--format", "json").out)
    assert {"rule": "MX001", "reason": "the exporter is pytorch, not mxnet; select MX001 by its code to try it anyway"} in (
        report["models"][0]["skipped"]
    )
    report = json.loads(call("check", chain, "--select", "MX001", "--format", "json").out)
    assert report["models"][0]["skipped"] == []


def test_hints_about_the_selection(call: Call, tmp_path: Path) -> None:
    lossy = DECIDES.replace("kind: repair", "kind: lossy").replace("[bn] y", "[bn] y", 1)
    (tmp_path / "my.rules").write_text(lossy)
    assert "these rules run only when selected: TST001, TST002" in call("check", GAMMA, "--rules", tmp_path).err
    both = call("check", GAMMA, "--rules", "shipped", "--rules", tmp_path, "--select", "TST001,MX002", "--source", "auto")
    assert "MX002" in both.out
    assert "TST001" in both.out
