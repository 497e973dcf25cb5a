"""What `fix` costs over real models, most of which nothing is wrong with, beside reading and writing them with graphsurgeon.

    python benchmarks/corpus.py [FOLDER ...] [--sample 300] [--seed 0] [--runs 3] [--runtime no] [--models]

Without a folder, the models that the onnx package brings along. Both ways do the same models in one process and by turns, one
model after the other, so that a busy machine slows both; what is compared is processor time. `fix` reads, runs the rules that
run by default, and writes; `graphsurgeon` is onnx.load, import_onnx, export_onnx and onnx.save. A model that graphsurgeon
cannot read or write is left out of both sums. The first round is not counted: it makes rules ready, and whatever else is made
once. Exits with 1 when the ratio of all models is above 0.8.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_graphsurgeon as gs

from rewriter import load_rules
from rewriter.app.batch.job import process
from rewriter.app.batch.work import Checking, Job, Outcome, Rewriting, Work, Writing

BOUND = 0.8
PARTS = ("light", "simple", "pytorch-converted", "pytorch-operator")


def models(folders: list[Path], sample: int, seed: int) -> list[Path]:
    """The models to do: all that onnx brings, and so many of the folders."""
    home = Path(onnx.__file__).parent / "backend" / "test" / "data"
    own = [path for part in PARTS for path in sorted((home / part).rglob("*.onnx"))]
    given = [path for folder in folders for path in sorted(folder.rglob("*.onnx"))]
    if sample and sample < len(given):
        given = sorted(random.Random(seed).sample(given, sample))
    return own + given


def round_trip(source: Path, target: Path) -> None:
    onnx.save(gs.export_onnx(gs.import_onnx(onnx.load(source))), target)


def seconds(job: Callable[[], object]) -> float:
    started = time.process_time()
    job()
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="*")
    parser.add_argument("--sample", type=int, default=300, help="models of the folders, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--runtime", choices=("auto", "no"), default="no", help="whether `fix` also asks ONNX Runtime")
    parser.add_argument("--models", action="store_true", help="also print each model")
    args = parser.parse_args()
    work = Work(Rewriting(load_rules().select()), checking=Checking(runtime=args.runtime), writing=Writing(force=True))
    warnings.simplefilter("ignore")
    listed = models(args.folders, args.sample, args.seed)
    ours: dict[Path, list[float]] = {path: [] for path in listed}
    theirs: dict[Path, list[float]] = {path: [] for path in listed}
    outcomes: dict[Path, Outcome] = {}
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "out.onnx"
        for number in range(args.runs + 1):
            for path in listed:
                if path not in theirs:
                    continue
                target.unlink(missing_ok=True)
                try:
                    with contextlib.redirect_stderr(None), contextlib.redirect_stdout(None):
                        peer = seconds(lambda path=path: round_trip(path, target))
                except Exception:
                    del theirs[path]
                    continue
                target.unlink(missing_ok=True)
                own = seconds(lambda path=path: outcomes.__setitem__(path, process(Job(str(path), str(target)), work)))
                if number:
                    theirs[path].append(peer)
                    ours[path].append(own)
    done = [path for path in theirs if not outcomes[path].error]
    own = {path: statistics.median(ours[path]) for path in done}
    peer = {path: statistics.median(theirs[path]) for path in done}
    if args.models:
        for path in sorted(done, key=lambda path: own[path] - peer[path]):
            print(f"{own[path] * 1000:9.2f} {peer[path] * 1000:9.2f} {len(outcomes[path].log.firings):5}  {path}")
    same = [path for path in done if not outcomes[path].changed]
    print(f"{len(listed)} models, {len(listed) - len(done)} left out, {len(done) - len(same)} changed; ms of the processor")
    print(f"{'':22}{'fix':>10}{'graphsurgeon':>14}{'ratio':>8}")
    ratio = 0.0
    for label, some in (("unchanged models", same), ("changed models", [p for p in done if p not in set(same)]), ("all", done)):
        a, b = sum(own[path] for path in some) * 1000, sum(peer[path] for path in some) * 1000
        ratio = a / b if b else 0.0
        print(f"{label:22}{a:10.1f}{b:14.1f}{ratio:8.2f}")
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
