"""Rule files in Pygments, and so in Sphinx, MkDocs and Jupyter; found by the entry point `pygments.lexers`."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import Token, Whitespace

from rewriter.app.editor.highlighting import COLOURS, ENDING, NAME


def _token(name: str) -> Any:
    top = "Literal." if name.startswith(("String", "Number")) else ""
    return reduce(getattr, f"{top}{name}".split("."), Token)


class RulesLexer(RegexLexer):
    """The language of rule files."""

    name = NAME
    aliases = ["rewriter-rules", "rules"]  # noqa: RUF012
    filenames = [f"*.{ENDING}"]  # noqa: RUF012
    flags = re.MULTILINE
    tokens = {  # noqa: RUF012
        "root": [(r"\s+", Whitespace), *((row.pattern, _token(row.token)) for row in COLOURS)]
    }
