"""What a comparison of two models found: records, for reports."""

from __future__ import annotations

from rewriter.core.record import field, record
from rewriter.trust.diff.difference import Difference
from rewriter.trust.proof.models.output_agreement import Bound


@record(frozen=True, slots=True)
class Maker:
    """The node that makes a tensor: its name, or that of its first output where it has none, and its operator."""

    name: str
    operator: str


@record(frozen=True, slots=True)
class TensorPair:
    """Two tensors of the main graphs that are meant to hold the same, and who makes them."""

    first: str
    second: str
    maker: Maker
    other_maker: Maker


@record(frozen=True, slots=True)
class RefusedNode:
    """A node that a runtime does not run, and why; `node` is "" when it is the model as a whole."""

    node: str
    operator: str
    reason: str


@record(frozen=True, slots=True)
class LayerDifference:
    """A pair and how its tensors differ.

    Attributes:
        pair: the tensors.
        shape: "float32[1,8]" of the first model's; "" when it is no tensor.
        largest: the largest absolute difference; infinite where there is no number for it.
        message: what exceeds the bound, "" when nothing does.
    """

    pair: TensorPair
    shape: str
    largest: float
    message: str


@record(frozen=True, slots=True)
class First:
    """Where two models part: the first pair that differs, and what differs at its node."""

    layer: LayerDifference
    structure: tuple[Difference, ...]


@record(slots=True)
class Comparison:
    """What was found.

    Attributes:
        runtime: with its version.
        inputs: where they came from: "random", or a file.
        shapes: of the inputs, as "data float32[1,8]".
        bound: how far tensors may be apart.
        blocked: of each model the nodes that are not run.
        outputs: of each output that both models give; where it agrees, `largest` is that on ordinary inputs.
        missing: names of outputs that only one model has, or gives.
        first: where they part; None when nothing compared differs, or nothing was asked.
        layers: every pair that was compared, when all were asked for.
        sets: how many sets of inputs were run.
        pairs: how many pairs of tensors there are, and `compared` how many were looked at.
        held: most bytes of fetched tensors at a time.
    """

    runtime: str
    inputs: str
    shapes: list[str]
    bound: Bound
    blocked: tuple[list[RefusedNode], list[RefusedNode]]
    outputs: list[LayerDifference] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    first: First | None = None
    layers: list[LayerDifference] = field(default_factory=list)
    sets: int = 0
    pairs: int = 0
    compared: int = 0
    held: int = 0

    @property
    def same(self) -> bool:
        """Whether both models run and give the same."""
        differs = self.missing or any(layer.message for layer in (*self.outputs, *self.layers))
        return not differs and self.first is None and not any(self.blocked)
