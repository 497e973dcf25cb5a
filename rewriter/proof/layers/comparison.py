"""Two model files compared by what they compute: their outputs, and the first tensor in which they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx

from rewriter.errors import RewriterError
from rewriter.graph.diff import sides
from rewriter.graph.diff.difference import Difference, compare
from rewriter.graph.read import read_bytes, read_model_file
from rewriter.proof.agreement import Bound, coarsest_eps
from rewriter.proof.layers.half import Half
from rewriter.proof.layers.pairs import tensor_pairs
from rewriter.proof.layers.result import Comparison, First, LayerDifference, Maker, TensorPair
from rewriter.proof.layers.search import Search, compared
from rewriter.proof.model_inputs import Feed, random_feeds, recorded_feed
from rewriter.proof.model_runs import CannotRun, runtime_version, runtimes

ULPS = 16
"""Units in the last place of the coarsest type that either model computes in, which are allowed beside the tolerances: two
kernels for one operator add up in different orders.
"""


def compare_models(
    one: Path, other: Path, *, inputs: str | None, rtol: float, atol: float, memory: int, layers: bool
) -> Comparison:
    """Runs two models on the same inputs.

    Args:
        one, other: the files.
        inputs: an .npz file with the first model's inputs; None makes up random ones, always the same.
        rtol: relative to the largest finite magnitude of the tensor.
        atol: absolute.
        memory: bytes that fetched tensors may take at a time.
        layers: compare all tensors that have a counterpart, also where the outputs agree.

    Raises:
        RewriterError: a file is no model, inputs cannot be made up or do not fit.
    """
    protos = _model(one), _model(other)
    runtime = runtimes()[0]
    halves = Half(protos[0], one.absolute().parent, runtime), Half(protos[1], other.absolute().parent, runtime)
    bound = Bound(ulps=ULPS, rtol=rtol, atol=atol, eps=max(map(coarsest_eps, protos)))
    feeds = _feeds(halves, [recorded_feed(inputs, protos[0])] if inputs else None)
    shapes = [f"{name} {value.dtype}[{','.join(map(str, value.shape))}]" for name, value in feeds[0][0].items()]
    found = Comparison(runtime_version(runtime), inputs or "random", shapes, bound, (halves[0].blocked, halves[1].blocked))
    differing = _outputs(found, halves, feeds, bound)
    if layers or differing is not None:
        _walk(found, halves, feeds[differing or 0], memory, layers=layers, folders=(one, other))
    return found


def _model(path: Path) -> onnx.ModelProto:
    """The whole model, weights included, unless these stand in other files."""
    file = read_model_file(path)
    proto: onnx.ModelProto = file.proto if file.weights is None else onnx.ModelProto.FromString(read_bytes(path))
    return proto


def _feeds(halves: tuple[Half, Half], given: list[Feed] | None) -> list[tuple[Feed, Feed]]:
    """What both are fed. Made up inputs are those of the first list on which one of the models runs."""
    choices = iter([given]) if given else random_feeds(halves[0].model)
    fallback: list[tuple[Feed, Feed]] | None = None
    for feeds in choices:
        both = [(feed, halves[1].feed(feed)) for feed in feeds]
        fallback = fallback or both
        for half, feed in zip(halves, both[0], strict=True):
            try:
                half.outputs(feed)
            except CannotRun:
                continue
            return both
    assert fallback is not None
    return fallback


def _outputs(found: Comparison, halves: tuple[Half, Half], feeds: Sequence[tuple[Feed, Feed]], bound: Bound) -> int | None:
    """Compares the outputs on every feed; the number of the first feed on which something is to be looked for."""
    differing = None
    for number, pair in enumerate(feeds):
        values = []
        for half, feed in zip(halves, pair, strict=True):
            try:
                values.append(half.outputs(feed))
            except CannotRun as error:
                if not half.blocked:
                    half.find_blocked(feed, str(error))
        if len(values) < 2:
            return number
        one, other = values
        found.missing = [*(name for name in one if name not in other), *(name for name in other if name not in one)]
        layers = [
            compared(TensorPair(name, name, Maker(name, ""), Maker(name, "")), one, other, bound)
            for name in one
            if name in other
        ]
        found.outputs = layers if not found.outputs else list(map(_worse, found.outputs, layers))
        if differing is None and (found.missing or any(layer.message for layer in layers)):
            differing = number
    return differing


def _worse(one: LayerDifference, other: LayerDifference) -> LayerDifference:
    """The one that says more against the models."""
    return max(one, other, key=lambda layer: (bool(layer.message), layer.largest))


def _walk(
    found: Comparison,
    halves: tuple[Half, Half],
    feeds: tuple[Feed, Feed],
    memory: int,
    *,
    layers: bool,
    folders: tuple[Path, Path],
) -> None:
    one = sides.of_graph(halves[0].model.graph, "main", folders[0].absolute().parent)
    other = sides.of_graph(halves[1].model.graph, "main", folders[1].absolute().parent)
    pairs = tensor_pairs(one, other)
    found.pairs = len(pairs)
    search = Search(halves, feeds, found.bound, memory)
    for layer in search.differences(pairs):
        found.compared += 1
        if layers:
            found.layers.append(layer)
        if layer.message and found.first is None:
            found.first = First(layer, tuple(_at(layer, halves, folders)))
            if not layers:
                break
    found.held = search.held


def _at(layer: LayerDifference, halves: tuple[Half, Half], files: tuple[Path, Path]) -> Iterator[Difference]:
    """What differs between the nodes that make the two tensors: attributes, operands, constants that they read."""
    maker = layer.pair.maker.name
    read = {name for node in halves[0].model.graph.node if layer.pair.first in node.output for name in node.input}
    try:
        all_of_them = list(compare(halves[0].model, halves[1].model, files[0].absolute().parent, files[1].absolute().parent))
    except RewriterError:
        return
    for difference in all_of_them:
        if difference.place != "main" and not difference.place.startswith(f"{maker}."):
            continue
        named = {maker, layer.pair.other_maker.name, layer.pair.first, layer.pair.second}
        if difference.name in named or (difference.kind == "constant" and difference.name.split(" -> ")[0] in read):
            yield difference
