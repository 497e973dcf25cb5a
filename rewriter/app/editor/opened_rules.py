"""A rule file that is open in an editor: perhaps not saved, and usually unfinished."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.diagnostics import Diagnostic, SourceText
from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.header import EVIDENCE, KINDS, PHASES, SEVERITIES
from rewriter.core.language.parse import parse
from rewriter.core.language.rule_files import NAME, SharedDefines
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPES, Operator, history, latest_opset, operators, registered
from rewriter.core.language.syntax.words import PARTS, STATEMENTS
from rewriter.core.record import record
from rewriter.rule_tools.checks.check import check
from rewriter.rule_tools.checks.header import KEYS
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import message_pages

_WORD = re.compile(r"[A-Za-z_@][A-Za-z0-9_.]*")
_RULE = re.compile(r"^[ \t]*(?:rule|define)\b", re.MULTILINE)
_PART = re.compile(r"^[ \t]*(param|match|private|where|let|rewrite|test|table)\b", re.MULTILINE)
_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*[(.<])")
_NO_NAMES = frozenset(("const", "ordered", "maybe", "tensor", "input", "output", "graph", "inside", "_"))
_FENCE = re.compile(r"~~~.*?(?:~~~|\Z)", re.DOTALL)


@record(frozen=True, slots=True)
class Word:
    """A word of the text, and its place."""

    text: str
    start: int
    end: int


class OpenedRules:
    """One text, parsed once. All methods return results even if the text does not parse.

    Args:
        path: the path of the file, or "" if it was never saved.
    """

    def __init__(self, text: str, path: str = "") -> None:
        self.text, self.path = text, path
        self.source = SourceText(path, text)
        self._outside = _FENCE.sub(lambda found: re.sub(r"\S", " ", found[0]), text)

    @cached_property
    def shared(self) -> Mapping[str, ast.Define]:
        """The defines that other files of its folder share with it."""
        if not os.path.isdir(os.path.dirname(self.path)):
            return MappingProxyType({})
        try:
            return SharedDefines([self.source]).of(self.path)
        except RewriterError:
            return MappingProxyType({})

    @cached_property
    def _parsed(self) -> tuple[ast.RuleFile, list[Diagnostic]]:
        shared = {} if os.path.basename(self.path) == NAME else self.shared
        return parse(self.text, self.path, shared)

    @property
    def file(self) -> ast.RuleFile:
        """The rules that can be parsed."""
        return self._parsed[0]

    @cached_property
    def problems(self) -> list[Diagnostic]:
        """The messages of the compiler."""
        return [*self._parsed[1], *check(self.file)]

    @property
    def rules(self) -> list[Rule]:
        """The rules in the form that runs."""
        return [Rule(rule, self.path, self.source) for rule in self.file.rules]

    def word(self, offset: int) -> Word | None:
        """The word at a place."""
        for found in _WORD.finditer(self.text, self.text.rfind("\n", 0, offset) + 1):
            if found.start() > offset:
                return None
            if found.end() >= offset:
                text = found[0].rstrip(".")
                return Word(text, found.start(), found.start() + len(text))
        return None

    def rule_span(self, offset: int) -> ast.Span:
        """The text of the rule around a place, from its first line to the next rule."""
        starts = [found.start() for found in _RULE.finditer(self._outside)]
        before = [start for start in starts if start <= offset]
        after = [start for start in starts if start > offset]
        return ast.Span(before[-1] if before else 0, after[0] if after else len(self.text))

    def part(self, offset: int) -> str:
        """The part of a rule that a place lies in: "match", "where" and so on, "header", "model" in a test, "" outside."""
        if any(found.start() + 3 <= offset < max(found.end() - 2, found.start() + 4) for found in _FENCE.finditer(self.text)):
            return "model"
        span = self.rule_span(offset)
        parts = list(_PART.finditer(self._outside, span.start, max(offset, span.start)))
        if parts:
            return parts[-1][1]
        return "header" if self._outside.startswith("rule", span.start) else ""

    def names(self, offset: int) -> Iterator[Word]:
        """The names that the rule around a place binds, each at its binding: captures, labels, values and parameters."""
        span = self.rule_span(offset)
        parts = [*_PART.finditer(self._outside, span.start, span.end)]
        ends = [*(found.start() for found in parts[1:]), span.end]
        known: set[str] = set()
        for found, end in zip(parts, ends, strict=False):
            if found[1] in ("let", "param"):
                names = iter([_NAME.search(self._outside, found.end(), end)])
            elif found[1] == "match":
                names = _NAME.finditer(self._outside, found.end(), end)
            else:
                continue
            for one in names:
                if one is not None and one[0] not in known and self._binds(one, found.end()):
                    known.add(one[0])
                    yield Word(one[0], one.start(), one.end())

    def _binds(self, match: re.Match[str], start: int) -> bool:
        """Whether a word of a pattern is a name, and not a word of the language or an attribute."""
        word, before = match[0], self._outside[start : match.start()]
        if word in DTYPES or word in _NO_NAMES or before.endswith((".", "@", '"')) or before.count('"') % 2:
            return False
        inside = before.rfind("<") > before.rfind(">")
        return not inside or before.rstrip().endswith("=")


# Words that may be written at a place: operators, attributes, functions, names, keys of the header, codes.

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
    """The words that may be written at a place, each once. Editors show only the words that begin like the typed text."""
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
    """The attributes after `n.`, of the operators that the label may have."""
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


# Texts for a word under the mouse: operators by opset, functions, rules, defines, names.

_SENTENCE = 300  # characters of a description


def hover(opened: OpenedRules, offset: int) -> tuple[str, Word] | None:
    """The description of the word at a place, as Markdown, and the word."""
    word = opened.word(offset)
    if word is None:
        return None
    text = _operator(word.text) or _function(word.text) or _define(opened, word.text) or _rule(opened, word.text)
    text = text or _name(opened, offset, word.text)
    return (text, word) if text else None


def _operator(name: str) -> str:
    domain, _, op = name.rpartition(".")
    versions = history(op, domain) if op[:1].isupper() else ()
    if not versions:
        return ""
    lines = [_signature(version) for version in reversed(versions)]
    described = " ".join((registered(op, domain)[-1].doc or "").split())
    short = described if len(described) <= _SENTENCE else f"{described[:_SENTENCE].rsplit(' ', 1)[0]} ..."
    return "```\n" + "\n".join(lines) + f"\n```\n{short}"


def _signature(operator: Operator) -> str:
    attributes = [
        name + ("" if one.required else f"={one.default!r}" if one.default is not None else "?")
        for name, one in sorted(operator.attributes.items())
    ]
    shown = f"<{', '.join(attributes)}>" if attributes else ""
    name, _, operands = operator.signature.partition("(")
    outputs = ", ".join(
        formal.name + ("..." if formal.variadic else "?" if formal.optional else "") for formal in operator.outputs
    )
    gone = ", deprecated" if operator.deprecated else ""
    return f"opset {operator.since}..: {outputs} = {name}{shown}({operands}{gone}"


def _function(name: str) -> str:
    found = FUNCTIONS.get(name)
    return "" if found is None else f"```\n{found.signature}\n```\n{found.doc}"


def _define(opened: OpenedRules, name: str) -> str:
    found = next((one for one in (*opened.file.defines, *opened.shared.values()) if one.name == name), None)
    if found is None:
        return ""
    return f"```\n{found.text.strip()}\n```\n" + "\n".join(line.strip() for line in found.doc)


def _rule(opened: OpenedRules, code: str) -> str:
    page = message_pages().get(code)
    if page is not None:
        return f"**{code}**: {page.title}"
    if not (code[:1].isupper() and code[-1:].isdigit()):
        return ""
    rule = find_rule(code, opened.rules)
    return "" if rule is None else f"**{rule.code}** {rule.slug}\n\n" + "\n".join(line.strip() for line in rule.ast.doc)


def find_rule(code: str, own: Iterable[Rule]) -> Rule | None:
    """The rule of a code, in the open file or among the shipped rules."""
    return next((rule for rule in own if rule.code == code), None) or load_rules().get(code)


def _name(opened: OpenedRules, offset: int, name: str) -> str:
    name = name.partition(".")[0]
    found = next((one for one in opened.names(offset) if one.text == name), None)
    if found is None:
        return ""
    number = opened.source.line_col(found.start)[0]
    return f"`{name}`, bound in line {number}\n```\n{opened.source.line(number).strip()}\n```"
