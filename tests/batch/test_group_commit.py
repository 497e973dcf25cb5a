"""Results of several models are named together; none is told of before it has its name."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rewriter.app.batch import journal
from rewriter.app.batch.journal import MOST, GroupCommit, named_at_once, stat_of, write_result
from rewriter.app.batch.processes import ends_on, run_all
from rewriter.app.batch.work import Job, Notes, Outcome, Rewriting, Work
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.files import NewFile, TemporaryFile
from tests.hostile.faulty_system import ERRORS, SHORT, Fault, failing

WORK = Work(Rewriting(RuleSet()), notes=Notes(journal=True))


def result(folder: Path, name: str) -> Outcome:
    outcome = Outcome(name)
    write_result(Job(name, str(folder / name)), WORK, outcome, name.encode())
    return outcome


def named(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def test_a_result_is_told_of_when_it_has_its_name(tmp_path: Path) -> None:
    with GroupCommit() as group:
        assert group.add(0, result(tmp_path, "a")) == [] and named(tmp_path) == []
        assert [number for number, _ in group.add(1, Outcome("clean"))] == [1]  # which writes nothing
        (tmp_path / "sub").mkdir()
        assert group.add(2, result(tmp_path / "sub", "b")) == []
        found = dict(group.commit())
        assert sorted(found) == [0, 2] and named(tmp_path) == ["a", "sub"]
        (stamp,) = found[2].stamps
        assert stamp.stat == stat_of(os.stat(tmp_path / "sub" / "b"))
        assert group.commit() == []
    assert (tmp_path / "a").read_bytes() == b"a" and os.listdir(tmp_path / "sub") == ["b"]


def test_a_full_group_is_named_at_once(tmp_path: Path) -> None:
    with GroupCommit() as group:
        told = [group.add(number, result(tmp_path, f"m{number}")) for number in range(MOST)]
    assert [len(one) for one in told] == [0] * (MOST - 1) + [MOST]


def test_what_has_no_name_at_the_end_is_removed(tmp_path: Path) -> None:
    with GroupCommit() as group:
        group.add(0, result(tmp_path, "a"))
    assert os.listdir(tmp_path) == []


def test_whoever_reads_a_result_again_has_it_named_at_once(tmp_path: Path) -> None:
    with GroupCommit(), named_at_once():
        result(tmp_path, "a")
        assert named(tmp_path) == ["a"]


def test_a_result_that_cannot_be_named_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with GroupCommit() as group:
        for number, name in enumerate(("a", "b", "c", "d")):
            group.add(number, result(tmp_path, name))
        (tmp_path / "d").write_bytes(b"of somebody else")
        monkeypatch.setattr(os, "fsync", fsync)
        found = [outcome for _, outcome in group.commit()]
    assert [bool(outcome.error) for outcome in found] == [False, True, False, True]
    assert "no space left" in found[1].error.lower() and "exists" in found[3].error
    assert found[1].output is None and found[1].stamps == []
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "d"] and (tmp_path / "d").read_bytes() == b"of somebody else"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals here")
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_signal_at_any_step_leaves_no_temporary_file(
    tmp_path: Path, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a process may come anywhere, also while what has no name is removed since the parent is gone."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the disk would take most of the time
    monkeypatch.setattr(journal, "_current", [])  # where a group stays whose process ends
    steps = 0
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        with pytest.raises((SystemExit, EOFError)) as raised, _signal_after(steps) as group, group:
            result(folder, "a")
            group.add(0, result(folder, "b"))
            if is_committed:
                group.commit()
            raise EOFError
        left = [name for name in os.listdir(folder) if name not in ("a", "b")]
        assert left == [], (steps, raised.getrepr())  # `raised` keeps the frames alive, as whoever reports an error does
        if raised.type is EOFError:
            break
    assert steps > 400


@contextmanager
def _signal_after(steps: int) -> Iterator[GroupCommit]:
    """A group in a process that a signal ends after so many steps of the interpreter in the modules that write files."""
    modules = tuple(sys.modules[one.__module__].__file__ for one in (GroupCommit, TemporaryFile, NewFile))
    left = steps

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = frame.f_code.co_filename in modules
        if event == "opcode":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGUSR1)
        return trace

    before, group = signal.getsignal(signal.SIGUSR1), GroupCommit()
    ends_on(signal.SIGUSR1, group)
    tracer = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks only at frames that there are when tracing begins
    sys.settrace(trace)
    try:
        yield group
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGUSR1, before)


def dying(job: Job, work: Work) -> Outcome:
    """Writes results; the first process that comes to "poison" dies, and so does the next."""
    if job.path == "poison" and not job.copy:
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = Outcome(job.path)
    write_result(job, work, outcome, job.path.encode())
    return outcome


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals here")
def test_a_process_that_dies_costs_only_the_model_it_was_at(tmp_path: Path) -> None:
    names = ["a", "b", "poison", "c"]
    outcomes = list(run_all([Job(name, str(tmp_path / name)) for name in names], WORK, 1, worker=dying, apart=True))
    assert [outcome.path for outcome in outcomes] == names
    assert [bool(outcome.error) for outcome in outcomes] == [False, False, True, False]
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path) if name[0] != "."} == {n: n for n in names}


def test_every_call_of_the_system_that_fails(tmp_path: Path) -> None:
    """A model counts as done exactly where its result has its name and all its bytes."""
    seen: Counter[str] = Counter()
    with failing(None, seen):
        three(tmp_path / "undisturbed")
    points = [(name, number) for name, times in seen.items() for number in range(1, times + 1)]
    assert {"write", "fsync", "link", "open"} <= seen.keys()
    for place, (name, number) in enumerate(points):
        error = SHORT if name == "write" and place % 2 else ERRORS[place % len(ERRORS)]
        folder = tmp_path / f"{name}{number}"
        with failing(Fault(name, number, error), Counter()):
            done = three(folder)
        there = {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith(".")}
        assert all(there[one] == one for one in done), (name, number)
        assert all(text == one for one, text in there.items()), (name, number)
        assert error == SHORT or name == "unlink" or len(done) < 3 or len(there) == 3, (name, number)


def three(folder: Path) -> list[str]:
    """Writes three results; the names of those that are done."""
    folder.mkdir()
    found = []
    with GroupCommit() as group:
        for number, name in enumerate(("a", "b", "c")):
            try:
                found += group.add(number, result(folder, name))
            except RewriterError:
                continue
        found += group.commit()
    return [outcome.path for _, outcome in found if not outcome.error]
