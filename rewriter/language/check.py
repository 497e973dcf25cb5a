"""The compiler's front door: everything that can be known to be wrong with a rule file before a model is seen.

A rule is checked in the order in which it is read: header, parameters, pattern, conditions, rewrites, tests. Each check
reports all that it finds and goes on, so one run shows every error of a file.
"""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext
from rewriter.language.checks.evidence import check_evidence
from rewriter.language.checks.expressions import Types
from rewriter.language.checks.header import bind_params, check_header, check_settings
from rewriter.language.checks.names import Pattern, check_shape_of_pattern, unused
from rewriter.language.checks.operators import check_pattern_node, check_reach
from rewriter.language.checks.rewrites import BlockCheck, check_blocks
from rewriter.language.checks.scope import KIND_WORDS, Binding, NameScope
from rewriter.language.checks.sizes import check_sizes
from rewriter.language.checks.source import check_source
from rewriter.language.diagnostics import Diagnostic
from rewriter.language.walk import pattern_nodes


def check(rule_file: ast.RuleFile) -> list[Diagnostic]:
    """Everything wrong or doubtful in the rules of one file, in the order of its text."""
    found: list[Diagnostic] = []
    first: dict[str, ast.Rule] = {}
    for rule in rule_file.rules:
        if rule.code in first:
            message = f"two rules have the code {rule.code}"
            notes = (f"the other one is `{first[rule.code].slug}`",)
            found.append(Diagnostic("E401", message, rule.code_span, "again", notes, path=rule_file.path))
        first.setdefault(rule.code, rule)
        found.extend(check_rule(rule, rule_file))
    return sorted(found, key=lambda d: (d.span.start, d.span.end, d.code))


def check_rule(rule: ast.Rule, rule_file: ast.RuleFile) -> list[Diagnostic]:
    """Everything wrong or doubtful in one rule."""
    context = CheckContext(rule, rule_file)
    check_header(context)
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
        _check_unused(context, scope)  # an error may be why nothing uses it
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
                message = f"`private` is said of tensors that the pattern makes; `{name}` is {KIND_WORDS[found.kind]}"
                if found.kind == "tensor":
                    message = f"`private` is said of tensors that the pattern makes; `{name}` is only read by it"
                helps = (f"to limit its readers: where uses({name}) == 1",)
                context.report("E214", message, span, "not made here", helps=helps)


def _check_unused(context: CheckContext, scope: NameScope) -> None:
    for binding in unused(context, scope):
        what = KIND_WORDS[binding.kind]
        helps = (f"leave it out, or call it `_{binding.name}`",)
        if binding.kind == "node":
            helps = (f"leave out the label `[{binding.name}]`",)
        code = "W202" if binding.kind == "param" else "W201"
        span = context.narrow(binding.span, binding.name)
        context.report(code, f"`{binding.name}`, {what}, is never used", span, "bound in vain", helps=helps)
