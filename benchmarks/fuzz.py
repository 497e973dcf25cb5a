"""Damaged models, rule files, journals and all else that is read: none may end in an internal error, a crash or a hang.

    python benchmarks/fuzz.py --inputs 200000 --jobs 2
    python benchmarks/fuzz.py --seconds 86400 --engine atheris --keep findings/
    python benchmarks/fuzz.py --only 4711                    # one input again, with its traceback

Input N of a seed is always the same. With atheris (`pip install atheris`; no part of any extra) inputs that reach new code are
damaged further; without it, each is an input of the tests with a few things wrong. Every finding is printed once, by the place
where it happens, and kept with its input; exits with 1 when there is one.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

HANGS = 600.0
"""Seconds of the clock after which an input counts as one that never ends: on a busy machine a batch may wait for minutes."""

MEMORY = 6 << 30
"""Bytes for a process."""


class Watch:
    """Processes that try inputs, and what they find: a process that dies or hangs is a finding, and another one goes on."""

    def __init__(self, args: argparse.Namespace, targets: Any) -> None:
        self.args, self.targets = args, targets
        self.keep = Path(args.keep or tempfile.mkdtemp(prefix="findings-"))
        self.keep.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        self.tried = 0
        self.kinds: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.context = multiprocessing.get_context("fork")

    def run(self) -> int:
        """Tries inputs until enough were tried or the time is over; how many different findings there are."""
        at = dict.fromkeys(range(self.args.jobs), self.args.start)
        workers = {number: self._started(number, at[number]) for number in at}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._watch(workers, at)
        finally:
            for process, _, _ in workers.values():
                process.kill()
            self.tell()
        return len(self.found)

    def _watch(self, workers: dict[int, list[Any]], at: dict[int, int]) -> None:
        told = self.started
        while workers and not self._over():
            by_connection = {worker[1]: number for number, worker in workers.items()}
            for connection in wait(list(by_connection), timeout=1.0):
                number = by_connection[connection]  # type: ignore[index]
                try:
                    kind, data, finding = workers[number][1].recv()
                except (EOFError, OSError):
                    workers[number] = self._lost(number, workers[number], "the process ended", at)
                    continue
                workers[number][2] = time.monotonic()
                if finding is None:  # it begins with this one
                    at[number] = kind
                    self.tried += 1
                else:
                    self._note(kind, data, finding)
            for number, worker in workers.items():
                if time.monotonic() - worker[2] > HANGS:
                    worker[0].kill()
                    workers[number] = self._lost(number, worker, f"hangs: no end after {HANGS:.0f} s", at)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                self.tell()

    def tell(self) -> None:
        seconds = time.monotonic() - self.started
        print(f"{self.tried} inputs in {seconds:.0f} s, {len(self.found)} findings ({self.found.total()} inputs)", flush=True)

    def _over(self) -> bool:
        late = self.args.seconds is not None and time.monotonic() - self.started > self.args.seconds
        return late or (self.args.inputs is not None and self.tried >= self.args.inputs)

    def _started(self, number: int, at: int) -> list[Any]:
        ours, theirs = self.context.Pipe(duplex=False)
        work = guided if self.args.engine == "atheris" else unguided
        process = self.context.Process(target=work, args=(theirs, self.targets, self.args, number, at), daemon=False)
        process.start()
        theirs.close()
        return [process, ours, time.monotonic()]

    def _lost(self, number: int, worker: list[Any], why: str, at: dict[int, int]) -> list[Any]:
        process, connection, _ = worker
        process.join()
        connection.close()
        last = self.targets.folder / f"input-{number}"
        data = last.read_bytes() if last.exists() else b""
        kind, _, data = data.partition(b"\n")
        trace = last.with_suffix(".trace").read_text() if last.with_suffix(".trace").exists() else ""
        self._note(kind.decode(), data, f"{why}: exit code {process.exitcode}, input {at[number]}\n{trace}")
        at[number] += self.args.jobs
        return self._started(number, at[number])

    def _note(self, kind: str, data: bytes, finding: str) -> None:
        from fuzzing.targets import signature

        name = signature(finding)
        self.found[name] += 1
        if self.found[name] == 1:
            path = self.keep / f"{kind}-{len(self.found)}"
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(finding, errors="backslashreplace")
            print(f"FOUND {name}: {path}", flush=True)


def made(targets: Any, args: argparse.Namespace, number: int) -> tuple[str, bytes, Random]:
    """Input `number`: what it is, its bytes, and the chances of what is done with it."""
    random = Random(f"{args.seed} {number}")
    kind = args.kind or random.choices(list(targets.KINDS), list(targets.KINDS.values()))[0]
    targets = targets.ready
    return kind, targets.damaged(kind, random.choice(targets.seeds(kind)), random), random


def unguided(connection: Connection[Any, Any], targets: Any, args: argparse.Namespace, number: int, at: int) -> None:
    """One process: every input of a step."""
    one = _Process(connection, targets, number)
    at += (number - at) % args.jobs
    while True:
        kind, data, random = made(targets, args, at)
        one.tries(at, kind, data, random)
        at += args.jobs


def guided(connection: Connection[Any, Any], targets: Any, args: argparse.Namespace, number: int, at: int) -> None:
    """One process: inputs that reach what no input before reached are damaged further."""
    import atheris  # type: ignore[import-not-found]

    one = _Process(connection, targets, number)
    kind = args.kind or list(targets.KINDS)[number % len(targets.KINDS)]
    corpus = Path(tempfile.mkdtemp(dir=targets.folder))
    for place, seed in enumerate(targets.ready.seeds(kind)):
        (corpus / str(place)).write_bytes(seed)
    tried = iter(range(at, sys.maxsize))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return bytes(targets.ready.damaged(kind, data, Random(seed))[:most])

    def test(data: bytes) -> None:
        one.tries(next(tried), kind, data, Random(len(data)))

    options = [
        "fuzz",
        str(corpus),
        "-max_len=200000",
        "-timeout=0",
        f"-seed={args.seed + number + at + 1}",
        "-rss_limit_mb=0",
        "-verbosity=0",
    ]
    atheris.Setup(options, test, custom_mutator=mutate)
    atheris.Fuzz()


class _Process:
    """What every process does: it says what it begins with, so that a crash has a culprit, and what it finds."""

    def __init__(self, connection: Connection[Any, Any], targets: Any, number: int) -> None:
        from fuzzing.targets import silence

        silence()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        self.connection, self.targets = connection, targets.ready
        self.last = targets.folder / f"input-{number}"
        faulthandler.enable(self.last.with_suffix(".trace").open("w"))
        self.targets.folder = Path(tempfile.mkdtemp(dir=targets.folder))

    def tries(self, number: int, kind: str, data: bytes, random: Random) -> None:
        self.last.write_bytes(kind.encode() + b"\n" + data)
        self.connection.send((number, b"", None))
        if finding := self.targets.tried(kind, data, random):
            self.connection.send((kind, data, f"{finding}\ninput {number}"))


class _Loaded:
    """What all processes share: it is loaded once, before they are forked, and under atheris with its counters in it."""

    def __init__(self, engine: str) -> None:
        if engine == "atheris":
            import atheris

            with atheris.instrument_imports(include=["rewriter"], enable_loader_override=False):
                from fuzzing import targets
        else:
            from fuzzing import targets
        self.KINDS = targets.KINDS
        self.ready = targets.Targets()
        self.folder = self.ready.folder


def main() -> int:
    """Tries inputs; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, help="end after so many")
    parser.add_argument("--seconds", type=float, help="end after this time")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", type=int, help="this input, in this process")
    parser.add_argument("--kind", help="one kind, as journals (default: all)")
    parser.add_argument("--engine", choices=("mutation", "atheris"), default="mutation")
    parser.add_argument("--keep", metavar="DIR", help="where findings go (default: a new folder)")
    args = parser.parse_args()
    if args.inputs is None and args.seconds is None:
        args.inputs = 10_000
    loaded = _Loaded(args.engine)
    try:
        if args.only is not None:
            found = loaded.ready.tried(*made(loaded, args, args.only))
            print(found or "nothing is wrong with it")
            return bool(found)
        return min(Watch(args, loaded).run(), 1)
    finally:
        loaded.ready.folder = loaded.folder
        loaded.ready.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
