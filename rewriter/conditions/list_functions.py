"""Functions of expressions on lists, numbers and texts; a list may hold unknown items, which spoil only what looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewriter.conditions.context import Context
from rewriter.conditions.operators import compare, contains, truth
from rewriter.conditions.rule_values import LIST_LIMIT, UNKNOWN, DType, Failure, Symbol, check_shape, plain


def _all(context: Context, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return bool(np.all(value))
    if not isinstance(value, list):
        return truth(value)
    answers = [_element(item) for item in value]
    return False if False in answers else UNKNOWN if UNKNOWN in answers else True


def _any(context: Context, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return bool(np.any(value))
    if not isinstance(value, list):
        return truth(value)
    answers = [_element(item) for item in value]
    return True if True in answers else UNKNOWN if UNKNOWN in answers else False


def _element(item: Any) -> Any:
    """An element of a list counts as the same element of an array does: a number is true unless it is 0."""
    return item != 0 if isinstance(item, int | float) else truth(item)


def _range(context: Context, *bounds: int) -> list[int]:
    if any(isinstance(bound, Symbol) for bound in bounds):
        raise Failure("a dimension known by name only is no bound")
    numbers = range(*bounds)
    if len(numbers) > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    return list(numbers)


def _sorted(context: Context, items: Any) -> Any:
    return np.sort(items, axis=None) if isinstance(items, np.ndarray) else sorted(items)


def _reversed(context: Context, items: Any) -> Any:
    return items[::-1]


def _set(context: Context, items: Any) -> list[Any]:
    return sorted({plain(item) for item in _listed(items)})


def _listed(items: Any) -> list[Any]:
    """What a list or an array holds, one by one; a list takes more than ten times the memory of an array."""
    if not isinstance(items, np.ndarray):
        return list(items)
    if items.size > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    listed: list[Any] = items.ravel().tolist()
    return listed


def _index(context: Context, items: Any, item: Any) -> Any:
    for at, other in enumerate(_listed(items)):
        same = compare("==", other, item)
        if same is UNKNOWN:
            return UNKNOWN
        if same:
            return at
    raise Failure("the item is not in the list")


def _count(context: Context, items: Any, item: Any) -> Any:
    answers = [compare("==", other, item) for other in _listed(items)]
    return UNKNOWN if UNKNOWN in answers else answers.count(True)


def _take(context: Context, items: Any, at: Any, axis: int | None = None) -> Any:
    if isinstance(items, np.ndarray):
        if isinstance(at, slice):
            at = range(*at.indices(items.size if axis is None else items.shape[axis]))
        places = np.asarray(at, dtype=np.int64)
        others = 1 if axis is None else items.size // max(items.shape[axis], 1)
        check_shape((places.size, others), items.itemsize)
        return np.take(items, places, axis)
    if axis not in (None, 0):
        raise Failure("a list has one axis")
    if isinstance(at, slice):
        return items[at]
    places = np.asarray(at, dtype=np.int64)
    return items[int(places)] if places.ndim == 0 else [items[place] for place in places.ravel().tolist()]


def _without(context: Context, items: list[Any], unwanted: list[Any]) -> Any:
    if any(item is UNKNOWN or isinstance(item, Symbol) for item in unwanted):
        return UNKNOWN
    return [item for item in items if contains(item, unwanted) is not True]


def _nonzero(context: Context, items: Any) -> Any:
    return _listed(np.flatnonzero(np.asarray(items)))


def _argsort(context: Context, items: Any) -> Any:
    return _listed(np.argsort(np.asarray(items), axis=None, kind="stable"))


def _float(context: Context, value: Any) -> float:
    return float(value.item() if isinstance(value, np.ndarray) else value)


def _int(context: Context, value: Any) -> int:
    return int(value.item() if isinstance(value, np.ndarray) else value)


def _str(context: Context, value: Any) -> str:
    return "true" if value is True else "false" if value is False else repr(value) if isinstance(value, DType) else str(value)


def _replace(context: Context, text: str, old: str, new: str) -> str:
    if len(text) * max(1, len(new)) > LIST_LIMIT * 16:
        raise Failure("the text is too long")
    return text.replace(old, new)


def _glob(context: Context, text: str, pattern: str) -> bool:
    """In time proportional to the product of both lengths, whatever they are."""
    at = place = 0
    star, resumed = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, resumed, place = place, at, place + 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star < 0:
            return False
        else:
            resumed += 1
            at, place = resumed, star + 1
    return not pattern[place:].strip("*")


def _last_part(context: Context, text: str, separator: str) -> str:
    if not separator:
        raise Failure("the separator is empty")
    return text.rpartition(separator)[2]


BODIES: dict[str, Callable[..., Any]] = {
    "all": _all,
    "any": _any,
    "len": lambda context, items: len(items),
    "range": _range,
    "sorted": _sorted,
    "reversed": _reversed,
    "set": _set,
    "index": _index,
    "count": _count,
    "take": _take,
    "without": _without,
    "nonzero": _nonzero,
    "argsort": _argsort,
    "float": _float,
    "int": _int,
    "str": _str,
    "startswith": lambda context, text, part: text.startswith(part),
    "endswith": lambda context, text, part: text.endswith(part),
    "contains": lambda context, items, item: contains(item, items),
    "glob": _glob,
    "lower": lambda context, text: text.lower(),
    "replace": _replace,
    "last_part": _last_part,
}
