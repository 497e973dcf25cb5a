"""lark's parser of `grammar/rules.lark`.

Building its tables takes much longer than reading them back. lark itself keeps them as `pickle`, which runs code that it reads.
Here they are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rewriter.core.resources import read_or_make, resource

if TYPE_CHECKING:
    from lark import Lark, Token


class Node:
    """A rule of the grammar: its name or alias, its nodes and tokens (None for an optional part that is missing), its place.

    The place covers all its parts. `first` and `last` are its ends including the brackets around it, which are not among its
    children.
    """

    __slots__ = ("children", "data", "end_pos", "first", "last", "start_pos")
    start_pos: int
    end_pos: int

    def __init__(self, data: str, children: list[Any]) -> None:
        self.data = data
        self.children = children
        self.first = self.last = -1


@cache
def grammar() -> Lark:
    """The parser of one rule. It is stateless and safe to share between threads."""
    import lark

    tables = json.loads(read_or_make("grammar", _make, lark.__version__), object_pairs_hook=_numbered)
    parser: Lark = lark.Lark.__new__(lark.Lark)._load(tables, tree_class=Node)
    callbacks: dict[Any, Any] = parser._callbacks
    productions: dict[Any, Any] = {rule: _Production(rule) for rule in callbacks}
    for rule, production in productions.items():
        just_another_name = rule.options.expand1 and not rule.alias and len(rule.expansion) == 1
        callbacks[production] = itemgetter(0) if just_another_name else _with_place(callbacks[rule])
    frontend: Any = parser.parser
    for actions in frontend.parser._parse_table.states.values():
        for token, (action, aim) in actions.items():
            actions[token] = action, productions.get(aim, aim)
    return parser


class _Production:
    """The data of a rule that the parser needs. It is compared by identity, since lark compares rules by all their fields."""

    __slots__ = ("expansion", "origin")

    def __init__(self, rule: Any) -> None:
        self.origin, self.expansion = rule.origin, rule.expansion


def _with_place(build: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Like `propagate_positions`, which takes three times as long, since it also counts lines and columns."""

    def node(children: list[Any]) -> Any:
        first, last = children[0], children[-1]
        start = first.first if type(first) is Node else first.start_pos
        end = last.last if type(last) is Node else last.end_pos
        built = build(children)
        if type(built) is Node:
            if built.first < 0:
                built.start_pos, built.end_pos = start, end
            built.first, built.last = start, end
        return built

    return node


def tokens(text: str) -> list[Token]:
    """The tokens of one rule that parses, keywords and punctuation included, comments not."""
    parser = grammar().parse_interactive(text)
    return parser.exhaust_lexer()


def _make() -> str:
    """The data that `Lark.save` writes, as plain data."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    text = resource("grammar/rules.lark").read_text(encoding="utf-8")
    parser = Lark(text, parser="lalr", lexer="contextual", maybe_placeholders=True)
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    return json.dumps({"data": data, "memo": memo})


def _numbered(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """An object whose keys may be numbers, for which JSON has only texts."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
