"""Whether a rule keeps its promise: on recorded exports, and on random instances, in processes of their own."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import onnx

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.load import default_opset
from rewriter.core.graph.model import Model, load
from rewriter.core.isolation.budget import restrict
from rewriter.core.isolation.process import Process, received
from rewriter.core.language import schema
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.record import field, record, replace
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.instances.instance import Array, Instance
from rewriter.trust.proof.instances.random_arrays import STYLES
from rewriter.trust.proof.instances.sampling import Stream
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.proof.output_agreement import FrameworkOutputs, compare
from rewriter.trust.proof.rules.obligation import obligation, running, shrink, unneeded
from rewriter.trust.proof.rules.refused import REFUSED, refuted, running_instance
from rewriter.trust.proof.rules.trial import (
    CHANGED,
    NOT_FIRED,
    ORACLES_AGREE,
    REPAIRED,
    SAME,
    STILL,
    VOID,
    WRONG,
    Trial,
    attempt,
)
from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE, TESTED, UNVERIFIED, Verdict
from rewriter.trust.proof.validity import Candidate, values_of
from rewriter.trust.rule_tests import run_test
from rewriter.trust.source.acceptance import objection
from rewriter.trust.source.find import find, load_source

# Recorded exports: models as exporters wrote them, with the outputs that the framework itself computed.
#
# They are the reference for repairs that change outputs. A folder of them holds NAME.onnx with NAME.npz and, if the
# framework wrote one, NAME-symbol.json; or one folder a model with model.onnx, data.npz and symbol.json. Arrays are called
# in_<input name>, out_0, out_1...

_SECONDS = 30.0


@record
class Recorded:
    """The results on recorded exports: rule → names of exports that it repairs, and rule → why it harms one."""

    repairs: dict[str, list[str]] = field(default_factory=dict)
    harms: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Export:
    """One recorded export."""

    name: str
    path: Path
    recorded: FrameworkOutputs


def exports(folder: Path) -> Iterator[Export]:
    """The recorded exports of a folder, by name; models without recorded outputs are left out."""
    for path in _models(folder):
        data = next((p for p in (path.with_suffix(".npz"), path.with_name("data.npz")) if p.is_file()), None)
        if data is not None and (recorded := FrameworkOutputs(str(data))).count:
            yield Export(_export_name(path), path, recorded)


def _models(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.onnx"))


def _export_name(path: Path) -> str:
    return path.parent.name if path.stem == "model" else path.stem


def examine(rules: RuleSet, folder: Path, codes: Collection[str]) -> Recorded:
    """Runs the rules on all recorded exports: the default rules together, and every other repair of `codes` in addition."""
    usual = RuleSet(tuple(rule for rule in rules if rule.default and rule.kind.name in ("repair", "exact")))
    selected_rules = [rule for rule in rules if rule.code in codes and not rule.default and rule.kind.name == "repair"]
    found, known = Recorded(), [(export, _off(export, load(export.path))) for export in exports(folder)]
    sets = [(usual, set(codes))]
    sets += [(RuleSet((*usual.rules, rule), by_id=frozenset({rule.code})), {rule.code}) for rule in selected_rules]
    for together, only in sets:  # one after the other, since few sets are kept ready
        for export, before in known:
            _book(export, before, together, found, only)
    return found


def _book(export: Export, before: str, rules: RuleSet, found: Recorded, only: Collection[str]) -> None:
    try:
        after, fired = _repaired(export, rules)
    except RewriterError:
        return
    wanted = fired & set(only)
    if not wanted:
        return
    off = _off(export, after)
    if before and not off:
        for code in sorted(wanted):
            found.repairs.setdefault(code, []).append(export.name)
    elif off and not before:
        for code in sorted(wanted):
            rule = rules.get(code)
            if rule is not None and _off(export, _repaired(export, RuleSet((rule,), by_id=frozenset({code})))[0]):
                found.harms.setdefault(code, f"it harms the recorded export {export.name}: {off}")


def _repaired(export: Export, rules: RuleSet) -> tuple[Model, set[str]]:
    model = load(export.path)
    beside = find(export.path)
    source = None if beside is None else load_source(beside)
    log = run(
        model.graph,
        rules,
        Knowledge(None if source is None or objection(source, model.graph) else source, overridable=model.overridable),
        limits=Limits(seconds=_SECONDS),
        detail=False,
    )
    return model, set(log.counts)


def _off(export: Export, model: Model) -> str:
    """How the model's outputs differ from the recorded ones, "" if they do not."""
    if len(model.graph.outputs) < export.recorded.count:
        return f"{len(model.graph.outputs)} outputs instead of {export.recorded.count}"
    try:
        return export.recorded.off(Candidate(model))
    except RewriterError as error:
        return str(error)


