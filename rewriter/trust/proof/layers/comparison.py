"""Two model files compared by what they compute: their outputs, and the first tensor in which they part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile.odd_names import check_names
from rewriter.core.onnxfile.read import read_bytes, read_model_file
from rewriter.core.onnxfile.tensors import text
from rewriter.core.record import record, replace
from rewriter.trust.diff import sides
from rewriter.trust.diff.difference import Difference, compare
from rewriter.trust.diff.sides import Pairing, Side
from rewriter.trust.proof.layers.half import Half, Search, compared
from rewriter.trust.proof.layers.result import Comparison, First, LayerDifference, Maker, TensorPair
from rewriter.trust.proof.models.equivalence import RECORDED, SAYING
from rewriter.trust.proof.models.model_inputs import LARGE, LIMITS, Feed, FeedSet, feed_sets, recorded_feed
from rewriter.trust.proof.models.model_runs import CannotRun, Outputs, runtime_version, runtimes
from rewriter.trust.proof.models.output_agreement import Bound, coarsest_eps

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
        inputs: an .npz file with the first model's inputs; None makes up several sets, always the same.
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
    given = recorded_feed(inputs, protos[0]) if inputs else None
    found = Comparison(runtime_version(runtime), inputs or "random", [], bound, (halves[0].blocked, halves[1].blocked))
    first, rounds = _looked_at(_rounds(halves, given))
    differing = _outputs(found, halves, rounds, bound)
    for half in halves:
        half.release()
    if layers or differing is not None:
        _walk(found, halves, differing or first.feeds, memory, layers=layers, folders=(one, other))
    return found


def _looked_at(rounds: Iterator[_Round]) -> tuple[_Round, Iterator[_Round]]:
    """The first of the rounds, and all of them."""
    first = next(rounds)
    return first, chain([first], rounds)


def _model(path: Path) -> onnx.ModelProto:
    """The whole model, weights included, unless these stand in other files. Raises RewriterError as `compare_models` does."""
    file = read_model_file(path)
    proto: onnx.ModelProto = file.proto if file.weights is None else onnx.ModelProto.FromString(read_bytes(path))
    try:
        check_names(proto)
    except RewriterError as error:
        raise RewriterError(f"{path}: {error}") from None
    return proto


@record(frozen=True, slots=True)
class _Round:
    """One set of inputs: its sort, what each model is fed, and what each gives, or why it does not run."""

    sort: str
    feeds: tuple[Feed, Feed]
    values: tuple[Outputs | CannotRun, Outputs | CannotRun]

    @property
    def ran(self) -> bool:
        return any(not isinstance(value, CannotRun) for value in self.values)


def _rounds(halves: tuple[Half, Half], given: Feed | None) -> Iterator[_Round]:
    """The rounds of the comparison, each run when it is asked for.

    Unknown dimensions get the first choice with which one of the models runs on ordinary numbers. Further sets on which neither
    runs are left out.
    """
    if given is not None:
        yield _round(halves, RECORDED, given)
        return
    fallback: _Round | None = None
    for sets in feed_sets(halves[0].model):
        first = _first_that_runs(halves, sets[0])
        fallback = fallback or first
        if first.ran:
            yield first
            further = (_first_that_runs(halves, one) for one in sets[1:] if one.sort != LIMITS)
            yield from (found for found in further if found.ran)
            return
    assert fallback is not None
    yield fallback


def _first_that_runs(halves: tuple[Half, Half], feeds: FeedSet) -> _Round:
    """With the first choice of integers on which one of the models runs, or else with the first one."""
    fallback = None
    for feed in feeds.choices():
        found = _round(halves, feeds.sort, feed)
        if found.ran:
            return found
        fallback = fallback or found
    assert fallback is not None
    return fallback


def _round(halves: tuple[Half, Half], sort: str, feed: Feed) -> _Round:
    feeds = feed, halves[1].feed(feed)
    return _Round(sort, feeds, (_values(halves[0], feeds[0]), _values(halves[1], feeds[1])))


def _values(half: Half, feed: Feed) -> Outputs | CannotRun:
    try:
        return half.outputs(feed)
    except CannotRun as error:
        return error


def _outputs(found: Comparison, halves: tuple[Half, Half], rounds: Iterator[_Round], bound: Bound) -> tuple[Feed, Feed] | None:
    """Compares the outputs in every round; what the models are fed in the first one in which something is to be looked for."""
    differing = None
    for one in rounds:
        found.sets += 1
        found.shapes = found.shapes or _shapes(one.feeds[0])
        for half, feed, value in zip(halves, one.feeds, one.values, strict=True):
            if isinstance(value, CannotRun) and not half.blocked:
                half.find_blocked(feed, str(value))
        before, after = one.values
        if isinstance(before, CannotRun) or isinstance(after, CannotRun):
            return one.feeds
        found.missing = [*(name for name in before if name not in after), *(name for name in after if name not in before)]
        layers = [_layer(name, one.sort, before, after, bound) for name in before if name in after]
        found.outputs = layers if not found.outputs else list(map(_worse, found.outputs, layers))
        if differing is None and (found.missing or any(layer.message for layer in layers)):
            differing = one.feeds
    return differing


def _layer(name: str, sort: str, before: Outputs, after: Outputs, bound: Bound) -> LayerDifference:
    layer = compared(TensorPair(name, name, Maker(name, ""), Maker(name, "")), before, after, bound)
    if layer.message:
        return replace(layer, message=layer.message + SAYING.get(sort, ""))
    return replace(layer, largest=0.0) if sort == LARGE else layer


def _worse(one: LayerDifference, other: LayerDifference) -> LayerDifference:
    """The one that says more against the models; of two, that on more ordinary inputs."""
    return max(one, other, key=lambda layer: (bool(layer.message), 0.0 if layer.message else layer.largest))


def _shapes(feed: Feed) -> list[str]:
    return [f"{name} {value.dtype}[{','.join(map(str, value.shape))}]" for name, value in feed.items()]


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


# Which tensor of one model is to be held against which of the other.
#
# Names do not decide: a converter, an optimiser or a rewrite may have changed all of them. Tensors are pairs when paired nodes
# (`rewriter.trust.diff.sides`) make them at the same position, or read them at the same position. The second way sees
# across a node that was exchanged for another or put in between. A name decides only about nodes that have no partner.


def tensor_pairs(one: Side, other: Side) -> list[TensorPair]:
    """Pairs of tensors that nodes make, in the order in which the first model computes them; each pair once."""
    pairing = Pairing(one, other)
    found: dict[tuple[str, str], int] = {}
    for place, (first, second) in _found(one, other, pairing):
        if first in one.made and second in other.made:
            key = (first, second)
            found[key] = min(place, found.get(key, place))
    ordered = sorted(found, key=lambda key: (found[key], one.made[key[0]], other.made[key[1]]))
    return [TensorPair(a, b, _maker(one, a), _maker(other, b)) for a, b in ordered]


def _found(one: Side, other: Side, pairing: Pairing) -> Iterator[tuple[int, tuple[str, str]]]:
    """Pairs with a number that orders them: of results three times the node's, plus one; of operands one less, so that they
    come before what is computed from them.
    """
    for number, counterpart in pairing.forth.items():
        operands, outputs = one.names(number)
        others, results = other.names(counterpart)
        for pair in zip(outputs, results, strict=False):
            yield 3 * number + 1, pair
        for pair in zip(operands, others, strict=False):
            yield 3 * number, pair
    last = 3 * len(one.nodes)
    for name, (number, _) in one.made.items():
        known = other.made.get(name)
        if known is not None and number not in pairing.forth and known[0] not in pairing.back:
            yield 3 * number + 1, (name, name)
    there = set(other.outputs)
    for name in one.outputs:
        if name in there:
            yield last, (name, name)


def _maker(side: Side, tensor: str) -> Maker:
    node = side.nodes[side.made[tensor][0]]
    return Maker(text(node.name) or next(filter(None, map(text, node.output)), ""), text(node.op_type))
