"""What a batch of very many models needs of memory, from the first thousand to the last.

    python benchmarks/many_models.py [--models 100000] [--jobs 2] [--folder DIR] [--step 1000]

The models are those of `benchmarks/batch.py`, a rule fires in one of ten; each differs from all others in a name. They are
repaired by one command with a JSON report. After each step it prints what the process of the command takes, and the largest
of its workers. Exits with 1 when that process took more than 200 MB, or a model has no result or no row in the report.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import batch

MOST = 200
"""MB of the process."""
KINDS = 50
A_FOLDER = 1000


def make(folder: Path, count: int) -> None:
    """Copies of a few models, in folders of a thousand."""
    seeds = []
    for broken, number in ((False, KINDS), (True, KINDS // 10)):
        (place := folder.with_name(f"seeds{broken:d}")).mkdir()
        batch.make(place, number, broken=broken)
        seeds.append([path.read_bytes() for path in sorted(place.iterdir())])
    mark = b"mxnet_converted_model"
    for number in range(count):
        if number % A_FOLDER == 0:
            (here := folder / f"d{number // A_FOLDER:04}").mkdir(parents=True)
        data = seeds[number % 10 == 0][number % (KINDS // 10 if number % 10 == 0 else KINDS)]
        extra = f"model {number}".encode()
        assert mark in data
        (here / f"m{number:07}.onnx").write_bytes(data + b"\x32" + bytes([len(extra)]) + extra)  # its documentation


def memory(process: int) -> float:
    """MB of private memory and of files that it maps; 0 of one that is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1000


def workers(process: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--step", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where all of it goes (default: a temporary folder)")
    args = parser.parse_args()
    if args.folder is not None:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        return measured(Path(name), args.models, args.jobs, args.step)


def measured(place: Path, count: int, jobs: int, step: int) -> int:
    make(place / "in", count)
    out, report, journal = place / "out", place / "report.json", place / "out.journal.jsonl"
    command = [sys.executable, "-m", "rewriter", "fix", place / "in", "--out", out, "--report", report, "--jobs", str(jobs)]
    started = time.monotonic()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    print(f"{'models':>8}{'s':>8}{'MB':>8}{'a worker':>10}", flush=True)
    done, told, most, largest, at = 0, 0, 0.0, 0.0, 0
    while run.poll() is None:
        time.sleep(0.2)
        most = max(most, now := memory(run.pid))
        largest = max([largest, *map(memory, workers(run.pid))])
        with contextlib.suppress(OSError), journal.open("rb") as file:
            file.seek(at)
            found = file.read()
            at, done = at + len(found), done + found.count(b'{"model"')
        if done // step > told // step:
            told = done
            print(f"{done:8}{time.monotonic() - started:8.0f}{now:8.0f}{largest:10.0f}", flush=True)
    seconds = time.monotonic() - started
    results = sum(1 for path in out.rglob("*.onnx") if not path.name.startswith("."))
    with report.open("rb") as file:
        rows = sum(b'"status": "' in line for line in file)
    print(f"{done} models, {results} results, {rows} rows: {seconds / count * 1000:.1f} ms a model, at most {most:.0f} MB")
    return 0 if results == rows == done == count and run.returncode == 0 and most <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
