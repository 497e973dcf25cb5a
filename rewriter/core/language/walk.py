"""Going over a syntax tree without recursion, and making one with some of its parts replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import getter, names, replace

LATER = frozenset({"maybe", "chain", "others", "either", "variants", "beside", "outlined"})
"""Fields that were added to records later. The text of a rule without them stays the same."""

_PLAIN = frozenset({str, int, bool, float, type(None)})
_WORDS = re.compile(r"\w+").findall
_NO_RECORDS = frozenset({"str", "int", "bool", "float", "None", "tuple"})
"""Words of the annotation of a field that never holds a record."""


@cache
def said(kind: Any) -> tuple[str, ...] | None:
    """The fields of a record except its place; None for a value that is no record."""
    found = names(kind)
    return None if found is None else tuple(name for name in found if not name.endswith("span"))


@cache
def _values(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of the fields that `said` names."""
    return getter(said(kind) or ())


@cache
def _inner(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The same of those fields that can hold records."""
    types = {name: text for base in reversed(kind.__mro__) for name, text in vars(base).get("__annotations__", {}).items()}
    return getter(tuple([name for name in said(kind) or () if not _NO_RECORDS.issuperset(_WORDS(types[name]))]))


def children(node: Any) -> list[Any]:
    """The records directly inside one record, in the order of the text."""
    found: list[Any] = []
    for value in _inner(node.__class__)(node):
        kind = value.__class__
        if kind is tuple:
            found += [item for item in value if said(item.__class__) is not None]
        elif said(kind) is not None:
            found.append(value)
    return found


def walk(node: Any) -> Iterator[Any]:
    """The record (or each of a tuple of records) itself and every record inside it, outer ones first, in the order of the
    text.
    """
    stack = list(reversed(node)) if isinstance(node, tuple) else [node]
    while stack:
        top = stack.pop()
        yield top
        stack += reversed(children(top))


def size(node: Any) -> int:
    """How many records there are in a record, itself included."""
    count, level = 0, [node]
    while level:
        count += len(level)
        level = [child for one in level for child in children(one)]
    return count


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
    stack = list(reversed(match.nodes))
    while stack:
        node = stack.pop()
        yield node
        stack += [operand for operand in reversed(node.inputs) if isinstance(operand, ast.NodePattern)]


def bound(part: Any) -> set[str]:
    """Every name that a pattern or one of its parts may bind."""
    names: set[str] = set()
    for one in walk(part):
        if isinstance(one, ast.Capture | ast.Variadic | ast.GraphItem | ast.Output):
            names.add(one.name or "")
        elif isinstance(one, ast.NodePattern) and one.label is not None:
            names.add(one.label)
        elif isinstance(one, ast.AttrPattern) and isinstance(one.value, ast.Name) and one.value.id not in DTYPES:
            names.add(one.value.id)
        elif isinstance(one, ast.TypePattern):
            names |= {dim for dim in one.dims or () if isinstance(dim, str)}
    return names - {""}


def canonical(value: Any, without: Collection[str] = ()) -> str:
    """A text that is the same for the same tree, independent of its place in the file.

    Fields `without` are left out. Fields that a later version of the language added are left out if they are empty.
    """
    if value.__class__ is tuple:
        return f"({','.join([canonical(part, without) for part in value])})"
    fields = said(value.__class__)
    if fields is None:
        return repr(value)
    parts = []
    for name, part in zip(fields, _values(value.__class__)(value), strict=True):
        if name not in without and (part or name not in LATER):
            parts.append(f"{name}={repr(part) if part.__class__ in _PLAIN else canonical(part, without)}")
    return f"{value.__class__.__name__}({','.join(parts)})"


# A syntax tree with some of its parts replaced.

Change = Callable[[Any], Any]


def rebuild(node: Any, change: Change) -> Any:
    """The record (or tuple of records) with `change` applied to every record in it, inner ones first.

    If `change` returns None, the record is left out of its tuple, or the field is None.
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
