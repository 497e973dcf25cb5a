"""Reads attribute texts of source files: numbers, booleans, None, strings, tuples and lists of these, and nothing else.

Frameworks print Python values, of either Python (`(3L, 3L)`, `u'same'`); files come from strangers, so there is no `eval` here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Union

Value = Union[bool, int, float, str, None, "list[Value]"]

MAX_LENGTH = 1 << 16
MAX_DEPTH = 16
_TOKEN = (
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[lL]?(?![\w.])"
    r"|(?P<string>[uU]?(?:'[^'\\]*'|\"[^\"\\]*\"))|(?P<word>[+-]?[A-Za-z_]\w*)|(?P<mark>[\[\](),]))"
)
_WORDS: dict[str, bool | float | None] = {
    "true": True,
    "false": False,
    "none": None,
    "null": None,
    "inf": float("inf"),
    "+inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class NotOfType(ValueError):
    """The text is no literal of the wanted type."""


def parse_literal(text: str) -> Value:
    """The value that a text is a literal of; the text itself where it is none."""
    try:
        return _parse(text)
    except NotOfType:
        return text


def parse_as(text: str, like: Value) -> Value:
    """The text as a value of the type of `like`.

    Raises:
        NotOfType: the text is not one.
    """
    if isinstance(like, str):
        return text
    plain = text.strip().lower()
    if plain in ("none", "null"):
        return None
    if isinstance(like, bool):
        if plain not in _TRUTHS:
            raise NotOfType(text)
        return _TRUTHS[plain]
    value = _parse(text)
    if isinstance(like, list):
        return value if isinstance(value, list) else [value]
    if isinstance(value, float) and isinstance(like, int) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float) and isinstance(like, int)):
        raise NotOfType(text)
    return float(value) if isinstance(like, float) else value


def _parse(text: str) -> Value:
    if len(text) > MAX_LENGTH:
        raise NotOfType(text)
    if text.isascii() and text.isdigit():
        return _number(text)  # as most of them are
    tokens = _tokens(text)
    value = _value(next(tokens, ("end", "")), tokens, 0)
    if next(tokens, None) is not None:
        raise NotOfType(text)
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    token = re.compile(_TOKEN)  # once a process, and not in the many that read no source file
    while position < end:
        found = token.match(text, position)
        if found is None or found.lastgroup is None:
            raise NotOfType(text)
        yield found.lastgroup, found[found.lastgroup]
        position = found.end()


def _value(token: tuple[str, str], tokens: Iterator[tuple[str, str]], depth: int) -> Value:
    kind, text = token
    if kind == "number":
        return _number(text)
    if kind == "string":
        return text.lstrip("uU")[1:-1]
    if kind == "word" and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if kind == "mark" and text in "[(" and depth < MAX_DEPTH:
        return _items("]" if text == "[" else ")", tokens, depth + 1)
    raise NotOfType(text)


def _number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", text):
        if len(text) > 20:  # beyond 64 bits
            raise NotOfType(text)
        return int(text)
    return float(text)


def _items(closing: str, tokens: Iterator[tuple[str, str]], depth: int) -> list[Value]:
    """The items up to the closing mark; `(3)` and `(3,)` are both one item, as MXNet reads them."""
    items: list[Value] = []
    while True:
        token = next(tokens, ("end", ""))
        if token == ("mark", closing):
            return items
        items.append(_value(token, tokens, depth))
        token = next(tokens, ("end", ""))
        if token == ("mark", closing):
            return items
        if token != ("mark", ","):
            raise NotOfType(closing)
