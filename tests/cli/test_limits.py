"""Limits of time and memory for one model."""

from __future__ import annotations

import signal
import sys
from itertools import count
from pathlib import Path

import pytest

from rewriter.app.batch import job
from rewriter.app.cli.options import size
from rewriter.core.engine import limits
from rewriter.core.errors import RewriterError
from rewriter.core.isolation.budget import (
    OutOfTimeError,
    allowed,
    ended_after,
    share_of_machine,
    size_text,
    undisturbed,
    within_limits,
)
from rewriter.trust.proof.guard import first_bad
from tests.cli.call import GAMMA, Call

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")


def test_whatever_takes_so_long_is_ended(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(job, "_rewrite", endless)
    done = call("fix", GAMMA, "--out", tmp_path, "--time-limit", 0.3, "--runtime", "no")
    assert done.code == 1
    assert "not done within the time limit of 0.3 s; nothing was written; raise --time-limit" in done.err
    assert not list(tmp_path.iterdir())
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_what_was_going_on_is_told(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> str:
        while True:
            pass

    said = r"^a: not done within the time limit of 2 s, while checking the model$"
    with pytest.raises(RewriterError, match=said), within_limits(2.0, None, "a"):
        first_bad(0, 2, "", endless)
    monkeypatch.setattr("rewriter.trust.difference.compare_files", endless)
    done = call("diff", GAMMA, GAMMA, "--time-limit", 2)
    assert done.code == 2 and f"{GAMMA}: not done within the time limit of 2" in done.err


def test_a_model_that_takes_too_long_to_load_is_not_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(job, "_load", endless)
    done = call("fix", GAMMA, "--out", tmp_path, "--time-limit", 0.3, "--runtime", "no")
    assert done.code == 1 and "nothing was written" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["fix", "optimize"])
def test_a_run_that_the_clock_ended_is_written_only_when_wanted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    clock = count(0.0, 10.0)
    monkeypatch.setattr(limits.time, "process_time", lambda: next(clock))
    target = tmp_path / "result.onnx"
    done = call(command, GAMMA, "-o", target, "--timeout", 15, "--runtime", "no", "--select", "ALL")
    assert done.code == 1 and "the limit of 15 s was reached" in done.err
    assert "nothing was written; raise --time-limit" in done.err and not target.exists()
    done = call(command, GAMMA, "-o", target, "--timeout", 15, "--runtime", "no", "--select", "ALL", "--keep-partial")
    assert done.code == 1 and "stopped: the limit of 15 s was reached" in done.out and target.exists()


def test_who_catches_everything_is_ended_the_second_time() -> None:
    caught = []
    with pytest.raises(OutOfTimeError), ended_after(600):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01, signal.getitimer(signal.ITIMER_REAL)[1])
            while True:
                pass
        except BaseException as error:
            caught.append(error)
        while True:
            pass
    assert len(caught) == 1


def test_a_signal_that_comes_while_an_object_is_finalized_comes_again_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            while True:
                pass

    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(OutOfTimeError), ended_after(0.1):
        Finalized()
        while True:
            pass
    assert not said and sys.unraisablehook == said.append


def test_the_time_does_not_run_while_a_result_is_written() -> None:
    with ended_after(600):
        with undisturbed():
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 600


def test_large_files_have_more_time(tmp_path: Path) -> None:
    assert allowed(str(tmp_path / "nowhere"), 3) == 3
    with open(tmp_path / "hole", "wb") as file:
        file.truncate(1 << 40)
    assert allowed(str(tmp_path / "hole"), 3) < 3.1
    (tmp_path / "full").write_bytes(bytes(1 << 25))
    assert 3.9 < allowed(str(tmp_path / "full"), 3) <= 4


@pytest.mark.skipif(share_of_machine(1) is None, reason="nothing is known of the memory of this machine")
def test_memory() -> None:
    with pytest.raises(RewriterError, match=r"out of memory: .* the memory limit of 1 GiB"), within_limits(20.0, 1 << 30):
        bytearray(1 << 33)
    assert len(bytearray(1 << 20)) == 1 << 20
    assert (share_of_machine(1) or 0) > (share_of_machine(4) or 0) >= 1 << 30
    assert (size_text(1 << 29), size_text(3 << 29)) == ("512 MiB", "1.5 GiB")


@pytest.mark.parametrize(
    ("option", "value", "said"), [("--time-limit", "0", "not a time"), ("--memory-limit", "x", "not a size")]
)
def test_bad_limits(call: Call, option: str, value: str, said: str) -> None:
    done = call("check", GAMMA, option, value)
    assert done.code == 2 and said in done.err
    assert size("8G") == 8 << 30
