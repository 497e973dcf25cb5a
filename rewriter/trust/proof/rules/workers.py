"""Rules verified in processes of their own: a runtime that falls over takes one instance with it, not the run.

A process notes, in memory that it shares, which instance it is about to run. When it dies, another one begins the same rule
again without that instance.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rewriter.core.forkserver import process_context, take_environment, uninterrupted
from rewriter.core.language.rule import Rule
from rewriter.core.language.rules import RuleSet
from rewriter.core.record import field, record, replace
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.judges import child as memory
from rewriter.trust.proof.rules.recorded import Recorded, examine
from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE, UNVERIFIED, Verdict
from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_rule

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
    process: BaseProcess
    connection: Connection[Any, Any]
    at: Any  # its `value` is the instance
    job: _VerifyJob | None = None
    deadline: float = 0.0


def verify_with_exports(rules: RuleSet, codes: Sequence[str], plan: VerifyPlan, folder: Path, jobs: int) -> list[Verdict]:
    """The verdicts on some rules, which recorded exports decide before random models do.

    Args:
        rules: all that are loaded.
        codes: of those to verify.
        plan: how thoroughly.
        folder: of recorded exports, if there is one.
        jobs: processes at once.
    """
    if not codes:
        return []
    # An export often needs more than one repair, so the shipped ones run beside those to be verified.
    others = [rule for rule in load_rules(None) if rules.get(rule.code) is None] if folder.is_dir() else []
    recorded = examine(replace(rules, rules=(*rules, *others)), folder, codes) if folder.is_dir() else Recorded()
    known = {rule.code: rule for rule in rules}
    harmful = [Verdict(code, known[code].digest, COUNTEREXAMPLE, why) for code, why in recorded.harms.items()]
    todo = [known[code] for code in codes if code in known and code not in recorded.harms]
    return [*harmful, *verify_all(todo, plan, recorded.repairs, jobs)]


def verify_all(rules: Sequence[Rule], plan: VerifyPlan, recorded: Mapping[str, Sequence[str]], jobs: int) -> Iterator[Verdict]:
    """The verdicts on rules, as they come.

    Args:
        rules: what to verify.
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
                verifiers.append(_start(plan))
            for verifier in verifiers:
                if verifier.job is None and waiting:
                    verifier.job = waiting.popleft()
                    _send(verifier, plan.limit)
            yield from _collect(verifiers, waiting)
            yield from _late(verifiers, plan.limit)
    finally:
        for verifier in verifiers:
            verifier.process.terminate()
            verifier.process.join()


def _send(verifier: _Verifier, seconds: float) -> None:
    job = verifier.job
    assert job is not None
    verifier.deadline = time.monotonic() + seconds
    verifier.at.value = NOWHERE
    verifier.connection.send((job.rule, tuple(job.recorded), frozenset(job.skip), job.negatives))


def _start(plan: VerifyPlan) -> _Verifier:
    context = process_context(__name__)
    ours, theirs = context.Pipe()
    at = context.RawValue("q", NOWHERE)
    process = context.Process(target=serve, args=(theirs, at, dict(os.environ), plan), daemon=True)
    with uninterrupted():
        process.start()
    theirs.close()
    return _Verifier(process, ours, at)


def _collect(verifiers: list[_Verifier], waiting: deque[_VerifyJob]) -> Iterator[Verdict]:
    """Waits for news; a dead process gives its job back."""
    left = min(verifier.deadline for verifier in verifiers if verifier.job is not None) - time.monotonic()
    ready = wait([verifier.connection for verifier in verifiers], max(left, 0.0))
    for verifier in [verifier for verifier in verifiers if verifier.connection in ready]:
        job = verifier.job
        try:
            message = verifier.connection.recv()
        except (EOFError, OSError):
            verifiers.remove(verifier)
            verifier.process.join()
            if job is not None:
                yield from _crashed(job, verifier.at.value, waiting)
            continue
        verifier.job = None
        yield message


def _late(verifiers: list[_Verifier], seconds: float) -> Iterator[Verdict]:
    """Ends the processes whose rule has had its time."""
    for verifier in [one for one in verifiers if one.job is not None and time.monotonic() > one.deadline]:
        assert verifier.job is not None
        verifiers.remove(verifier)
        verifier.process.kill()
        verifier.process.join()
        rule = verifier.job.rule
        yield Verdict(rule.code, rule.digest, UNVERIFIED, f"it was not done within the time limit of {seconds:.3g} s")


def _crashed(job: _VerifyJob, last: int, waiting: deque[_VerifyJob]) -> Iterator[Verdict]:
    if len(job.skip) >= MOST_CRASHES or not job.negatives:
        reason = "an oracle's process died, again and again"
        yield Verdict(job.rule.code, job.rule.digest, UNVERIFIED, reason, crashed=len(job.skip) + 1)
        return
    if last in job.skip or last == NOWHERE:
        job.negatives = False  # it died behind the samples
    job.skip.add(last)
    waiting.appendleft(job)


def serve(connection: Connection[Any, Any], at: Any, environment: Mapping[str, str], plan: VerifyPlan) -> None:
    """The loop of a process: verifies the rules that it is sent until nobody sends any more."""
    take_environment(environment)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # onnx's checker prints to stdout from C++
    memory.restrict(plan.memory)
    note = partial(setattr, at, "value")
    while True:
        try:
            rule, recorded, skip, negatives = connection.recv()
        except EOFError:
            return
        try:
            verdict = verify_rule(rule, replace(plan, negatives=negatives), recorded, skip=skip, at=note)
        except Exception as error:  # whatever it is, it concerns this rule and not the others
            why = f"the verification itself failed: {type(error).__name__}: {error}"
            verdict = Verdict(rule.code, rule.digest, COUNTEREXAMPLE, why)
        connection.send(verdict)
