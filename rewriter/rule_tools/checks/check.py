"""The entry point of the compiler's checks: every error of a rule file that can be found before a model is seen.

A rule is checked in the order in which it is read: header, parameters, pattern, conditions, rewrites, tests. Each check
reports all its findings and continues, so one run shows every error of a file. Texts that are too long or nest too deep were
rejected before they were parsed. The sizes that only the syntax tree shows are limited here: a rule file may come from a
stranger, and neither checking nor applying it may run away.
"""

from __future__ import annotations

from itertools import groupby

from rewriter.core.language import ast
from rewriter.core.language.ast import bound, children, pattern_nodes, size
from rewriter.core.language.code_table import mentions
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.schema import DTYPES
from rewriter.core.language.syntax.expand_table import merged
from rewriter.core.record import replace
from rewriter.rule_tools.checks.context import KIND_WORDS, Binding, CheckContext, NameScope, did_you_mean
from rewriter.rule_tools.checks.evidence import asks_nothing, check_evidence, check_source, without_optional
from rewriter.rule_tools.checks.expressions import Types
from rewriter.rule_tools.checks.header import bind_params, check_defines, check_doc, check_header, check_settings, explained
from rewriter.rule_tools.checks.names import Pattern, check_shape_of_pattern, unused
from rewriter.rule_tools.checks.operators import check_pattern_node, check_reach
from rewriter.rule_tools.checks.rewrites import BlockCheck, check_blocks

MAX_NODES = 100  # of a pattern
MAX_TERMS = 5000  # of a condition, a `let` or a rewrite block
MAX_LEVELS = 190
"""Levels of a part of a rule with its `let` lines written out. The evaluator takes up to four of Python's 1,000 frames
for each; a name takes six, and counts twice.
"""


def check(rule_file: ast.RuleFile) -> list[Diagnostic]:
    """All errors and warnings for the rules of one file, in the order of its text."""
    found: list[Diagnostic] = []
    first: dict[str, ast.Rule] = {}
    for rule in rule_file.rules:
        if rule.code in first:
            message = f"two rules have the code {rule.code}"
            notes = (f"the other one is `{first[rule.code].slug}`",)
            found.append(Diagnostic("E401", message, rule.code_span, "again", notes, path=rule_file.path))
        first.setdefault(rule.code, rule)
    for place, rules in groupby(rule_file.rules, lambda rule: rule.span):
        found.extend(_check_together(list(rules), rule_file, place))
    found = [*explained(found, rule_file), *check_defines(rule_file)]
    return sorted(found, key=lambda d: (d.span.start, d.span.end, d.code))


def _check_together(rules: list[ast.Rule], rule_file: ast.RuleFile, place: ast.Span) -> list[Diagnostic]:
    """The errors of the rules in one place: one rule, or the rules of a table."""
    found = [(rule.row, diagnostic) for rule in rules for diagnostic in _check_variants(rule, rule_file)]
    of_rows = [(row, diagnostic) for row, diagnostic in found if row is not None]
    if not of_rows:
        return [diagnostic for _, diagnostic in found]
    return merged(of_rows, len(rules), mentions(rule_file.text, place.start, place.end))


def _check_variants(rule: ast.Rule, rule_file: ast.RuleFile) -> list[Diagnostic]:
    """The errors of a rule with each of its patterns: each error once, and only warnings that all patterns share."""
    if not rule.variants:
        return _check_form(rule, rule_file)
    of_each = [
        [*_check_form(replace(one, tests=rule.tests, doc=rule.doc), rule_file), *asks_nothing(one, rule_file)]
        for one in rule.variants
    ]
    every = bound(tuple(node for one in rule.variants for node in one.match.nodes))
    found: dict[tuple[str, str, ast.Span], Diagnostic] = {}
    for one, problems in zip(rule.variants, of_each, strict=True):
        missing = sorted(name for name in every - bound(one.match) if "~" not in name)
        for problem in problems:
            key = (problem.code, problem.message, problem.span)
            shared = all(any((other.code, other.message, other.span) == key for other in others) for others in of_each)
            if not shared and (problem.is_warning or key in found):
                continue
            where = f"where the pattern has no {', '.join(f'`{name}`' for name in missing)}" if missing else ""
            notes = (*problem.notes, where) if where and not shared else problem.notes
            found.setdefault(key, replace(problem, notes=notes))
    return list(found.values())


def _check_form(rule: ast.Rule, rule_file: ast.RuleFile) -> list[Diagnostic]:
    """The errors of one form of a rule: with its optional operands, and without each of them."""
    found = check_rule(rule, rule_file)
    if any(not diagnostic.is_warning for diagnostic in found):
        return found
    for name, left in without_optional(rule):
        found += asks_nothing(left, rule_file, f"present({name})")
        helps = (f"to match only nodes that have the operand: where present({name})",)
        reports = (one for one in check_rule(left, rule_file) if one.code in ("E104", "E105"))
        found += [replace(one, notes=(*one.notes, f"where `{name}` is absent"), helps=helps) for one in reports]
    return found


