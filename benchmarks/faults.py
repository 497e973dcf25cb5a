"""Errors of the system and kills at random moments, all of them: what is left afterwards.

    python benchmarks/faults.py [--kills 2000] [--seed 0] [--scene NAME]

Every write, fsync, rename, link, unlink and read of a fix (of one file, in place, with external data) fails once with each of
ENOSPC, EIO, EACCES and EDQUOT, writes are cut short, and then so many runs are killed: nine of ten of these, one of ten a batch
of eight models with two processes, which is then continued with --resume. After each of them a file that is half written, an
input that is damaged, or a process that is left counts as wrong, and so do, after the next run, other bytes than those of an
undisturbed run, or a file too many. Exits with 1 when anything is wrong.
Ctrl-C ends it with the figures so far.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.hostile import faulty_system
from tests.hostile.faulty_system import BATCH, ERRORS, SCENES, SHORT, Fault, Scene


def progress(scene: Scene, done: list[int], found: list[str]) -> None:
    """Says what was wrong with the last one, and now and then how far it is."""
    if found[-1]:
        print(found[-1], file=sys.__stderr__, flush=True)
    if sum(done) % 25 == 0:
        wrong = sum(map(bool, found))
        print(f"{scene.name}: {done[0]} faults, {done[1]} kills, {wrong} wrong", file=sys.__stderr__, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", choices=[scene.name for scene in (*SCENES, BATCH)])
    args = parser.parse_args()
    wrong, ended = 0, False
    print(f"{'':16}{'faults':>8}{'kills':>8}{'wrong':>8}{'s':>8}")
    for scene in (*SCENES, BATCH):
        if args.scene not in (None, scene.name):
            continue
        started, found, done = time.perf_counter(), [], [0, 0]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            before, wanted, seen = faulty_system.undisturbed(scene)
            faults = [
                Fault(name, number, error)
                for name, times in sorted(seen.items())
                for number in range(1, times + 1)
                for error in (*ERRORS, *((SHORT,) if name == "write" else ()))
            ]
            faults = [] if scene is BATCH else faults
            kills = args.kills // 10 if scene is BATCH else args.kills * 3 // 10
            try:
                for fault in faults:
                    found.append(faulty_system.with_fault(scene, fault, before, wanted))
                    done[0] += 1
                    progress(scene, done, found)
                for moment in faulty_system.moments(scene, kills, args.seed):
                    found.append(faulty_system.killed(scene, moment, before, wanted))
                    done[1] += 1
                    progress(scene, done, found)
            except KeyboardInterrupt:
                ended = True
        bad = [text for text in found if text]
        wrong += len(bad)
        print(f"{scene.name:16}{done[0]:8}{done[1]:8}{len(bad):8}{time.perf_counter() - started:8.0f}", flush=True)
        for text in bad[:10]:
            print(f"    {text}")
        if ended:
            break
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
