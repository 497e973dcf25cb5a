"""`ReduceMean<axes~a>(x)`: an attribute, or the constant operand that later opsets have in its place.

A rule with such a form becomes one for each range of opsets in which all its operators keep to one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

from rewriter.core.language import ast, schema
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.header import read_header
from rewriter.core.language.walk import rebuild, walk
from rewriter.core.record import record, replace

OPERANDS: Mapping[tuple[str, str], str] = {
    ("Pad", "value"): "constant_value",
    ("TopK", "k"): "K",
    ("Upsample", "scales"): "scales",
}
"""Operands that are not called like the attribute whose place they took."""

_AS = {"ints": "to_list", "floats": "to_list", "int": "int", "float": "float"}


@record(frozen=True, slots=True)
class _Choice:
    """One way to write a node: the operators that a model may have there, and the operands that stand for attributes."""

    ops: frozenset[ast.Op]
    operands: tuple[tuple[str, int, str, float | None], ...]
    """Name of the attribute, position of the operand, kind of the attribute, its default where the operand may be absent."""


Form = tuple[_Choice, ...]


class Unfit(Exception):
    """A form that cannot be written as an operand; what is wrong with it."""

    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


def has_either(rule: ast.Rule) -> bool:
    """Whether anything of a rule is an attribute or an operand."""
    return any(_is_either(part) for part in walk((rule.match, *rule.rewrites)))


def split(rule: ast.Rule) -> list[ast.Rule]:
    """The rule for each range of opsets, and each form that its operators have there. Raises Unfit."""
    opset = read_header(rule.meta).opset
    latest = schema.latest_opset()
    versions = range(max(opset.first or 1, 1), min(opset.last or latest, latest) + 1)
    nodes = [part for part in walk((rule.match, *rule.rewrites)) if _attrs(part)]
    found: list[ast.Rule] = []
    for forms, group in groupby(versions, lambda version: tuple(_forms(node, version) for node in nodes)):
        inside = list(group)
        first = opset.first if inside[0] == versions[0] else inside[0]
        last = opset.last if inside[-1] == versions[-1] else inside[-1]
        narrowed = _within(rule, ast.OpsetRange(first, last, opset.span)) if len(inside) < len(versions) else rule
        found += [_Writer(dict(zip(map(_place, nodes), choice, strict=True))).rule(narrowed) for choice in product(*forms)]
    return found


def _is_either(part: Any) -> bool:
    return (isinstance(part, ast.AttrPattern) and part.mode == "either") or (isinstance(part, ast.AttrSet) and part.either)


def _attrs(part: Any) -> list[ast.AttrPattern | ast.AttrSet]:
    if isinstance(part, ast.NodePattern):
        return [attr for attr in part.attrs if attr.mode == "either"]
    return [attr for attr in part.attrs if isinstance(attr, ast.AttrSet) and attr.either] if isinstance(part, ast.Build) else []


def _place(node: ast.NodePattern | ast.Build) -> tuple[int, int]:
    """What tells two nodes of one rule apart, whatever becomes of their operands."""
    span = _attrs(node)[0].span
    return span.start, span.end


def _forms(node: ast.NodePattern | ast.Build, version: int) -> Form:
    """The ways in which a node may be written in an opset: operators that have the same operands there stand together."""
    ops = node.ops if isinstance(node, ast.NodePattern) else (node.op,)
    by_operands: dict[tuple[tuple[str, int, str, float | None], ...], list[ast.Op]] = {}
    for op in ops:
        by_operands.setdefault(tuple(_operands(op, node, version)), []).append(op)
    return tuple(_Choice(frozenset(group), operands) for operands, group in by_operands.items())


def _operands(op: ast.Op, node: ast.NodePattern | ast.Build, version: int) -> Iterator[tuple[str, int, str, float | None]]:
    """The attributes that are operands in this opset; where an operator has neither, the checks say so of the attribute."""
    history = schema.history(op.name, op.domain)
    for attr in _attrs(node):
        kinds = schema.attribute_kinds(op.name, op.domain, attr.name)
        wanted = OPERANDS.get((op.name, attr.name), attr.name)
        if op.param or not any(formal.name == wanted for one in history for formal in one.inputs):
            message = f"`{attr.name}` of `{op.name}` is an operand in no opset"
            notes = ("`~` is for what was an attribute and became an operand, or the other way round",)
            helps = (f"write `{attr.name}=`",)
            raise Unfit(Diagnostic("E019", message, attr.span, "not an operand", notes, helps))
        found = schema.schema(op.name, op.domain, version)
        if found is None or attr.name in found.attributes:
            continue
        at = next((number for number, formal in enumerate(found.inputs) if formal.name == wanted), None)
        if at is not None:
            known = (one.attributes[attr.name].default for one in history if attr.name in one.attributes)
            default = next((value for value in known if isinstance(value, int | float)), None)
            yield attr.name, at, next(iter(sorted(kinds)), "ints"), default if found.inputs[at].optional else None


def _within(rule: ast.Rule, opset: ast.OpsetRange) -> ast.Rule:
    """The rule for a part of its opsets."""
    written = next((item for item in rule.meta if item.key == "opset"), None)
    item = ast.MetaItem("opset", opset, rule.code_span, rule.code_span) if written is None else replace(written, value=opset)
    meta = (*(other for other in rule.meta if other.key != "opset"), item)
    blocks = tuple(block for block in rule.rewrites if block.opset is None or _meet(block.opset, opset))
    return replace(rule, meta=meta, rewrites=blocks)


def _meet(one: ast.OpsetRange, other: ast.OpsetRange) -> bool:
    return max(one.first or 1, other.first or 1) <= min(one.last or 1 << 20, other.last or 1 << 20)


class _Writer:
    """Writes one form; `choices` are the operators and operands of each node, by its place."""

    def __init__(self, choices: Mapping[tuple[int, int], _Choice]) -> None:
        self._choices = choices
        self._captured: dict[str, ast.Let] = {}

    def rule(self, rule: ast.Rule) -> ast.Rule:
        match, rewrites = rebuild(rule.match, self._change), rebuild(rule.rewrites, self._change)
        for part in walk(match):
            if isinstance(part, ast.AttrPattern) and any(
                isinstance(inner, ast.Name) and inner.id in self._captured for inner in walk(part)
            ):
                message = "what is an operand in some opsets cannot be compared with an attribute in the pattern"
                helps = ("give the two different names, and compare them in a `where` line",)
                raise Unfit(Diagnostic("E019", message, part.span, "known only when all nodes are found", (), helps))
        return replace(rule, match=match, rewrites=rewrites, lets=(*self._captured.values(), *rule.lets))

    def _change(self, part: Any) -> Any:
        if not _attrs(part):
            return part
        choice = self._choices[_place(part)]
        operands = {name: (at, kind, default) for name, at, kind, default in choice.operands}
        plain = [attr for attr in part.attrs if not _is_either(attr) or attr.name not in operands]
        if isinstance(part, ast.Build):
            plain = [replace(attr, either=False) if isinstance(attr, ast.AttrSet) else attr for attr in plain]
            return replace(part, attrs=tuple(plain), inputs=self._inputs(part, operands))
        plain = [replace(attr, mode="equals") if attr.mode == "either" else attr for attr in plain]
        ops = tuple(op for op in part.ops if op in choice.ops)
        return replace(part, ops=ops, attrs=tuple(plain), inputs=self._inputs(part, operands))

    def _inputs(self, part: Any, operands: Mapping[str, tuple[int, str, float | None]]) -> tuple[Any, ...]:
        inputs: list[Any] = list(part.inputs)
        attrs = {attr.name: attr for attr in _attrs(part) if _is_either(attr)}
        for name, (at, kind, default) in sorted(operands.items(), key=lambda item: item[1][0]):
            attr = attrs[name]
            runs = any(isinstance(one, ast.Variadic) or (isinstance(one, ast.Ref) and one.spread) for one in inputs)
            if len(inputs) > at or runs:
                message = f"the operand {at} that `{name}` is in some opsets is written, too"
                raise Unfit(Diagnostic("E019", message, attr.span, "twice", (), (f"leave out operand {at}",)))
            inputs += self._between(part, name, range(len(inputs), at))
            inputs.append(self._constant(attr, kind) if isinstance(attr, ast.AttrSet) else self._operand(attr, kind, default))
        return tuple(inputs)

    @staticmethod
    def _between(part: Any, name: str, positions: Sequence[int]) -> list[Any]:
        """Operands that are not written and stand before the one that is."""
        if isinstance(part, ast.Build):
            return [ast.Absent(part.span) for _ in positions]
        return [ast.Capture(f"_{name}{part.span.start}~{at}", optional=True, span=part.span) for at in positions]

    @staticmethod
    def _constant(attr: ast.AttrSet, kind: str) -> ast.Constant:
        value = ast.ListOf((attr.value,), attr.value.span) if kind == "int" else attr.value
        return ast.Constant(value, "int64" if kind in ("int", "ints") else None, span=attr.span)

    def _operand(self, attr: ast.AttrPattern, kind: str, default: float | None) -> ast.Operand:
        value = attr.value
        assert value is not None
        if not isinstance(value, ast.Name) or value.id in DTYPES:
            return ast.ConstPattern(value, span=attr.span)
        name = f"{value.id}~"
        held: ast.Expr = ast.Name(name, value.span)
        if default is not None:
            held = ast.Call("default", (held, ast.Literal(default, value.span)), value.span, value.span)
        call = ast.Call(_AS.get(kind, "to_list"), (held,), value.span, value.span)
        self._captured[value.id] = ast.Let(value.id, call, attr.span)
        return ast.Capture(name, const=True, optional=default is not None, span=attr.span)
