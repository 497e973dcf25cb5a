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
    from lark.grammar import Rule, Symbol

FORMAT = 3
_BLANK = re.compile(r"(?:\s+|#[^\n]*)*").match
"""What `%ignore` of the grammar says."""
_END = "$END"


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
        productions: nonterminal, number of symbols, and the node: its name, the positions of its children (None: an optional
            part that is missing; -1-i: all that the list at position i holds), whether there is such a list, and whether a
            single child stands for the node. None instead where one symbol just stands for another. Without a name the node
            is a list.
        words: the terminals that stand in a tree.
        lexers: by state, the position of its expressions.
        expressions: of each lexer, the expression of the terminals that may follow, and for some of them, words that are other
            terminals.
    """

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.first, self.last, self.actions, self.gotos, self.productions, words, self.lexers, self.expressions = kept
        self.words = frozenset(words)
        self._compiled: dict[int, _Lexer] = {}
        self._settled: dict[tuple[int, int, str], int] = {}

    def lexer(self, number: int) -> _Lexer:
        """The expression of what may stand in some states, compiled when one of them is first reached."""
        pattern, words = self.expressions[number]
        found = self._compiled[number] = (re.compile(pattern).match, words)
        return found

    def settled(self, key: tuple[int, int, str]) -> int:
        """The state when no symbol just stands for another any more, from the state below, the state, and the terminal read.

        An operand becomes an expression in ten such steps, so that this is remembered.
        """
        below, state, kind = key
        while (action := self.actions[state].get(kind)) is not None and action < 0:
            origin, _, shown = self.productions[-1 - action]
            if shown is not None:
                break
            state = self.gotos[below][origin]
        self._settled[key] = state
        return state

    def parse(self, text: str) -> ParseNode | None:
        """The tree of a text; None when the grammar does not take it."""
        actions, gotos, productions, lexers, kept = self.actions, self.gotos, self.productions, self.lexers, self.words
        compiled, settled = self._compiled, self._settled
        state, stop, at = self.first, len(text), 0
        states, values, starts = [state], list[Any](), list[int]()  # of everything on the stack
        while True:
            begin = _BLANK(text, at).end()  # type: ignore[union-attr]
            if begin == stop:
                kind, after = _END, stop
            else:
                number = lexers[state]
                match, words = compiled.get(number) or self.lexer(number)
                given = match(text, begin)
                if given is None:
                    return None
                kind, after = given.lastgroup or "", given.end()
                if kind in words:
                    kind = words[kind].get(given[0], kind)
            while (action := actions[state].get(kind)) is not None and action < 0:
                origin, size, shown = productions[-1 - action]
                if shown is None:  # one symbol for another: the value stays
                    key = states[-2], state, kind
                    states[-1] = state = settled.get(key) or self.settled(key)
                    continue
                low = len(values) - size
                values[low:] = (_built(shown, values, low, starts[low], at),)
                state = gotos[states[low]][origin]
                states[low + 1 :] = (state,)
                del starts[low + 1 :]
                if state == self.last:
                    whole: ParseNode = values[0]
                    return whole
            if action is None:
                return None
            state, at, word = action, after, None
            if kind in kept:
                word = Word(text[begin:at])
                word.type, word.start, word.end = kind, begin, at
            states.append(state)
            values.append(word)
            starts.append(begin)


def _built(shown: Any, values: list[Any], low: int, start: int, end: int) -> Any:
    """The value of a production whose symbols have the values from `low` on; no production is of no symbols."""
    name, taken, lists, single = shown
    if not lists:
        children = [None if i is None else values[low + i] for i in taken]
    else:
        children = []
        for i in taken:
            if i is None or i >= 0:
                children.append(None if i is None else values[low + i])
            elif children:
                children += values[low - 1 - i]
            else:
                children = values[low - 1 - i]  # so that a long list does not grow by copying
    if single and len(children) == 1:
        return children[0]
    return ParseNode(name, children, start, end) if name else children


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
        sorted({str(symbol.name) for rule in rules for symbol in rule.expansion if _stands(symbol, rule)}),
        [places[id(lexers[state])] for state in states],
        [_expressions(lexer) for lexer in distinct],
    )


def _production(rule: Rule) -> tuple[Any, ...]:
    """As lark's `ParseTreeBuilder` does it: words of one writing only and names with `_` in front are left out or inlined."""
    options, size = rule.options, len(rule.expansion)
    empty = options.empty_indices or (False,) * size
    before = [len(run) for run in "".join(str(int(gap)) for gap in empty).split("0")]
    taken = list[int | None]()
    for i, symbol in enumerate(rule.expansion):
        taken += [None] * before[i]
        if not symbol.is_term:
            taken.append(-1 - i if symbol.name.startswith("_") else i)
        elif _stands(symbol, rule):
            taken.append(i)
    taken += [None] * before[-1]
    name, lists = str(rule.alias or rule.origin.name), any(i is not None and i < 0 for i in taken)
    single = options.expand1 and not rule.alias
    shown = None if single and size == 1 and taken == [0] else ("" if name.startswith("_") else name, taken, lists, single)
    return str(rule.origin.name), size, shown


def _stands(symbol: Symbol, rule: Rule) -> bool:
    """Whether a symbol of a rule is a word that stands in the tree."""
    return symbol.is_term and (not symbol.filter_out or rule.options.keep_all_tokens)  # type: ignore[attr-defined]


def _expressions(lexer: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """The expression of what may stand where a lexer reads, and which words are other terminals than they look like."""
    scanner = lexer.scanner
    (whole,) = scanner._mres
    words = {
        str(kind): {str(one.pattern.value): str(one.name) for one in other.scanner.terminals}
        for kind, other in lexer.callback.items()
    }
    return whole.pattern, words
