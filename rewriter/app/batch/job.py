"""One model from file to file: load, run, save. What a worker process does."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.urls import is_remote, is_url
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.core.collector import collect_between_models
from rewriter.core.engine.attempt import Fired
from rewriter.core.errors import RewriterError, reason
from rewriter.core.isolation.budget import BeyondLimitsError, ClockError, allowed, undisturbed, within_limits
from rewriter.core.log import Log, Profile, Suppressed, stage
from rewriter.core.onnxfile.write import make_folder
from rewriter.core.record import replace

if TYPE_CHECKING:
    from rewriter.app.batch.untouched import Outlook
    from rewriter.app.configuration import Suppression
    from rewriter.core.graph.model import Model
    from rewriter.core.language.rules import RuleSet
    from rewriter.core.log import Verification
    from rewriter.core.matching.forecast import Forecast
    from rewriter.trust.plans.plan_file import Chooser, Proposal
    from rewriter.trust.proof.models.guard import Culprit, Replay, ReplayedRun, Variation, Verify


def process(job: Job, work: Work) -> Outcome:
    """Does one job. Never raises: what goes wrong is in the outcome, and a model that could be read is written all the same."""
    if is_remote(job.path) or is_url(job.target):
        from rewriter.app.batch.remote import process_remote

        return process_remote(job, work, _process)
    return _process(job, work)


def _process(job: Job, work: Work) -> Outcome:
    started = time.monotonic()
    outcome = Outcome(job.path)
    work = work.variants[job.variant] if work.variants else work
    outcome.profile = Profile() if work.profile else None
    seconds = None if work.seconds is None else allowed(job.path, work.seconds)
    stopped = False
    try:
        with within_limits(seconds, work.memory, job.path):
            do(job, work, outcome)
    except RewriterError as error:
        outcome.error, stopped = str(error), isinstance(error, BeyondLimitsError)
        outcome.late = isinstance(error, ClockError)
        if outcome.late and job.target is not None:
            outcome.error += "; nothing was written; --time-limit gives it more"
    except OSError as error:
        outcome.error = f"{error.filename or job.path}: {reason(error)}"
    except Exception as error:
        outcome.error = f"internal error: {type(error).__name__}: {error}"
        import traceback

        outcome.crash = traceback.format_exc()
    copied = job.target not in (None, job.path) and not job.copy and not work.static  # which has other inputs than wanted
    if outcome.error and outcome.output is None and copied and not outcome.late:
        from rewriter.app.batch.untouched import copied_blindly

        with contextlib.suppress(Exception), within_limits(seconds, work.memory):
            if not (stopped and copied_blindly(job, work, outcome)):
                do(replace(job, copy=True), work, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


def do(job: Job, work: Work, outcome: Outcome) -> Model | None:
    """Does one job and says in `outcome` what became of it.

    Returns:
        The resulting model; None where nothing can fire and the model was therefore not loaded.

    Raises:
        RewriterError: the model cannot be read or the result not written.
    """
    from rewriter.app.batch.untouched import Outlook, decided

    collect_between_models()
    in_place = job.target == job.path
    force = work.force or job.replaces
    if job.target is not None and not in_place and not force and os.path.lexists(job.target):
        if job.adopts:
            return _adopt(job, job.target, work, outcome)
        raise RewriterError(f"{job.target} exists; --force overwrites it")
    outlook = Outlook()
    if not job.copy and decided(job, work, outcome, outlook):
        return None
    from rewriter.app.batch.file_records import stamps_of
    from rewriter.core.graph.scopes import node_count
    from rewriter.core.onnxfile.read import read_model_file

    with stage(outcome.profile, "load"):
        model = _load(job.path, Work(work.rules) if job.copy else work)
    outlook.check(job.path)
    nodes = node_count(model.graph) if work.count else 0
    if work.stamped and not outcome.stamps:
        outcome.stamps.extend(stamps_of("input", job.path, model, outlook.read))
    written = None
    if not job.copy:
        model, written = _rewrite(model, work, outcome, outlook)
        outcome.nodes = (nodes, node_count(model.graph)) if work.count else None
    if work.expect is not None and not work.keep:
        with stage(outcome.profile, "judge"):
            _expect(job, work, outcome)
    if job.target is None or (in_place and not outcome.changed):
        return model
    if outlook.read is not None and not in_place and not work.diff and (written is not None or not outcome.changed):
        from rewriter.app.batch.group_commit import write_result

        with stage(outcome.profile, "save"), undisturbed():
            write_result(job, work, outcome, written if outcome.changed and written is not None else outlook.read[0])
        return model
    target = Path(job.target)
    make_folder(target.parent)
    before = read_model_file(Path(job.path)) if work.diff and outcome.changed else None
    with stage(outcome.profile, "save"), undisturbed():
        model.save(target, force=force or in_place, as_read=not outcome.changed, serialised=written)
    outcome.output = job.target
    if work.stamped:
        outcome.stamps.extend(stamps_of("output", job.target, model, outlook.read))
    if before is not None:
        from rewriter.trust.difference import compare

        folders = Path(job.path).absolute().parent, target.absolute().parent
        outcome.differences = list(compare(before.proto, read_model_file(target).proto, *folders))
    return model


def _load(path: str, work: Work) -> Model:
    """The model as it is when the rules begin. Raises RewriterError."""
    from rewriter.core.graph.model import load

    model = load(path)
    if work.static:
        from rewriter.core.graph.tidy import fix_shapes

        fix_shapes(model.graph, work.static)
    return model


def _adopt(job: Job, target: str, work: Work, outcome: Outcome) -> Model | None:
    """Takes an existing file for the result of a job that was not noted any more, if it is what would be written.

    Raises:
        RewriterError: it is not.
    """
    from filecmp import cmp

    from rewriter.app.batch.file_records import copied_stamp
    from rewriter.app.batch.group_commit import named_at_once
    from rewriter.core.onnxfile.write import temporary_folder

    with temporary_folder() as folder, named_at_once():
        scratch = str(folder / "model.onnx")
        model = do(replace(job, target=scratch, adopts=False), work, outcome)
        if not os.path.isfile(target) or not cmp(scratch, target, shallow=False):
            raise RewriterError(f"{target} exists with other content, and no run has noted it; --force overwrites it")
        outcome.output = target
        outcome.stamps[:] = [copied_stamp(one, target) if one.path == scratch else one for one in outcome.stamps]
    return model


def _expect(job: Job, work: Work, outcome: Outcome) -> None:
    """Has the framework's own numbers say who is right."""
    from rewriter.app.batch.expectation import Expectation, data_of

    assert work.expect is not None
    data = data_of(work.expect, job.path)
    if not os.path.isfile(data):
        if outcome.log is not None:
            outcome.log.notes.append(f"not compared with the framework: there is no {data}")
        return

    def repaired(rules: RuleSet) -> tuple[Model | None, list[str]]:
        found = Outcome(job.path)
        model = do(Job(job.path), replace(work, rules=rules, keep=True, expect=None, audit=None, runtime="no"), found)
        counts = {} if found.log is None else found.log.counts
        return (model if counts else None), list(counts)

    outcome.expectation = Expectation(job.path, data, work.rules, repaired).record()


