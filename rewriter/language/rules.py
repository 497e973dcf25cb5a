"""Checked rules, and sets of them: what the engine runs and what the command line selects from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rewriter.errors import RewriterError
from rewriter.language import ast as tree
from rewriter.language.ast import Kind, OpsetRange
from rewriter.language.check import check
from rewriter.language.check_header import CODE
from rewriter.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.language.header import Header, read_header
from rewriter.language.parse import parse
from rewriter.language.rule_files import find_rule_files, read_rule_file
from rewriter.language.settings import parse_value


@dataclass(frozen=True)
class Rule:
    """One rule that the compiler has accepted.

    Attributes:
        ast: the rule as it was written.
        path: the file that it stands in, as it was named when loading.
        source: the text of that file.
    """

    ast: tree.Rule
    path: str
    source: SourceText = field(compare=False)

    @property
    def code(self) -> str:
        return self.ast.code

    @property
    def slug(self) -> str:
        return self.ast.slug

    @property
    def title(self) -> str:
        """The first line of the doc comment, or the slug in words."""
        first = next((line.strip() for line in self.ast.doc if line.strip()), "")
        return first or self.slug.replace("-", " ")

    @property
    def doc(self) -> str:
        """The doc comment."""
        return "\n".join(self.ast.doc)

    @cached_property
    def header(self) -> Header:
        return read_header(self.ast.meta)

    @property
    def kind(self) -> Kind:
        return self.header.kind

    @property
    def phase(self) -> str:
        return self.header.phase

    @property
    def severity(self) -> str:
        return self.header.severity

    @property
    def exporters(self) -> tuple[str, ...]:
        """Names of the exporters whose models the rule is for; empty: any."""
        return self.header.exporters

    @property
    def versions(self) -> str | None:
        """The exporter versions that it is for, as comparisons: ">=1.3,<1.9"."""
        return self.header.versions

    @property
    def opset(self) -> OpsetRange:
        return self.header.opset

    @property
    def ir(self) -> OpsetRange:
        return self.header.ir

    @property
    def needs_source(self) -> bool:
        return self.header.needs_source

    @property
    def before(self) -> tuple[str, ...]:
        """Codes of the rules that this one goes before where both match."""
        return self.header.before

    @property
    def issues(self) -> tuple[str, ...]:
        return self.header.issues

    @property
    def default(self) -> bool:
        """True when the rule runs without being asked for."""
        return self.header.default

    @property
    def target(self) -> str | None:
        return self.header.target

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the rule says, in hexadecimal; layout and comments do not change it."""
        return hashlib.sha256(_canonical(self.ast).encode()).hexdigest()


