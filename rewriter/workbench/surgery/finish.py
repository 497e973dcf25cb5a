"""The end of every surgery: the result is compared with the model before, checked, and gets a record of the command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from rewriter import __version__
from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model import Model, drop_stale_training
from rewriter.core.record import record
from rewriter.trust.proof.validity import JUDGES, MOST_BYTES, MOST_BYTES_TO_RUN, RUNTIME, Candidate
from rewriter.trust.stamp import RecordedRun, Unreadable, dumps, history
from rewriter.workbench.surgery.data_files import save
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.same_numbers import Agreement

# A command as it is recorded and shown: with its options, but no names of files.


def command_text(name: str, options: Iterable[tuple[str, Iterable[str]]], **switches: bool) -> str:
    """`extract --from a,b --to c --auto-inputs`."""
    words = [name]
    for option, values in options:
        words += [word for value in values for word in (option, shlex.quote(value))]
    words += [f"--{switch.replace('_', '-')}" for switch, on in switches.items() if on]
    return " ".join(words)


# The record of a surgery in the model that it made: the command, and the digests of its inputs.


def record_command(model: Model, command: str, digest: str, others: Sequence[str] = ()) -> str:
    """Adds a command to the record in a model's metadata; returns why it was not added, "" if it was.

    Args:
        model: the result.
        command: the command with its options, but no names of files.
        digest: SHA-256 of the model before; `others` are the digests of further models.
    """
    try:
        before = history(model.metadata)
    except Unreadable as error:
        return f"no record was written: the metadata entry {HISTORY} cannot be read ({error})"
    run = RecordedRun(version=__version__, input=digest, rules={}, rule_set="", command=command, others=tuple(others))
    model.metadata[HISTORY] = dumps((*before, run))
    return ""


# No result of a surgery is less valid than the models before it, as far as the checkers of `fix` determine.


def check_result(result: Model, before: Callable[[], Sequence[Model]], *, runtime: bool = True) -> tuple[Candidate, list[str]]:
    """Checks a result with the checkers of `fix`.

    Args:
        result: the model.
        before: reads the models before; they are checked only if the result is rejected.
        runtime: whether to run ONNX Runtime as well.

    Returns:
        The checked result, and notes: checkers that reject the result and a model before, or gave no verdict.

    Raises:
        RewriterError: a checker rejects the result and accepts all models before.
    """
    candidate = Candidate(result)
    judges = [name for name in JUDGES if runtime or name not in RUNTIME]
    notes = []
    if candidate.first_refusal(judges) is not None:
        others = [Candidate(model) for model in before()]
        for name in judges:
            reason = candidate.refusal(name)
            if not reason:
                continue
            if all(other.refusal(name) == "" for other in others):
                raise RewriterError(f"no file was written, because {name} rejects the result: {reason}")
            notes.append(f"still rejected by {name}: {reason}")
    notes += candidate.unanswered.values()
    return candidate, notes


Numbers = Callable[[Candidate, int], Agreement]
"""Compares the outputs of a result; the number is the size of models that are run."""


@record(frozen=True, slots=True)
class Checks:
    """How a result is checked.

    Attributes:
        runtime: whether to run ONNX Runtime; "auto": models of moderate size are also run, "yes": so are large ones.
        stamp: whether a record of the command is left in the model.
    """

    runtime: Literal["no", "auto", "yes"] = "auto"
    stamp: bool = True


@record(slots=True)
class Surgery:
    """The outcome of a surgery.

    Attributes:
        model: the result.
        did: what was done, a line each.
        notes: further lines to print.
        same: whether the result ran and computed the same as the models before; None if it was not run.
        write: writes the result to a file, with `force` or not, if it needs a special way of writing; it may add notes.
    """

    model: Model
    did: list[str]
    notes: list[str]
    same: bool | None = None
    write: Callable[[Path, bool], list[Path]] | None = None

    def save(self, target: Path, *, force: bool = False) -> list[Path]:
        """Writes the result and returns the files that were written. Raises RewriterError."""
        return self.write(target, force) if self.write is not None else save(self.model, target, force=force)


def size_of_runs(checks: Checks) -> int:
    """Limit for the bytes of models that are run."""
    return MOST_BYTES if checks.runtime == "yes" else MOST_BYTES_TO_RUN


def finish(
    model: Model,
    sources: Sequence[Opened],
    command: str,
    did: list[str],
    notes: list[str],
    checks: Checks | None,
    numbers: Numbers | None = None,
) -> Surgery:
    """Checks and records a result, with the default checks if `checks` is None.

    Raises:
        RewriterError: the result is less valid than the models before, or computes something else.
    """
    checks = checks or Checks()
    notes = [*notes, *drop_stale_training(model.training_info, model.graph)]
    candidate, findings = check_result(model, lambda: [source.read() for source in sources], runtime=checks.runtime != "no")
    done = Surgery(model, did, [*notes, *findings])
    if numbers is not None and checks.runtime != "no" and not findings:
        found = numbers(candidate, size_of_runs(checks))
        if found.difference:
            raise RewriterError(f"no file was written, because the result computes other output: {found.difference}")
        done.same = True if found.ran else None
        if not found.ran:
            done.notes.append(f"the outputs were not compared: {found.reason}")
    if checks.stamp:
        digests = [source.digest(model if number == 0 else None) for number, source in enumerate(sources)]
        if why := record_command(model, command, digests[0], digests[1:]):
            done.notes.append(why)
    return done
