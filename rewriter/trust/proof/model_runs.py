"""A whole model run on inputs, with its inner tensors if asked; and whether a result runs where the model before ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.isolation import child
from rewriter.core.isolation.child import Crash, NoAnswer, TooSlow
from rewriter.core.log import RUN_FAILURE
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import record
from rewriter.trust.proof import native
from rewriter.trust.proof.judges import PLAIN, RefusedError, Session
from rewriter.trust.proof.judges import runtime_version as onnx_runtime_version
from rewriter.trust.proof.model_inputs import Feed, feed_sets
from rewriter.trust.proof.native import REFERENCE
from rewriter.trust.proof.validity import Candidate

if TYPE_CHECKING:
    from rewriter.trust.proof.instances.instance import Array
    from rewriter.trust.proof.oracles import Refusal

MOST_BYTES_FOR_REFERENCE = 1 << 25
"""Bytes of a model that is run by onnx.reference, which is slow and made for tests of single operators."""

Outputs = dict[str, Any]


class Runs(Protocol):
    """A model made ready in a runtime."""

    def run(self, names: list[str], feed: Feed, /) -> Sequence[Any]: ...


Ready = Callable[[onnx.ModelProto], Runs]
"""Makes a model ready in a runtime other than `runtimes()`."""


class CannotRun(RewriterError):
    """A runtime rejects a model, or fails in it; the text names the runtime."""


class GaveUp(CannotRun):
    """A run did not come to its end; to try another one would take as long."""


class ModelRun:
    """A model loaded in a runtime.

    Args:
        runtime: one of `runtimes()`.
        judge: which ONNX Runtime. With its optimizations off, the operators alone decide the outputs; two models are compared
            by such outputs. `SESSION` computes the outputs that users get.

    Raises:
        CannotRun: the runtime rejects the model, or the model is too large for it.
    """

    def __init__(self, candidate: Candidate, runtime: str, judge: str = PLAIN) -> None:
        self.runtime = runtime
        if why := candidate.too_large():
            raise CannotRun(f"{runtime}: {why}")
        try:
            if runtime == native.NAME:
                self._session = candidate.session(judge)
                return
            data = candidate.data
            if len(data) > MOST_BYTES_FOR_REFERENCE or candidate.references:
                raise CannotRun(f"{runtime}: large models and external data are not run there")
            if candidate.expands:
                raise CannotRun(f"{runtime}: {candidate.expands}")
            self._session = Session(data, None, runtime)
        except CannotRun:
            raise
        except TooSlow as error:
            raise GaveUp(error.sentence(runtime)) from error
        except NoAnswer as error:
            raise CannotRun(error.sentence(runtime)) from error
        except (RewriterError, RefusedError) as error:
            raise CannotRun(f"{runtime}: {native.reason(error)}") from error

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return self._session.outputs

    def __call__(self, feed: Feed) -> Outputs:
        """Outputs by name.

        Raises:
            CannotRun: it fails.
            GaveUp: it takes too long.
        """
        try:
            values = self._session.run(None, feed)
        except TooSlow as error:
            raise GaveUp(error.sentence(self.runtime)) from error
        except NoAnswer as error:
            raise CannotRun(error.sentence(self.runtime)) from error
        except RefusedError as error:
            raise CannotRun(f"{self.runtime}: {error}") from error
        return dict(zip(self.outputs, values, strict=True))


def runtimes() -> list[str]:
    """The runtimes to try, the best first."""
    return [native.NAME, REFERENCE] if native.installed() else [REFERENCE]


def runtime_version(runtime: str) -> str:
    """The runtime with its version."""
    return onnx_runtime_version() if runtime == native.NAME else f"{REFERENCE} {onnx.__version__}"


# Every tensor that a model computes, not only its outputs.


def values_of(model: onnx.ModelProto, inputs: Mapping[str, Array], oracle: str) -> dict[str, Array] | Refusal:
    """Every tensor that a model computes, in the order of its nodes."""
    from rewriter.trust.proof.oracles import Refusal, answer

    names = [name for node in model.graph.node for name in node.output if name]
    listed = {info.name for info in model.graph.output}
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in listed)
    found = answer(wide, inputs, oracle)
    if isinstance(found, Refusal):
        return found
    return {name: found[name] for name in names if isinstance(found[name], np.ndarray)}


# Whether a model runs, since loading is not enough. This is checked for a result if its input ran, and for a model in a check.
#
# A runtime infers shapes when it loads a model, and meets values only when it runs it: a Reshape to a wrong number of elements,
# an index outside of its axis, a broadcast that does not fit. So a result is run once on ordinary inputs. If that fails, the
# model before the run is run on the same inputs; both models reject made-up inputs that do not fit.
#
# This happens by default to models that changed, so it is bounded: the size of the model and its inputs, and the time of a run.
# It happens in a child, since a kernel that cannot handle a value may end the process.
#
# In a check there is no other state of the model to compare with, and made-up inputs may be at fault themselves. A failure is a
# finding if it is the same on all of them and the model leaves nothing to be made up wrongly: its inputs are floats of
# declared shapes, and no operator in it computes a shape from values or rejects values. Any other failure is only a note.

MOST_BYTES = 1 << 24
"""Bytes of a model, with its data, that is run by default."""

MOST_BYTES_OF_INPUTS = 1 << 22

SECONDS = 5.0
"""A run that takes longer is ended, and nothing is concluded from it."""

SECONDS_OF_CHECK = 2.0
"""For all runs of a model in a check together; if they take longer, nothing is concluded."""

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_BY_VALUE = frozenset(("NonZero", "NonMaxSuppression", "Compress", "Unique", "If", "Loop", "OneHotEncoder"))
"""Operators that compute the shape of an output, or fail, depending on values; made-up values prove nothing for them."""


class Running:
    """Runs states of one model on ordinary inputs.

    Args:
        before: the model before the run; loaded only if a result does not run.
    """

    def __init__(self, before: Callable[[], Candidate]) -> None:
        self._before = before
        self._feed: Feed | None = None
        self._good: Feed | None = None

    def failure_before(self) -> str:
        """Why the model before failed on inputs on which a result ran; "" if it ran, or gave no answer."""
        return "" if self._good is None else _run(self._before(), self._good) or ""

    def refusal(self, candidate: Candidate) -> str | None:
        """Why a state of the model does not run on inputs on which the model before ran.

        Returns:
            "" if it runs; None if it was not run, or neither ran.
        """
        try:
            for feed in self._feeds(candidate):
                found = _run(candidate, feed)
                if found is None:
                    return None
                if not found:
                    self._good = feed
                    return ""
                if self._feed is feed or _run(self._before(), feed) == "":
                    self._feed = feed
                    return found
        except RewriterError:
            pass  # nothing can be made up
        return None

    def _feeds(self, candidate: Candidate) -> Iterator[Feed]:
        """The inputs on which a state is known to fail, or ordinary ones for each choice of the unknown dimensions.

        Raises:
            RewriterError: nothing can be made up.
        """
        if not (native.installed() and child.possible()) or candidate.size() > MOST_BYTES:
            return
        if self._feed is not None:
            yield self._feed
            return
        yield from small_feeds(candidate.proto)


def small_feeds(model: onnx.ModelProto) -> Iterator[Feed]:
    """Ordinary inputs for each choice of the unknown dimensions. Raises RewriterError when nothing can be made up."""
    return (feed for sets in feed_sets(model) for feed in sets[0].choices() if _is_small(feed))


def _is_small(feed: Feed) -> bool:
    return sum(np.asarray(value).nbytes for value in feed.values()) <= MOST_BYTES_OF_INPUTS


def _run(candidate: Candidate, feed: Feed) -> str | None:
    """Why ONNX Runtime does not run a model; "" when it does, None when there is no answer."""
    try:
        candidate.session(candidate.loaded_by).run([], feed, seconds=SECONDS)
    except (RefusedError, Crash) as error:
        return str(error)
    except NoAnswer:
        return None
    return ""


@record(frozen=True, slots=True)
class RunFailure:
    """A model fails on all made-up inputs that were tried.

    Attributes:
        reason: why it fails on the first of them.
        certain: whether no other inputs of its declared types and shapes are likely to be any better.
    """

    reason: str
    certain: bool

    @property
    def refusal(self) -> str:
        """The message of a certain failure, in the form of a rejection by a runtime; "" for an uncertain one."""
        return f"{RUN_FAILURE}{self.reason}" if self.certain else ""

    @property
    def note(self) -> str:
        """The note about an uncertain failure."""
        advice = "the inputs may be the cause; `rewriter check --expect FILE.npz` runs it on other inputs"
        return "" if self.certain else f"ONNX Runtime loads it, and it fails on generated inputs: {self.reason}; {advice}"


def failure_in_check(candidate: Candidate) -> RunFailure | None:
    """As `run_failure`, of a model that loads; a large one is not run."""
    if candidate.loaded_by is None or not child.possible() or candidate.size() > MOST_BYTES:
        return None
    try:
        return run_failure(candidate.session(candidate.loaded_by), candidate.proto)
    except (RefusedError, RewriterError):
        return None


def run_failure(session: Session, model: onnx.ModelProto) -> RunFailure | None:
    """How a model fails when it is run on made-up inputs; None when it runs on some, or nothing can be concluded.

    Args:
        session: the model, loaded.
        model: the same, without data of other files.
    """
    reasons: list[str] = []
    end = time.monotonic() + SECONDS_OF_CHECK
    try:
        for feed in _varied_feeds(model):
            if (left := end - time.monotonic()) <= 0:
                return None
            try:
                session.run([], feed, seconds=left)
                return None
            except (RefusedError, Crash) as error:
                reasons.append(str(error))
    except NoAnswer:
        return None
    except RewriterError:
        pass  # no more can be made up
    if not reasons:
        return None
    same = len(reasons) > 1 and len(set(reasons)) == 1
    return RunFailure(reasons[0], same and not _inputs_may_be_at_fault(model, reasons[0]))


def _varied_feeds(model: onnx.ModelProto) -> Iterator[Feed]:
    """Small inputs for each choice of the unknown dimensions: ordinary ones, and one without numbers below zero."""
    for ordinary, positive, *_ in feed_sets(model):
        for feed in (*ordinary.choices(), next(positive.choices())):
            if _is_small(feed):
                yield feed


def _inputs_may_be_at_fault(model: onnx.ModelProto, reason: str) -> bool:
    """Whether inputs as declared by the model could differ from made-up ones in more than their floats.

    They may also differ in the batch. A long reason is cut, and does not show whether the batch is part of it.
    """
    for info in free_inputs(model.graph):
        tensor = info.type.tensor_type
        first, *others = [dim.HasField("dim_value") for dim in tensor.shape.dim] or [True]
        if tensor.elem_type not in _FLOATS or not all(others) or (native.is_cut(reason) and not first):
            return True
    every = (model.graph, *model.functions)
    return any(node.op_type in _BY_VALUE for graph in every for node in graph.node)
