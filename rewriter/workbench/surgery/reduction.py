"""The smallest model that still shows a problem: `rewriter reduce`.

Nodes go first, then weights and dimensions become smaller; after each step a trial checks whether the model still shows
the problem.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from math import prod
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx.inliner

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError, counted, install
from rewriter.core.facts.single_node import known_types
from rewriter.core.framework.source_info import SourceInfo
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import needed_functions, with_inner
from rewriter.core.graph.tidy import drop_imports
from rewriter.core.isolation import child
from rewriter.core.isolation.budget import Budget, budgeted, current
from rewriter.core.isolation.child import Crash, NoAnswer
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import RUN
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.part import Whole, as_inputs, bodies, body_alone, body_of_nodes, expands_too_much, graphs
from rewriter.core.onnxfile.tensors import read_tensor, write_tensor
from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import RefusedError, has_kernel
from rewriter.trust.proof.validity import JUDGES, MOST_BYTES_TO_RUN, RUNTIME, SECONDS, WRITTEN, Candidate, small_feeds
from rewriter.workbench.surgery.data_files import size_of_proto
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened, clear, messages

# Weights of a model, in every place that can contain them: a user who shares a reduced model must not share a forgotten one.
#
# In addition to initializers there are constants of nodes as tensors and as lists, sparse tensors, constants of local
# functions, and operators that store learned parameters in lists of attributes, such as trees.

LARGE = 1 << 10
"""Bytes of a weight from which on an input may replace it; shorter lists of attributes are no weights."""

_LISTS = frozenset(("value_floats", "value_ints", "value_strings"))
"""Attributes of a Constant whose value is a list."""

_MOST_NAMED = 3


def large_names(model: onnx.ModelProto) -> list[str]:
    """The large weights of the main graph and of bodies, by the names of inputs that could replace them."""
    found = []
    for graph in graphs(model):
        found += [tensor.name for tensor in graph.initializer if _size(tensor) >= LARGE]
        found += [sparse.values.name for sparse in graph.sparse_initializer if _size(sparse) >= LARGE]
        found += [node.output[0] for node in graph.node if node.op_type == "Constant" and node.output and _size(node) >= LARGE]
    return list(dict.fromkeys(found))


def weights(model: onnx.ModelProto) -> list[tuple[str, int]]:
    """All weights of a model, each a name and its bytes."""
    found = [(message, _bytes(message)) for message in messages(model)]
    return [(message.name, size) for message, size in found if size]


def staying(model: onnx.ModelProto) -> list[str]:
    """A note on the large weights that remain in a reduced model; empty if none remains."""
    large = [(name, size) for name, size in weights(model) if size >= LARGE]
    if not large:
        return []
    names = list(dict.fromkeys(repr(name) for name, _ in large))
    named = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    return [f"weights of {sum(size for _, size in large):,} bytes stay, with their values: {named}"]


def _size(message: onnx.NodeProto | onnx.TensorProto | onnx.SparseTensorProto) -> int:
    return sum(map(_bytes, messages(message)))


def _bytes(message: object) -> int:
    """Bytes of a tensor, or of a long list or text in an attribute."""
    if isinstance(message, onnx.TensorProto):
        return sum(map(len, message.string_data)) or size_of_proto(message)
    if not isinstance(message, onnx.AttributeProto):
        return 0
    size = 4 * len(message.floats) + 8 * len(message.ints) + len(message.s) + sum(map(len, message.strings))
    return size if size >= LARGE else 0


SMALL = (2, 3, 4, 6, 8)
"""Lengths that a dimension is tried with. Not 1, since a dimension of 1 is broadcast, and means something else."""

_MOST_ITEMS = 64  # of a tensor of integers that may hold lengths
_INT64 = int(onnx.TensorProto.INT64)


def lengths(model: onnx.ModelProto) -> list[int]:
    """The lengths of dimensions that might be smaller; lengths that affect the most elements of weights come first."""
    found: Counter[int] = Counter()
    for message in _sized(model):
        if isinstance(message, onnx.TensorShapeProto.Dimension):
            found[message.dim_value] += 1
        elif isinstance(message, onnx.AttributeProto):
            items = _constant_list(message)
            found[len(items)] += len(items)
        else:
            count = _count(message)
            for dim in set(message.dims):
                found[dim] += count
    return sorted((length for length in found if length > SMALL[0]), key=lambda length: (-found[length], length))


def with_length(model: onnx.ModelProto, old: int, new: int, folder: Path | None, *, attributes: bool) -> onnx.ModelProto:
    """The model with another length for all dimensions of one length; short tensors of integers that contain it follow.

    Args:
        folder: folder of the external data.
        attributes: whether attributes that equal this number follow as well.

    Raises:
        RewriterError: a weight cannot be read.
    """
    result = deepcopy(model)
    for message in _sized(result):
        if isinstance(message, onnx.TensorShapeProto.Dimension):
            if message.dim_value == old:
                message.dim_value = new
        elif isinstance(message, onnx.AttributeProto):
            _shrink_attribute(message, old, new, numbers=attributes)
        elif isinstance(message, onnx.TensorProto):
            _shrink(message, old, new, folder)
        else:
            _shrink_sparse(message, old, new, folder)
    return result


_Sized = onnx.TensorShapeProto.Dimension | onnx.AttributeProto | onnx.TensorProto | onnx.SparseTensorProto


def _sized(model: onnx.ModelProto) -> Iterator[_Sized]:
    """Everything in a model that can contain a length; the tensors inside a sparse one are not listed on their own."""
    return (message for message in messages(model, (onnx.SparseTensorProto,)) if isinstance(message, _Sized))


def _constant_list(attribute: onnx.AttributeProto) -> Any:
    """The value of a Constant that is a list; an empty list for other attributes."""
    return getattr(attribute, attribute.name.removeprefix("value_")) if attribute.name in _LISTS else []


def _shrink(tensor: onnx.TensorProto, old: int, new: int, folder: Path | None) -> None:
    holds = tensor.data_type == _INT64 and _count(tensor) <= _MOST_ITEMS
    if old not in tensor.dims and not holds:
        return
    array = read_tensor(tensor, folder)[tuple(slice(new if dim == old else dim) for dim in tensor.dims)]
    if holds and (array == old).any():
        array = array.copy()
        array[array == old] = new
    elif old not in tensor.dims:
        return
    tensor.CopyFrom(write_tensor(array, tensor.name, tensor, tensor.data_type))


def _shrink_sparse(sparse: onnx.SparseTensorProto, old: int, new: int, folder: Path | None) -> None:
    """Keeps the elements that are inside the new shape."""
    if old not in sparse.dims:
        return
    shape = tuple(sparse.dims)
    small = tuple(new if dim == old else dim for dim in shape)
    indices, values = read_tensor(sparse.indices, folder), read_tensor(sparse.values, folder).reshape(-1)
    try:
        places = indices.T if indices.ndim == 2 else np.stack(np.unravel_index(indices, shape))
        kept = (places < np.reshape(small, (-1, 1))).all(axis=0)
        left = places[:, kept].T if indices.ndim == 2 else np.ravel_multi_index(tuple(places[:, kept]), small)
        values = values[kept]
    except (ValueError, IndexError) as error:
        raise RewriterError(f"sparse tensor {sparse.values.name!r}: its indices do not fit its shape") from error
    sparse.indices.CopyFrom(write_tensor(left.astype(np.int64), sparse.indices.name, sparse.indices))
    sparse.values.CopyFrom(write_tensor(values, sparse.values.name, sparse.values, sparse.values.data_type))
    sparse.ClearField("dims")
    sparse.dims.extend(small)


def _shrink_attribute(attribute: onnx.AttributeProto, old: int, new: int, *, numbers: bool) -> None:
    """Shortens the list of a Constant. The length as a number follows in that list, and with `numbers` in all attributes."""
    items = _constant_list(attribute)
    if len(items) == old:
        del items[new:]
    if numbers and attribute.HasField("i") and attribute.i == old:
        attribute.i = new
    if numbers or (items and len(items) <= _MOST_ITEMS):
        attribute.ints[:] = [new if item == old else item for item in attribute.ints]


def _count(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> int:
    return prod(max(dim, 0) for dim in tensor.dims)


def inline(model: onnx.ModelProto, folder: Path | None, most: int) -> None:
    """Puts small weights that are in other files into the model."""
    for tensor in external_data.tensors_of(model):
        if external_data.is_external(tensor) and _count(tensor) <= most:
            with suppress(RewriterError):  # the data stay in their file
                tensor.CopyFrom(write_tensor(read_tensor(tensor, folder), tensor.name, tensor, tensor.data_type))


TRIAL = 20.0
"""Seconds for the checkers of one trial, and for the rules."""

Shows = Callable[[Candidate], bool]
Question = Callable[[Candidate], str | None]


class Trials:
    """Tests whether smaller models still show the problem.

    A check that accepts the whole model has to accept the smaller ones as well, so that nothing else is broken on the way.

    Args:
        whole: the model before it is reduced.
        wanted: "refused: TEXT" or "rule: CODE"; if empty: rules fire where they did, and checks that reject the whole still do.
        rules: the rules that `wanted` may name.
        source: facts from the framework's own file.
        runtime: whether to run ONNX Runtime.

    Raises:
        RewriterError: the whole model does not show the problem.
    """

    def __init__(
        self, whole: Model, wanted: Sequence[str], rules: RuleSet, source: SourceInfo | None = None, *, runtime: bool = True
    ) -> None:
        self.folder: Path | None = whole.folder
        self._whole = whole
        self._rules, self._source, self._runtime = rules, source, runtime
        self._judges = tuple(name for name in JUDGES if name != WRITTEN and (runtime or name not in RUNTIME))
        self.trial_count = 0
        candidate = Candidate(whole)
        self._shows: list[Shows] = [self._condition(text, candidate) for text in wanted] or [self._everything(candidate)]
        self._takes: list[Question] = [methodcaller("refusal", name) for name in self._judges]
        if runtime:
            self._takes.append(_failure)
        self._takes = [ask for ask in self._takes if ask(candidate) == ""]

    def hold(self, model: onnx.ModelProto) -> bool:
        """Whether a smaller model still shows the problem."""
        self.trial_count += 1
        try:
            candidate = Candidate(self.loaded(model))
            with budgeted(Budget(TRIAL, current().memory)):
                return all(shows(candidate) for shows in self._shows) and not any(ask(candidate) for ask in self._takes)
        except RewriterError:
            return False

    def loaded(self, model: onnx.ModelProto) -> Model:
        """A message as a model; its constants are the constants of the whole."""
        found = Model.from_proto(model, self.folder)
        found.constant_inputs = "yes" if self._whole.inputs_are_constant else "no"
        return found

    def _condition(self, text: str, whole: Candidate) -> Shows:
        kind, colon, value = text.partition(":")
        value = value.strip()
        if not colon or not value or kind.strip() not in ("refused", "rule"):
            raise RewriterError(f'--keep {text!r}: write "refused: TEXT" or "rule: CODE"')
        return self._refused(value, whole) if kind.strip() == "refused" else self._fires(value, whole)

    def _refused(self, text: str, whole: Candidate) -> Shows:
        words = _plain(text)
        questions: dict[str, Question] = {name: methodcaller("refusal", name) for name in self._judges}
        if self._runtime:
            questions[RUN] = _failure
        heard = []
        for checker, ask in questions.items():
            reason = ask(whole)
            if reason and words in _plain(reason):
                return lambda candidate: words in _plain(ask(candidate) or "")
            heard += [f"{checker}: {reason}"] if reason else []
        answers = "; ".join(heard) or "no tool rejects it"
        missing = "" if self._runtime else f" (ONNX Runtime is not installed: {install('verify')})"
        raise RewriterError(f"the model is not rejected with {text!r}: {answers}{missing}")

    def _fires(self, code: str, whole: Candidate) -> Shows:
        rule = self._rules.get(code.upper())
        if rule is None:
            raise RewriterError(f"there is no rule {code!r}; `rewriter rules` lists them")
        for select in ([rule.code], ["DEFAULT", rule.code]):
            chosen = self._rules.select(select)
            if rule.code in self._fired(whole.model, chosen):
                return lambda candidate: rule.code in self._fired(self.loaded(candidate.proto), chosen)
        raise RewriterError(f"{rule.code} does not fire in the model; `rewriter why {rule.code} MODEL` prints the reason")

    def _fired(self, model: Model, rules: RuleSet) -> dict[str, list[tuple[str, str]]]:
        """The places where rules fire, by code; nothing is changed."""
        log = run(
            model.graph,
            rules,
            Knowledge(self._source, overridable=model.overridable, has_kernel=has_kernel if self._runtime else None),
            limits=Limits(seconds=TRIAL),
            keep=False,
            detail=False,
        )
        found: dict[str, list[tuple[str, str]]] = {}
        for firing in log.firings:
            found.setdefault(firing.rule, []).append((firing.place, firing.root))
        return found

    def _everything(self, whole: Candidate) -> Shows:
        rules = self._rules.select()
        fired = self._fired(whole.model, rules)
        refusing = [name for name in self._judges if whole.refusal(name)]
        return lambda candidate: (
            all(map(candidate.refusal, refusing)) and fired == self._fired(self.loaded(candidate.proto), rules)
        )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _failure(candidate: Candidate) -> str | None:
    """Why a model fails when it runs on ordinary inputs; "" if it runs, None if it was not run."""
    if not (judges.installed() and child.possible()) or candidate.size() > MOST_BYTES_TO_RUN:
        return None
    why = None
    try:
        for feed in small_feeds(candidate.proto):
            try:
                candidate.session().run([], feed, seconds=SECONDS)
                return ""
            except (RefusedError, Crash) as error:
                why = why or str(error)
    except (NoAnswer, RewriterError):
        return None  # it takes too long, or no inputs can be made for it
    return why


# Delta debugging: finds the few of many items that are needed, in as few trials as possible.

T = TypeVar("T")


def minimized(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """A subset of the items from which no single item can be removed.

    Halves are tried first, then quarters, and so on down to single items, again until no item can be removed.

    Args:
        items: items for which `holds` is known to be true.
        holds: whether the problem is still there with these items alone.
    """
    kept, size = list(items), len(items)
    while kept:
        before, place = len(kept), 0
        while place < len(kept):
            rest = kept[:place] + kept[place + size :]
            if holds(rest):
                kept = rest
            else:
                place += size
        if size == 1 and len(kept) == before:
            break
        size = max(min(size, len(kept)) // 2, 1)
    return kept


_SHARE = 0.8  # of the time; the rest is for writing
_MOST_INLINE = 1 << 18  # elements of a weight that is copied from another file into the model


def reduced(
    source: Opened,
    keep: Sequence[str],
    rules: RuleSet,
    *,
    framework: SourceInfo | None = None,
    seconds: float = 600.0,
    checks: Checks | None = None,
) -> Surgery:
    """The smallest model that still shows what `keep` names; if empty, the same nodes with the smallest weights and no texts.

    Raises:
        RewriterError: the model does not show the problem.
    """
    checks = checks or Checks()
    model = source.read()
    trials = Trials(model, keep, rules, framework, runtime=checks.runtime != "no")
    work = Reduction(model, trials, time.monotonic() + _SHARE * seconds)
    if keep:
        work.fewer_nodes()
    work.smaller_weights()
    work.fewer_words()
    result = trials.loaded(work.finished())
    before, after = _counts(model.sketch()), _counts(work.model)
    did = [f"{counted(after[0], 'node')} of {before[0]:,}, weights of {after[1]:,} bytes of {before[1]:,}"]
    shown = " and ".join(map(repr, keep)) or "the same findings and rejections"
    did.append(f"still shows {shown}; {counted(trials.trial_count, 'trial')}")
    notes = ["the time limit ended the reduction early; raise --time-limit"] if work.late else []
    notes += staying(work.model)
    if model.training_info:
        notes.append("the training information is left out")
    if framework is not None:
        notes.append(f"rules used {framework.path}; pass it with --source when you try the result")
    command = command_text("reduce", [("--keep", keep)])
    return finish(result, [source], command, did, notes, checks)


class Reduction:
    """A model that is being reduced; a step is kept only if the model still shows the problem.

    Args:
        end: when to stop trying, a time of `time.monotonic`.

    Attributes:
        model: the smallest model so far.
        late: whether steps were left out for lack of time.
    """

    def __init__(self, model: Model, trials: Trials, end: float) -> None:
        self.model = model.sketch()
        self.model.ClearField("training_info")  # graphs with weights of their own, which no trial reads
        self.late = False
        self._types = known_types(model)
        self._trials, self._end = trials, end

    def fewer_nodes(self) -> None:
        """Removes what is not needed: large weights first, so that trials are quick, then nodes, and nodes of bodies."""
        large = large_names(self.model)
        if not self._step(lambda: as_inputs(self.model, large, self._types)):
            initializer_names = {tensor.name for tensor in self.model.graph.initializer}
            self._step(lambda: as_inputs(self.model, initializer_names.intersection(large), self._types))
        if self.model.functions and not expands_too_much(self.model):
            self._step(lambda: onnx.inliner.inline_local_functions(self.model))
        self._nodes()
        while self._out_of_a_body():
            self._nodes()
        for number, body in enumerate(list(bodies(self.model.graph.node))):
            whole = self.model
            kept = minimized(
                range(len(body.node)),
                lambda k, whole=whole, n=number: self._try(body_of_nodes(whole, n, k, self._types)),  # type: ignore[misc]
            )
            self.model = body_of_nodes(whole, number, kept, self._types)
        self._outputs()

    def smaller_weights(self) -> None:
        """Gives dimensions smaller lengths, and replaces weights that are still large by inputs."""
        for old in lengths(self.model):
            there = set(lengths(self.model))
            for new in sorted((n for n in SMALL if n < old), key=lambda n: (n in there, n)):
                if old in there and any(self._length(old, new, attributes) for attributes in (False, True)):
                    break
        large = large_names(self.model)
        if large:
            whole = self.model
            left = minimized(large, lambda k: self._try(as_inputs(whole, set(large) - set(k), self._types)))
            self.model = as_inputs(whole, set(large) - set(left), self._types)

    def fewer_words(self) -> None:
        """Removes declarations, texts, operator sets and functions that are not needed."""
        self._step(lambda: _without_words(self.model, ("value_info",)))
        self._step(lambda: _without_words(self.model, ("doc_string", "metadata_props", "quantization_annotation")))
        self._step(self._without_imports)

    def finished(self) -> onnx.ModelProto:
        """The model, with the small weights inside of it."""
        inline(self.model, self._trials.folder, _MOST_INLINE)
        return self.model

    def _nodes(self) -> None:
        whole = Whole(self.model)
        places = range(len(whole.nodes))
        kept = minimized(places, lambda k: self._try(whole.part(k, types=self._types)))
        if len(kept) < len(places):
            self.model = whole.part(kept, types=self._types)

    def _out_of_a_body(self) -> bool:
        """Continues with one body alone, if the problem is in it."""
        count = sum(1 for _ in bodies(self.model.graph.node))
        return any(self._step(lambda n=n: body_alone(self.model, n, self._types)) for n in range(count))  # type: ignore[misc]

    def _outputs(self) -> None:
        whole = self.model
        names = [info.name for info in whole.graph.output]
        kept = minimized(names, lambda k: bool(k) and self._try(_of_outputs(whole, k)))
        self.model = _of_outputs(whole, kept)

    def _length(self, old: int, new: int, attributes: bool) -> bool:
        return self._step(lambda: with_length(self.model, old, new, self._trials.folder, attributes=attributes))

    def _without_imports(self) -> onnx.ModelProto:
        model = self._trials.loaded(self.model)
        model.graph.functions[:] = needed_functions(model.graph.functions, with_inner(model.graph.nodes))
        drop_imports(GraphIndex(model.graph))
        return model.sketch()

    def _step(self, make: Callable[[], onnx.ModelProto]) -> bool:
        """Keeps a step if the result still shows the problem."""
        try:
            smaller = make()
        except RewriterError:
            return False
        except Exception:  # the inliner raises various classes
            return False
        if smaller.ByteSize() == self.model.ByteSize() and smaller == self.model:
            return False
        taken = self._try(smaller)
        if taken:
            self.model = smaller
        return taken

    def _try(self, model: onnx.ModelProto) -> bool:
        if time.monotonic() > self._end:
            self.late = True
            return False
        return bool(model.graph.node) and self._trials.hold(model)


def _of_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    result = deepcopy(model)
    infos = onnx.GraphProto(output=[info for info in model.graph.output if info.name in names]).output
    result.graph.ClearField("output")
    result.graph.output.extend(infos)
    return result


def _without_words(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model without these fields, in any of its messages."""
    result = deepcopy(model)
    clear(result, names)
    return result


def _counts(model: onnx.ModelProto) -> tuple[int, int]:
    """The number of nodes, including nodes of bodies, and the bytes of weights."""
    return sum(len(graph.node) for graph in graphs(model)), sum(size for _, size in weights(model))
