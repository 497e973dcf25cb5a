"""A whole model run on inputs: in ONNX Runtime, or in onnx.reference where that is not to be had."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.proof import onnx_runtime
from rewriter.proof.models.model_inputs import Feed
from rewriter.proof.models.validity import Candidate

REFERENCE = "onnx.reference"
MOST_BYTES_FOR_REFERENCE = 1 << 25
"""Of a model that is run by onnx.reference, which is made for tests of single operators and slow."""

Outputs = dict[str, Any]


class CannotRun(RewriterError):
    """A model is refused by a runtime, or fails in it; the text names the runtime."""


class ModelRun:
    """A model made ready in a runtime.

    Raises:
        CannotRun: the runtime refuses it, or it is too large for it.
    """

    def __init__(self, candidate: Candidate, runtime: str) -> None:
        self.runtime = runtime
        if why := candidate.too_large():
            raise CannotRun(f"{runtime}: {why}")
        try:
            if runtime == onnx_runtime.NAME:
                self._session = candidate.session()
                self.outputs = [output.name for output in self._session.get_outputs()]
                return
            from onnx.reference import ReferenceEvaluator

            data = candidate.data
            if len(data) > MOST_BYTES_FOR_REFERENCE or candidate.references:
                raise CannotRun(f"{runtime}: large models and external data are not run there")
            self._session = ReferenceEvaluator(onnx.ModelProto.FromString(data))
            self.outputs = list(self._session.output_names)
        except CannotRun:
            raise
        except Exception as error:
            raise CannotRun(f"{runtime}: {onnx_runtime.reason(error)}") from error

    def __call__(self, feed: Feed) -> Outputs:
        """Outputs by name.

        Raises:
            CannotRun: it fails.
        """
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # onnx.reference computes in NumPy, which warns of every overflow
                values: Sequence[Any] = self._session.run(None, dict(feed))
        except Exception as error:
            raise CannotRun(f"{self.runtime}: {onnx_runtime.reason(error)}") from error
        return dict(zip(self.outputs, values, strict=True))


def runtimes() -> list[str]:
    """The runtimes to try, the best first."""
    return [onnx_runtime.NAME, REFERENCE] if onnx_runtime.installed() else [REFERENCE]


def runtime_version(runtime: str) -> str:
    """The runtime with its version."""
    return onnx_runtime.version() if runtime == onnx_runtime.NAME else f"{REFERENCE} {onnx.__version__}"
