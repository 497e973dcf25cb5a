"""What a census tells of the element types and ranks of the tensors that a rule's conditions ask about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewriter.conditions.asked_model import Asked
from rewriter.conditions.partial_values import UNKNOWN, TypeSet
from rewriter.facts.type_sets import ANY, union
from rewriter.language import ast
from rewriter.language.dtypes import DTYPES

Known = Callable[[Asked], Any]
"""The value of an expression in one case: that of the language where it is known (numbers, texts, lists; tuples for arrays),
`TypeSet` for an element type, UNKNOWN also where the engine would object.
"""


class TypeCompiler:
    """Knows where the names of a pattern stand at the node in question, and makes questions about types and ranks of them.

    Attributes:
        asks_types, asks_ranks: whether a condition needs them.
        bound: values of labels and of attributes that the pattern binds.
        outputs: positions of outputs.
        operands: positions of operands; None for anywhere.
        runs: names that stand for any number of operands, with how many stand before and behind them; None for unknown.
        free: whether operands stand in any order.
        each: what an `any` or `all` goes through, with the position at which it is.
        lets: expressions that have a name.
    """

    def __init__(self, lets: Mapping[str, ast.Expr]) -> None:
        self.asks_types = self.asks_ranks = False
        self.bound: dict[str, Known] = {}
        self.operands: dict[str, list[int] | None] = {}
        self.outputs: dict[str, int] = {}
        self.runs: dict[str, tuple[int, int] | None] = {}
        self.free = False
        self.each: dict[str, list[int]] = {}
        self.lets = lets

    def operand(self, name: str, position: int | None) -> None:
        """Notes that a name of the pattern stands for the operand at a position, negative from the end; with None, at any."""
        places = self.operands.setdefault(name, [])
        if position is None or places is None:
            self.operands[name] = None
        else:
            places.append(position)

    def types(self, expr: ast.Expr) -> Callable[[Asked], int] | None:
        """For `dtype(x)`: the set of types that x may have, as bits."""
        tensor = expr.args[0] if isinstance(expr, ast.Call) and expr.function == "dtype" else None
        return self.types_of(tensor) if isinstance(tensor, ast.Name) else None

    def types_of(self, tensor: ast.Name) -> Callable[[Asked], int] | None:
        at, place, operand = self.each.get(tensor.id), self.outputs.get(tensor.id), self.operands.get(tensor.id)
        if at is None and place is None and operand is None:
            return None
        self.asks_types = True
        if at is not None:
            return lambda asked: (ANY if asked.types is None else asked.types[at[0]]) or ANY
        if place is not None:

            def made(asked: Asked) -> int:
                found = () if asked.types is None else asked.kind.made[asked.types]
                return found[place] if place < len(found) else ANY

            return made
        assert operand is not None
        positions, free = tuple(operand), self.free

        def read(asked: Asked) -> int:
            bits, types = ANY, asked.types
            if types is not None:
                for position in positions:
                    one = union(types) if free else types[position] if _within(position, types) else ANY
                    bits &= one or ANY
            return bits

        return read

    def named_types(self, expr: ast.Compare) -> int:
        """The types that `== float` or `in [float, double]` names, as bits; 0 for anything else."""
        several = isinstance(expr.right, ast.ListOf)
        items = expr.right.items if isinstance(expr.right, ast.ListOf) else (expr.right,)
        if expr.op not in (("in", "not in") if several else ("==", "!=")):
            return 0
        taken = {*self.bound, *self.lets, *self.operands}
        names = [item.id for item in items if isinstance(item, ast.Name) and item.id in DTYPES and item.id not in taken]
        return union(1 << DTYPES[name] for name in names) if len(names) == len(items) else 0

    def dtype(self, tensor: ast.Expr) -> Known | None:
        types = self.types_of(tensor) if isinstance(tensor, ast.Name) else None

        def value(asked: Asked) -> Any:
            assert types is not None
            bits = types(asked)
            return UNKNOWN if bits == ANY else TypeSet(bits)

        return None if types is None else value

    def rank(self, tensor: ast.Expr) -> Known | None:
        name = tensor.id if isinstance(tensor, ast.Name) else ""
        place, operand = self.outputs.get(name), self.operands.get(name)
        if place == 0:
            self.asks_ranks = True
            return lambda asked: UNKNOWN if asked.ranks is None else _number(asked.kind.ranks[asked.ranks])
        if operand is None or place is not None or self.free:
            return None
        self.asks_ranks = True
        at = operand[0]
        return lambda asked: UNKNOWN if not asked.ranks or not _within(at, asked.ranks) else _number(asked.ranks[at])


def _within(position: int, operands: Sequence[int | None]) -> bool:
    return -len(operands) <= position < len(operands)


def _number(rank: int | None) -> Any:
    return UNKNOWN if rank is None or rank < 0 else rank
