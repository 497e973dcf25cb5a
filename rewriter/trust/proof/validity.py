"""How valid a model is: which checks it passes, and whether it runs on inputs where the model before ran.

A model that needs repair fails some check, so no check alone decides whether a result is good. A result is *at least as valid*
as its input if it passes every check that the input passes, and ends the process of no check that only rejects the input.

ONNX Runtime is two of the checks. Users have it with its default optimizations, which some models do not survive, so it
loads a model with these first. A model that loads with them counts as loading without. A model that does not is also loaded
without them: a wrong model is another matter than a wrong optimization.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.isolation import child
from rewriter.core.isolation.child import Crash, NoAnswer, TooSlow
from rewriter.core.language.schema import FLOATS
from rewriter.core.log import RUN_FAILURE
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import temporary_folder
from rewriter.core.onnxfile.model_file import Outline
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import record
from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import CHECKER, FULL_CHECK, PLAIN, REFERENCE, SESSION, RefusedError, Session
from rewriter.trust.proof.judges import runtime_version as onnx_runtime_version
from rewriter.trust.proof.model_inputs import Feed, feed_sets

if TYPE_CHECKING:
    from rewriter.trust.proof.instances.instance import Array
    from rewriter.trust.proof.oracles import Refusal


T = TypeVar("T")

MOST_BYTES = 2**30
"""Bytes of a model, with its external data, that is loaded into ONNX Runtime."""

MOST_BYTES_OPTIMIZED = judges.MODERATE
"""Bytes of a model, with external data, that is loaded with the default optimizations, which may copy the weights repeatedly;
a larger model is loaded without them, and its weights are mapped into memory."""

MOST_BYTES_KEPT = 1 << 24
"""Bytes of a model that is kept in ONNX Runtime after it was loaded, to be run."""

WRITTEN = "writing"
RUNTIME = (SESSION, PLAIN)
JUDGES = (WRITTEN, CHECKER, FULL_CHECK, *RUNTIME)


_UNREGISTERED = re.compile(r"([\w.]+:\w+)\(-?\d+\) is not a registered function/op")


class CrashReason(str):
    """The reason of a check that ended its process in place of rejecting the model: a program of the user would end with it."""

    __slots__ = ()


def _is_worse(reason: str, before: str | None) -> bool:
    """Whether a rejection of the result is worse than the answer of the same check about the input."""
    return before == "" or (isinstance(reason, CrashReason) and before is not None and not isinstance(before, CrashReason))


class Candidate:
    """A model whose validity is checked. Every check runs once, and only when its result is needed.

    Attributes:
        plugins: operators of a consumer, such as "com.acme:Pool". ONNX Runtime need not have them.
        lacking: the plugin because of which ONNX Runtime did not load the model, as "com.acme.Pool".
        unanswered: checks that ran, or should have run, and have no result: a sentence for each.
    """

    def __init__(self, model: Model, data: bytes | None = None) -> None:
        """`data`: the bytes of the model, if they are known and complete."""
        self.model = model
        self._outline = None if data is None else Outline(data, {})
        self._answers: dict[str, str | None] = {}
        self._sessions: dict[str, Session] = {}
        self.plugins: frozenset[str] = frozenset()
        self.unanswered: dict[str, str] = {}
        self.lacking = ""

    def session(self, judge: str | None = None) -> Session:
        """The model in ONNX Runtime, ready to run; the session of a small model is made once.

        Args:
            judge: `SESSION`, or `PLAIN` for what the operators compute, apart from what optimizations make of them; None: as
                users have it, but a large model with optimizations off.

        Raises:
            RefusedError: ONNX Runtime rejects the model.
            NoAnswer: ONNX Runtime has no result.
            RewriterError: the model cannot be written.
        """
        judge = judge or (PLAIN if self.too_large(MOST_BYTES_OPTIMIZED) else SESSION)
        found = self._sessions.get(judge)
        if found is None:
            if self.expands:
                raise NoAnswer(f"did not run, because {self.expands}")
            found = Session(self.data, self.model.folder, judge)
            if len(self.outline.data) <= MOST_BYTES_KEPT:
                self._sessions[judge] = found
        return found

    @property
    def data(self) -> bytes:
        """The bytes that saving would write.

        Raises:
            RewriterError: it cannot be written.
        """
        if not self.outline.files:
            return self.outline.data
        data: bytes = _written(lambda: self.model.to_proto().SerializeToString(deterministic=True))
        return data

    @property
    def serialised(self) -> bytes | None:
        """The bytes of the model, if it was written for the checks with nothing left out."""
        return None if self._outline is None or self._outline.files else self._outline.data

    @property
    def outline(self) -> Outline:
        """The model for the checks: a large model is without its weights.

        Raises:
            RewriterError: the model cannot be written.
        """
        if self._outline is None:
            self._outline = _written(self.model.outline)
        return self._outline

    @property
    def proto(self) -> onnx.ModelProto:
        """The outline as a parsed model.

        Raises:
            RewriterError: the outline cannot be written.
        """
        proto: onnx.ModelProto = onnx.ModelProto.FromString(self.outline.data)
        return proto

    @property
    def references(self) -> list[external_data.Reference]:
        """External data that the model refers to, without those that stand in for left out weights.

        Raises:
            RewriterError: a reference contradicts itself, or the model cannot be written.
        """
        if not external_data.may_refer(self.outline.data):
            return []
        return [place for place in external_data.references(self.proto) if place.location not in self.outline.files]

    def refusal(self, judge: str) -> str | None:
        """Why a check rejects the model; "" if the model passes, None if the check has no result."""
        if judge not in self._answers:
            if judge == PLAIN and self.refusal(SESSION) == "":
                return ""
            self._answers[judge] = self._ask(judge)
        return self._answers[judge]

    @property
    def loaded_by(self) -> str | None:
        """How ONNX Runtime loads the model: `SESSION`, or `PLAIN` if only that does; None if neither does."""
        return next((judge for judge in RUNTIME if self.refusal(judge) == ""), None)

    def runtime_refusal(self) -> str | None:
        """Why ONNX Runtime rejects the model, and whether only its optimizations are the cause; otherwise like `refusal`."""
        reason, plain = self.refusal(SESSION), self.refusal(PLAIN)
        if reason and plain == "":
            return f"{reason} (with its default optimizations only: with optimizations off it loads the model)"
        return plain if reason is None else reason

    def not_loaded(self) -> str:
        """A sentence about a model that ONNX Runtime cannot check, since it is large or has plugins; "" mostly."""
        if self.lacking:
            return f"not checked by ONNX Runtime, which does not have {self.lacking}"
        if self.refusal(SESSION) is None and (why := self.too_large()):
            return f"not loaded into ONNX Runtime: {why}"
        if self.refusal(SESSION) is None and (why := self.too_large(MOST_BYTES_OPTIMIZED)):
            return f"not loaded with the default optimizations of ONNX Runtime: {why} with them"
        return ""

    @property
    def answers(self) -> list[tuple[str, str | None]]:
        """The results of the checks that have run so far."""
        return [(judge, self._answers[judge]) for judge in JUDGES if judge in self._answers]

    def first_refusal(self, judges: Sequence[str] = JUDGES) -> tuple[str, str] | None:
        """The first of these checks that rejects the model, with its reason."""
        return next(((judge, reason) for judge in judges if (reason := self.refusal(judge))), None)

    def worse_than(self, other: Candidate) -> tuple[str, str] | None:
        """The first check with a worse answer for this model than for `other`, with its reason."""
        refused = ((judge, reason) for judge in JUDGES if (reason := self.refusal(judge)))
        return next(((judge, reason) for judge, reason in refused if _is_worse(reason, other.refusal(judge))), None)

    @cached_property
    def expands(self) -> str:
        """Why the checks do not get the model: its functions expand to too much; "" mostly."""
        if not getattr(self.model.graph, "functions", ()):
            return ""
        from rewriter.core.onnxfile.part import TOLD, expands_too_much

        return TOLD if expands_too_much(self.proto) else ""

    def size(self) -> int:
        """Bytes of the model with its external data.

        Raises:
            RewriterError: the model cannot be written, or its data are not in their place.
        """
        files = {reference.location for reference in self.references}
        return len(self.outline.data) + sum(self.outline.files.values()) + sum(map(self._size, files))

    def lost_data(self) -> str:
        """Why the data of the model in other files cannot be read; "" when they can, or there are none."""
        try:
            self.size()
        except RewriterError as error:
            return str(error)
        return ""

    def too_large(self, most: int | None = None) -> str:
        """Why the model is not loaded into a runtime though it might be; "" when it can be."""
        most = MOST_BYTES if most is None else most
        try:
            size = self.size()
        except RewriterError as error:
            return str(error)
        return "" if size <= most else f"{size / 2**30:.1f} GiB with its data, and at most {most / 2**30:g} GiB are loaded"

    def _size(self, location: str) -> int:
        if self.model.folder is None:
            raise RewriterError(f"its data are in {location!r}, but the folder of the model is not known")
        with external_data.opened(self.model.folder, location) as (_, size):
            return size

    def _ask(self, judge: str) -> str | None:
        try:
            data = self.outline.data
        except RewriterError as error:
            return str(error) if judge == WRITTEN else None
        if judge == WRITTEN:
            return ""
        if judge == CHECKER:
            return "" if self.refusal(FULL_CHECK) == "" else self._check(data, full=False)  # the full check includes it
        if judge == FULL_CHECK:
            return self._check(data, full=True)
        if not judges.installed() or (self.too_large() and not self.outline.files):
            return None
        if judge == SESSION and self.too_large(MOST_BYTES_OPTIMIZED):
            return None
        reason = self._answer(judge, lambda: self._load(data, judge))
        lacking = _UNREGISTERED.search(reason or "")
        if lacking is None or lacking[1] not in self.plugins:
            return reason
        self.lacking = lacking[1].replace(":", ".")
        return None

    def _load(self, data: bytes, judge: str) -> str:
        if self.outline.files:
            with self._folder() as folder:
                Session(data, folder, judge)
        else:
            self.session(judge)
        return ""

    def _answer(self, judge: str, ask: Callable[[], str]) -> str | None:
        """The result of `ask`; a process that ended counts as a rejection of the model."""
        try:
            return ask()
        except Crash as error:
            return CrashReason(error)
        except RefusedError as error:
            return str(error)
        except NoAnswer as error:
            self.unanswered[judge] = error.sentence(judge)
        except (RewriterError, OSError):
            pass
        return None

    def _check(self, data: bytes, *, full: bool) -> str | None:
        def ask() -> str:
            if full and self.expands:
                raise NoAnswer(f"did not run, because {self.expands}")
            if not self.references and not self.outline.files:
                return judges.check(data, full=full)
            with self._folder() as folder:
                place = folder / "model.onnx"
                while place.exists():
                    place = place.with_suffix(f".x{place.suffix}")
                place.write_bytes(data)
                return judges.check(str(place), full=full)

        return self._answer(FULL_CHECK if full else CHECKER, ask)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """A folder with blank files of the size of the external data.

        A check looks for these files next to the model, where the result may not be written yet, and never reads them.
        """
        with temporary_folder() as folder:
            self.outline.put_files(folder)
            for location in sorted({reference.location for reference in self.references}):
                size = self._size(location)
                path = external_data.resolve(folder, location)
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as file:
                    os.truncate(file.fileno(), size)
            yield folder


def _written(write: Callable[[], T]) -> T:
    try:
        return write()
    except RewriterError:
        raise
    except Exception as error:  # protobuf has one class for each of its two implementations
        raise RewriterError(f"the model cannot be written: {error}") from error


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


@contextmanager
def _as_cannot_run(runtime: str) -> Iterator[None]:
    """Raises CannotRun in place of the errors of a session."""
    try:
        yield
    except CannotRun:
        raise
    except TooSlow as error:
        raise GaveUp(error.sentence(runtime)) from error
    except NoAnswer as error:
        raise CannotRun(error.sentence(runtime)) from error
    except (RewriterError, RefusedError) as error:
        raise CannotRun(f"{runtime}: {judges.reason(error)}") from error


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
        with _as_cannot_run(runtime):
            if runtime == judges.NAME:
                self._session = candidate.session(judge)
                return
            data = candidate.data
            if len(data) > MOST_BYTES_FOR_REFERENCE or candidate.references:
                raise CannotRun(f"{runtime}: large models and external data are not run there")
            if candidate.expands:
                raise CannotRun(f"{runtime}: {candidate.expands}")
            self._session = Session(data, None, runtime)

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
        with _as_cannot_run(self.runtime):
            values = self._session.run(None, feed)
        return dict(zip(self.outputs, values, strict=True))


def runtimes() -> list[str]:
    """The runtimes to try, the best first."""
    return [judges.NAME, REFERENCE] if judges.installed() else [REFERENCE]


def runtime_version(runtime: str) -> str:
    """The runtime with its version."""
    return onnx_runtime_version() if runtime == judges.NAME else f"{REFERENCE} {onnx.__version__}"


# Every tensor that a model computes, not only its outputs.


def values_of(model: onnx.ModelProto, inputs: Mapping[str, Array], oracle: str) -> dict[str, Array] | Refusal:
    """Every tensor that a model computes, in the order of its nodes."""
    from rewriter.trust.proof.oracles import Refusal, answer

    names = [name for node in model.graph.node for name in node.output if name]
    listed = {info.name for info in model.graph.output}
    wide = deepcopy(model)
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

MOST_BYTES_TO_RUN = 1 << 24
"""Bytes of a model, with its data, that is run by default."""

MOST_BYTES_OF_INPUTS = 1 << 22

SECONDS = 5.0
"""A run that takes longer is ended, and nothing is concluded from it."""

SECONDS_OF_CHECK = 2.0
"""For all runs of a model in a check together; if they take longer, nothing is concluded."""

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
        if not (judges.installed() and child.possible()) or candidate.size() > MOST_BYTES_TO_RUN:
            return
        if self._feed is not None:
            yield self._feed
            return
        yield from small_feeds(candidate.proto)


def small_feeds(model: onnx.ModelProto, most: int | None = None) -> Iterator[Feed]:
    """Ordinary inputs for each choice of the unknown dimensions, of at most so many bytes (None: 4 MiB).

    Raises:
        RewriterError: nothing can be made up.
    """
    limit = MOST_BYTES_OF_INPUTS if most is None else most
    return (feed for sets in feed_sets(model) for feed in sets[0].choices() if size_of(feed) <= limit)


def size_of(value: Any) -> int:
    """Bytes of an array, or of the arrays in a map or a sequence; another value counts as a number."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 8


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
    if candidate.loaded_by is None or not child.possible() or candidate.size() > MOST_BYTES_TO_RUN:
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
            if size_of(feed) <= MOST_BYTES_OF_INPUTS:
                yield feed


def _inputs_may_be_at_fault(model: onnx.ModelProto, reason: str) -> bool:
    """Whether inputs as declared by the model could differ from made-up ones in more than their floats.

    They may also differ in the batch. A long reason is cut, and does not show whether the batch is part of it.
    """
    for info in free_inputs(model.graph):
        tensor = info.type.tensor_type
        first, *others = [dim.HasField("dim_value") for dim in tensor.shape.dim] or [True]
        if tensor.elem_type not in FLOATS or not all(others) or (judges.is_cut(reason) and not first):
            return True
    every = (model.graph, *model.functions)
    return any(node.op_type in _BY_VALUE for graph in every for node in graph.node)
