"""Files that ended in an internal error, a crash or a full memory: each ends in one clear line now."""

from __future__ import annotations

import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.core.framework import exporter as guards
from rewriter.core.isolation.budget import BeyondLimitsError, OutOfTimeError, within_limits
from rewriter.trust import rule_tests as testing
from rewriter.trust.rule_tests import inline_tests, limited_results
from tests.cli.call import GEMM, Call
from tests.hostile.poison_files import HEAD, write_model, write_poison

NET = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) {{ {} }}'


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(NET.format(text))


# --- tests of rules


@pytest.mark.parametrize("name", ["types-nested", "branches-nested"])
def test_a_test_that_ends_its_process_is_a_failed_test(name: str, call: Call, tmp_path: Path) -> None:
    file = write_poison("rules", name, tmp_path / "in")
    done = call("test", file)
    assert done.code == 1 and "2 tests of 1 rule: 1 passed, 1 failed" in done.err
    assert "the test: crashed (SIG" in done.out


def test_the_language_server_runs_tests_in_a_child(tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    from rewriter.app.editor.opened_rules import OpenedRules
    from rewriter.app.editor.server import test_results

    text = write_poison("rules", "branches-nested", tmp_path / "in").read_text()
    assert [one.ok for one in test_results(OpenedRules(text))] == [True, False]


def test_the_tests_of_rules_have_a_limit_of_time(call: Call, tmp_path: Path) -> None:
    done = call("test", write_poison("rules", "items-of-items", tmp_path / "in"), "--time-limit", 1)
    assert (done.code, "did not answer within" in done.out or "time limit of 1 s" in done.err) in ((1, True), (2, True))


def test_an_error_of_the_program_itself_is_no_failed_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> testing.TestResult:
        raise KeyError("a defect")

    monkeypatch.setattr("rewriter.trust.rule_tests.run_test", broken)
    rules = [rule for rule in rewriter.load_rules() if rule.code == "HYG001"]
    with pytest.raises(RuntimeError, match=r"KeyError in the test .* of HYG001"):
        list(limited_results(inline_tests(rules), rules))


# --- weights in other files


@pytest.mark.parametrize(
    ("location", "messages"),
    [
        ("none.bin", ["failed OPT030 z (Add): tensor 'w' has data that cannot be read", "'none.bin': no such file"]),
        ("../w.bin", ["leads out of the model's folder", "1 model: 1 failed; 0 rewrites"]),
    ],
)
def test_weights_that_cannot_be_read_are_named_as_such(location: str, messages: list[str], call: Call, tmp_path: Path) -> None:
    found = model("z = Add(x, w)  y = Relu(z)")
    found.graph.initializer.add(
        name="w", data_type=onnx.TensorProto.FLOAT, dims=[4], data_location="EXTERNAL"
    ).external_data.add(key="location", value=location)
    (tmp_path / "in.onnx").write_bytes(found.SerializeToString())
    (tmp_path / "other").mkdir()
    done = call("optimize", tmp_path / "in.onnx", "-o", tmp_path / "other" / "out.onnx")
    for message in messages:
        assert message in done.out + done.err


# --- arrays


def test_the_size_of_arrays_is_known_before_they_are_read(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    file = write_poison("arrays", "bomb", tmp_path / "in")
    for command in (
        ("fix", file.parent / "model.onnx", "-o", tmp_path / "o.onnx", "--verify"),
        ("compare", file.parent / "model.onnx", file.parent / "model.onnx"),
    ):
        done = call(*command, "--inputs", file, "--memory-limit", "1G")
        assert done.code == 2 and "its arrays take 1.17 GiB, more than the memory limit of 1 GiB" in done.err


def test_what_is_no_array_is_named(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    file = write_poison("arrays", "no-array", tmp_path / "in")
    done = call("compare", file.parent / "model.onnx", file.parent / "model.onnx", "--inputs", file)
    assert done.code == 2 and "'x.npy' in it: no array of NumPy" in done.err
    file = write_poison("arrays", "more-than-there-is", tmp_path / "in")
    done = call("compare", file.parent / "model.onnx", file.parent / "model.onnx", "--inputs", file)
    assert done.code == 2 and "cut short: its array takes 4,398,046,511,104 bytes" in done.err


# --- models


def test_models_without_outputs_are_merged_or_refused(call: Call, tmp_path: Path) -> None:
    empty = model("t = Neg(x)")
    del empty.graph.output[:]
    onnx.save(empty, tmp_path / "m.onnx")
    done = call("merge", tmp_path / "m.onnx", tmp_path / "m.onnx", "-o", tmp_path / "mm.onnx")
    assert done.code == 2 and "internal error" not in done.err


def test_a_type_in_an_attribute_has_a_text(call: Call, tmp_path: Path) -> None:
    typed = model("y = Neg(x)")
    attribute = typed.graph.node[0].attribute.add(name="kind", type=onnx.AttributeProto.TYPE_PROTO)
    attribute.tp.tensor_type.elem_type = 1
    onnx.save(typed, tmp_path / "m.onnx")
    done = call("new", "MY001", "--from", tmp_path / "m.onnx", "--around", "y", "--runtime", "no")
    assert done.code in (0, 2) and "internal error" not in done.err


def test_a_location_longer_than_any_file_name_is_a_missing_file(call: Call, tmp_path: Path) -> None:
    far = model("y = Add(x, w)")
    tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="a" * 300)
    far.graph.initializer.append(tensor)
    (tmp_path / "m.onnx").write_bytes(far.SerializeToString())
    (tmp_path / "out").mkdir()
    done = call("text", tmp_path / "m.onnx", "-o", tmp_path / "out" / "m.onnxtxt")
    assert done.code in (0, 2) and "internal error" not in done.err


@pytest.mark.parametrize("way", ["[" * 1_000_000, '["a", [0, "b"], {}]', "[5]"])
def test_a_way_back_that_leads_nowhere_is_refused(way: str, call: Call, tmp_path: Path) -> None:
    from rewriter.trust.stamp import RecordedRun, dumps

    told = model("y = Neg(x)")
    run = RecordedRun("0", "x", {}, "", way_back=b64encode(zlib.compress(way.encode())).decode())
    onnx.helper.set_model_props(told, {"rewriter.history": dumps((run,))})
    onnx.save(told, tmp_path / "m.onnx")
    done = call("undo", tmp_path / "m.onnx")
    assert done.code == 2 and "its record does not make the original model again" in done.err


def test_a_record_of_infinitely_many_firings_is_none(call: Call, tmp_path: Path) -> None:
    done = call("history", write_poison("records", "infinite", tmp_path / "in"))
    assert done.code == 2 and "a run in it cannot be understood" in done.err


# --- journals


@pytest.mark.parametrize("name", ["files", "verdict", "word", "counts", "rolled-back", "remaining", "seconds", "nested"])
def test_a_damaged_line_of_a_journal_says_nothing(name: str, call: Call, tmp_path: Path) -> None:
    file = write_poison("journals", name, tmp_path / "in")
    (out := tmp_path / "out").mkdir()
    (out / "model.onnx").write_bytes(b"")
    done = call("fix", file.parent / "model.onnx", "--out", out, "--journal", file, "--resume", "--runtime", "no")
    assert "resume: 0 of 1 are done, 1 left" in done.err and "banana" not in done.err, done.err
    assert str(HEAD["command"]) in file.read_text()


# --- plans and configurations


def test_a_plan_fetches_nothing_unless_it_is_allowed(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    there = write_model(tmp_path).as_uri()
    assert call("plan", there, "-o", tmp_path / "plan.toml", "--select", "ALL").code == 0
    done = call("apply", tmp_path / "plan.toml", "-o", tmp_path / "o.onnx")
    assert done.code == 2 and f"names {there}, which was not downloaded" in done.err and not (tmp_path / "o.onnx").exists()
    assert call("apply", tmp_path / "plan.toml", "-o", tmp_path / "o.onnx", "--fetch").code == 0
    assert (tmp_path / "o.onnx").exists()


def test_a_source_file_of_a_plan_is_a_file(call: Call, tmp_path: Path) -> None:
    done = call("apply", write_poison("plans", "source-endless", tmp_path / "in"), "-o", tmp_path / "o.onnx")
    assert done.code == 2 and "/dev/zero: not a file" in done.err


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("plans", "rules-of-another-file"),
        ("plans", "rules-of-a-link"),
        ("settings", "rules-of-another-file"),
        ("settings", "more-of-a-link"),
    ],
)
def test_no_plan_or_configuration_has_another_file_read_as_rules(kind: str, name: str, call: Call, tmp_path: Path) -> None:
    file = write_poison(kind, name, tmp_path / "in")
    words = ("apply", file, "-o", tmp_path / "o.onnx") if kind == "plans" else ("rules", "--config", file)
    done = call(*words)
    assert done.code == 2 and "does not end in .rules" in done.err and "hunter2" not in done.out + done.err


def test_a_link_in_a_folder_of_rules_leads_to_rules(call: Call, tmp_path: Path) -> None:
    write_poison("plans", "rules-of-a-link", tmp_path / "in")
    done = call("rules", "--rules", tmp_path / "in")
    assert done.code == 2 and "does not end in .rules" in done.err and "hunter2" not in done.out + done.err


# --- the rest


def test_the_end_of_the_time_within_a_class_statement_is_the_end_of_the_time() -> None:
    with pytest.raises(BeyondLimitsError, match="time limit of 9 s"), within_limits(9.0, None):
        raise RuntimeError("Error calling __set_name__") from OutOfTimeError()


def test_which_rules_are_meant_for_a_model_is_found_out_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The rules are selected anew by each call, as `rewriter.fix` does, and they are the same rules."""
    asked = []
    before = guards._suited
    monkeypatch.setattr(guards, "_suited", lambda rules, subject: (asked.append(len(rules)), before(rules, subject))[1])
    monkeypatch.setattr(guards, "_known", {})
    rules = rewriter.load_rules()
    counts = []
    for number in range(4):
        rewriter.fix(GEMM, tmp_path / f"{number}.onnx", rules=rules.select(), runtime="no")
        counts.append(len(asked))
    assert 0 < counts[0] == counts[-1]
