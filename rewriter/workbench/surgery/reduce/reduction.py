"""`rewriter reduce`: the smallest model that still shows something, found by leaving out one thing after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import onnx
import onnx.inliner

from rewriter.core.errors import RewriterError
from rewriter.core.facts.single_node import known_types
from rewriter.core.framework.source_info import SourceInfo
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.expansion import expands_too_much
from rewriter.core.onnxfile.part import Whole, as_inputs, bodies, body_alone, body_of_nodes, graphs
from rewriter.workbench.style import counted
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.keep import drop_imports, needed_functions
from rewriter.workbench.surgery.messages import clear
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.reduce.shrink_sizes import SMALL, inline, large_names, lengths, staying, weights, with_length
from rewriter.workbench.surgery.reduce.trials import Trials

# Delta debugging: of many things those few that something needs, in as few trials as can be.

T = TypeVar("T")


def minimized(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """The items of which none can be left out alone.

    Halves are tried first, then quarters, and so on down to single items, again until none of these goes.

    Args:
        items: for which `holds` is known to be true.
        holds: whether what is looked for is still there with these items alone.
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
_MOST_INLINE = 1 << 18  # elements of a weight that is taken from another file into the model


def reduced(
    source: Opened,
    keep: Sequence[str],
    rules: RuleSet,
    *,
    framework: SourceInfo | None = None,
    seconds: float = 600.0,
    checks: Checks | None = None,
) -> Surgery:
    """The smallest model that still shows what `keep` says; without any, the same nodes with the smallest weights and no texts.

    Raises:
        RewriterError: the model does not show it.
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
    did.append(f"still shows {' and '.join(map(repr, keep)) or 'what the whole shows'}; {counted(trials.made, 'trial')}")
    notes = ["the time was over before all was tried; --time-limit gives more"] if work.late else []
    notes += staying(work.model)
    if model.training_info:
        notes.append("the training information is left out")
    if framework is not None:
        notes.append(f"rules were told what {framework.path} says; give it with --source to whoever tries the result")
    command = command_text("reduce", [("--keep", keep)])
    return finish(result, [source], command, did, notes, checks)


class Reduction:
    """A model on its way to be small; each step is taken where what is looked for is still shown.

    Args:
        end: when to stop trying, as `time.monotonic` has it.

    Attributes:
        model: as small as it is now.
        late: whether something was not tried any more.
    """

    def __init__(self, model: Model, trials: Trials, end: float) -> None:
        self.model = model.sketch()
        self.model.ClearField("training_info")  # graphs with weights of their own, of which no trial takes notice
        self.late = False
        self._types = known_types(model)
        self._trials, self._end = trials, end

    def fewer_nodes(self) -> None:
        """Leaves out what is not needed: large weights at first, so that trials are quick, then nodes, and nodes of bodies."""
        large = large_names(self.model)
        if not self._step(lambda: as_inputs(self.model, large, self._types)):
            held = {tensor.name for tensor in self.model.graph.initializer}
            self._step(lambda: as_inputs(self.model, held.intersection(large), self._types))
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
        """Gives dimensions smaller lengths, and puts inputs in the place of weights that are still large."""
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
        """Leaves out declarations, texts, operator sets and functions that are not needed."""
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
        """Goes on with one body alone, where all is in it."""
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
        model.graph.functions[:] = needed_functions(model.graph)
        drop_imports(model.graph)
        return model.sketch()

    def _step(self, make: Callable[[], onnx.ModelProto]) -> bool:
        """Takes a step, if the result still shows it."""
        try:
            smaller = make()
        except RewriterError:
            return False
        except Exception:  # of the inliner, which has a class for each thing that it does not bear
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
    result = onnx.ModelProto()
    result.CopyFrom(model)
    infos = onnx.GraphProto(output=[info for info in model.graph.output if info.name in names]).output
    result.graph.ClearField("output")
    result.graph.output.extend(infos)
    return result


def _without_words(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model without these fields, wherever they are."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    clear(result, names)
    return result


def _counts(model: onnx.ModelProto) -> tuple[int, int]:
    """Nodes, those of bodies with them, and bytes of weights."""
    return sum(len(graph.node) for graph in graphs(model)), sum(size for _, size in weights(model))
