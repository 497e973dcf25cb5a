"""The source information that belongs to a model, by what `--source` says."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rewriter.errors import RewriterError

if TYPE_CHECKING:
    from rewriter.graph.model import Model
    from rewriter.source.info import SourceInfo


def source_of(model: Model, path: str, choice: str) -> tuple[SourceInfo | None, list[str]]:
    """The source information to use, and what is to be said about it.

    A file that was merely found beside the model is used only if it is readable and about this model.
    """
    from rewriter.source.find import find

    if choice == "none":
        return None, []
    if choice != "auto":
        return _read_source(choice), []
    found = find(path)
    if found is None:
        return None, []
    try:
        source = _read_source(str(found))
    except RewriterError as error:
        return None, [f"source file not used: {error}"]
    if not any(source.node_for(node.name, [tensor.name for tensor in node.outputs]) for node in model.graph.nodes):
        return None, [f"source file not used: no node of the model is in {found}"]
    return source, []


@lru_cache(maxsize=4)
def _read_source(path: str) -> SourceInfo:
    from rewriter.source.find import load_source

    return load_source(path)
