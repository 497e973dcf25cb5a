"""What every surgery ends with: the result is judged and run, and a record is left in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.onnxfile.training import drop_stale_training
from rewriter.proof.models.running import MOST_BYTES
from rewriter.proof.models.validity import MOST_BYTES as MOST_LOADED
from rewriter.proof.models.validity import Candidate
from rewriter.record import record
from rewriter.surgery.data_files import save
from rewriter.surgery.judged import judge
from rewriter.surgery.opened import Opened
from rewriter.surgery.recorded_command import record_command
from rewriter.surgery.same_numbers import Agreement

Numbers = Callable[[Candidate, int], Agreement]
"""Compares the numbers of a result, given the size of models that are run."""


@record(frozen=True, slots=True)
class Checks:
    """How a result is checked.

    Attributes:
        runtime: whether ONNX Runtime is asked; "auto": models of moderate size are also run, "yes": large ones, too.
        stamp: a record of the command is left in the model.
    """

    runtime: Literal["no", "auto", "yes"] = "auto"
    stamp: bool = True


@record(slots=True)
class Surgery:
    """What a surgery made.

    Attributes:
        model: the result.
        did: what was done, a line each.
        notes: what else is to be said.
        same: whether it ran and computed what it was made of; None when it was not run.
        write: writes it to a file, with `force` or not, where that is not to be done as for any model; it may add notes.
    """

    model: Model
    did: list[str]
    notes: list[str]
    same: bool | None = None
    write: Callable[[Path, bool], list[Path]] | None = None

    def save(self, target: Path, *, force: bool = False) -> list[Path]:
        """Writes it; the files that were written. Raises RewriterError."""
        return self.write(target, force) if self.write is not None else save(self.model, target, force=force)


def size_of_runs(checks: Checks) -> int:
    """Bytes of models that are run."""
    return MOST_LOADED if checks.runtime == "yes" else MOST_BYTES


def finish(
    model: Model,
    sources: Sequence[Opened],
    command: str,
    did: list[str],
    notes: list[str],
    checks: Checks,
    numbers: Numbers | None = None,
) -> Surgery:
    """Checks and records a result.

    Raises:
        RewriterError: the result is less valid than what it was made of, or computes something else.
    """
    notes = [*notes, *drop_stale_training(model.training_info, model.graph)]
    candidate, judged = judge(model, lambda: [source.read() for source in sources], runtime=checks.runtime != "no")
    done = Surgery(model, did, [*notes, *judged])
    if numbers is not None and checks.runtime != "no" and not judged:
        found = numbers(candidate, size_of_runs(checks))
        if found.difference:
            raise RewriterError(f"the result computes something else, so nothing is written: {found.difference}")
        done.same = True if found.ran else None
        if not found.ran:
            done.notes.append(f"the numbers were not compared: {found.reason}")
    if checks.stamp:
        digests = [source.digest(model if number == 0 else None) for number, source in enumerate(sources)]
        if why := record_command(model, command, digests[0], digests[1:]):
            done.notes.append(why)
    return done
