"""Inputs for a whole model: random ones of its declared types, or those of a file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError, reason

Feed = Mapping[str, Any]

SIZES = ((2, 2), (1, 1), (2, 8), (1, 16), (1, 64), (1, 224))
"""What unknown dimensions are tried with: the first one of an input, and the others."""

RANGES = ((-1.0, 1.0, 2), (0.0, 1.0, 4))
"""One feed each: floats from a to b, integers from 0 to below n. Roots want positive numbers, and indices want small ones."""

MOST_ELEMENTS = 1 << 26


def declared_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """What a caller has to give: the graph inputs that no initializer stands for."""
    given = {tensor.name for tensor in model.graph.initializer} | {s.values.name for s in model.graph.sparse_initializer}
    return [info for info in model.graph.input if info.name not in given]


def random_feeds(model: onnx.ModelProto) -> Iterator[list[Feed]]:
    """Lists of feeds, to be tried one after the other until the model runs on the first of a list.

    A model says too little of its inputs to be sure: unknown dimensions get several sizes. The same model always gets the same.

    Raises:
        RewriterError: an input is no tensor, has no known rank or element type, or would be too large.
    """
    inputs = declared_inputs(model)
    seen = set()
    for first, other in SIZES:
        shapes = {info.name: _shape(info, first, other) for info in inputs}
        key = tuple(shapes.values())
        if key not in seen:
            seen.add(key)
            yield [{info.name: _array(info, shapes[info.name], number) for info in inputs} for number in range(len(RANGES))]


def read_inputs(path: str) -> Feed:
    """All arrays of an .npz file by their names.

    Raises:
        RewriterError: the file cannot be read, or is none.
    """
    try:
        arrays = np.load(Path(path), allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise RewriterError(f"{path}: no .npz file, but a single array")
        with arrays as file:
            return {name: file[name] for name in file.files}
    except RewriterError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise RewriterError(f"{path}: {reason(error)}") from error
    except Exception as error:  # zipfile and NumPy's reader have errors of their own for damaged files
        raise RewriterError(f"{path}: no .npz file: {error}") from error


def recorded_feed(path: str, model: onnx.ModelProto) -> Feed:
    """The inputs of a model in an .npz file, under their names, or these with `in_` before them.

    Raises:
        RewriterError: the file cannot be read, or lacks an input.
    """
    found = read_inputs(path)
    feed = {}
    for info in declared_inputs(model):
        name = info.name if info.name in found else f"in_{info.name}"
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
    if np.prod(shape, dtype=float) > MOST_ELEMENTS:
        raise RewriterError(f"no value is made up for input {info.name!r}: it would have {'x'.join(map(str, shape))} elements")
    return shape


def _array(info: onnx.ValueInfoProto, shape: tuple[int, ...], number: int) -> Any:
    code = info.type.tensor_type.elem_type
    low, high, most = RANGES[number]
    random = np.random.default_rng([number, zlib.crc32(info.name.encode())])
    if code == onnx.TensorProto.STRING:
        return random.choice(np.array(["a", "b", "c"], dtype=object), shape)
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    except KeyError:
        raise RewriterError(f"no value can be made up for input {info.name!r}: element type {code} is unknown") from None
    if code == onnx.TensorProto.BOOL:
        return np.asarray(random.random(shape) < 0.5)
    if dtype.kind in "iu":
        return random.integers(0, most, shape).astype(dtype)
    return random.uniform(low, high, shape).astype(dtype)
