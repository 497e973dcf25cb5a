"""From lark's tree to the expressions of `ast`: the half of the conversion that `where`, `let`, attributes and constants
share.

The tree is known to be at most `MAX_DEPTH` levels deep when it comes here, so plain recursion is safe. Nothing is raised for
a bad rule: what the grammar lets through and the language does not allow becomes a diagnostic, and the conversion goes on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from rewriter.language import ast
from rewriter.language.ast import Expr, Span
from rewriter.language.diagnostics import Diagnostic
from rewriter.language.syntax.syntax_limits import MAX_INT, MAX_STRING_LENGTH, MIN_INT
from rewriter.language.syntax.words import NUMBERS, reserved

Part = Any
"""A `Node` or token, or None for an optional part that is missing; only the grammar knows which child is which."""

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/"}
_MAX_DIGITS = 20


class ExpressionBuilder:
    """Converts the expressions of one rule; `base` is the offset of the rule's text in its file.

    `place` says where the text of a row was written that a table was filled into. `calls` are the functions that it calls.
    """

    def __init__(self, base: int, path: str, place: Callable[[Span], Span] | None = None) -> None:
        self.base = base
        self.path = path
        self.place = place
        self.problems: list[Diagnostic] = []
        self.calls: set[str] = set()
        self._expressions: dict[str, Callable[[Part], Expr]] = {
            "name": self._name,
            "dtype": lambda t: ast.Name(str(t.children[0]), self.span(t)),
            "column": lambda t: ast.Name(str(t.children[0]), self.span(t)),
            "integer": self._integer,
            "real": self._real,
            "string": lambda t: ast.Literal(self.string(t.children[0]), self.span(t)),
            "true": lambda t: ast.Literal(True, self.span(t)),
            "false": lambda t: ast.Literal(False, self.span(t)),
            "none": lambda t: ast.Literal(None, self.span(t)),
            "list": lambda t: ast.ListOf(self.exprs(t.children), self.span(t)),
            "call": self._call,
            "get_field": lambda t: ast.Field(self.expr(t.children[0]), str(t.children[1]), self.span(t)),
            "get_index": lambda t: ast.Index(self.expr(t.children[0]), self.expr(t.children[1]), self.span(t)),
            "slice_from": lambda t: ast.Range(self.expr(t.children[0]), None, self.span(t)),
            "slice_to": lambda t: ast.Range(None, self.expr(t.children[0]), self.span(t)),
            "slice_both": lambda t: ast.Range(self.expr(t.children[0]), self.expr(t.children[1]), self.span(t)),
            "binary": self._binary,
            "negative": self._negative,
            "comparison": lambda t: self._compare(t, str(t.children[1]), 2),
            "contained": lambda t: self._compare(t, "in", 1),
            "not_contained": lambda t: self._compare(t, "not in", 1),
            "less": lambda t: self._compare(t, "<", 1),
            "greater": lambda t: self._compare(t, ">", 1),
            "negation": lambda t: ast.Unary("not", self.expr(t.children[0]), self.span(t)),
            "conjunction": lambda t: ast.Logic("and", self.exprs(t.children), self.span(t)),
            "disjunction": lambda t: ast.Logic("or", self.exprs(t.children), self.span(t)),
            "choice": self._choice,
            "quantified": self._quantified,
        }

    def problem(self, code: str, message: str, span: Span, label: str = "", helps: tuple[str, ...] = ()) -> None:
        self.problems.append(Diagnostic(code, message, span, label, (), helps, self.path))

    def span(self, part: Part) -> Span:
        """Where a tree or token stands in the file."""
        span = Span(self.base + part.start_pos, self.base + part.end_pos)
        return span if self.place is None else self.place(span)

    def new_name(self, token: Part) -> str:
        """A name that the rule gives; words of the language are refused."""
        why = reserved(token)
        if why:
            helps = (f"choose another name, for instance `{token}_`",) if token != "_" else ()
            self.problem("E008", f"`{token}` {why} and cannot be used as a name", self.span(token), "not a name", helps)
        return str(token)

    def expr(self, tree: Part) -> Expr:
        return self._expressions[tree.data](tree)

    def exprs(self, trees: Iterable[Part]) -> tuple[Expr, ...]:
        return tuple(self.expr(tree) for tree in trees if tree is not None)

    def integer(self, token: Part) -> int:
        """A whole number without its sign; too large a one is told and taken as 0."""
        if token.type == "COLUMN":
            return 0  # each row has its own
        value = int(token) if len(token) <= _MAX_DIGITS else MAX_INT + 1
        if value > MAX_INT:
            self.problem("E010", "this number does not fit in 64 bits", self.span(token), f"at most {MAX_INT}")
            return 0
        return value

    def real(self, token: Part) -> float:
        value = float(token)
        if math.isinf(value):
            self.problem("E010", "this number is too large for a float", self.span(token))
            return 0.0
        return value

    def string(self, token: Part) -> str:
        """The text that a string literal stands for."""
        if len(token) > MAX_STRING_LENGTH:
            self.problem("E003", f"this string is longer than {MAX_STRING_LENGTH:,} characters", self.span(token))
            return ""
        text = str(token[1:-1])
        return _ESCAPE.sub(lambda m: self._escape(token, m), text) if "\\" in text else text

    def _escape(self, token: Part, escape: re.Match[str]) -> str:
        letter = escape[1]
        if len(letter) > 1 and not 0xD800 <= int(letter[1:], 16) <= 0xDFFF:
            return chr(int(letter[1:], 16))
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        start = self.span(token).start + 1 + escape.start()
        where = Span(start, start + len(escape[0]))
        helps = (r"known are \n, \t, \r, \", \\ and \uXXXX; write `\\` for a backslash",)
        self.problem("E010", f"`{escape[0]}` is no escape sequence", where, "in this string", helps)
        return ""

    def _name(self, tree: Part) -> Expr:
        word = str(tree.children[0])
        return ast.Literal(NUMBERS[word], self.span(tree)) if word in NUMBERS else ast.Name(word, self.span(tree))

    def _integer(self, tree: Part) -> Expr:
        return ast.Literal(self.integer(tree.children[0]), self.span(tree))

    def _real(self, tree: Part) -> Expr:
        return ast.Literal(self.real(tree.children[0]), self.span(tree))

    def _negative(self, tree: Part) -> Expr:
        """`-1` is a literal; every other minus is an operation."""
        span = self.span(tree)
        operand = self.expr(tree.children[0])
        if not isinstance(operand, ast.Literal) or isinstance(operand.value, (bool, str, type(None))):
            return ast.Unary("-", operand, span)
        if isinstance(operand.value, int) and -operand.value < MIN_INT:
            self.problem("E010", "this number does not fit in 64 bits", span, f"at least {MIN_INT}")
            return ast.Literal(0, span)
        return ast.Literal(-operand.value, span)

    def _binary(self, tree: Part) -> Expr:
        left, op, right = tree.children
        sign: Any = str(op)
        return ast.Binary(sign, self.expr(left), self.expr(right), self.span(tree))

    def _compare(self, tree: Part, op: Any, right: int) -> Expr:
        return ast.Compare(op, self.expr(tree.children[0]), self.expr(tree.children[right]), self.span(tree))

    def _choice(self, tree: Part) -> Expr:
        then, test, other = self.exprs(tree.children)
        return ast.Choice(then, test, other, self.span(tree))

    def _quantified(self, tree: Part) -> Expr:
        word, name, over, condition = tree.children
        quantifier: Any = str(word)
        items, test = self.expr(over), self.expr(condition)
        return ast.Quantified(quantifier, self.new_name(name), items, test, self.span(tree), self.span(name))

    def _call(self, tree: Part) -> Expr:
        name = tree.children[0]
        self.calls.add(str(name))
        return ast.Call(str(name), self.exprs(tree.children[1:]), self.span(tree), self.span(name))
