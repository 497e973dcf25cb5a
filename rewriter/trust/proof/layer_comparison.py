"""Two models run side by side, tensor by tensor, to find the first that differs: `rewriter compare`.

Tensors that only one of them has, or that cannot be computed, are left out and listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import load
from rewriter.core.graph.model_text import message_name
from rewriter.core.graph.tidy import fix_shapes
from rewriter.core.isolation.child import NoAnswer, TooSlow
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.part import TOLD, Whole, expands_too_much, free_inputs
from rewriter.core.onnxfile.tensors import count, numpy_dtype, text
from rewriter.core.record import field, record, replace
from rewriter.trust import difference as sides
from rewriter.trust.difference import Difference, Pairing, Side, compare
from rewriter.trust.proof import judges
from rewriter.trust.proof.equivalence import RECORDED, SAYING
from rewriter.trust.proof.guard import first_bad
from rewriter.trust.proof.judges import PLAIN, SESSION, Session
from rewriter.trust.proof.model_inputs import LARGE, LIMITS, Feed, FeedSet, feed_sets, recorded_feed
from rewriter.trust.proof.output_agreement import Bound, coarsest_eps, differences
from rewriter.trust.proof.validity import CannotRun, Outputs, Ready, Runs, runtime_version, runtimes, size_of

Feeds = tuple[Feed, Feed]
"""The inputs of each of the two models."""


@record(frozen=True, slots=True)
class Maker:
    """The node that makes a tensor: its name (without one, the name of its first output) and its operator."""

    node: str
    operator: str


@record(frozen=True, slots=True)
class TensorPair:
    """Two tensors of the main graphs that are meant to hold the same, and who makes them."""

    first: str
    second: str
    maker: Maker
    other_maker: Maker


@record(frozen=True, slots=True)
class RefusedNode:
    """A node that a runtime does not run, and why; `node` is "" when it is the model as a whole."""

    node: str
    operator: str
    reason: str


@record(frozen=True, slots=True)
class LayerDifference:
    """A pair and how its tensors differ.

    Attributes:
        pair: the tensors.
        shape: "float32[1,8]" of the first model's; "" if it is no tensor.
        largest: the largest absolute difference; infinite if it is not a number.
        message: the difference that exceeds the bound, "" if none does.
    """

    pair: TensorPair
    shape: str
    largest: float
    message: str


@record(frozen=True, slots=True)
class First:
    """The place where two models part: the first pair that differs, and the differences at its node."""

    layer: LayerDifference
    structure: tuple[Difference, ...]


@record(slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        runtime: with its version.
        inputs: where they came from: "random", or a file.
        shapes: of the inputs, as "data float32[1,8]".
        bound: how far tensors may be apart.
        blocked: the nodes of each model that are not run.
        outputs: of each output that both models have; if it agrees, `largest` is the difference on ordinary inputs.
        missing: names of outputs that only one model has or computes.
        first: the first pair that differs; None if none differs, or if it was not looked for.
        layers: every pair that was compared, if all were requested.
        sets: how many sets of inputs were run.
        pairs: how many pairs of tensors there are, and `compared` how many were compared.
        peak_bytes: most bytes of fetched tensors at a time.
    """

    runtime: str
    inputs: str
    shapes: list[str]
    bound: Bound
    blocked: tuple[list[RefusedNode], list[RefusedNode]]
    outputs: list[LayerDifference] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    first: First | None = None
    layers: list[LayerDifference] = field(default_factory=list)
    sets: int = 0
    pairs: int = 0
    compared: int = 0
    peak_bytes: int = 0

    @property
    def same(self) -> bool:
        """Whether both models run and have equal outputs."""
        differs = self.missing or any(layer.message for layer in (*self.outputs, *self.layers))
        return not differs and self.first is None and not any(self.blocked)


# One of two models that are compared: runs parts of it, and searches for the first tensor in which they differ.

MOST_BLOCKED = 16
"""Nodes that cannot be run and are named; finding one takes as many runs as its number has binary digits."""


