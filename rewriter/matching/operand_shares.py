"""The ways to share a node's operands out among runs, and the operands that a pattern names between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.language.pattern import Operand, PatternNode, is_run

Share = tuple[Operand, Any]
"""What the search is to look at: a run and its tensors, or an operand and its tensor."""


def shares(
    pattern: PatternNode, operands: Sequence[gs.Tensor], fits: Callable[[Operand, gs.Tensor], bool]
) -> Iterator[list[Share]]:
    """Each way, short first runs first; `fits` says at a glance whether an operand can be a tensor, and may raise to end it."""
    return _from(pattern, operands, fits, 0, 0)


def _from(
    pattern: PatternNode, operands: Sequence[gs.Tensor], fits: Callable[[Operand, gs.Tensor], bool], at: int, position: int
) -> Iterator[list[Share]]:
    """The ways from one operand of the pattern, and one of the node, on."""
    if at == len(pattern.inputs):
        if position == len(operands) or pattern.source.more_inputs:
            yield []
        return
    operand = pattern.inputs[at]
    if is_run(operand):
        last = at == len(pattern.inputs) - 1 and not pattern.source.more_inputs
        for end in range(len(operands) if last else position, len(operands) + 1):
            for rest in _from(pattern, operands, fits, at + 1, end):
                yield [(operand, list(operands[position:end])), *rest]
    elif position < len(operands) and fits(operand, operands[position]):
        for rest in _from(pattern, operands, fits, at + 1, position + 1):
            yield [(operand, operands[position]), *rest]


def given(node: gs.Node) -> int:
    """Number of operands without trailing omitted ones."""
    count = len(node.inputs)
    while count and not node.inputs[count - 1].name:
        count -= 1
    return count
