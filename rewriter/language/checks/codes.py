"""Codes of rules that are loaded together, whichever files they are in.

This is asked at every start, of kept rules too: what is kept of some files holds whatever others they are loaded with. So trees
are looked at only where something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rewriter.language.ast import Span
from rewriter.language.diagnostics import Diagnostic, suggest
from rewriter.language.rule import Rule


def check_codes(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Codes are unique across files; `before` names rules and does not go round in circles."""
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.code, rule)
        if other.path != rule.path:
            line, _ = other.source.line_col(other.ast.code_span.start)
            notes = (f"the other one is `{other.slug}` at {other.path}:{line}",)
            yield Diagnostic("E401", f"two rules have the code {rule.code}", rule.ast.code_span, "again", notes, path=rule.path)
    for rule in rules:
        for code in rule.header.replaces:
            if code in first:
                message = f"{rule.code} replaces {code}, and there is a rule of this code"
                yield Diagnostic("E401", message, _value_span(rule, "replaces"), "still there", path=rule.path)
    for rule in rules:
        for code in rule.before:
            if code not in first:
                yield from _unknown(rule, code, first)
            elif (circle := _circle(rule.code, code, first)) is not None and rule.code == min(circle):
                message = f"`before` goes round in a circle: {' before '.join(circle)}"
                yield Diagnostic("E403", message, _value_span(rule, "before"), "who is first?", path=rule.path)


def _unknown(rule: Rule, code: str, known: Iterable[str]) -> Iterator[Diagnostic]:
    from rewriter.language.checks.header import CODE

    if CODE.fullmatch(code):
        near = suggest(code, known)
        helps = (f"did you mean `{near}`?",) if near else ()
        message = f"`before: {code}` names no rule that is loaded"
        yield Diagnostic("W402", message, _value_span(rule, "before"), "without effect", (), helps, rule.path)


def _value_span(rule: Rule, key: str) -> Span:
    return next(item.value_span for item in rule.ast.meta if item.key == key)


def _circle(start: str, following: str, rules: Mapping[str, Rule]) -> list[str] | None:
    """A path along `before` from `following` back to `start`, as codes from start to start."""
    paths = [[start, following]]
    seen = {following}
    while paths:
        path = paths.pop()
        if path[-1] == start:
            return path
        for code in rules[path[-1]].before if path[-1] in rules else ():
            if code not in seen:
                seen.add(code)
                paths.append([*path, code])
    return None
