"""What keeps a model's numbers must not change what `fix` makes of it: recorded exports through random chains of transforms.

    python benchmarks/metamorphic.py right CORPUS... [--count N] [--seed S] [--steps K] [--only SETS] [--transforms NAMES]
    python benchmarks/metamorphic.py broken CORPUS... [...]

CORPUS holds SET/NAME/{model.onnx, data.npz, [data2.npz, ...], meta.json, [symbol.json]}, with the framework's own outputs.

right   draws right exports, and broken ones as `fix` repairs them (without its record, with their source file), puts each
        through up to K transforms, sometimes with another right model beside it, and fixes what still gives the framework's
        numbers: nothing may be harmed, and nothing rolled back.
broken  takes exports that `fix` repairs and puts each through one transform: what still fails as before must be repaired as
        before. Prints for each transform how many repairs it costs, and for each rule.

Simplifiers (onnxsim, onnxslim, onnxoptimizer) are used where they are installed. Exits with 1 when a model was harmed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).parent / "right_models"))

import onnx  # noqa: E402
import tools  # noqa: E402
from cases import Arrays, Case, NotRightError, Run, answers, difference, folders, read  # noqa: E402
from judge import Bench, culprits, run_steps, trusted, wrong  # noqa: E402
from transforms import TRANSFORMS, Variant, apply  # noqa: E402

LARGEST = 4 << 20
RESHAPED = ("output-added", "output-added-first", "output-inside", "cut-inside", "outputs-reversed", "output-dropped")
"""Transforms after which the model has other outputs; they come last in a chain."""

UNDONE = {"outputs-reversed": "MX059"}
"""Transforms that give back the very defect that a rule has repaired: nothing tells the model from the export then."""


@dataclass
class Tally:
    """What is counted."""

    right: int = 0
    repaired: int = 0
    chains: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    lost: dict[str, Counter[str]] = field(default_factory=dict)


def fixed(case: Case, model: onnx.ModelProto, bench: Bench, folder: Path) -> tuple[list[str], list[str]]:
    """Writes the model and what `fix` makes of it, result.onnx, into a folder: rules that fired, and what was rolled back."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    if case.symbol is not None:
        (folder / "symbol.json").write_text(case.symbol)
    outcome = run_steps(path, bench.steps("default"))[0]
    if outcome.error or outcome.log is None:
        raise RuntimeError(outcome.error)
    return list(outcome.log.counts), [f"{rolled.rule}: {rolled.reason[:120]}" for rolled in outcome.log.rolled_back]


def repaired(case: Case, bench: Bench) -> Case | None:
    """A broken case as `fix` repairs it; None where it does not come out right."""
    with tempfile.TemporaryDirectory() as folder:
        rules, _ = fixed(case, case.model, bench, Path(folder))
        result = onnx.load(Path(folder) / "result.onnx")
    try:
        trusted(result, case.runs, None)
    except NotRightError:
        return None
    return replace(case, model=result, labels={**case.labels, "rules": rules})


def chained(case: Case, names: Sequence[str], others: Sequence[Case], rng: random.Random) -> tuple[list[str], Case, Variant]:
    """A case under a chain of transforms, each of which leaves it right: their names, and the variant."""
    done, current = [], Variant(case.model, None, case.symbol)
    if others and rng.random() < 0.15:
        other, model = rng.choice(others), onnx.ModelProto()
        model.CopyFrom(case.model)
        if tools.merged(model, other.model):
            runs = [beside(run, other.runs[0]) for run in case.runs]
            both = replace(case, model=model, runs=runs)
            if _right(Variant(model, None), both):
                case, current, done = both, Variant(model, None), [f"beside {other.where}"]
    for name in names:
        if current.outputs is not None:
            break
        variant = apply(name, replace(case, model=current.model, name=f"{case.name}{rng.random()}"))
        if variant is not None and _right(variant, case):
            done, current = [*done, name], variant
    return done, case, current


def beside(run: Run, other: Run) -> Run:
    inputs = {**run.inputs, **{f"beside/{name}": value for name, value in other.inputs.items()}}
    return Run(inputs, [*run.outputs, *other.outputs])


def _right(variant: Variant, case: Case) -> bool:
    try:
        trusted(variant.model, case.runs, variant)
    except NotRightError:
        return False
    return True


def judge_right(
    case: Case, names: Sequence[str], others: Sequence[Case], bench: Bench, rng: random.Random, tally: Tally
) -> None:
    """One chain of transforms over a right model."""
    done, case, variant = chained(case, names, others, rng)
    wanted = trusted(variant.model, case.runs, variant)
    tally.chains += 1
    tally.tried.update(done)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rules, rolled = fixed(case, variant.model, bench, folder)
        reason = wrong(folder / "model.onnx", wanted, case.runs) if rules else ""
        tally.changed.update(rules)
        blamed = culprits(folder / "model.onnx", "default", rules, wanted, case.runs, bench) if reason else []
    if reason or rolled:
        kind = "undecided" if reason and variant.unknown(reason) else "harmed" if reason else "rolled back"
        told = f"{kind} {case.where} [{' '.join(done)}] by {', '.join(blamed)}: {reason or '; '.join(rolled)}"
        tally.bad.append(told)
        print(told, flush=True)


