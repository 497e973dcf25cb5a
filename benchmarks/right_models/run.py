"""Right models of real exporters through `rewriter fix`: none may be harmed, and nothing may be rolled back.

    python benchmarks/right_models/run.py WORKDIR [--exporter NAMES] [--count N] [--seed S] [--corpus DIR ...]
        [--transforms NAMES] [--ways NAMES] [--sample K] [--transform-sample K] [--jobs N]

Makes an environment for each exporter under WORKDIR/environments, generates models with the framework's own outputs under
WORKDIR/models, and runs `fix` over those that are right, as they are and under transforms that keep them right. `--corpus` adds
folders of recorded models, SET/NAME/{model.onnx, data.npz, meta.json, [symbol.json]}; `--exporter none` runs only those.
Writes WORKDIR/report.json and WORKDIR/report.md. Exits with 1 when a model is harmed or rolled back.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from cases import NotRightError, exporter_of, folders, read  # noqa: E402
from environments import EXPORTERS, generate  # noqa: E402
from judge import TRANSFORMS, WAYS, Bench, Row, examine  # noqa: E402
from report import Tally, markdown, write_json  # noqa: E402
from sources import nearest, read_symbols  # noqa: E402

Job = tuple[Path, str | None, Sequence[str], Sequence[str]]
Answer = tuple[str, list[Row], str]

_bench: Bench | None = None


def work(job: Job) -> Answer:
    """One case, in a worker process: exporter, rows, or why it does not count."""
    global _bench
    _bench = _bench or Bench()
    folder, near, transforms, ways = job
    exporter = exporter_of(folder.parent.name)
    try:
        case = read(folder)
        if case is None:
            return exporter, [], "no recorded truth, or broken"
        return exporter, list(examine(case, near, transforms, ways, _bench)), ""
    except NotRightError as error:
        return exporter, [], str(error)


def main() -> int:
    args = arguments()
    args.workdir.mkdir(parents=True, exist_ok=True)
    chosen = [] if args.exporter == ["none"] else args.exporter or list(EXPORTERS)
    for name in chosen:
        generate(name, args.workdir, args.count, args.seed)
    corpora = [*args.corpus, *([args.workdir / "models"] if chosen else [])]
    found = folders(corpora, args.only)[:: args.sample]
    symbols = read_symbols(found)
    jobs: list[Job] = []
    for number, folder in enumerate(found):
        near = nearest(folder, symbols.get(folder.parent.name, ())) if "near-source" in args.transforms else None
        transforms = [name for name in args.transforms if name in TRANSFORMS and number % args.transform_sample == 0]
        jobs.append((folder, near, transforms, args.ways))
    tally, started = Tally(), time.monotonic()
    with multiprocessing.Pool(args.jobs, maxtasksperchild=400) as pool:
        for number, (exporter, rows, error) in enumerate(pool.imap_unordered(work, jobs, chunksize=4), 1):
            tally.add(exporter, rows, error)
            if number % 100 == 0 or number == len(jobs):
                print(f"{number}/{len(jobs)} {time.monotonic() - started:.0f} s, {summary(tally)}", flush=True)
                write(tally, args.workdir, time.monotonic() - started)
    write(tally, args.workdir, time.monotonic() - started)
    print(markdown(tally))
    print(summary(tally))
    return 1 if tally.bad else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workdir", type=Path)
    parser.add_argument("--exporter", type=listed, default=[], metavar="NAMES", help=f"of {', '.join(EXPORTERS)}, or none")
    parser.add_argument("--count", type=int, default=400, help="random nets an exporter, besides its hand-written ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="recorded models; may be repeated")
    parser.add_argument("--only", type=listed, default=[], metavar="SETS")
    parser.add_argument("--transforms", type=listed, default=["near-source", *TRANSFORMS], metavar="NAMES", help="or none")
    parser.add_argument("--ways", type=listed, default=list(WAYS), metavar="NAMES", help=", ".join(WAYS))
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="take each K-th model")
    parser.add_argument("--transform-sample", type=int, default=1, metavar="K", help="transform only each K-th of them")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    for given, known in ((args.exporter, EXPORTERS), (args.transforms, ["near-source", *TRANSFORMS]), (args.ways, WAYS)):
        if unknown := set(given) - set(known) - {"none"}:
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return args


def listed(text: str) -> list[str]:
    """What stands between commas."""
    return [part for part in text.split(",") if part]


def summary(tally: Tally) -> str:
    models, skipped = sum(tally.models.values()), sum(tally.not_right.values())
    return (
        f"{models} right models ({skipped} others skipped), {tally.total('all')} runs, changed {tally.total('changed')}, "
        f"harmed {tally.total('harmed')}, rolled back {tally.total('rolled back')}"
    )


def write(tally: Tally, workdir: Path, seconds: float) -> None:
    facts = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "seconds": round(seconds)}
    write_json(tally, workdir / "report.json", facts)
    (workdir / "report.md").write_text(markdown(tally))


if __name__ == "__main__":
    sys.exit(main())
