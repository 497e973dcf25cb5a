"""Outputs that the framework computed, in the .npz file that also holds the inputs: what a repair is measured by."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewriter.proof.judges.judges import SESSION
from rewriter.proof.models.array_files import read_inputs
from rewriter.proof.models.model_inputs import recorded_feed
from rewriter.proof.models.model_runs import CannotRun, GaveUp, ModelRun, runtimes
from rewriter.proof.models.output_agreement import Bound, differences
from rewriter.proof.models.validity import Candidate

BOUND = Bound(rtol=2e-3, atol=1e-4)
"""A framework has other kernels."""


class FrameworkOutputs:
    """The outputs in a file: by the names of the model's outputs, or as `out_0`, `out_1`...

    Raises:
        RewriterError: the file cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._arrays = read_inputs(path)

    def recorded(self, candidate: Candidate) -> dict[str, Any]:
        """The recorded outputs of a model by its own names."""
        found = {}
        for number, output in enumerate(candidate.proto.graph.output):
            name = f"out_{number}" if f"out_{number}" in self._arrays else output.name
            if name in self._arrays:
                found[output.name] = np.asarray(self._arrays[name])
        return found

    def off(self, candidate: Candidate) -> str:
        """How the outputs of a model differ from those in the file, or why it does not run; "" when they are the same.

        Raises:
            RewriterError: an input of the model is missing in the file.
        """
        feed, wanted = recorded_feed(self.path, candidate.proto), self.recorded(candidate)
        try:
            outputs = ModelRun(candidate, runtimes()[0], SESSION)(feed)
        except GaveUp:
            raise
        except CannotRun as error:
            return str(error)
        found = {name: _as(outputs[name], array) for name, array in wanted.items()}
        return next((f"output {d.output!r} {d.message}" for d in differences(wanted, found, BOUND) if d.message), "")


def _as(value: Any, wanted: Any) -> Any:
    """A recorded array may have another element type than the model gives: npz files know no bfloat16."""
    return value.astype(wanted.dtype) if isinstance(value, np.ndarray) and value.dtype != wanted.dtype else value
