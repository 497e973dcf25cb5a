"""Rules that are wrong, beside the shipped ones, on real exports: what they did is taken back, what the others did stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from rewriter.core.graph.model import load
from rewriter.trust.proof.validity import Candidate
from tests.cli.call import GEMM, MODELS, POOL, Call, Done
from tests.cli.wrong_rules import INVALID, LIGHT, REFUSED, SORTS, TEN, WRONG

pytest.importorskip("onnxruntime")
EXPORTS = sorted(MODELS.glob("*.onnx"))
SLOW = ("light_bvlc_alexnet", "light_inception_v1")
SELECT = ("--select", "DEFAULT,PT001,GEN002")


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "wrong.rules").write_text(text)
    return tmp_path / "wrong.rules"


def test_they_are_ten() -> None:
    assert len(TEN) == 10


_results: dict[tuple[object, ...], tuple[Done, bytes]] = {}
"""By the arguments: what the command printed and wrote without wrong rules."""


def fixed(call: Call, tmp_path: Path, *arguments: object) -> tuple[Done, bytes]:
    if arguments not in _results:
        done = call("fix", arguments[0], "-o", tmp_path / "good.onnx", *arguments[1:])
        _results[arguments] = done, (tmp_path / "good.onnx").read_bytes()
    return _results[arguments]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("model", TEN, ids=lambda path: path.stem)
def test_ten_real_models(call: Call, tmp_path: Path, model: Path, sort: str) -> None:
    if sort == "wrong" and model.stem in SLOW:
        pytest.skip("its numbers take long to compute, and those of the others show the same")
    wrong = write(tmp_path, SORTS[sort])
    guarded = tmp_path / "guarded.onnx"
    verify = ("--verify",) if sort == "wrong" else ()
    unseen = ("--ignore", "BAD003") if sort == "wrong" and model.parent == LIGHT else ()  # their tensors hold one number each
    alone, good = fixed(call, tmp_path, model, *SELECT, *verify, "--format", "json")
    done = call(
        "fix", model, "-o", guarded, *SELECT, *verify, "--format", "json", "--rules", "shipped", "--rules", wrong, *unseen
    )
    assert (alone.code, done.code) == (0, 1)
    expected, found = json.loads(alone.out)["models"][0], json.loads(done.out)["models"][0]
    assert expected["counts"], "no shipped rule fires, so that nothing is to be kept"
    assert found["counts"] == expected["counts"]
    assert not expected["rolled_back"]
    assert {rolled["rule"] for rolled in found["rolled_back"]} <= {"BAD001", "BAD002", "BAD003", "BAD004"}
    assert found["rolled_back"]
    assert guarded.read_bytes() == good
    onnx.checker.check_model(str(guarded))


ENDLESS = """
rule X1 grows <kind: exact> match { y = Relu(x) } rewrite { y = Relu(Identity(x)) }
rule X2 there <kind: exact> match { y = Abs(x) } rewrite { y = Neg(x) }
rule X3 back <kind: exact> match { y = Neg(x) } rewrite { y = Abs(x) }
"""


def test_rules_without_end_change_nothing(call: Call, tmp_path: Path) -> None:
    """Of rules that undo each other, the one that restores an earlier state is left out."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { r = Relu(x) a = Abs(r) y = Sigmoid(a) }'
    onnx.save(onnx.parser.parse_model(text), str(tmp_path / "net.onnx"))
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--rules", write(tmp_path, ENDLESS))
    assert done.code == 1
    assert "rolled back X1 everywhere (32 places): X1 was stopped after rewriting its own results 32 times" in done.out
    assert "rolled back X3 everywhere (1 place): these rules undo each other: X2 -> X3 -> X2" in done.out
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Relu", "Neg", "Sigmoid"]


