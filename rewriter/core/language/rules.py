"""Sets of checked rules: what the engine runs and what the command line selects from, also by the consumers they are for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import Diagnostic, SourceText, suggest
from rewriter.core.language.header import RUNTIMES
from rewriter.core.language.rule import Rule
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import field, record, replace
from rewriter.core.resources import resource


def _hint(word: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown word."""
    near = suggest(word, candidates)
    return f"; did you mean {near}?" if near else ""


# Values of parameters as a person types them on a command line or in a configuration.

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "ints": "whole numbers such as 1,2,3"}


def parse_value(text: str, kind: str, role: str) -> object:
    """The value of a parameter of type `kind` (`op dim int float bool string dtype ints`); `role` names it in messages.

    Quotes around texts may be left out. An element type becomes its `TensorProto` number, a dimension an int or a name.

    Raises:
        RewriterError: the text is no such value.
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
        if kind in ("string", "dim"):
            return text
    if kind == "dtype":
        if text not in DTYPES:
            raise RewriterError(f"{role}: {text!r} is not an element type{_hint(text, DTYPES)}")
        return DTYPES[text]
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "bool":
            return _TRUTHS[text.lower()]
        if kind == "ints":
            inside = text.removeprefix("[").removesuffix("]")
            return [int(part) for part in inside.split(",") if part.strip()]
    except (ValueError, KeyError):
        raise RewriterError(f"{role}: {text!r} is not {_WANTED[kind]}") from None
    if not text:
        raise RewriterError(f"{role}: the value is empty")
    if kind == "dim" and text.lstrip("-").isdigit():
        return int(text)
    return text


def parse_setting(text: str, rules: Mapping[str, Rule]) -> tuple[tuple[str, str], object]:
    """Reads "SURG010.batch=B" into (("SURG010", "batch"), "B"), the value by the parameter's declared type.

    Raises:
        RewriterError: another form, no such rule or parameter, or a value that the parameter cannot take.
    """
    place, equals, value = text.partition("=")
    code, dot, name = place.strip().partition(".")
    if not (equals and dot and code and name):
        raise RewriterError(f"{text!r} is not a setting; write CODE.parameter=value")
    code = code.upper()
    rule = rules.get(code)
    if rule is None:
        raise RewriterError(f"cannot set {place.strip()}: there is no rule {code}{_hint(code, rules)}")
    code = rule.code  # maybe another rule's once
    params = {param.name: param for param in rule.ast.params}
    if name not in params:
        has = f"it has {', '.join(params)}" if params else "it has none"
        raise RewriterError(f"cannot set {place.strip()}: rule {code} has no parameter {name!r}; {has}")
    return (code, name), parse_value(value.strip(), params[name].type, place.strip())


WORDS = ("ALL", "DEFAULT", "NONE", "OPTIMIZE", "BASIC")
"""Selectors that are no codes."""


@record(frozen=True)
class RuleSet:
    """Rules ordered by code.

    Attributes:
        by_id: codes of the rules that were selected one by one; their exporter guard is not checked.
        settings: (code, parameter) → value.
        warnings: the compiler's warnings while loading.
        sources: the texts that the warnings point into.
        selected: whether `select` was called. A set as it was loaded also has rules that were not selected.
        aside: rules that were named together with others, for targets that were not chosen. They do not run.
        questions: repairs that only a person can decide about (`evidence: guess`) and that were not selected. They do not run.
        runtimes: runtimes that were chosen as targets. Models that they reject are also repaired if the installed runtime
            does not reject them.
    """

    rules: tuple[Rule, ...] = ()
    by_id: frozenset[str] = frozenset()
    settings: Mapping[tuple[str, str], object] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceText] = field(default_factory=dict, compare=False)
    selected: bool = False
    aside: tuple[Rule, ...] = ()
    questions: tuple[Rule, ...] = ()
    runtimes: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        ends = {rule.code: None for rule in (*self.rules[:1], *self.rules[-1:])}
        chosen = "chosen rule" if self.selected else "rule"
        return f"<RuleSet of {len(self):,} {chosen}{'s' * (len(self) != 1)}{': ' * bool(ends)}{' to '.join(ends)}>"

    def _repr_html_(self) -> str:
        """The HTML for notebooks: a row for each rule."""
        from rewriter.core.notebook import table

        return table(repr(self), ("code", "kind", "what is wrong"), [(one.code, one.kind.name, one.title) for one in self])

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def chosen_runtimes(self) -> frozenset[str]:
        """Codes of rules about a runtime that were selected, by their code or by choosing the runtime as the target."""
        return self.by_id | {rule.code for rule in self.rules if not self.runtimes.isdisjoint(rule.runtimes)}

    @cached_property
    def optimizes(self) -> bool:
        """Whether one of the rules makes models smaller or faster."""
        return any(rule.optimizes for rule in self.rules)

    @cached_property
    def _by_code(self) -> Mapping[str, Rule]:
        return {code: rule for rule in self.rules for code in rule.header.replaces} | {rule.code: rule for rule in self.rules}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the digests of all rules and the settings."""
        from hashlib import sha256

        lines = [f"{rule.code} {rule.digest}" for rule in self.rules]
        lines += [f"{code}.{name}={value!r}" for (code, name), value in sorted(self.settings.items())]
        return sha256("\n".join(lines).encode()).hexdigest()

    def get(self, code: str) -> Rule | None:
        """The rule of a code, or the one that took its place."""
        return self._by_code.get(code)

    def _now(self, names: Sequence[str]) -> list[str]:
        """The names with those codes replaced that rules no longer have."""
        return [self._by_code[name].code if name in self._by_code else name for name in names]

    def select(
        self,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        targets: Sequence[str] = (),
        *,
        guess: bool = False,
        files: frozenset[str] = frozenset(),
    ) -> RuleSet:
        """The rules that are named and not ignored, and those for the chosen targets.

        The first two lists contain codes ("MX001"), prefixes of codes ("MX"), "ALL", "NONE", "DEFAULT" for the rules that run
        by default, "OPTIMIZE" for the rules that make a model smaller or faster, or "BASIC" for the exact ones of these. An
        empty selection means "DEFAULT". If both lists name a rule, the longer name decides; of equally long names, ignoring
        wins. Targets ("tensorrt", or "all") add their rules of kind exact, approx and repair. A rule for another target is
        selected only if its whole code is named. So is a repair with `evidence: guess`, unless `guess` is set, which also adds
        such repairs to DEFAULT. Rules of `files` are always selected, except guesses.

        Raises:
            RewriterError: a name matches no rule, or no rule is for a target.
        """
        select, ignore = self._now(select), self._now(ignore)
        for name in (*select, *ignore):
            self._known(name)
        wanted_targets = targets_meant(targets, self.rules)
        chosen: list[Rule] = []
        aside: list[Rule] = []
        questions: list[Rule] = []
        for rule in self.rules:
            meant = not rule.targets or (rule.path in files and not targets) or not wanted_targets.isdisjoint(rule.targets)
            wanted = max(_strength(name, rule) for name in select or ("DEFAULT",))
            if (
                rule.path in files
                or (meant and rule.header.on_target)
                or (rule.guess and "DEFAULT" in (select or ("DEFAULT",)))
            ):
                wanted = max(wanted, 0)
            if wanted > max((_strength(name, rule) for name in ignore), default=-1):
                if rule.guess and not guess and rule.code not in select:
                    questions.append(rule)
                else:
                    (chosen if meant or rule.code in select else aside).append(rule)
        codes = {rule.code for rule in chosen}
        return replace(
            self,
            rules=tuple(chosen),
            by_id=frozenset(codes & set(select)),
            selected=True,
            aside=tuple(aside),
            questions=tuple(questions),
            runtimes=wanted_targets & frozenset(RUNTIMES),
        )

    def with_settings(self, texts: Iterable[str]) -> RuleSet:
        """The same rules with parameters set from "CODE.param=value" lines; the last one wins.

        Raises:
            RewriterError: no such rule or parameter, or a value of the wrong type.
        """
        return replace(self, settings={**self.settings, **dict(parse_setting(text, self._by_code) for text in texts)})

    def _known(self, name: str) -> None:
        if name in WORDS or (name and any(rule.code.startswith(name) for rule in self.rules)):
            return
        raise RewriterError(f"no rule code starts with {name!r}{_hint(name, [*self._by_code, *WORDS])}")


