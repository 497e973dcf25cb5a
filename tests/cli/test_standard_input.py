"""`-` is a model on the standard input for every command that reads one, and no message names the file that it was put into."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.call import POOL, Call, Done

FOLDER = "rewriter-"
"""With this begin the names of folders into which models are brought."""

Piped = Callable[..., Done]
"""Calls a command with bytes on its standard input."""


@pytest.fixture
def piped(call: Call, monkeypatch: pytest.MonkeyPatch) -> Piped:
    def run(data: bytes, *arguments: object) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return call(*arguments)

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "{}", "--stats"],
        ["history", "{}"],
        ["diff", "{}", POOL],
        ["diff", POOL, "{}"],
        ["compare", "{}", POOL],
        ["audit", POOL, "{}"],
        ["why", "MX061", "{}", "--select", "MX061"],
        ["show", "{}", "--format", "json"],
        ["compare", "{}", POOL, "--format", "json"],
        ["why", "MX061", "{}", "--format", "json"],
    ],
    ids=lambda arguments: " ".join(Path(one).name for one in arguments),
)
def test_what_is_said_of_a_file_is_said_of_the_input(
    piped: Piped, call: Call, tmp_path: Path, arguments: list[str | Path]
) -> None:
    alone = shutil.copy(POOL, tmp_path)
    of_file = call(*[alone if one == "{}" else one for one in arguments])
    done = piped(POOL.read_bytes(), *["-" if one == "{}" else one for one in arguments])
    assert (done.code, done.err) == (of_file.code, of_file.err)
    assert done.out.replace("standard input", str(alone)) == of_file.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["history"],
        ["view", "-o", "o.html"],
        ["picture", "-o", "o.svg"],
        ["diff", POOL],
        ["compare", POOL],
        ["audit", POOL],
        ["why", "MX061"],
        ["plan", "-o", "o.toml"],
        ["undo"],
        ["extract", "--to", "y", "-o", "o.onnx"],
        ["run"],
        ["save", "--inline", "-o", "o.onnx"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_bad_input_is_told_of_the_standard_input(
    piped: Piped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = piped(b"no model at all", *arguments, "-")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "standard input: " in done.err and FOLDER not in done.err and not list(tmp_path.iterdir())


def test_pages_pictures_and_plans(piped: Piped, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path(shutil.copy(POOL, "net.onnx")).read_bytes()
    assert piped(data, "view", "-", "-o", "page.html").code == 0
    assert piped(data, "picture", "-", "-o", "part.svg").code == 0
    assert "standard input" in Path("part.svg").read_text()
    planned = piped(data, "plan", "-", "--select", "MX061", "-o", "plan.toml")
    assert planned.code == 0 and "next: rewriter apply plan.toml -o stdin.fixed.onnx < MODEL\n" in planned.err
    assert piped(data, "apply", "plan.toml", "-o", "o.onnx").out.startswith("standard input: 1 of 1")
    assert call("fix", "net.onnx", "--select", "MX061", "-o", "fixed.onnx").code == 0
    assert Path("o.onnx").read_bytes() == Path("fixed.onnx").read_bytes()
    assert "is not the model of the plan" in piped(data + b"\x08\x08", "apply", "plan.toml", "-o", "p.onnx").err
    assert "name the result with -o" in piped(data, "apply", "plan.toml").err
    assert "name the page with -o" in piped(data, "view", "-").err


def test_data_files_of_the_standard_input_are_missing(piped: Piped, call: Call, tmp_path: Path) -> None:
    net = POOL.parent / "mxnet-1.3.1-batchnorm-spatial.onnx"
    assert call("save", net, "--external", "--threshold", "0", "-o", tmp_path / "net.onnx").code == 0
    done = piped((tmp_path / "net.onnx").read_bytes(), "check", "-")
    assert "the standard input has no data files)" in done.out and FOLDER not in done.out + done.err
    assert "next: rewriter fix - -o fixed.onnx < MODEL\n" in done.err


def test_there_is_one_standard_input_and_it_is_named(piped: Piped) -> None:
    for command in ("diff", "compare", "audit"):
        assert "there is only one" in piped(POOL.read_bytes(), command, "-", "-").err
    done = piped(POOL.read_bytes(), "undo", "-")
    assert (done.code, done.err) == (2, "rewriter: error: there is no record in standard input\n")
    assert "there is no record in standard input" in piped(POOL.read_bytes() + b"\x08\x08", "audit", POOL, "-").out


def test_a_plan_of_a_model_at_a_url(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    net = f"file://{POOL}"
    assert call("plan", net, "-o", tmp_path / "plan.toml").code == 0
    assert f'model = "{net}"' in (tmp_path / "plan.toml").read_text()
    refused = call("apply", tmp_path / "plan.toml", "-o", tmp_path / "o.onnx")
    assert refused.code == 2 and "was not downloaded" in refused.err and not (tmp_path / "o.onnx").exists()
    assert call("apply", tmp_path / "plan.toml", "-o", tmp_path / "o.onnx", "--fetch").out.startswith(f"{net}: 1 of 1")
    assert call("show", net).out.startswith(net)