MOST_TRIED = 20
"""Instances made for each sample wanted, before the generator is taken to be too weak."""
MIN_SAMPLES = 20
"""A rule with fewer samples is unverified."""
_KEPT = 60
_MOST_PARTED = 3  # a repair differs for a reason if outputs agree less than this many times as often
_FEW = 5  # one in so many rejected models may be read differently by an oracle that does not check it


@record(frozen=True)
class VerifyPlan:
    """How thoroughly to verify one rule.

    Attributes:
        samples: models on which the rule fires, and that an oracle runs.
        seed: of all random choices.
        seconds: of the processor, for these models; so a busy machine does not change the verdict.
        negatives: whether the rule is also tried without each condition.
        limit: seconds for all that is done; models are drawn for half of them at most.
        memory: bytes for the process.
        exports: folder of recorded exports, if there is one.
    """

    samples: int = 200
    seed: int = 0
    seconds: float = 20.0
    negatives: bool = True
    limit: float = 120.0
    memory: int | None = None
    exports: Path | None = None


@record
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)
    agreed: int = 0
    parted: list[Trial] = field(default_factory=list)
    dtypes: set[int] = field(default_factory=set)
    opsets: set[int] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    error: float = 0.0
    quarantine: set[str] = field(default_factory=set)
    rejected: list[Instance] = field(default_factory=list)
    raised: str = ""
    tried: int = 0
    wrong: Trial | None = None
    reason: str = ""
    still_rejected: dict[int, str] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Instances for which an oracle had a result."""
        return self.counts[SAME] + self.counts[REPAIRED] + self.counts[CHANGED]

    def add(self, trial: Trial) -> None:
        """Counts a trial."""
        self.counts[trial.status] += 1
        if trial.status == NOT_FIRED:
            self.raised = self.raised or trial.why
            if len(self.rejected) < _KEPT:
                self.rejected.append(trial.instance)
            return
        if trial.status == WRONG:
            self.wrong = trial
        if trial.status == STILL:
            for dtype in _element_types(trial):
                self.still_rejected.setdefault(dtype, trial.why)
        if trial.status in (STILL, VOID):
            self.reason = self.reason or trial.why
            if trial.quarantined:
                self.quarantine |= _suspects(trial.instance.model, trial.inputs)
        if trial.status in (SAME, REPAIRED, CHANGED):
            self._accept(trial)

    def _accept(self, trial: Trial) -> None:
        graph = trial.instance.model.graph
        self.dtypes |= _element_types(trial)
        self.opsets.add(trial.instance.opset)
        shaped = [info.type.tensor_type for info in graph.input if info.type.tensor_type.HasField("shape")]
        self.ranks |= {len(tensor.shape.dim) for tensor in shaped}
        self.error = max(self.error, trial.error)
        if trial.quarantined:
            self.quarantine |= _suspects(trial.instance.model, trial.inputs)
        if trial.status == CHANGED or trial.agreed is False:
            self.parted.append(trial)
        elif trial.agreed or trial.status == SAME:
            self.agreed += 1


def _element_types(trial: Trial) -> set[int]:
    """The element types of the model's inputs and outputs."""
    graph = trial.instance.model.graph
    return {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)}


