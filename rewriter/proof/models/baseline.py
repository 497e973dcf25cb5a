"""A model that runs, with what it was given and what it answered: other states of it are compared with these answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rewriter.proof.models.drawn_values import EDGES, INFINITE, LARGE, LIMITS
from rewriter.proof.models.model_inputs import Feed, FeedSet, feed_sets, recorded_feed
from rewriter.proof.models.model_runs import CannotRun, GaveUp, ModelRun, Outputs, runtimes
from rewriter.proof.models.output_agreement import Bound, OutputDifference, coarsest_eps, differences
from rewriter.proof.models.validity import Candidate
from rewriter.record import record, replace

RECORDED = "recorded"

SAYING = {
    EDGES: " on inputs of 0, 1, -1 and the like",
    LARGE: " on large inputs",
    LIMITS: " on inputs near the limits of the type",
    INFINITE: " on inputs with infinities and NaN",
}
"""What is added to a difference that ordinary numbers do not show."""

MOST_BYTES_FOR_ALL = 1 << 28
"""Of a model with its data, and of the inputs and outputs of one run, for which all sets of inputs are used."""

FEW_SETS = 3
"""Sets of inputs for a larger model."""


@record(frozen=True, slots=True)
class RunAnswer:
    """What a model answered to inputs of one sort."""

    sort: str
    feed: Feed
    outputs: Outputs


class Baseline:
    """The answers of a model.

    Attributes:
        runtime: the best one that runs the model.
        refused: why a better runtime does not; "" when there is none. Another model may run there and not here.
        random: names of outputs that differ between two runs of the model itself; known as far as it was asked.

    Raises:
        RewriterError: it cannot be run, or no input for it can be had.
    """

    def __init__(self, candidate: Candidate, inputs: str | None) -> None:
        self._candidate = candidate
        self._eps = coarsest_eps(candidate.proto)
        self.random: list[str] = []
        self._asked_twice = False
        self.refused = ""
        for runtime in runtimes():
            try:
                self.runtime, self.answers = runtime, _answers(candidate, runtime, inputs)
                return
            except GaveUp:
                raise
            except CannotRun as error:
                self.refused = self.refused or str(error)
        raise CannotRun(self.refused)

    def against(self, candidate: Candidate, bound: Bound) -> OutputDifference:
        """How another model differs.

        Returns:
            With a message where something exceeds the bound, or where the other model does not run on inputs on which this one
            does; of several, that on the most ordinary inputs. Otherwise the largest difference on ordinary inputs.

        Raises:
            GaveUp: the other model takes too long.
        """
        bound = replace(bound, eps=self._eps)
        asked = [answer for answer in self.answers if not (bound.approximate and answer.sort == INFINITE)]
        try:
            run = ModelRun(candidate, self.runtime)
            found = [(answer, run(answer.feed)) for answer in asked]
        except GaveUp:
            raise
        except CannotRun as error:
            return OutputDifference("", float("inf"), str(error))
        worst = self._worst(found, bound)
        if worst.message and not self._asked_twice:
            self._find_random(bound)
            worst = self._worst(found, bound)
        return worst

    def _worst(self, found: list[tuple[RunAnswer, Outputs]], bound: Bound) -> OutputDifference:
        ordinary = OutputDifference("", 0.0)
        for answer, outputs in found:
            allowed = replace(bound, finite=bound.approximate and answer.sort in (LARGE, LIMITS))
            every = [d for d in differences(answer.outputs, outputs, allowed) if d.output not in self.random]
            worst = max(every, key=lambda d: (bool(d.message), d.largest), default=ordinary)
            if worst.message:
                return replace(worst, message=worst.message + SAYING.get(answer.sort, ""))
            if answer.sort not in (LARGE, LIMITS) and worst.largest > ordinary.largest:
                ordinary = worst
        return ordinary

    def _find_random(self, bound: Bound) -> None:
        """A model may draw random numbers; an output that differs from itself cannot be compared.

        The same session is asked twice, since a generator with a seed begins anew in each session.
        """
        self._asked_twice = True
        again = ModelRun(self._candidate, self.runtime)
        for _ in range(2):
            for answer in self.answers:
                found = differences(answer.outputs, again(answer.feed), bound)
                self.random += [d.output for d in found if d.message and d.output not in self.random]


def _answers(candidate: Candidate, runtime: str, inputs: str | None) -> list[RunAnswer]:
    """Answers to the inputs of a file, or to made-up ones: of each set the first choice that the model accepts.

    The ordinary set has to be accepted; of the others, a model may refuse some.
    """
    run, model = ModelRun(candidate, runtime), candidate.proto
    if inputs is not None:
        feed = recorded_feed(inputs, model)
        return [RunAnswer(RECORDED, feed, run(feed))]
    refusals: list[CannotRun] = []
    for sets in feed_sets(model):
        first = _answer(run, sets[0], refusals)
        if first is not None:
            further = sets[1:] if _is_small(candidate, first) else sets[1:FEW_SETS]
            return [first, *(answer for one in further if (answer := _answer(run, one, refusals)) is not None)]
    raise refusals[0] if refusals else CannotRun("no input could be made up")


def _answer(run: ModelRun, feeds: FeedSet, refusals: list[CannotRun]) -> RunAnswer | None:
    for feed in feeds.choices():
        try:
            return RunAnswer(feeds.sort, feed, run(feed))
        except GaveUp:
            raise
        except CannotRun as error:
            refusals.append(error)
    return None


def _is_small(candidate: Candidate, answer: RunAnswer) -> bool:
    arrays = _arrays([*answer.feed.values(), *answer.outputs.values()])
    return candidate.size() <= MOST_BYTES_FOR_ALL and sum(array.nbytes for array in arrays) <= MOST_BYTES_FOR_ALL


def _arrays(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _arrays(list(value))
        elif isinstance(value, np.ndarray):
            yield value
