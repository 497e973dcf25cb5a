"""Judges of models: ONNX's checker, ONNX Runtime and onnx.reference, asked in a child process within the limits of a model.

Where the system cannot fork they are asked in this process, without limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from rewriter.core.isolation.budget import current
from rewriter.core.isolation.child import LARGE, Child, NoAnswer, TooSlow, possible
from rewriter.trust.proof import onnx_runtime
from rewriter.trust.proof.judges import native

CHECKER, FULL_CHECK = "onnx.checker", "onnx.checker with shape inference"
SESSION, PLAIN = onnx_runtime.NAME, onnx_runtime.PLAIN

_CHILD = Child(native.answer)
_keys = count(1)


class RefusedError(Exception):
    """A judge refuses a model, or fails in it; `kind` is the class of the error that it raised."""

    def __init__(self, refused: native.Refused) -> None:
        super().__init__(refused.reason)
        self.kind = refused.kind


def check(model: bytes | str, *, full: bool) -> str:
    """Why `onnx.checker` refuses a model, or the file of one; "" when it takes it.

    Raises:
        NoAnswer: it does not say.
    """
    found = _ask(FULL_CHECK if full else CHECKER, "check", model, full)
    return found.reason if found is not None else ""


def kernel(data: bytes, feed: Mapping[str, Any] | None) -> native.Refused | None:
    """Why ONNX Runtime does not take a model of one node; None when it does.

    Args:
        data: the model.
        feed: arrays by type, "" for any other, to run it on; None only loads it.

    Raises:
        NoAnswer: it does not say.
    """
    found: native.Refused | None = _ask("", "kernel", data, feed)
    return found


def print_text(data: bytes) -> str:
    """A serialised model in ONNX's own text.

    Raises:
        RefusedError: it has something for which there is no text.
        NoAnswer: the printer does not say.
    """
    return str(_taken(_ask("", "print", data)))


def parse_text(text: str) -> bytes:
    """The serialised model of a text. Raises RefusedError where there is something wrong with it, and NoAnswer."""
    return bytes(_taken(_ask("", "parse", text)))


def bench(*question: Any) -> list[dict[str, Any]]:
    """What `native_bench.bench` measures. Raises NoAnswer when it does not come to an end."""
    found: list[dict[str, Any]] = _ask("", "bench", *question)
    return found


@lru_cache(maxsize=1)
def runtime_version() -> str:
    """ "ONNX Runtime 1.20.1"."""
    return str(_ask("", "version"))


class Session:
    """A model made ready to run, in the child.

    Args:
        data: the model; at most 2 GiB.
        folder: of external data; the caller has made sure that no tensor leads out of it.
        runtime: `SESSION`, `PLAIN` or "onnx.reference".

    Attributes:
        outputs: their names.

    Raises:
        RefusedError: the runtime refuses it.
        NoAnswer: it does not say.
    """

    def __init__(self, data: bytes, folder: Path | None, runtime: str = SESSION) -> None:
        from rewriter.core.onnxfile.external_data import may_refer

        self._model = runtime, data, folder if may_refer(data) else None
        self._key = next(_keys)
        self.outputs: list[str] = _taken(_ask(runtime, "open", self._key, *self._model))
        self._process = _CHILD.number

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any], *, seconds: float | None = None) -> list[Any]:
        """Outputs: all of them for None, and of an empty list only that there are some.

        Raises:
            RefusedError: the model fails.
            NoAnswer: it does not come to an end, or ends the process.
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
    """The answer of the child; a `judge` that was too slow for one state of a model is not asked about another."""
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


__all__ = [
    "CHECKER", "FULL_CHECK", "PLAIN", "SESSION", "NoAnswer", "RefusedError", "Session", "bench", "check", "kernel",
    "parse_text", "print_text", "runtime_version",
]  # fmt: skip
