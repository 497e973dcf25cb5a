"""Values that people type: numbers, lists, and arrays in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rewriter.errors import RewriterError
from rewriter.proof.models.array_files import opened_arrays

FILE = "@"
"""What begins the name of a file with a value."""


def literal(text: str) -> Any:
    """A number, a list of these, or a text as it is. Raises RewriterError for a broken list."""
    shown = text.strip()
    if shown.startswith("[") or _number(shown) is not None:
        try:
            return json.loads(shown)
        except ValueError:
            if (number := _number(shown)) is not None:
                return number
            raise RewriterError(f'{text!r} is no list of numbers or texts, as [1, 2] or ["a"]') from None
    return {"true": True, "false": False}.get(shown.lower(), text)


def array(text: str, name: str, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """`@FILE.npy`, `@FILE.npz` (the array of this name), a number or a list.

    Raises:
        RewriterError: the file cannot be read or does not hold the array, or the text is no value.
    """
    if text.startswith(FILE):
        return _from_file(Path(text.removeprefix(FILE)), name)
    value = literal(text)
    if isinstance(value, str):
        raise RewriterError(f"{text!r} is no value for {name!r}; write a number, a list, or @FILE.npy")
    try:
        found = np.asarray(value)
        return found if dtype is None else found.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise RewriterError(f"{text!r} is no value for {name!r}: {error}") from None


def _from_file(path: Path, name: str) -> np.ndarray[Any, Any]:
    with opened_arrays(path) as arrays:
        if isinstance(arrays, np.ndarray):
            return arrays
        if name not in arrays.files:
            raise RewriterError(f"{path}: there is no array {name!r} in it; it has {', '.join(arrays.files[:8])}")
        return np.asarray(arrays[name])


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