def _strength(name: str, rule: Rule) -> int:
    """How exactly a selector names a rule: -1 not at all, otherwise the more the better."""
    if name == "NONE":
        return -1
    if name == "ALL":
        return 0
    if name == "DEFAULT":
        return 0 if rule.default else -1
    if name in ("OPTIMIZE", "BASIC"):
        return 0 if rule.optimizes and (name == "OPTIMIZE" or rule.kind.name == "exact") else -1
    return len(name) if rule.code.startswith(name) else -1


def code_key(code: str) -> tuple[str, int]:
    """Codes in the order of their numbers."""
    letters = code.rstrip("0123456789")
    return letters, int(code[len(letters) :] or 0)


EVERY_TARGET = "all"


def targets_meant(targets: Iterable[str], rules: Iterable[Rule]) -> frozenset[str]:
    """The targets that are named; "all" means every target of a rule. A target may have only a recipe.

    Raises:
        RewriterError: a target has neither a rule nor a recipe.
    """
    wanted = set(targets)
    known = sorted({target for rule in rules for target in (*rule.targets, *rule.runtimes)} | _recipes()) if wanted else []
    if EVERY_TARGET in wanted and known:
        wanted = wanted - {EVERY_TARGET} | set(known)
    for name in sorted(wanted):
        if name not in known:
            listed = ", ".join(known) or "none"
            raise RewriterError(f"no rule is for target {name!r}{_hint(name, known)}; targets: {listed}")
    return frozenset(wanted)


def _recipes() -> set[str]:
    return {path.stem for path in resource("targets").glob("*.toml")} - {"messages"}
