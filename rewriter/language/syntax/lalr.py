"""Going over lark's tables without lark: the same tree of a rule that is right, in a third of the time.

lark's own parser counts lines and columns, and wraps each step of building a tree in several calls. Rules need neither, and
most rules are right. So the tables of the grammar are kept as plain data, which are read back without importing lark, and a
loop goes over them. A text that they do not take is left to lark, which knows what to say of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rewriter.language.cache.own_folder import keep_sealed, own_folder, read_sealed
from rewriter.resources import resource

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Rule

FORMAT = 2
_BLANK = re.compile(r"(?:\s+|#[^\n]*)*").match
"""What `%ignore` of the grammar says."""
_END = "$END"
_NODE, _INLINED, _WORD = range(3)


_Lexer = tuple[Callable[[str, int], "re.Match[str] | None"], dict[str, dict[str, str]]]


class Word(str):
    """A token that stands in the tree, and where it stands in the text."""

    __slots__ = ("end", "start", "type")
    start: int
    end: int
    type: str


class ParseNode:
    """A rule of the grammar: its name or alias, its nodes and words (None for an optional part that is missing), its place.

    The place is that of everything that belongs to it, brackets included.
    """

    __slots__ = ("children", "data", "end", "start")

    def __init__(self, data: str, children: list[Any], start: int, end: int) -> None:
        self.data = data
        self.children = children
        self.start = start
        self.end = end


class Tables:
    """What decides on each step.

    Attributes:
        first, last: the states at the beginning, and when everything was read.
        actions: by state and terminal: the state that follows, or -1-i for the end of production i.
        gotos: by state and nonterminal: the state that follows.
        productions: nonterminal, number of symbols, and the node: its name, what is taken of the symbols (how many None before
            it, its position, and what it is), how many None follow, and whether a single child stands for the node. None
            instead where one symbol just stands for another.
        lexers: by state, the position of its expressions.
        expressions: of each lexer, the expression of the terminals that may follow, and for some of them, words that are other
            terminals.
    """

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.first, self.last, self.actions, self.gotos, self.productions, self.lexers, self.expressions = kept
        self._compiled: dict[int, _Lexer] = {}

    def lexer(self, number: int) -> _Lexer:
        """The expression of what may stand in some states, compiled when one of them is first reached."""
        pattern, words = self.expressions[number]
        found = self._compiled[number] = (re.compile(pattern).match, words)
        return found

    def parse(self, text: str) -> ParseNode | None:
        """The tree of a text; None when the grammar does not take it."""
        actions, gotos, productions, lexers = self.actions, self.gotos, self.productions, self.lexers
        compiled = self._compiled
        state, stop, at = self.first, len(text), 0
        states, values = [state], list[Any]()
        starts, ends = list[int](), list[int]()  # of everything on the stack; of what is empty, -1
        while True:
            begin = _BLANK(text, at).end()  # type: ignore[union-attr]
            if begin == stop:
                kind = _END
            else:
                number = lexers[state]
                match, words = compiled.get(number) or self.lexer(number)
                given = match(text, begin)
                if given is None:
                    return None
                kind, at = given.lastgroup or "", given.end()
                if kind in words:
                    kind = words[kind].get(given[0], kind)
            while (action := actions[state].get(kind)) is not None and action < 0:
                origin, size, shown = productions[-1 - action]
                if shown is None:  # one symbol for another: the value stays
                    states[-1] = state = gotos[states[-2]][origin]
                else:
                    low = len(values) - size
                    node, start, end = _built(shown, values[low:], starts[low:], ends[low:], text)
                    del states[low + 1 :], values[low:], starts[low:], ends[low:]
                    values.append(node)
                    starts.append(start)
                    ends.append(end)
                    state = gotos[states[-1]][origin]
                    states.append(state)
                if state == self.last:
                    whole: ParseNode = values[-1]
                    return whole
            if action is None:
                return None
            state = action
            states.append(state)
            values.append(kind)
            starts.append(begin)
            ends.append(at)


def _built(shown: Any, values: list[Any], starts: list[int], ends: list[int], text: str) -> tuple[Any, int, int]:
    """The value of a production, and the place of all its symbols."""
    name, taken, after, single = shown
    children: list[Any] = []
    for before, i, what in taken:
        if before:
            children += [None] * before
        value = values[i]
        if what == _NODE:
            children.append(value)
        elif what == _WORD:
            word = Word(text[starts[i] : ends[i]])
            word.type, word.start, word.end = value, starts[i], ends[i]
            children.append(word)
        elif children:
            children += value.children
        else:
            children = value.children  # so that a long list does not grow by copying
    if after:
        children += [None] * after
    start, end = (starts[0], ends[-1]) if starts else (-1, -1)
    if start < 0 or end < 0:  # what is empty at an end has no place
        start = next((place for place in starts if place >= 0), -1)
        end = next((place for place in reversed(ends) if place >= 0), -1)
    if single and len(children) == 1:
        only = children[0]
        return (only, only.start, only.end) if type(only) is Word else (only, start, end)
    return ParseNode(name, children, start, end), start, end


@cache
def tables() -> Tables:
    """The tables of the grammar, as they were kept or as lark makes them."""
    folder = own_folder()
    grammar = resource("grammar/rules.lark").read_text(encoding="utf-8")
    key = sha256(f"{FORMAT} {sys.version} {grammar}".encode()).hexdigest()[:24]
    path = None if folder is None else folder / f"tables-{key}.json"
    data = None if path is None else read_sealed(path)
    if data is not None:
        return Tables(json.loads(data))
    from rewriter.language.syntax import tables as of_lark

    made = _plain(of_lark.tables())
    if path is not None:
        keep_sealed(path, json.dumps(made))
    return Tables(made)


def _plain(lark: Lark) -> Any:
    """What `Tables` keeps, from lark's objects."""
    from lark.parsers.lalr_analysis import Shift

    frontend: Any = lark.parser
    table, lexers = frontend.parser._parse_table, frontend.lexer.lexers
    rules = list(dict.fromkeys(arg for row in table.states.values() for kind, arg in row.values() if kind is not Shift))
    number = {rule: i for i, rule in enumerate(rules)}
    states = range(len(table.states))
    actions = [
        {str(s): arg if kind is Shift else -1 - number[arg] for s, (kind, arg) in table.states[state].items()}
        for state in states
    ]
    origins = {str(rule.origin.name) for rule in rules}
    distinct = list({id(lexer): lexer for lexer in lexers.values()}.values())
    places = {id(lexer): i for i, lexer in enumerate(distinct)}
    return (
        table.start_states["start"],
        table.end_states["start"],
        [{s: to for s, to in row.items() if s not in origins} for row in actions],
        [{s: to for s, to in row.items() if s in origins} for row in actions],
        [_production(rule) for rule in rules],
        [places[id(lexers[state])] for state in states],
        [_expressions(lexer) for lexer in distinct],
    )


