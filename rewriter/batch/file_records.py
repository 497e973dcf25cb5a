"""Hashes of the files that a job reads and writes, for its report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.errors import RewriterError
from rewriter.report.document import FileRecord, FileRole

if TYPE_CHECKING:
    from rewriter.graph.model import Model

_AT_ONCE = 1 << 20  # bytes


def records_of(role: Literal["input", "output"], path: str, model: Model | None, folder: Path) -> Iterator[FileRecord]:
    """The records of a model's file and, when the model is given, of the files beside it with its weights."""
    yield file_record(role, path)
    data_role: FileRole = "input data" if role == "input" else "output data"
    for location in () if model is None else _locations(model):
        yield _data_record(data_role, folder, location)


def file_record(role: FileRole, path: str) -> FileRecord:
    """The record of a file; without hash and size when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return FileRecord(role, path, *_digest(file.fileno()))
    except (OSError, ValueError):
        return FileRecord(role, path, None, None)


def _data_record(role: FileRole, folder: Path, location: str) -> FileRecord:
    from rewriter.onnxfile import external_data

    try:
        with external_data.opened(folder, location) as (descriptor, _):
            return FileRecord(role, location, *_digest(descriptor))
    except (RewriterError, OSError):
        return FileRecord(role, location, None, None)


def _digest(descriptor: int) -> tuple[str, int]:
    found, size = sha256(), 0
    while data := os.read(descriptor, _AT_ONCE):
        found.update(data)
        size += len(data)
    return found.hexdigest(), size


def _locations(model: Model) -> list[str]:
    """Files that a model refers to."""
    from rewriter.proof.models.validity import Candidate

    try:
        return sorted({reference.location for reference in Candidate(model).references})
    except RewriterError:
        return []
