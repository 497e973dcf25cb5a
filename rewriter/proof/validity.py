"""How valid a model is: which of three judges take it.

A model that needs repair is one that some judge refuses, so no judge alone decides what a good result is. A result is *at least
as valid* as its input when every judge that takes the input takes the result.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from rewriter.errors import RewriterError
from rewriter.graph import carry, external
from rewriter.graph.model import Model
from rewriter.proof import onnx_runtime

MOST_BYTES = 2**30
"""Of a model with its external data that is loaded into ONNX Runtime; loading takes two to three times as much memory."""

WRITTEN, CHECKER, FULL_CHECK, SESSION = "writing", "onnx.checker", "onnx.checker with shape inference", onnx_runtime.NAME
JUDGES = (WRITTEN, CHECKER, FULL_CHECK, SESSION)


class Candidate:
    """A model whose validity is asked. Every judge is asked once, and only when its answer is needed."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._data: bytes | None = None
        self._answers: dict[str, str | None] = {}

    @property
    def data(self) -> bytes:
        """The bytes that saving would write.

        Raises:
            RewriterError: it cannot be written.
        """
        if self._data is None:
            try:
                self._data = self.model.to_proto().SerializeToString(deterministic=True)
            except RewriterError:
                raise
            except Exception as error:  # protobuf has one class for each of its two implementations
                raise RewriterError(f"the model cannot be written: {error}") from error
        return self._data

    @property
    def proto(self) -> onnx.ModelProto:
        """What `data` says, to be looked at.

        Raises:
            RewriterError: it cannot be written.
        """
        proto: onnx.ModelProto = onnx.ModelProto.FromString(self.data)
        return proto

    @property
    def references(self) -> list[external.Reference]:
        """External data that the model refers to.

        Raises:
            RewriterError: a reference contradicts itself, or the model cannot be written.
        """
        if not carry.may_refer(self.data):
            return []
        return [external.reference(tensor) for tensor in external.tensors_of(self.proto) if external.is_external(tensor)]

    def refusal(self, judge: str) -> str | None:
        """Why a judge refuses the model; "" when it takes it, None when it cannot be asked."""
        if judge not in self._answers:
            self._answers[judge] = self._ask(judge)
        return self._answers[judge]

    def first_refusal(self, judges: Sequence[str] = JUDGES) -> tuple[str, str] | None:
        """The first of these judges that refuses the model, with its reason."""
        return next(((judge, reason) for judge in judges if (reason := self.refusal(judge))), None)

    def worse_than(self, other: Candidate) -> tuple[str, str] | None:
        """The first judge that takes `other` and refuses this model, with its reason."""
        return next(
            ((judge, reason) for judge in JUDGES if (reason := self.refusal(judge)) and other.refusal(judge) == ""), None
        )

    def too_large(self) -> str:
        """Why the model is not loaded into a runtime though it might be; "" when it can be."""
        try:
            files = {reference.location for reference in self.references}
            size = len(self.data) + sum(self._size(location) for location in files)
        except RewriterError as error:
            return str(error)
        return (
            "" if size <= MOST_BYTES else f"{size / 2**30:.1f} GiB with its data, and at most {MOST_BYTES / 2**30:g} are loaded"
        )

    def _size(self, location: str) -> int:
        if self.model.folder is None:
            raise RewriterError(f"its data are in {location!r}, but the folder of the model is not known")
        with external.opened(self.model.folder, location) as (_, size):
            return size

    def _ask(self, judge: str) -> str | None:
        try:
            data = self.data
        except RewriterError as error:
            return str(error) if judge == WRITTEN else None
        if judge == WRITTEN:
            return ""
        if judge == CHECKER:
            return "" if self.refusal(FULL_CHECK) == "" else self._check(data, full=False)  # the full check includes it
        if judge == FULL_CHECK:
            return self._check(data, full=True)
        if not onnx_runtime.installed() or self.too_large():
            return None
        try:
            onnx_runtime.session(data, self.model.folder)
        except Exception as error:
            return onnx_runtime.reason(error)
        return ""

    def _check(self, data: bytes, *, full: bool) -> str | None:
        try:
            references = self.references
            if not references:
                onnx.checker.check_model(data, full_check=full)
                return ""
            with tempfile.TemporaryDirectory() as folder:
                onnx.checker.check_model(self._shell(Path(folder), data, references), full_check=full)
        except (RewriterError, OSError):
            return None
        except Exception as error:
            return onnx_runtime.one_line(str(error))
        return ""

    def _shell(self, folder: Path, data: bytes, references: Sequence[external.Reference]) -> str:
        """The model in a folder of its own, beside files of the size of its external data with nothing in them.

        The checker looks for these files beside the model, where the result may not be written yet, and never into them.
        """
        for location in sorted({reference.location for reference in references}):
            size = self._size(location)
            path = external.resolve(folder, location)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                os.truncate(file.fileno(), size)
        place = folder / "model.onnx"
        while place.exists():
            place = place.with_suffix(f".x{place.suffix}")
        place.write_bytes(data)
        return str(place)
