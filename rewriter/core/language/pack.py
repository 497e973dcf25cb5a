"""Records of the syntax tree as JSON, and back.

Every command reads compiled rules from the cache. JSON is read almost as fast as `marshal` and, unlike it and `pickle`,
can neither run code nor break the interpreter, even if the file is forged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from math import inf, nan
from typing import Any

from rewriter.core import resources
from rewriter.core.language import ast, diagnostics
from rewriter.core.language.ast import NOWHERE
from rewriter.core.language.header import Header
from rewriter.core.record import getter, names

_KINDS: tuple[Any, ...] = (
    ast.Span,
    *(
        kind
        for module in (ast, diagnostics)
        for kind in vars(module).values()
        if isinstance(kind, type) and names(kind) is not None
    ),
    Header,
)
"""Every record that can be packed; a packed one begins with its position in this table."""

_NUMBERS = {kind: (number, getter(names(kind) or ())) for number, kind in enumerate(_KINDS)}
_PLAIN = frozenset({str, int, bool, float, type(None)})
_NOWHERE = [0, NOWHERE.start, NOWHERE.end]
_TUPLE, _SET, _ELLIPSIS = -1, -2, -3
"""The numbers that mark values that are no records; a record has its position in the table there."""

_NOTHING = [_TUPLE]
_FIELDS = {name: 1 + number for number, name in enumerate(names(ast.Rule) or ())}
_VARIANTS = _FIELDS["variants"]
_AFTER_MATCH = frozenset(_FIELDS[name] for name in ("doc", "meta", "rewrites", "privates", "tests"))

_decode = json.JSONDecoder(parse_constant={"NaN": nan, "Infinity": inf, "-Infinity": -inf}.__getitem__).decode
"""One NaN, which is equal to itself as part of a record."""


def pack(value: Any) -> str:
    """A flat value as one line. Only `unpack` of the same version can read it."""
    return json.dumps(value, separators=(",", ":"))


def unpack(data: str) -> Any:
    """The value that was packed. The line must be complete: the store has a checksum of it."""
    return built(_decode(data))


def flat(value: Any) -> Any:
    """Records, tuples and sets (of pairs of texts) become lists that begin with a number; everything else is left as it is.

    Half of all records are places. They are at the end of a record, and empty ones are left out there.
    """
    kind = value.__class__
    if kind is tuple:
        return [_TUPLE, *[part if part.__class__ in _PLAIN else flat(part) for part in value]]
    if kind is ast.Span:
        return [0, value.start, value.end] if value.end else _NOWHERE
    found = _NUMBERS.get(kind)
    if found is None:
        return [_SET, *chain.from_iterable(sorted(value))] if kind is frozenset else [_ELLIPSIS] if value is ... else value
    return _shortened([found[0], *[part if part.__class__ in _PLAIN else flat(part) for part in found[1](value)]])


def _shortened(record: list[Any]) -> list[Any]:
    while record[-1] is _NOWHERE:
        record.pop()
    return record


def question(rule: list[Any]) -> list[Any]:
    """The parts of a flat rule that decide whether it may match, without places."""
    bare = [_NOTHING if number in _AFTER_MATCH else part for number, part in enumerate(rule)]
    bare[_VARIANTS] = [_TUPLE, *map(question, rule[_VARIANTS][1:])]
    return without_places(bare)


def without_places(value: list[Any]) -> list[Any]:
    """The same flat value without the places of its records."""
    if value[0] == 0:
        return _NOWHERE
    parts = [without_places(part) if part.__class__ is list else part for part in value]
    return _shortened(parts) if value[0] > 0 else parts


def built(value: Any) -> Any:
    """The value that was made flat."""
    if type(value) is not list:
        return value
    number = value[0]
    if number == 0:
        return ast.Span(value[1], value[2])
    if number == _SET:
        return frozenset(zip(value[1::2], value[2::2], strict=True))
    parts = [part if type(part) is not list else () if part == _NOTHING else built(part) for part in value[1:]]
    return _KINDS[number](*parts) if number > 0 else tuple(parts) if number == _TUPLE else ...


class Shared:
    """Values that many rules have in common, such as a kind or a range of opsets: each is stored and built once.

    Attributes:
        flat: the values, flat.
    """

    def __init__(self) -> None:
        self.flat: list[Any] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, values: Iterable[Any]) -> list[int]:
        """The positions of values in `flat`. New ones are added to it."""
        found = []
        for value in map(flat, values):
            number = self._numbers.setdefault(pack(value), len(self.flat))
            self.flat += [value] if number == len(self.flat) else []
            found.append(number)
        return found


class PackedTrees:
    """The trees of the rules of an entry, each read when it is first needed.

    Most runs look at few rules, and need only the parts that decide whether the rules may match. These parts are packed
    separately. The trees take ten times as much room, so they are the tail of the entry and mostly never read. The doc comments
    are read together, since a command that prints one often prints many.
    """

    def __init__(self, key: str, docs: str) -> None:
        self.key = key
        self._docs = docs

    @cached_property
    def docs(self) -> Sequence[Sequence[str]]:
        """The doc comment of each rule, by lines."""
        found: Sequence[Sequence[str]] = _decode(self._docs)
        return found

    def tree(self, number: int, code: str, source: diagnostics.SourceText) -> ast.Rule:
        """The tree of a rule. If the entry has gone since it was read, or is damaged, the rule is parsed again.

        Raises:
            RewriterError: the rule had to be parsed again, and its file has also changed.
        """
        data = resources.read_tail("rules", self.key, number)
        if data is not None:
            packed: ast.Rule = unpack(data)
            return packed
        resources.discard("rules", self.key)
        from rewriter.core.language.parse import parse
        from rewriter.core.language.rule_files import SharedDefines

        rules, _ = parse(source.text, source.path, SharedDefines().of(source.path))
        return next(rule for rule in rules.rules if rule.code == code)