class Half:
    """A model with its inputs.

    Args:
        model: with its weights, or references to external data.
        file: of the model; external data are looked for next to it.
        runtime: "ONNX Runtime" or "onnx.reference".
        consumer: makes a model ready in another runtime than these; None: in `runtime`.

    Raises:
        RewriterError: external data are missing or lead out of the folder.
    """

    def __init__(self, model: onnx.ModelProto, file: Path, runtime: str, consumer: Ready | None = None) -> None:
        self.model = model
        self.file = file
        self._consumer = consumer
        self.runtime = runtime
        self.blocked: list[RefusedNode] = []
        self.folder = file.absolute().parent
        self._parts = Whole(model)
        self._lost: set[str] = set()
        self._whole: Runs | None = None  # the session of the model as a whole
        for place in external_data.references(model):
            with external_data.opened(self.folder, place.location):
                pass

    def feed(self, values: Feed) -> Feed:
        """Another model's inputs as the inputs of this one: matched by name, and the rest by position if types agree.

        Raises:
            RewriterError: an input has no value.
        """
        infos = free_inputs(self.model.graph)
        own = {info.name for info in infos}
        spare = [name for name in values if name not in own]
        found = {}
        for info in infos:
            if info.name in values:
                found[info.name] = values[info.name]
                continue
            like = next((name for name in spare if _takes(info, values[name])), None)
            if like is None:
                raise RewriterError(f"input {info.name!r} has no counterpart among {', '.join(map(repr, values)) or 'none'}")
            spare.remove(like)
            found[info.name] = values[like]
        return found

    def outputs(self, feed: Feed) -> dict[str, Any]:
        """The model's own outputs.

        Raises:
            CannotRun: a runtime rejects the model, or fails in it.
        """
        names = [output.name for output in self.model.graph.output]
        return dict(zip(names, self._run(self.model, names, feed), strict=True))

    def release(self) -> None:
        """Releases the memory of the whole model, which is loaded again when it is needed."""
        self._whole = None

    def values(self, tensors: Sequence[str], feed: Feed) -> dict[str, Any]:
        """Tensors that nodes make, by name.

        Raises:
            CannotRun: the part of the model that makes them is not run.
        """
        return dict(
            zip(tensors, self._run(self._parts.part(self._parts.before(tensors), outputs=tensors), tensors, feed), strict=True)
        )

    def knows(self, tensor: str) -> bool:
        """Whether a tensor can be had, as far as `find_blocked` has found out."""
        return tensor not in self._lost

    def find_blocked(self, feed: Feed, reason: str) -> None:
        """Finds the nodes that keep the model from running; everything computed from them is lost.

        Args:
            feed: the inputs.
            reason: why the whole model is not run.
        """
        alive = list(range(len(self._parts.nodes)))
        while alive and len(self.blocked) < MOST_BLOCKED:
            if not (refused := self._trial(alive, feed)):
                break
            if not self.blocked and self._refused_as_a_whole():
                self._lose(alive)
                break
            number, why = self._first_refused(alive, feed, refused)
            node = self._parts.nodes[number]
            self.blocked.append(RefusedNode(message_name(node), node.op_type, why))
            gone = self._parts.behind(number)
            self._lose(gone)
            alive = [number for number in alive if number not in gone]
        if not self.blocked:
            self.blocked.append(RefusedNode("", "", reason))

    def _refused_as_a_whole(self) -> bool:
        """Whether a model with the same versions that contains only an Identity is also rejected."""
        part = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        part.graph.name = "probe"
        part.graph.node.add(op_type="Identity", input=["x"], output=["y"])
        part.graph.input.append(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1]))
        part.graph.output.append(onnx.ValueInfoProto(name="y"))
        try:
            self._run(part, ["y"], {"x": np.zeros(1, np.float32)})
        except CannotRun:
            return True
        return False

    def _lose(self, numbers: Iterable[int]) -> None:
        self._lost.update(name for number in numbers for name in self._parts.nodes[number].output)

    def _first_refused(self, alive: list[int], feed: Feed, why: str) -> tuple[int, str]:
        """The first node that is rejected together with the nodes before it."""
        count, why = first_bad(0, len(alive), why, lambda count: self._trial(alive[:count], feed))
        return alive[count - 1], why

    def _trial(self, numbers: list[int], feed: Feed) -> str:
        """Why these nodes are not run together; "" when they are."""
        if unread := self._parts.unread(numbers):
            try:  # the runtimes also compute outputs that are not requested
                self._run(self._parts.part(numbers, outputs=unread), unread[-1:], feed)
            except CannotRun as error:
                return str(error)
        return ""

    def _run(self, part: onnx.ModelProto, names: Sequence[str], feed: Feed) -> Sequence[Any]:
        own = {info.name for info in part.graph.input}
        fed = {name: value for name, value in feed.items() if name in own}
        try:
            return self._session(part).run(list(names), fed)
        except TooSlow as error:  # to look for the node that takes so long would take as long again and again
            raise RewriterError(f"{error.sentence(self.runtime)}, so no outputs are compared; raise --time-limit") from error
        except NoAnswer as error:
            raise CannotRun(error.sentence(self.runtime)) from error
        except Exception as error:
            raise CannotRun(judges.reason(error)) from error

    def _session(self, part: onnx.ModelProto) -> Runs:
        if part is not self.model:
            return self._made_ready(part)
        if self._whole is None:
            self._whole = self._made_ready(part)
        return self._whole

    def _made_ready(self, part: onnx.ModelProto) -> Runs:
        if expands_too_much(part):
            raise NoAnswer(f"did not run, because {TOLD}")
        if self._consumer is not None:
            return self._consumer(part)
        runtime = PLAIN if self.runtime == SESSION else self.runtime  # an optimization may compute a tensor in another way
        return Session(part.SerializeToString(), self.folder, runtime)


