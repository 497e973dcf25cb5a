"""The colours of words in a rule file: one table, from which the Pygments lexer and the TextMate grammar are made.

Each row is a pattern with its name in Pygments and its name in TextMate. The first row that matches counts. Text that matches
no row is an error. The patterns use only syntax that Python's and Oniguruma's expressions have in common.
"""

from __future__ import annotations

import json
from typing import Any

from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.header import KINDS
from rewriter.core.language.schema import DTYPES
from rewriter.core.language.syntax.words import CONTEXTUAL, KEYWORDS, PARTS
from rewriter.core.record import record

NAME = "ONNX rewrite rules"
SCOPE = "source.onnx-rules"
ENDING = "rules"


@record(frozen=True, slots=True)
class Colour:
    """One row.

    Attributes:
        pattern: a regular expression.
        scope: of TextMate, without the end that names the language.
        token: of Pygments, with dots.
    """

    pattern: str
    scope: str
    token: str


def _words(words: Any) -> str:
    return f"\\b(?:{'|'.join(sorted(words))})\\b"


COLOURS = (
    Colour(r"///[^\n]*", "comment.block.documentation", "Comment.Special"),
    Colour(r"#[^\n]*", "comment.line.number-sign", "Comment.Single"),
    Colour(r"~~~", "punctuation.definition.raw", "String.Delimiter"),
    Colour(r'"(?:\\[^\n]|[^"\\\n])*"', "string.quoted.double", "String.Double"),
    Colour(r"@[A-Za-z_][A-Za-z0-9_]*", "variable.parameter", "Name.Variable"),
    Colour(_words(("rule", *PARTS)), "keyword.control", "Keyword"),
    Colour(_words(("and", "or", "not", "in", "if", "else")), "keyword.operator.word", "Operator.Word"),
    Colour(_words(("true", "false", "none")), "constant.language", "Keyword.Constant"),
    Colour(_words(DTYPES) + r"|\btensor\b", "storage.type", "Keyword.Type"),
    Colour(_words({*KEYWORDS, *CONTEXTUAL} - set(PARTS)) + r"(?!\s*\()", "keyword.other", "Keyword"),
    Colour(_words(KINDS) + r"(?=\s*[,>(])", "constant.language.kind", "Name.Constant"),
    Colour(_words(FUNCTIONS) + r"(?=\s*\()", "support.function", "Name.Function"),
    Colour(r"\b[A-Z]+[0-9]+\b", "entity.name.function.code", "Name.Label"),
    Colour(r"\b[A-Z][A-Za-z0-9_]*", "entity.name.type.operator", "Name.Class"),
    Colour(r"[0-9]+(?:\.(?!\.)[0-9]*)?(?:[eE][-+]?[0-9]+)?", "constant.numeric", "Number"),
    Colour(r"[A-Za-z_][A-Za-z0-9_]*(?=\s*:)", "variable.other.key", "Name.Attribute"),
    Colour(r"[A-Za-z_][A-Za-z0-9_]*", "variable.other", "Name"),
    Colour(r"=>|->|==|!=|<=|>=|\*\*|\.\.\.|\.\.|[-+*/%<>=!|~?^]", "keyword.operator", "Operator"),
    Colour(r"[][(){}.,:;&]", "punctuation.separator", "Punctuation"),
)


def textmate() -> str:
    """The grammar for TextMate, VS Code and others, as JSON."""
    language = SCOPE.rpartition(".")[2]
    patterns = [{"match": row.pattern, "name": f"{row.scope}.{language}"} for row in COLOURS]
    patterns.append({"match": r"\S", "name": f"invalid.illegal.{language}"})
    grammar = {"name": NAME, "scopeName": SCOPE, "fileTypes": [ENDING], "patterns": patterns}
    return json.dumps({"comment": "made by docs/build.py of rewriter/app/editor/highlighting.py", **grammar}, indent=2) + "\n"
