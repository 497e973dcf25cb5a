"""Errors of the system and kills at random moments, all of them: what is left afterwards.

    python benchmarks/faults.py [--kills 2000] [--seed 0] [--scene NAME]

Every write, fsync, rename, link, unlink and read of a fix (of one file, in place, with external data) fails once with each of
ENOSPC, EIO, EACCES and EDQUOT, writes are cut short, and then so many runs are killed: nine of ten of these, one of ten a batch
of eight models with two processes, which is then continued with --resume. After each of them a file that is half written, an
input that is damaged, or a process that is left counts as wrong, and so do, after the next run, other bytes than those of an
undisturbed run, or a file too many. Exits with 1 when anything is wrong.
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
from tests.hostile.faulty_system import BATCH, ERRORS, SCENES, SHORT, Fault


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", choices=[scene.name for scene in (*SCENES, BATCH)])
    args = parser.parse_args()
    wrong = 0
    print(f"{'':16}{'faults':>8}{'kills':>8}{'wrong':>8}{'s':>8}")
    for scene in (*SCENES, BATCH):
        if args.scene not in (None, scene.name):
            continue
        started, found = time.perf_counter(), []
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            before, wanted, seen = faulty_system.undisturbed(scene)
            faults = [
                Fault(name, number, error)
                for name, times in sorted(seen.items())
                for number in range(1, times + 1)
                for error in (*ERRORS, *((SHORT,) if name == "write" else ()))
            ]
            faults = [] if scene is BATCH else faults
            found += [faulty_system.with_fault(scene, fault, before, wanted) for fault in faults]
            kills = args.kills // 10 if scene is BATCH else args.kills * 3 // 10
            moments = faulty_system.moments(scene, kills, args.seed)
            found += [faulty_system.killed(scene, moment, before, wanted) for moment in moments]
        bad = [text for text in found if text]
        wrong += len(bad)
        print(f"{scene.name:16}{len(faults):8}{kills:8}{len(bad):8}{time.perf_counter() - started:8.0f}", flush=True)
        for text in bad[:10]:
            print(f"    {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
