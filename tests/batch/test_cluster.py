"""A Dask cluster does what a pool of this machine does; `benchmarks/cluster.py` has one that loses a worker."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rewriter.app.batch import cluster
from rewriter.app.batch.work import Job, Rewriting, Work
from rewriter.core.errors import install
from rewriter.core.language.rules import RuleSet
from tests.cli.call import GEMM, POOL, Call


@pytest.fixture(autouse=True)
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for path in (GEMM, POOL):
        (tmp_path / "in" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "in" / "none.onnx").write_bytes(b"no model")
    return tmp_path / "in"


def test_as_on_this_machine(call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DASK_DISTRIBUTED__LOGGING__DISTRIBUTED", "critical")
    here = call("fix", "in", "--out", "here")
    there = call("fix", "in", "--out", "there", "--scheduler", "local")
    assert there.out.replace("there", "here") == here.out
    assert there.code == here.code == 2
    for path in (tmp_path / "here").glob("*.onnx"):
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "o", "--scheduler", "local"], f"--scheduler needs Dask; install it with: {install('cluster')}"),
        (["--in-place", "--scheduler", "local"], "--scheduler cannot repair in place"),
    ],
)
def test_what_cannot_be(
    arguments: list[str], said: str, call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = call("fix", folder, *arguments)
    assert done.code == 2 and said in done.err


def test_a_result_at_a_url_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers overwrite results, since a task may run twice; what exists before is not theirs."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe_file("/out/m.onnx", b"of an earlier run")
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(wait=None))
    jobs = [Job("m.onnx", "memory://out/m.onnx"), Job("n.onnx", "memory://out/n.onnx")]
    monkeypatch.setattr(cluster, "process", lambda job, work: job.target)
    here = next(cluster._groups(None, jobs, Work(Rewriting(RuleSet())), None))
    memory.store.clear()
    assert here == [(0, "memory://out/m.onnx")]