def _stamp_source(outcome: Outcome, work: Work, used: str | None) -> None:
    from rewriter.app.batch.file_records import file_stamp
    from rewriter.trust.source.find import find

    if used is not None:
        outcome.stamps.append(file_stamp("source", used))
    elif work.source == "auto" and (found := find(outcome.path)) is not None:
        outcome.stamps.append(file_stamp("beside", str(found)))


def _rewrite(model: Model, work: Work, outcome: Outcome, outlook: Outlook) -> tuple[Model, bytes | None]:
    """Runs the rules; the result, which is the model itself unless something had to be rolled back, and its bytes where they
    are known.

    What the judges get is what is written, record included, so that it is serialised once. Only the record of a large model is
    put in afterwards: it holds a digest that takes as long as writing does.
    """
    read = None if outlook.read is None or work.static else outlook.read[0]
    notes: list[str] = []
    if work.asks_before:
        with stage(outcome.profile, "judge"):
            outcome.refusal = _refusal(model, work, outcome, read, notes)
    runs = _Runs(model, work, outcome)
    attempt = runs.on(model, forecast=outlook.forecast)
    recorded: Model | None = None
    if work.keep and attempt.steps:
        from rewriter.trust.proof.models.guard import guarded

        if not model.is_large:
            _record(attempt, work, outcome, runs)
            recorded = model
        with stage(outcome.profile, "guard"):
            attempt = guarded(attempt, runs.again, _numbers(work, runs.again))
    outcome.log = attempt.log
    outcome.static = bool(work.static)
    outcome.tidied = attempt.tidied
    if work.keep and work.runtime != "no":
        with stage(outcome.profile, "judge"):
            outcome.remaining = _remaining(attempt, work, outcome, read, notes)
    outcome.log.notes += [note for note in notes if note not in outcome.log.notes]
    if work.keep and outcome.changed:
        outcome.unjudged = list(attempt.candidate.unanswered.values())
    if attempt.model is recorded:
        return attempt.model, attempt.candidate.serialised
    if work.keep and outcome.changed:
        _record(attempt, work, outcome, runs)
    return attempt.model, None