def test_what_was_rolled_back_is_named(call: Call, tmp_path: Path) -> None:
    done = call("fix", POOL, "-o", tmp_path / "fixed.onnx", "--rules", "shipped", "--rules", write(tmp_path, REFUSED))
    assert "\n  rolled back BAD002 pool0 (AveragePool): ONNX Runtime: " in done.out
    assert "is not a registered function/op" in done.out
    assert "1 model: 1 repaired, 1 unfinished, 1 rolled back; 1 rewrite by 1 rule" in done.err


def test_a_repair_that_is_undone_is_found_though_the_input_was_refused(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, "-o", tmp_path / "fixed.onnx", "--rules", "shipped", "--rules", write(tmp_path, REFUSED))
    assert done.code == 1
    assert "rolled back BAD002 everywhere (2 places): ONNX Runtime: " in done.out
    assert "MX001" in done.out


def test_refused_before_and_after_is_no_reason(call: Call, tmp_path: Path) -> None:
    model = onnx.load(POOL)
    model.graph.node.add(op_type="NoSuchOperator", input=[model.graph.input[0].name], output=["nowhere"])
    onnx.save(model, tmp_path / "refused.onnx")
    done = call("fix", tmp_path / "refused.onnx", "--select", "MX061")
    assert (done.code, "MX061" in done.out, "rolled back" in done.out) == (1, True, False)
    assert "1 model: 1 still rejected by ONNX Runtime; 1 rewrite" in done.err


def test_too_much_that_is_wrong_gives_the_model_back(call: Call, tmp_path: Path) -> None:
    rules = "".join(
        f"/// Nobody implements it.\nrule BAD{i:03} nothing-{i} <kind: exact, severity: error>\n"
        f"match {{ y = com.acme.Op{i}(x) }}\nrewrite {{ y = com.acme.Not{i}(x) }}\n"
        for i in range(20)
    )
    nodes = "".join(f"t{i + 1} = com.acme.Op{i}(t{i}) " for i in range(20))
    functions = "".join(
        f'<domain: "com.acme", opset_import: ["": 17]> Op{i} (x) => (y) {{ y = Identity(x) }}' for i in range(20)
    )
    text = f'<ir_version: 8, opset_import: ["": 17, "com.acme": 1]> g (float[2] t0) => (float[2] t20) {{ {nodes} }} {functions}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--rules", write(tmp_path, rules))
    assert done.code == 1
    assert "the model is returned unchanged" in done.out
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


def test_only_the_firing_that_hurts_is_taken_back(call: Call, tmp_path: Path) -> None:
    rule = "/// Fewer.\nrule BAD001 no-relu <kind: exact, severity: error>\nmatch { y = Relu(x) }\nrewrite { y = x }\n"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[64] x) => (float[64] y) { a = Relu(x) b = Relu(a) y = Relu(b) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--rules", write(tmp_path, rule), "--verify")
    assert done.code == 1
    assert done.out.count("rolled back BAD001") == 1
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node].count("Relu") == 1


def test_processes_say_and_write_the_same(call: Call, tmp_path: Path) -> None:
    rules = ("--rules", "shipped", "--rules", write(tmp_path, INVALID + REFUSED + WRONG))
    alone = call("fix", *EXPORTS[::3], "--out", tmp_path / "out", "--verify", *rules)
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    together = call("fix", *EXPORTS[::3], "--out", tmp_path / "out", "--verify", *rules, "--jobs", 2, "--force")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first
    assert (together.code, together.out) == (alone.code, alone.out)


