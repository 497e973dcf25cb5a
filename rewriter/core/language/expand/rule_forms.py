"""A rule as it is written becomes the rule that is checked and run: without defines, and with a pattern for each choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.expand.define_calls import Defines, TooLong, too_long, written_out
from rewriter.core.language.expand.either_forms import Unfit, has_either, split
from rewriter.core.language.expand.variants import ASSOCIATIVE, MAX_VARIANTS, Variant, bound, count, is_false, left_of, variants
from rewriter.core.language.walk import walk
from rewriter.core.record import replace


def plain(rule: ast.Rule, defines: Defines, *, choices: bool) -> tuple[ast.Rule | None, list[Diagnostic]]:
    """The rule in plain forms, or what is wrong with it; `choices` says whether its pattern may have any."""
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
    """The rule with one of its patterns; None where its conditions exclude that one."""
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
    """Without values that ask for what is not there and that nothing else asks for, either."""
    kept = list(lets)
    for let, old in reversed(list(zip(lets, written, strict=True))):
        asked = {part.id for part in walk((*others, *(one for one in kept if one is not let))) if isinstance(part, ast.Name)}
        if let is not old and let.name not in asked:
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
    message = f"this pattern stands for {shown} patterns; at most {MAX_VARIANTS} are tried"
    helps = ("make two rules of it, or leave out a choice",)
    notes = ("each `maybe` doubles them; a chain `Mul*` of 2, 3, 4, 5 operands has 1, 3, 15, 105 groupings",)
    return Diagnostic("E003", message, rule.match.span, "too many choices", notes, helps)


def _maybe(node: ast.NodePattern) -> Iterator[Diagnostic]:
    """Its first operand must be able to stand for the node."""
    first = node.inputs[0] if node.inputs else None
    word = ast.Span(node.span.start, node.ops_span.start)
    if first is None or isinstance(first, ast.Variadic) or (isinstance(first, ast.Capture) and first.optional):
        message = "where this node is not there, its first operand stands for it, and it has none that is always there"
        yield Diagnostic("E019", message, word, "what else?", (), ("name the first operand: maybe Cast(x)",))
    elif node.outputs and not isinstance(first, ast.Capture | ast.NodePattern):
        message = "where this node is not there, its first operand stands for its output, and needs a name"
        yield Diagnostic("E019", message, word, "what else?", (), ("name the first operand: y = maybe Cast(x)",))
    elif node.outputs and (len(node.outputs) > 1 or node.more_outputs or node.outputs[0].name is None):
        message = "a node that may be absent has one output, which has a name"
        yield Diagnostic("E019", message, node.outputs[0].span, "not one tensor", (), ("write y = maybe Cast(x)",))


def _chain(node: ast.NodePattern) -> Iterator[Diagnostic]:
    op = node.ops[0]
    plain_operands = all(
        not isinstance(one, ast.Variadic) and not (isinstance(one, ast.Capture) and one.optional) for one in node.inputs
    )
    if len(node.ops) > 1 or op.param or op.domain or op.name not in ASSOCIATIVE:
        notes = (f"these can: {', '.join(sorted(ASSOCIATIVE))}",)
        message = f"a chain of `{op.name}` cannot be grouped as one likes"
        message = message if len(node.ops) == 1 else "a chain is of one operator"
        yield Diagnostic("E019", message, node.ops_span, "not associative and commutative", notes, ("leave out the `*`",))
    elif node.ordered or node.attrs or node.more_inputs or not plain_operands or len(node.inputs) < 2:
        message = f"the operands of a chain `{op.name}*` are two or more, each of them there, in any order"
        yield Diagnostic("E019", message, node.ops_span, "not a chain", (), (f"write {op.name}*(a, b, c)",))
