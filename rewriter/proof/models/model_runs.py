"""A whole model run on inputs: in ONNX Runtime, or in onnx.reference where that is not to be had."""

from __future__ import annotations

from typing import Any

import onnx

from rewriter.errors import RewriterError
from rewriter.proof import onnx_runtime
from rewriter.proof.judges.child import TooSlow
from rewriter.proof.judges.judges import PLAIN, NoAnswer, RefusedError, Session
from rewriter.proof.judges.judges import runtime_version as onnx_runtime_version
from rewriter.proof.judges.native import REFERENCE
from rewriter.proof.models.model_inputs import Feed
from rewriter.proof.models.validity import Candidate

MOST_BYTES_FOR_REFERENCE = 1 << 25
"""Of a model that is run by onnx.reference, which is made for tests of single operators and slow."""

Outputs = dict[str, Any]


class CannotRun(RewriterError):
    """A model is refused by a runtime, or fails in it; the text names the runtime."""


class GaveUp(CannotRun):
    """A run did not come to its end; to try another one would take as long."""


class ModelRun:
    """A model made ready in a runtime.

    Args:
        runtime: one of `runtimes()`.
        judge: which ONNX Runtime. With its optimizations off the operators alone decide the numbers, which is what two models
            are compared by; `SESSION` gives the numbers that users get.

    Raises:
        CannotRun: the runtime refuses it, or it is too large for it.
    """

    def __init__(self, candidate: Candidate, runtime: str, judge: str = PLAIN) -> None:
        self.runtime = runtime
        if why := candidate.too_large():
            raise CannotRun(f"{runtime}: {why}")
        try:
            if runtime == onnx_runtime.NAME:
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
            raise GaveUp(error.told(runtime)) from error
        except NoAnswer as error:
            raise CannotRun(error.told(runtime)) from error
        except (RewriterError, RefusedError) as error:
            raise CannotRun(f"{runtime}: {onnx_runtime.reason(error)}") from error

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
            raise GaveUp(error.told(self.runtime)) from error
        except NoAnswer as error:
            raise CannotRun(error.told(self.runtime)) from error
        except RefusedError as error:
            raise CannotRun(f"{self.runtime}: {error}") from error
        return dict(zip(self.outputs, values, strict=True))


def runtimes() -> list[str]:
    """The runtimes to try, the best first."""
    return [onnx_runtime.NAME, REFERENCE] if onnx_runtime.installed() else [REFERENCE]


def runtime_version(runtime: str) -> str:
    """The runtime with its version."""
    return onnx_runtime_version() if runtime == onnx_runtime.NAME else f"{REFERENCE} {onnx.__version__}"
