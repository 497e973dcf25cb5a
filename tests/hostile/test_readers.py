"""Every reader keeps the limits: each command with files of each kind that are meant to hurt, a sample of the whole matrix.

`benchmarks/poison.py` calls every command with every file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewriter.app.cli.main import COMMANDS
from tests.hostile.every_command import CALLS, READ_NOTHING, READERS, matrix, reader_call
from tests.hostile.measured_call import measured, own_data, own_memory
from tests.hostile.poison_files import write_poison

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="measures a forked process")

SECONDS, MEMORY, DATA = 3.0, 1 << 30, 3 << 28
"""The limits of a call: `DATA` bytes beside what the test process has, and with files that are mapped `MEMORY`."""
GRACE = 6.0
"""Seconds of the processor beside the limit: for imports, and to compile the shipped rules."""


def test_every_command_is_in_the_matrix() -> None:
    named = {call.split()[0] for calls in (CALLS, *READERS.values()) for call in calls}
    assert named | READ_NOTHING == set(COMMANDS) and not named & READ_NOTHING


@pytest.mark.parametrize(("kind", "name", "call"), list(matrix(whole=False)))
def test_readers_keep_the_limits(kind: str, name: str, call: str, tmp_path: Path) -> None:
    file = write_poison(kind, name, tmp_path / "in")
    (out := tmp_path / "out").mkdir()
    words = [*reader_call(kind, call, file, out), "--time-limit", SECONDS, "--memory-limit", f"{(own_data() + DATA) >> 20}M"]
    done = measured(words, tmp_path)
    assert not done.wrong(SECONDS + GRACE, own_memory() + MEMORY)
    assert "hunter2" not in done.said
