"""`check --ask` and `fix --ask`: what is printed, what is written, and how the call ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from rewriter.trust.consumers import target_recipes as recipes
from rewriter.trust.consumers.target_recipes import Recipe, Step
from rewriter.trust.proof import judges
from tests.cli.call import Call
from tests.consumers.fake import fake, relu

pytestmark = pytest.mark.skipif(not judges.installed(), reason="needs ONNX Runtime")

NO_IDENTITY = """
import onnx
if any(node.op_type == "Identity" for node in onnx.load(path).graph.node):
    raise RuntimeError("there is no Identity")
return path"""


def chain(path: Path) -> Path:
    """An Identity before a Relu."""
    model = onnx.load(relu(path))
    model.graph.node.insert(0, onnx.helper.make_node("Identity", ["x"], ["i"], name="before"))
    model.graph.node[1].input[0] = "i"
    onnx.save(model, path)
    return path


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    steps = (Step("rules", True, "its rules"), Step("optimize", False, "fewer nodes"), Step("static", False, "it wants shapes"))
    found = Recipe("tract", "Fake", "fake", (), (), steps)
    monkeypatch.setattr(recipes, "recipe_of", lambda name: found)
    return found


def test_check_prints_what_a_consumer_makes_of_a_model(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY)
    model = chain(tmp_path / "m.onnx")
    done = call("check", model, "--ask", "fake")
    assert done.out.splitlines() == [f"{model}: Fake 1.0 rejects it: there is no Identity"]
    assert done.code == 1
    assert call("check", relu(tmp_path / "n.onnx"), "--ask", "fake").code == 0


def test_check_prints_the_command_that_repairs_a_model_for_its_consumer(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY)
    model = chain(tmp_path / "m.onnx")
    done = call("check", model, "--ask", "FAKE")
    fix = f"rewriter fix {model} --target fake --ask -o {tmp_path / 'm.fixed.onnx'}"
    assert done.err.startswith("1 model: 1 not accepted by a consumer; 0 findings; ")
    assert done.err.endswith(f"\nnext: {fix}\n")
    typed = call("check", model, "--ask", "FAKE", "--target", "tract")
    assert typed.err.endswith(f"\nnext: {fix}\n")  # with one --target
    assert call(*fix.replace("--target fake", "--target tract").split()[1:]).code == 0
    assert "next:" not in call("check", tmp_path / "m.fixed.onnx", "--ask", "fake").err


def test_check_prints_each_reason_once_for_a_folder(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY)
    (tmp_path / "models").mkdir()
    for name in "abc":
        chain(tmp_path / "models" / f"{name}.onnx")
    relu(tmp_path / "models" / "d.onnx")
    done = call("check", tmp_path / "models", "--ask", "fake", "--report", tmp_path / "report.json")
    assert done.out.splitlines() == [
        f"{tmp_path}/models/a.onnx and 2 more models: Fake 1.0 rejects it: there is no Identity",
        "Fake 1.0: 4 models: 1 read, with equal outputs, 3 rejected",
    ]
    first = json.loads((tmp_path / "report.json").read_text())["models"][0]
    assert first["asked"] == [{"consumer": "Fake 1.0", "state": "rejects", "reason": "there is no Identity"}]
    assert first["status"] == "refused"


def test_fix_goes_on_until_the_consumer_accepts(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY)
    done = call("fix", chain(tmp_path / "m.onnx"), "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")
    assert done.code == 0
    assert done.out.splitlines()[-3:] == [
        "  before: Fake 1.0 rejects it: there is no Identity",
        "  now: Fake 1.0 reads it, and its outputs equal those of ONNX Runtime",
        "  steps of the recipe: optimize",
    ]
    assert [node.op_type for node in onnx.load(tmp_path / "fixed.onnx").graph.node] == ["Relu"]


def test_fix_stops_where_the_consumer_accepts(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes")
    model = chain(tmp_path / "m.onnx")
    done = call("fix", model, "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")
    assert done.out.splitlines()[-1] == "  Fake 1.0 reads it, and its outputs equal those of ONNX Runtime"
    assert (tmp_path / "fixed.onnx").read_bytes() == model.read_bytes()


def test_fix_leaves_out_steps_that_do_not_help(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", "raise RuntimeError('nothing is read')")
    model = chain(tmp_path / "m.onnx")
    done = call("fix", model, "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")
    assert done.code == 1
    assert done.out.splitlines()[-1] == "  now: Fake 1.0 rejects it: nothing is read"
    assert (tmp_path / "fixed.onnx").read_bytes() == model.read_bytes()


def test_another_opset_is_a_step(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe) -> None:
    only = "import onnx\nif onnx.load(path).opset_import[0].version < 18: raise RuntimeError('too old')\nreturn path"
    fake(monkeypatch, tmp_path / "runtimes", only)
    steps = (Step("opset 18", False, "it is new"),)
    monkeypatch.setattr(recipes, "recipe_of", lambda name: Recipe("tract", "Fake", "fake", (), (), steps))
    done = call("fix", relu(tmp_path / "m.onnx"), "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "  steps of the recipe: opset 18"
    assert onnx.load(tmp_path / "fixed.onnx").opset_import[0].version == 18


def test_fix_prefers_an_error_to_wrong_outputs(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY, "return [feed['x'] - 1]")
    model = chain(tmp_path / "m.onnx")
    done = call("fix", model, "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")
    assert done.code == 1
    assert done.out.splitlines()[-1] == "  now: Fake 1.0 rejects it: there is no Identity"
    assert (tmp_path / "fixed.onnx").read_bytes() == model.read_bytes()


def test_fix_without_asking_says_so(call: Call, tmp_path: Path, recipe: Recipe) -> None:
    model = relu(tmp_path / "m.onnx")
    done = call("fix", model, "--target", "tract", "-o", tmp_path / "fixed.onnx")
    assert (
        "note: Fake did not run; to run the models in it, pass --ask; other steps that often help: `rewriter optimize MODEL` "
        "(fewer nodes), --static INPUT:SHAPE (it wants shapes)"
    ) in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--ask", "nobody"), "--ask nobody: unknown consumer; use one of iree, mnn, "),
        (
            ("fix", "--ask"),
            "consumer rewriter can run: iree, mnn, ncnn, onnx2torch, onnxruntime, opencv, openvino, qnn, rknn, tflite, ",
        ),
        (("fix", "--consumer-env", "env"), "--consumer-env has no effect without --ask"),
        (("check", "--consumer-env", "env"), "--consumer-env has no effect without --ask"),
        (("run", "--consumer-env", "env"), "--consumer-env has no effect without --ask"),
        (("fix", "--ask", "--target", "tensorrt"), "--ask needs a --target whose consumer rewriter can run"),
    ],
)
def test_what_cannot_be_asked(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    command, *options = arguments
    done = call(command, relu(tmp_path / "m.onnx"), *options)
    assert done.code == 2
    assert message in done.err


def test_one_that_is_not_installed_is_an_error(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", more="import no_such_consumer")
    done = call("check", relu(tmp_path / "m.onnx"), "--ask", "fake")
    assert done.code == 2
    assert "fake is not installed; install it, or name an environment that has it with --consumer-env DIR" in done.err
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    done = call("check", tmp_path / "m.onnx", "--ask", "fake", "--consumer-env", tmp_path / "env")
    assert f"fake is not installed in {tmp_path / 'env'}; install it" in done.err


def test_the_list_of_consumers_in_the_help() -> None:
    from rewriter.app.cli.options import OPTIONS, SHIPPED
    from rewriter.trust.consumers.asking import known

    assert sorted(SHIPPED.split(", ")) == known()
    assert SHIPPED in OPTIONS["ask"].help


def test_a_batch_goes_on_after_a_crash(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = "if b'Identity' in open(path, 'rb').read(): os.kill(os.getpid(), signal.SIGSEGV)\nreturn path"
    fake(monkeypatch, tmp_path / "runtimes", read)
    (tmp_path / "models").mkdir()
    for name in "ac":
        relu(tmp_path / "models" / f"{name}.onnx")
    chain(tmp_path / "models" / "b.onnx")
    done = call("check", tmp_path / "models", "--ask", "fake")
    assert done.code == 1
    assert done.out.splitlines() == [
        f"{tmp_path}/models/b.onnx: Fake 1.0 ended the process: SIGSEGV, while it reads the model",
        "Fake 1.0: 3 models: 2 read, with equal outputs, 1 end the process",
    ]


def test_the_words_of_a_consumer_do_not_steer_a_terminal(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", "raise RuntimeError('\\x1b]0;owned\\x07\\x1b[2J')")
    for words in (("check", "--ask", "fake"), ("fix", "--target", "tract", "--ask", "-o", tmp_path / "fixed.onnx")):
        done = call(words[0], relu(tmp_path / "m.onnx"), *words[1:])
        assert "owned" in done.out and "\x1b" not in done.out + done.err


RULE = """/// An Identity is left.
rule ACME001 no-identity <kind: lossy, opset: 7..>

