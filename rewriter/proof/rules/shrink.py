"""Makes a counterexample as small as it stays one: fewer outputs, shorter dimensions, plainer values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx

from rewriter.language.rule import Rule
from rewriter.proof.instances.instance import Instance
from rewriter.proof.instances.random_arrays import STYLES
from rewriter.proof.rules.trial import Trial, attempt
from rewriter.record import replace

ATTEMPTS = 120
SECONDS = 3.0


def shrink(rule: Rule, trial: Trial, wrong: Callable[[Trial], bool]) -> Trial:
    """The smallest counterexample that a short search finds.

    Args:
        rule: the rule.
        trial: a trial that is `wrong`.
        wrong: whether a trial still shows the same thing.
    """
    best, left, stop = trial, ATTEMPTS, time.monotonic() + SECONDS
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(best.instance):
            left -= 1
            if left < 0 or time.monotonic() > stop:
                return best
            found = attempt(rule, smaller, np.random.default_rng(0), STYLES)
            if wrong(found):
                best, progress = found, True
                break
    return best


def _smaller(instance: Instance) -> Iterator[Instance]:
    yield from (replace(instance, model=model) for model in _fewer_outputs(instance.model))
    lengths = sorted({d for shape in _lengths(instance.model) for d in shape if d > 1}, reverse=True)
    for length in lengths:
        for shorter in (1, 2, length - 1):
            if shorter < length and not (shorter == 2 and length == 3):
                yield from _shorter(instance, length, shorter)


def _fewer_outputs(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Without one of the outputs and what only it needs."""
    for position in range(len(model.graph.output) if len(model.graph.output) > 1 else 0):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.output[position]
        while (dead := _dead(copy.graph)) is not None:
            copy.graph.node.remove(dead)
        yield copy


def _dead(graph: onnx.GraphProto) -> onnx.NodeProto | None:
    used = {name for node in graph.node for name in node.input} | {info.name for info in graph.output}
    return next((node for node in graph.node if not used.intersection(node.output)), None)


def _lengths(model: onnx.ModelProto) -> list[list[int]]:
    declared = [[d.dim_value for d in info.type.tensor_type.shape.dim] for info in model.graph.input]
    return [*declared, *(list(tensor.dims) for tensor in model.graph.initializer)]


def _shorter(instance: Instance, old: int, new: int) -> Iterator[Instance]:
    """With one length replaced wherever it stands in an input, an initializer or a constant shape."""
    copy = onnx.ModelProto()
    copy.CopyFrom(instance.model)
    graph = copy.graph
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value == old:
                dim.dim_value = new
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")
    for tensor in graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        shape = tuple(new if d == old else d for d in array.shape)
        if shape != array.shape and array.dtype != object:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.resize(array, shape).astype(array.dtype), tensor.name))
        if array.dtype == np.int64 and array.size < 16:
            values = np.where(onnx.numpy_helper.to_array(tensor) == old, new, onnx.numpy_helper.to_array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.int64), tensor.name))
    yield replace(instance, model=copy)
