"""What a new user meets: results that exist, Ctrl-C, standard output, and libraries that print on their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from rewriter.app.batch.processes import run_all
from rewriter.app.batch.work import Job, Rewriting, Work
from rewriter.core.language.rules import RuleSet
from tests.cli.call import GEMM, POOL, Call
from tests.cli.workers import deaf

SCALER = """<ir_version: 3, opset_import: ["": 1]>
g (float[1,3,2,2] x) => (float[1,3,2,2] y) { t = ImageScaler<scale=2.0, bias=[1.0, 1.0, 1.0]>(x)  u = Identity(t)  y = Neg(u) }"""


def folder(tmp_path: Path, models: int) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(models):
        shutil.copy(GEMM, tmp_path / "in" / f"m{number:04}.onnx")
    return tmp_path / "in"


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    call = [sys.executable, "-m", "rewriter", *map(str, arguments)]
    return subprocess.run(call, capture_output=True, **options)  # type: ignore[call-overload, no-any-return]


def test_results_that_exist_are_one_line(call: Call, tmp_path: Path) -> None:
    models, out = folder(tmp_path, 5), tmp_path / "out"
    assert call("fix", models, "--out", out).code == 0
    (out / "m0003.onnx").unlink()
    (out / "m0001.onnx").write_text("mine")
    again = call("fix", models, "--out", out)
    assert (again.code, again.out, again.err.count("\n")) == (2, "", 1)
    assert "4 of 5 results exist" in again.err
    assert "--force" in again.err
    assert "--skip-existing" in again.err
    assert not (out / "m0003.onnx").exists()
    skipped = call("fix", models, "--out", out, "--skip-existing")
    assert skipped.code == 0
    assert "4 of 5 results exist and were skipped" in skipped.err
    assert "1 model: 1 repaired" in skipped.err
    assert (out / "m0003.onnx").read_bytes() == (out / "m0002.onnx").read_bytes()
    assert (out / "m0001.onnx").read_text() == "mine"
    nothing = call("fix", models, "--out", out, "--skip-existing")
    assert nothing.code == 0
    assert "0 models; 0 rewrites; " in nothing.err
    assert call("fix", models, "--out", out, "--skip-existing", "--force").code == 2


def test_the_result_goes_to_standard_output(tmp_path: Path) -> None:
    assert command("fix", GEMM, "-o", tmp_path / "wanted.onnx").returncode == 0
    done = command("fix", GEMM, "-o", "-", "--diff", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == (tmp_path / "wanted.onnx").read_bytes()
    assert b": 1 rewrite\n  ONNX Runtime rejected it: " in done.stderr
    assert not (tmp_path / "-").exists()
    for more in (["--format", "json"], [POOL]):
        refused = command("fix", GEMM, *more, "-o", "-", cwd=tmp_path)
        assert (refused.returncode, refused.stdout, refused.stderr.count(b"\n")) == (2, b"", 1)
    assert command("fix", tmp_path / "none.onnx", "-o", "-").stdout == b""


def test_nothing_else_stands_in_json(tmp_path: Path) -> None:
    """The checker of ONNX prints a warning to the standard output of the process when it meets an experimental operator."""
    onnx.save(onnx.parser.parse_model(SCALER), tmp_path / "net.onnx")
    done = command("fix", tmp_path / "net.onnx", "--select", "GEN001", "--format", "json")
    assert json.loads(done.stdout)["models"][0]["counts"] == {"GEN001": 1}
    assert b"experimental" in done.stderr


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_tells_what_was_done(tmp_path: Path, jobs: int) -> None:
    models, out, report = folder(tmp_path, 1500), tmp_path / "out", tmp_path / "report.json"
    call = [sys.executable, "-m", "rewriter", "fix", models, "--out", out, "--jobs", str(jobs), "--report", report]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # a shell has its background jobs ignore it
    started = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **heard)
    while started.poll() is None and not (tmp_path / "out.journal.jsonl").exists():
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate()
    assert started.returncode == 130, said
    assert "Traceback" not in said
    found = json.loads(report.read_text())
    done = len(found["models"])
    assert said.splitlines()[-1] == f"interrupted: {done:,} of 1,500 done; continue with --resume"
    assert 0 <= done < 1500
    assert found["exit_code"] == 130
    assert all(Path(model["output"]).exists() for model in found["models"])
    assert {path.suffix for path in out.iterdir()} <= {".onnx"}


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signals of POSIX")
def test_processes_never_hear_of_an_interruption() -> None:
    assert [outcome.source for outcome in run_all([Job("a"), Job("b")], Work(Rewriting(RuleSet())), 2, worker=deaf)] == [
        "deaf"
    ] * 2
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_rules_that_cannot_decide_are_told_once_for_many_models(call: Call, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 13, "c": 1]> g (float[2] x) => (float[2] y) { t = c.F(x)  y = Relu(t) }'
    (tmp_path / "my.rules").write_text(
        "/// Long vectors.\nrule TST001 long <kind: exact>\nmatch { y = Relu(x) }\nwhere dim(x, 0) > 5\nrewrite { y = Abs(x) }\n"
    )
    (tmp_path / "in").mkdir()
    for name in "abc":
        onnx.save(onnx.parser.parse_model(text), tmp_path / "in" / f"{name}.onnx")
    options = ("--rules", tmp_path / "my.rules", "--select", "TST001", "--runtime", "no", "--out", tmp_path / "out", "--force")
    done = call("fix", tmp_path / "in", *options)
    assert done.out.count("blocked") == 1
    assert "blocked TST001 in 3 models: Long vectors." in done.out
    assert call("fix", tmp_path / "in", *options, "--verbose").out.count("blocked TST001 y (Relu): ") == 3
    assert "blocked TST001 y (Relu): " in call("fix", tmp_path / "in" / "a.onnx", *options).out
