"""A repair that consumers check: `fix --target X --ask` goes on, step after step, until they accept the result.

The first result is the result of `fix` without the rules of the target. Each step of the recipe works on the result before it,
as the command of its name would. The best result is written; of equally good results, the first. If a consumer
rejects the first result, no result is written that it computes wrongly: users see an error message, and not wrong outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.work import Job, Outcome, Planned, Reading, Work
from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile.files import temporary_folder
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model
    from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict

Stages = Callable[[Job, Work, Outcome], "Model | None"]


@record(frozen=True, slots=True)
class _Result:
    """A result: its file, its steps, and the verdicts of the consumers."""

    path: str
    outcome: Outcome
    verdicts: tuple[Verdict, ...]

    @property
    def accepted(self) -> bool:
        return all(verdict.accepts for verdict in self.verdicts)

    def hides_an_error(self, first: _Result) -> bool:
        """Whether a consumer that does not run the first result computes other outputs of this one."""
        return any(old.is_error and new.is_silent_error for old, new in zip(first.verdicts, self.verdicts, strict=True))

    @property
    def ranks(self) -> list[int]:
        return sorted(verdict.rank for verdict in self.verdicts)


def ask_all(consumers: Sequence[Consumer], path: str) -> tuple[Verdict, ...]:
    """The verdicts of consumers on a model."""
    from rewriter.trust.consumers.asking import ask

    return tuple(ask(consumer, Path(path)) for consumer in consumers)


def repair_and_ask(job: Job, work: Work, outcome: Outcome, repair: Stages, write: Stages) -> Model | None:
    """Does one job and records its result in `outcome`.

    Args:
        repair: from file to file by rules.
        write: writes what was read.

    Raises:
        RewriterError: the model cannot be read or the result not written.
    """
    from rewriter.app.batch.journal import named_at_once

    consumers = work.checking.consumers
    outcome.asked = ask_all(consumers, job.path)
    with temporary_folder() as folder, named_at_once():
        results: list[_Result] = []
        for path, found in _results(job, work, outcome, repair, folder):
            results.append(_Result(path, found, ask_all(consumers, path)))
            if results[-1].accepted:
                break
        honest = [one for one in results if not one.hides_an_error(results[0])]
        best = max(honest, key=lambda one: one.ranks)  # the first of them
        _take(outcome, best)
        outcome.output = None
        if job.target is None or (job.target == job.path and not outcome.changed):
            return None
        written = Outcome(job.path)
        model = write(Job(best.path, job.target), work, written)
    outcome.output = written.output
    outcome.stamps += [one for one in written.stamps if one.role.startswith("output")]
    return model


def _results(job: Job, work: Work, outcome: Outcome, repair: Stages, folder: Path) -> Iterator[tuple[str, Outcome]]:
    """The file and the outcome of each step."""
    path, done = str(folder / "0.onnx"), outcome
    repair(replace(job, target=path), work, done)
    yield path, done
    for number, step in enumerate(work.steps, 1):
        made = str(folder / f"{number}.onnx")
        try:
            log = _do(step, path, made, work, repair)
        except RewriterError as error:
            if done.log is not None:
                done.log.notes.append(f"{step.action}: not done: {error}")
            continue
        if log is not None:
            path, done = made, _joined(done, log, step.action)
            yield path, done


def _do(step: Planned, path: str, target: str, work: Work, repair: Stages) -> Outcome | None:
    """Takes a step. Returns None if it changes nothing. Raises RewriterError."""
    found = Outcome(path)
    if step.rules is not None:
        rewriting = replace(work.rewriting, rules=step.rules, tidy=work.rewriting.tidy or step.action == "optimize")
        repair(Job(path, target), replace(work, rewriting=rewriting, reading=Reading(source="none")), found)
        return found if found.changed else None
    from rewriter.core.graph.save import oldest_ir
    from rewriter.workbench.surgery.finish import Checks
    from rewriter.workbench.surgery.float_type import in_type
    from rewriter.workbench.surgery.opened import Opened
    from rewriter.workbench.surgery.opset_conversion import reversioned

    name, _, value = step.action.partition(" ")
    checks = Checks(work.checking.runtime, work.writing.stamp)
    source = Opened(path)
    if name == "opset":  # a consumer that reads up to an opset reads up to the IR version of its time
        surgery = reversioned(source, int(value), oldest_ir(int(value)), checks=checks)
    else:
        surgery = in_type(source, value, checks=checks)
    surgery.save(Path(target))
    return found


def _joined(done: Outcome, outcome: Outcome, action: str) -> Outcome:
    """The outcome of a further step, with the steps before it."""
    assert done.log is not None
    log = replace(done.log, notes=list(done.log.notes))
    if outcome.log is not None:
        count = len(log.firings)
        more = [
            replace(one, number=one.number + count, parents=tuple(parent + count for parent in one.parents))
            for one in outcome.log.firings
        ]
        log = replace(log, firings=[*log.firings, *more], rolled_back=[*log.rolled_back, *outcome.log.rolled_back])
    remaining = outcome.remaining if outcome.log is not None else done.remaining
    return replace(done, log=log, remaining=remaining, steps=(*done.steps, action), tidied=done.tidied + outcome.tidied)


def _take(outcome: Outcome, best: _Result) -> None:
    """Replaces the outcome of the job by the outcome of the best result."""
    outcome.log, outcome.remaining, outcome.tidied = best.outcome.log, best.outcome.remaining, best.outcome.tidied
    outcome.steps, outcome.asked_after = best.outcome.steps, best.verdicts
