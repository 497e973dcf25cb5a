"""Checks of models by ONNX's checker, ONNX Runtime and onnx.reference, in a child process within the limits of a model.

If the system cannot fork, they run in this process, without limits.

Rules with `evidence: refused(onnxruntime)` lower precision or take a detour only because a kernel is missing. A newer runtime
may have the kernel, so the installed runtime itself checks each node that such a rule would rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.core.isolation.budget import current
from rewriter.core.isolation.child import LARGE, Child, NoAnswer, TooSlow, possible
from rewriter.trust.proof import native

if TYPE_CHECKING:
    import onnx

CHECKER, FULL_CHECK = "onnx.checker", "onnx.checker with shape inference"
SESSION, PLAIN = native.NAME, native.PLAIN

_CHILD = Child(native.answer)
_keys = count(1)


class RefusedError(Exception):
    """A check rejects a model, or fails in it; `kind` is the class of the error that it raised."""

    def __init__(self, refused: native.Refused) -> None:
        super().__init__(refused.reason)
        self.kind = refused.kind


def check(model: bytes | str, *, full: bool) -> str:
    """Why `onnx.checker` rejects a model, or the file of one; "" if the model passes.

    Raises:
        NoAnswer: the checker has no result.
    """
    found = _ask(FULL_CHECK if full else CHECKER, "check", model, full)
    return found.reason if found is not None else ""


def print_text(data: bytes) -> str:
    """A serialised model in ONNX's own text.

    Raises:
        RefusedError: the model has a part that cannot be written as text.
        NoAnswer: the printer has no result.
    """
    return str(_taken(_ask("", "print", data)))


def parse_text(text: str) -> bytes:
    """The serialised model of a text. Raises RefusedError if there is an error in the text, and NoAnswer."""
    return bytes(_taken(_ask("", "parse", text)))


def bench(*question: Any) -> list[dict[str, Any]]:
    """The measurements of `native.bench`. Raises NoAnswer if it does not finish."""
    found: list[dict[str, Any]] = _ask("", "bench", *question)
    return found


@lru_cache(maxsize=1)
def runtime_version() -> str:
    """ "ONNX Runtime 1.20.1"."""
    return str(_ask("", "version"))


class Session:
    """A model loaded for runs, in the child.

    Args:
        data: the model; at most 2 GiB.
        folder: of external data; the caller has made sure that no tensor leads out of it.
        runtime: `SESSION`, `PLAIN` or "onnx.reference".

    Attributes:
        outputs: their names.

    Raises:
        RefusedError: the runtime rejects the model.
        NoAnswer: the runtime has no result.
    """

    def __init__(self, data: bytes, folder: Path | None, runtime: str = SESSION) -> None:
        from rewriter.core.onnxfile.external_data import may_refer

        self._model = runtime, data, folder if may_refer(data) else None
        self._key = next(_keys)
        self.outputs: list[str] = _taken(_ask(runtime, "open", self._key, *self._model))
        self._process = _CHILD.number

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any], *, seconds: float | None = None) -> list[Any]:
        """Runs the model. Returns all outputs for None; an empty list of names only checks that the model runs.

        Raises:
            RefusedError: the model fails.
            NoAnswer: the model does not finish, or ends the process.
        """
        runtime, data, folder = self._model
        request = names, dict(feed)
        judge = f"{runtime}, run" if seconds is None else ""
        found = _ask(judge, "run", self._key, runtime, None, folder, *request, seconds=seconds)
        if isinstance(found, native.NotKept):
            found = _ask(judge, "run", self._key, runtime, data, folder, *request, seconds=seconds)
            self._process = _CHILD.number
        return list(_taken(found))

    def __del__(self) -> None:
        _, data, folder = self._model
        large = folder is not None or len(data) >= LARGE
        if (_CHILD.worn or large) and getattr(self, "_process", -1) == _CHILD.number:
            _CHILD.close()  # with the memory that a large model takes


def _taken(found: Any) -> Any:
    if isinstance(found, native.Refused):
        raise RefusedError(found)
    return found


def _ask(judge: str, *question: Any, seconds: float | None = None) -> Any:
    """The answer of the child; a `judge` that was too slow for one state of a model is not used for another state."""
    if not possible():
        return native.answer(*question)
    if _CHILD.worn and question[0] != "run":
        _CHILD.close()
    silent = current().silent
    if judge in silent:
        raise silent[judge]
    try:
        return _CHILD.ask_within_limits(*question, seconds=seconds)
    except TooSlow as error:
        if judge:
            silent[judge] = error
        raise


REFUSALS = frozenset({"NotImplemented", "InvalidGraph"})
"""Classes of errors by which ONNX Runtime reports that it has no kernel, or none for these element types."""

_ANY_SHAPE: tuple[tuple[int, ...], ...] = ((1, 1, 1),)
SAYS_AT_RUN = {"GRU": _ANY_SHAPE, "LSTM": _ANY_SHAPE, "ScatterElements": _ANY_SHAPE, "ScatterND": ((1,), (1, 1), (1,))}
"""Operators with a kernel that loads for every floating-point type, and rejects some types only when it runs. Each has the
shapes of its operands in such a run. The last shape is also that of all further operands.
"""
AT_RUN = ("does not support", "data type is not supported")
AT_LOAD = ("Failed to construct locale",)
"""Errors of a kernel when the machine lacks something that it needs."""


def has_kernel(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime loads a model of one node; None if it has no result.

    A rejection because of shapes, which are not all known, says nothing about kernels: types alone are checked then.
    """
    if not native.installed():
        return None
    shapes = SAYS_AT_RUN.get(model.graph.node[0].op_type)
    answer = _OTHER if shapes else _answer(model.SerializeToString(deterministic=True), shapes)
    if answer == _OTHER:
        answer = _answer(_of_any_rank(model).SerializeToString(deterministic=True), shapes)
    return None if answer == _NONE else answer != _LACKS


def _of_any_rank(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with inputs of unknown rank and an axis that all ranks have."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for attribute in copy.graph.node[0].attribute:
        if attribute.name == "axis":
            attribute.i = 0
    for info in copy.graph.input:
        info.type.tensor_type.ClearField("shape")
    return copy


@lru_cache(maxsize=4096)
def _answer(data: bytes, shapes: Sequence[Sequence[int]] | None) -> str:
    """The result of loading a model in ONNX Runtime and, if there are `shapes`, of running it on zeros."""
    try:
        refused: native.Refused | None = _ask("", "kernel", data, shapes)
    except NoAnswer:
        return _NONE
    if refused is None:
        return _TAKES
    if refused.kind == "run":
        return _LACKS if any(words in refused.reason for words in AT_RUN) else _OTHER
    lacks = refused.kind in REFUSALS or any(words in refused.reason for words in AT_LOAD)
    return _LACKS if lacks else _OTHER


_TAKES, _LACKS, _OTHER, _NONE = "loads it", "has no kernel", "rejects it for another reason", "gave no verdict"


__all__ = [
    "CHECKER", "FULL_CHECK", "PLAIN", "SESSION", "NoAnswer", "RefusedError", "Session", "bench", "check", "has_kernel",
    "parse_text", "print_text", "runtime_version",
]  # fmt: skip
