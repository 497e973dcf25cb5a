"""`--target`: rules for one consumer, in every command that takes it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.call import Call

RULES = """
/// Two negations, which only one consumer minds.
rule TST001 for-one <kind: exact, target: ["acme", "other"]>
match { t = Neg(x)  y = Neg(t) }
rewrite { y = Identity(x) }

/// And one that changes numbers.
rule TST002 on-purpose <kind: lossy, target: "acme">
match { y = Abs(x) }
rewrite { y = Identity(x) }
"""
MODEL = """
<ir_version: 8, opset_import: ["": 13]>
g (float[2] x) => (float[2] y) { a = Abs(x)  t = Neg(a)  y = Neg(t) }
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "my.rules").write_text(RULES)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_fix(call: Call, net: Path) -> None:
    rules, out = ("--rules", net.parent), net.with_name("out.onnx")
    unasked = call("fix", net, "-o", out, *rules)
    assert (unasked.code, ops(out)) == (0, ["Abs", "Neg", "Neg"])
    chosen = call("fix", net, "-o", out, "--force", *rules, "--target", "ACME")
    assert (chosen.code, ops(out)) == (0, ["Abs", "Identity"])
    assert "rules for acme that run only if you select them: TST002" in chosen.err
    assert "1 model: 1 changed; 1 rewrite by 1 rule; " in chosen.err  # it had no fault
    call("fix", net, "-o", out, "--force", *rules, "--target", "other,acme", "--select", "TST002")
    assert ops(out) == ["Identity", "Identity"]
    wrong = call("fix", net, *rules, "--target", "acmi")
    assert wrong.code == 2
    assert wrong.err.count("\n") == 1
    assert "there is no target 'acmi'" in wrong.err


def test_every_target_at_once(call: Call, net: Path) -> None:
    rules, out = ("--rules", net.parent), net.with_name("out.onnx")
    for name in ("ALL", "all", "acme,ALL"):
        assert call("fix", net, "-o", out, "--force", *rules, "--target", name).code == 0
        assert ops(out) == ["Abs", "Identity"]
    assert "runs only" not in call("why", "TST001", net, *rules, "--target", "ALL").out
    assert "\nTST001@  Two negations" in call("rules", *rules, "--target", "ALL").out


def test_check_says_what_was_not_tried(call: Call, net: Path) -> None:
    done = call("check", net, "--rules", net.parent, "--select", "ALL", "--format", "json")
    skipped = json.loads(done.out)["skipped"]
    reason = "it is meant for acme, other; --target acme runs it, or select it by its code"
    assert skipped[0] == {"reason": reason, "models": 1, "rules": ["TST001"]}
    assert len(skipped) == 2


def test_why(call: Call, net: Path) -> None:
    rules = ("--rules", net.parent)
    assert (
        "runs only with --target acme or other, or when selected: --select DEFAULT,TST001"
        in call("why", "TST001", net, *rules).out
    )
    assert "runs only" not in call("why", "TST001", net, *rules, "--target", "other").out
    assert "runs only when selected" in call("why", "TST002", net, *rules, "--target", "acme").out
    assert "runs only" not in call("why", "TST002", net, "--rules", net.with_name("my.rules")).out


def test_verify_asks_for_no_target(call: Call, net: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = call("verify", net.with_name("my.rules"), "--samples", "5", "--format", "json")
    assert {verdict["rule"] for verdict in json.loads(done.out)["rules"]} == {"TST001", "TST002"}


def test_rules(call: Call, net: Path) -> None:
    rules = ("--rules", net.parent)
    assert "\nTST001@  Two negations" in call("rules", *rules, "--target", "acme").out
    found = json.loads(call("rules", *rules, "--target", "other", "--format", "json").out)["rules"]
    assert [(rule["code"], rule["targets"], rule["default"]) for rule in found] == [("TST001", ["acme", "other"], False)]
    assert call("rules", *rules, "--target", "none").code == 2
