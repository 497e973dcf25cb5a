"""What a thousand rules cost beside ten: one model, one rule that fires, and so many others that could and do not.

    python benchmarks/many_rules.py [--nodes 10000,100000] [--rules 10,100,1000] [--runs 5]

The rules are made up: pairs and triples of operators, half of them operators that stand in the model, with an attribute or a
type asked for. They come from the cache of compiled rules. The job is load, run, save; the counts take turns, and medians in
seconds of the processor are printed, with the ratio to the smallest count. Also printed: loading the rules from the cache.

Exits with 1 when the largest count takes more than 1.3 times as long as the smallest.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from peers import model

import rewriter
from rewriter.core.engine.run import run
from rewriter.core.language.rules import RuleSet

LIMIT = 1.3
STANDING = ("Relu", "Sigmoid", "Neg", "Add", "Identity", "Abs")
OTHERS = ("Tanh", "Exp", "Log", "Sqrt", "Mul", "Sub", "Div", "MatMul", "Softplus", "Erf", "Floor", "Ceil", "Max", "Min")
BINARY = ("Add", "Mul", "Sub", "Div", "MatMul", "Max", "Min")
REMOVAL = "rule SYN000 identity <kind: exact>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"


def rule(number: int) -> str:
    """A rule that never fires: it asks for an operator that is not in the model, or for a type that the model has not."""
    draw = random.Random(number)
    inner, outer = draw.choice(STANDING), draw.choice(STANDING if number % 2 else OTHERS)
    first = f"t = {inner}({'x, a' if inner in BINARY else 'x'})"
    second = f"y = {outer}({'t, b' if outer in BINARY else 't'})"
    if number % 2 == 0:
        return _text(number, f"{first}\n  {second}", "")
    return _text(number, f"{first}\n  {second}", f"where dtype(x) == {draw.choice(['int8', 'uint16', 'double'])}\n")


def _text(number: int, match: str, where: str) -> str:
    code = f"SYN{number + 1:03d}" if number < 999 else f"SYP{number - 998:03d}"
    return f"rule {code} made-up-{number}\n<kind: lossy>\nmatch {{\n  {match}\n}}\n{where}rewrite {{ y = x }}\n"


def rule_set(folder: Path, count: int) -> RuleSet:
    """The rule that fires and `count` - 1 others, from a folder of files."""
    home = folder / f"rules{count}"
    home.mkdir()
    (home / "SYN000.rules").write_text(REMOVAL)
    for number in range(count - 1):
        (home / f"made-up-{number}.rules").write_text(rule(number))
    rewriter.load_rules([home])
    started = time.process_time()
    rules = rewriter.load_rules([home]).select(["ALL"], [])
    print(f"{count:6} rules: {1e3 * (time.process_time() - started):.1f} ms to load from the cache")
    return rules


def job(source: Path, target: Path, rules: RuleSet) -> float:
    gc.collect()
    started = time.process_time()
    loaded = rewriter.load(source)
    log = run(loaded.graph, rules, detail=False)
    loaded.save(target, force=True)
    assert log.changed and not log.stops and set(log.counts) == {"SYN000"}, log.counts
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10000,100000")
    parser.add_argument("--rules", default="10,100,1000")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sets = {count: rule_set(folder, count) for count in map(int, args.rules.split(","))}
        for nodes in map(int, args.nodes.split(",")):
            source = folder / "model.onnx"
            model(source, nodes, identities=True)
            for rules in sets.values():
                job(source, folder / "out.onnx", rules)
            seconds: dict[int, list[float]] = {count: [] for count in sets}
            for _ in range(args.runs):
                for count, rules in sets.items():
                    seconds[count].append(job(source, folder / "out.onnx", rules))
            base = statistics.median(next(iter(seconds.values())))
            for count, found in seconds.items():
                ratio = statistics.median(found) / base
                worst = max(worst, ratio)
                print(f"{nodes:8} nodes {count:6} rules {statistics.median(found):8.3f} s {ratio:6.2f}")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
