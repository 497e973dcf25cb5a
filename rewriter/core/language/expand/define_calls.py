"""`define name(a, b) = ...`: its calls are replaced by what it stands for, so that nothing behind the parser knows of it.

What a define stands for has the place of the call, which is what a message should point at; its arguments keep their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.syntax.words import MAX_DEPTH
from rewriter.core.language.walk import depth, rebuild, size, walk
from rewriter.core.record import names, replace

MAX_DEFINED = 2000
"""Records of a define with all that it calls, and of an expression in which defines are called."""

Defines = Mapping[str, ast.Define]


class TooLong(Exception):
    """An expression grows too large, or nests too deep, when its defines are written out."""


def settled(own: Iterable[ast.Define], shared: Defines) -> tuple[dict[str, ast.Define], list[Diagnostic]]:
    """The defines of a file and those that it shares with others, each with its own calls written out; what is wrong."""
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
            return node  # what is wrong with it is told by the checks
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
    """The same expression, all of which stands in one place."""

    def change(node: Any) -> Any:
        return replace(node, **{name: span for name in names(node.__class__) or () if name.endswith("span")})

    return rebuild(body, change)


def _apart(body: ast.Expr, name: str) -> ast.Expr:
    """Items of `any x in xs` get names that nobody else can give them: arguments may hold the same ones."""
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
    message = f"`{define.name}` calls itself, at once or by way of others"
    return Diagnostic("E018", message, define.name_span, "without end", (), ("a define is written out where it is called",))
