"""The words that the language keeps for itself, and why a name may be none of them."""

from __future__ import annotations

from math import inf, nan

from rewriter.core.language.schema import DTYPES

# How large a rule file and its parts may be: a stranger's file must end in a message, not in a full memory or a full stack.

MAX_RULES = 2_000
MAX_RULE_LENGTH = 1 << 16
"""Characters of one rule, test texts not counted."""

MAX_ROWS = 200
MAX_ROWS_LENGTH = 1 << 22
"""Characters of all rules that a table makes."""

MAX_NESTING = 64
"""Brackets within brackets."""

MAX_DEPTH = 100
"""Levels of the syntax tree: long chains of operators nest without brackets."""

MAX_STRING_LENGTH = 1 << 16
MIN_INT = -(1 << 63)
MAX_INT = (1 << 64) - 1
"""ONNX has int64 and uint64."""


PARTS = ("param", "match", "private", "where", "let", "rewrite", "test")
"""The words that begin a part of a rule."""

STATEMENTS = ("del", "each", "inline", "mend", "outline", "output")
"""The words that begin a line of a rewrite."""

KEYWORDS = frozenset(
    (
        *PARTS,
        *("rule", "inside", "graph", "input", "output", "const", "ordered", "tensor"),
        *("opset", "del", "inline", "mend", "inputs", "set", "source", "becomes", "unchanged", "twin"),
        *("and", "or", "not", "in", "if", "else", "true", "false", "none"),
    )
)

CONTEXTUAL = frozenset({"all", "any", "count", "define", "each", "maybe", "outline", "outputs", "table", "with"})
"""Words that are keywords only at certain places of the grammar. Elsewhere they may be names."""

OWNERS = frozenset({"model", "outer"})
"""Names that the language binds: the whole model, the node around a subgraph."""


NUMBERS = {"inf": inf, "nan": nan}
"""Numbers that are written as words."""


def reserved(name: str) -> str | None:
    """Why the name is not allowed for a tensor, node, parameter or value; None if it is allowed."""
    if name in DTYPES:
        return "is an element type"
    if name in KEYWORDS:
        return "is a word of the language"
    if name in NUMBERS:
        return "is a number"
    if name in OWNERS:
        return "is bound by the language itself"
    return "means anything" if name == "_" else None
