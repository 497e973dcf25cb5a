"""A Dask cluster that loses a worker: everything is written once, with the bytes of a repair on this machine.

    python benchmarks/cluster.py FOLDER [--workers 4] [--models N]

Scheduler and workers are processes of their own. In the middle of the work one of them is killed. Prints what was done in which
time; exits with 1 when a model is missing, was reported twice or has other bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIX = [sys.executable, "-m", "rewriter", "fix"]


def started(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A part of the cluster; it gets a group of its own, so that it can be killed with all that it started."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def files_of(folder: Path) -> dict[str, bytes]:
    """What was written, by place, but for journals."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.suffix != ".jsonl"}


def main() -> int:
    """Repairs a folder twice, and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--models", type=int, help="only so many of its models (default: all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        return compared(args.folder, args.workers, args.models, Path(temporary))


def compared(folder: Path, workers: int, models: int | None, here: Path) -> int:
    given = sorted(folder.rglob("*.onnx"))[:models]
    for path in given:
        shutil.copytree(path.parent, here / "in" / path.parent.relative_to(folder), dirs_exist_ok=True)
    begun = time.monotonic()
    subprocess.run([*FIX, here / "in", "--out", here / "local", "--jobs", "2"], check=False, capture_output=True)
    print(f"{len(given)} models on this machine: {time.monotonic() - begun:.0f} s", flush=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = [started("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")]
    address = f"tcp://127.0.0.1:{port}"
    cluster += [started("worker", address, "--nthreads", "1", "--no-dashboard") for _ in range(workers)]
    try:
        return repaired(here, cluster, f"dask://127.0.0.1:{port}", len(given))
    finally:
        for one in cluster:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)


def repaired(here: Path, cluster: list[subprocess.Popen[bytes]], scheduler: str, models: int) -> int:
    """The folder once more on the cluster; a worker is killed when a third of the results is there."""
    begun = time.monotonic()
    out, report = here / "out", here / "report.json"
    command = [*FIX, here / "in", "--out", out, "--scheduler", scheduler, "--report", report]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while run.poll() is None and len(list(out.rglob("*.onnx"))) < models / 3:
        time.sleep(0.1)
    if run.poll() is None:
        os.killpg(cluster[1].pid, signal.SIGKILL)
        print(f"a worker was killed after {len(list(out.rglob('*.onnx')))} results", flush=True)
    _, said = run.communicate()
    print(said.strip().splitlines()[-1] if said.strip() else "nothing was said")
    local, there = files_of(here / "local"), files_of(out)
    told = [model["path"] for model in json.loads(report.read_text())["models"]] if report.exists() else []
    wrong = sorted(name for name in local.keys() | there.keys() if local.get(name) != there.get(name))
    print(
        f"{len(told)} models reported, {len(set(told))} different ones; {len(there)} files, {len(wrong)} of them not as on this"
    )
    print(f"machine: {', '.join(wrong[:5]) or 'none'}; {time.monotonic() - begun:.0f} s")
    return 0 if not wrong and len(told) == len(set(told)) == models else 1


if __name__ == "__main__":
    sys.exit(main())