def _record(attempt: ReplayedRun, work: Work, outcome: Outcome, runs: _Runs) -> None:
    """Has the model say what was done to it, unless that is not wanted."""
    if work.stamp:
        from rewriter.trust.proof.models.guard import TIDYING
        from rewriter.trust.stamp import stamp

        with stage(outcome.profile, "stamp"):
            model, log, full = attempt.model, attempt.log, work.full_record
            tidy = work.tidy and all(rolled.rule != TIDYING for rolled in log.rolled_back)
            stamp(model, log, work.rules, source=runs.source, tidy=tidy, static=work.static, full=full)


def _remaining(attempt: ReplayedRun, work: Work, outcome: Outcome, read: bytes | None, notes: list[str]) -> str | None:
    """Why ONNX Runtime refuses the result; mostly it has been asked already."""
    if outcome.changed:
        return attempt.candidate.runtime_refusal()
    return outcome.refusal if work.asks_before else _refusal(attempt.model, work, outcome, read, notes)


def _refusal(model: Model, work: Work, outcome: Outcome, read: bytes | None, notes: list[str]) -> str | None:
    """Why ONNX Runtime refuses a model that has not changed; `read` are its bytes, where they are known.

    A model whose weights are not where they should be is not judged, and the notes say so, since it only seems to be accepted.
    """
    from rewriter.trust.proof.models.model_runs import failure_in_check
    from rewriter.trust.proof.models.validity import Candidate
    from rewriter.trust.proof.onnx_runtime import MODERATE

    candidate = Candidate(model, read)
    if lost := candidate.lost_data():
        notes.append(f"not loaded into ONNX Runtime: {lost}")
        return None
    if work.moderate and work.runtime == "auto" and candidate.too_large(MODERATE):
        return None
    refusal = candidate.runtime_refusal()
    notes += filter(None, [candidate.not_loaded()])
    outcome.unjudged = list(candidate.unanswered.values())
    if refusal == "" and work.runs_models and (failure := failure_in_check(candidate)) is not None:
        notes += filter(None, [failure.note])
        return failure.refusal
    return refusal


def _numbers(work: Work, replay: Replay) -> Verify:
    """Compares numbers where they are to be compared; mostly nothing that does it has to be imported."""
    verifier: Verify | None = None
    if work.verify:
        from rewriter.trust.proof.models.equivalence import Verifier

        verifier = Verifier(work.rules, replay, work.inputs)

    def check(attempt: ReplayedRun, plan: Variation) -> Verification | Culprit | None:
        if any(firing.kind == "interface" for firing in attempt.log.firings):
            from rewriter.trust.proof.models.batches import BatchCheck

            return BatchCheck(replay, verifier)(attempt, plan)
        return None if verifier is None else verifier(attempt, plan)

    return check


