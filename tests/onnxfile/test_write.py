"""Files that are written completely or not at all, whenever it is that the process is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rewriter.core.onnxfile import files
from rewriter.core.onnxfile.files import TemporaryFile, collect, make_folder, temporary_folder, write_file

KILLED = """
import os, signal, sys
from rewriter.core.onnxfile.files import TemporaryFile, temporary_folder
TemporaryFile(sys.argv[1]).open()
with temporary_folder() as folder:
    (folder / "data").write_bytes(b"1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_end_as_soon_as_the_file_is_there_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def ended(*arguments: Any, **named: Any) -> int:
        os.close(opened(*arguments, **named))
        raise SystemExit(1)

    monkeypatch.setattr(os, "open", ended)
    with pytest.raises(SystemExit):
        write_file(tmp_path / "o.onnx", b"model", force=False)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / ".0123456789ab.tmp").write_bytes(b"of somebody else")
    file = TemporaryFile(tmp_path)
    file.open()
    try:
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
        assert (done.returncode, len(list(tmp_path.iterdir()))) == (-signal.SIGKILL, 4)
        collect(tmp_path, again=True)
        assert sorted(tmp_path.iterdir()) == sorted([Path(file.place), tmp_path / ".0123456789ab.tmp"])
    finally:
        file.close()
    with temporary_folder() as folder:
        collect(tmp_path, again=True)
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [".0123456789ab.tmp"]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("\u6a21" * 83 + ".onnx")
    write_file(path, b"model", force=False)
    assert path.read_bytes() == b"model"


def test_files_and_their_folders_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    make_folder(tmp_path / "a" / "b")
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "a")]
    synced.clear()
    write_file(tmp_path / "a" / "b" / "m.onnx", b"model", force=False)
    assert [Path(name).suffix for name in synced] == [".rewriter-tmp", ""]
