"""Defines: what is wrong in one that no rule calls, and what a message about a call needs to say of it."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext
from rewriter.language.checks.expressions import Types
from rewriter.language.checks.scope import Binding, NameScope
from rewriter.language.diagnostics import Diagnostic
from rewriter.record import replace


def check_defines(rule_file: ast.RuleFile) -> list[Diagnostic]:
    """What is wrong in the defines of a file, whatever they are called with."""
    found: list[Diagnostic] = []
    known: set[str] = set()
    for define in rule_file.defines:
        context = CheckContext(ast.Rule("", "", (), (), ast.Match(), ()), rule_file)
        if define.name in known:
            context.report("E018", f"`{define.name}` is defined twice in this file", define.name_span, "cannot be defined")
        known.add(define.name)
        scope = NameScope(context)
        for param in define.params:
            scope.define(Binding(param, "param", "any", context.narrow(define.span, param)))
        Types(context, scope).of(define.body)
        for bound in scope.names.values():
            if not bound.uses and not bound.name.startswith("_"):
                helps = (f"leave it out, or call it `_{bound.name}`",)
                context.report("W202", f"the parameter `{bound.name}` is never used", bound.span, "in vain", helps=helps)
        found += context.found
    return found


def explained(found: Iterable[Diagnostic], rule_file: ast.RuleFile) -> list[Diagnostic]:
    """The findings, those at the call of a define with what it stands for."""
    texts = {define.name: define.text for define in (*rule_file.shared, *rule_file.defines)}
    if not texts:
        return list(found)
    return [_with_text(one, texts, rule_file.text) for one in found]


def _with_text(one: Diagnostic, texts: dict[str, str], text: str) -> Diagnostic:
    told = texts.get(text[one.span.start : one.span.end].partition("(")[0].strip())
    return one if told is None or told in one.notes else replace(one, notes=(*one.notes, told))