def _takes(info: onnx.ValueInfoProto, value: Any) -> bool:
    """Whether an array fits the declared type and shape of an input."""
    tensor, array = info.type.tensor_type, np.asarray(value)
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        return False
    if array.dtype != dtype:
        return False
    if not tensor.HasField("shape"):
        return True
    dims = [dim.dim_value for dim in tensor.shape.dim]
    return len(dims) == array.ndim and all(dim in (0, size) for dim, size in zip(dims, array.shape, strict=True))


# Goes through pairs of tensors, in the order of computation, and compares them.
#
# All intermediates of a model may be larger than the memory. So as many pairs as a budget allows become outputs at a time, and
# values are dropped before the next ones are computed.

UNKNOWN_SIZE_DIVISOR = 16
"""A tensor whose size cannot be determined in advance is counted as the budget divided by this."""

MOST_AT_ONCE = 256
"""Pairs of one run; the first difference is found without running all of a deep model for it."""


class Search:
    """Compares pairs.

    Args:
        halves: the two models.
        feeds: the inputs of each.
        bound: how far tensors may be apart.
        memory: bytes that fetched tensors of both models may take at a time.

    Attributes:
        peak_bytes: the most bytes that fetched tensors took at a time.
    """

    def __init__(self, halves: tuple[Half, Half], feeds: Feeds, bound: Bound, memory: int) -> None:
        self._halves = halves
        self._feeds = feeds
        self._bound = bound
        self._memory = memory
        self.peak_bytes = 0

    def differences(self, pairs: Sequence[TensorPair]) -> Iterator[LayerDifference]:
        """Pairs that both models can compute, one after the other; lazily, so that who has seen enough stops the runs."""
        known = [pair for pair in pairs if self._halves[0].knows(pair.first) and self._halves[1].knows(pair.second)]
        for chunk in self._chunks(known):
            yield from self._compared(chunk)

    def _chunks(self, pairs: Sequence[TensorPair]) -> Iterator[list[TensorPair]]:
        sizes = [
            expected_sizes(half.file, feed, names)
            for half, feed, names in zip(
                self._halves, self._feeds, ([p.first for p in pairs], [p.second for p in pairs]), strict=True
            )
        ]
        unknown = self._memory // (2 * UNKNOWN_SIZE_DIVISOR)
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
                return  # a tensor that the runtime computes and does not return, for example of type bfloat16
            middle = len(chunk) // 2
            yield from self._compared(chunk[:middle])
            yield from self._compared(chunk[middle:])
            return
        self.peak_bytes = max(self.peak_bytes, sum(map(size_of, values)))
        for pair in chunk:
            yield compared(pair, values[0], values[1], self._bound)


def compared(pair: TensorPair, one: Mapping[str, Any], other: Mapping[str, Any], bound: Bound) -> LayerDifference:
    """How the tensors of a pair differ."""
    value = one[pair.first]
    found = next(differences({pair.first: value}, {pair.first: other[pair.second]}, bound))
    shape = f"{value.dtype}[{','.join(map(str, value.shape))}]" if isinstance(value, np.ndarray) else ""
    return LayerDifference(pair, shape, found.largest, found.message)


# How many bytes each tensor of a model will take, estimated before the run, which has a memory budget.


