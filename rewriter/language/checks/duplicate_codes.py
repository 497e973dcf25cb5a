"""Codes across files: each belongs to one rule, and what `before` says of them makes sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rewriter.language.checks.header import CODE
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
        item = next((item for item in rule.ast.meta if item.key == "before"), None)
        for code in rule.before if item is not None else ():
            assert item is not None
            if code not in first and CODE.fullmatch(code):
                near = suggest(code, first)
                helps = (f"did you mean `{near}`?",) if near else ()
                message = f"`before: {code}` names no rule that is loaded"
                yield Diagnostic("W402", message, item.value_span, "without effect", (), helps, rule.path)
            elif (circle := _circle(rule.code, code, first)) is not None and rule.code == min(circle):
                message = f"`before` goes round in a circle: {' before '.join(circle)}"
                yield Diagnostic("E403", message, item.value_span, "who is first?", path=rule.path)


def _circle(start: str, following: str, rules: Mapping[str, Rule]) -> list[str] | None:
    """A way along `before` from `following` back to `start`, as codes from start to start."""
    ways = [[start, following]]
    seen = {following}
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        for code in rules[way[-1]].before if way[-1] in rules else ():
            if code not in seen:
                seen.add(code)
                ways.append([*way, code])
    return None
