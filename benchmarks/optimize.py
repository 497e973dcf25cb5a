"""What `rewriter optimize` leaves of real models, beside onnxsim, OnnxSlim and ONNX Runtime's basic level.

    python benchmarks/optimize.py FOLDER... [--least 40] [--level all] [--python PEERS] [--keep FOLDER] [--rounds 100]

Every model.onnx (and every *.onnx of a folder without one) with at least --least nodes is optimized in each way. Nodes are
counted without Constant nodes, those in subgraphs and local functions included. Outputs are those of ONNX Runtime, held
against those of the model as it was, on the inputs in data.npz beside the model (in_NAME) or random ones. A peer whose outputs
differ is no measure, nor is one whose result has operators of another domain, which only one runtime has.

Latency is that of ONNX Runtime with its own optimizations on, in one thread, in seconds of that thread. The ways take turns in
many short rounds. A model's ratio is the median over the rounds of our time to that of the fastest peer in the same round, so
that other work on the machine, which slows both, counts little. The result is the geometric mean of all ratios.

--python is an interpreter that has the peers (this one, where nothing is said). With --keep, results of peers are kept there
and used again. Exits with 1 when outputs differ, when ours are more nodes than the best peer's on more than 8 of 100 models, or
when the geometric mean of the latency is above 1.02.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from rewriter import load_rules
from rewriter.app.batch.job import process
from rewriter.app.batch.work import LEVELS, Checking, Job, Reading, Rewriting, Work, Writing
from rewriter.core.record import field, record
from rewriter.trust.proof.model_inputs import random_feeds

PEERS = {"onnxsim": "onnxsim", "onnxslim": "OnnxSlim", "ONNX Runtime, basic": "ORT basic"}
"""Ways of peer_jobs, with what they are called in the table."""

OURS = "ours"
INSTALL = "pip install onnxsim==0.8.1 onnxslim onnxruntime onnx   (or: pip install '.[benchmarks]')"
JOBS = Path(__file__).parent / "peer_jobs"
SHARE, LATENCY, CLOSE = 0.92, 1.02, 1e-3
SLOW = 1.05
"""A model's ratio from which on it is listed."""

SECONDS = 300.0
SHORT = 0.003
"""Seconds of a round."""


@record(slots=True)
class Row:
    """One model: nodes by way, milliseconds by way and round, the ways whose outputs differ or that failed, and those whose
    result has operators of another domain."""

    name: str
    before: int
    nodes: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def measures(self) -> list[str]:
        """The peers that count."""
        return [way for way in PEERS if way in self.nodes and way not in self.wrong and way not in self.foreign]

    @property
    def best(self) -> int | None:
        """Fewest nodes of a peer that counts."""
        return min((self.nodes[way] for way in self.measures), default=None)

    @property
    def fastest(self) -> str | None:
        """The peer that takes the least time."""
        return min((way for way in self.measures if way in self.times), key=self.median, default=None)

    @property
    def ratio(self) -> float | None:
        """Our time to that of the fastest peer in the same round, in the median."""
        if self.fastest is None or OURS not in self.times:
            return None
        return statistics.median(a / b for a, b in zip(self.times[OURS], self.times[self.fastest], strict=True))

    def median(self, way: str) -> float:
        return statistics.median(self.times[way])


def count(graph: Any) -> int:
    """Nodes of a graph or function and of the graphs inside it, without Constants."""
    total = 0
    for node in graph.node:
        total += node.op_type != "Constant"
        for attribute in node.attribute:
            total += sum(map(count, [attribute.g] if attribute.HasField("g") else attribute.graphs))
    return total


def load(path: Path) -> onnx.ModelProto:
    return onnx.load(path, load_external_data=False)


def nodes(path: Path) -> int:
    model = load(path)
    return count(model.graph) + sum(map(count, model.functions))


def domains(model: onnx.ModelProto) -> set[str]:
    """Of the operators in the main graph, without those of the model's own functions."""
    called = {function.domain for function in model.functions}
    return {node.domain for node in model.graph.node} - called - {"ai.onnx"}


