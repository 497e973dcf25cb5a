"""Errors of the system and kills at any moment: no half file, no damaged input, and nothing left after the next run.

`benchmarks/faults.py` does all of it; this is a sample.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile.files import write_file
from tests.hostile import faulty_system
from tests.hostile.faulty_system import BATCH, ERRORS, SCENES, SHORT, Fault, Scene

SAMPLE = 6
"""Faults of each scene."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_call_that_fails(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    before, wanted, seen = faulty_system.undisturbed(scene)
    assert wanted.keys() >= set(scene.results)
    points = [(name, number) for name, times in sorted(seen.items()) for number in range(1, times + 1)]
    step = max(1, len(points) // SAMPLE)
    for place, (name, number) in enumerate(points[::step]):
        error = SHORT if name == "write" and place % 2 else ERRORS[place % len(ERRORS)]
        assert faulty_system.with_fault(scene, Fault(name, number, error), before, wanted) == ""
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    ("scene", "count"), [*((scene, 2) for scene in SCENES), (BATCH, 1)], ids=lambda one: getattr(one, "name", one)
)
def test_a_kill_at_any_moment(scene: Scene, count: int) -> None:
    before, wanted, _ = faulty_system.undisturbed(scene)
    for moment in faulty_system.moments(scene, count, len(scene.name), 3.0 if scene is BATCH else 0.0):
        assert faulty_system.killed(scene, moment, before, wanted) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("force", [True, False])
def test_two_writers_of_one_file(tmp_path: Path, force: bool) -> None:
    path, size = tmp_path / "o.onnx", 1 << 20
    writers = []
    for letter in (b"a", b"b", b"c"):
        writers.append(number := os.fork())
        if not number:
            try:
                write_file(path, letter * size, force=force)
            except RewriterError:
                os._exit(1)
            os._exit(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in writers]
    assert sorted(codes) == ([0, 0, 0] if force else [0, 1, 1])
    assert path.read_bytes() in [letter * size for letter in (b"a", b"b", b"c")]
    assert os.listdir(tmp_path) == ["o.onnx"]


def test_a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Contents decide where times do not: neither is a model done again, nor a changed one left out."""
    with faulty_system.stage(SCENES[0]) as folder:
        call = ["fix", "net.onnx", "--out", "out", *faulty_system.RULES]
        assert faulty_system.main(call) == 0
        for jump in (-(10**18), 10**18):
            monkeypatch.setattr("time.time_ns", lambda jump=jump: 1_700_000_000 * 10**9 + jump)
            os.utime(folder / "net.onnx", ns=(abs(jump), abs(jump)))
            capsys.readouterr()
            assert faulty_system.main([*call, "--update"]) == 0
            assert "update: 1 as they were" in capsys.readouterr().err
        found = os.stat(folder / "net.onnx")
        data = bytearray((folder / "net.onnx").read_bytes())
        place = data.index(b"fc1")
        data[place : place + 3] = b"fc7"
        (folder / "net.onnx").write_bytes(bytes(data))
        os.utime(folder / "net.onnx", ns=(found.st_atime_ns, found.st_mtime_ns))
        faulty_system.main([*call, "--update"])
        assert "update: 1 changed" in capsys.readouterr().err
        assert all(json.loads(line) for line in (folder / "out.journal.jsonl").read_text().splitlines())
