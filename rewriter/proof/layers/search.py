"""Goes through pairs of tensors, in the order of computation, and holds them against each other.

All intermediates of a model may be many times what memory holds. So as many pairs as a budget allows are made outputs at a
time, and values are dropped before the next ones are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.facts.facts import Facts
from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.proof.layers.half import Half
from rewriter.proof.layers.result import LayerDifference, TensorPair
from rewriter.proof.models.model_inputs import Feed
from rewriter.proof.models.model_runs import CannotRun
from rewriter.proof.models.output_agreement import Bound, differences

UNKNOWN = 16
"""A tensor whose size cannot be told in advance is counted as the budget divided by this."""

MOST_AT_ONCE = 256
"""Pairs of one run; the first difference is found without running all of a deep model for it."""


class Search:
    """Compares pairs.

    Args:
        halves: the two models.
        feeds: what each is fed.
        bound: how far tensors may be apart.
        memory: bytes that fetched tensors of both models may take at a time.

    Attributes:
        held: the most bytes that fetched tensors took at a time.
    """

    def __init__(self, halves: tuple[Half, Half], feeds: tuple[Feed, Feed], bound: Bound, memory: int) -> None:
        self._halves = halves
        self._feeds = feeds
        self._bound = bound
        self._memory = memory
        self.held = 0

    def differences(self, pairs: Sequence[TensorPair]) -> Iterator[LayerDifference]:
        """Pairs that both models can compute, one after the other; lazily, so that who has seen enough stops the runs."""
        known = [pair for pair in pairs if self._halves[0].knows(pair.first) and self._halves[1].knows(pair.second)]
        for chunk in self._chunks(known):
            yield from self._compared(chunk)

    def _chunks(self, pairs: Sequence[TensorPair]) -> Iterator[list[TensorPair]]:
        sizes = [
            expected_sizes(half.model, feed, [pair[i] for pair in ((p.first, p.second) for p in pairs)])
            for i, (half, feed) in enumerate(zip(self._halves, self._feeds, strict=True))
        ]
        unknown = self._memory // (2 * UNKNOWN)
        chunk: list[TensorPair] = []
        total = 0
        for pair in pairs:
            size = sizes[0].get(pair.first, unknown) + sizes[1].get(pair.second, unknown)
            if chunk and (total + size > self._memory or len(chunk) >= MOST_AT_ONCE):
                yield chunk
                chunk, total = [], 0
            chunk.append(pair)
            total += size
        if chunk:
            yield chunk

    def _compared(self, chunk: Sequence[TensorPair]) -> Iterator[LayerDifference]:
        try:
            values = [
                half.values(list(dict.fromkeys(names)), feed)
                for half, feed, names in zip(
                    self._halves, self._feeds, ([p.first for p in chunk], [p.second for p in chunk]), strict=True
                )
            ]
        except CannotRun:
            if len(chunk) == 1:
                return  # a tensor that the runtime computes and does not give out, as one of type bfloat16
            middle = len(chunk) // 2
            yield from self._compared(chunk[:middle])
            yield from self._compared(chunk[middle:])
            return
        self.held = max(self.held, sum(_size(value) for side in values for value in side.values()))
        for pair in chunk:
            yield compared(pair, values[0], values[1], self._bound)


def compared(pair: TensorPair, one: Mapping[str, Any], other: Mapping[str, Any], bound: Bound) -> LayerDifference:
    """How the tensors of a pair differ."""
    value = one[pair.first]
    found = next(differences({pair.first: value}, {pair.first: other[pair.second]}, bound))
    shape = f"{value.dtype}[{','.join(map(str, value.shape))}]" if isinstance(value, np.ndarray) else ""
    return LayerDifference(pair, shape, found.largest, found.message)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 8


# How many bytes each tensor of a model will take for given inputs, before it is run: what fits into a memory budget.


SMALL = 1024
"""Bytes of an initializer that may hold a shape and is therefore kept; of larger ones only the type matters."""


def expected_sizes(model: onnx.ModelProto, feed: Feed, tensors: Iterable[str]) -> dict[str, int]:
    """Bytes of tensors of the main graph; those whose shape cannot be told in advance are left out."""
    try:
        graph = Model.from_proto(_skeleton(model, feed)).graph
    except RewriterError:
        return {}
    facts = Facts(GraphIndex(graph))
    made = {tensor.name: tensor for node in graph.nodes for tensor in node.outputs}
    found = {}
    for name in tensors:
        tensor = made.get(name)
        if tensor is None:
            continue
        shape, dtype = facts.shape(tensor), facts.dtype(tensor)
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            found[name] = prod(dim for dim in shape if isinstance(dim, int)) * _item_size(dtype)
    return found


def _item_size(dtype: int | None) -> int:
    try:
        return max(1, int(onnx.helper.tensor_dtype_to_np_dtype(dtype or 0).itemsize))
    except KeyError:
        return 8


def _skeleton(model: onnx.ModelProto, feed: Feed) -> onnx.ModelProto:
    """The model without weights, and with inputs of the fed shapes."""
    graph = onnx.GraphProto(name="skeleton", node=model.graph.node)
    listed = set()
    for tensor in model.graph.initializer:
        if prod(tensor.dims) * _item_size(tensor.data_type) <= SMALL and not tensor.external_data:
            graph.initializer.append(tensor)
        else:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        listed.add(tensor.name)
    for info in model.graph.input:
        if info.name not in listed:
            fed = onnx.ValueInfoProto()
            fed.CopyFrom(info)
            if info.name in feed and info.type.WhichOneof("value") == "tensor_type":
                fed.type.tensor_type.shape.Clear()
                fed.type.tensor_type.shape.dim.extend(
                    onnx.TensorShapeProto.Dimension(dim_value=size) for size in np.shape(feed[info.name])
                )
            graph.input.append(fed)
    return onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph)
