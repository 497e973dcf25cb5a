"""Exit codes, streams, and the commands about rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rewriter
from rewriter.rule_tools import message_pages
from tests.cli.call import GEMM, Call

RULE = """/// Takes out what does nothing.
rule TST001 identity   <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
"""


def test_the_version(call: Call) -> None:
    assert call("--version").out.strip() == f"rewriter {rewriter.__version__}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chek", "x.onnx"), "there is no command 'chek'; did you mean check?"),
        (("zzz",), "there is no command 'zzz'; `rewriter --help` lists them"),
        (("fix", "--slect", "X"), "`rewriter fix` has no option '--slect'; did you mean --select?"),
        (("rules", "--zzz=1"), "`rewriter rules` has no option '--zzz'; `rewriter rules --help` lists them"),
        (("net.onnx",), "'net.onnx' is no command; to repair it: rewriter fix net.onnx -o net.fixed.onnx"),
        (("show", "a.onnx", "b.onnx"), "'b.onnx' is one argument too many; `rewriter show --help` lists them"),
    ],
)
def test_a_slip_gets_one_line_with_what_was_meant(arguments: tuple[str, ...], said: str, call: Call) -> None:
    done = call(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"rewriter: error: {said}\n")


def test_help_lists_commands_by_what_they_are_for(call: Call) -> None:
    lines = call("--help").out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.split() == ["fix", "repair", "models"])
    assert lines.index("  repair:") + 1 == first < lines.index("  rules:")


def test_help_knows_commands_rules_and_messages(call: Call) -> None:
    assert call("help", "fix").out == call("fix", "--help").out
    assert call("help", "e103").out == call("explain", "E103").out
    assert call("help", "mx001").out.startswith("MX001 gemm-input-not-flattened")
    assert call("help").out == call("--help").out
    wrong = call("help", "fixx")
    assert (wrong.code, wrong.err) == (2, "rewriter: error: 'fixx' is no command, rule or message; did you mean fix?\n")


def test_capitals_of_codes_do_not_count(call: Call) -> None:
    found = call("check", GEMM, "--select", "mx001", "--no-config")
    assert found.code == 1 and "MX001" in found.out
    assert call("fix", "--show-settings", "--set", "surg010.batch=B").code == 0


def test_an_internal_error_is_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> int:
        raise ValueError("two\nlines")

    monkeypatch.setattr(message_pages, "message_pages", explode)
    done = call("explain", "E103")
    assert done.code == 3
    assert done.err == "rewriter: internal error: ValueError: two\\nlines; please report it (--debug shows the traceback)\n"
    monkeypatch.setenv("REWRITER_DEBUG", "1")
    assert "Traceback" in call("explain", "E103").err


def test_an_interruption_is_quiet(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(message_pages, "message_pages", interrupt)
    done = call("explain", "E103")
    assert (done.code, done.err) == (130, "interrupted\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = "import sys, rewriter.app.cli.main as m; sys.exit(m.main(['rules', '--format', 'json']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_python_m_rewriter() -> None:
    done = subprocess.run([sys.executable, "-m", "rewriter", "--version"], capture_output=True, text=True)
    assert done.stdout == f"rewriter {rewriter.__version__}\n"


def test_the_process_ends_with_everything_said(tmp_path: Path) -> None:
    marks = "import atexit, sys; atexit.register(lambda: print('at the end')); import rewriter.app.cli.main as m; m.entry()"
    for arguments, code, said in ((["rules"], 0, "MX001"), (["check", str(tmp_path / "none.onnx")], 2, "none.onnx")):
        with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
            done = subprocess.run([sys.executable, "-c", marks, *arguments], stdout=out, stderr=err)
        told = (tmp_path / "out").read_text()
        assert done.returncode == code
        assert said in told + (tmp_path / "err").read_text()
        assert told.endswith("at the end\n")


def _exporter(head: str) -> str:
    return head.partition(":")[0]


def test_rules(call: Call) -> None:
    done = call("rules")
    lines = done.out.splitlines()
    heads = [line for line in lines if not line[0].isupper()]
    assert "any exporter: " in heads[0] and [*map(_exporter, heads)] == sorted(map(_exporter, heads))
    assert "GEN001*  Identity passes" in done.out and "\nMX061?  " in done.out and "\nMX001   " in done.out
    assert max(map(len, lines)) <= 80 and done.err.startswith("runs: unmarked by default, ? with --guess, ")
    listed = json.loads(call("rules", "--format", "json").out)["rules"]
    assert len(listed) == len(lines) - len(heads)
    first = next(rule for rule in listed if rule["code"] == "MX001")
    assert (first["default"], first["kind"]["name"], first["tests"] >= 2) == (True, "repair", True)
    assert (first["evidence"], first["runs"]) == ("refused", "default")
    by_code = {rule["code"]: (rule["evidence"], rule["runs"]) for rule in listed}
    assert by_code["MX061"] == ("guess", "guess")
    assert by_code["TYP034"] == ("refused(onnxruntime)", "default")
    assert by_code["GEN001"] == (None, "selected")


def test_the_digests_of_rules_are_those_of_the_lock_file(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only rules as they are written are cached, whose tables and choices are not expanded."""
    (tmp_path / "a.rules").write_text(
        "rule T1 two <kind: exact>\nmatch { h = Relu(x) | Abs(x)  y = Relu(h) }\nrewrite { y = h }\n", encoding="utf-8"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert call("rules", "--rules", tmp_path / "a.rules").code == 0
    (found,) = json.loads(call("rules", "--rules", tmp_path / "a.rules", "--format", "json").out)["rules"]
    assert found["digest"] == rewriter.load_rules([tmp_path / "a.rules"]).rules[0].digest


def test_rules_by_symptom(call: Call) -> None:
    done = call("rules", "--symptom", "Node (fc7) Op (Gemm) First input does not have rank 2")
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert done.out.startswith("MX001 ")
    done = call("rules", "--symptom", "the colour of the input", "--format", "json")
    assert done.code == 1
    assert not any(rule["sure"] for rule in json.loads(done.out)["rules"])
    assert call("rules", "--symptom", "the colour of the input").err.startswith("no rule has this symptom; the closest ones:\n")


def test_rules_of_an_exporter(call: Call) -> None:
    lines = call("rules", "--exporter", "MXNet").out.splitlines()
    heads = [_exporter(line) for line in lines if not line[0].isupper()]
    assert len(lines) > len(heads) and all("mxnet" in head.split() for head in heads)
    done = call("rules", "--exporter", "mxnit")
    assert (done.code, done.err) == (2, "rewriter: error: no rule is for exporter 'mxnit'; did you mean mxnet?\n")


def test_a_row_of_a_table_has_no_comments_of_other_rows(call: Call) -> None:
    """Those above the tests of TYP057, which stands in the same table."""
    assert "logsumexp" not in call("rule", "TYP014").out
    assert call("rule", "TYP057").out.count("  # PyTorch 2.13.0 (TorchScript, opset ") == 2


def test_a_rule_is_shown_with_its_defines(call: Call, tmp_path: Path) -> None:
    (tmp_path / "defines.rules").write_text("/// One element.\ndefine one(x) = size(x) == 1\ndefine other(x) = rank(x) == 9\n")
    (tmp_path / "a.rules").write_text(
        "define both(a, b) = one(a)\n    and one(b)\n\nrule T1 t <kind: lossy>\nmatch { y = Mul(a, b) }\nwhere both(a, b)\n"
        "rewrite { y = a }\nrule T2 u <kind: lossy>\nmatch { y = Neg(a) }\nrewrite { y = a }\n"
    )
    shown = call("rule", "T1", "--rules", tmp_path).out
    defines = "  /// One element.\n  define one(x) = size(x) == 1\n\n  define both(a, b) = one(a) and one(b)\n\n  rule T1 t"
    assert defines in shown and "other" not in shown
    assert "define" not in call("rule", "T2", "--rules", tmp_path).out


def test_rule(call: Call) -> None:
    done = call("rule", "mx001")
    assert done.code == 0
    assert "gemm.inputs[0] = flat" in done.out
    assert "https://github.com/onnx/models/issues/91" in done.out
    wrong = call("rule", "MX0O1")
    assert wrong.code == 2
    assert wrong.err == "rewriter: error: there is no rule 'MX0O1'; did you mean MX001?\n"


def test_explain(call: Call) -> None:
    assert call("explain", "e103").out.startswith("E103: ")
    assert call("explain", "E999").code == 2
    assert "E103  " in call("explain", "list").out


def test_broken_rules_are_drawn(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(RULE.replace("Identity(x)", "Identiti(x)"))
    done = call("check", GEMM, "--rules", tmp_path)
    assert done.code == 2
    assert done.err.startswith("error[E101]: ")
    assert "^^^^^^^^" in done.err


def test_inline_tests(call: Call, tmp_path: Path) -> None:
    model = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { t = Identity(x) y = Relu(t) }'
    after = model.replace("t = Identity(x) y = Relu(t)", "y = Relu(x)")
    good = f'{RULE}test "taken out" ~~~ {model} ~~~ becomes ~~~ {after} ~~~\n'
    bad = f'{RULE.replace("TST001", "TST002")}test "left alone" unchanged ~~~ {model} ~~~\n'
    (tmp_path / "good.rules").write_text(good)
    done = call("test", tmp_path / "good.rules")
    assert (done.code, done.out) == (0, "")
    assert done.err == "1 test of 1 rule: 1 passed, 0 failed\n"
    (tmp_path / "bad.rules").write_text(bad)
    done = call("test", tmp_path)
    assert done.code == 1
    assert done.out.startswith(f"failed {tmp_path / 'bad.rules'}:5: TST002 left alone\n")
    assert "must not" in done.out
    tests = json.loads(call("test", tmp_path, "--format", "json").out)["tests"]
    assert {test["rule"]: test["ok"] for test in tests} == {"TST001": True, "TST002": False}


def test_fmt(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text(RULE)
    done = call("fmt", "--check", tmp_path)
    assert (done.code, done.out) == (1, f"would format {path}\n")
    assert path.read_text() == RULE
    assert call("fmt", tmp_path).code == 0
    assert "rule TST001 identity" in path.read_text()
    assert call("fmt", "--check", tmp_path).code == 0
    path.write_text("rule")
    done = call("fmt", tmp_path)
    assert done.code == 2
    assert "error[" in done.err and f"--> {path}:1:" in done.err
    assert path.read_text() == "rule"


@pytest.mark.parametrize(
    ("variables", "colored"), [({"FORCE_COLOR": "1"}, True), ({}, False), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)]
)
def test_colour(call: Call, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colored: bool) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in call("rule", "MX001").out) is colored
