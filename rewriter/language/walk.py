"""Going over a syntax tree without recursion: a stranger's rule may nest deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from rewriter.language import ast


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if not field.name.endswith("span"))


def children(node: Any) -> Iterator[Any]:
    """The records directly inside one record, in the order of the text."""
    for name in _fields(node.__class__):
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item):
                yield item


def walk(node: Any) -> Iterator[Any]:
    """The record (or each of a tuple of records) itself and every record inside it, outer ones first, in the order of the
    text.
    """
    stack = list(reversed(node)) if isinstance(node, tuple) else [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(list(children(top))))


def depth(node: Any) -> int:
    """How deep records nest; 1 for a record without records inside."""
    deepest = 0
    stack = [(node, 1)]
    while stack:
        top, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children(top))
    return deepest


def pattern_nodes(match: ast.Match) -> Iterator[ast.NodePattern]:
    """Every node of a pattern, nested operands right after the node that reads them."""
    for record in walk(match):
        if isinstance(record, ast.NodePattern):
            yield record
