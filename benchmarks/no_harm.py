"""Default `fix` over models that need no repair, onnx's own backend tests: no output changes, and nothing becomes invalid.

    python benchmarks/no_harm.py [--only WORD] [--select CODES] [--ignore CODES] [--target NAMES] [--without KINDS] [--verbose]

The models are those inside the onnx wheel (light, simple, pytorch-operator, pytorch-converted) and the operator tests that
onnx.backend.test generates. A model in which nothing fired must come out byte for byte. A model that was changed is run before
and after on the recorded inputs (random ones where none are recorded): in ONNX Runtime, or in onnx.reference where ONNX Runtime
refuses the model or does not compute the recorded outputs. Exits with 1 when a model is harmed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from rewriter.app.batch.job import process
from rewriter.app.batch.work import Job, Outcome, Reading, Rewriting, Work, Writing
from rewriter.core.graph.model import Model
from rewriter.core.isolation.budget import BeyondLimitsError, within_limits
from rewriter.core.language.rules import RuleSet
from rewriter.core.record import replace
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.model_inputs import Feed, random_feeds
from rewriter.trust.proof.output_agreement import Bound, bound_of, coarsest_eps, differences
from rewriter.trust.proof.validity import Candidate, CannotRun, ModelRun, Outputs, runtime_version, runtimes

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("light", "simple", "pytorch-operator", "pytorch-converted")
SECONDS = 60.0


@dataclass
class Case:
    """A model with recorded inputs and outputs, both by position, where there are any."""

    group: str
    name: str
    model: onnx.ModelProto
    records: list[tuple[list[Any], list[Any]]] = field(default_factory=list)


@dataclass
class Tally:
    """What is reported."""

    models: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    repaired: list[str] = field(default_factory=list)
    unable: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)


def cases() -> Iterator[Case]:
    for folder in FOLDERS:
        if folder == "light":
            for path in sorted((DATA / folder).glob("*.onnx")):
                yield Case(folder, path.stem, onnx.load(path))
        else:
            for path in sorted((DATA / folder).glob("*/model.onnx")):
                records = [(_recorded(p, "input"), _recorded(p, "output")) for p in sorted(path.parent.glob("test_data_set_*"))]
                yield Case(folder, path.parent.name, onnx.load(path), records)
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        records = [(list(map(_value, inputs)), list(map(_value, outputs))) for inputs, outputs in case.data_sets or ()]
        if case.model is not None:
            yield Case("node", case.name, case.model, records)


def _recorded(folder: Path, what: str) -> list[Any]:
    paths = sorted(folder.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.rsplit("_", 1)[1]))
    return [_tensor(path) for path in paths]


def _tensor(path: Path) -> Any:
    """Recorded values say nothing of their own type; what is no tensor is told by what reading it as one leaves."""
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)
    except Exception:
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return [_value(item) for item in value] if isinstance(value, list) else value


def feeds(case: Case) -> Iterator[Sequence[Feed]]:
    """Lists of inputs to try until the model takes the first of a list."""
    if case.records:
        names = [info.name for info in case.model.graph.input]
        yield [dict(zip(names, inputs, strict=False)) for inputs, _ in case.records]
    else:
        yield from random_feeds(case.model)


def baseline(case: Case, before: Candidate) -> tuple[str, Sequence[Feed], list[Outputs]] | None:
    """A runtime that runs the model as recorded, with what it was given and what it answered."""
    for runtime in runtimes():
        try:
            run = ModelRun(before, runtime)
        except CannotRun:
            continue
        for some in feeds(case):
            try:
                with within_limits(SECONDS, None):
                    answers = [run(feed) for feed in some]
            except (CannotRun, BeyondLimitsError):
                continue
            if all(near(list(answer.values()), outputs) for answer, (_, outputs) in zip(answers, case.records, strict=False)):
                return runtime, some, answers
    return None


def near(found: list[Any], wanted: list[Any]) -> bool:
    """Whether outputs are as recorded, within the tolerance of onnx's tests."""
    for one, other in zip(found, wanted, strict=False):
        if isinstance(other, list) or other is None:
            continue  # sequences: nothing here rewrites them
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape:
            return False
        if other.dtype.kind in "OUS":
            if not np.array_equal(one.astype(str), other.astype(str)):
                return False
        elif not np.allclose(one.astype(np.complex128), other.astype(np.complex128), rtol=1e-3, atol=1e-6, equal_nan=True):
            return False
    return True