def expected_sizes(file: Path, feed: Feed, tensors: Iterable[str]) -> dict[str, int]:
    """Bytes of tensors of the main graph; tensors whose shape cannot be determined in advance are left out."""
    try:
        model = load(file)
        fix_shapes(model.graph, [(name, value.shape) for name, value in feed.items() if isinstance(value, np.ndarray)])
    except RewriterError:
        return {}
    facts = Facts(GraphIndex(model.graph), model.overridable)
    tensors_by_name = {tensor.name: tensor for node in model.graph.nodes for tensor in node.outputs}
    found = {}
    for name in tensors:
        tensor = tensors_by_name.get(name)
        if tensor is not None and (elements := count(facts.shape(tensor))) is not None:
            found[name] = elements * _item_size(facts.dtype(tensor))
    return found


def _item_size(dtype: int | None) -> int:
    known = numpy_dtype(dtype or 0)
    return 8 if known is None else max(1, known.itemsize)


# Two model files compared by their results: their outputs, and the first tensor in which they part.

ULPS = 16
"""Units in the last place of the coarsest type that either model computes in, allowed in addition to the tolerances: two
kernels for one operator add up in different orders.
"""


def compare_models(
    one: Path,
    other: Path,
    *,
    inputs: str | None,
    rtol: float,
    atol: float,
    memory: int,
    layers: bool,
    consumer: tuple[str, Ready] | None = None,
) -> Comparison:
    """Runs two models on the same inputs.

    Args:
        one, other: the files.
        inputs: an .npz file with the first model's inputs; None: several sets are made up, always the same.
        rtol: relative to the largest finite magnitude of the tensor.
        atol: absolute.
        memory: bytes that fetched tensors may take at a time.
        layers: compare all tensors that have a counterpart, even if the outputs agree.
        consumer: another runtime for the second model, by its name with its version, and what makes a model ready in it.

    Raises:
        RewriterError: a file is no model, inputs cannot be made up or do not fit.
    """
    protos = load(one).proto, load(other).proto
    runtime = runtimes()[0]
    title, ready = consumer or ("", None)
    halves = Half(protos[0], one, runtime), Half(protos[1], other, runtime, ready)
    bound = Bound(ulps=ULPS, rtol=rtol, atol=atol, eps=max(map(coarsest_eps, protos)), loose=ready is not None)
    recorded = recorded_feed(inputs, protos[0]) if inputs else None
    version = runtime_version(runtime) + (f" for A, {title} for B" if title else "")
    found = Comparison(version, inputs or "random", [], bound, (halves[0].blocked, halves[1].blocked))
    first, differing = _outputs(found, halves, _rounds(halves, recorded), bound)
    for half in halves:
        half.release()
    feeds = differing or (first if layers else None)
    if feeds is not None:
        _walk(found, halves, feeds, memory, layers=layers)
    return found


@record(frozen=True, slots=True)
class _Round:
    """One set of inputs: its sort, each model's inputs, and each model's outputs, or why it does not run."""

    sort: str
    feeds: Feeds
    values: tuple[Outputs | CannotRun, Outputs | CannotRun]

    @property
    def ran(self) -> bool:
        return any(not isinstance(value, CannotRun) for value in self.values)


def _rounds(halves: tuple[Half, Half], recorded: Feed | None) -> Iterator[_Round]:
    """The rounds of the comparison, each run when it is needed.

    Unknown dimensions get the first choice with which one of the models runs on ordinary inputs. Further sets on which neither
    model runs are left out.
    """
    if recorded is not None:
        yield _round(halves, RECORDED, recorded)
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


def _outputs(
    found: Comparison, halves: tuple[Half, Half], rounds: Iterator[_Round], bound: Bound
) -> tuple[Feeds | None, Feeds | None]:
    """Compares the outputs in every round. Returns the inputs of the first round, and of the first round with a difference to
    look for.
    """
    first: Feeds | None = None
    differing: Feeds | None = None
    for one in rounds:
        first = first or one.feeds
        found.sets += 1
        found.shapes = found.shapes or _shapes(one.feeds[0])
        for half, feed, value in zip(halves, one.feeds, one.values, strict=True):
            if isinstance(value, CannotRun) and not half.blocked:
                half.find_blocked(feed, str(value))
        before, after = one.values
        if isinstance(before, CannotRun) or isinstance(after, CannotRun):
            return first, one.feeds
        found.missing = [*(name for name in before if name not in after), *(name for name in after if name not in before)]
        layers = [_layer(name, one.sort, before, after, bound) for name in before if name in after]
        found.outputs = layers if not found.outputs else list(map(_worse, found.outputs, layers))
        if differing is None and (found.missing or any(layer.message for layer in layers)):
            differing = one.feeds
    return first, differing