def models(folders: Sequence[Path], least: int) -> list[Path]:
    """Models of at least so many nodes."""
    found = [path for folder in folders for path in sorted(folder.rglob("model.onnx")) or sorted(folder.rglob("*.onnx"))]
    return [path for path in found if nodes(path) >= least]


def peers(python: str, jobs: dict[str, list[tuple[Path, Path]]]) -> None:
    """Has each peer do its models that are not done yet."""
    missing = subprocess.run([python, "-c", "import onnxsim, onnxslim, onnxruntime"], capture_output=True, check=False)
    if missing.returncode:
        sys.exit(f"{python} lacks a peer: {INSTALL}")
    for way, pairs in jobs.items():
        lines = "".join(json.dumps([str(s), str(t)]) + "\n" for s, t in pairs if not t.exists())
        command = [python, str(JOBS / "optimizers.py"), way, str(SECONDS)]
        subprocess.run(command, input=lines, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs(path: Path, runs: onnxruntime.InferenceSession) -> dict[str, Any]:
    """What the exporter recorded, or random numbers."""
    data = path.with_name("data.npz")
    wanted = [item.name for item in runs.get_inputs()]
    if data.exists():
        recorded = np.load(data, allow_pickle=True)
        given = {name[3:]: recorded[name] for name in recorded.files if name.startswith("in_")}
        if all(name in given for name in wanted):
            return {name: given[name] for name in wanted}
        if len(given) == len(wanted):
            return dict(zip(wanted, given.values(), strict=True))
    feed: dict[str, Any] = next(iter(random_feeds(onnx.load(path))))[0]
    return feed


def differ(wanted: Sequence[Any], found: Sequence[Any]) -> str:
    """In what the outputs differ, "" for in nothing."""
    for number, (left, right) in enumerate(zip(wanted, found, strict=True)):
        left, right = np.asarray(left), np.asarray(right)
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"output {number} is {right.dtype}{list(right.shape)}, not {left.dtype}{list(left.shape)}"
        if left.dtype.kind == "f":
            with np.errstate(all="ignore"):
                gap = np.where(left == right, 0, np.abs(left - right))
                far = ~(gap <= CLOSE * (1 + np.abs(left))) & ~(np.isnan(left) & np.isnan(right))
            if far.any():
                return f"output {number} differs by {float(gap[far].max()):.2g}"
        elif not np.array_equal(left, right):
            return f"output {number} differs"
    return ""


def measure(row: Row, paths: dict[str, Path], source: Path, rounds: int) -> None:
    """Outputs and latency of all ways."""
    sessions = {"before": session(source)}
    feed = inputs(source, sessions["before"])
    wanted = sessions["before"].run(None, feed)
    for way, path in paths.items():
        if way not in row.nodes:
            continue
        try:
            made = session(path)
            names = [item.name for item in made.get_inputs()]
            found = differ(wanted, made.run(None, {name: feed[name] for name in names}))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"[:100]
        if found:
            row.wrong[way] = found
        else:
            sessions[way] = made
    started = time.thread_time()
    sessions["before"].run(None, feed)
    calls = max(1, int(SHORT / (time.thread_time() - started)))
    given = {way: {item.name: feed[item.name] for item in one.get_inputs()} for way, one in sessions.items()}
    order = list(sessions.items())
    for number in range(rounds):
        for way, one in order[number % len(order) :] + order[: number % len(order)]:
            one.run(None, given[way])
            started = time.thread_time()
            for _ in range(calls):
                one.run(None, given[way])
            row.times.setdefault(way, []).append((time.thread_time() - started) / calls * 1000)


def note(row: Row, way: str) -> str:
    """Why a peer does not count."""
    return " (wrong)" if way in row.wrong else " (other domain)" if way in row.foreign else ""


def lines(rows: Sequence[Row], *, markdown: bool) -> list[str]:
    """The table."""
    head = ["model", "nodes", OURS, *PEERS.values(), "equal", "ms before", "ms ours", "ms best peer", "ratio"]
    table = [head]
    for row in rows:
        cells = [row.name, str(row.before), str(row.nodes.get(OURS, "failed"))]
        cells += [f"{row.nodes.get(way, 'failed')}{note(row, way)}" for way in PEERS]
        cells.append("no" if OURS in row.wrong else "yes")
        ways = ["before", OURS, row.fastest]
        cells += [*(f"{row.median(way):.3f}" for way in ways if way), f"{row.ratio:.2f}"] if row.ratio else [""] * 4
        table.append(cells)
    if markdown:
        return [f"| {' | '.join(cells)} |" for cells in (table[0], ["---"] * len(head), *table[1:])]
    widths = [max(len(cells[i]) for cells in table) for i in range(len(head))]
    padded = ([cell.rjust(width) for cell, width in zip(cells, widths, strict=True)] for cells in table)
    return ["  ".join([cells[0].ljust(widths[0]), *shown[1:]]) for cells, shown in zip(table, padded, strict=True)]


def summary(rows: Sequence[Row]) -> int:
    """Prints what the rows come to; the exit code."""
    compared = [row for row in rows if row.best is not None and OURS in row.nodes]
    fewer = [row for row in compared if row.nodes[OURS] <= (row.best or 0)]
    wrong = [row for row in rows if OURS in row.wrong or OURS not in row.nodes]
    ratios = sorted(row.ratio for row in rows if row.ratio)
    print(
        f"\n{len(rows)} models; ours <= best peer on {len(fewer)} of {len(compared)} ({len(fewer) / max(1, len(compared)):.0%})"
    )
    for way, name in {OURS: OURS, **PEERS}.items():
        done = [row for row in rows if way in row.nodes]
        kept = sum(row.nodes[way] for row in done) / max(1, sum(row.before for row in done))
        bad = sum(way in row.wrong for row in rows)
        print(f"  {name:10} {kept:.1%} of the nodes left; {len(rows) - len(done)} failed, outputs differ on {bad}")
    for row in wrong:
        print(f"  {row.name}: {row.wrong.get(OURS, 'failed')}")
    mean = statistics.geometric_mean(ratios) if ratios else 1.0
    if ratios:
        slow = sorted((row for row in rows if (row.ratio or 0) > SLOW), key=lambda row: -(row.ratio or 0))
        print(f"latency to the fastest peer: geometric mean {mean:.3f}, {len(slow)} of {len(ratios)} above {SLOW}")
        for row in slow:
            print(f"  {row.name}: {row.ratio:.2f} of {PEERS[row.fastest or '']}")
    return int(bool(wrong) or len(fewer) < SHARE * len(compared) or mean > LATENCY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
    parser.add_argument("--least", type=int, default=40, help="nodes of the smallest model")
    parser.add_argument("--level", choices=tuple(LEVELS), default="all")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--keep", type=Path, help="where results of peers stay")
    parser.add_argument("--rounds", type=int, default=100, help="of the measurement; 0 measures no latency")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    work = Work(
        Rewriting(load_rules().select([LEVELS[args.level]]), tidy=True),
        Reading("none"),
        Checking(runtime="auto"),
        Writing(force=True),
    )
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), args.keep or Path(name)
        found = models(args.folders, args.least)
        targets: list[dict[str, Path]] = []
        for path in found:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            targets.append({OURS: folder / f"{digest}-{OURS}.onnx"})
            targets[-1].update((way, kept / f"{digest}-{word.replace(' ', '-')}.onnx") for way, word in PEERS.items())
        kept.mkdir(parents=True, exist_ok=True)
        peers(args.python, {way: [(s, t[way]) for s, t in zip(found, targets, strict=True)] for way in PEERS})
        rows = []
        for path, target in zip(found, targets, strict=True):
            row = Row(path.parent.name if path.name == "model.onnx" else path.stem, nodes(path))
            outcome = process(Job(str(path), str(target[OURS])), work)
            if outcome.error:
                print(f"{path}: {outcome.error}", file=sys.stderr)
            row.nodes = {way: nodes(made) for way, made in target.items() if made.exists()}
            row.foreign = [way for way in row.nodes if domains(load(target[way])) - domains(load(path))]
            try:
                measure(row, target, path, args.rounds)
            except Exception as error:
                print(f"{path}: left out, because ONNX Runtime does not run it: {error}"[:200], file=sys.stderr)
                continue
            rows.append(row)
        print("\n".join(lines(rows, markdown=args.markdown)))
        return summary(rows)


if __name__ == "__main__":
    sys.exit(main())