def _production(rule: Rule) -> tuple[Any, ...]:
    """As lark's `ParseTreeBuilder` does it: words of one writing only and names with `_` in front are left out or inlined."""
    options = rule.options
    empty = options.empty_indices or (False,) * len(rule.expansion)
    before = [len(run) for run in "".join(str(int(gap)) for gap in empty).split("0")]
    taken, nones = [], 0
    for i, symbol in enumerate(rule.expansion):
        nones += before[i]
        if symbol.is_term and symbol.filter_out and not options.keep_all_tokens:  # type: ignore[attr-defined]
            continue
        what = _WORD if symbol.is_term else _INLINED if symbol.name.startswith("_") else _NODE
        taken.append((nones, i, what))
        nones = 0
    single = options.expand1 and not rule.alias
    shown = str(rule.alias or rule.origin.name), tuple(taken), nones + before[-1], single
    renamed = single and taken == [(0, 0, _NODE)] and len(rule.expansion) == 1 and not shown[2]
    return str(rule.origin.name), len(rule.expansion), None if renamed else shown


def _expressions(lexer: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """The expression of what may stand where a lexer reads, and which words are other terminals than they look like."""
    scanner = lexer.scanner
    (whole,) = scanner._mres
    words = {
        str(kind): {str(one.pattern.value): str(one.name) for one in other.scanner.terminals}
        for kind, other in lexer.callback.items()
    }
    return whole.pattern, words
