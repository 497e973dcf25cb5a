"""What may be written at a place: operators, attributes, functions, names, keys of the header, codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from rewriter.editor.opened_rules import OpenedRules
from rewriter.language.checks.header import KEYS
from rewriter.language.dtypes import DTYPES
from rewriter.language.functions import FUNCTIONS
from rewriter.language.header import EVIDENCE, KINDS, PHASES, SEVERITIES
from rewriter.language.schema import history, latest_opset, operators
from rewriter.language.syntax.words import PARTS, STATEMENTS
from rewriter.record import record

Kind = Literal["operator", "attribute", "function", "name", "key", "value", "type", "keyword"]

_VALUES = {"kind": KINDS, "evidence": EVIDENCE, "phase": PHASES, "severity": SEVERITIES, "default": ("on", "off")}
_ATTRIBUTES = re.compile(r"([A-Za-z_][\w.]*)[ \t]*<[^<>{}()]*$")
_FIELD = re.compile(r"\b([a-z_]\w*)\.\w*$")
_VALUE = re.compile(r"\b(\w+)[ \t]*:[ \t]*\w*$")


@record(frozen=True, slots=True)
class Proposal:
    """One word that may be written."""

    word: str
    kind: Kind
    detail: str = ""


def proposals(opened: OpenedRules, offset: int) -> list[Proposal]:
    """What may be written at a place, each word once; whoever shows it leaves out what does not begin as what is typed."""
    found = {proposal.word: proposal for proposal in reversed(list(_all(opened, offset)))}
    return list(reversed(found.values()))


def _all(opened: OpenedRules, offset: int) -> Iterator[Proposal]:
    part, line = opened.part(offset), opened.text[opened.text.rfind("\n", 0, offset) + 1 : offset]
    if line.lstrip().startswith(("#", "///")) or line.count('"') % 2:
        return
    attributes = _ATTRIBUTES.search(line)
    if attributes is not None and attributes[1][:1].isupper():
        yield from _attributes(attributes[1])
    elif part == "header":
        yield from _header(line)
    elif part == "model":
        yield from _operators()
    elif part in ("match", "rewrite"):
        yield from _fields(opened, offset, line)
        yield from (Proposal(word.text, "name") for word in opened.names(offset))
        yield from _operators()
        yield from _keywords(("const", "maybe", "ordered") if part == "match" else STATEMENTS)
        yield from _keywords(PARTS)
    elif part in ("where", "let", "private"):
        yield from _fields(opened, offset, line)
        yield from (Proposal(word.text, "name") for word in opened.names(offset))
        yield from (Proposal(name, "function", f"{one.signature}: {one.doc}") for name, one in FUNCTIONS.items())
        yield from (Proposal(one.name, "function", one.text) for one in (*opened.file.defines, *opened.shared.values()))
        yield from (Proposal(name, "type") for name in DTYPES)
        yield from _keywords(PARTS)
    else:
        yield from _keywords(("rule", "define", "with", "becomes", "unchanged", "twin", "source", "set", *PARTS))


def _attributes(name: str) -> Iterator[Proposal]:
    domain, _, op = name.rpartition(".")
    for version in reversed(history(op, domain)):
        for attribute in version.attributes.values():
            default = "" if attribute.default is None else f" = {attribute.default!r}"
            yield Proposal(attribute.name, "attribute", f"{attribute.kind}{default}")


def _fields(opened: OpenedRules, offset: int, line: str) -> Iterator[Proposal]:
    """Behind `n.` the attributes of the operators that the label may have."""
    field = _FIELD.search(line)
    span = opened.rule_span(offset)
    label = None if field is None else re.search(rf"\[{field[1]}\][^=\n]*=\s*\(?([^<({{]*)", opened.text[span.start : span.end])
    for name in () if label is None else re.findall(r"[A-Z][\w.]*", label[1]):
        yield from _attributes(name)
    if label is not None:
        yield from _keywords(("inputs", "op"))


def _header(line: str) -> Iterator[Proposal]:
    value = _VALUE.search(line)
    if value is not None and value[1] in _VALUES:
        yield from (Proposal(word, "value") for word in _VALUES[value[1]])
    else:
        yield from (Proposal(key, "key") for key in KEYS)
        yield from _keywords(PARTS)


def _operators() -> Iterator[Proposal]:
    latest = latest_opset()
    for name in operators():
        newest = history(name)[-1]
        if not newest.deprecated and newest.since <= latest:
            yield Proposal(name, "operator", newest.signature)


def _keywords(words: Iterable[str]) -> Iterator[Proposal]:
    yield from (Proposal(word, "keyword") for word in words)