@dataclass(frozen=True)
class RuleSet:
    """Rules ordered by code.

    Attributes:
        by_id: codes of the rules that were asked for one by one; their exporter guard is not asked.
        settings: (code, parameter) → value.
        warnings: what the compiler found doubtful while loading.
        sources: the texts that the warnings point into.
        selected: whether `select` was called; a set as it was loaded also holds rules that nobody asked for.
    """

    rules: tuple[Rule, ...] = ()
    by_id: frozenset[str] = frozenset()
    settings: Mapping[tuple[str, str], object] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceText] = field(default_factory=dict, compare=False)
    selected: bool = False

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def _by_code(self) -> Mapping[str, Rule]:
        return {rule.code: rule for rule in self.rules}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the digests of all rules and the settings."""
        lines = [f"{rule.code} {rule.digest}" for rule in self.rules]
        lines += [f"{code}.{name}={value!r}" for (code, name), value in sorted(self.settings.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def get(self, code: str) -> Rule | None:
        return self._by_code.get(code)

    def select(self, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> RuleSet:
        """The rules that are named and not ignored.

        Both lists hold codes ("MX001"), prefixes of codes ("MX"), "ALL", or "DEFAULT" for what runs unasked; nothing selected
        means "DEFAULT". The longer name decides where both lists name a rule; of equally long ones, ignoring wins.

        Raises:
            RewriterError: a name fits no rule.
        """
        for name in (*select, *ignore):
            self._known(name)
        chosen = []
        for rule in self.rules:
            wanted = max((_strength(name, rule) for name in select or ("DEFAULT",)), default=-1)
            if wanted > max((_strength(name, rule) for name in ignore), default=-1):
                chosen.append(rule)
        codes = {rule.code for rule in chosen}
        return replace(self, rules=tuple(chosen), by_id=frozenset(codes & set(select)), selected=True)

    def with_settings(self, texts: Iterable[str]) -> RuleSet:
        """The same rules with parameters set from "CODE.param=value" lines; the last one wins.

        Raises:
            RewriterError: no such rule or parameter, or a value of the wrong type.
        """
        return replace(self, settings={**self.settings, **dict(parse_setting(text, self) for text in texts)})

    def _known(self, name: str) -> None:
        if name in ("ALL", "DEFAULT") or (name and any(rule.code.startswith(name) for rule in self.rules)):
            return
        near = suggest(name, [*self._by_code, "ALL", "DEFAULT"])
        hint = f"; did you mean {near}?" if near else ""
        raise RewriterError(f"no rule is called {name!r} and no code begins so{hint}")


def load_rules(paths: Iterable[Path | str] | None = None) -> RuleSet:
    """Reads, parses and checks rule files; folders are searched for `*.rules`. None: the rules that are shipped.

    Raises:
        RewriterError: a path does not exist, cannot be read or is too big.
        RuleFileError: with everything that is wrong in all files, warnings included.
    """
    sources: dict[str, SourceText] = {}
    found: list[Diagnostic] = []
    rules: list[Rule] = []
    for path in find_rule_files(paths):
        source = SourceText(str(path), read_rule_file(path))
        sources[source.path] = source
        rule_file, problems = parse(source.text, source.path)
        found.extend(problems)
        found.extend(check(rule_file))
        rules.extend(Rule(rule, source.path, source) for rule in rule_file.rules)
    found.extend(_check_set(rules))
    if any(not diagnostic.is_warning for diagnostic in found):
        raise RuleFileError(found, sources)
    ordered = tuple(sorted(rules, key=lambda rule: _code_key(rule.code)))
    doubtful = {diagnostic.path for diagnostic in found}
    return RuleSet(ordered, warnings=tuple(found), sources={path: text for path, text in sources.items() if path in doubtful})


def parse_setting(text: str, rules: RuleSet) -> tuple[tuple[str, str], object]:
    """Reads "SURG010.batch=B" into (("SURG010", "batch"), "B"), the value by the parameter's declared type.

    Raises:
        RewriterError: another form, no such rule or parameter, or a value that the parameter cannot take.
    """
    place, equals, value = text.partition("=")
    code, dot, name = place.strip().partition(".")
    if not (equals and dot and code and name):
        raise RewriterError(f"{text!r} is not a setting; write CODE.parameter=value")
    rule = rules.get(code)
    if rule is None:
        near = suggest(code, [rule.code for rule in rules])
        raise RewriterError(
            f"cannot set {place.strip()}: there is no rule {code}" + (f"; did you mean {near}?" if near else "")
        )
    params = {param.name: param for param in rule.ast.params}
    if name not in params:
        has = f"it has {', '.join(params)}" if params else "it has none"
        raise RewriterError(f"cannot set {place.strip()}: rule {code} has no parameter {name!r}; {has}")
    return (code, name), parse_value(value.strip(), params[name].type, place.strip())


# --- Checks between rules ------------------------------------------------------------------------------------------------


def _check_set(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Codes are unique across files; `before` names rules and does not go round in circles."""
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.code, rule)
        if other.path != rule.path:
            line, _ = other.source.line_col(other.ast.code_span.start)
            notes = (f"the other one is `{other.slug}` at {other.path}:{line}",)
            yield Diagnostic("E401", f"two rules have the code {rule.code}", rule.ast.code_span, "again", notes, path=rule.path)
    for rule in rules:
        item = next((item for item in rule.ast.meta if item.key == "before"), None)
        for code in rule.before if item is not None else ():
            assert item is not None
            if code not in first and CODE.fullmatch(code):
                near = suggest(code, first)
                helps = (f"did you mean `{near}`?",) if near else ()
                message = f"`before: {code}` names no rule that is loaded"
                yield Diagnostic("W402", message, item.value_span, "without effect", (), helps, rule.path)
            elif (circle := _circle(rule.code, code, first)) is not None and rule.code == min(circle):
                message = f"`before` goes round in a circle: {' before '.join(circle)}"
                yield Diagnostic("E403", message, item.value_span, "who is first?", path=rule.path)


def _circle(start: str, following: str, rules: Mapping[str, Rule]) -> list[str] | None:
    """A way along `before` from `following` back to `start`, as codes from start to start."""
    ways = [[start, following]]
    seen = {following}
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        for code in rules[way[-1]].before if way[-1] in rules else ():
            if code not in seen:
                seen.add(code)
                ways.append([*way, code])
    return None


def _strength(name: str, rule: Rule) -> int:
    """How exactly a selector names a rule: -1 not at all, otherwise the more the better."""
    if name == "ALL":
        return 0
    if name == "DEFAULT":
        return 0 if rule.default else -1
    return len(name) if rule.code.startswith(name) else -1


def _code_key(code: str) -> tuple[str, int]:
    letters = code.rstrip("0123456789")
    return letters, int(code[len(letters) :] or 0)


def _canonical(value: Any) -> str:
    """A text that is the same for the same tree, wherever it stood in its file."""
    if is_dataclass(value):
        parts = (f"{f.name}={_canonical(getattr(value, f.name))}" for f in fields(value) if not f.name.endswith("span"))
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(map(_canonical, value))})"
    return repr(value)
