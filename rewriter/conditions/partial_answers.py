"""What can be said of a rule's conditions where a node of its pattern is known by its kind alone.

It evaluates expressions as the engine does, with values of which little is known (guess_values.py); what a census of the model
cannot tell is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rewriter.conditions.partial_values import ABSENT, ANY, ORDERS, UNKNOWN, TypeSet, each, same
from rewriter.conditions.ruled_out import NONE
from rewriter.language import ast, schema
from rewriter.language.cache.operator_table import Table
from rewriter.language.dtypes import DTYPES
from rewriter.language.pattern import PatternNode, is_run
from rewriter.language.pattern_order import is_late
from rewriter.onnxfile.census import OPAQUE, Census, NodeKind
from rewriter.record import record

_COMPUTED = {"pads": (0, 2), "strides": (1, 1), "dilations": (1, 1)}
"""Defaults that depend on the number of spatial axes: the item, and how many an axis."""


class _Doubtful(Exception):
    """The engine may not know what an attribute of a pattern is, or may object."""


@record(frozen=True, slots=True)
class _MatchedNode:
    """A matched node, which is of the kind in question."""


@record(frozen=True, slots=True)
class AskedModel:
    """What questions are put to."""

    census: Census
    table: Table
    by_op: Mapping[tuple[str, str], list[NodeKind]]


class PartialAnswers:
    """The conditions of a rule, where one node of its pattern is of a certain kind and nothing else is known.

    Values are those of the language: numbers, texts, lists; tuples for arrays; `TypeSet` for an element type; UNKNOWN.
    """

    def __init__(
        self,
        rule: ast.Rule,
        model: AskedModel,
        node: PatternNode | None,
        kind: NodeKind | None,
        types: tuple[int, ...] | None,
    ) -> None:
        self.rule = rule
        self.lets = {let.name: let.value for let in rule.lets}
        self.model = model
        self.node = node
        self.kind = kind
        self.types = types
        self.bound: dict[str, Any] = {}
        self.operands: dict[str, int] = {}
        self.outputs: dict[str, int] = {}

    def stands(self) -> bool:
        """False when a condition is surely false, or the pattern surely does not fit.

        The engine asks the pattern first: what it may not know of an attribute there, it reports, whatever the conditions say.
        """
        try:
            if self.node is not None and not self._matches(self.node):
                return False
        except _Doubtful:
            return True
        return all(self.truth(where.condition) is not False for where in self.rule.wheres)

    # --- the pattern -------------------------------------------------------------------------------------------------------

    def _matches(self, node: PatternNode) -> bool:
        source = node.source
        for position, output in enumerate(source.outputs):
            if output.variadic:
                break
            if output.name is not None:
                self.outputs[output.name] = position
        if source.label is not None:
            self.bound[source.label] = _MatchedNode()
        read = self._operands(node)  # which the engine asks for last, so that attributes may be doubtful all the same
        late = [pattern for pattern in source.attrs if is_late(pattern)]
        if not all(self._attribute(pattern) for pattern in source.attrs if pattern not in late):
            return False
        fits = [self._attribute(pattern) for pattern in late]  # asked in another order there: each may be the first
        return read and all(fits)

    def _operands(self, node: PatternNode) -> bool:
        """Whether the operands may be what the pattern wants; notes of what types they may be."""
        free = not node.source.ordered and any(schema.is_commutative(op, domain) for domain, op in node.ops)
        every = 0 if self.types is None else _union(self.types)
        placed = next((at for at, operand in enumerate(node.inputs) if is_run(operand)), len(node.inputs))
        for operand in node.inputs[placed:]:
            if isinstance(operand, ast.Capture):
                self.operands.setdefault(operand.name, ANY)  # behind a run it may be anywhere
        for position, operand in enumerate(node.inputs[:placed]):
            optional = isinstance(operand, ast.Capture) and operand.optional
            if self.types is not None and not free and not optional and self.types[position : position + 1] == (0,):
                return False
            if not isinstance(operand, ast.Capture):
                continue
            bits = ANY
            if self.types is not None:
                bits = every if free else self.types[position] if position < len(self.types) else ANY
            self.operands[operand.name] = self.operands.get(operand.name, ANY) & (bits or ANY)
            if operand.type is not None and operand.type.dtype is not None and not bits & 1 << DTYPES[operand.type.dtype]:
                return bits == 0
        return True

    def _attribute(self, pattern: ast.AttrPattern) -> bool:
        assert self.kind is not None
        if pattern.mode != "equals":
            return (pattern.name in self.kind.attrs) == (pattern.mode == "present")
        value = self.effective(pattern.name)
        if value is UNKNOWN and self.kind.attrs.get(pattern.name) is not OPAQUE:
            raise _Doubtful
        name = pattern.value.id if isinstance(pattern.value, ast.Name) else None
        if name is not None and name not in self.bound and name not in self.lets and name not in DTYPES:
            self.bound[name] = value
            return True
        if pattern.value is None:
            return True
        wanted = self.value(pattern.value)
        if wanted is UNKNOWN:
            raise _Doubtful
        return same(value, wanted) is not False

    def effective(self, name: str) -> Any:
        """The value that an attribute has by itself or by default."""
        assert self.kind is not None
        found = self.kind.attrs.get(name)
        if found is not None:
            return UNKNOWN if found is OPAQUE else found
        entry = None if self.kind.domain else self.model.table.get(self.kind.op)
        if entry is None:
            return UNKNOWN
        defaults = [_at(entry[0].get(name, ()), version) for version in self.model.census.versions]
        if not defaults or any(default != defaults[0] for default in defaults):
            return UNKNOWN
        if defaults[0] is not None:
            return defaults[0]
        return ABSENT if schema.computed_default(self.kind.op, "", name) is None else self._computed(name)

    def _computed(self, name: str) -> Any:
        assert self.kind is not None
        item, times = _COMPUTED.get(name, (0, 0))
        axes = self.kind.attrs.get("kernel_shape")
        padded = self.kind.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", "")
        return UNKNOWN if not times or not isinstance(axes, list) or (padded and not item) else [item] * (len(axes) * times)

    # --- expressions -------------------------------------------------------------------------------------------------------

    def truth(self, expr: ast.Expr) -> Any:
        """True, False or UNKNOWN."""
        value = self.value(expr)
        return bool(value) if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)) else UNKNOWN

    def value(self, expr: ast.Expr) -> Any:
        """What is known of an expression; UNKNOWN also where the engine would object."""
        evaluate = _EXPRESSIONS.get(type(expr))
        try:
            return UNKNOWN if evaluate is None else evaluate(self, expr)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return UNKNOWN

    def _name(self, expr: ast.Name) -> Any:
        if expr.id in self.bound:
            return self.bound[expr.id]
        if expr.id in self.lets:
            return self.value(self.lets[expr.id])
        if expr.id in DTYPES and expr.id not in self.operands:
            return TypeSet(1 << DTYPES[expr.id])
        return UNKNOWN

    def _field(self, expr: ast.Field) -> Any:
        if isinstance(expr.value, ast.Name) and expr.value.id == "model" and "model" not in self.bound:
            return self._of_model(expr.name)
        known = self.value(expr.value)
        if not isinstance(known, _MatchedNode) or expr.name in ("inputs", "outputs", "op"):
            return UNKNOWN
        return self.effective(expr.name)

    def _of_model(self, name: str) -> Any:
        census = self.model.census
        if name == "ir_version":
            return census.ir_version or UNKNOWN
        surely_none = NONE.get(name)
        return [] if surely_none is not None and surely_none(census, self.model.table) else UNKNOWN

    def _index(self, expr: ast.Index) -> Any:
        base = self.value(expr.value)
        if not isinstance(base, list | tuple | str):
            return UNKNOWN
        if not isinstance(expr.index, ast.Range):
            at = self.value(expr.index)
            return base[at] if isinstance(at, int) else UNKNOWN
        start = 0 if expr.index.start is None else self.value(expr.index.start)
        stop = -1 if expr.index.stop is None else self.value(expr.index.stop)
        if not isinstance(start, int) or not isinstance(stop, int):
            return UNKNOWN
        return base[start : None if stop == -1 else stop + 1]

    def _list(self, expr: ast.ListOf) -> Any:
        items = [self.value(item) for item in expr.items]
        return UNKNOWN if UNKNOWN in items else items  # an item that fails spoils the list, whatever the others are

    def _unary(self, expr: ast.Unary) -> Any:
        if expr.op == "not":
            known = self.truth(expr.operand)
            return UNKNOWN if known is UNKNOWN else not known
        value = self.value(expr.operand)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else UNKNOWN

    def _binary(self, expr: ast.Binary) -> Any:
        """Whole numbers, and arrays of them; nothing else is asked for often enough."""
        step = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__}.get(expr.op)
        if step is None:
            return UNKNOWN
        left, right = self.value(expr.left), self.value(expr.right)
        return UNKNOWN if list in (type(left), type(right)) else _bounded(each(left, right, step))

    def _compare(self, expr: ast.Compare) -> Any:
        left, right = self.value(expr.left), self.value(expr.right)
        if expr.op in ("in", "not in"):
            found = self._contains(left, right)
            return found if found is UNKNOWN or expr.op == "in" else not found
        if any(isinstance(side, TypeSet | str) or side is ABSENT for side in (left, right)):
            equal = same(left, right) if expr.op in ("==", "!=") else UNKNOWN
            return equal if equal is UNKNOWN or expr.op == "==" else not equal
        if isinstance(left, list) and isinstance(right, list):
            equal = same(left, right) if expr.op in ("==", "!=") else UNKNOWN
            return equal if equal is UNKNOWN or expr.op == "==" else not equal
        return each(left, right, ORDERS[expr.op])

    def _contains(self, item: Any, items: Any) -> Any:
        if item is UNKNOWN or not isinstance(items, list):
            return UNKNOWN
        answers = [same(item, element) for element in items]
        return True if True in answers else UNKNOWN if UNKNOWN in answers else False

    def _logic(self, expr: ast.Logic) -> Any:
        decisive = expr.op == "or"
        answers = [self.truth(operand) for operand in expr.operands]
        return decisive if any(a is decisive for a in answers) else UNKNOWN if UNKNOWN in answers else not decisive

    def _choice(self, expr: ast.Choice) -> Any:
        test = self.truth(expr.test)
        return UNKNOWN if test is UNKNOWN else self.value(expr.then if test else expr.other)

    def _call(self, expr: ast.Call) -> Any:
        function = _FUNCTIONS.get(expr.function)
        return UNKNOWN if function is None else function(self, *expr.args)

    # --- functions ---------------------------------------------------------------------------------------------------------

    def _dtype(self, tensor: ast.Expr) -> Any:
        if not isinstance(tensor, ast.Name):
            return UNKNOWN
        place = self._output(tensor)
        if place is None or self.kind is None or self.types is None:
            return TypeSet(self.operands.get(tensor.id, ANY))
        made = self.kind.made[self.types]
        return TypeSet(made[place] if place < len(made) else ANY)

    def _declared_dtype(self, tensor: ast.Expr) -> Any:
        place = self._output(tensor)
        return UNKNOWN if place is None or self.kind is None else TypeSet(self.kind.handed.get(place, ANY))

    def _is_output(self, tensor: ast.Expr) -> Any:
        place = self._output(tensor)
        return UNKNOWN if place is None or self.kind is None or place in self.kind.handed else False

    def _output(self, tensor: ast.Expr) -> int | None:
        """Which output of the node in question a name means, where the types are known; None for another one."""
        return self.outputs.get(tensor.id) if isinstance(tensor, ast.Name) and self.types is not None else None

    def _has(self, node: ast.Expr, name: ast.Expr) -> Any:
        wanted = self.value(name)
        if self.kind is None or not isinstance(self.value(node), _MatchedNode) or not isinstance(wanted, str):
            return UNKNOWN
        return wanted in self.kind.attrs

    def _opset(self, domain: ast.Expr | None = None) -> Any:
        versions = self.model.census.versions
        return next(iter(versions)) if domain is None and len(versions) == 1 else UNKNOWN

    def _length(self, items: ast.Expr) -> Any:
        found = self.value(items)
        return len(found) if isinstance(found, list | tuple | str) else UNKNOWN

    def _all(self, items: ast.Expr) -> Any:
        return self._every(items, decisive=False)

    def _any(self, items: ast.Expr) -> Any:
        return self._every(items, decisive=True)

    def _every(self, items: ast.Expr, *, decisive: bool) -> Any:
        found = self.value(items)
        if isinstance(found, bool):
            return found
        if not isinstance(found, list | tuple) or not all(isinstance(item, bool | int) for item in found):
            return UNKNOWN
        return any(found) if decisive else all(found)

    def _maybe(self, condition: ast.Expr) -> Any:
        return False if self.truth(condition) is False else UNKNOWN

    def _cast(self, value: ast.Expr, dtype: ast.Expr) -> Any:
        """Whole numbers stay what they are as int64."""
        found, wanted = self.value(value), self.value(dtype)
        if wanted != TypeSet(1 << DTYPES["int64"]):
            return UNKNOWN
        whole = isinstance(found, list | tuple) and all(isinstance(item, int) for item in found)
        return tuple(found) if whole else found if isinstance(found, int) else UNKNOWN


_EXPRESSIONS: dict[type, Callable[[PartialAnswers, Any], Any]] = {
    ast.Literal: lambda guess, expr: UNKNOWN if expr.value is None else expr.value,
    ast.Name: PartialAnswers._name,
    ast.Field: PartialAnswers._field,
    ast.Index: PartialAnswers._index,
    ast.ListOf: PartialAnswers._list,
    ast.Unary: PartialAnswers._unary,
    ast.Binary: PartialAnswers._binary,
    ast.Compare: PartialAnswers._compare,
    ast.Logic: PartialAnswers._logic,
    ast.Choice: PartialAnswers._choice,
    ast.Call: PartialAnswers._call,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "dtype": PartialAnswers._dtype,
    "declared_dtype": PartialAnswers._declared_dtype,
    "has": PartialAnswers._has,
    "is_output": PartialAnswers._is_output,
    "opset": PartialAnswers._opset,
    "len": PartialAnswers._length,
    "all": PartialAnswers._all,
    "any": PartialAnswers._any,
    "maybe": PartialAnswers._maybe,
    "cast": PartialAnswers._cast,
}
"""What can be said of a function's result. A function of the model as a whole is answered here from its census."""


def _bounded(value: Any) -> Any:
    """UNKNOWN where the engine objects: its integers have 64 bits."""
    if isinstance(value, tuple):
        return UNKNOWN if any(_bounded(item) is UNKNOWN for item in value) else value
    return UNKNOWN if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _union(types: Iterable[int]) -> int:
    bits = 0
    for one in types:
        bits |= one or ANY
    return bits


def _at(values: Iterable[tuple[int, Any]], version: int) -> Any:
    """The default that holds in an opset; None for none."""
    found = None
    for since, value in values:
        if since <= version:
            found = value
    return found