def judge(case: Case, outcome: Outcome, result: onnx.ModelProto, rules: RuleSet, tally: Tally) -> str:
    """What is wrong with a changed model, or ""."""
    before, after = Candidate(Model.from_proto(case.model)), Candidate(Model.from_proto(result))
    if (worse := after.worse_than(before)) is not None:
        return f"{worse[0]} refuses it now: {worse[1]}"
    known = baseline(case, before)
    if known is None:
        fixed = baseline(case, after) if case.records else None
        tally.compared["runs only after" if fixed else "does not run anywhere"] += 1
        (tally.repaired if fixed else tally.unable).append(case.name)
        return ""
    runtime, some, answers = known
    tally.compared[f"same outputs in {runtime_version(runtime)}"] += 1
    assert outcome.log is not None
    fired = [rule for firing in outcome.log.firings if (rule := rules.get(firing.rule)) is not None]
    bound = bound_of(fired)
    bound = Bound(max(bound.ulps, 2.0), bound.rtol, bound.atol, coarsest_eps(case.model))
    try:
        run = ModelRun(after, runtime)
        for feed, answer in zip(some, answers, strict=True):
            with within_limits(SECONDS, None):
                found = [d.message for d in differences(answer, run(feed), bound) if d.message]
            if found and any(d.message for d in differences(answer, ModelRun(before, runtime)(feed), bound)):
                continue  # it draws random numbers
            if found:
                return found[0]
    except (CannotRun, BeyondLimitsError) as error:
        return elsewhere(case, after, runtime, str(error), tally)
    return ""


def elsewhere(case: Case, after: Candidate, runtime: str, refusal: str, tally: Tally) -> str:
    """Where one runtime does not run the result, "" if another gives the recorded outputs: onnx.reference does not run every
    version of every operator (BatchNormalization of opset 7 crashes). A model without a record is harmed.
    """
    known = baseline(case, after) if case.records else None
    if known is None:
        return refusal
    tally.compared[f"recorded outputs in {runtime_version(known[0])}, no more run by {runtime}"] += 1
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="models with this in their name")
    parser.add_argument("--select", default="DEFAULT", metavar="CODES", help="rules (default: those that run unasked)")
    parser.add_argument("--ignore", default="", metavar="CODES", help="rules not to run")
    parser.add_argument("--target", default="", metavar="NAMES", help="also rules for these consumers, or for `ALL` of them")
    parser.add_argument("--without", default="", metavar="KINDS", help="kinds of rules to leave out: lossy,interface")
    parser.add_argument("--verbose", action="store_true", help="name every model that was changed")
    args = parser.parse_args()
    known = load_rules()
    rules = known.select(names(args.select), names(args.ignore), names(args.target.lower()))
    rules = replace(rules, rules=tuple(rule for rule in rules if rule.kind.name not in names(args.without)))
    work, tally = Work(Rewriting(rules), Reading("none"), writing=Writing(force=True)), Tally()
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "model.onnx", Path(folder) / "fixed.onnx"
        for case in cases():
            if args.only in case.name:
                examine(case, path, target, work, tally, verbose=args.verbose)
    report(tally)
    return 1 if tally.harmed else 0


def names(text: str) -> list[str]:
    """What stands between commas."""
    return [name for name in text.split(",") if name]


def examine(case: Case, path: Path, target: Path, work: Work, tally: Tally, *, verbose: bool) -> None:
    """One model through `fix`."""
    tally.models[case.group] += 1
    data = case.model.SerializeToString(deterministic=True)
    path.write_bytes(data)
    outcome = process(Job(str(path), str(target)), work)
    where = f"{case.group}/{case.name}"
    if outcome.error or outcome.log is None:
        tally.harmed.append(f"{where}: {outcome.error}")
        return
    fired = dict(sorted(outcome.log.counts.items()))
    rolled = sorted({f"{rolled.rule}: {rolled.reason}" for rolled in outcome.log.rolled_back})
    tally.rolled_back.extend(f"{where}: {text}" for text in rolled)
    tally.rules.update(outcome.log.counts.keys())
    if not outcome.changed:
        if target.read_bytes() != data:
            tally.harmed.append(f"{where}: nothing fired and the bytes differ")
        return
    tally.changed[case.group] += 1
    wrong = judge(case, outcome, onnx.load(target), work.rewriting.rules, tally)
    if wrong:
        tally.harmed.append(f"{where} by {', '.join(fired)}: {wrong}")
    if verbose:
        print(f"{where}: {fired}", flush=True)


def report(tally: Tally) -> None:
    print(f"{'models':<20}{'count':>8}{'changed':>9}")
    for group, count in tally.models.items():
        print(f"{group:<20}{count:>8}{tally.changed[group]:>9}")
    print(f"{'all':<20}{tally.models.total():>8}{tally.changed.total():>9}\n")
    for what, count in sorted(tally.compared.items()):
        print(f"changed, {what}: {count}")
    print(f"rules that fired: {', '.join(f'{code} in {count}' for code, count in sorted(tally.rules.items())) or 'none'}")
    for title, names in (("repaired", tally.repaired), ("not run", tally.unable)):
        if names:
            print(f"{title}: {', '.join(names)}")
    for title, lines in (("rolled back by the guard", tally.rolled_back), ("harmed", tally.harmed)):
        print(f"\n{title}: {len(lines)}")
        for line in lines:
            print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
