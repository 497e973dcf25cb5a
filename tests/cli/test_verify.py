"""`rewriter verify`: exit codes, the lock file, what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewriter.core.errors import install
from tests.cli.call import Call

GOOD = "rule T1 identity <kind: exact>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"
WRONG = "rule T2 negation <kind: exact>\nmatch { y = Neg(x) }\nrewrite { y = x }\n"


def test_a_good_rule_is_locked_and_not_run_again(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(GOOD)
    done = call("verify", tmp_path, "--samples", 5, "--update-lock")
    assert done.code == 0, done.out + done.err
    assert done.out.startswith("T1 tested (5 random models")
    assert json.loads((tmp_path / "verified.lock.json").read_text())["rules"]["T1"]["status"] == "tested"
    again = call("verify", tmp_path)
    assert again.code == 0 and "(1 from the lock file)" in again.err
    for asked in (("--seed", 1), ("--samples", 7)):  # the lock has no answer to these
        other = call("verify", tmp_path, "--samples", 6, *asked)
        assert other.code == 0 and "from the lock file" not in other.err, other.err
    assert call("verify", tmp_path, "--locked").code == 0
    (tmp_path / "a.rules").write_text(GOOD.replace("Identity", "Dropout"))
    changed = call("verify", tmp_path, "--locked")
    assert (
        changed.code == 1
        and f"T1 is new or changed since it was verified; run: rewriter verify --update-lock {tmp_path}\n" == changed.out
    )


def test_a_type_for_which_a_repair_is_useless_is_named(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "a.rules").write_text(
        "rule T1 twice <kind: repair, evidence: refused>\nmatch { y = acme.Twice<by=k>(x) }\n"
        "where dtype(x) in [float, double]\nrewrite { y = Mul(LeakyRelu(x), float{k}) }\n"
        'test "float" ~~~\n<ir_version: 8, opset_import: ["": 17, "acme": 1]>\n'
        "g (float[2] x) => (float[2] y) { y = acme.Twice<by=2.0>(x) }\n~~~ becomes ~~~\n"
        '<ir_version: 8, opset_import: ["": 17, "acme": 1]>\ng (float[2] x) => (float[2] y) <float k = {2}> { h = LeakyRelu(x)  y = Mul(h, k) }\n~~~\n'
    )
    done = call("verify", tmp_path)
    assert "T1 tested (200 random models" in done.out, done.out
    assert "\n    still rejected after the repair with double; for double: Type Error: " in done.out


def test_a_counterexample_with_a_large_constant_is_short(call: Call, tmp_path: Path) -> None:
    text = GOOD.replace("Identity(x)", "Relu(x)").replace("y = x", "y = Add(x, {full([1000000], 1)})")
    (tmp_path / "a.rules").write_text(text)
    done = call("verify", tmp_path, "--samples", 5)
    assert "T1 counterexample [E501]" in done.out and len(done.out) < 20_000


def test_a_selection_keeps_the_verdicts_of_the_others(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(
        GOOD + GOOD.replace("T1", "T3").replace("Identity(x)", "Relu(Relu(x))").replace("= x }", "= Relu(x) }")
    )
    assert call("verify", tmp_path, "--samples", 5, "--update-lock").code == 0
    assert call("verify", tmp_path, "--samples", 5, "--select", "T1", "--no-lock", "--update-lock").code == 0
    assert call("verify", tmp_path, "--locked").code == 0


def test_a_rule_that_is_gone_leaves_the_lock_of_its_folder(call: Call, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    for code, name in (("T1", "part/T1.rules"), ("T2", "T2.rules")):
        (tmp_path / name).write_text(GOOD.replace("T1", code))
    assert call("verify", tmp_path, "--samples", 5, "--update-lock").code == 0
    assert call("verify", tmp_path / "part", "--no-lock", "--samples", 5, "--update-lock").code == 0
    assert set(json.loads((tmp_path / "verified.lock.json").read_text())["rules"]) == {"T1", "T2"}
    (tmp_path / "T2.rules").unlink()
    assert call("verify", tmp_path, "--samples", 5, "--update-lock").code == 0
    assert set(json.loads((tmp_path / "verified.lock.json").read_text())["rules"]) == {"T1"}


def test_a_pack_keeps_its_lock_with_its_rules(call: Call, tmp_path: Path) -> None:
    """`verify PACK --update-lock` writes where `verify PACK/acme_rules/rules --locked` reads."""
    inner = tmp_path / "acme_rules" / "rules"
    inner.mkdir(parents=True)
    (inner / "verified.lock.json").write_text('{"schema": 1, "oracles": {}, "rules": {}}\n')
    for code in ("T1", "T2"):
        (inner / f"{code}.rules").write_text(GOOD.replace("T1", code))
    assert call("verify", tmp_path, "--samples", 5, "--update-lock").code == 0
    assert not (tmp_path / "verified.lock.json").exists()
    assert call("verify", inner, "--locked").code == call("verify", tmp_path, "--locked").code == 0
    (inner / "T2.rules").unlink()
    assert call("verify", tmp_path, "--samples", 5, "--update-lock").code == 0
    assert set(json.loads((inner / "verified.lock.json").read_text())["rules"]) == {"T1"}


def test_how_to_show_what_a_condition_is_for(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(GOOD.replace("rewrite", "where rank(x) != 3\nrewrite"))
    lines = call("verify", tmp_path, "--samples", 30).out.splitlines()
    flagged = next(at for at, line in enumerate(lines) if "warning[W504]" in line)
    assert "`where rank(x) != 3` may be unnecessary: " in lines[flagged]
    assert lines[flagged + 1].strip() == (
        'leave it out, or show what it is for: a test "..." unchanged, whose model breaks this line only'
    )


def test_a_counterexample_is_a_finding(call: Call, tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text(WRONG)
    done = call("verify", tmp_path / "b.rules", "--samples", 5, "--update-lock")
    assert done.code == 1
    assert "T2 counterexample [E501]: output" in done.out
    for part in ("before:", "after:", "inputs:", "computed before:", "computed after:"):
        assert part in done.out
    assert "T2" not in (tmp_path / "verified.lock.json").read_text()


def test_json(call: Call, tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text(GOOD + WRONG)
    done = call("verify", tmp_path, "--samples", 5, "--format", "json", "--select", "T2")
    (found,) = json.loads(done.out)["rules"]
    assert done.code == 1 and found["rule"] == "T2" and found["status"] == "counterexample" and found["counterexample"]


def test_without_onnx_runtime_it_says_what_to_install(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rewriter.trust.proof import judges

    (tmp_path / "a.rules").write_text(GOOD)
    monkeypatch.setattr(judges, "installed", lambda: False)
    done = call("verify", tmp_path)
    assert done.code == 2 and install("verify") in done.err


def test_of_a_guess_it_says_what_is_not_tested(call: Call, tmp_path: Path) -> None:
    guess = 'rule T1 zero <kind: repair, evidence: guess, question: "was it a list?">\nmatch { y = Identity(x) }\nrewrite { y = x }\n'
    (tmp_path / "a.rules").write_text(guess)
    said = "    a guess: only its rewrite was tested; whether a model needs it, the user decides\n"
    left_out = call("verify", tmp_path, "--samples", 5).err
    assert left_out.endswith("\n1 rule left out as a guess; to verify one: --select T1\n")
    done = call("verify", tmp_path, "--samples", 5, "--select", "T1")
    assert said in done.out and "left out" not in done.err
    (tmp_path / "a.rules").write_text(GOOD)
    assert said not in call("verify", tmp_path, "--samples", 5).out
