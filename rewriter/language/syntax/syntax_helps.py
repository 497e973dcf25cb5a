"""How to mend text that the grammar does not accept, where the mistake is one that people make.

Most of them write what another language has: Python's ranges and keyword arguments, C's `&&`, a comment of JavaScript. A help
line says what is written here instead.
"""

from __future__ import annotations

import re
from functools import cache

from rewriter.language.diagnostics import suggest
from rewriter.language.syntax.grammar import grammar

_NEAR = 200
"""Characters before the mistake that tell what was meant."""

_FIXED = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "'": "texts stand in double quotes",
    "//": "a comment begins with `#`",
    ";": "lines need no separator",
    "is": "write `==`",
    "table": "a table stands below the header, before `match`",
    "None": "write `none`",
    **dict.fromkeys("\u201c\u201d\u201e\u2018\u2019", 'texts stand in straight quotes: "reflect"'),
}

# What stands before the mistake, what was found, a terminal that could stand there (or none), and the help.
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
    (r"[(,]\s*\w+\s*", "=", "", "attributes stand before the operands: Softmax<axis=1>(x)"),
    ("", "=", "COMPARE", "`==` compares"),
    ("", "==|!=|<=?|>=?|in", "AND", "comparisons do not chain; write `a < b and b < c`"),
    (r"[\w\]]\s*", ",", "SPREAD", "lines need no separator"),
    (r"[)}]\s*", ",", "SPREAD|DEL", "lines need no separator"),
    (r"\binside\s+[\w.]+\s*", ",", "", "a pattern is inside of one kind of body; without `inside`, a rule is tried in all"),
    (r"(?:[^\w\s]|\b(?:in|not|and|or))\s*\((?:[^()]|\([^()]*\))*", ",", "PLUS", "a list stands in brackets: [1, 2]"),
    (r"[(,]\s*", r'[\d"-].*', "LBRACE", "a constant stands in braces: Mul(x, {2.0})"),
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
    ("", r"\(", "LBRACE|WHERE", "operator calls stand in `match` and `rewrite` only; conditions call functions"),
    ("", "for", "", "a condition on several is `all x in xs: dtype(x) == float`"),
    ("", r"\|", "", "alternatives have a line of their own: h = Relu(x) | Abs(x)"),
    ("", "if|when", "WHERE", "a condition stands behind `where`"),
    (r"\bdefine\b.*", "match|where|let|rewrite", "", "a `define` stands above a rule, not in it"),
    (r"\btest\s+", "~~~", "", 'a test has a title: test "one node less" ~~~'),
    (r"\btest\s+", "with", "", '`with` stands behind the title: test "one node less" with OPT003 ~~~'),
    ("", r"\S+", "SLUG", "a rule has a code and a name: rule MX001 gemm-input-not-flattened"),
    ("", r"\S+", "CODE", "a code is capital letters and a number: MX001"),
)


def helps_for(text: str, at: int, found: str, possible: frozenset[str]) -> tuple[str, ...]:
    """How to mend the mistake `found` at an offset, where the terminals `possible` could stand; at most one line."""
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
    """What is written for each terminal that is always written the same."""
    return {terminal.name: terminal.pattern.value for terminal in grammar().terminals if terminal.pattern.type == "str"}
