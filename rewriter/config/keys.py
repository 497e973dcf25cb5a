"""The keys that a configuration may have, and what may stand behind each. A key is called as its option is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rewriter.record import record

MOST = 1_000_000_000


@record(frozen=True, slots=True)
class Setting:
    """One key.

    Attributes:
        default: what holds when nobody says anything.
        wanted: what its value must be, in words.
        takes: whether a value is such.
        one_path: whether it may differ from model to model.
    """

    default: Any
    wanted: str
    takes: Callable[[Any], bool]
    one_path: bool = False


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 1e9


def _is_size(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,11}[KMGkmg]?", value) is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_set(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        all(map(_is_parameter, inner.values())) if isinstance(inner, dict) else "." in code and _is_parameter(inner)
        for code, inner in value.items()
    )


def _is_parameter(value: Any) -> bool:
    if isinstance(value, list):
        return all(type(item) is int for item in value)
    return isinstance(value, (str, int, float))


SETTINGS: dict[str, Setting] = {
    "rules": Setting(None, 'a list of rule files and folders, "shipped" or "pack:NAME"', is_texts),
    "extend": Setting([], 'a list of rule files and folders, or "pack:NAME"', is_texts),
    "select": Setting([], 'a list of codes, such as ["DEFAULT", "PT"]', is_texts, one_path=True),
    "ignore": Setting([], 'a list of codes, such as ["MX003"]', is_texts, one_path=True),
    "target": Setting([], 'a list of consumers, such as ["tensorrt"]', is_texts),
    "guess": Setting(False, "true or false", _is_flag),
    "set": Setting([], "a table of parameters by CODE.parameter", _is_set, one_path=True),
    "source": Setting("auto", '"auto", "none" or a file', is_text, one_path=True),
    "constant-inputs": Setting("auto", '"auto", "yes" or "no"', ("auto", "yes", "no").__contains__, one_path=True),
    "jobs": Setting(1, "a positive number", _is_count),
    "time-limit": Setting(60, "a time in seconds", _is_time),
    "memory-limit": Setting(None, 'a size, such as "8G"', _is_size),
    "max-firings": Setting(None, "a positive number", _is_count),
    "timeout": Setting(None, "a time in seconds", _is_time),
    "tidy": Setting(False, "true or false", _is_flag),
    "verify": Setting(False, "true or false", _is_flag),
    "stamp": Setting(True, "true or false", _is_flag),
}

TABLES = {
    "suppress": {"rule": True, "reason": True, "node": False, "path": False},
    "per-path": {"path": True, **{name: False for name, setting in SETTINGS.items() if setting.one_path}},
}
"""Arrays of tables, with their keys and whether a key must be there."""
