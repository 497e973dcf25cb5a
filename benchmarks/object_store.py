"""A folder of models in an S3 store, repaired from bucket to bucket: the bytes are those of a repair on this machine.

    pip install ".[remote,verify]" "moto[server]" s3fs
    python benchmarks/object_store.py FOLDER [--models N] [--jobs 2]

The server is moto's, a process of its own that speaks S3 over HTTP. Each folder of a model goes there as it is, with external
data and the framework's file; so does one report. Prints what was done in which time; exits with 1 when a model is missing or
has other bytes, or a second run with --skip-existing does anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FIX = [sys.executable, "-m", "rewriter", "fix"]


def main() -> int:
    """Repairs the folder on this machine and in the store, and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, help="only so many of its models (default: all)")
    parser.add_argument("--jobs", default="2")
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    running = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        with tempfile.TemporaryDirectory() as temporary:
            return compared(args.folder, args.models, args.jobs, Path(temporary))
    finally:
        running.kill()
        running.wait()


def wait_for(port: int) -> None:
    """Until the server listens."""
    for _ in range(300):
        with socket.socket() as asked:
            if not asked.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.1)
    raise SystemExit("the server did not start; pip install 'moto[server]' s3fs")


def compared(folder: Path, models: int | None, jobs: str, here: Path) -> int:
    import s3fs

    given = sorted(folder.rglob("*.onnx"))[:models]
    for path in given:
        shutil.copytree(path.parent, here / "in" / path.parent.relative_to(folder), dirs_exist_ok=True)
    seconds, _ = timed([*FIX, here / "in", "--out", here / "local", "--jobs", jobs])
    print(f"{len(given)} models on this machine: {seconds:.0f} s", flush=True)
    store = s3fs.S3FileSystem()
    for bucket in ("exports", "repaired"):
        store.mkdir(bucket)
    store.put(f"{here / 'in'}/", "exports/in", recursive=True)
    command = [*FIX, "s3://exports/in", "--out", "s3://repaired/out", "--jobs", jobs]
    seconds, told = timed([*command, "--report", "s3://repaired/report.json"])
    print(f"from bucket to bucket: {seconds:.0f} s; {told}", flush=True)
    local, there = files_of(here / "local"), objects_of(store, "repaired/out")
    wrong = sorted(name for name in local.keys() | there.keys() if local.get(name) != there.get(name))
    report = store.exists("repaired/report.json")
    print(f"{len(there)} objects, {len(wrong)} of them not as on this machine: {', '.join(wrong[:5]) or 'none'}")
    seconds, told = timed([*command, "--skip-existing"])
    print(f"again with --skip-existing: {seconds:.0f} s; {told}")
    skipped = f"{len(given)} of {len(given)} results exist and were skipped" in told
    return 0 if not wrong and report and skipped and len(there) >= len(given) else 1


def timed(command: list[Any]) -> tuple[float, str]:
    """Seconds that a command takes, and what it says."""
    begun = time.monotonic()
    said = subprocess.run(command, check=False, capture_output=True, text=True).stderr.strip()
    return time.monotonic() - begun, said.replace("\n", "; ")


def files_of(folder: Path) -> dict[str, bytes]:
    """What was written, by place, but for journals."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.suffix != ".jsonl"}


def objects_of(store: Any, place: str) -> dict[str, bytes]:
    return {name.removeprefix(f"{place}/"): store.cat_file(name) for name in store.find(place)}


if __name__ == "__main__":
    sys.exit(main())
