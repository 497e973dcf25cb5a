"""Whether a result runs where the model as it was ran: to be loaded is not enough.

A runtime infers shapes when it loads a model, and meets values only when it runs it: a Reshape to a wrong number of elements,
an index outside of its axis, a broadcast that does not fit. So a result is run once on ordinary inputs. Where that fails, the
model as it was is run on the same inputs; made-up inputs that do not fit are refused by both.

This happens by default to models that changed, so it is bounded: the size of the model and its inputs, and the time of a run.
And it happens in a child, since a kernel that meets a value which it does not bear may end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rewriter.errors import RewriterError
from rewriter.proof import onnx_runtime
from rewriter.proof.judges import child
from rewriter.proof.judges.child import Crashed, NoAnswer
from rewriter.proof.judges.judges import RefusedError
from rewriter.proof.models.model_inputs import Feed, feed_sets
from rewriter.proof.models.validity import Candidate

RUN = f"{onnx_runtime.NAME}, run"
"""The name of this judge in reports."""

MOST_BYTES = 1 << 24
"""Of a model with its data that is run by default."""

MOST_BYTES_OF_INPUTS = 1 << 22

SECONDS = 5.0
"""A run that takes longer is ended, and nothing is concluded from it."""


class Running:
    """Runs states of one model on ordinary inputs.

    Args:
        before: the model as it was; asked for only when a result does not run.
    """

    def __init__(self, before: Callable[[], Candidate]) -> None:
        self._before = before
        self._feed: Feed | None = None

    def refusal(self, candidate: Candidate) -> str | None:
        """Why a state of the model does not run on inputs on which it ran as it was.

        Returns:
            "" when it runs, or when neither does; None when it was not run.
        """
        asked = False
        try:
            for feed in self._feeds(candidate):
                found = _run(candidate, feed)
                if found is None:
                    return None
                if not found:
                    return ""
                asked = True
                if self._feed is feed or _run(self._before(), feed) == "":
                    self._feed = feed
                    return found
        except RewriterError:
            return None  # nothing can be made up
        return "" if asked else None

    def _feeds(self, candidate: Candidate) -> Iterator[Feed]:
        """The inputs on which a state is known to fail, or ordinary ones for each choice of the unknown dimensions.

        Raises:
            RewriterError: nothing can be made up.
        """
        if not (onnx_runtime.installed() and child.possible()) or candidate.size() > MOST_BYTES:
            return
        if self._feed is not None:
            yield self._feed
            return
        model = candidate.proto
        for sets in feed_sets(model):
            for feed in sets[0].choices():
                if sum(np.asarray(value).nbytes for value in feed.values()) <= MOST_BYTES_OF_INPUTS:
                    yield feed


def _run(candidate: Candidate, feed: Feed) -> str | None:
    """Why ONNX Runtime does not run a model; "" when it does, None when there is no answer."""
    try:
        candidate.session().run([], feed, seconds=SECONDS)
    except (RefusedError, Crashed) as error:
        return str(error)
    except NoAnswer:
        return None
    return ""
