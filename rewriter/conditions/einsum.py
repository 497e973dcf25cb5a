"""What an Einsum of two operands (or one) is made of: a product of matrices between transpositions.

Each letter of the equation is shared by both operands or not, and kept in the output or not. Shared and kept letters are batch
dimensions of MatMul; one that is shared and dropped is its inner dimension; those of one operand only are rows or columns.
MatMul has one inner dimension and one row and column: further letters become batch dimensions, in the operand that lacks them
of length 1, and what must be summed is summed afterwards. A leading dimension of length 1 is added and summed away again, so
that the lists of axes that a rule writes are never empty. No shape needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewriter.conditions.context import Context
from rewriter.conditions.rule_values import Failure
from rewriter.record import record

_PAD = "1"  # a dimension of length 1 that stands for no letter


@record(frozen=True, slots=True)
class Equation:
    """Letters of the operands and of the output, in their order."""

    operands: tuple[str, ...]
    output: str

    def layout(self, position: int) -> str:
        """Letters of an operand as MatMul wants it, `_PAD` where it has none; of a single operand as they are."""
        if len(self.operands) == 1:
            return _PAD + self.operands[0]
        batch, inner, rows, columns = self._roles()
        other = columns if position == 0 else rows
        shared = batch + inner[1:] + rows[:-1] + columns[:-1]
        row, depth, column = (letters[-1:] or _PAD for letters in (rows, inner[:1], columns))
        tail = row + depth if position == 0 else depth + column
        return _PAD + "".join(_PAD if letter in other else letter for letter in shared) + tail

    def product(self) -> str:
        """Letters of what MatMul gives; of a single operand its own."""
        if len(self.operands) == 1:
            return self.layout(0)
        batch, inner, rows, columns = self._roles()
        return _PAD + batch + inner[1:] + rows[:-1] + columns[:-1] + (rows[-1:] or _PAD) + (columns[-1:] or _PAD)

    def _roles(self) -> tuple[str, str, str, str]:
        """(batch, inner, rows, columns). The last row and column are kept letters where there is one."""
        first, second = self.operands
        batch = "".join(letter for letter in first if letter in second and letter in self.output)
        inner = "".join(letter for letter in first if letter in second and letter not in self.output)
        alone = ("".join(sorted(set(one) - set(other), key=one.index)) for one, other in ((first, second), (second, first)))
        rows, columns = ("".join(sorted(letters, key=lambda letter: letter in self.output)) for letters in alone)
        return batch, inner, rows, columns


def read(text: str) -> Equation | None:
    """The equation, or None for what is not made of two matrices: an ellipsis, a letter twice in one operand, three
    operands.
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    operands = tuple(left.split(","))
    letters = "".join(operands)
    output = right if arrow else "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    known = all(part.isalpha() and len(set(part)) == len(part) for part in operands)
    if not known or len(operands) > 2 or len(set(output)) != len(output) or set(output) - set(letters):
        return None
    return Equation(operands, output)


def _equation(text: str) -> Equation:
    found = read(text)
    if found is None:
        raise Failure(f"einsum equation {text!r} is not of the simple kind; ask einsum_simple first")
    return found


def _perm(context: Context, text: str, position: int) -> list[int]:
    equation = _equation(text)
    return [equation.operands[position].index(letter) for letter in equation.layout(position) if letter != _PAD]


def _unsqueezed(context: Context, text: str, position: int) -> list[int]:
    return [at for at, letter in enumerate(_equation(text).layout(position)) if letter == _PAD]


def _summed(context: Context, text: str) -> list[int]:
    equation = _equation(text)
    return [at for at, letter in enumerate(equation.product()) if letter not in equation.output]


def _output(context: Context, text: str) -> list[int]:
    equation = _equation(text)
    left = [letter for letter in equation.product() if letter in equation.output]
    return [left.index(letter) for letter in equation.output]


BODIES: dict[str, Callable[..., Any]] = {
    "einsum_simple": lambda context, text: read(text) is not None,
    "einsum_perm": _perm,
    "einsum_unsqueezed": _unsqueezed,
    "einsum_summed": _summed,
    "einsum_output": _output,
}
