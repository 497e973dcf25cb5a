"""lark with the tables of `grammar/rules.lark`, made once a process and kept between processes.

Building the tables takes much longer than reading them back. lark reads them with `pickle`, which runs what it reads: so the
cache lies in a folder of the user's own, and is used only when nobody else could have written it. Without such a folder
nothing is kept.
"""

from __future__ import annotations

import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.language.cache.own_folder import keep, only_ours, own_folder
from rewriter.resources import resource

if TYPE_CHECKING:
    from lark import Lark, Token


@cache
def tables() -> Lark:
    """The parser of one rule. It is stateless and safe to share between threads."""
    import lark

    grammar = resource("grammar/rules.lark").read_text(encoding="utf-8")
    folder = own_folder()
    if folder is None:
        return _build(grammar)
    key = sha256(f"{lark.__version__} {sys.version} {grammar}".encode()).hexdigest()[:24]
    return _read(folder / f"grammar-{key}.pickle") or _build_and_keep(grammar, folder / f"grammar-{key}.pickle")


def tokens(text: str) -> list[Token]:
    """The tokens of one rule that parses, keywords and punctuation included, comments not."""
    parser = tables().parse_interactive(text)
    return parser.exhaust_lexer()


def _build(grammar: str) -> Lark:
    from lark import Lark

    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)


def _read(kept: Path) -> Lark | None:
    """The tables of an earlier process; None when there are none, or when somebody else may have written them."""
    from lark import Lark

    if not only_ours(kept):
        return None
    try:
        with kept.open("rb") as file:
            parser: Lark = Lark.load(file)
    except Exception:  # a damaged pickle can raise anything; the tables are then made anew
        return None
    return parser


def _build_and_keep(grammar: str, kept: Path) -> Lark:
    parser = _build(grammar)
    keep(kept, parser.save)
    return parser