def verify_rule(
    rule: Rule,
    plan: VerifyPlan,
    recorded: Sequence[str] = (),
    *,
    skip: Collection[int] = (),
    at: Callable[[int], object] = lambda index: None,
) -> Verdict:
    """The verdict on a rule.

    Args:
        rule: the rule.
        plan: how thoroughly.
        recorded: recorded exports that it is known to repair.
        skip: indices of instances not to run, since they take the process down.
        at: is called with the index of each instance before it runs, and with -1 after the last.
    """
    started = time.monotonic()
    paths = [path for path in _models(plan.exports) if _export_name(path) in recorded] if recorded and plan.exports else []
    verdict = Verdict(
        rule.code, rule.digest, seed=plan.seed, recorded=tuple(recorded), crashed=sum(index >= 0 for index in skip)
    )
    failed = next((result for test in rule.ast.tests if not (result := run_test(rule, test)).ok), None)
    if failed is not None:
        verdict.status, verdict.why = COUNTEREXAMPLE, f"its own test fails: {failed.title!r}"
        verdict.obligation = failed.message
        return verdict
    if rule.plugins:
        named = ", ".join(sorted(rule.plugins)).replace(":", ".")
        _leave_open(rule, verdict, f"no runtime here has {named}")
        return verdict
    if _runs_as_it_is(rule, plan, paths, skip, at, verdict):
        return verdict
    tally = _sample(rule, plan, paths, skip, at)
    at(-1)
    _conclude(rule, tally, verdict, min(MIN_SAMPLES, plan.samples))
    if plan.negatives and verdict.status != COUNTEREXAMPLE:
        verdict.unneeded = unneeded(rule, tally.rejected, plan.seed)
    verdict.seconds = time.monotonic() - started
    return verdict


def _runs_as_it_is(
    rule: Rule,
    plan: VerifyPlan,
    paths: Sequence[Path],
    skip: Collection[int],
    at: Callable[[int], object],
    verdict: Verdict,
) -> bool:
    """Whether a model runs although the rule claims that it is rejected; the verdict then reports it."""
    if rule.evidence is None or rule.evidence.name != REFUSED:
        return False
    found = running_instance(rule, rule.evidence, plan.seed, exports=paths, skip=skip, at=at)
    if found is not None:
        verdict.status, verdict.runs = COUNTEREXAMPLE, True
        verdict.why = refuted(rule.evidence)
        verdict.obligation = running(rule, found)
    return found is not None


def _sample(rule: Rule, plan: VerifyPlan, paths: Sequence[Path], skip: Collection[int], at: Callable[[int], object]) -> _Tally:
    tally = _Tally()
    stream = Stream(rule, plan.seed, paths)
    busy, waited = time.process_time() + plan.seconds, time.monotonic() + plan.limit / 2
    for index, instance in stream:
        late = time.process_time() > busy or time.monotonic() > waited
        if tally.wrong is not None or tally.samples >= plan.samples or tally.tried >= plan.samples * MOST_TRIED or late:
            break
        tally.tried += 1
        if instance is None or index in skip:
            continue
        at(index)
        styles = (STYLES[0], STYLES[1 + index % 2])
        trial = attempt(rule, instance, stream.generator(index), styles)
        tally.add(trial)
        if trial.status in (SAME, REPAIRED, CHANGED):
            stream.accepted()
    return tally


# --- the verdict -------------------------------------------------------------------------------------------------------------


def _conclude(rule: Rule, tally: _Tally, verdict: Verdict, least: int) -> None:
    verdict.samples, verdict.tried = tally.samples, tally.tried
    verdict.dtypes = tuple(sorted(DTYPE_NAMES.get(dtype, str(dtype)) for dtype in tally.dtypes))
    verdict.opsets, verdict.ranks = tuple(sorted(tally.opsets)), tuple(sorted(tally.ranks))
    verdict.error, verdict.quarantine = tally.error, tuple(sorted(tally.quarantine))
    verdict.counts, verdict.raised = dict(tally.counts), tally.raised
    useless = ((dtype, why) for dtype, why in tally.still_rejected.items() if dtype not in tally.dtypes)
    verdict.still_rejected = dict(sorted((DTYPE_NAMES.get(dtype, str(dtype)), why) for dtype, why in useless))
    kind = rule.kind.name
    if tally.wrong is not None:
        _refute(rule, tally.wrong, verdict, lambda trial: trial.status == WRONG)
    elif kind == "repair":
        _conclude_repair(rule, tally, verdict)
    elif tally.counts[REPAIRED]:
        verdict.why = f"{tally.counts[REPAIRED]} rejected and then loaded"
    elif not tally.samples:
        _leave_open(rule, verdict, f"no random model that a runtime can check: {tally.reason or 'the rule never fired'}")
    if verdict.status == TESTED and tally.samples < least:
        _leave_open(rule, verdict, f"fewer than {least} random models" + (f"; {verdict.why}" if verdict.why else ""))
    verdict.bound = {"exact": "ulp", "approx": f"rtol={rule.kind.rtol:g}, atol={rule.kind.atol:g}"}.get(kind, "")