match {
  y = Identity(x)
}

rewrite {
  y = x
}
"""


def test_fix_with_ask_runs_what_named_rule_files_hold(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: Recipe
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", NO_IDENTITY)
    (tmp_path / "acme.rules").write_text(RULE)
    options = ("--extend", tmp_path / "acme.rules", "--target", "tract", "--ask")
    done = call("fix", chain(tmp_path / "m.onnx"), *options, "-o", tmp_path / "fixed.onnx")
    assert (done.code, "ACME001" in done.out, "steps of the recipe" in done.out) == (0, True, False)


def test_rules_of_ones_own_for_a_target_whose_recipe_ignores_shipped_rules(call: Call, tmp_path: Path) -> None:
    (tmp_path / "acme.rules").write_text(RULE)
    done = call(
        "fix", chain(tmp_path / "m.onnx"), "--rules", tmp_path / "acme.rules", "--target", "tract", "-o", tmp_path / "f.onnx"
    )
    assert (done.code, "ACME001" in done.out) == (0, True), done.err


def test_a_rule_that_the_consumer_has_to_judge_waits_for_it(call: Call, tmp_path: Path) -> None:
    """TGT188 helps OpenCV 5, and may harm OpenCV 4."""
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[2] x, float[2] z) => (float[2] y) <int64 two = {2}> {
        y = Loop(two, "", x) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { t = Add(s, z) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    for target, ops in (("tract", ["Add", "Add"]), ("opencv", ["Loop"]), ("opencv,tract", ["Loop"]), ("ALL", ["Loop"])):
        assert call("fix", tmp_path / "m.onnx", "--target", target, "-o", tmp_path / "f.onnx", "--force").code == 0
        assert [node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node] == ops
