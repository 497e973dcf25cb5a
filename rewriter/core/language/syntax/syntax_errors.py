"""Messages for syntax errors: the text that was found and the text that is possible there, in the words of rule writers.

lark knows which terminals the parser would have accepted. They are gathered into phrases ("an operator call such as
`Relu(x)`").
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from rewriter.core.language.ast import Span
from rewriter.core.language.diagnostics import Diagnostic, suggest
from rewriter.core.language.syntax.grammar import grammar
from rewriter.core.language.syntax.scan import Chunk, open_brackets
from rewriter.core.language.syntax.words import PARTS, reserved

if TYPE_CHECKING:
    from lark import Token
    from lark.exceptions import UnexpectedInput


# How to correct common syntax errors.
#
# Most of them are the syntax of another language: Python's ranges and keyword arguments, C's `&&`, a comment of JavaScript. A
# help line shows the syntax of rules instead.

_NEAR = 200
"""The number of characters before the mistake that are searched for its cause."""

_FIXED = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "'": "write texts in double quotes",
    "//": "a comment begins with `#`",
    ";": "lines need no separator",
    "is": "write `==`",
    "table": "write a table below the header, before `match`",
    "None": "write `none`",
    "\u2264": "write `<=`",
    "\u2265": "write `>=`",
    "\u2260": "write `!=`",
    **dict.fromkeys("\u201c\u201d\u201e\u2018\u2019", 'write texts in straight quotes: "reflect"'),
}

# The text before the mistake, the text that was found, a terminal that is possible there (or none), and the help.
_MISTAKES: tuple[tuple[str, str, str, str], ...] = (
    (r"\b(where|let|match|rewrite|private|param)\s*", ":", "", "a part of a rule has no colon: where rank(x) > 2"),
    (r"\[[^][]*", ":", "", "a range has two dots and includes both its ends: p[1..], p[0..2]"),
    (r"rule [^<>{]*<[^<>]*", "=", "COLON", "a key of the header has a colon: <kind: exact>"),
    (r"opset\s*:\s*", "[<>]=?", "", "a range of opsets is written `13..`, `..12` or `9..13`"),
    (r"opset\s*:\s*\d+\s*", "-", "", "a range of opsets is written `13..`, `..12` or `9..13`"),
    (r"<[^<>]*", ":", "EQUAL", "an attribute has `=`: Softmax<axis=1>(x)"),
    (r"\w<", r"\[", "", "an attribute has a name: Transpose<perm=[1, 0]>(x)"),
    (r"\blet\s+\w+\s*=", "=", "", "`=` gives a value its name: let r = rank(x)"),
    (r"\blet\s+\w+\s*", ",", "", "one `let` names one value"),
    (r"[(,]\s*\w+\s*", "=", "PLUS", "arguments have no names: sum(x, 0)"),
    (r"[(,]\s*\w+\s*", "=", "", "write attributes before the operands: Softmax<axis=1>(x)"),
    (r"\[[^][]*[\w\"]\s+", r"[\w\"].*", "", "a list has commas: perm=[1, 0]"),
    (r"[{}]\s*[\w.]+|\)\s*[\w.]+", r"\(", "EQUAL", "a node has a name for its output: y = Relu(x)"),
    (r"\breturn\s+", r"\w+", "", "a rewrite computes an output of the match: y = x"),
    (r"\b_", r"\?", "", "an operand that may be absent has a name: b?"),
    ("", "=", "COMPARE", "`==` compares"),
    ("", "==|!=|<=?|>=?|in", "AND", "comparisons do not chain; write `a < b and b < c`"),
    (r"[\w\]]\s*", ",", "SPREAD", "lines need no separator"),
    (r"[)}]\s*", ",", "SPREAD|DEL", "lines need no separator"),
    (r"\binside\s+[\w.]+\s*", ",", "", "a pattern is inside of one kind of body; without `inside`, a rule is tried in all"),
    (r"(?:[^\w\s]|\b(?:in|not|and|or))\s*\((?:[^()]|\([^()]*\))*", ",", "PLUS", "write a list in brackets: [1, 2]"),
    (r"[(,]\s*", r'[\d"-].*', "LBRACE", "write a constant in braces: Mul(x, {2.0})"),
    (r"<[^<>]*=\s*", r"\{", "FLOAT", "a value of an attribute has no braces; a tensor is made by a function: full([1], 2.0)"),
    ("", r"\{", "FLOAT", "braces are for patterns and rewrites; here, a list is [1, 2], and all(c == 1) compares a constant"),
    (r"\bconst\s*", r"\w+", "EQUAL", "a constant is written where it is used: Mul(x, {2.0})"),
    (r">\s*", ".*", "only LPAR", "`>` ends the attributes; put a comparison in parentheses: <axis=(1 if a > b else 0)>"),
    (r"\w\s*", r"\[", "_TOUCHING", "an index touches what it indexes: p[0]"),
    (
        "",
        r"\(",
        "CELL",
        "a cell in parentheses ends on its line, and they nest six deep; name a part of it by `let`, or as a node",
    ),
    (r"=\s*outline\s+[\w.]+", r"\(", "", "`outline` begins the line: outline y = acme.Swish(x)"),
    (r"\boutline\s[^=]*=\s*[\w.]+\s*", ".*", "LPAR", "`outline` makes a call: outline y = acme.Swish(x)"),
    (r"\w\.\w+", r"\(", "", "a function has no prefix: all(c == 1)"),
    (r"\b(match|rewrite)\s*", r"\(", "", "write nodes in braces: match { y = Relu(x) }"),
    (r"\brule\s+\w+\s+[\w-]+\s*", r"\{", "", "a rule has parts: match { h = Neg(x)  y = Neg(h) } rewrite { y = x }"),
    ("", r"\(", "LBRACE|WHERE", "write operator calls in `match` and `rewrite` only; conditions call functions"),
    ("", "for", "", "a condition on several is `all x in xs: dtype(x) == float`"),
    ("", r"\|", "", "alternatives have a line of their own: h = Relu(x) | Abs(x)"),
    ("", "if|when", "WHERE", "write a condition after `where`"),
    ("", "replace|becomes|then", "WHERE", "write the result after `rewrite`: rewrite { y = x }"),
    (r"\brule", r"\w+", "CODE", "a rule begins with the word `rule`: rule MX001 gemm-input-not-flattened"),
    (r"\bdefine\b.*", "match|where|let|rewrite", "", "write a `define` above a rule, not in it"),
    (r"\btest\s+", "~~~", "", 'a test has a title: test "one node less" ~~~'),
    (r"\btest\s+", "with", "", 'write `with` after the title: test "one node less" with OPT003 ~~~'),
    ("", r"\S+", "SLUG", "a rule has a code and a name: rule MX001 gemm-input-not-flattened"),
    ("", r"\S+", "CODE", "a code is capital letters and a number: MX001"),
)


def helps_for(text: str, at: int, found: str, possible: frozenset[str]) -> tuple[str, ...]:
    """How to correct the mistake `found` at an offset at which the terminals `possible` are allowed; at most one line."""
    if found in _FIXED:
        return (_FIXED[found],)
    words = {literals()[terminal] for terminal in possible if terminal in literals()}
    near = suggest(found, [word for word in words if word.isalpha()])
    if near and found.isidentifier() and found not in ("for", "if", "when"):
        return (f"did you mean `{near}`?",)
    before = text[max(0, at - _NEAR) : at]
    return tuple(
        advice
        for pattern, wrong, terminal, advice in _MISTAKES
        if _could_stand(terminal, possible) and re.fullmatch(wrong, found) and re.search(rf"(?:{pattern})\Z", before, re.DOTALL)
    )[:1]


def _could_stand(terminal: str, possible: frozenset[str]) -> bool:
    if terminal.startswith("only "):
        return possible == {terminal[5:]}
    return not terminal or any(one in possible for one in terminal.split("|"))


@cache
def literals() -> dict[str, str]:
    """The text of each terminal that has a fixed text."""
    return {terminal.name: terminal.pattern.value for terminal in grammar().terminals if terminal.pattern.type == "str"}


_FOUND = re.compile(r'\d+\.\d+|\w+|"(?:[^"\\\n]|\\.)*"?|~~~|\.{2,3}|[=!<>]=|\*\*|//|&&|\|\||.', re.DOTALL)
_OPERATORS = frozenset(
    (
        *("PLUS", "MINUS", "TIMES", "DIVIDE", "POWER", "COMPARE", "IN", "NOT", "LESSTHAN", "MORETHAN", "AND", "OR", "IF"),
        *("_TOUCHING", "DOT", "RANGE"),
    )
)
_CONTINUATIONS = frozenset(["LPAR", "LESSTHAN", "DOT", "OPTIONAL", "_TOUCHING", "RANGE", "VBAR", "TIMES", "TILDE"])
"""Terminals that can continue a name or a call. They are not listed if other terminals can follow."""

_BEFORE_NAMES = ("const", "ordered", "tensor")
_AFTER_NAMES = tuple(",)?=")
_CLOSING = {"(": ")", "[": "]", "{": "}"}

_EXPRESSION = "INT FLOAT STRING TRUE FALSE NONE NAME LPAR LSQB NOT MINUS DTYPE QUANTIFIER"
_PARTS = " ".join((*map(str.upper, PARTS), "TABLE", "$END"))
_TABLE = f"""
FLOAT NAME RANGE NOT     : {_EXPRESSION} : an expression, a range
FLOAT NAME LBRACE LPAR   : {_EXPRESSION} : an expression or a constant such as `{{0}}`
FLOAT NAME               : {_EXPRESSION} : an expression
CONST ORDERED            : NAME DTYPE TENSOR LBRACE TIMES ANY MORE LSQB LPAR COLUMN MAYBE : an operand such as `const w`
ORDERED NAME             : LPAR COLUMN MAYBE LSQB : an operator call such as `Relu(x)`
ANY LBRACE NAME COLUMN   : DTYPE TIMES LSQB : an operand such as `x` or `{{2.0}}`
COLUMN LBRACE NAME       : DTYPE : an operator call such as `Relu(x)`
DEL NAME                 : LSQB SPREAD ANY MORE INLINE MEND COLUMN EACH OUTLINE ADD_OUTPUT : a statement such as `y = Relu(x)`
SPREAD NAME LSQB         : ANY MORE : a pattern line such as `y = Relu(x)`
WHERE                    : {_PARTS} : another part of the rule such as `where`
INPUT OUTPUT             :  : `input x` or `output y`
BANG NAME                :  : an attribute such as `axis=1`
INT ANY NAME             : MORE OPTIONAL : a dimension
INT STRING NAME          : LSQB RANGE : a value
INT RANGE                :  : a range such as `13..`
INT FLOAT                :  : a number
RANGE NAME               :  : an attribute such as `axis=1` or `..node`
TENSOR NAME              : DTYPE : a name or a type such as `float[N, 3]`
"""


def _phrase(line: str) -> tuple[frozenset[str], frozenset[str], str]:
    needed, more, phrase = line.split(" : ")
    return frozenset(needed.split()), frozenset([*needed.split(), *more.split()]), phrase


_PHRASES = tuple(map(_phrase, _TABLE.strip().splitlines()))
"""Phrases for groups of terminals: if all terminals of the first group are possible, the phrase covers the second group."""

_NAMES = {
    "NAME": "a name",
    "CODE": "a code such as `MX001`",
    "CELL": "a cell such as `Relu`",
    "COLUMN": "a column such as `@from`",
    "SLUG": "a name in small letters such as `drop-dropout`",
    "STRING": "a text in double quotes",
    "INT": "a whole number",
    "FLOAT": "a number",
    "FENCE": "a text between `~~~`",
    "_TOUCHING": "`[`",
    "SPREAD": "`*`",
    "DTYPE": "an element type",
    "DOC": "`///`",
    "$END": "the end of the rule",
}


def explain(text: str, chunk: Chunk, error: UnexpectedInput) -> Diagnostic:
    """The message for the first place of a rule that the grammar does not accept."""
    at, possible, misread = _place(text[chunk.start : chunk.end], error)
    at += chunk.start
    match = _FOUND.match(text, at, chunk.end)
    found = match[0] if match else ""
    stack = open_brackets(text, chunk.start, at)
    where = Span(at, at + len(found))
    if found in _CLOSING.values() and not stack:
        return Diagnostic("E002", f"`{found}` closes no bracket", where, "no bracket is open here")
    if stack and (not found or (found in PARTS and chunk.unclosed) or _closes_another(text[stack[-1]], found)):
        return _not_closed(text, stack[-1], found)
    wanted = _wanted(possible)
    if "NAME" in possible and found.isidentifier() and reserved(found) and not misread:
        message = f"`{found}` {reserved(found)} and cannot be used as a name"
        return Diagnostic("E008", message, where, "not a name", (), (f"choose another name, for instance `{found}_`",))
    if not found:
        where = _last_word(text, chunk)
        return Diagnostic("E001", f"the rule ends too early: expected {wanted}", where, "nothing after this")
    message = f"expected {wanted}, found {_quoted(found)}"
    return Diagnostic("E001", message, where, "not expected here", (), helps_for(text, at, found, possible))


def _place(text: str, error: UnexpectedInput) -> tuple[int, frozenset[str], bool]:
    """The place where the parser had to stop, all terminals that it accepts there, and whether it misread a word.

    A word such as `where` can be read as a name. If the next token shows that it began a part, the error is at the word. The
    same is true if a word such as `const` was meant as a name.
    """
    token = getattr(error, "token", None)
    at = error.pos_in_stream
    if at is None or (token is not None and token.type == "$END"):
        at = len(text)
    last, possible = _parse_until(text, at)
    if last is not None and last.type == "NAME" and last in PARTS:
        at = last.start_pos or 0
        return at, _parse_until(text, at)[1], True
    if last is not None and last in _BEFORE_NAMES and text[at : at + 1] in _AFTER_NAMES:
        at = last.start_pos or 0
        possible = _parse_until(text, at)[1]
    return at, possible, False


def _parse_until(text: str, end: int) -> tuple[Token | None, frozenset[str]]:
    """The last token before `end`, and every terminal that can follow it."""
    from lark.exceptions import UnexpectedInput

    parser = grammar().parse_interactive(text)
    last: Token | None = None
    with suppress(UnexpectedInput):
        for token in parser.iter_parse():  # a token is fed when the next one is requested
            if (token.start_pos or 0) >= end:
                break
            last = token
    return last, frozenset(parser.accepts())  # type: ignore[no-untyped-call]


def _wanted(possible: frozenset[str]) -> str:
    """The possible terminals in words: "a, b or c"."""
    rest = set(possible - {"DOC"})
    phrases = []
    if "PLUS" in rest:
        phrases.append("an operator")
        rest -= _OPERATORS
    for needed, covered, phrase in _PHRASES:
        if needed <= rest:
            phrases.append(phrase)
            rest -= covered
    if phrases or len(rest) > 1:
        rest.discard("COLUMN")  # it can stand nearly everywhere, in a rule with a table
    rest = rest if rest <= _CONTINUATIONS and not phrases else rest - _CONTINUATIONS
    names = [_NAMES.get(terminal) or f"`{literals().get(terminal, terminal.lower())}`" for terminal in sorted(rest)]
    phrases.extend(sorted(set(names), key=lambda name: (name.startswith("`"), name)))
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"


def _not_closed(text: str, at: int, found: str) -> Diagnostic:
    before = f" before `{found}`" if found else ""
    helps = (f"a `{_CLOSING[text[at]]}` is missing",)
    return Diagnostic("E002", f"`{text[at]}` is not closed{before}", Span(at, at + 1), "opened here", (), helps)


def _closes_another(opening: str, found: str) -> bool:
    return found in _CLOSING.values() and _CLOSING[opening] != found


def _last_word(text: str, chunk: Chunk) -> Span:
    """The last line's end that holds more than a comment, for a rule that ends too early."""
    words = list(re.finditer(r"#[^\n]*|(\w+|[^\s\w])", text[chunk.start : chunk.end]))
    last = next((word for word in reversed(words) if word[1]), None)
    return Span(chunk.start + last.start(), chunk.start + last.end()) if last else Span(chunk.start, chunk.start + 1)


def _quoted(found: str) -> str:
    if found.startswith('"'):
        return "a text"
    return f"`{found}`" if len(found) <= 40 else f"`{found[:40]}...`"
