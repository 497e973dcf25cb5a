"""Which conditions of a rule are asked first: those that cost least, since one that is false ends all.

The order changes no answer: one false condition outweighs all that fail or are unknown, wherever it stands.
"""

from __future__ import annotations

from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.functions import FAULTS
from rewriter.core.language.walk import children, walk

WEIGHTS = {
    **dict.fromkeys(("is_output", "is_input", "op", "domain", "has", "present", "matched", "n_inputs", "n_outputs", "len"), 0),
    **dict.fromkeys(("name", "opset", "exporter", "exporter_version", "ir_version", "uses", "producer", "users", "default"), 1),
    **dict.fromkeys(("is_const", "declared_dtype", "declared_rank", "declared_shape", "known", "maybe", "range"), 2),
    "dtype": 4,
    **dict.fromkeys(("rank", "axis", "dim", "shape", "size"), 8),
    "value": 12,
    "computed": 200,
}
"""What a call costs beside its arguments: nothing but a look, a fact of a tensor, shapes, the inference of values."""
OTHER_CALL = 20  # may look at the elements of arrays
FAULT = 400  # looks at the whole model
ELEMENTS = 16  # of a captured constant


def cheap_first(rule: ast.Rule) -> tuple[ast.Expr, ...]:
    """The conditions of a rule that can be other than true, in the order in which they are asked."""
    weights = _Weights(rule)
    deciding = (where.condition for where in rule.wheres)
    return tuple(sorted((one for one in deciding if not (isinstance(one, ast.Literal) and one.value is True)), key=weights.of))


class _Weights:
    """What the expressions of a rule cost, roughly."""

    def __init__(self, rule: ast.Rule) -> None:
        self._constants = {part.name for part in walk(rule.match) if isinstance(part, ast.Capture) and part.const}
        self._lets = {let.name: let.value for let in rule.lets}
        self._of_lets: dict[str, int] = {}

    def of(self, part: Any) -> int:
        total = sum(map(self.of, children(part)))
        if isinstance(part, ast.Call):
            return total + WEIGHTS.get(part.function, OTHER_CALL)
        if isinstance(part, ast.Field):
            is_fault = part.name in FAULTS and isinstance(part.value, ast.Name) and part.value.id == "model"
            return total + (FAULT if is_fault else 2)
        if isinstance(part, ast.Compare | ast.Binary):
            sides = (part.left, part.right)
            return total + ELEMENTS * sum(isinstance(one, ast.Name) and one.id in self._constants for one in sides)
        if isinstance(part, ast.Quantified):
            return 2 * total + 2
        return total + (self._of_let(part.id) if isinstance(part, ast.Name) and part.id in self._lets else 1)

    def _of_let(self, name: str) -> int:
        if name not in self._of_lets:
            self._of_lets[name] = 0  # until it is known
            self._of_lets[name] = self.of(self._lets[name])
        return self._of_lets[name]
