"""Functions of rule expressions on values: lists, numbers, texts and arrays of constants.

`evaluate` calls them by the names of `language.functions`. Lists may hold unknown items, which a function passes on; arrays
are NumPy's, under the names and with the argument order of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewriter.core.conditions.recorded_graph import RecordedGraph
from rewriter.core.conditions.rule_values import (
    LIST_LIMIT,
    MATRIX_LIMIT,
    UNKNOWN,
    DType,
    Failure,
    as_array,
    check_shape,
    compare,
    contains,
    has_unknown,
    plain,
)

# Functions of expressions on lists, numbers and texts; unknown items of a list affect only functions that read them.


def _sorted(context: RecordedGraph, items: Any) -> Any:
    return np.sort(items, axis=None) if isinstance(items, np.ndarray) else sorted(items)


def _reversed(context: RecordedGraph, items: Any) -> Any:
    return items[::-1]


def _set(context: RecordedGraph, items: Any) -> list[Any]:
    return sorted({plain(item) for item in _listed(items)})


def _listed(items: Any) -> list[Any]:
    """The items of a list or an array, one by one. A list takes more than ten times the memory of an array."""
    if not isinstance(items, np.ndarray):
        return list(items)
    if items.size > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    listed: list[Any] = items.ravel().tolist()
    return listed


def _index(context: RecordedGraph, items: Any, item: Any) -> Any:
    for at, other in enumerate(_listed(items)):
        same = compare("==", other, item)
        if same is UNKNOWN:
            return UNKNOWN
        if same:
            return at
    raise Failure("the item is not in the list")


def _count(context: RecordedGraph, items: Any, item: Any) -> Any:
    answers = [compare("==", other, item) for other in _listed(items)]
    return UNKNOWN if UNKNOWN in answers else answers.count(True)


def _take(context: RecordedGraph, items: Any, at: Any, axis: int | None = None) -> Any:
    if isinstance(at, list) and has_unknown(at):
        return UNKNOWN
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


def _without(context: RecordedGraph, items: list[Any], unwanted: list[Any]) -> Any:
    if has_unknown(unwanted):
        return UNKNOWN
    return [item for item in items if contains(item, unwanted) is not True]


def _nonzero(context: RecordedGraph, items: Any) -> Any:
    return _listed(np.flatnonzero(np.asarray(items)))


def _argsort(context: RecordedGraph, items: Any) -> Any:
    return _listed(np.argsort(np.asarray(items), axis=None, kind="stable"))


def _float(context: RecordedGraph, value: Any) -> float:
    return float(value.item() if isinstance(value, np.ndarray) else value)


def _int(context: RecordedGraph, value: Any) -> int:
    return int(value.item() if isinstance(value, np.ndarray) else value)


def _str(context: RecordedGraph, value: Any) -> str:
    return "true" if value is True else "false" if value is False else repr(value) if isinstance(value, DType) else str(value)


def _replace(context: RecordedGraph, text: str, old: str, new: str) -> str:
    if len(text) * max(1, len(new)) > LIST_LIMIT * 16:
        raise Failure("the text is too long")
    return text.replace(old, new)


def _glob(context: RecordedGraph, text: str, pattern: str) -> bool:
    """Takes time proportional to the product of both lengths, for any pattern."""
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


def _last_part(context: RecordedGraph, text: str, separator: str) -> str:
    if not separator:
        raise Failure("the separator is empty")
    return text.rpartition(separator)[2]


LIST_BODIES: dict[str, Callable[..., Any]] = {
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
    "is_ascii": lambda context, text: text.isascii(),
    "replace": _replace,
    "last_part": _last_part,
    "to_list": lambda context, value: _listed(value) if isinstance(value, np.ndarray) else value,
}


def element_type(dtype: int) -> np.dtype[Any]:
    """NumPy's (or ml_dtypes') type for a TensorProto element type."""
    from onnx import helper

    return np.dtype(helper.tensor_dtype_to_np_dtype(int(dtype)))


# Functions of expressions on whole arrays.

_FLOAT = DType(1)


def _of_known(body: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values that are known as a whole. It is unknown if an item of a list is."""

    def call(context: RecordedGraph, *arguments: Any) -> Any:
        if any(isinstance(value, list) and has_unknown(value) for value in arguments):
            return UNKNOWN
        return body(*arguments)

    return call


def _mapped(function: Callable[..., Any], *, as_float: bool = False) -> Callable[..., Any]:
    """A NumPy function over an array, a list (giving a list) or one number (giving a number)."""

    def call(value: Any, *more: Any) -> Any:
        known = _array(value)
        if as_float and isinstance(known, np.ndarray) and known.dtype.kind in "iub":
            known = known.astype(np.float64)
        _check_together(known, *more)
        result = function(known, *more)
        if isinstance(value, list):
            return np.asarray(result).tolist()
        if isinstance(known, np.ndarray) and not as_float:
            return np.asarray(result)
        return np.asarray(result, dtype=known.dtype) if isinstance(known, np.ndarray) else np.asarray(result).item()

    return call


def _array(value: Any) -> Any:
    """A list as an array, any other value as it is."""
    return as_array(value) if isinstance(value, list) else value


def _whole(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """floor, ceil, round: of a single number as an int, so that it can be a dimension."""
    mapped = _mapped(function)

    def call(value: Any) -> Any:
        result = mapped(value)
        if isinstance(value, np.ndarray):
            return result
        return [int(item) for item in result] if isinstance(result, list) else int(result)

    return call


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any, axes: Any = None) -> Any:
        known = _array(value)
        axis = _axes(axes)
        result = function(known, axis=axis)
        dtype = np.asarray(known).dtype
        if axis is None and (isinstance(value, list) or np.ndim(known) <= 1):
            return np.asarray(result).item()
        return np.asarray(result, dtype=dtype if dtype.kind == "f" else None)

    return call


