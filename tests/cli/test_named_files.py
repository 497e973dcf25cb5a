"""A rule file that is named on the command line runs, whatever kind its rules are of, unless `--select` says what does."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cli.call import Call

RULES = """
/// Identity is nothing.
rule TST001 no-identity <kind: lossy>
match { y = Identity(x) }
rewrite { y = x }

/// Neg of Neg is nothing.
rule TST002 no-negation <kind: exact, target: "acme">
match { y = Neg(Neg(x)) }
rewrite { y = x }

/// Was it Abs?
rule TST003 absolute <kind: repair, evidence: guess, question: "was it Abs?">
match { y = Relu(x) }
rewrite { y = Abs(x) }

/// Only of one exporter.
rule TST004 sign <kind: exact, exporter: "mxnet">
match { y = Sign(x) }
rewrite { y = x }
"""
MODEL = """<ir_version: 8, opset_import: ["": 13], producer_name: "pytorch"> g (float[2] x) => (float[2] y) {
    a = Identity(x)  b = Neg(a)  c = Neg(b)  d = Relu(c)  e = Sign(d)  y = Exp(e) }"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "my.rules").write_text(RULES)
    (tmp_path / "net.onnx").write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    return tmp_path / "net.onnx"


def left(call: Call, net: Path, command: str, *options: object) -> list[str]:
    """The operators of the result."""
    out = net.with_name("out.onnx")
    done = call(command, net, "-o", out, "--force", *options)
    assert done.code in (0, 1), done.err
    return [node.op_type for node in onnx.load(out).graph.node]


@pytest.mark.parametrize("command", ["fix", "optimize"])
def test_what_is_named_runs(call: Call, net: Path, command: str) -> None:
    rules = net.with_name("my.rules")
    assert left(call, net, command, "--rules", rules) == ["Relu", "Sign", "Exp"]
    assert left(call, net, command, "--rules", rules, "--ignore", "TST002") == ["Neg", "Neg", "Relu", "Sign", "Exp"]
    assert left(call, net, command, "--rules", rules, "--guess") == ["Abs", "Sign", "Exp"]


def test_of_another_target_than_the_one_asked_for(call: Call, net: Path) -> None:
    rules = net.with_name("my.rules")
    rules.write_text(RULES + RULES.replace("TST", "OTH").replace("acme", "other").replace("Neg", "Exp"))
    assert left(call, net, "fix", "--rules", rules, "--target", "other") == ["Neg", "Neg", "Relu", "Sign", "Exp"]


def test_beside_the_shipped_rules(call: Call, net: Path) -> None:
    assert left(call, net, "fix", "--extend", net.with_name("my.rules")) == ["Relu", "Sign", "Exp"]
    named = ("--rules", "shipped", "--rules", net.with_name("my.rules"))
    assert left(call, net, "fix", *named) == ["Relu", "Sign", "Exp"]


def test_select_and_folders_say_otherwise(call: Call, net: Path) -> None:
    every = ["Identity", "Neg", "Neg", "Relu", "Sign", "Exp"]
    assert left(call, net, "fix", "--rules", net.with_name("my.rules"), "--select", "TST002")[:2] == ["Identity", "Relu"]
    assert left(call, net, "fix", "--rules", net.parent) == every


def test_a_configuration_names_nothing(call: Call, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net.with_name("rewriter.toml").write_text('extend = ["my.rules"]\n')
    monkeypatch.chdir(net.parent)
    assert "Identity" in left(call, net, "fix")
    net.with_name("rewriter.toml").write_text('[[per-path]]\npath = "*.onnx"\nselect = ["OPT"]\n')
    assert "Identity" not in left(call, net, "fix", "--extend", net.with_name("my.rules"))
