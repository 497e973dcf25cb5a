"""lark with the tables of `grammar/rules.lark`, made once a process and kept between processes.

Building the tables takes much longer than reading them back. lark's own way to keep them is `pickle`, which runs what it reads;
here they are JSON.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rewriter.language.cache.own_folder import keep_sealed, own_folder, read_sealed
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
    path = folder / f"grammar-{key}.json"
    kept = read_sealed(path)
    if kept is not None:
        return _read(kept)
    parser = _build(grammar)
    keep_sealed(path, _text(parser))
    return parser


def tokens(text: str) -> list[Token]:
    """The tokens of one rule that parses, keywords and punctuation included, comments not."""
    parser = tables().parse_interactive(text)
    return parser.exhaust_lexer()


def _build(grammar: str) -> Lark:
    from lark import Lark

    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)


def _text(parser: Lark) -> str:
    """What `Lark.save` keeps, which is plain data."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = parser.memo_serialize([TerminalDef, Rule])
    return json.dumps({"data": data, "memo": memo})


def _read(text: str) -> Lark:
    from lark import Lark

    return Lark.__new__(Lark)._load(json.loads(text, object_pairs_hook=_numbered))


def _numbered(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """An object whose keys may be numbers, for which JSON has only texts."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
