"""TOML with line numbers: the standard library's parser reports the line of a syntax error, but not the line of a key."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rewriter.core.errors import RewriterError

Key = tuple[str | int, ...]
"""A way down into a document: names of keys and tables, positions in arrays of tables."""

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|\n|[\[\]{}=.]|[\w-]+|[^\S\n]+|.',
    re.DOTALL,
)
_WHERE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")
_OPENING, _CLOSING = "[{", "]}"


def parse(text: str, name: str) -> dict[str, Any]:
    """A document.

    Raises:
        RewriterError: the text is no TOML; the message has `name` and the line.
    """
    toml = import_module(
        "tomllib" if sys.version_info >= (3, 11) else "tomli"
    )  # needed by few calls, and costs each of them 10 ms
    try:
        found: dict[str, Any] = toml.loads(text)
        return found
    except (ValueError, RecursionError) as error:
        where = _WHERE.search(str(error))
        line = int(where[1]) if where and where[1] else text.count("\n") + 1
        said = str(error)[: where.start()] if where else "nested too deep"
        raise RewriterError(f"{name}:{line}: not TOML: {said[:1].lower()}{said[1:]}") from None


def lines(text: str) -> Mapping[Key, int]:
    """The lines of the keys and tables of a document that `parse` takes. Keys inside a value have none."""
    found: dict[Key, int] = {}
    arrays: dict[Key, int] = {}
    table: Key = ()
    line = 1
    parts: list[str] | None = []  # of the key that is being read, None inside a value
    depth = started = 0
    header = ""
    for token in _TOKEN.findall(text):
        if parts is None:
            depth += (token in _OPENING) - (token in _CLOSING)
            if token == "\n" and depth == 0:
                parts = []
        elif token == "[" and not parts:
            header += token
        elif token == "=" or (token == "]" and parts):
            key = tuple(parts)
            if header:
                table = _table(key, arrays, array=header == "[[")
                found.setdefault(table, started)
            else:
                for end in range(1, len(key) + 1):
                    found.setdefault((*table, *key[:end]), started)
            parts, depth, header = None, 0 if token == "=" else len(header) - 1, ""
        elif not token.isspace() and token[0] not in "#.":
            started = started if parts else line
            parts.append(token[1:-1] if token[0] in "\"'" else token)
        line += token.count("\n")
    return found


def line_of(found: Mapping[Key, int], key: Key) -> int:
    """The line of a key, or of the nearest key around it."""
    while key and key not in found:
        key = key[:-1]
    return found.get(key, 1)


def _table(key: tuple[str, ...], arrays: dict[Key, int], *, array: bool) -> Key:
    """The place that a header leads to: into the last element of each array of tables on the way."""
    way: Key = ()
    for number, part in enumerate(key):
        way = (*way, part)
        if array and number == len(key) - 1:
            arrays[way] = arrays.get(way, -1) + 1
        if way in arrays:
            way = (*way, arrays[way])
    return way
