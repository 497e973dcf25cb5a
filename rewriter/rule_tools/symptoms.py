"""From an error message to the rules that answer it.

A user has the error message with which a tool rejected a model; rules quote such messages in their header (`symptom`) and
their doc comment. Names, numbers, case and punctuation differ from model to model and do not count; rare words count more
than common ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

from rewriter.core.language.ast import pattern_nodes
from rewriter.core.language.rules import Rule
from rewriter.core.record import record

SURE = 0.6
"""Share of a message's weight from which on a rule is considered to answer it."""

LEAST_WORDS = 3
"""Fewest words of a quotation in a doc comment that counts as a message."""

MOST_CHARACTERS = 10_000

_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")
_OPERATOR_PLACES = re.compile(
    r"\b([A-Z]\w*)\(\d+\)|\b[Oo]p(?:erator)?:? \(?([A-Z]\w*)|\b([A-Z][a-z0-9]*[A-Z]\w*)\b"
    r"|\bregistered for ([A-Z]\w*)|\b([A-Z]\w*)(?:\(-?\d+\))? is not a registered"
)
_NAMES = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\([^()]*\)|\[[^\][]*\]|\{[^{}]*\}""")
_OPERATOR = "<operator>"
_PAIR = 0.5  # weight of two words in a row, in addition to the words themselves
_OTHER_OPERATOR = 0.5  # factor of the score if a message names an operator and the text another one


@record(frozen=True, slots=True)
class Answer:
    """A rule that quotes a message like the text: the message, and its similarity (0 to 1)."""

    rule: Rule
    symptom: str
    score: float

    @property
    def sure(self) -> bool:
        return self.score >= SURE


@record(frozen=True, slots=True)
class _Message:
    rule: Rule
    text: str
    operators: frozenset[str]
    features: frozenset[str]


class Symptoms:
    """The messages that rules quote, weighted."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._messages = [message for rule in rules for message in _messages(rule)]
        seen = Counter(feature for message in self._messages for feature in message.features)
        self._operators = frozenset(name for message in self._messages for name in message.operators)
        self._weights = {feature: self._weight(feature, count) for feature, count in seen.items()}
        self._rarest = math.log(1 + len(self._messages))
        self._whole = cache(lambda message: self._sum(message.features))
        self._named = cache(lambda message: self._operators_in(message.text))

    def answers(self, text: str) -> list[Answer]:
        """The rules that share a word with the text, best first, each with the most similar quotation."""
        best: dict[str, Answer] = {}
        text = text[:MOST_CHARACTERS]
        query = _Query(text, self._operators_in(text), {word for word in _prose(text) if word not in self._weights})
        for message in self._messages:
            score = self._score(message, query)
            known = best.get(message.rule.code)
            if score > 0 and (known is None or score > known.score):
                best[message.rule.code] = Answer(message.rule, message.text, score)
        return sorted(best.values(), key=lambda answer: (-answer.score, answer.rule.code))

    def nearest(self, text: str) -> list[Answer]:
        """The rules that answer a message, best first; if none surely does, the nearest ones, at most three."""
        found = self.answers(text)
        sure = [answer for answer in found if answer.sure]
        return sure[:8] or found[:3]

    def _score(self, message: _Message, query: _Query) -> float:
        """The weight of the shared words, as a part of the weight of the shorter text."""
        words, features = query.read(message.operators)
        if query.is_operator and not query.last_names.isdisjoint(message.operators & self._named(message)):
            return SURE
        if features.isdisjoint(message.features):
            return 0.0
        shared = self._sum(features & message.features)
        known = [word for word in words if word in self._weights]
        unknown = len(query.unknown - {name.lower() for name in message.operators})
        part = shared / self._whole(message)
        other = shared / (self._sum(_features(known)) + unknown * self._rarest)
        # A message in the middle of a longer text is found by the message's words, a piece of a message by the piece's words.
        fit = max(part, other if len(set(known)) >= LEAST_WORDS else 0.0) * 0.9 + min(part, other) * 0.1
        return round(fit * (_OTHER_OPERATOR if self._elsewhere(message, query.operators) else 1.0), 4)

    def _elsewhere(self, message: _Message, operators: frozenset[str]) -> bool:
        """Whether both name operators, and the text names neither one of the message nor one of the rule."""
        named = self._named(message)
        return bool(named and operators) and operators.isdisjoint(named | message.operators)

    def _operators_in(self, text: str) -> frozenset[str]:
        """Words that seem to be operators: a rule matches them, or they are where messages name one. Errors are none."""
        known = {word for word in _WORD.findall(text) if word in self._operators}
        found = {name for groups in _OPERATOR_PLACES.findall(text) for name in groups if name and not name.endswith("Error")}
        return frozenset(known | found)

    def _sum(self, features: Iterable[str]) -> float:
        """The weight of the features; neighbours that are next to each other in no rule weigh as much as the rarest."""
        return math.fsum(self._weights.get(feature, self._rarest * _PAIR) for feature in features)

    def _weight(self, feature: str, count: int) -> float:
        rarity = math.log(1 + len(self._messages) / count)
        return rarity * _PAIR if " " in feature else rarity


class _Query:
    """A text that is compared with every message.

    Attributes:
        operators: words in it that seem to be operators.
        unknown: its words that are no names, and that no message has.
        is_operator: whether it is only the name of an operator: a message that also names the operator is meant.
    """

    def __init__(self, text: str, operators: frozenset[str], unknown: set[str]) -> None:
        self.operators = operators
        self.unknown = unknown
        self._text = text
        self._names = frozenset(word.strip("._") for word in _WORD.findall(text))
        self.last_names = frozenset(name.rpartition(".")[2] for name in self._names)
        self.is_operator = len(self._names) <= 2  # an operator, and maybe its domain
        self._read: dict[frozenset[str], tuple[list[str], set[str]]] = {}

    def read(self, operators: frozenset[str]) -> tuple[list[str], set[str]]:
        """Its words and features for a rule with these operators; most texts name none of them."""
        named = operators & self._names
        if named not in self._read:
            words = _words(self._text, named)
            self._read[named] = words, _features(words)
        return self._read[named]


def find_answers(rules: Iterable[Rule], text: str) -> list[Answer]:
    """The rules that answer a message, best first; if none surely does, the nearest ones, at most three."""
    return Symptoms(rules).nearest(text)


def _messages(rule: Rule) -> Iterator[_Message]:
    operators = frozenset(op.name for node in pattern_nodes(rule.question.match) for op in node.ops if not op.param)
    quoted = [text for text in _QUOTED.findall(" ".join(rule.doc.split())) if len(text.split()) >= LEAST_WORDS]
    for text in dict.fromkeys((*rule.header.symptoms, *quoted)):
        features = _features(_words(text, operators))
        if features:
            yield _Message(rule, text, operators, frozenset(features))


def _words(text: str, operators: frozenset[str]) -> list[str]:
    """The words of a message without numbers; the operators of a rule count as one word, since it treats them alike."""
    found = []
    for word in _WORD.findall(text):
        plain = word.strip("._")
        if len(plain) > 1:
            found.append(_OPERATOR if plain in operators else plain.lower())
    return found


def _prose(text: str) -> set[str]:
    """The words that are no names: not in quotes, parentheses or brackets, and made of letters only."""
    return {word for word in _NAMES.sub(" ", text).lower().split() if len(word) > 1 and word.isalpha()}


def _features(words: Sequence[str]) -> set[str]:
    """The words, and each pair of neighbours."""
    return {*words, *(f"{one} {other}" for one, other in pairwise(words))}
