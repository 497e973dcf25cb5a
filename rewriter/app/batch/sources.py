"""The source information that belongs to a model, by what `--source` says."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from rewriter.core.errors import RewriterError

if TYPE_CHECKING:
    from rewriter.core.framework.source_info import SourceInfo
    from rewriter.core.graph.model import Model

NOT_USED = "source file not used: "


def source_of(model: Model, path: str, choice: str) -> tuple[SourceInfo | None, list[str]]:
    """The source information to use, and what is to be said about it.

    A symbol file is used only if it is this model's own, whether it was found beside the model or named: a wrong one would have
    right numbers changed. A table that was named is believed. A file that was found need not even be readable.

    Raises:
        RewriterError: the file that was named cannot be read.
    """
    from rewriter.trust.source.find import find

    if choice == "none":
        return None, []
    found = find(path) if choice == "auto" else choice
    if found is None:
        return None, []
    try:
        source = _read_source(str(found))
    except RewriterError as error:
        if choice != "auto":
            raise
        return None, [f"{NOT_USED}{error}"]
    if choice != "auto" and not source.framework:
        return source, []
    from rewriter.trust.source.acceptance import objection

    reason = objection(source, model.graph)
    return (None, [f"{NOT_USED}{found} is not the file of this model: {reason}"]) if reason else (source, [])


def _read_source(path: str) -> SourceInfo:
    """The source information of a file, read once for the many models of a call."""
    try:
        found = os.stat(path)
    except OSError:
        return _read_again(path, (0, 0))
    return _read_again(path, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=4)
def _read_again(path: str, stamp: tuple[int, int]) -> SourceInfo:
    from rewriter.trust.source.find import load_source

    return load_source(path)
