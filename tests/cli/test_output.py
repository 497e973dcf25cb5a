"""What a terminal shows, what a pipe gets, and what all commands have in common."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rewriter.app.cli.main import COMMANDS
from tests.cli.call import GEMM, MODELS, Call


def on_terminal(columns: int, *arguments: object, errors: bool = False, **environment: str) -> list[str]:
    """The lines that a terminal of so many columns gets on stdout, or on stderr."""
    master, slave = os.openpty()
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    known.update(COLUMNS=str(columns), TERM="xterm", **environment)
    command = [sys.executable, "-m", "rewriter", *map(str, arguments)]
    streams = (subprocess.DEVNULL, slave) if errors else (slave, subprocess.DEVNULL)
    child = subprocess.Popen(command, stdout=streams[0], stderr=streams[1], env=known)
    os.close(slave)
    told = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux says so that the other side is closed
            break
        if not piece:
            break
        told += piece
    os.close(master)
    child.wait(60)
    return told.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no pseudo terminals")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", GEMM),
        ("why", "MX001", GEMM),
        ("show", MODELS / "pytorch-2.13-reshape-chain.onnx"),
        ("rules",),
        ("coverage", "shipped", GEMM),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_a_terminal_gets_no_line_that_it_would_have_to_break_and_a_pipe_gets_whole_lines(
    arguments: tuple[object, ...], call: Call
) -> None:
    shown = on_terminal(70, *arguments, NO_COLOR="1")
    assert all(len(line) <= 70 or len(line.split()) == 1 for line in shown)
    piped = call(*arguments).out
    assert " ".join(" ".join(shown).split()) == " ".join(piped.split())
    assert any(len(line) > 70 for line in piped.splitlines())


def test_colour_on_a_terminal_takes_no_columns() -> None:
    painted, plain = (on_terminal(70, "why", "MX001", GEMM, **{name: "1"}) for name in ("FORCE_COLOR", "NO_COLOR"))
    assert len(painted) == len(plain) and any("\x1b[" in line for line in painted) and not any("\x1b" in line for line in plain)


def test_without_a_command_there_is_help(call: Call) -> None:
    done = call()
    assert (done.code, done.out) == (2, "") and "examples:" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_of_the_command(command: str, call: Call) -> None:
    done = call(command, "--help")
    assert done.code == 0 and f"  rewriter {command} " in done.out.partition("example")[2].replace(": ", "\n  ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", GEMM),
        ("why", "MX001", GEMM),
        ("show", GEMM),
        ("diff", GEMM, GEMM),
        ("compare", GEMM, GEMM),
        ("history", GEMM),
        ("rules",),
        ("rules", "--packs"),
        ("rule", "MX001"),
        ("explain", "E103"),
        ("explain", "list"),
        ("test", "RULES"),
        ("lint", "RULES"),
        ("verify", "RULES", "--locked"),
        ("coverage", "RULES", GEMM),
        ("fix", "--show-settings"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2])),
)
def test_json_says_first_what_it_is(arguments: tuple[object, ...], call: Call) -> None:
    rules = Path(__file__).parent.parent.parent / "rules" / "mxnet" / "MX001_gemm-input-not-flattened.rules"
    given = [rules if argument == "RULES" else argument for argument in arguments]
    told = json.loads(call(*given, "--format", "json").out)
    assert list(told)[:2] == ["schema", "command"] and told["command"] == arguments[0]
    assert told["schema"] == (2 if arguments[0] == "check" else 1)


def test_json_of_plans_says_first_what_it_is(call: Call, tmp_path: Path) -> None:
    assert call("plan", GEMM, "-o", tmp_path / "plan.toml").code == 0
    told = json.loads(call("apply", tmp_path / "plan.toml", "-o", tmp_path / "m.onnx", "--format", "json").out)
    assert list(told.items())[:3] == [("schema", 1), ("command", "apply"), ("exit_code", 0)]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full disk to try")
def test_a_full_disk_below_stdout_is_told_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "rewriter", "rules"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "rewriter: error: the results cannot be printed: no space left on device\n",
    )


@pytest.mark.parametrize("command", ["fix", "check"])
def test_a_link_to_itself_is_bad_input(command: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    done = call(command, tmp_path / "loop.onnx")
    assert done.code == 2 and "loop.onnx: too many levels of symbolic links" in done.err


@pytest.mark.parametrize("command", [("check", GEMM, "--rules"), ("test",), ("lint",), ("verify",)])
def test_rules_without_a_rule_are_bad_input(command: tuple[object, ...], call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty.rules").write_text("# nothing yet\n")
    done = call(*command, tmp_path)
    assert (done.code, done.err) == (2, f"rewriter: error: {tmp_path}: there is no rule in it\n")


def test_coverage_names_a_model_that_cannot_be_read_once(call: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_text("no model")
    done = call("coverage", "shipped", tmp_path / "bad.onnx")
    assert done.code == 2 and done.err.splitlines()[0].count("bad.onnx") == 1


@pytest.mark.parametrize("content", [None, b"PK\x03\x04 and no more", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'"])
def test_inputs_that_cannot_be_read_are_refused_before_any_work(content: bytes | None, call: Call, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "x.npz").write_bytes(content)
    done = call("fix", GEMM, "-o", tmp_path / "m.onnx", "--verify", "--inputs", tmp_path / "x.npz")
    assert (done.code, done.out, (tmp_path / "m.onnx").exists()) == (2, "", False)
    assert done.err.startswith(f"rewriter: error: {tmp_path / 'x.npz'}: ") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "?"),
        ("apply", "?"),
        ("check", GEMM, "--config", "?"),
        ("check", GEMM, "--rules", "?"),
        ("test", "?"),
        ("compare", GEMM, GEMM, "--inputs", "?"),
    ],
)
def test_a_missing_file_is_told_with_the_same_words_everywhere(
    arguments: tuple[object, ...], call: Call, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    done = call(*(missing if argument == "?" else argument for argument in arguments))
    assert (done.code, done.err) == (2, f"rewriter: error: {missing}: no such file or directory\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no pseudo terminals")
@pytest.mark.parametrize("command", [("check",), ("coverage", "shipped")], ids=lambda command: str(command[0]))
def test_a_folder_has_a_bar_with_rate_and_remaining_time(command: tuple[str, ...], tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.onnx").write_bytes(GEMM.read_bytes())
    runtime = ("--runtime", "no") if command == ("check",) else ()
    shown = "\n".join(on_terminal(80, *command, tmp_path, *runtime, errors=True))
    assert re.search(r"models .* 3/3 [\d.]+/s 0:00:00", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown))


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no pseudo terminals")
@pytest.mark.parametrize(
    ("command", "bar"),
    [
        (("test",), r"tests .* 2/2 [\d.]+/s"),
        (("fmt", "--check"), r"files .* 2/2 [\d.]+/s"),
        (("lint",), r"rules .* 0:00:0\d"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_work_on_several_rules_has_a_bar(command: tuple[str, ...], bar: str, tmp_path: Path) -> None:
    for number, op in enumerate(("Abs", "Neg"), 1):
        (tmp_path / f"{op}.rules").write_text(RULE.format(number=number, op=op))
    shown = "\n".join(on_terminal(80, *command, tmp_path, errors=True))
    assert re.search(bar, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown))


RULE = """/// Title.
rule BAR00{number} bar <kind: exact, opset: 7..>

match {{
  b = {op}(a)
  c = {op}(b)
}}

rewrite {{
  c = {op}(a)
}}

test "nothing of it" unchanged ~~~
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2] x) => (float[2] y) {{ y = Relu(x) }}
~~~
"""
