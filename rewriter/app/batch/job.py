"""One model from file to file, stage by stage: foresee, read, check, run, guard, check, record, write, compare.

A worker process does this. Each stage is a function, and each way from file to file calls the stages that it needs. A repair
calls all of them, a copy reads and writes, and a comparison with the framework's outputs calls the stages in between.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.app.batch.work import Checking, Job, Notes, Outcome, Reading, Rewriting, Work, Writing, is_remote, is_url
from rewriter.core.errors import RewriterError, counted, reason
from rewriter.core.isolation.budget import (
    BeyondLimitsError,
    ClockError,
    allowed,
    collect_between_models,
    undisturbed,
    within_limits,
)
from rewriter.core.log import RUN_FAILURE, Log, Profile, Verification, stage
from rewriter.core.onnxfile.files import make_folder, temporary_folder
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    from rewriter.app.batch.untouched import Outlook, Verdict
    from rewriter.app.configuration import Suppressor
    from rewriter.core.engine.limits import Limits
    from rewriter.core.framework.exporter import Exporter
    from rewriter.core.framework.source_info import SourceInfo
    from rewriter.core.graph.model import Model
    from rewriter.core.language.rules import RuleSet
    from rewriter.core.matching.forecast import Forecast
    from rewriter.trust.plan_file import Chooser
    from rewriter.trust.proof.guard import Culprit, Replay, ReplayedRun, Variation, Verify


def process(job: Job, work: Work) -> Outcome:
    """Does one job. Never raises: errors are in the outcome, and a model that could be read is written all the same."""
    if is_remote(job.path) or is_url(job.target):
        from rewriter.app.batch.remote import process_remote

        return process_remote(job, work, _process)
    return _process(job, work)


def _process(job: Job, work: Work) -> Outcome:
    started = time.monotonic()
    outcome = Outcome(job.path)
    work = work.variants[job.variant] if work.variants else work
    outcome.profile = Profile() if work.notes.profile else None
    seconds = None if work.seconds is None else allowed(job.path, work.seconds)
    stopped = False
    try:
        with within_limits(seconds, work.memory, job.path):
            do(job, work, outcome)
    except RewriterError as error:
        outcome.error, stopped = str(error), isinstance(error, BeyondLimitsError)
        outcome.late = isinstance(error, ClockError)
        if outcome.late and job.target is not None:
            outcome.error += "; nothing was written; raise --time-limit"
    except OSError as error:
        outcome.error = f"{error.filename or job.path}: {reason(error)}"
    except Exception as error:
        outcome.error = f"internal error: {type(error).__name__}: {error}"
        import traceback

        outcome.crash = traceback.format_exc()
    copied = (
        job.target not in (None, job.path) and not job.copy and not work.reading.static
    )  # which has other inputs than wanted
    if outcome.error and outcome.output is None and copied and not outcome.late:
        from rewriter.app.batch.untouched import copied_blindly

        with contextlib.suppress(Exception), within_limits(seconds, work.memory):
            if not (stopped and copied_blindly(job, work, outcome)):
                do(replace(job, copy=True), work, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


def do(job: Job, work: Work, outcome: Outcome) -> Model | None:
    """Does one job and records its result in `outcome`.

    Returns:
        The resulting model; None if no rule can fire and the model was therefore not loaded.

    Raises:
        RewriterError: the model cannot be read or the result not written.
    """
    collect_between_models()
    stages = _copied if job.copy else _asked if work.checking.consumers else _repaired
    if job.target in (None, job.path) or work.writing.replaces(job) or not os.path.lexists(str(job.target)):
        return stages(job, work, outcome)
    if os.path.isdir(str(job.target)):
        raise RewriterError(f"{job.target} is a folder; name a file in it")
    if not job.adopts:
        raise RewriterError(f"{job.target} exists; --force overwrites it")
    return _adopted(job, str(job.target), work, outcome, stages)


# The ways from file to file, each a row of stages.


Stages = Callable[[Job, Work, Outcome], "Model | None"]


def _repaired(job: Job, work: Work, outcome: Outcome) -> Model | None:
    """Foresees, reads, runs, guards, checks, records, and writes."""
    from rewriter.app.batch.untouched import foresee

    outlook = foresee(job, work)
    if outlook.verdict is not None:
        _leave(job, work, outcome, outlook.verdict)
        return None
    model = _read(job, work, outcome, outlook)
    nodes = _node_count(model) if work.notes.count else 0
    result = _rewrite(model, work, outcome, outlook)
    if work.notes.count:
        outcome.nodes = nodes, _node_count(result.model)
    if work.checking.expect is not None and not work.rewriting.keep:
        with stage(outcome.profile, "judge"):
            _expect(job, work, work.checking.expect, outcome)
    if job.target is not None and (job.target != job.path or outcome.changed):
        _write(job, job.target, work, outcome, result, outlook)
    return result.model


def _asked(job: Job, work: Work, outcome: Outcome) -> Model | None:
    """The same, and asks the consumers."""
    from rewriter.app.batch.consumer_repair import ask_all, repair_and_ask

    if work.rewriting.keep:
        return repair_and_ask(job, work, outcome, _repaired, _copied)
    outcome.asked = ask_all(work.checking.consumers, job.path)
    return _repaired(job, work, outcome)


def _copied(job: Job, work: Work, outcome: Outcome) -> Model:
    """Reads the model and writes it unchanged."""
    with stage(outcome.profile, "load"):
        model = _load(job.path, Reading())
    _note_files("input", job.path, model, work, outcome)
    if job.target is not None:
        _save(job, job.target, work, outcome, Product(model))
    return model


def _adopted(job: Job, target: str, work: Work, outcome: Outcome, stages: Stages) -> Model | None:
    """Uses an existing file as the result of a job that is missing from the journal, if the stages write the same file.

    Raises:
        RewriterError: it is not.
    """
    from filecmp import cmp

    from rewriter.app.batch.journal import copied_stamp, named_at_once

    with temporary_folder() as folder, named_at_once():
        scratch = str(folder / "model.onnx")
        model = stages(replace(job, target=scratch), work, outcome)
        outcome.output = None
        if not os.path.isfile(target) or not cmp(scratch, target, shallow=False):
            raise RewriterError(f"{target} exists, and the journal does not list it as a result; --force overwrites it")
        outcome.output = target
        outcome.stamps[:] = [copied_stamp(one, target) if one.path == scratch else one for one in outcome.stamps]
    return model


# The stages, in their order.


@record(frozen=True, slots=True)
class Product:
    """A model after all changes, and its bytes if they are known."""

    model: Model
    serialised: bytes | None = None


def _leave(job: Job, work: Work, outcome: Outcome, verdict: Verdict) -> None:
    """Copies a model, and records in `outcome` the facts that are known without running a rule."""
    from rewriter.app.batch.untouched import copy

    outcome.refusal, outcome.remaining = verdict.refusal, verdict.remaining
    if job.target not in (None, job.path):
        copy(job, work, outcome, verdict.data, verdict.found)
    outcome.log, outcome.exporter, outcome.constant_inputs = verdict.log, verdict.exporter, verdict.constant_inputs


def _read(job: Job, work: Work, outcome: Outcome, outlook: Outlook) -> Model:
    with stage(outcome.profile, "load"):
        model = _load(job.path, work.reading)
    outlook.check(job.path)
    _note_files("input", job.path, model, work, outcome, outlook.read)
    return model


def _load(path: str, reading: Reading) -> Model:
    """The model as it is when the rules begin. Raises RewriterError."""
    from rewriter.core.graph.model import load

    model = load(path)
    if reading.static:
        from rewriter.core.graph.tidy import fix_shapes

        fix_shapes(model.graph, reading.static)
    model.constant_inputs = reading.constant_inputs
    return model


def _node_count(model: Model) -> int:
    from rewriter.core.graph.objects import node_count

    return node_count(model.graph)


def _rewrite(model: Model, work: Work, outcome: Outcome, outlook: Outlook) -> Product:
    """Runs the rules; the result is the model itself unless something had to be rolled back.

    The checks load the bytes that are written, record included, so that they are serialised once. Only the record of a large
    model is added afterwards: it holds a digest that takes as long as writing does.
    """
    read = None if outlook.read is None or work.reading.static else outlook.read[0]
    notes: list[str] = []
    if work.asks_before:
        with stage(outcome.profile, "judge"):
            outcome.refusal = _refusal(model, work, outcome, read, notes)
    subject = _subject(model, outcome.path, work, outcome.profile)
    _note_subject(model, subject, work, outcome)
    attempt = _run(subject, model, forecast=outlook.forecast)
    recorded: Model | None = None
    if work.rewriting.keep and attempt.steps:
        if not model.is_large:
            _record(attempt, subject)
            recorded = model
        with stage(outcome.profile, "guard"):
            attempt = _guard(attempt, subject, runs_before=outcome.refusal == "")
        if attempt.failure_before:
            outcome.refusal = RUN_FAILURE + attempt.failure_before
    outcome.log = attempt.log
    outcome.static = bool(work.reading.static)
    outcome.tidied = attempt.tidied
    if work.rewriting.keep and work.checking.runtime != "no":
        with stage(outcome.profile, "judge"):
            outcome.remaining = _remaining(attempt, work, outcome, read, notes)
    outcome.log.notes += [note for note in notes if note not in outcome.log.notes]
    if work.rewriting.keep and outcome.changed:
        outcome.unjudged = list(attempt.candidate.unanswered.values())
    if attempt.model is recorded:
        return Product(recorded, attempt.candidate.serialised)
    if work.rewriting.keep and outcome.changed:
        _record(attempt, subject)
    return Product(attempt.model)


def _refusal(model: Model, work: Work, outcome: Outcome, read: bytes | None, notes: list[str]) -> str | None:
    """Why ONNX Runtime rejects a model that has not changed; `read` are its bytes, if they are known.

    A model without its weights is not checked, and a note says so: ONNX Runtime only seems to load it.
    """
    from rewriter.trust.proof.judges import MODERATE
    from rewriter.trust.proof.validity import Candidate, failure_in_check

    candidate = Candidate(model, read)
    if lost := candidate.lost_data():
        notes.append(f"not loaded into ONNX Runtime: {lost}")
        return None
    if work.checking.moderate and work.checking.runtime == "auto" and candidate.too_large(MODERATE):
        return None
    refusal = candidate.runtime_refusal()
    notes += filter(None, [candidate.not_loaded()])
    outcome.unjudged = list(candidate.unanswered.values())
    if refusal == "" and work.runs_models and (failure := failure_in_check(candidate)) is not None:
        notes += filter(None, [failure.note])
        return failure.refusal
    return refusal


@record(frozen=True, slots=True)
class Subject:
    """The data that all runs of the rules on one model share: the first run, and the runs that leave something out.

    Attributes:
        messages: notes on the source.
        profile: books the time of the first run.
    """

    path: str
    work: Work
    source: SourceInfo | None
    exporter: Exporter
    messages: Sequence[str]
    profile: Profile | None


def _subject(model: Model, path: str, work: Work, profile: Profile | None) -> Subject:
    from rewriter.core.framework.exporter import SOURCE_FILES, GuardedModel, exporter_of
    from rewriter.trust.source.find import source_of

    source, messages = source_of(model, path, work.reading.source)
    exporter = exporter_of(model.graph, source)
    if source is None and work.reading.source != "none" and exporter.name in SOURCE_FILES:
        from rewriter.trust.source.find import missing_source

        guarded = GuardedModel(exporter, getattr(model.graph, "ir_version", None), {model.graph.opset}, has_source=False)
        operators = {node.op for node in model.graph.nodes}
        messages = [*messages, *missing_source(work.rewriting.rules, guarded, operators, path, is_of_another=bool(messages))]
    return Subject(path, work, source, exporter, messages, profile)


def _note_subject(model: Model, subject: Subject, work: Work, outcome: Outcome) -> None:
    used = None if subject.source is None else subject.source.path
    if work.notes.stamped:
        from rewriter.app.batch.journal import file_stamp
        from rewriter.trust.source.find import find

        if used is not None:
            outcome.stamps.append(file_stamp("source", used))
        elif work.reading.source == "auto" and (found := find(subject.path)) is not None:
            outcome.stamps.append(file_stamp("beside", str(found)))
    outcome.source = used
    outcome.exporter = str(subject.exporter)
    outcome.constant_inputs = model.inputs_are_constant if model.listed else None


def _run(subject: Subject, model: Model, plan: Variation | None = None, forecast: Forecast | None = None) -> ReplayedRun:
    """Runs the rules on this model, which is edited. `forecast` is valid for a model that is as it was read."""
    from rewriter.core.conditions.recorded_graph import Knowledge
    from rewriter.core.engine.run import Hooks, run
    from rewriter.trust.proof.guard import ReplayedRun
    from rewriter.trust.proof.judges import has_kernel

    rewriting, notes, profile = subject.work.rewriting, subject.work.notes, subject.profile
    if plan is not None and plan.firings == 0:
        return ReplayedRun(model, Log(notes=list(subject.messages)))
    chooser = _chooser(rewriting)
    with stage(profile, "tidy"):
        dead = _swept(model) if rewriting.tidy and (plan is None or plan.sweeps) else 0
    log = run(
        model.graph,
        _rules_of(rewriting.rules, plan),
        Knowledge(subject.source, None, model.overridable, subject.exporter, has_kernel),
        limits=_limits_of(subject, plan),
        keep=rewriting.keep,
        detail=(notes.detail or notes.audit is not None) and (plan is None or plan.firings is None),
        veto=() if plan is None else plan.veto,
        hooks=Hooks(
            notes.coverage,
            notes.audit,
            None if chooser is None else chooser.permit,
            profile if plan is None else None,
        ),
        forecast=None if dead else forecast,
    )
    late = next((stop for stop in log.stops if stop.kind == "Time"), None)
    if late is not None and rewriting.keep and not rewriting.keep_partial:
        raise ClockError(f"{subject.path}: {late.message}")
    log.notes[:0] = subject.messages
    log.suppressed = [] if chooser is None else chooser.found
    with stage(profile, "tidy"):
        tidied = _tidy(model, log, dead) if rewriting.tidy and (plan is None or plan.tidies) else dead
    if (log.changed or tidied) and model.training_info:
        from rewriter.core.graph.model import drop_stale_training

        log.notes += drop_stale_training(model.training_info, model.graph)
    return ReplayedRun(model, log, tidied)


def _run_again(subject: Subject, plan: Variation) -> ReplayedRun:
    """Reads the model anew and runs the rules on it."""
    return _run(subject, _load(subject.path, subject.work.reading), plan)


def _rules_of(rules: RuleSet, plan: Variation | None) -> RuleSet:
    if plan is None or not plan.without:
        return rules
    return replace(rules, rules=tuple(rule for rule in rules if rule.code not in plan.without))


def _limits_of(subject: Subject, plan: Variation | None) -> Limits:
    """How long a run may take, and after how many firings it stops."""
    rewriting, seconds = subject.work.rewriting, subject.work.seconds
    limits = rewriting.limits
    if plan is not None and plan.firings is not None:
        return replace(limits, firings=plan.firings, seconds=None)
    if limits.seconds is None and seconds is not None:
        share = 0.5 if rewriting.keep_partial else 0.9  # the rest is for the checks before writing
        return replace(limits, seconds=allowed(subject.path, seconds) * share)
    return limits


def _chooser(rewriting: Rewriting) -> Chooser | Suppressor | None:
    """The object that permits or forbids firings; None if all may happen."""
    if rewriting.plan is not None:
        from rewriter.trust.plan_file import Chooser

        origin, proposals = rewriting.plan
        return Chooser(proposals, origin)
    if not rewriting.suppress:
        return None
    from rewriter.app.configuration import Suppressor

    return Suppressor(rewriting.suppress)


def _swept(model: Model) -> int:
    """Removes dead nodes, and returns how many there were."""
    from rewriter.core.graph.tidy import remove_dead_nodes

    return remove_dead_nodes(model.graph)


def _tidy(model: Model, log: Log, dead: int) -> int:
    """Removes unused parts and notes how many, `dead` nodes before the run included."""
    from rewriter.core.graph.model import named_by_training
    from rewriter.core.graph.tidy import tidy

    found = tidy(model.graph, named_by_training(model.training_info))
    counts = {"node": dead + found.nodes, "initializer": found.initializers, "import": found.imports}
    if removed := ", ".join(counted(count, what) for what, count in counts.items() if count):
        log.notes.append(f"tidied: {removed} removed")
    return sum(counts.values())


def _guard(attempt: ReplayedRun, subject: Subject, *, runs_before: bool) -> ReplayedRun:
    """The largest part of a run that does not make the model worse."""
    from rewriter.trust.proof.guard import guarded

    rules = subject.work.rewriting.rules
    plugins = frozenset[str]().union(*(rule.plugins for code in attempt.log.counts if (rule := rules.get(code)) is not None))

    def with_plugins(run: ReplayedRun) -> ReplayedRun:
        run.candidate.plugins = plugins
        return run

    def again(plan: Variation) -> ReplayedRun:
        return with_plugins(_run_again(subject, plan))

    verify = _numbers(subject.work.checking, rules, again)
    return guarded(with_plugins(attempt), again, verify, runs_before=runs_before)


def _numbers(checking: Checking, rules: RuleSet, replay: Replay) -> Verify:
    """The comparison of outputs, if the work requires it. Its modules are imported only then."""
    verifier: Verify | None = None
    if checking.verify:
        from rewriter.trust.proof.equivalence import Verifier

        verifier = Verifier(rules, replay, checking.inputs)

    def check(attempt: ReplayedRun, plan: Variation) -> Verification | Culprit | None:
        if any(firing.kind == "interface" for firing in attempt.log.firings):
            from rewriter.trust.proof.batches import BatchCheck

            return BatchCheck(replay, verifier)(attempt, plan)
        return None if verifier is None else verifier(attempt, plan)

    return check


def _remaining(attempt: ReplayedRun, work: Work, outcome: Outcome, read: bytes | None, notes: list[str]) -> str | None:
    """Why ONNX Runtime rejects the result. The guard has usually found this already."""
    if outcome.changed:
        return attempt.candidate.runtime_refusal()
    return outcome.refusal if work.asks_before else _refusal(attempt.model, work, outcome, read, notes)


def _record(attempt: ReplayedRun, subject: Subject) -> None:
    """Writes the record of the run into the model, with `--stamp`."""
    work = subject.work
    if work.writing.stamp:
        from rewriter.trust.proof.guard import TIDYING
        from rewriter.trust.stamp import stamp

        with stage(subject.profile, "stamp"):
            tidy = work.rewriting.tidy and all(rolled.rule != TIDYING for rolled in attempt.log.rolled_back)
            stamp(
                attempt.model,
                attempt.log,
                work.rewriting.rules,
                source=subject.source,
                tidy=tidy,
                static=work.reading.static,
                full=work.writing.full_record,
            )


def _expect(job: Job, work: Work, template: str, outcome: Outcome) -> None:
    """Compares the model with the outputs of the framework."""
    from rewriter.app.batch.expectation import Expectation, data_of

    data = data_of(template, job.path)
    if not os.path.isfile(data):
        if outcome.log is not None:
            outcome.log.notes.append(f"not compared with the framework: there is no {data}")
        return
    checking = replace(work.checking, expect=None, runtime="no")

    def repaired(rules: RuleSet) -> tuple[Model | None, list[str]]:
        rewriting = replace(work.rewriting, rules=rules, keep=True)
        tried = Outcome(job.path)
        model = do(
            Job(job.path), replace(work, rewriting=rewriting, checking=checking, writing=Writing(), notes=Notes()), tried
        )
        codes = [] if tried.log is None else list(tried.log.counts)
        return (model if codes else None), codes

    outcome.expectation = Expectation(job.path, data, work.rewriting.rules, repaired).record()


def _write(job: Job, target: str, work: Work, outcome: Outcome, result: Product, outlook: Outlook) -> None:
    """Writes the bytes if they are known, otherwise the model. Compares it with the original if the work requires it."""
    data = result.serialised
    if outlook.read is not None and target != job.path and not work.notes.diff and (data is not None or not outcome.changed):
        from rewriter.app.batch.journal import write_result

        with stage(outcome.profile, "save"), undisturbed():
            write_result(job, work, outcome, data if outcome.changed and data is not None else outlook.read[0])
    elif work.notes.diff and outcome.changed:
        from rewriter.core.onnxfile.model_file import read_model_file
        from rewriter.trust.difference import compare

        make_folder(Path(target).parent)
        before = read_model_file(Path(job.path))
        _save(job, target, work, outcome, result)
        folders = Path(job.path).absolute().parent, Path(target).absolute().parent
        outcome.differences = list(compare(before.proto, read_model_file(Path(target)).proto, *folders))
    else:
        _save(job, target, work, outcome, result)


def _save(job: Job, target: str, work: Work, outcome: Outcome, result: Product) -> None:
    make_folder(Path(target).parent)
    force = work.writing.replaces(job) or target == job.path
    with stage(outcome.profile, "save"), undisturbed():
        result.model.write(Path(target), force=force, as_read=not outcome.changed, serialised=result.serialised)
    outcome.output = target
    _note_files("output", target, result.model, work, outcome)


def _note_files(
    role: Literal["input", "output"],
    path: str,
    model: Model,
    work: Work,
    outcome: Outcome,
    read: tuple[bytes, os.stat_result] | None = None,
) -> None:
    """Notes the files that a model was read from or written to, if the work requires it and they are not noted yet."""
    if work.notes.stamped and (role == "output" or not outcome.stamps):
        from rewriter.app.batch.journal import stamps_of

        outcome.stamps.extend(stamps_of(role, path, model, read))
