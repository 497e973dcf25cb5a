"""Where there can be no server that forks, processes are spawned, and do the same."""

from __future__ import annotations

import multiprocessing
import multiprocessing.spawn
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from rewriter import load_rules
from rewriter.app.batch.processes import run_all
from rewriter.app.batch.work import Job, Outcome, Rewriting, Work
from rewriter.core.isolation import process
from tests.cli.call import MODELS

HAS_SERVERS = "forkserver" in multiprocessing.get_all_start_methods()
needs_servers = pytest.mark.skipif(
    not HAS_SERVERS or sys.version_info[:3] in process._OPEN, reason="this system knows no such servers"
)


def start_method() -> str | None:
    return process.process_context("rewriter.app.batch.job").get_start_method()


@needs_servers
def test_a_server_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/tmp")
    assert start_method() == "forkserver"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always searches the current folder")
def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for number in range(4):
        shutil.copy(MODELS / "catboost-poisson" / "model.onnx", models / f"{number}.onnx")
    (tmp_path / "rewriter").mkdir()
    for name in ("rewriter/__init__.py", "socket.py", "onnx.py"):
        (tmp_path / name).write_text("open(r'%s', 'w').close()\n" % (tmp_path / "imported"))
    command = [sys.executable, "-P", "-m", "rewriter", "fix", "models", "--out", "fixed", "--jobs", "2", "--runtime", "no"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "imported").exists()


def test_a_version_of_python_that_anybody_can_talk_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 8, "final", 0))
    assert start_method() == "spawn"


def test_a_folder_whose_name_is_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / ("t" * 80)))
    assert start_method() == "spawn"


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert start_method() == "spawn"


def test_no_right_to_make_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(socket, "socket", refused)
    assert start_method() == "spawn"


def test_a_process_that_was_itself_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert start_method() == "spawn"


def test_a_process_gets_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_BEFORE", "1")
    process.take_environment({**os.environ, "OF_NOW": "1"})
    assert os.environ.pop("OF_NOW") == "1"
    wanted = {name: text for name, text in os.environ.items() if name != "OF_BEFORE"}
    process.take_environment(wanted)
    assert dict(os.environ) == wanted


def test_processes_that_cannot_begin_are_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They die before they have read anything: with what is to be done among their arguments, nobody would have come back."""
    monkeypatch.setattr(process, "process_context", lambda *_: multiprocessing.get_context("spawn"))
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(shutil.which("false") or ""))
    jobs = [Job(str(tmp_path / name), str(tmp_path / "out" / name)) for name in ("a.onnx", "b.onnx")]
    found: list[Outcome] = []
    work = Work(Rewriting(load_rules().select(["MX"])))
    assert len(pickle.dumps(work)) > 1 << 17  # more than a pipe holds
    thread = Thread(target=lambda: list(run_all(jobs, work, 2, found.append)), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert {outcome.error for outcome in found} == {"the process that worked on it ended (exit code 1)"}
