"""How valid a model is: which checks it passes.

A model that needs repair fails some check, so no check alone decides whether a result is good. A result is *at least as valid*
as its input if it passes every check that the input passes, and ends the process of no check that only rejects the input.

ONNX Runtime is two of the checks. Users have it with its default optimizations, which some models do not survive, so it
loads a model with these first. A model that loads with them counts as loading without. A model that does not is also loaded
without them: a wrong model is another matter than a wrong optimization.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.isolation.child import Crash, NoAnswer
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import temporary_folder
from rewriter.core.onnxfile.model_file import Outline
from rewriter.trust.proof import judges, native
from rewriter.trust.proof.judges import CHECKER, FULL_CHECK, PLAIN, SESSION, RefusedError, Session

T = TypeVar("T")

MOST_BYTES = 2**30
"""Bytes of a model, with its external data, that is loaded into ONNX Runtime."""

MOST_BYTES_OPTIMIZED = native.MODERATE
"""Bytes of a model, with external data, that is loaded with the default optimizations, which may copy the weights repeatedly;
a larger model is loaded without them, and its weights are mapped into memory."""

MOST_BYTES_KEPT = 1 << 24
"""Bytes of a model that is kept in ONNX Runtime after it was loaded, to be run."""

WRITTEN = "writing"
RUNTIME = (SESSION, PLAIN)
JUDGES = (WRITTEN, CHECKER, FULL_CHECK, *RUNTIME)


class CrashReason(str):
    """The reason of a check that ended its process in place of rejecting the model: a program of the user would end with it."""

    __slots__ = ()


def _is_worse(reason: str, before: str | None) -> bool:
    """Whether a rejection of the result is worse than the answer of the same check about the input."""
    return before == "" or (isinstance(reason, CrashReason) and before is not None and not isinstance(before, CrashReason))


class Candidate:
    """A model whose validity is checked. Every check runs once, and only when its result is needed.

    Attributes:
        unanswered: checks that ran, or should have run, and have no result: a sentence for each.
    """

    def __init__(self, model: Model, data: bytes | None = None) -> None:
        """`data`: the bytes of the model, if they are known and complete."""
        self.model = model
        self._outline = None if data is None else Outline(data, {})
        self._answers: dict[str, str | None] = {}
        self._sessions: dict[str, Session] = {}
        self.unanswered: dict[str, str] = {}

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
        found = [
            external_data.reference(tensor)
            for tensor in external_data.tensors_of(self.proto)
            if external_data.is_external(tensor)
        ]
        return [reference for reference in found if reference.location not in self.outline.files]

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
        """A sentence about the loading that was left out since the model is large; "" mostly."""
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
        if not native.installed() or (self.too_large() and not self.outline.files):
            return None
        if judge == SESSION and self.too_large(MOST_BYTES_OPTIMIZED):
            return None
        return self._answer(judge, lambda: self._load(data, judge))

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
