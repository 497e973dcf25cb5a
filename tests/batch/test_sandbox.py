"""What a process may still do in the sandbox, and that models are repaired in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rewriter.batch import sandbox
from rewriter.cli.main import main
from rewriter.errors import RewriterError
from tests.cli.call import POOL


def possible() -> bool:
    try:
        sandbox._possible()
    except RewriterError:
        return False
    return True


needs_landlock = pytest.mark.skipif(not possible(), reason="no Landlock here")


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except PermissionError:
        return True
    return False


def in_child(work: Callable[[], int]) -> int:
    """What a child that this test forks says: rights that are given up do not come back."""
    number = os.fork()
    if not number:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@needs_landlock
def test_rights_that_are_given_up(tmp_path: Path) -> None:
    for name in ("read", "written", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    def work() -> int:
        sandbox.enter([str(tmp_path / "read")], [str(tmp_path / "written")])
        (tmp_path / "written" / "new").write_text("new")
        (tmp_path / "written" / "new").rename(tmp_path / "written" / "named")
        with tempfile.TemporaryFile():
            pass
        child = [sys.executable, "-c", f"open({str(tmp_path / 'other' / 'file')!r})"]
        found = [
            (tmp_path / "read" / "file").read_text() == "read",
            refused((tmp_path / "other" / "file").read_text),
            refused(lambda: os.listdir(tmp_path)),
            refused(lambda: (tmp_path / "read" / "file").write_text("no")),
            refused(lambda: os.rename(tmp_path / "read" / "file", tmp_path / "written" / "file")),
            refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            refused(lambda: socket.socket(socket.AF_UNIX)),
            len(socket.socketpair()) == 2,
            b"PermissionError" in subprocess.run(child, capture_output=True, check=False).stderr,
        ]
        return 0 if all(found) else 1 + found.index(False)

    assert in_child(work) == 0


@needs_landlock
@pytest.mark.parametrize("more", [(), ("--jobs", "2", "--verify")])
def test_models_are_repaired_in_it(more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b") if more else ("a",):
        (tmp_path / "in" / f"{name}.onnx").write_bytes(POOL.read_bytes())
    given = ["fix", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--report", str(tmp_path / "reports" / "r.json")]
    (tmp_path / "reports").mkdir()
    assert in_child(lambda: main([*given, "--sandbox", *more])) == 0
    assert (tmp_path / "out" / "a.onnx").stat().st_size and (tmp_path / "reports" / "r.json").stat().st_size


def test_where_there_is_none_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RewriterError, match="--sandbox needs Linux"):
        sandbox.enter([], [])


@pytest.mark.parametrize("given", [(str(POOL), "--scheduler", "local"), ("-",)])
def test_what_it_cannot_be_for(given: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *given, "--sandbox"]) == 2
    assert "error: --sandbox" in capsys.readouterr().err
