"""lark's parser of `grammar/rules.lark`.

Building its tables takes much longer than reading them back. lark's own way to keep them is `pickle`, which runs what it reads;
here they are JSON.
"""

from __future__ import annotations

import json
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rewriter.language.cache.store import read_or_make
from rewriter.resources import resource

if TYPE_CHECKING:
    from lark import Lark, Token


@cache
def grammar() -> Lark:
    """The parser of one rule. It is stateless and safe to share between threads."""
    import lark

    tables = json.loads(read_or_make("grammar", _make, lark.__version__), object_pairs_hook=_numbered)
    parser: Lark = lark.Lark.__new__(lark.Lark)._load(tables)
    callbacks: dict[Any, Any] = parser._callbacks
    for rule in callbacks:  # an operand becomes an expression in ten such steps, each of which would work out its place again
        if rule.options.expand1 and not rule.alias and len(rule.expansion) == 1:
            callbacks[rule] = itemgetter(0)
    return parser


def tokens(text: str) -> list[Token]:
    """The tokens of one rule that parses, keywords and punctuation included, comments not."""
    parser = grammar().parse_interactive(text)
    return parser.exhaust_lexer()


def _make() -> str:
    """What `Lark.save` keeps, which is plain data."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    text = resource("grammar/rules.lark").read_text(encoding="utf-8")
    parser = Lark(text, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    return json.dumps({"data": data, "memo": memo})


def _numbered(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """An object whose keys may be numbers, for which JSON has only texts."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