def _extreme(whole: Callable[[Any], Any], pairwise: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """min, max: the extreme element of one value, or element by element of several."""

    def call(*values: Any) -> Any:
        parts = list(map(_array, values))
        if len(parts) == 1:
            return np.asarray(whole(parts[0])).item()
        result = parts[0]
        for part in parts[1:]:
            _check_together(result, part)
            result = pairwise(result, part)
        return result if any(isinstance(value, np.ndarray) for value in values) else np.asarray(result).tolist()

    return call


def _shape(shape: Any, item_bytes: int = 1) -> tuple[int, ...]:
    """A shape that a constant may have."""
    dims = [shape] if isinstance(shape, int) else list(shape)
    if any(not isinstance(dim, int) or isinstance(dim, bool) or dim < 0 for dim in dims):
        raise Failure(f"{dims} is no shape")
    check_shape(dims, item_bytes)
    return tuple(dims)


def _check_together(*values: Any) -> None:
    """Raises Failure if NumPy would make too large an array of these, each stretched to the shape of the others."""
    check_shape(np.broadcast_shapes(*map(np.shape, values)))


def _full(shape: Any, value: Any, dtype: Any = None) -> Any:
    if dtype is not None:
        kind = element_type(dtype)
    else:
        kind = np.dtype(np.float32) if isinstance(value, float) else np.asarray(value).dtype
    return np.full(_shape(shape, kind.itemsize), value, dtype=kind)


def _axes(axes: Any) -> Any:
    """One axis, all (None), or several as NumPy wants them."""
    return tuple(axes) if isinstance(axes, list) else axes


def _concat(*parts: Any) -> Any:
    *arrays, axis = parts
    if isinstance(axis, list | np.ndarray):
        raise Failure("the last argument of `concat` is the axis")
    known = list(map(_array, arrays))
    check_shape((sum(map(np.size, known)),), max((np.asarray(part).itemsize for part in known), default=1))
    return np.concatenate(known, axis=axis)


def _matmul(left: Any, right: Any) -> Any:
    if np.ndim(left) > 1 and np.ndim(right) > 1:
        check_shape((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]), left.itemsize)
    return np.matmul(left, right)


def _inverse(matrix: Any) -> Any:
    """In double precision, then in the type of the matrix."""
    if np.ndim(matrix) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise Failure("only a square matrix has an inverse")
    if len(matrix) > MATRIX_LIMIT:
        raise Failure(f"a matrix of more than {MATRIX_LIMIT} rows")
    try:
        return np.linalg.inv(matrix.astype(np.float64)).astype(matrix.dtype)
    except np.linalg.LinAlgError as error:
        raise Failure("the matrix has no inverse") from error


def _where(*values: Any) -> Any:
    parts = list(map(_array, values))
    _check_together(*parts)
    result = np.where(*parts)
    return result if any(isinstance(value, np.ndarray) for value in values) else result.tolist()


def _tile(value: Any, times: Any) -> Any:
    known, counts = _array(value), _array(times)
    _shape([int(np.size(known)), int(np.prod(counts, dtype=object))], np.asarray(known).itemsize)
    return np.tile(known, counts)


def _repeat(value: Any, times: int, axis: Any = None) -> Any:
    known = _array(value)
    _shape([int(np.size(known)), times], np.asarray(known).itemsize)
    if isinstance(value, list) and np.size(known) * times > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    result = np.repeat(known, times, axis)
    return result.tolist() if isinstance(value, list) else result


def _pad(value: Any, pads: list[Any], fill: Any = 0) -> Any:
    known, half = _array(value), len(pads) // 2
    widths = list(zip(pads[:half], pads[half:], strict=True))
    _shape([dim + sum(width) for dim, width in zip(np.shape(known), widths, strict=True)], np.asarray(known).itemsize)
    return np.pad(known, widths, constant_values=fill)


_OF_KNOWN: dict[str, Callable[..., Any]] = {
    "abs": _mapped(np.abs),
    "sqrt": _mapped(np.sqrt, as_float=True),
    "exp": _mapped(np.exp, as_float=True),
    "log": _mapped(np.log, as_float=True),
    "sin": _mapped(np.sin, as_float=True),
    "floor": _whole(np.floor),
    "ceil": _whole(np.ceil),
    "round": _whole(np.rint),
    "sign": _mapped(np.sign),
    "clip": _mapped(np.clip),
    "isfinite": _mapped(np.isfinite),
    "isnan": _mapped(np.isnan),
    "sum": _reduced(np.sum),
    "prod": _reduced(np.prod),
    "mean": _reduced(np.mean),
    "min": _extreme(np.min, np.minimum),
    "max": _extreme(np.max, np.maximum),
    "array": as_array,
    "concat": _concat,
    "reshape": lambda value, shape: np.reshape(_array(value), shape),
    "transpose": np.transpose,
    "expand_dims": lambda value, axes: np.expand_dims(_array(value), _axes(axes)),
    "squeeze": lambda value, axes=None: np.squeeze(value, _axes(axes)),
    "zeros": lambda shape, dtype=_FLOAT: _full(shape, 0, dtype),
    "ones": lambda shape, dtype=_FLOAT: _full(shape, 1, dtype),
    "full": _full,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "full_like": np.full_like,
    "cast": lambda value, dtype: as_array(value).astype(element_type(dtype)),
    "where": _where,
    "matmul": _matmul,
    "inverse": _inverse,
    "tile": _tile,
    "repeat": _repeat,
    "pad": _pad,
    "flatten": np.ravel,
}
ARRAY_BODIES = {name: _of_known(body) for name, body in _OF_KNOWN.items()}
