"""Inputs for a whole model: made up for its declared types, or those of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.proof.instances.named_types import float_types
from rewriter.proof.models.array_files import read_inputs
from rewriter.proof.models.drawn_values import EDGES, INFINITE, LARGE, LIMITS, ORDINARY, POSITIVE, Slot, draw, narrowest_limit
from rewriter.proof.models.value_reach import sizing_inputs
from rewriter.record import record, replace

Feed = Mapping[str, Any]

SIZES = ((2, 2), (1, 1), (2, 8), (1, 16), (1, 64), (1, 224))
"""What unknown dimensions are tried with: the first one of an input, and the others."""

STYLES = ((ORDINARY, 1), (POSITIVE, 1), (EDGES, 3), (LARGE, 1), (LIMITS, 2), (INFINITE, 3))
"""What a model is run on: the sorts of numbers, and how many feeds of each a model with small inputs gets; others get one."""

MOST_OF_SMALL = 1024
"""Elements of a small input."""

MOST_ELEMENTS = 1 << 26
"""Elements of an input that is made up."""

_INDICES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)


def declared_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """What a caller has to give: the graph inputs that no initializer stands for."""
    given = {tensor.name for tensor in model.graph.initializer} | {s.values.name for s in model.graph.sparse_initializer}
    return [info for info in model.graph.input if info.name not in given]


@record(frozen=True, slots=True)
class FeedSet:
    """Inputs of one sort.

    Attributes:
        sort: one of the styles of `drawn_values`.
        choices: the same floats with one choice of integers after the other: a model may refuse an integer that is no place of
            an axis. They are drawn when they are asked for.
    """

    sort: str
    choices: Callable[[], Iterator[Feed]]


def feed_sets(model: onnx.ModelProto) -> Iterator[list[FeedSet]]:
    """Lists of feed sets, one list for each choice of the unknown dimensions; the first set of a list holds ordinary numbers.

    What a model declares of its inputs is not enough to be sure that it runs on them; the lists are to be tried one after the
    other. The same model always gets the same.

    Raises:
        RewriterError: an input is no tensor, has no known rank or element type, or would be too large.
    """
    infos = declared_inputs(model)
    seen = set()
    for first, other in SIZES:
        shapes = tuple(_shape(info, first, other) for info in infos)
        if shapes not in seen:
            seen.add(shapes)
            slots = _Slots(model, infos, shapes)
            yield [FeedSet(style, partial(_choices, slots, style, turn)) for style, turn in _draws(shapes)]


def random_feeds(model: onnx.ModelProto) -> Iterator[list[Feed]]:
    """Of the lists of `feed_sets` two feeds of ordinary numbers each: some below zero, and none.

    Raises:
        RewriterError: an input is no tensor, has no known rank or element type, or would be too large.
    """
    for sets in feed_sets(model):
        yield [next(one.choices()) for one in sets[:2]]


class _Slots:
    """The inputs of a model, with what it takes to draw a style of values for them."""

    def __init__(self, model: onnx.ModelProto, infos: Sequence[onnx.ValueInfoProto], shapes: Sequence[tuple[int, ...]]) -> None:
        self._model = model
        self._plain = [
            Slot(info.name, position, info.type.tensor_type.elem_type, shape)
            for position, (info, shape) in enumerate(zip(infos, shapes, strict=True))
        ]
        self._bounded: list[Slot] | None = None

    def of(self, style: str) -> list[Slot]:
        """Ordinary numbers fit everywhere; what bounds others is looked up in the whole model, once they are wanted."""
        if style in (ORDINARY, POSITIVE):
            return self._plain
        if self._bounded is None:
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
    """What is drawn; should the model refuse it, the same with integers that are more likely places of an axis, or divisors."""
    slots = every.of(style)
    values = {slot.name: draw(slot, style, turn) for slot in slots}
    yield values
    if places := [slot for slot in slots if slot.code in _INDICES]:
        ordinary = {slot.name: draw(slot, ORDINARY, turn) for slot in places}
        yield {**values, **ordinary}
        yield {**values, **{name: np.zeros_like(array) for name, array in ordinary.items()}}
        yield {**values, **{name: array + array.dtype.type(1) for name, array in ordinary.items()}}


def recorded_feed(path: str, model: onnx.ModelProto) -> Feed:
    """The inputs of a model in an .npz file, under their names, or these with `in_` before them.

    Where a file calls its inputs `in_...` otherwise, and has as many as the model, they are in order.

    Raises:
        RewriterError: the file cannot be read, or lacks an input.
    """
    found = read_inputs(path)
    feed = {}
    infos = declared_inputs(model)
    ordered = [name for name in found if name.startswith("in_")]
    known = any(info.name in found or f"in_{info.name}" in found for info in infos)
    for place, info in enumerate(infos):
        name = info.name if info.name in found else f"in_{info.name}"
        if not known and len(ordered) == len(infos):
            name = ordered[place]
        if name not in found:
            raise RewriterError(f"{path}: there is no input {info.name!r} in it; it has {', '.join(sorted(found)[:8])}")
        feed[info.name] = found[name]
    return feed


def _shape(info: onnx.ValueInfoProto, first: int, other: int) -> tuple[int, ...]:
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.elem_type:
        raise RewriterError(f"no value can be made up for input {info.name!r}: it is no tensor of a known type")
    if not tensor.HasField("shape"):
        raise RewriterError(f"no value can be made up for input {info.name!r}: its rank is unknown")
    dims = tensor.shape.dim
    known = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims]
    shape = tuple((first if i == 0 else other) if size is None else size for i, size in enumerate(known))
    if prod([size or 1 for size in shape]) > MOST_ELEMENTS:  # NumPy refuses 0 x 2**63, too
        raise RewriterError(f"no value is made up for input {info.name!r}: its shape is {'x'.join(map(str, shape))}")
    return shape