def test_only_what_changed_is_judged(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a judge was asked")

    monkeypatch.setattr(Candidate, "refusal", refuse)
    assert call("check", POOL, "--runtime", "no").code == 1
    assert call("fix", POOL, "-o", tmp_path / "out.onnx", "--select", "NONE", "--runtime", "no").code == 0


def test_nothing_waits_for_onnx_runtime_when_no_rule_fires_and_it_is_not_asked(tmp_path: Path) -> None:
    program = (
        "import sys, rewriter.app.cli.main as m\n"
        "code = m.main(sys.argv[1:])\n"
        "assert 'onnxruntime' not in sys.modules and not any(name.startswith('rewriter.trust.proof.guard') for name in sys.modules)\n"
        "assert code == 0\n"
    )
    arguments = ["fix", str(MODELS / "pytorch-2.13-reshape-chain.onnx"), "-o", str(tmp_path / "out.onnx"), "--runtime", "no"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [("optimize",), ("fix", "--tidy")])
def test_a_tidying_that_makes_a_model_refused_is_rolled_back(call: Call, tmp_path: Path, command: tuple[str, ...]) -> None:
    """ONNX Runtime reads a tensor of the graph in the body of a function; for ONNX, and for the tidying, nothing does."""
    model = onnx.parser.parse_model(
        """<ir_version: 3, opset_import: ["": 8, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.F() z = Cast<to = 6>(x) }
        <domain: "local", opset_import: ["": 8]> F () => (y) { y = Cast<to = 1>(z) }"""
    )
    onnx.save(model, tmp_path / "net.onnx")
    if Candidate(load(tmp_path / "net.onnx")).first_refusal() is not None:
        pytest.skip("this version of ONNX Runtime, or the checker, does not take it as it is")
    options = (*command[1:], "-o", tmp_path / "out.onnx", "--no-stamp", "--ignore", "HYG032")
    done = call(command[0], tmp_path / "net.onnx", *options)
    assert done.code == 1
    assert "rolled back tidying model: ONNX Runtime: " in done.out and "refused" not in done.out
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


def test_a_plan_names_what_it_leaves_out(call: Call, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { [last] y = Softmax(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("plan", tmp_path / "net.onnx", "--rules", write(tmp_path, REFUSED))
    assert done.code == 1 and done.err.startswith("rolled back BAD002 last (Softmax): "), done.err
    assert "com.acme:Anything(-1) is not a registered function/op" in done.err


PLUGIN = """rule T1 plugin <kind: exact, opset: 7.., target: "tensorrt", unverified: "the plugin runs on TensorRT only">
match { y = Relu(x) }
rewrite { y = acme.Plugin(x) }
"""
RELU = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { h = Neg(x)  y = Relu(h) }'


@pytest.mark.parametrize("verify", [(), ("--verify",)])
def test_a_plugin_of_a_target_is_no_fault_in_onnx_runtime(call: Call, tmp_path: Path, verify: tuple[str, ...]) -> None:
    onnx.save(onnx.parser.parse_model(RELU), tmp_path / "net.onnx")
    words = "fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--force", "--extend", write(tmp_path, PLUGIN), *verify
    done = call(*words, "--target", "tensorrt")
    assert done.code == 0 and "note: not checked by ONNX Runtime, which does not have acme.Plugin" in done.out, done.out
    assert ("not verified: T1, because ONNX Runtime does not have acme.Plugin" in done.out) == bool(verify)
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Neg", "Plugin"]
    write(tmp_path, PLUGIN.replace(', target: "tensorrt"', ""))
    plain = call(*words)
    assert plain.code == 1 and "rolled back T1" in plain.out


def test_another_fault_next_to_a_plugin_is_rolled_back(call: Call, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(RELU), tmp_path / "net.onnx")
    other = "rule T2 wrong <kind: exact, opset: 11..> match { y = Neg(x) } rewrite { y = Gemm(x, x) }\n"
    rules = write(tmp_path, PLUGIN + other)
    words = "--extend", rules, "--target", "tensorrt", "--select", "T1,T2"
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", *words)
    assert done.code == 1 and "rolled back T2" in done.out and "rolled back T1" not in done.out, done.out
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Neg", "Plugin"]


def test_a_rule_that_writes_a_plugin_is_unverified(call: Call, tmp_path: Path) -> None:
    done = call("verify", write(tmp_path, PLUGIN))
    assert done.code == 0 and done.out.startswith("T1 unverified (0 random models): the plugin runs on TensorRT only"), done.out
