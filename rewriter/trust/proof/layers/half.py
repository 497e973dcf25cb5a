"""One of two models that are compared: runs parts of it, and searches for the first tensor in which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.isolation.child import TooSlow
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.expansion import TOLD, expands_too_much
from rewriter.core.onnxfile.part import Whole
from rewriter.trust.proof import onnx_runtime
from rewriter.trust.proof.judges.judges import PLAIN, SESSION, NoAnswer, Session
from rewriter.trust.proof.layers.result import LayerDifference, RefusedNode, TensorPair
from rewriter.trust.proof.models.model_inputs import Feed, declared_inputs
from rewriter.trust.proof.models.model_runs import CannotRun
from rewriter.trust.proof.models.output_agreement import Bound, differences

MOST_BLOCKED = 16
"""Nodes that cannot be run and are named; finding one takes as many runs as its number has binary digits."""


class Half:
    """A model with what it is fed.

    Args:
        model: with its weights, or references to external data.
        folder: that of the model's file, where external data are looked for.
        runtime: "ONNX Runtime" or "onnx.reference".

    Raises:
        RewriterError: external data are missing or lead out of the folder.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path, runtime: str) -> None:
        self.model = model
        self.runtime = runtime
        self.blocked: list[RefusedNode] = []
        self._folder = folder
        self._parts = Whole(model)
        self._lost: set[str] = set()
        self._whole: Session | None = None  # the session of the model as a whole
        for tensor in external_data.tensors_of(model):
            if external_data.is_external(tensor):
                with external_data.opened(folder, external_data.reference(tensor).location):
                    pass

    def feed(self, given: Feed) -> Feed:
        """What is given for another model's inputs, as this one's: by name, and what is left by position where types agree.

        Raises:
            RewriterError: an input is not given.
        """
        infos = declared_inputs(self.model)
        spare = [name for name in given if name not in {info.name for info in infos}]
        found = {}
        for info in infos:
            if info.name in given:
                found[info.name] = given[info.name]
                continue
            like = next((name for name in spare if _takes(info, given[name])), None)
            if like is None:
                raise RewriterError(f"input {info.name!r} has no counterpart among {', '.join(map(repr, given)) or 'none'}")
            spare.remove(like)
            found[info.name] = given[like]
        return found

    def outputs(self, feed: Feed) -> dict[str, Any]:
        """The model's own outputs.

        Raises:
            CannotRun: a runtime refuses the model, or fails in it.
        """
        names = [output.name for output in self.model.graph.output]
        return dict(zip(names, self._run(self.model, names, feed), strict=True))

    def release(self) -> None:
        """Gives up the memory of the model as a whole; it is made ready again when it is asked for."""
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
        """Finds the nodes because of which the model does not run; all that is computed from them is lost.

        Args:
            feed: the inputs.
            reason: why the model as a whole is not run.
        """
        alive = list(range(len(self._parts.nodes)))
        while alive and len(self.blocked) < MOST_BLOCKED:
            refused = self._trial(alive, feed)
            if refused is None:
                break
            if not self.blocked and self._refused_as_a_whole():
                self._lose(alive)
                break
            number, why = self._first_refused(alive, feed, refused)
            node = self._parts.nodes[number]
            self.blocked.append(RefusedNode(node.name or next(filter(None, node.output), ""), node.op_type, why))
            gone = self._parts.behind(number)
            self._lose(gone)
            alive = [number for number in alive if number not in gone]
        if not self.blocked:
            self.blocked.append(RefusedNode("", "", reason))

    def _refused_as_a_whole(self) -> bool:
        """Whether a model with the same versions and nothing in it but an Identity is refused, too."""
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
        """The node with which the nodes before it are refused, by bisection."""
        good, bad = 0, len(alive)
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._trial(alive[:middle], feed)
            if found is None:
                good = middle
            else:
                bad, why = middle, found
        return alive[bad - 1], why

    def _trial(self, numbers: list[int], feed: Feed) -> str | None:
        """Why these nodes are not run together; None when they are."""
        if not (unread := self._parts.unread(numbers)):
            return None
        try:
            self._run(
                self._parts.part(numbers, outputs=unread), unread[-1:], feed
            )  # the runtimes compute the other outputs all the same
        except CannotRun as error:
            return str(error)
        return None

    def _run(self, part: onnx.ModelProto, names: Sequence[str], feed: Feed) -> Sequence[Any]:
        own = {info.name for info in part.graph.input}
        fed = {name: value for name, value in feed.items() if name in own}
        try:
            return self._session(part).run(list(names), fed)
        except TooSlow as error:  # to look for the node that takes so long would take as long again and again
            raise RewriterError(
                f"{error.sentence(self.runtime)}, so nothing is compared; --time-limit gives it more"
            ) from error
        except NoAnswer as error:
            raise CannotRun(error.sentence(self.runtime)) from error
        except Exception as error:
            raise CannotRun(onnx_runtime.reason(error)) from error

    def _session(self, part: onnx.ModelProto) -> Session:
        if part is not self.model:
            return self._made_ready(part)
        if self._whole is None:
            self._whole = self._made_ready(part)
        return self._whole

    def _made_ready(self, part: onnx.ModelProto) -> Session:
        if expands_too_much(part):
            raise NoAnswer(f"was not asked, since {TOLD}")
        runtime = PLAIN if self.runtime == SESSION else self.runtime  # an optimization may compute a tensor in another way
        return Session(part.SerializeToString(), self._folder, runtime)


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


# Goes through pairs of tensors, in the order of computation, and holds them against each other.
#
# All intermediates of a model may be many times what memory holds. So as many pairs as a budget allows are made outputs at a
# time, and values are dropped before the next ones are asked for.

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
