"""A syntax tree with some of its parts replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewriter.language.walk import said
from rewriter.record import replace

Change = Callable[[Any], Any]


def rebuild(node: Any, change: Change) -> Any:
    """The record (or tuple of records) with `change` applied to every record in it, inner ones first.

    Where `change` gives None, the record is left out of the tuple that it stands in, or the field is None.
    """
    if type(node) is tuple:
        parts = [rebuild(part, change) for part in node]
        kept = tuple(part for part, old in zip(parts, node, strict=True) if part is not None or old is None)
        return node if len(kept) == len(node) and all(new is old for new, old in zip(kept, node, strict=True)) else kept
    fields = said(node.__class__)
    if fields is None:
        return node
    changed: dict[str, Any] = {}
    for name in fields:
        old = getattr(node, name)
        if type(old) is tuple or said(old.__class__) is not None:
            new = rebuild(old, change)
            if new is not old:
                changed[name] = new
    return change(replace(node, **changed) if changed else node)