def _layer(name: str, sort: str, before: Outputs, after: Outputs, bound: Bound) -> LayerDifference:
    layer = compared(TensorPair(name, name, Maker(name, ""), Maker(name, "")), before, after, bound)
    if layer.message:
        return replace(layer, message=layer.message + SAYING.get(sort, ""))
    return replace(layer, largest=0.0) if sort == LARGE else layer


def _worse(one: LayerDifference, other: LayerDifference) -> LayerDifference:
    """The difference that is worse for the models; of two alike, the one on more ordinary inputs."""
    return max(one, other, key=lambda layer: (bool(layer.message), 0.0 if layer.message else layer.largest))


def _shapes(feed: Feed) -> list[str]:
    return [f"{name} {value.dtype}[{','.join(map(str, value.shape))}]" for name, value in feed.items()]


def _walk(found: Comparison, halves: tuple[Half, Half], feeds: Feeds, memory: int, *, layers: bool) -> None:
    one, other = (sides.of_graph(half.model.graph, "main", half.folder) for half in halves)
    pairs = tensor_pairs(one, other)
    found.pairs = len(pairs)
    search = Search(halves, feeds, found.bound, memory)
    for layer in search.differences(pairs):
        found.compared += 1
        if layers:
            found.layers.append(layer)
        if layer.message and found.first is None:
            found.first = First(layer, tuple(_at(layer, *halves)))
            if not layers:
                break
    found.peak_bytes = search.peak_bytes


def _at(layer: LayerDifference, one: Half, other: Half) -> Iterator[Difference]:
    """Differences between the nodes that make the two tensors: attributes, operands, constants that they read."""
    maker = layer.pair.maker.node
    read = {name for node in one.model.graph.node if layer.pair.first in node.output for name in node.input}
    try:
        all_of_them = list(compare(one.model, other.model, one.folder, other.folder))
    except RewriterError:
        return
    for difference in all_of_them:
        if difference.place != "main" and not difference.place.startswith(f"{maker}."):
            continue
        named = {maker, layer.pair.other_maker.node, layer.pair.first, layer.pair.second}
        if difference.name in named or (difference.kind == "constant" and difference.name.split(" -> ")[0] in read):
            yield difference


# Which tensor of one model is compared with which tensor of the other.
#
# Names do not decide: a converter, an optimiser or a rewrite may have changed all of them. Tensors are pairs when paired nodes
# (`rewriter.trust.difference`) make them at the same position, or read them at the same position. The second way sees
# across a node that was exchanged for another or put in between. A name decides only about nodes that have no partner.


def tensor_pairs(one: Side, other: Side) -> list[TensorPair]:
    """Pairs of tensors that nodes make, in the order in which the first model computes them; each pair once."""
    pairing = Pairing(one, other)
    found: dict[tuple[str, str], int] = {}
    for place, (first, second) in _found(one, other, pairing):
        if first in one.makers and second in other.makers:
            key = (first, second)
            found[key] = min(place, found.get(key, place))
    ordered = sorted(found, key=lambda key: (found[key], one.makers[key[0]], other.makers[key[1]]))
    return [TensorPair(a, b, _maker(one, a), _maker(other, b)) for a, b in ordered]


def _found(one: Side, other: Side, pairing: Pairing) -> Iterator[tuple[int, tuple[str, str]]]:
    """Pairs with a number that orders them: for results, three times the node's plus one; for operands one less, so that they
    come before the tensors that are computed from them.
    """
    for number, counterpart in pairing.forth.items():
        operands, outputs = one.names(number)
        others, results = other.names(counterpart)
        for pair in zip(outputs, results, strict=False):
            yield 3 * number + 1, pair
        for pair in zip(operands, others, strict=False):
            yield 3 * number, pair
    last = 3 * len(one.nodes)
    for name, (number, _) in one.makers.items():
        known = other.makers.get(name)
        if known is not None and number not in pairing.forth and known[0] not in pairing.back:
            yield 3 * number + 1, (name, name)
    there = set(other.outputs)
    for name in one.outputs:
        if name in there:
            yield last, (name, name)


def _maker(side: Side, tensor: str) -> Maker:
    node = side.nodes[side.makers[tensor][0]]
    return Maker(message_name(node), text(node.op_type))
