"""TOML as this program writes it: whatever a name in a model holds is one line of printable text that reads back the same."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text(value: str) -> str:
    """A basic string. What is not printable (control characters, marks of direction) is written as an escape."""
    return '"' + "".join(_SHORT.get(c) or (c if c.isprintable() else _escape(c)) for c in value) + '"'


def _escape(c: str) -> str:
    number = ord(c)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def value(found: Any) -> str:
    """A text, truth value, number, list or table on one line. Raises TypeError for anything else."""
    if isinstance(found, str):
        return text(found)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float):
        return repr(found) if math.isfinite(found) else str(found)
    if isinstance(found, int):
        return str(found)
    if isinstance(found, Mapping):
        return "{ " + ", ".join(f"{key(str(name))} = {value(inner)}" for name, inner in found.items()) + " }" if found else "{}"
    if isinstance(found, Sequence):
        return "[" + ", ".join(map(value, found)) + "]"
    raise TypeError(f"TOML has no {type(found).__name__}")


def key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else text(name)


def comment(line: str) -> str:
    """A comment on one line."""
    return "# " + "".join(c if c.isprintable() else _escape(c) for c in line)