class _Runs:
    """Runs of the rules on one model: the first one, and those that leave something out."""

    def __init__(self, model: Model, work: Work, outcome: Outcome) -> None:
        from rewriter.core.framework.exporter import exporter_of
        from rewriter.trust.source.find import source_of

        model.constant_inputs = work.constant_inputs
        self._path = outcome.path
        self._profile = outcome.profile
        self._work = work
        self.source, self._notes = source_of(model, outcome.path, work.source)
        if work.stamped:
            _stamp_source(outcome, work, None if self.source is None else self.source.path)
        self._exporter = exporter_of(model.graph, self.source)
        if self.source is not None:
            outcome.source = self.source.path
        outcome.exporter = str(self._exporter)
        outcome.constant_inputs = model.inputs_are_constant if model.listed else None

    def again(self, plan: Variation) -> ReplayedRun:
        """A run on the model as it is read anew."""
        model = _load(self._path, self._work)
        model.constant_inputs = self._work.constant_inputs
        return self.on(model, plan)

    def on(self, model: Model, plan: Variation | None = None, forecast: Forecast | None = None) -> ReplayedRun:
        """A run on this model, which is edited; `forecast` is for one that is as it was read."""
        from rewriter.core.conditions.context import Knowledge
        from rewriter.core.engine.run import Hooks, run
        from rewriter.trust.proof.judges import has_kernel
        from rewriter.trust.proof.models.guard import ReplayedRun

        work, limits, rules = self._work, self._work.limits, self._work.rules
        if limits.seconds is None and work.seconds is not None:
            share = 0.5 if work.keep_partial else 0.9  # what is to be written is judged before
            limits = replace(limits, seconds=allowed(self._path, work.seconds) * share)
        if plan is not None and plan.firings == 0:
            return ReplayedRun(model, Log(notes=list(self._notes)))
        if plan is not None and plan.firings is not None:
            limits = replace(limits, firings=plan.firings, seconds=None)
        if plan is not None and plan.without:
            rules = replace(rules, rules=tuple(rule for rule in rules if rule.code not in plan.without))
        chooser = Suppressor(work.suppress) if work.plan is None else _chooser(*work.plan)
        log = run(
            model.graph,
            rules,
            Knowledge(self.source, None, model.overridable, self._exporter, has_kernel),
            limits=limits,
            keep=work.keep,
            detail=(work.detail or work.audit is not None) and (plan is None or plan.firings is None),
            veto=() if plan is None else plan.veto,
            hooks=Hooks(
                work.coverage,
                work.audit,
                chooser.permit if work.suppress or work.plan is not None else None,
                self._profile if plan is None else None,
            ),
            forecast=forecast,
        )
        late = next((stop for stop in log.stops if stop.kind == "Time"), None)
        if late is not None and work.keep and not work.keep_partial:
            raise ClockError(f"{self._path}: {late.message}")
        log.notes[:0] = self._notes
        log.suppressed = chooser.found
        with stage(self._profile, "tidy"):
            tidied = _tidy(model, log) if work.tidy and (plan is None or plan.tidies) else 0
        if (log.changed or tidied) and model.training_info:
            from rewriter.core.graph.tidy import drop_stale_training

            log.notes += drop_stale_training(model.training_info, model.graph)
        return ReplayedRun(model, log, tidied)


def _chooser(origin: str, proposals: tuple[Proposal, ...]) -> Chooser:
    from rewriter.trust.plans.plan_file import Chooser

    return Chooser(proposals, origin)


def _tidy(model: Model, log: Log) -> int:
    from rewriter.core.graph.tidy import named_by_training, tidy

    found = tidy(model.graph, named_by_training(model.training_info))
    total = found.nodes + found.initializers + found.imports
    if total:
        log.notes.append(f"tidied: {found.nodes} nodes, {found.initializers} initializers, {found.imports} imports removed")
    return total


# Keeps firings from happening that a configuration forbids, and remembers each of them once.


class Suppressor:
    """The suppressions of one model.

    Attributes:
        found: what was suppressed.
    """

    def __init__(self, suppressions: Sequence[Suppression]) -> None:
        self._suppressions = suppressions
        self.found: list[Suppressed] = []

    def permit(self, fired: Fired) -> bool:
        """Whether a firing may happen."""
        rule, place = fired.compiled.rule, fired.scope.path
        one = next((one for one in self._suppressions if one.covers(rule.code, fired.names)), None)
        if one is None:
            return True
        root = fired.names[0] if fired.names else ""
        found = Suppressed(rule.code, rule.title, place, root, fired.op, one.reason, one.origin)
        if found not in self.found:
            self.found.append(found)
        return False