def judge_broken(case: Case, names: Sequence[str], bench: Bench, tally: Tally) -> None:
    """One broken model under each transform."""
    known = repaired(case, bench)
    if known is None:
        return
    tally.repaired += 1
    before = failing(case.model, case.runs)
    for name in names:
        try:
            variant = apply(name, case)
        except Exception:
            continue
        if variant is None or variant.outputs is not None or not alike(before, failing(variant.model, case.runs)):
            continue
        tally.tried[name] += 1
        with tempfile.TemporaryDirectory() as folder:
            rules, _ = fixed(case, variant.model, bench, Path(folder))
            try:
                trusted(str(Path(folder) / "result.onnx"), case.runs, None)
            except NotRightError as error:
                missing = [code for code in known.labels["rules"] if code not in rules]
                tally.lost.setdefault(name, Counter()).update(missing or ["(all fired)"])
                tally.lost[name]["models"] += 1
                print(f"lost {case.where} [{name}] without {', '.join(missing)}: {str(error)[:150]}", flush=True)


def failing(model: onnx.ModelProto, runs: Sequence[Run]) -> list[Arrays] | None:
    """The wrong numbers of a model; None where ONNX Runtime refuses it."""
    try:
        return answers(model, runs)
    except NotRightError:
        return None


def alike(before: list[Arrays] | None, after: list[Arrays] | None) -> bool:
    """Whether a transform left a broken model as it was."""
    if before is None or after is None:
        return before is after
    return not any(difference(b, a) for a, b in zip(before, after, strict=True))


def drawn(args: argparse.Namespace, rng: random.Random) -> Iterator[Case]:
    found = [path for path in folders(args.corpus, args.only) if (path / "model.onnx").stat().st_size < LARGEST]
    rng.shuffle(found)
    for folder in found:
        case = read(folder, broken=True)
        if case is not None:
            yield case


def main() -> int:
    args = arguments()
    rng, bench, tally, started = random.Random(args.seed), Bench(), Tally(), time.monotonic()
    others: list[Case] = []
    for case in drawn(args, rng):
        broken = case.labels.get("baseline", "ok") != "ok"
        if args.what == "broken":
            if broken:
                judge_broken(case, args.transforms, bench, tally)
            done = tally.repaired
        else:
            done = right(case, broken, args, others, bench, rng, tally)
        if done >= args.count or time.monotonic() - started > args.seconds:
            break
    report(tally, args.what)
    return 1 if any(line.startswith("harmed") for line in tally.bad) else 0


def right(
    case: Case, broken: bool, args: argparse.Namespace, others: list[Case], bench: Bench, rng: random.Random, tally: Tally
) -> int:
    """Draws a chain for a case that is right, or was made right; how many chains there are now."""
    known = repaired(case, bench) if broken else case
    if known is None or (not broken and not _right(Variant(case.model, None), case)):
        return tally.chains
    tally.repaired, tally.right = tally.repaired + broken, tally.right + (not broken)
    last = [name for name in args.transforms if name in RESHAPED and UNDONE.get(name) not in known.labels.get("rules", ())]
    first = [name for name in args.transforms if name not in RESHAPED]
    for _ in range(args.chains if broken else 1):
        names = rng.sample(first, min(len(first), rng.randint(1, args.steps)))
        if last and rng.random() < 0.2:
            names.append(rng.choice(last))
        judge_right(known, names, others, bench, rng, tally)
    others.append(known)
    return tally.chains


def report(tally: Tally, what: str) -> None:
    if what == "right":
        print(f"{tally.right} right exports, {tally.repaired} repaired ones; {tally.chains} chains of transforms")
        print("transforms:", ", ".join(f"{name} {count}" for name, count in sorted(tally.tried.items())))
        print("rules that fired:", ", ".join(f"{code} {count}" for code, count in sorted(tally.changed.items())) or "none")
        kinds = Counter(line.split(" ")[0] for line in tally.bad)
        print(f"harmed {kinds['harmed']}, undecided {kinds['undecided']}, rolled back {kinds['rolled']}")
        return
    print(f"{tally.repaired} broken exports that are repaired as they are")
    print(f"{'transform':24}{'tried':>7}{'lost':>6}  rules that did not fire")
    for name, count in sorted(tally.tried.items()):
        lost = tally.lost.get(name, Counter())
        rules = ", ".join(f"{code} {number}" for code, number in lost.most_common() if code != "models")
        print(f"{name:24}{count:>7}{lost['models']:>6}  {rules}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["right", "broken"])
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=1000, help="chains to draw; of broken, models that are repaired")
    parser.add_argument("--chains", type=int, default=4, help="chains for each repaired model")
    parser.add_argument("--steps", type=int, default=3, help="most transforms in a chain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600, help="when to stop drawing")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="SETS")
    parser.add_argument("--transforms", type=lambda text: text.split(","), default=list(TRANSFORMS), metavar="NAMES")
    args = parser.parse_args()
    if unknown := set(args.transforms) - set(TRANSFORMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(TRANSFORMS)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
