"""The models of `tests/hostile` through every command: each call has to end within its limits, with one clear line.

    python benchmarks/poison.py [--limit 5] [--slack 1] [--only NAME] [--command NAME]

Each model goes alone through every command that reads one, then all of them as a folder, with `--jobs 1` and with `--jobs 2`. A
traceback, exit code 3, or more time than the limit and what a process needs to start is wrong; `--slack 4` allows four times
of the latter, on a machine with other work. Prints what is wrong and the slowest calls; exits with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rewriter.app.cli.main import COMMANDS
from tests.hostile.every_command import CALLS, READ_NOTHING, READERS, arguments_of, matrix, reader_call
from tests.hostile.measured_call import measured, own_memory
from tests.hostile.poison_files import write_poison
from tests.hostile.poison_models import POISON

RULES = next((Path(__file__).resolve().parent.parent / "rules").rglob("HYG001_*.rules"))


FOLDERS: dict[str, Sequence[str]] = {
    "check": ("{m}", "--report", "{out}/check.json"),
    "fix": ("{m}", "--out", "{out}/fixed"),
    "optimize": ("{m}", "--out", "{out}/small"),
}
"""Calls as in `CALLS`, for a folder with all of them."""

GRACE = 5.0
"""Seconds beside the limit: for a process to start and import, and to write what is to be written."""


@dataclass(frozen=True)
class Ended:
    """How a call ended; `wrong` says what is not as it should be."""

    code: int
    seconds: float
    said: str
    wrong: str


def called(name: str, arguments: Sequence[str], limit: float, slack: float = 1.0, most: float = 0.0) -> Ended:
    """Calls a command in a process of its own.

    Args:
        name: of a call; its first word is the command.
        arguments: of the command.
        limit: for one model, in seconds.
        slack: how much slower than an idle one this machine may be.
        most: seconds that all of it may take; 0: what one model may.
    """
    words = [name.split()[0], *arguments, "--time-limit", f"{limit:g}", "--memory-limit", "2G"]
    most = most or limit + GRACE * slack
    started = time.monotonic()
    run = subprocess.Popen(
        [sys.executable, "-m", "rewriter", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        out, _ = run.communicate(timeout=2 * most + 20)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        return Ended(-9, time.monotonic() - started, "", "does not end")
    seconds, said = time.monotonic() - started, out.decode(errors="replace")
    wrong = ""
    if run.returncode not in (0, 1, 2):
        wrong = f"ends with {run.returncode}: {said.strip()[-300:]}"
    elif "Traceback" in said or "internal error" in said:
        wrong = f"a traceback: {said.strip()[-300:]}"
    elif "has no option" in said or "usage:" in said:
        wrong = f"is called wrongly: {said.strip()[-200:]}"
    elif seconds > most:
        wrong = f"took {seconds:.1f} s"
    return Ended(run.returncode, seconds, said, wrong)


MEMORY = 1 << 30


def readers(limit: float, command: str | None = None) -> int:
    """Every command with every file of `tests/hostile/poison_files.py`; how many calls were wrong."""
    calls = wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for kind, file, call in matrix(whole=True):
            if command not in (None, call.split()[0]):
                continue
            path = write_poison(kind, file, Path(name, "in"))
            shutil.rmtree(out := Path(name, "out"), ignore_errors=True)
            out.mkdir()
            words = [*reader_call(kind, call, path, out), "--time-limit", f"{limit:g}", "--memory-limit", str(MEMORY)]
            found = measured(words, Path(name)).wrong(limit + GRACE, own_memory() + MEMORY)
            calls += 1
            if found:
                wrong += 1
                print(f"{call} {kind} {file}: {found}", flush=True)
    print(f"{calls} calls with files that are no models, {wrong} of them wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for a model")
    parser.add_argument("--slack", type=float, default=1.0)
    parser.add_argument("--only", help="this model")
    parser.add_argument("--command", help="this command")
    args = parser.parse_args()
    started, calls, slow, wrong = time.monotonic(), 0, [], 0
    with tempfile.TemporaryDirectory() as name:
        (models := Path(name, "models")).mkdir()
        for poison, make in POISON.items():
            if args.only in (None, poison):
                make(models)
        for path in sorted(models.glob("*.onnx")):
            (out := Path(name, path.stem)).mkdir()
            for call, words in CALLS.items():
                if args.command not in (None, call) and call != "fix":
                    continue
                if call == "apply" and not (out / "plan.toml").exists():
                    continue
                more = ("--verify",) if "--verify" in call else ()
                found = called(call, [*arguments_of(words, path, out, RULES), *more], args.limit, args.slack)
                calls += 1
                slow.append((found.seconds, f"{call} {path.name}"))
                if found.wrong:
                    wrong += 1
                    print(f"{call} {path.name}: {found.wrong}", flush=True)
            shutil.rmtree(out)
        for jobs in ("1", "2") if args.only is None else ():
            (out := Path(name, f"all{jobs}")).mkdir()
            for call, words in FOLDERS.items():
                most = len(POISON) * (args.limit + 1) + GRACE * args.slack
                given = arguments_of(words, models, out, RULES)
                found = called(call, [*given, "--jobs", jobs], args.limit, args.slack, most)
                calls += 1
                lines = found.said.strip().splitlines() or [""]
                print(f"{call} of all of them, --jobs {jobs}: {found.seconds:.0f} s: {lines[-1]}", flush=True)
                if found.wrong:
                    wrong += 1
                    print(f"    {found.wrong}", flush=True)
    tried = {call.split()[0] for some in (CALLS, *READERS.values()) for call in some}
    others = sorted({*COMMANDS} - tried - READ_NOTHING)
    print(f"commands that are not tried: {', '.join(others) or 'none that reads a file'}")
    if args.only is None:
        wrong += readers(args.limit, args.command)
    print(f"{calls} calls of {len(POISON)} models in {time.monotonic() - started:.0f} s, {wrong} of them wrong; slowest:")
    for seconds, text in sorted(slow, reverse=True)[:10]:
        print(f"{seconds:8.1f}  {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
