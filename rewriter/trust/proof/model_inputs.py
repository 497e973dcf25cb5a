"""Inputs for a whole model: made up for its declared types, or read from a file of arrays."""

from __future__ import annotations

import math
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import onnx
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0

from rewriter.core.errors import RewriterError, reason
from rewriter.core.isolation import budget
from rewriter.core.isolation.budget import size_text
from rewriter.core.language.operator_traits import TRAITS
from rewriter.core.onnxfile.files import write_file
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import record, replace

# Arrays in files of NumPy, which people pass as inputs, outputs or weights, and the messages about damaged files.

_NONE = "no .npy or .npz file"
_ZIP = b"PK"
_HEADERS = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}


@contextmanager
def opened_arrays(path: Path) -> Iterator[Any]:
    """The array of an .npy file, or the `NpzFile` of an .npz file, whose arrays are read when they are used.

    Their size is known before: a file of some megabytes may stand for any number of gigabytes.

    Raises:
        RewriterError: the file, or an array that is read from it, cannot be read, or takes more than the memory limit.
    """
    try:
        with open(path, "rb", opener=_not_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RewriterError(f"{path}: not a regular file")
            _check_size(file, path)
            file.seek(0)
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                yield found
                return
            with found as arrays:
                yield arrays
    except (RewriterError, MemoryError):
        raise
    except (OSError, ValueError, EOFError) as error:
        if "pickle" in str(error):  # NumPy would have the reader trust the file
            raise RewriterError(f"{path}: {_NONE}, or one of Python objects, which are not read") from None
        raise RewriterError(f"{path}: {reason(error)}") from error
    except Exception as error:  # zipfile and NumPy's reader have errors of their own for damaged files
        raise RewriterError(f"{path}: {_NONE}: {error}") from error


def _not_waiting(path: str, flags: int) -> int:
    """Opens a file, without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_size(file: BinaryIO, path: Path) -> None:
    """Raises RewriterError if the headers of the arrays are invalid, or declare too much memory."""
    most = budget.current().memory
    if file.read(len(_ZIP)) != _ZIP:
        file.seek(0)
        size = _declared(file, os.fstat(file.fileno()).st_size, str(path), whole=True)
    else:
        size = 0
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                with archive.open(member) as entry:
                    size += _declared(entry, member.file_size, f"{path}: {member.filename!r} in it", whole=False)
    if most is not None and size > most:
        raise RewriterError(f"{path}: its arrays take {size_text(size)}, more than the memory limit of {size_text(most)}")


def _declared(file: IO[bytes], available: int, name: str, *, whole: bool) -> int:
    """Bytes of the array that begins here, by its header. Raises RewriterError if there is none, or less data than declared."""
    if (start := file.read(len(MAGIC_PREFIX) + 2))[: len(MAGIC_PREFIX)] != MAGIC_PREFIX:
        raise RewriterError(f"{name}: {_NONE if whole else 'no array of NumPy'}")
    read = _HEADERS.get((start[-2], start[-1]))
    if read is None:
        raise RewriterError(f"{name}: an array in version {start[-2]}.{start[-1]} of the format, which is not read")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise RewriterError(f"{name}: {_NONE}, or one of Python objects, which are not read")
    size = math.prod(shape) * dtype.itemsize
    if size > available:
        raise RewriterError(f"{name}: cut short: its array takes {size:,} bytes, and there are {available:,}")
    return size


def read_inputs(path: str) -> dict[str, Any]:
    """All arrays of an .npz file by their names.

    Raises:
        RewriterError: the file cannot be read, is none, or takes more than the memory limit.
    """
    with opened_arrays(Path(path)) as arrays:
        if isinstance(arrays, np.ndarray):
            raise RewriterError(f"{path}: no .npz file, but a single array")
        return {name: arrays[name] for name in arrays.files}


_OF_RUN = b"inputs and outputs of a model that rewriter ran"
"""The comment of an .npz file, from which its outputs are known not to be those of the framework."""


def is_of_run(path: str) -> bool:
    """Whether `write_arrays` wrote an .npz file. Raises RewriterError for a file that cannot be read."""
    with opened_arrays(Path(path)) as arrays:
        return not isinstance(arrays, np.ndarray) and arrays.zip.comment == _OF_RUN


def write_arrays(path: Path, arrays: Mapping[str, Any], *, force: bool) -> None:
    """Writes inputs and outputs of a run as an .npz file, at once or not at all; texts as NumPy's own, since other objects
    would be pickled.

    Raises:
        RewriterError: the file exists or cannot be written.
    """

    def fill(descriptor: int) -> None:
        with open(descriptor, "wb", closefd=False) as file, zipfile.ZipFile(file, "w") as archive:
            archive.comment = _OF_RUN
            for name, value in arrays.items():
                array = np.asarray(value)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array.astype(str) if array.dtype == object else array, allow_pickle=False)

    write_file(path, fill, force)


# Tensors made up for the inputs of a model: ordinary numbers, and the edges at which wrong rewrites show.
#
# The same model always gets the same tensors: a draw depends on the position, name, type and shape of the input and on the
# number of the draw. Small tensors are not left to chance. A small float tensor has both signs, several draws together go
# through all edge values, and a tensor of integers or booleans with two elements holds two different values.

ORDINARY, POSITIVE, EDGES, LARGE, LIMITS, INFINITE = "ordinary", "positive", "edges", "large", "limits", "infinite"

FLOAT_EDGES = (0.0, -1.0, 1.0, -0.0, 0.5, -2.0, 2.0, -0.5, 3.0, -3.0, 1.5, -1.5, 10.0, -10.0, 0.1, -0.1)
INTEGER_EDGES = (-1, 2, 0, 5, 1, -2, 7, 3, -3, 4)
NOT_FINITE = (np.inf, -np.inf, np.nan)

MOST_STRATA = 4096
"""Larger tensors are drawn independently; they hold values of every sort all the same."""

MOST_LARGE = 1e5


@record(frozen=True, slots=True)
class Slot:
    """An input for which a tensor is made up.

    Attributes:
        name, position: of the input.
        code: element type, a TensorProto number.
        shape: of the tensor.
        sizing: whether its values decide sizes; then they stay small.
        limit: the largest finite number of the narrowest floating point type in which the model computes.
    """

    name: str
    position: int
    code: int
    shape: tuple[int, ...]
    sizing: bool = False
    limit: float = np.inf


def draw(slot: Slot, style: str, turn: int) -> Any:
    """A tensor of a style; `turn` numbers the draws of that style.

    Raises:
        RewriterError: the element type is unknown.
    """
    dtype = _dtype(slot)
    seed = [_STYLES.index(style), turn, slot.position, zlib.crc32(slot.name.encode()), *slot.shape]
    small = max(seed) < 1 << 32
    random = np.random.default_rng(np.array(seed, np.uint32) if small else seed)  # the same numbers in half the time
    if slot.code == onnx.TensorProto.STRING:
        return _cycled(random, slot, turn, np.array(["a", "b", "c", ""] if style == EDGES else ["a", "b", "c"], dtype=object))
    if slot.code == onnx.TensorProto.BOOL:
        return _cycled(random, slot, turn + _STYLES.index(style), np.array([False, True]))
    with np.errstate(all="ignore"):
        if not _is_float(dtype):
            return _integers(random, slot, style, turn, dtype)
        plain = slot.sizing and style not in (ORDINARY, POSITIVE)
        values = _FLOATS[ORDINARY if plain else style](random, slot, turn, dtype)
        return np.asarray(values, dtype=dtype)


def narrowest_limit(dtypes: list[Any]) -> float:
    """The largest finite number that all of these floating point types hold; infinite without any."""
    return min((float(_finfo(dtype).max) for dtype in dtypes), default=np.inf)


def _dtype(slot: Slot) -> Any:
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(slot.code)
    except KeyError:
        raise RewriterError(f"no value can be generated for input {slot.name!r}: element type {slot.code} is unknown") from None


def _finfo(dtype: Any) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@cache
def _is_float(dtype: Any) -> bool:
    try:
        _finfo(dtype)
    except ValueError:
        return False
    return True


# --- integers, booleans, strings ----------------------------------------------------------------------------------------


def _integers(random: np.random.Generator, slot: Slot, style: str, turn: int, dtype: Any) -> Any:
    import ml_dtypes

    bounds = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    low, high = int(bounds.min), int(bounds.max)
    if style in (ORDINARY, POSITIVE):
        values = [0, 1] if style == ORDINARY else [0, 1, 2, 3]
    elif style == EDGES or slot.sizing:
        values = list(INTEGER_EDGES)
    elif style == LARGE:
        values = random.integers(4, 100, 16).tolist()
    elif style == LIMITS:  # the least number is left out: divided by -1 it ends the process
        values = [high, -high, high // 2 + 1, 1, 0, -1]
    else:
        values = [0, 1, 2, 3]
    fitting = [value for value in values if low <= value <= high] or [high]
    return _cycled(random, slot, turn, np.array(fitting, dtype=dtype))


def _cycled(random: np.random.Generator, slot: Slot, turn: int, pool: Any) -> Any:
    """Elements of a pool, each as often as the others. The first ones of a small tensor depend on turn and position alone."""
    size = prod(slot.shape)
    if size > MOST_STRATA:
        return pool[random.integers(0, len(pool), slot.shape)]
    places = (np.arange(size) + turn * max(size, 1) + slot.position) % len(pool)
    return np.reshape(pool[random.permutation(places)], slot.shape)


# --- floats -------------------------------------------------------------------------------------------------------------


def _uniform(random: np.random.Generator, slot: Slot, low: float, high: float) -> Any:
    size = prod(slot.shape)
    if size > MOST_STRATA:
        return random.uniform(low, high, slot.shape)
    strata = random.permutation(size) + random.uniform(0.05, 0.95, size)
    return np.reshape(low + strata / max(size, 1) * (high - low), slot.shape)


def _signs(random: np.random.Generator, slot: Slot, first: int) -> Any:
    """Both signs, equally often; the signs of single numbers alternate with the position of the input."""
    size = prod(slot.shape)
    return np.reshape(random.permutation(1 - 2 * ((np.arange(size) + slot.position + first) % 2)), slot.shape)


def _ordinary(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    if prod(slot.shape) == 1:
        return _uniform(random, slot, 0.0, 1.0) * _signs(random, slot, 1)
    return _uniform(random, slot, -1.0, 1.0)


def _positive(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _uniform(random, slot, 0.0, 1.0)


def _edges(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _cycled(random, slot, turn, np.array(FLOAT_EDGES))


def _large(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    highest = np.log10(min(MOST_LARGE, slot.limit, float(_finfo(dtype).max)))
    return 10 ** _uniform(random, slot, highest - 3, highest) * _signs(random, slot, 0)


def _limits(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    info = _finfo(dtype)
    most, least = min(float(info.max), slot.limit), float(info.tiny)
    pool = [most, -most, most / 2, -most / 2, np.sqrt(most) * 1.5, -least, least, least / 4, 1.0, -1.0]
    if most < float(info.max):
        pool = [most * 1.01, *pool, -most * 1.01]
    return _mixed(random, slot, turn, pool, _ordinary(random, slot, turn, dtype), most=2)


def _infinite(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _mixed(random, slot, turn, list(NOT_FINITE), _ordinary(random, slot, turn, dtype), most=8)


def _mixed(random: np.random.Generator, slot: Slot, turn: int, pool: list[float], ordinary: Any, most: int) -> Any:
    """Ordinary numbers, and in one place of `most`, but in two of a small tensor, numbers of a pool."""
    size = prod(slot.shape)
    count = min(size, max(2, size // most))
    places = random.permutation(size)[:count]
    flat = np.ravel(ordinary)
    flat[places] = np.array(pool)[(np.arange(count) + turn * max(count, 1) + slot.position) % len(pool)]
    return np.reshape(flat, slot.shape)


_FLOATS = {
    ORDINARY: _ordinary,
    POSITIVE: _positive,
    EDGES: _edges,
    LARGE: _large,
    LIMITS: _limits,
    INFINITE: _infinite,
}
_STYLES = tuple(_FLOATS)


# Which inputs of a model have values that decide how large a tensor is, or how often something is computed.
#
# The other inputs may have any value. A dimension of length 10^9 needs more memory than there is, and a loop of 10^9 turns more
# time. The search follows values, not shapes: `Reshape(y, Shape(x))` needs the shape of `x` and none of its values.

SHAPE_ONLY = frozenset({"Shape", "Size", "ConstantOfShape", "EyeLike", "RandomNormalLike", "RandomUniformLike"})
"""Operators whose results do not depend on the values of their operands."""

VALUE_OPERANDS = {**{op: known.sizes for op, known in TRAITS.items() if known.sizes}, "Loop": (0,)}
"""Operands that decide sizes, or turns. An operator that is not of ONNX itself may have such operands anywhere."""

_ONNX = ("", "ai.onnx", "ai.onnx.ml")
_BODIES = (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)  # old models have no type


def sizing_inputs(model: onnx.ModelProto, names: Iterable[str]) -> frozenset[str]:
    """The inputs in `names` whose values reach an operand that decides a size."""
    if not any(map(_may_decide, model.graph.node)):
        return frozenset()
    return frozenset(name for name in names if _decides(model.graph, {name}))


def _may_decide(node: onnx.NodeProto) -> bool:
    """Whether a node has an operand that decides a size, or bodies in which there may be one."""
    if node.op_type in VALUE_OPERANDS or node.domain not in _ONNX:
        return True
    return any(attribute.type in _BODIES for attribute in node.attribute)


def _decides(graph: onnx.GraphProto, reached: set[str]) -> bool:
    """Whether a value in `reached` decides a size in the graph; adds the values that follow from it to `reached`."""
    decides = False
    for node in graph.node:
        bodies = [body for attribute in node.attribute for body in (attribute.g, *attribute.graphs) if body.node or body.output]
        operands = [place for place, name in enumerate(node.input) if name in reached]
        if not bodies and not operands:
            continue
        inner = False
        for body in bodies:
            own = reached | ({info.name for info in body.input} if operands else set())
            decides |= _decides(body, own)
            inner |= any(output.name in own for output in body.output)
        if operands:
            foreign = node.domain not in _ONNX
            decides |= foreign or any(place in VALUE_OPERANDS.get(node.op_type, ()) for place in operands)
        if inner or (operands and node.op_type not in SHAPE_ONLY):
            reached.update(filter(None, node.output))
    return decides


Feed = Mapping[str, Any]

SIZES = ((2, 2), (1, 1), (2, 8), (1, 16), (1, 64), (1, 224))
"""The sizes that unknown dimensions are tried with: the first one of an input, and the others."""

STYLES = ((ORDINARY, 1), (POSITIVE, 1), (EDGES, 3), (LARGE, 1), (LIMITS, 2), (INFINITE, 3))
"""The inputs that a model runs on: the sorts of numbers, and how many feeds of each a model with small inputs gets; other
models get one."""

MOST_OF_SMALL = 1024
"""Elements of a small input."""

MOST_ELEMENTS = 1 << 26
"""Elements of an input that is made up."""

_INDICES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)


@record(frozen=True, slots=True)
class FeedSet:
    """Inputs of one sort.

    Attributes:
        sort: one of the styles of `drawn_values`.
        choices: the same floats with one choice of integers after the other: a model may reject an integer that is no place of
            an axis. The choices are drawn when they are needed.
    """

    sort: str
    choices: Callable[[], Iterator[Feed]]


def feed_sets(model: onnx.ModelProto) -> Iterator[list[FeedSet]]:
    """Lists of feed sets, one list for each choice of the unknown dimensions; the first set of a list holds ordinary numbers.

    The declared inputs of a model do not guarantee that it runs on them, so the lists are to be tried one after the other. The
    same model always gets the same lists.

    Raises:
        RewriterError: an input is no tensor, has no known rank or element type, or would be too large.
    """
    infos = free_inputs(model.graph)
    seen = set()
    for first, other in SIZES:
        shapes = tuple(_shape(info, first, other) for info in infos)
        if shapes not in seen:
            seen.add(shapes)
            slots = _Slots(model, infos, shapes)
            yield [FeedSet(style, partial(_choices, slots, style, turn)) for style, turn in _draws(shapes)]


def random_feeds(model: onnx.ModelProto) -> Iterator[list[Feed]]:
    """Two feeds of ordinary numbers from each of the lists of `feed_sets`: one with numbers below zero, and one without.

    Raises:
        RewriterError: an input is no tensor, has no known rank or element type, or would be too large.
    """
    for sets in feed_sets(model):
        yield [next(one.choices()) for one in sets[:2]]


class _Slots:
    """The inputs of a model, with the data to draw a style of values for them."""

    def __init__(self, model: onnx.ModelProto, infos: Sequence[onnx.ValueInfoProto], shapes: Sequence[tuple[int, ...]]) -> None:
        self._model = model
        self._plain = [
            Slot(info.name, position, info.type.tensor_type.elem_type, shape)
            for position, (info, shape) in enumerate(zip(infos, shapes, strict=True))
        ]
        self._bounded: list[Slot] | None = None

    def of(self, style: str) -> list[Slot]:
        """Ordinary numbers fit everywhere; the bounds of other numbers are looked up in the whole model when needed."""
        if style in (ORDINARY, POSITIVE):
            return self._plain
        if self._bounded is None:
            from rewriter.trust.proof.instances.random_arrays import float_types

            sizing = sizing_inputs(self._model, [slot.name for slot in self._plain])
            limit = narrowest_limit(float_types(self._model))
            self._bounded = [replace(slot, sizing=slot.name in sizing, limit=limit) for slot in self._plain]
        return self._bounded


def _draws(shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    """(style, turn) of each feed. A small tensor holds few of the edge values at a time, and runs on it cost least."""
    small = all(prod(shape) <= MOST_OF_SMALL for shape in shapes)
    for style, turns in STYLES:
        yield from ((style, turn) for turn in range(turns if small else 1))


def _choices(every: _Slots, style: str, turn: int) -> Iterator[Feed]:
    """The drawn values; in case the model rejects them, also the same with integers that are likelier indices or divisors."""
    slots = every.of(style)
    values = {slot.name: draw(slot, style, turn) for slot in slots}
    yield values
    if places := [slot for slot in slots if slot.code in _INDICES]:
        ordinary = {slot.name: draw(slot, ORDINARY, turn) for slot in places}
        yield {**values, **ordinary}
        yield {**values, **{name: np.zeros_like(array) for name, array in ordinary.items()}}
        yield {**values, **{name: array + array.dtype.type(1) for name, array in ordinary.items()}}


def recorded_feed(path: str, model: onnx.ModelProto) -> Feed:
    """The inputs of a model in an .npz file, under their names, or under their names with `in_` in front.

    If a file has other names `in_...`, and as many as the model has inputs, the inputs are in order.

    Raises:
        RewriterError: the file cannot be read, or lacks an input.
    """
    found = read_inputs(path)
    feed = {}
    infos = free_inputs(model.graph)
    ordered = [name for name in found if name.startswith("in_")]
    known = any(info.name in found or f"in_{info.name}" in found for info in infos)
    for place, info in enumerate(infos):
        name = info.name if info.name in found else f"in_{info.name}"
        if not known and len(ordered) == len(infos):
            name = ordered[place]
        if name not in found:
            names = ", ".join(map(repr, sorted(found)[:8]))
            raise RewriterError(f"{path} has no input {info.name!r} of the model: expected {name!r}, found {names}")
        feed[info.name] = found[name]
    return feed


def _shape(info: onnx.ValueInfoProto, first: int, other: int) -> tuple[int, ...]:
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.elem_type:
        raise RewriterError(f"no value can be generated for input {info.name!r}: it is no tensor of a known type")
    if not tensor.HasField("shape"):
        raise RewriterError(f"no value can be generated for input {info.name!r}: its rank is unknown")
    dims = tensor.shape.dim
    known = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims]
    shape = tuple((first if i == 0 else other) if size is None else size for i, size in enumerate(known))
    if prod([size or 1 for size in shape]) > MOST_ELEMENTS:  # NumPy also rejects 0 x 2**63
        raise RewriterError(f"no value is generated for input {info.name!r}: its shape is {'x'.join(map(str, shape))}")
    return shape
