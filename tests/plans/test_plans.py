"""Plans of real exports: carried out whole they are what `fix` does, in part they are just that part, and never anything else."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import onnx
import pytest

from rewriter.trust.plan_file import read
from tests.cli.call import GEMM, MODELS, POOL, Call

EXPORTS = sorted(MODELS.rglob("*.onnx"))
GAMMA = MODELS / "mxnet-1.4.1-fix-gamma.onnx"

RULES = """/// Sines become cosines.
rule ACME001 sine <kind: repair, evidence: refused>
match { y = Sin(x) }
rewrite { y = Cos(x) }

/// Cosines become tangents.
rule ACME002 cosine <kind: repair, evidence: refused>
match { y = Cos(x) }
rewrite { y = Tan(x) }
"""
NET = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { t = Sin(x)  u = Cos(t)  y = Sin(u) }'


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "acme.rules").write_text(RULES)
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def propose(call: Call, model: Path, plan: Path, *options: object) -> str:
    assert call("plan", model, "-o", plan, *options).code == 0
    return plan.read_text()


def reject(plan: Path, *numbers: int) -> None:
    """Sets `apply = false` at some rewrites."""
    text = plan.read_text()
    for number in numbers:
        text, count = re.subn(rf"apply = true(\n(?:[^\[].*\n)*?number = {number}\n)", r"apply = false\1", text)
        assert count == 1
    plan.write_text(text)


def operators(model: Path) -> list[str]:
    return [node.op_type for node in onnx.load(model).graph.node]


@pytest.mark.parametrize("model", EXPORTS[3::6], ids=lambda path: path.parent.name if path.stem == "model" else path.stem)
def test_a_whole_plan_does_what_fix_does(call: Call, tmp_path: Path, model: Path) -> None:
    propose(call, model, tmp_path / "plan.toml")
    assert call("apply", tmp_path / "plan.toml", "-o", tmp_path / "applied.onnx").code == 0
    assert call("fix", model, "-o", tmp_path / "fixed.onnx").code in (
        0,
        1,
    )  # the optimizer of ONNX Runtime 1.23 refuses some results
    assert (tmp_path / "applied.onnx").read_bytes() == (tmp_path / "fixed.onnx").read_bytes()


def test_a_plan_shows_what_each_rewrite_changes(call: Call, tmp_path: Path, net: Path) -> None:
    told = propose(call, GEMM, tmp_path / "plan.toml")
    assert "# + fc1_flat = Flatten<axis = 1>(data)" in told.splitlines()
    assert [line[:3] for line in told.splitlines() if line.startswith(("# - fc1 =", "# + fc1 ="))] == ["# -", "# +"]
    of_three = propose(call, net, tmp_path / "three.toml", "--rules", tmp_path / "acme.rules").split("[[rewrite]]")
    assert all(text.count("\n# - ") == text.count("\n# + ") == 1 for text in of_three[1:])
    assert any("# - t = Sin(x)\n# + t = Cos(x)\n" in text for text in of_three)


def test_all_rejected(call: Call, tmp_path: Path) -> None:
    propose(call, GAMMA, tmp_path / "plan.toml")
    reject(tmp_path / "plan.toml", 1, 2)
    assert call("apply", tmp_path / "plan.toml", "-o", tmp_path / "out.onnx").code == 0
    assert (tmp_path / "out.onnx").read_bytes() == GAMMA.read_bytes()


def test_one_rejected(call: Call, tmp_path: Path, net: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out.onnx"
    options = ("--rules", tmp_path / "acme.rules")
    assert "follows = [1]" in propose(call, net, plan, *options)
    found = [(p.number, p.rule, p.node, p.follows) for p in read(plan).proposals]
    assert sorted(found)[:1] == [(1, "ACME001", "t", ())]
    whole = {(rule, node): number for number, rule, node, _ in found}
    reject(plan, whole["ACME001", "t"])
    done = call("apply", plan, "-o", out)
    assert done.code == 0
    assert operators(out) == ["Sin", "Tan", "Tan"]
    assert "suppressed ACME001 t (Sin): rejected in the plan" in done.out
    assert f"not done {whole['ACME002', 't']} ACME002 at t: it follows 1, which did not happen" in done.out
    assert call("audit", net, out, *options).code == 0


def test_what_is_not_in_the_plan_does_not_happen(call: Call, tmp_path: Path, net: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out.onnx"
    text = propose(call, net, plan, "--rules", tmp_path / "acme.rules")
    parts = text.split("\n[[rewrite]]\n")
    at_u = next(part for part in parts[1:] if 'node = "u"' in part)
    plan.write_text("\n[[rewrite]]\n".join(part for part in parts if part is not at_u))
    done = call("apply", plan, "-o", out)
    assert (done.code, operators(out)) == (1, ["Tan", "Cos", "Tan"])
    assert "suppressed ACME002 u (Cos): not in the plan" in done.out


def test_what_is_in_the_plan_and_cannot_happen(call: Call, tmp_path: Path, net: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out.onnx"
    text = propose(call, net, plan, "--rules", tmp_path / "acme.rules")
    plan.write_text(text + '\n[[rewrite]]\napply = true\nrule = "ACME001"\nnode = "nowhere"\nnumber = 99\n')
    done = call("apply", plan, "-o", out, "--format", "json")
    told = json.loads(done.out)
    assert (done.code, told["exit_code"], told["missing"]) == (1, 1, [{"rewrite": 99, "because": []}])
    assert "did not happen 99 ACME001 at nowhere" in call("apply", plan, "-o", out, "--force").out


def test_nothing_is_written_when_something_has_changed(call: Call, tmp_path: Path, net: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out.onnx"
    rules = tmp_path / "acme.rules"
    propose(call, net, plan, "--rules", rules)
    rules.write_text(f"# layout and comments change nothing\n{RULES.replace('{ y = Sin', '{   y = Sin')}")
    assert call("apply", plan, "-o", out).code == 0
    out.unlink()
    rules.write_text(RULES.replace("y = Tan(x)", "y = Atan(x)"))
    done = call("apply", plan, "-o", out)
    assert (done.code, "rule ACME002 changed since the plan was made" in done.err) == (2, True)
    rules.write_text(RULES.split("/// Cosines")[0])
    assert "rule ACME002 is not among the rules any more" in call("apply", plan, "-o", out).err
    rules.write_text(RULES)
    model = onnx.load(net)
    model.doc_string = "another"
    onnx.save(model, net)
    done = call("apply", plan, "-o", out)
    assert (done.code, "is not the model of the plan" in done.err) == (2, True)
    assert not out.exists()


def test_a_source_file_that_has_changed(call: Call, tmp_path: Path) -> None:
    for path in MODELS.glob(f"{GEMM.stem}*"):
        shutil.copy(path, tmp_path / path.name)
    propose(call, tmp_path / GEMM.name, tmp_path / "plan.toml")
    source = tmp_path / f"{GEMM.stem}-symbol.json"
    source.write_text(source.read_text() + " ")
    done = call("apply", tmp_path / "plan.toml")
    assert (done.code, "changed since the plan was made" in done.err) == (2, True)


def test_paths_are_seen_from_the_plan(call: Call, tmp_path: Path, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans").mkdir()
    monkeypatch.chdir(tmp_path)
    text = propose(call, Path("net.onnx"), Path("plans/plan.toml"), "--rules", "acme.rules")
    assert 'model = "../net.onnx"' in text
    assert 'rule-paths = ["../acme.rules"]' in text
    monkeypatch.chdir("/")
    assert call("apply", tmp_path / "plans" / "plan.toml").code == 0
    assert (tmp_path / "net.fixed.onnx").exists()


def test_what_was_suppressed_stays_so(call: Call, tmp_path: Path, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "rewriter.toml").write_text(
        'rules = ["acme.rules"]\n[[suppress]]\nrule = "ACME001"\nnode = "y"\nreason = "not here"\n'
    )
    monkeypatch.chdir(tmp_path)
    text = propose(call, net, tmp_path / "plan.toml")
    assert f"# suppressed ({tmp_path / 'rewriter.toml'}:2): not here\napply = false\n" in text
    (tmp_path / "rewriter.toml").unlink()
    assert call("apply", "plan.toml").code == 0
    assert operators(tmp_path / "net.fixed.onnx") == ["Tan", "Tan", "Sin"]


def test_hostile_names(call: Call, tmp_path: Path) -> None:
    model = onnx.load(POOL)
    evil = 'x"\n[[rewrite]]\napply = true\x1b[2J\u202e\x7f\\'
    node = next(node for node in model.graph.node if node.op_type == "AveragePool")
    node.name = evil
    onnx.save(model, tmp_path / "net.onnx")
    text = propose(call, tmp_path / "net.onnx", tmp_path / "plan.toml", "--select", "MX061")
    assert all(line.isprintable() for line in text.splitlines())
    assert [proposal.node for proposal in read(tmp_path / "plan.toml").proposals] == [evil]
    done = call("apply", tmp_path / "plan.toml")
    assert (done.code, "\x1b" in done.out) == (0, False)


def test_to_standard_output(call: Call, tmp_path: Path, net: Path) -> None:
    printed = call("plan", net, "--rules", tmp_path / "acme.rules").out
    (tmp_path / "plan.toml").write_text(printed)
    assert len(read(tmp_path / "plan.toml").proposals) == 5
    assert call("plan", net, "-o", net).code == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("schema = 1", "schema = 2"), "no plan of schema 1"),
        (("version", "vershion"), "5: there is no key `vershion`; did you mean `version`?"),
        (("number = 1\n", 'number = "1"\n'), "`number` is not a whole number"),
        (("apply = true", "aply = true"), "there is no key `aply`; did you mean `apply`?"),
        (("apply = true", "# apply"), "there is no `apply`"),
        (("apply = true", "apply = 1"), "`apply` is not true or false"),
        (('rule-paths = ["', 'rule-paths = [3, "'), "each item of `rule-paths` is a text"),
        (("schema = 1", "schema = = 1"), "4: not TOML"),
        (('model = "', r'model = "\u0000'), "no file has a name with a null character"),
    ],
)
def test_what_is_no_plan(call: Call, tmp_path: Path, net: Path, change: tuple[str, str], message: str) -> None:
    plan = tmp_path / "plan.toml"
    text = propose(call, net, plan, "--rules", tmp_path / "acme.rules")
    assert change[0] in text
    plan.write_text(text.replace(*change))
    done = call("apply", plan)
    assert done.code == 2
    assert done.err.startswith(f"rewriter: error: {plan}:")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("answers", "kept", "asked"),
    [
        ("y\nn\n", [True, False], 2),
        ("what?\nn\na\n", [False, True], 3),
        ("q\n", [False, False], 1),
        ("a\n", [True, True], 1),
    ],
)
def test_each_rewrite_is_decided_by_an_answer(
    call: Call, net: Path, monkeypatch: pytest.MonkeyPatch, answers: str, kept: list[bool], asked: int
) -> None:
    plan = net.with_suffix(".toml")
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    done = call("plan", net, "--rules", net.parent, "--select", "ACME001", "-o", plan, "--interactive")
    assert done.code == 0 and "  - t = Sin(x)" in done.err and done.err.count("apply it?") == asked
    assert done.err.startswith("y: apply it; n: leave it out; ")
    assert done.err.endswith(
        f"{sum(kept)} of 2 rewrites accepted in {plan}\nnext: rewriter apply {plan} -o {net.stem}.fixed.onnx\n"
    )
    assert [proposal.apply for proposal in read(plan).proposals] == kept


def test_answers_that_end_leave_no_plan(call: Call, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = call("plan", net, "--rules", net.parent, "-o", net.with_suffix(".toml"), "--interactive")
    assert done.code == 2 and "it may be impossible without rewrite 1, which is left out" in done.err
    assert "the answers ended before all rewrites were decided; no plan was written" in done.err
    assert not net.with_suffix(".toml").exists()


def test_a_rewrite_of_the_model_as_a_whole_is_asked_about_by_that_name(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { [same] t = Relu(x)  [same] y = Neg(t) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "twice.onnx")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = call("plan", tmp_path / "twice.onnx", "-o", tmp_path / "plan.toml", "--interactive")
    assert done.code == 0 and "1 of 1: HYG001 model: Two nodes of one graph have the same name." in done.err


def test_a_plan_for_standard_output(call: Call, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(net.parent)
    assert call("plan", net, "--rules", net.parent, "-o", "-").out == call("plan", net, "--rules", net.parent).out
    assert not Path("-").exists()
