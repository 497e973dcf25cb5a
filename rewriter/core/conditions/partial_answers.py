"""What can be said of a rule's conditions where a node of its pattern is known by its kind alone.

Expressions mean what they mean to the engine, over values of which little is known (`partial_values`). They are compiled once a
rule: what a census never tells is left out then, and most conditions shrink to a look at an attribute or at a set of types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rewriter.core.conditions.census_model import (
    FAULT_IS_RULED_OUT,
    NOT_WRITTEN,
    UNDECIDED,
    Known,
    NodeCase,
    TypeCompiler,
    TypeSet,
    compared,
    contained,
    decided,
    element,
    of_types,
    partial_arithmetic,
    partial_cast,
    partial_truth,
    same,
)
from rewriter.core.language import ast
from rewriter.core.language.cache.operator_table import ANY
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.onnxfile.census import OPAQUE

NODE = object()
"""The value of a label: the matched node, which is of the kind in question."""


def nothing(case: NodeCase) -> Any:
    return UNDECIDED


class ConditionCompiler(TypeCompiler):
    """Makes the expressions of one rule into functions of a case; None for what no census tells.

    Attributes:
        faults: names of the faults of a model that they ask about.
        asks_declared_outputs: whether they ask which outputs are outputs of the graph.
    """

    def __init__(self, rule: ast.Rule) -> None:
        super().__init__({let.name: let.value for let in rule.lets})
        self.faults: set[str] = set()
        self.asks_declared_outputs = False
        self._let_values: dict[str, Known | None] = {}

    def value(self, expr: ast.Expr) -> Known | None:
        compile_ = _EXPRESSIONS.get(type(expr))
        return None if compile_ is None else compile_(self, expr)

    def attribute(self, pattern: ast.AttrPattern) -> Known:
        """Whether a kind has an attribute as the pattern wants it; UNKNOWN where the engine may not know, or object."""
        name = pattern.name
        if pattern.mode != "equals":
            present = pattern.mode == "present"
            return lambda case: (name in case.kind.attrs) == present
        variable = pattern.value.id if isinstance(pattern.value, ast.Name) else None
        binds = variable is not None and variable not in self.bound and variable not in self.lets and variable not in DTYPES
        if variable is not None and binds:
            self.bound[variable] = lambda case: case.model.effective_attribute(case.kind, name)
        wanted = None if binds or pattern.value is None else self.value(pattern.value)
        any_value = binds or pattern.value is None

        def fits(case: NodeCase) -> Any:
            value = case.model.effective_attribute(case.kind, name)
            if value is UNDECIDED:
                if case.kind.attrs.get(name) is not OPAQUE:
                    return UNDECIDED
            elif value is NOT_WRITTEN:
                return False
            if any_value:
                return True
            other = UNDECIDED if wanted is None else wanted(case)
            return UNDECIDED if other is UNDECIDED else same(value, other) is not False

        return fits

    # --- expressions -------------------------------------------------------------------------------------------------------

    def literal(self, expr: ast.Literal) -> Known | None:
        value = expr.value
        return None if value is None else lambda case: value

    def name(self, expr: ast.Name) -> Known | None:
        if expr.id in self.bound:
            return self.bound[expr.id]
        if expr.id in self.lets:
            if expr.id not in self._let_values:
                self._let_values[expr.id] = self._let(expr.id)
            return self._let_values[expr.id]
        if expr.id in DTYPES and expr.id not in self.operands:
            one = TypeSet(1 << DTYPES[expr.id])
            return lambda case: one
        return None

    def _let(self, name: str) -> Known | None:
        """Computed once a case, however often it is read."""
        inner = self.value(self.lets[name])
        if inner is None:
            return None

        def value(case: NodeCase) -> Any:
            if name not in case.let_values:
                case.let_values[name] = inner(case)
            return case.let_values[name]

        return value

    def field(self, expr: ast.Field) -> Known | None:
        name = expr.name
        if isinstance(expr.value, ast.Name) and expr.value.id == "model" and "model" not in self.bound:
            self.faults.update({name} & FAULT_IS_RULED_OUT.keys())
            return (lambda case: case.model.model_field(name)) if name == "ir_version" or name in FAULT_IS_RULED_OUT else None
        base = self.value(expr.value)
        if base is None or name in ("inputs", "outputs", "op", "doc_string"):
            return None
        return lambda case: case.model.effective_attribute(case.kind, name) if base(case) is NODE else UNDECIDED

    def index(self, expr: ast.Index) -> Known | None:
        base = self.value(expr.value)
        if base is None:
            return None
        if not isinstance(expr.index, ast.Range):
            at = self.value(expr.index)
            return None if at is None else lambda case: element(base(case), at(case))
        start = _always(0) if expr.index.start is None else self.value(expr.index.start)
        stop = _always(-1) if expr.index.stop is None else self.value(expr.index.stop)
        if start is None or stop is None:
            return None
        return lambda case: element(base(case), start(case), stop(case))

    def list_of(self, expr: ast.ListOf) -> Known | None:
        items = [self.value(item) for item in expr.items]
        known = [item for item in items if item is not None]
        if len(known) < len(items):
            return None  # an item that fails spoils the list, whatever the others are

        def value(case: NodeCase) -> Any:
            found = [item(case) for item in known]
            return UNDECIDED if UNDECIDED in found else found

        return value

    def unary(self, expr: ast.Unary) -> Known | None:
        operand = self.value(expr.operand)
        if operand is None:
            return None
        if expr.op == "not":

            def negated(case: NodeCase) -> Any:
                found = partial_truth(operand(case))
                return UNDECIDED if found is UNDECIDED else not found

            return negated

        def negative(case: NodeCase) -> Any:
            found = operand(case)
            return -found if isinstance(found, int | float) and not isinstance(found, bool) else UNDECIDED

        return negative

    def binary(self, expr: ast.Binary) -> Known | None:
        left, right, op = self.value(expr.left), self.value(expr.right), expr.op
        return None if left is None or right is None else lambda case: partial_arithmetic(op, left(case), right(case))

    def compare(self, expr: ast.Compare) -> Known | None:
        wanted = self.named_types(expr)
        if wanted and (types := self.types(expr.left)) is not None:
            positive = expr.op in ("==", "in")
            return lambda case: of_types(types(case), wanted, positive=positive)
        left, right, op = self.value(expr.left), self.value(expr.right), expr.op
        if left is None or right is None:
            return None
        if op in ("in", "not in"):
            return lambda case: contained(left(case), right(case), positive=op == "in")
        return lambda case: compared(op, left(case), right(case))

    def logic(self, expr: ast.Logic) -> Known | None:
        parts = [self.value(operand) for operand in expr.operands]
        known = [part for part in parts if part is not None]
        if not known:
            return None
        decisive, all_known = expr.op == "or", len(known) == len(parts)

        def value(case: NodeCase) -> Any:
            open_ = not all_known
            for part in known:
                found = partial_truth(part(case))
                if found is decisive:
                    return decisive
                open_ = open_ or found is UNDECIDED
            return UNDECIDED if open_ else not decisive

        return value

    def choice(self, expr: ast.Choice) -> Known | None:
        test = self.value(expr.test)
        if test is None:
            return None
        then, other = self.value(expr.then) or nothing, self.value(expr.other) or nothing

        def value(case: NodeCase) -> Any:
            found = partial_truth(test(case))
            return UNDECIDED if found is UNDECIDED else (then if found else other)(case)

        return value

    def quantified(self, expr: ast.Quantified) -> Known | None:
        """`any x in xs: ...` is surely false where it is so of every operand that may be in the run; `all`, where it is so of
        one that surely is.
        """
        run = expr.over.id if isinstance(expr.over, ast.Name) else ""
        place = self.runs.get(run)
        if run not in self.runs or expr.quantifier == "count" or (place is None and expr.quantifier == "all"):
            return None
        at = self.each[expr.name] = [0]
        condition = self.value(expr.condition)
        del self.each[expr.name]
        if condition is None:
            return None
        self.asks_types = True
        before, behind = place or (0, 0)

        def answers(case: NodeCase, types: tuple[int, ...]) -> Iterator[Any]:
            for at[0] in range(before, len(types) - behind):
                if types[at[0]]:  # an operand that is left out is no item
                    yield partial_truth(condition(case))

        def some(case: NodeCase) -> Any:
            return (
                UNDECIDED
                if case.operand_types is None or any(a is not False for a in answers(case, case.operand_types))
                else False
            )

        def every(case: NodeCase) -> Any:
            return (
                False
                if case.operand_types is not None and any(a is False for a in answers(case, case.operand_types))
                else UNDECIDED
            )

        return some if expr.quantifier == "any" else every

    def call(self, expr: ast.Call) -> Known | None:
        compile_ = _FUNCTIONS.get(expr.function)
        return None if compile_ is None else compile_(self, *expr.args)

    # --- functions ---------------------------------------------------------------------------------------------------------

    def declared_dtype(self, tensor: ast.Expr) -> Known | None:
        place = self._output(tensor)
        if place is None:
            return None

        def value(case: NodeCase) -> Any:
            bits = ANY if case.operand_types is None else case.kind.declared_outputs.get(place, ANY)
            return UNDECIDED if bits == ANY else TypeSet(bits)

        return value

    def is_output(self, tensor: ast.Expr) -> Known | None:
        place = self._output(tensor)
        return (
            None
            if place is None
            else lambda case: UNDECIDED if case.operand_types is None or place in case.kind.declared_outputs else False
        )

    def _output(self, tensor: ast.Expr) -> int | None:
        """Which output of the node in question a name means."""
        place = self.outputs.get(tensor.id) if isinstance(tensor, ast.Name) else None
        self.asks_types = self.asks_types or place is not None
        self.asks_declared_outputs = self.asks_declared_outputs or place is not None
        return place

    def has(self, node: ast.Expr, name: ast.Expr) -> Known | None:
        label, wanted = self.value(node), self.value(name)
        if label is None or wanted is None:
            return None

        def value(case: NodeCase) -> Any:
            text = wanted(case)
            return text in case.kind.attrs if label(case) is NODE and isinstance(text, str) else UNDECIDED

        return value

    def opset(self, domain: ast.Expr | None = None) -> Known | None:
        if domain is not None:
            return None
        return lambda case: next(iter(case.model.versions)) if len(case.model.versions) == 1 else UNDECIDED

    def axis(self, axis: ast.Expr, tensor: ast.Expr) -> Known | None:
        known, rank = self.value(axis), self.rank(tensor)
        if known is None or rank is None:
            return None

        def value(case: NodeCase) -> Any:
            found, count = known(case), rank(case)
            if not isinstance(found, int) or not isinstance(count, int) or not -max(count, 1) <= found < max(count, 1):
                return UNDECIDED
            return found % count if count else 0

        return value

    def length(self, items: ast.Expr) -> Known | None:
        known = self.value(items)

        def value(case: NodeCase) -> Any:
            assert known is not None
            found = known(case)
            return len(found) if isinstance(found, list | tuple | str) else UNDECIDED

        return None if known is None else value

    def all(self, items: ast.Expr) -> Known | None:
        known = self.value(items)
        return None if known is None else lambda case: decided(known(case), decisive=False)

    def any(self, items: ast.Expr) -> Known | None:
        known = self.value(items)
        return None if known is None else lambda case: decided(known(case), decisive=True)

    def maybe(self, condition: ast.Expr) -> Known | None:
        known = self.value(condition)
        return None if known is None else lambda case: False if partial_truth(known(case)) is False else UNDECIDED

    def cast(self, value: ast.Expr, dtype: ast.Expr) -> Known | None:
        known, wanted = self.value(value), self.value(dtype)
        return None if known is None or wanted is None else lambda case: partial_cast(known(case), wanted(case))


_EXPRESSIONS: dict[type, Callable[[ConditionCompiler, Any], Known | None]] = {
    ast.Literal: ConditionCompiler.literal,
    ast.Name: ConditionCompiler.name,
    ast.Field: ConditionCompiler.field,
    ast.Index: ConditionCompiler.index,
    ast.ListOf: ConditionCompiler.list_of,
    ast.Unary: ConditionCompiler.unary,
    ast.Binary: ConditionCompiler.binary,
    ast.Compare: ConditionCompiler.compare,
    ast.Logic: ConditionCompiler.logic,
    ast.Choice: ConditionCompiler.choice,
    ast.Call: ConditionCompiler.call,
    ast.Quantified: ConditionCompiler.quantified,
}
_FUNCTIONS: dict[str, Callable[..., Known | None]] = {
    "dtype": ConditionCompiler.dtype,
    "declared_dtype": ConditionCompiler.declared_dtype,
    "rank": ConditionCompiler.rank,
    "axis": ConditionCompiler.axis,
    "has": ConditionCompiler.has,
    "is_output": ConditionCompiler.is_output,
    "opset": ConditionCompiler.opset,
    "len": ConditionCompiler.length,
    "all": ConditionCompiler.all,
    "any": ConditionCompiler.any,
    "maybe": ConditionCompiler.maybe,
    "cast": ConditionCompiler.cast,
}
"""What can be said of a function's result. A function of the model as a whole is answered here from its census."""


def _always(value: Any) -> Known:
    return lambda case: value