def _conclude_repair(rule: Rule, tally: _Tally, verdict: Verdict) -> None:
    repaired, parted = tally.counts[REPAIRED], len(tally.parted)
    otherwise = parted if not tally.counts[CHANGED] and parted * _FEW < repaired else 0
    if parted and not verdict.recorded and rule.header.unverified is None and tally.agreed >= _MOST_PARTED * parted:
        _refute(rule, tally.parted[0], verdict, lambda trial: trial.status == CHANGED or trial.agreed is False)
    elif verdict.recorded:
        exports = "1 recorded export" if len(verdict.recorded) == 1 else f"{len(verdict.recorded)} recorded exports"
        verdict.why = f"{repaired} rejected and then loaded; {exports} repaired"
    elif parted > otherwise:
        _leave_open(
            rule, verdict, f"it changes outputs ({parted} of {tally.samples}) and no recorded export shows the correct ones"
        )
    elif repaired:
        seen = f"; {tally.agreed} have the same outputs before and after" if tally.agreed else ""
        seen += f"; {otherwise} have other outputs" if otherwise else ""
        verdict.why = f"{repaired} rejected and then loaded{seen}"
    elif tally.samples:
        _leave_open(rule, verdict, "every random model was valid before the rewrite, and no recorded export needs the repair")
    else:
        reason = f": {tally.reason}" if tally.reason else ""
        _leave_open(rule, verdict, f"no random model that a runtime accepts after the repair{reason}")


def _refute(rule: Rule, trial: Trial, verdict: Verdict, wrong: Callable[[Trial], bool]) -> None:
    smallest = shrink(rule, trial, wrong)
    verdict.status, verdict.why = COUNTEREXAMPLE, smallest.why
    verdict.obligation = obligation(rule, smallest)


def _leave_open(rule: Rule, verdict: Verdict, why: str) -> None:
    verdict.status, verdict.why = UNVERIFIED, rule.header.unverified or why
    verdict.excused = rule.header.unverified is not None


