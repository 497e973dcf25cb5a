"""The record of a surgery in the model that it made: the command, and what it was given."""

from __future__ import annotations

from collections.abc import Sequence

from rewriter import __version__
from rewriter.graph.metadata import HISTORY
from rewriter.graph.model import Model
from rewriter.provenance.history_record import RecordedRun, Unreadable, dumps, history


def record_command(model: Model, command: str, digest: str, others: Sequence[str] = ()) -> str:
    """Adds a command to the record in a model's metadata; why it was not added, "" when it was.

    Args:
        model: the result.
        command: with its options, without the names of files.
        digest: SHA-256 of the model that it was made of; `others` are those of further models.
    """
    try:
        before = history(model.metadata)
    except Unreadable as error:
        return f"no record was written: the metadata entry {HISTORY} cannot be read ({error})"
    run = RecordedRun(version=__version__, input=digest, rules={}, rule_set="", command=command, others=tuple(others))
    model.metadata[HISTORY] = dumps((*before, run))
    return ""
