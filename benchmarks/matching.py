"""What it costs to look for a hundred rules in a large model in which none of them stands.

    python benchmarks/matching.py [--nodes 100000] [--rules 100] [--runs 5]

All rules are of operators that the model has, pairs and triples in which they do not follow each other there, so that none is
out before a node is looked at. Matching is the run without making its index of the graph; beside it stand the whole run, and
graphsurgeon's import and export. Medians in seconds of the processor. Exits with 1 when matching takes more than a hundredth
of graphsurgeon's time.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
from peers import model

import rewriter
from rewriter.core.engine import run as engine
from rewriter.core.language.rules import RuleSet

LIMIT = 0.01
UNARY = ("Relu", "Sigmoid", "Neg", "Tanh", "Abs")
FOLLOWING = {("Relu", "Sigmoid"), ("Relu", "Neg"), ("Tanh", "Relu"), ("Tanh", "Abs"), ("Sigmoid", "Add"), ("Neg", "Add")}


def rule_set(folder: Path, count: int) -> RuleSet:
    """Rules of chains of operators that do not stand in the model."""
    chains = itertools.chain(itertools.product(UNARY, repeat=2), itertools.product(UNARY, repeat=3))
    strange = (chain for chain in chains if chain[:2] not in FOLLOWING and chain[-2:] not in FOLLOWING)
    for number, chain in enumerate(itertools.islice(strange, count)):
        body, *steps = "x", *chain
        for op in steps:
            body = f"{op}({body})"
        text = f"rule SYN{number:03d} chain-{number}\n<kind: lossy>\nmatch {{ y = {body} }}\nrewrite {{ y = x }}\n"
        (folder / f"SYN{number:03d}.rules").write_text(text)
    rules = rewriter.load_rules([folder]).select(["ALL"], [])
    assert len(rules) == count, len(rules)
    return rules


def matching(source: Path, rules: RuleSet) -> tuple[float, float]:
    """Seconds of matching, and of the whole run."""
    graph = rewriter.load(source).graph
    taken: list[float] = []
    execute = engine.Run.execute

    def timed(self: engine.Run, *, keep: bool = True) -> rewriter.Log:
        started = time.process_time()
        log = execute(self, keep=keep)
        taken.append(time.process_time() - started)
        return log

    gc.collect()
    engine.Run.execute = timed  # type: ignore[method-assign]
    try:
        started = time.process_time()
        log = engine.run(graph, rules, detail=False)
        whole = time.process_time() - started
    finally:
        engine.Run.execute = execute  # type: ignore[method-assign]
    assert not log.changed
    return taken[0], whole


def graphsurgeon(source: Path) -> float:
    gc.collect()
    started = time.process_time()
    gs.export_onnx(gs.import_onnx(onnx.load(source)))
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules").mkdir()
        rules = rule_set(folder / "rules", args.rules)
        source = folder / "model.onnx"
        model(source, args.nodes, identities=False)
        runs = [(*matching(source, rules), graphsurgeon(source)) for _ in range(args.runs)]
    alone, whole, other = (statistics.median(column) for column in zip(*runs, strict=True))
    missed = alone > LIMIT * other
    print(f"{args.nodes} nodes, {args.rules} rules")
    print(f"  matching             {alone:8.3f} s {alone / other:8.4f} of graphsurgeon{'  MISSED' if missed else ''}")
    print(f"  the whole run        {whole:8.3f} s {whole / other:8.4f}")
    print(f"  import and export    {other:8.3f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