def check_rule(rule: ast.Rule, rule_file: ast.RuleFile) -> list[Diagnostic]:
    """All errors and warnings for one rule."""
    context = CheckContext(rule, rule_file)
    check_header(context)
    check_doc(context)
    if not check_sizes(context):
        return context.found
    scope = NameScope(context)
    bind_params(context, scope)
    _check_pattern(context, scope)
    _check_conditions(context, scope)
    _check_private(context, scope)
    check_blocks(context)
    for rewrite in rule.rewrites:
        BlockCheck(context, scope, rewrite).check()
    check_settings(context)
    check_source(context)
    check_evidence(context)
    if all(diagnostic.is_warning for diagnostic in context.found):
        _check_unused(context, scope)  # an error may be the reason why a name is not used
    return context.found


def _check_pattern(context: CheckContext, scope: NameScope) -> None:
    check_reach(context)
    for node in pattern_nodes(context.rule.match):
        check_pattern_node(context, node)
    check_shape_of_pattern(context)
    Pattern(context, scope).bind(context.rule.match)


def _check_conditions(context: CheckContext, scope: NameScope) -> None:
    """`where` and `let` lines in their order: a line sees the names of the lines above."""
    rule = context.rule
    typing = Types(context, scope)
    scope.later.update((let.name, let.span) for let in rule.lets)
    lines: list[ast.Where | ast.Let] = [*rule.wheres, *rule.lets]
    for line in sorted(lines, key=lambda line: line.span.start):
        if isinstance(line, ast.Where):
            typing.truth(line.condition, "a condition")
        else:
            kind = typing.of(line.value)
            scope.later.pop(line.name, None)
            kind = "array" if kind == "const" else kind
            scope.define(Binding(line.name, "let", kind, context.narrow(line.span, line.name)))


def _check_private(context: CheckContext, scope: NameScope) -> None:
    for private in context.rule.privates:
        for name in private.names:
            span = context.narrow(private.span, name)
            found = scope.use(name, span)
            if found is not None and not (found.kind in ("tensor", "variadic") and found.output):
                message = f"`private` is for tensors that the pattern makes; `{name}` is {KIND_WORDS[found.kind]}"
                if found.kind == "tensor":
                    message = f"`private` is for tensors that the pattern makes, and the pattern only reads `{name}`"
                helps = (f"to limit its readers: where uses({name}) == 1",)
                context.report("E214", message, span, "not made here", helps=helps)


def _check_unused(context: CheckContext, scope: NameScope) -> None:
    for binding in unused(context, scope):
        what = KIND_WORDS[binding.kind]
        helps: tuple[str, ...] = (f"leave it out, or call it `_{binding.name}`",)
        if binding.kind == "node":
            helps = (f"leave out the label `[{binding.name}]`",)
        elif binding.kind == "attribute":
            helps = did_you_mean(binding.name, DTYPES) or helps
        code = "W202" if binding.kind == "param" else "W201"
        span = context.narrow(binding.span, binding.name)
        context.report(code, f"`{binding.name}`, {what}, is never used", span, "never used", helps=helps)


def check_sizes(context: CheckContext) -> bool:
    """Reports parts that are too big; False if the rule must not be checked any further."""
    rule = context.rule
    small = True
    count = sum(1 for _ in pattern_nodes(rule.match))
    if count > MAX_NODES:
        notes = (f"at most {MAX_NODES} are matched",)
        context.report("E216", f"the pattern has {count} nodes", rule.match.span, "too many", notes)
        small = False
    parts: list[ast.Where | ast.Let | ast.Rewrite] = [*rule.wheres, *rule.lets, *rule.rewrites]
    sizes = list(map(size, parts))
    for part, terms in zip(parts, sizes, strict=True):
        if terms > MAX_TERMS:
            notes = (f"at most {MAX_TERMS} are computed",)
            context.report("E216", f"this part of the rule has {terms} terms", part.span, "too many", notes)
            small = False
    return small and (sum(sizes) <= MAX_LEVELS or _check_levels(context))


def _check_levels(context: CheckContext) -> bool:
    """Reports a part that nests too deep with its `let` lines written out, since these are evaluated inside each other."""
    rule, lets = context.rule, dict[str, int]()
    parts: list[ast.Where | ast.Let | ast.Rewrite] = [*rule.wheres, *rule.lets, *rule.rewrites]
    for part in sorted(parts, key=lambda part: part.span.start):
        levels, stack = 0, [(part, 0)]
        while stack:
            node, level = stack.pop()
            levels = max(levels, level + (lets.get(node.id, -1) + 1 if isinstance(node, ast.Name) else 0))
            stack.extend((child, level + 1) for child in children(node))
        if levels > MAX_LEVELS:
            notes = (f"at most {MAX_LEVELS} levels are computed",)
            message = f"this part of the rule nests {levels} levels deep, with the `let` lines that it uses"
            context.report("E216", message, part.span, "too deep", notes)
            return False
        if isinstance(part, ast.Let):
            lets[part.name] = levels
    return True