def _suspects(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> set[str]:
    """The operator on which one oracle cannot be trusted, since the two disagree before any rule has touched the model: the
    first one whose results differ, as "BatchNormalization-9" (the version of the operator, not of the model).
    """
    one, other = (values_of(model, inputs, oracle.name) for oracle in ORACLES)
    if isinstance(one, Refusal) or isinstance(other, Refusal):
        return set()
    off, _ = compare({name: array for name, array in one.items() if name in other}, other, ORACLES_AGREE)
    if off is None:
        return set()
    node = next(node for node in model.graph.node if off.output in node.output)
    opset = default_opset(model.opset_import)
    operator = schema.schema(node.op_type, node.domain, opset)
    return {f"{node.op_type}-{operator.since if operator else opset}"}


# Rules verified in processes of their own: a runtime that crashes takes one instance with it, not the run.
#
# A process sends the instance that it is about to run. If it dies, another one begins the same rule again without the instance.

MOST_CRASHES = 10
NOWHERE = -1


@record
class _VerifyJob:
    rule: Rule
    recorded: Sequence[str]
    skip: set[int] = field(default_factory=set)
    negatives: bool = True


@record
class _Verifier:
    process: Process
    job: _VerifyJob | None = None
    instance: int = NOWHERE
    deadline: float = 0.0


def verify_with_exports(rules: RuleSet, codes: Sequence[str], plan: VerifyPlan, folder: Path, jobs: int) -> Iterator[Verdict]:
    """The verdicts on some rules, as they come: recorded exports decide before random models do.

    Args:
        rules: all that are loaded.
        codes: of those to verify.
        plan: how thoroughly.
        folder: of recorded exports, if there is one.
        jobs: processes at once.
    """
    if not codes:
        return
    # An export often needs more than one repair, so the shipped rules run in addition to the rules to be verified.
    others = [rule for rule in load_rules(None) if rules.get(rule.code) is None] if folder.is_dir() else []
    recorded = examine(replace(rules, rules=(*rules, *others)), folder, codes) if folder.is_dir() else Recorded()
    known = {rule.code: rule for rule in rules}
    yield from (Verdict(code, known[code].digest, COUNTEREXAMPLE, why) for code, why in recorded.harms.items())
    todo = [known[code] for code in codes if code in known and code not in recorded.harms]
    yield from verify_all(todo, replace(plan, exports=folder), recorded.repairs, jobs)


def verify_all(rules: Sequence[Rule], plan: VerifyPlan, recorded: Mapping[str, Sequence[str]], jobs: int) -> Iterator[Verdict]:
    """The verdicts on rules, in the order in which they are ready.

    Args:
        rules: the rules to verify.
        plan: how thoroughly.
        recorded: recorded exports that each rule repairs.
        jobs: processes at once.
    """
    waiting = deque(_VerifyJob(rule, recorded.get(rule.code, ())) for rule in rules)
    verifiers: list[_Verifier] = []
    try:
        while waiting or any(verifier.job for verifier in verifiers):
            busy = sum(verifier.job is not None for verifier in verifiers)
            while len(verifiers) < min(jobs, len(waiting) + busy):
                verifiers.append(_Verifier(Process(serve, plan, __name__)))
            for verifier in verifiers:
                if verifier.job is None and waiting:
                    verifier.job = waiting.popleft()
                    _send(verifier, plan.limit)
            yield from _collect(verifiers, waiting)
            yield from _late(verifiers, plan.limit)
    finally:
        Process.stop(verifier.process for verifier in verifiers)


def _send(verifier: _Verifier, seconds: float) -> None:
    job = verifier.job
    assert job is not None
    verifier.deadline = time.monotonic() + seconds
    verifier.instance = NOWHERE
    verifier.process.send((job.rule, tuple(job.recorded), frozenset(job.skip), job.negatives))


def _collect(verifiers: list[_Verifier], waiting: deque[_VerifyJob]) -> Iterator[Verdict]:
    """Waits for messages; the job of a dead process goes back to the queue."""
    left = min(verifier.deadline for verifier in verifiers if verifier.job is not None) - time.monotonic()
    ready = wait([verifier.process.connection for verifier in verifiers], max(left, 0.0))
    for verifier in [verifier for verifier in verifiers if verifier.process.connection in ready]:
        try:
            message: int | Verdict = verifier.process.connection.recv()
        except (EOFError, OSError):
            verifiers.remove(verifier)
            verifier.process.end()
            if verifier.job is not None:
                yield from _crashed(verifier.job, verifier.instance, waiting)
            continue
        if isinstance(message, int):
            verifier.instance = message
        else:
            verifier.job = None
            yield message


def _late(verifiers: list[_Verifier], seconds: float) -> Iterator[Verdict]:
    """Ends the processes whose rule has had its time."""
    for verifier in [one for one in verifiers if one.job is not None and time.monotonic() > one.deadline]:
        assert verifier.job is not None
        verifiers.remove(verifier)
        verifier.process.kill()
        rule = verifier.job.rule
        yield Verdict(rule.code, rule.digest, UNVERIFIED, f"the rule was not verified within the time limit of {seconds:.3g} s")


def _crashed(job: _VerifyJob, last: int, waiting: deque[_VerifyJob]) -> Iterator[Verdict]:
    if len(job.skip) >= MOST_CRASHES or not job.negatives:
        reason = "the process of a runtime ended several times"
        yield Verdict(job.rule.code, job.rule.digest, UNVERIFIED, reason, crashed=len(job.skip) + 1)
        return
    if last in job.skip or last == NOWHERE:
        job.negatives = False  # it died behind the samples
    job.skip.add(last)
    waiting.appendleft(job)


def serve(connection: Connection[Any, Any]) -> None:
    """The loop of a process: verifies the rules that it receives until the connection is closed."""
    plan: VerifyPlan = received(connection)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # onnx's checker prints to stdout from C++
    restrict(plan.memory)
    while True:
        try:
            rule, recorded, skip, negatives = connection.recv()
        except EOFError:
            return
        try:
            verdict = verify_rule(rule, replace(plan, negatives=negatives), recorded, skip=skip, at=connection.send)
        except Exception as error:  # any error concerns this rule and not the others
            why = f"the verification itself failed: {type(error).__name__}: {error}"
            verdict = Verdict(rule.code, rule.digest, COUNTEREXAMPLE, why)
        connection.send(verdict)
