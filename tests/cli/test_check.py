"""`rewriter check`: findings, and what an unknown fact keeps from being decided."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest
from onnx import helper

from rewriter.trust.proof import judges
from tests.cli.call import GAMMA, GEMM, MODELS, POOL, Call
from tests.proof.test_guard import CLASH, clashing
from tests.proof.test_running import ALWAYS

DECIDES = """
/// Fires where the framework's file says so.
rule TST001 gamma-by-source <kind: repair, evidence: refused>
match { [bn] y = BatchNormalization(x, ...) }
where source(bn, "fix_gamma", true)
rewrite { bn.momentum = 0.5 }

/// Fails.
rule TST002 a-mistake <kind: repair, evidence: refused>
match { [bn] y = BatchNormalization(x, const gamma, ...) }
where gamma[1000] == 1
rewrite { bn.momentum = 0.5 }
"""


def test_a_finding_is_one_message_with_its_change_and_nothing_is_written(call: Call) -> None:
    before = sorted(MODELS.iterdir())
    done = call("check", GEMM, "--select", "MX001", "--runtime", "no")
    assert done.code == 1
    head, *changes = done.out.splitlines()
    assert head.startswith(f"{GEMM}: MX001 fc1 (Gemm): ")
    assert [line[:15] for line in changes] == ["      - fc1 = G", "      + fc1 = G", "      + fc1_fla"]
    fixed = str(GEMM).removesuffix(".onnx") + ".fixed.onnx"
    assert done.err.endswith(f"\nnext: rewriter fix {GEMM} --select MX001 -o {fixed}\n")
    assert done.err.startswith("1 model: 1 with findings; 1 finding by 1 rule; ")
    bare = call("check", GEMM, "--no-config", "--runtime", "no")
    assert bare.err.endswith(f"\nnext: rewriter fix {GEMM} --no-config -o {fixed}\n")
    assert sorted(MODELS.iterdir()) == before


def test_nothing_found(call: Call) -> None:
    done = call("check", GEMM, "--select", "MX003", "--runtime", "no")
    assert (done.code, done.out) == (0, "")


def test_blocked_by_an_unknown_fact_and_what_would_make_it_known(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(DECIDES)
    done = call("check", GAMMA, "--rules", tmp_path, "--select", "TST001", "--source", "none", "--runtime", "no")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith(f"{GAMMA}: blocked TST001 bn0 (BatchNormalization): ")
    assert first.endswith("(line 5 of the rule)")
    assert second.startswith("      help: pass the framework's own file")
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
    (skipped,) = (one for one in report["skipped"] if "MX001" in one["rules"])
    assert skipped["reason"] == "the exporter is pytorch, not mxnet; select a rule by its code to try it anyway"
    assert report["models"][0]["skipped"] == sum(len(one["rules"]) for one in report["skipped"])
    report = json.loads(call("check", chain, "--select", "MX001", "--format", "json").out)
    assert (report["models"][0]["skipped"], report["skipped"]) == (0, [])


def test_hints_about_the_selection(call: Call, tmp_path: Path) -> None:
    lossy = DECIDES.replace("kind: repair, evidence: refused", "kind: lossy").replace("[bn] y", "[bn] y", 1)
    (tmp_path / "my.rules").write_text(lossy)
    assert "rules that run only if you select them: TST001, TST002" in call("check", GAMMA, "--rules", tmp_path).err
    both = call("check", GAMMA, "--rules", "shipped", "--rules", tmp_path, "--select", "TST001,MX002", "--source", "auto")
    assert "MX002" in both.out
    assert "TST001" in both.out


def test_the_refusal_of_the_runtime_and_what_answers_it(call: Call) -> None:
    pytest.importorskip("onnxruntime")
    done = call("check", GEMM)
    assert done.code == 1
    head, repaired, rule, *_ = done.out.splitlines()
    assert head.startswith(f"{GEMM}: rejected by ONNX Runtime: ") and "rank 2" in head
    assert repaired == "  repaired by MX001: run `rewriter fix`" and rule.startswith("  MX001 fc1 (Gemm): ")
    assert done.err.startswith("1 model: 1 rejected by ONNX Runtime; 1 finding by 1 rule; ")
    model = json.loads(call("check", GEMM, "--format", "json").out)["models"][0]
    assert (model["status"], model["answers"][0]["rule"]) == ("findings", "MX001")


def test_a_refused_model_for_which_there_is_no_rule_is_a_finding(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = '<ir_version: 8, opset_import: ["": 13, "com.acme": 1]> g (float[2] x) => (float[2] y) { y = com.acme.Anything(x) }'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    (tmp_path / "my.rules").write_text(DECIDES)
    done = call("check", tmp_path, "--rules", tmp_path)
    assert done.code == 1
    assert done.out.splitlines()[1:] == ["  no rule repairs this (to write one: docs/first-rule.md)"]
    assert "\n1 model: 1 rejected by ONNX Runtime; " in done.err
    assert call("check", tmp_path, "--runtime", "no").code == 0


def test_no_rule_answers_for_an_operator_that_onnx_never_had(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Foo(x) }'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx")
    assert "No Op registered for Foo" in done.out
    assert done.out.splitlines()[1:] == ["  no rule repairs this (to write one: docs/first-rule.md)"]


def test_an_operator_of_another_domain_has_the_command_that_begins_a_rule(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = '<ir_version: 8, opset_import: ["": 13, "acme": 1]> g (float[2] x) => (float[2] y) { y = acme.Foo(x) }'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx")
    begin = f"rewriter new MY001 --from {tmp_path / 'net.onnx'} --around op:Foo --depth 0"
    assert done.err.endswith(f"\nnext: {begin} -o MY001.rules\n")
    assert "\n  y = acme.Foo(x)\n" in call(*begin.split()[1:]).out.replace("[n1] ", "")


def test_a_rule_without_the_operator_of_the_message_is_no_answer(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = '<ir_version: 8, opset_import: ["": 13]> g (bool[2] x) => (bool[2] y) { y = Neg(x) }'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    rule = (
        "/// Does not take truth.\nrule {code} {slug} <kind: repair, evidence: refused, "
        'symptom: "This is an invalid model. Type Error: Type of input parameter is invalid">\n'
        "match {{ y = {op}(x) }} where rank(x) == 3 rewrite {{ y = Not(x) }}\n"
    )
    rules = rule.format(code="TST001", slug="one", op="Neg") + rule.format(code="TST002", slug="other", op="Abs")
    (tmp_path / "my.rules").write_text(rules)
    done = call("check", tmp_path / "net.onnx", "--rules", tmp_path / "my.rules")
    why = f"rewriter why TST001 {tmp_path / 'net.onnx'} --rules {tmp_path / 'my.rules'}"
    assert "of operator (Neg) in node" in done.out
    assert done.out.splitlines()[-1] == f"  TST001 repairs this message but does not apply; to see why: {why}"
    assert done.err.endswith(f"\nnext: {why}\n")
    assert call(*why.split()[1:]).code == 0


def test_what_the_runtime_says_of_many_models_is_told_once(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(GEMM.read_bytes())
    done = call("check", tmp_path, "--select", "NONE", "--jobs", "2")
    first, _, second, why = done.out.splitlines()
    assert first.startswith(f"{tmp_path / 'a.onnx'}: rejected by ONNX Runtime: Node (fc1) ")
    assert second == f"{tmp_path / 'b.onnx'}: rejected by ONNX Runtime with the error message of {tmp_path / 'a.onnx'}"
    assert why.startswith("  MX001 and MX011 repair this message but do not apply; to see why: rewriter why MX001 ")
    assert done.code == 1
    again = call("check", tmp_path, "--select", "NONE", "--verbose", "--exit-zero")
    assert (again.code, again.out.count("rejected by ONNX Runtime: ")) == (0, 2)


def test_what_the_runtime_rejects_comes_first(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for name, net in (("a", POOL), ("b", GEMM)):
        shutil.copy(net, tmp_path / f"{name}.onnx")
        shutil.copy(net.with_name(f"{net.stem}-symbol.json"), tmp_path / f"{name}-symbol.json")
    done = call("check", tmp_path)
    assert [line.partition(": ")[0] for line in done.out.splitlines() if not line.startswith(" ")] == [
        str(tmp_path / "b.onnx"),
        str(tmp_path / "a.onnx"),
    ]
    assert "2 models: 1 rejected by ONNX Runtime, 1 with findings; 2 findings by 2 rules; " in done.err
    assert done.err.endswith(f"next: rewriter fix {tmp_path} --out DIR\n")


def test_a_blocked_rule_for_what_the_runtime_rejects_is_not_printed_where_it_loads_the_model(
    call: Call, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[N] x) => (float[N] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    rule = "rule {} <{}>\nmatch {{ y = Relu(x) }}\nwhere dim(x, 0) > 5\nrewrite {{ y = Abs(x) }}\n"
    rejected, exact = rule.format("TST001 one", "kind: repair, evidence: refused"), rule.format("TST002 two", "kind: exact")
    (tmp_path / "my.rules").write_text(rejected + exact)
    options = ("--rules", tmp_path / "my.rules", "--select", "TST001,TST002")
    assert "blocked TST001" in call("check", tmp_path / "net.onnx", *options, "--runtime", "no").out
    done = call("check", tmp_path / "net.onnx", *options)
    assert "blocked TST001" not in done.out and "blocked TST002" in done.out


def test_the_runtime_is_asked_for_and_not_there(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "installed", lambda: False)
    assert "rejected" not in call("check", GEMM).out
    done = call("check", GEMM, "--runtime", "yes")
    assert (done.code, "pip install" in done.err) == (2, True)


def test_a_model_that_no_rule_knows_and_the_runtime_refuses(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph = onnx.parser.parse_graph("g (float[2,3,4] x, float[5,3] w) => (float[2,5] y) { y = Gemm<transB=1>(x, w) }")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx")
    assert done.code == 1 and "rejected by ONNX Runtime: " in done.out and "MX001" in done.out


def test_a_guess_is_a_question_and_no_finding(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(
        'rule TST003 gamma <kind: repair, evidence: guess, question: "was gamma fixed?">\n'
        "match { [bn] y = BatchNormalization(x, ...) }\nrewrite { bn.momentum = 0.5 }\n"
    )
    done = call("check", GAMMA, "--rules", tmp_path, "--runtime", "no")
    assert done.code == 0
    question, remedy = done.out.splitlines()
    assert question == f"{GAMMA}: question TST003 bn0 (BatchNormalization): was gamma fixed?"
    assert remedy.strip() == "if so: --select DEFAULT,TST003"
    assert call("check", GAMMA, "--rules", tmp_path, "--runtime", "no", "--guess").code == 1
    found = json.loads(call("check", GAMMA, "--rules", tmp_path, "--runtime", "no", "--format", "json").out)
    assert [one["rule"] for one in found["models"][0]["questions"]] == ["TST003"]


def test_a_model_in_which_only_a_guess_fits_is_asked_about(call: Call) -> None:
    """The verdict by the bytes of a file must not end before a question was asked."""
    done = call("check", MODELS / "mxnet-1.3.1-average-pool.onnx", "--source", "none", "--runtime", "no")
    assert "question MX061 " in done.out


def test_a_rule_that_answers_and_is_opt_in_says_how_it_runs(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = """<ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 1], producer_name: "skl2onnx">
      g (double[N,2] x) => (seq(map(int64, double)) y) {
        probabilities = Neg(x)  [ZipMap] y = ai.onnx.ml.ZipMap<classlabels_int64s=[0,1]>(probabilities) }"""
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    asked = call("check", tmp_path / "net.onnx", "--ignore", "SK032,SK033")
    assert "  SK001 may repair this; it runs when selected: --select DEFAULT,SK001\n" in asked.out
    assert "\nnext: rewriter fix " in asked.err and " --select DEFAULT,SK001 -o " in asked.err
    assert "  repaired by SK001: run `rewriter fix`\n" in call("check", tmp_path / "net.onnx", "--select", "SK001").out
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "fixed.onnx", "--select", "DEFAULT,SK001")
    assert done.code == 0
    assert "still rejected" not in done.out


def test_a_guess_that_does_not_match_is_no_advice(call: Call, tmp_path: Path) -> None:
    """TF110 has the same error message. `check` named it as the repair of any model without a valid opset."""
    pytest.importorskip("onnxruntime")
    model = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = com.acme.Relu(x) }'
    proto = onnx.parser.parse_model(model)
    proto.graph.node[0].domain, proto.opset_import[0].version = "", 0
    onnx.save(proto, tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx")
    assert "TF110 repairs this message but does not apply" in done.out
    assert "next: rewriter why TF110 " in done.err
    assert "TF110 may repair this; it runs with --guess" in call("fix", tmp_path / "net.onnx", "-o", tmp_path / "o.onnx").out


def test_a_runtime_that_is_not_there_is_said_to_be_not_asked(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewriter.trust.proof.judges.installed", lambda: False)
    assert "note: ONNX Runtime is not installed, so results were not tested with it. To enable: " in call("check", GEMM).err
    assert "not installed" not in call("check", GEMM, "--runtime", "no").err


@pytest.mark.parametrize("command", ["check", "fix"])
def test_weights_that_are_gone_are_told_though_no_rule_fires(call: Call, tmp_path: Path, command: str) -> None:
    """ONNX Runtime cannot load such a model, and was not asked; to say nothing reads as if it had taken it."""
    weight = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="gone.bin")
    model = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Add(x, w) }'
    proto = onnx.parser.parse_model(model)
    proto.graph.initializer.append(weight)
    onnx.save(proto, tmp_path / "net.onnx")
    where = ["-o", tmp_path / "out.onnx", "--force"] if command == "fix" else []
    done = call(command, tmp_path / "net.onnx", *where)
    assert done.code == 0
    assert "note: not loaded into ONNX Runtime: external data 'gone.bin': no such file or directory" in done.out
    quiet = call(command, tmp_path / "net.onnx", "--runtime", "no", *where)
    assert quiet.code == 0 and "note" not in quiet.out


def test_a_model_that_loads_and_does_not_run(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = '<ir_version: 8, opset_import: ["": 17]> g ' + ALWAYS
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx", "--ignore", "GEN012")
    assert done.code == 1
    assert f"{tmp_path / 'net.onnx'}: fails in ONNX Runtime on generated inputs: " in done.out
    onnx.save(onnx.parser.parse_model(text.replace("2] x)", "2] x, int64[1] i)")), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx", "--ignore", "GEN012")
    assert done.code == 0 and ": note: ONNX Runtime loads it, and it fails on generated inputs: " in done.out


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_model_that_only_the_optimizations_of_the_runtime_refuse(call: Call, tmp_path: Path, command: str) -> None:
    clashing()
    onnx.save(onnx.parser.parse_model(CLASH), tmp_path / "net.onnx")
    done = call(command, tmp_path / "net.onnx", *(["-o", tmp_path / "out.onnx"] if command == "fix" else []))
    assert "rejected by ONNX Runtime: " in done.out and "with its default optimizations only" in done.out
    assert done.code == 1
