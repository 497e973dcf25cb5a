"""What consumers make of models, as data: batches hand it from process to process, and reports are made of it."""

from __future__ import annotations

from typing import Literal

from rewriter.core.record import record

State = Literal["equal", "reads", "differs", "fails", "rejects", "ends", "silent"]
STATES: tuple[State, ...] = ("rejects", "ends", "silent", "fails", "differs", "reads", "equal")
"""From the worst to the best. "reads": there was nothing to compare the outputs with; "silent": no answer in time."""
_SENTENCES = {
    "equal": "reads it, and its outputs equal those of ONNX Runtime",
    "reads": "reads it; its outputs were not compared",
    "differs": "reads it, and its outputs differ",
    "fails": "reads it, and fails when it runs",
    "rejects": "rejects it",
    "ends": "ended the process",
    "silent": "did not answer",
}


@record(frozen=True, slots=True)
class Consumer:
    """A consumer that can be asked.

    Attributes:
        runtime: its module in `runtimes`.
        version: its name with its version, as people write it.
        python: the interpreter of the environment that has it.
        tolerance: how far its outputs may be off, relative to the largest value.
    """

    runtime: str
    version: str
    python: str
    tolerance: float = 1e-3


@record(frozen=True, slots=True)
class Verdict:
    """What a consumer makes of a model.

    Attributes:
        consumer: its name with its version.
        state: one of `STATES`.
        reason: in the consumer's own words, or what differs; "" for a model that it computes equally.
    """

    consumer: str
    state: State
    reason: str = ""

    @property
    def accepts(self) -> bool:
        """Whether nothing is wrong with the model for this consumer."""
        return self.state in ("equal", "reads")

    @property
    def is_silent_error(self) -> bool:
        """Whether the consumer computes other outputs, without an error message."""
        return self.state == "differs"

    @property
    def is_error(self) -> bool:
        """Whether the user of the consumer sees that it does not run the model."""
        return self.state in STATES[: STATES.index("differs")]

    @property
    def rank(self) -> int:
        """The higher the better."""
        return STATES.index(self.state)

    @property
    def sentence(self) -> str:
        return f"{self.consumer} {_SENTENCES[self.state]}" + (f": {self.reason}" if self.reason else "")
