"""A rule as it is written becomes the rule that is checked and run: without defines and attributes that may be operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import bound, depth, rebuild, size, walk
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.expand.variants import ASSOCIATIVE, MAX_VARIANTS, Variant, count, is_false, left_of, variants
from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.header import read_header
from rewriter.core.language.schema import DTYPES
from rewriter.core.language.syntax.words import MAX_DEPTH
from rewriter.core.record import names, record, replace

# `define name(a, b) = ...`: its calls are replaced by its body, so that only the parser knows defines.
#
# The body gets the place of the call, since a message should point there. The arguments keep their own places.

MAX_DEFINED = 2000
"""Records of a define with all that it calls, and of an expression in which defines are called."""

Defines = Mapping[str, ast.Define]


class TooLong(Exception):
    """An expression grows too large, or nests too deep, when its defines are written out."""


def settled(own: Iterable[ast.Define], shared: Defines) -> tuple[dict[str, ast.Define], list[Diagnostic]]:
    """The defines of a file and those that it shares with others, each with its own calls written out; the errors."""
    found: list[Diagnostic] = []
    known = dict(shared)
    waiting: dict[str, ast.Define] = {}
    for define in own:
        problem = _taken(define)
        if problem is not None:
            found.append(problem)
        else:
            waiting[define.name] = define
            known.pop(define.name, None)
    missing = {name: _calls(define.body) & waiting.keys() for name, define in waiting.items()}
    callers: dict[str, list[str]] = {}
    for name, calls in missing.items():
        for called in calls:
            callers.setdefault(called, []).append(name)
    free = [name for name, calls in missing.items() if not calls]
    while free:
        name = free.pop()
        define = waiting.pop(name)
        try:
            known[name] = replace(define, body=_apart(written_out(define.body, known), name))
        except TooLong:
            found.append(too_long(define.name_span))
        for caller in callers.get(name, ()):
            missing[caller].remove(name)
            if not missing[caller]:
                free.append(caller)
    found += [_circle(define) for define in waiting.values()]
    known |= {name: replace(define, body=ast.Literal(True)) for name, define in waiting.items()}  # no further complaints
    return known, found


def written_out(part: Any, defines: Defines) -> Any:
    """An expression, or anything that holds some, without calls of defines. Raises TooLong."""

    def change(node: Any) -> Any:
        if not isinstance(node, ast.Call) or node.function not in defines:
            return node
        define = defines[node.function]
        if len(node.args) != len(define.params):
            return node  # the checks report the error
        args = dict(zip(define.params, node.args, strict=True))
        uses = sum(size(args[one.id]) for one in walk(define.body) if isinstance(one, ast.Name) and one.id in args)
        if size(define.body) + uses > MAX_DEFINED:
            raise TooLong
        return rebuild(_at(define.body, node.span), lambda one: args.get(one.id, one) if isinstance(one, ast.Name) else one)

    result = rebuild(part, change)
    if result is not part and (depth(result) > MAX_DEPTH or size(result) > 4 * MAX_DEFINED):
        raise TooLong
    return result


def too_long(span: ast.Span) -> Diagnostic:
    helps = ("name a part of it with `let`",)
    message = "with its defines written out this is too long, or nests too deep"
    return Diagnostic("E003", message, span, "too much", (f"at most {MAX_DEFINED:,} terms and {MAX_DEPTH} levels",), helps)


def _at(body: Any, span: ast.Span) -> Any:
    """The same expression, with one place for all its parts."""

    def change(node: Any) -> Any:
        return replace(node, **{name: span for name in names(node.__class__) or () if name.endswith("span")})

    return rebuild(body, change)


def _apart(body: ast.Expr, name: str) -> ast.Expr:
    """Items of `any x in xs` get names that no rule can use, since arguments may contain the same names."""
    bound = {one.name for one in walk(body) if isinstance(one, ast.Quantified) and "." not in one.name}

    def change(node: Any) -> Any:
        if isinstance(node, ast.Name) and node.id in bound:
            return replace(node, id=f"{name}.{node.id}")
        if isinstance(node, ast.Quantified) and node.name in bound:
            return replace(node, name=f"{name}.{node.name}")
        return node

    return rebuild(body, change) if bound else body


def _calls(body: ast.Expr) -> set[str]:
    return {one.function for one in walk(body) if isinstance(one, ast.Call)}


def _taken(define: ast.Define) -> Diagnostic | None:
    message = ""
    if define.name in FUNCTIONS:
        message = f"`{define.name}` is a function of the language"
    elif len(set(define.params)) < len(define.params):
        message = f"two parameters of `{define.name}` have one name"
    elif define.name == "_" or "_" in define.params:
        message = "`_` means anything, and is no name"
    return Diagnostic("E018", message, define.name_span, "cannot be defined") if message else None


def _circle(define: ast.Define) -> Diagnostic:
    message = f"`{define.name}` calls itself, directly or through other defines"
    return Diagnostic("E018", message, define.name_span, "without end", (), ("a define is written out where it is called",))


# `ReduceMean<axes~a>(x)`: an attribute, or the constant operand that later opsets have in its place.
#
# A rule with such a form becomes one for each range of opsets in which all its operators keep to one of the two.

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
    """Name of the attribute, position of the operand, kind of the attribute, its default if the operand may be absent."""


Form = tuple[_Choice, ...]


class Unfit(Exception):
    """A form that cannot be written as an operand, and the reason."""

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


def with_operands(part: Any, version: int) -> tuple[Any, set[str]]:
    """A rewrite of older opsets as it is in this one, and the attributes that are operands there. Raises Unfit."""

    def marked(one: Any) -> Any:
        if (
            not isinstance(one, ast.Build)
            or one.op.param
            or (found := schema.schema(one.op.name, one.op.domain, version)) is None
        ):
            return one
        formals = {formal.name for formal in found.inputs}
        became = {attr.name for attr in one.attrs if isinstance(attr, ast.AttrSet) and attr.name not in found.attributes}
        became = {name for name in became if OPERANDS.get((one.op.name, name), name) in formals}
        attrs = (replace(a, either=True) if isinstance(a, ast.AttrSet) and a.name in became else a for a in one.attrs)
        return replace(one, attrs=tuple(attrs))

    whole = rebuild(part, marked)
    nodes = [one for one in walk(whole) if _attrs(one)]
    writer = _Writer({_place(node): _forms(node, version)[0] for node in nodes})
    return rebuild(whole, writer.change), {attr.name for node in nodes for attr in _attrs(node)}


def _is_either(part: Any) -> bool:
    return (isinstance(part, ast.AttrPattern) and part.mode == "either") or (isinstance(part, ast.AttrSet) and part.either)


def _attrs(part: Any) -> list[ast.AttrPattern | ast.AttrSet]:
    if isinstance(part, ast.NodePattern):
        return [attr for attr in part.attrs if attr.mode == "either"]
    return [attr for attr in part.attrs if isinstance(attr, ast.AttrSet) and attr.either] if isinstance(part, ast.Build) else []


def _place(node: ast.NodePattern | ast.Build) -> tuple[int, int]:
    """An identity for a node of one rule that stays the same when its operands are changed."""
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
    """The attributes that are operands in this opset. If an operator has neither, the checks report the attribute."""
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
        match, rewrites = rebuild(rule.match, self.change), rebuild(rule.rewrites, self.change)
        for part in walk(match):
            if isinstance(part, ast.AttrPattern) and any(
                isinstance(inner, ast.Name) and inner.id in self._captured for inner in walk(part)
            ):
                message = "what is an operand in some opsets cannot be compared with an attribute in the pattern"
                helps = ("give the two different names, and compare them in a `where` line",)
                raise Unfit(Diagnostic("E019", message, part.span, "known only when all nodes are found", (), helps))
        return replace(rule, match=match, rewrites=rewrites, lets=(*self._captured.values(), *rule.lets))

    def change(self, part: Any) -> Any:
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
                message = f"operand {at}, which `{name}` is in some opsets, is also written"
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
        expression: ast.Expr = ast.Name(name, value.span)
        if default is not None:
            expression = ast.Call("default", (expression, ast.Literal(default, value.span)), value.span, value.span)
        call = ast.Call(_AS.get(kind, "to_list"), (expression,), value.span, value.span)
        self._captured[value.id] = ast.Let(value.id, call, attr.span)
        return ast.Capture(name, const=True, optional=default is not None, span=attr.span)


def plain(rule: ast.Rule, defines: Defines, *, choices: bool) -> tuple[ast.Rule | None, list[Diagnostic]]:
    """The rule in plain forms, or its errors. `choices` is true if its pattern may have choices."""
    called = {part.function for part in walk(_said(rule)) if isinstance(part, ast.Call)} & defines.keys()
    if called:
        rule, found = _written_out(rule, defines)
        if found:
            return None, found
    if not choices:
        return rule, []
    problems = list(_problems(rule))
    if problems:
        return None, problems
    try:
        left = (_left(rule, variant) for variant in variants(rule.match))
        forms = [form for one in left if one is not None for form in _split(one)]
    except Unfit as unfit:
        return None, [unfit.found]
    if not forms:
        message = "the conditions of this rule exclude every form of its pattern"
        return None, [Diagnostic("E019", message, rule.match.span, "none is left")]
    if len(forms) > MAX_VARIANTS:
        return None, [_too_many(rule, len(forms))]
    if len(forms) == 1:
        return forms[0], []
    return replace(forms[0], meta=rule.meta, variants=tuple(replace(form, doc=(), tests=()) for form in forms)), []


def _said(rule: ast.Rule) -> tuple[Any, ...]:
    return rule.match, *rule.wheres, *rule.lets, *rule.rewrites


def _written_out(rule: ast.Rule, defines: Defines) -> tuple[ast.Rule, list[Diagnostic]]:
    """The rule without calls of defines; each part by itself, so that one that grows too large is named."""
    found: list[Diagnostic] = []

    def each(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(one, parts))

    def one(part: Any) -> Any:
        try:
            return written_out(part, defines)
        except TooLong:
            found.append(too_long(part.span))
            return part

    match, wheres, lets, rewrites = one(rule.match), each(rule.wheres), each(rule.lets), each(rule.rewrites)
    return replace(rule, match=match, wheres=wheres, lets=lets, rewrites=rewrites), found


# --- Variants --------------------------------------------------------------------------------------------------------------


def _left(rule: ast.Rule, variant: Variant) -> ast.Rule | None:
    """The rule with one of its patterns; None if its conditions exclude that pattern."""
    match = replace(rule.match, nodes=variant.nodes)
    same = {name: operand.name for name, operand in variant.same}
    missing = bound(rule.match) - bound(match) - same.keys() - {param.name for param in rule.params}
    wheres = left_of(rule.wheres, missing, same)
    if any(is_false(where.condition) for where in wheres):
        return None
    rewrites = tuple(left_of(block, missing, same) for block in rule.rewrites)
    lets = _needed(left_of(rule.lets, missing, same), rule.lets, (*wheres, *rewrites, match))
    return replace(
        rule, match=match, wheres=wheres, lets=lets, rewrites=rewrites, privates=left_of(rule.privates, missing, same)
    )


def _needed(lets: tuple[ast.Let, ...], written: tuple[ast.Let, ...], others: tuple[Any, ...]) -> tuple[ast.Let, ...]:
    """The values without the unused ones that refer to missing parts."""
    kept = list(lets)
    for let, old in reversed(list(zip(lets, written, strict=True))):
        used_names = {
            part.id for part in walk((*others, *(one for one in kept if one is not let))) if isinstance(part, ast.Name)
        }
        if let is not old and let.name not in used_names:
            kept.remove(let)
    return tuple(kept)


def _split(rule: ast.Rule) -> list[ast.Rule]:
    return split(rule) if has_either(rule) else [rule]


# --- What cannot be expanded -----------------------------------------------------------------------------------------------


def _problems(rule: ast.Rule) -> Iterator[Diagnostic]:
    for node in walk(rule.match):
        if isinstance(node, ast.NodePattern):
            if node.maybe:
                yield from _maybe(node)
            if node.chain:
                yield from _chain(node)
            if node.others and node.maybe and any(one.maybe for one in node.others):
                yield Diagnostic("E019", "two alternatives of one line may be absent", node.span, "which operand is it then?")
    many = count(rule.match)
    if many > MAX_VARIANTS:
        yield _too_many(rule, many)


def _too_many(rule: ast.Rule, many: int) -> Diagnostic:
    shown = f"{many:,}" if many < 1 << 20 else "more than a million"
    message = f"this pattern means {shown} patterns; at most {MAX_VARIANTS} are tried"
    helps = ("make two rules of it, or leave out a choice",)
    notes = ("each `maybe` doubles them; a chain `Mul*` of 2, 3, 4, 5 operands has 1, 3, 15, 105 groupings",)
    return Diagnostic("E003", message, rule.match.span, "too many choices", notes, helps)


def _maybe(node: ast.NodePattern) -> Iterator[Diagnostic]:
    """Its first operand must be able to stand for the node."""
    first = node.inputs[0] if node.inputs else None
    word = ast.Span(node.span.start, node.ops_span.start)
    if first is None or isinstance(first, ast.Variadic) or (isinstance(first, ast.Capture) and first.optional):
        message = "if this node is missing, its first operand replaces it, but no operand is always present"
        yield Diagnostic("E019", message, word, "what else?", (), ("name the first operand: maybe Cast(x)",))
    elif node.outputs and not isinstance(first, ast.Capture | ast.NodePattern):
        message = "if this node is missing, its first operand replaces its output, and needs a name"
        yield Diagnostic("E019", message, word, "what else?", (), ("name the first operand: y = maybe Cast(x)",))
    elif node.more_outputs or len(node.outputs) > 1 or (node.outputs and node.outputs[0].name is None):
        message = "a node that may be absent has one output, which has a name"
        where = node.outputs[0].span if node.outputs else word
        yield Diagnostic("E019", message, where, "not one tensor", (), ("write y = maybe Cast(x)",))


def _chain(node: ast.NodePattern) -> Iterator[Diagnostic]:
    op = node.ops[0]
    plain_operands = all(
        not isinstance(one, ast.Variadic) and not (isinstance(one, ast.Capture) and one.optional) for one in node.inputs
    )
    if len(node.ops) > 1 or op.param or op.domain or op.name not in ASSOCIATIVE:
        notes = (f"these can: {', '.join(sorted(ASSOCIATIVE))}",)
        message = f"a chain of `{op.name}` cannot be grouped in any order"
        message = message if len(node.ops) == 1 else "a chain is of one operator"
        yield Diagnostic("E019", message, node.ops_span, "not associative and commutative", notes, ("leave out the `*`",))
    elif node.ordered or node.attrs or node.more_inputs or not plain_operands or len(node.inputs) < 2:
        message = f"the operands of a chain `{op.name}*` are two or more, each of them there, in any order"
        yield Diagnostic("E019", message, node.ops_span, "not a chain", (), (f"write {op.name}*(a, b, c)",))
