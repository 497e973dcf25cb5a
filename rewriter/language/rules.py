"""Sets of checked rules: what the engine runs and what the command line selects from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from rewriter.errors import RewriterError
from rewriter.language.diagnostics import Diagnostic, SourceText, suggest
from rewriter.language.header import RUNTIMES
from rewriter.language.rule import Rule
from rewriter.language.settings import parse_setting
from rewriter.language.targets import targets_meant
from rewriter.record import field, record, replace

WORDS = ("ALL", "DEFAULT", "NONE", "OPTIMIZE", "BASIC")
"""Selectors that are no codes."""


@record(frozen=True)
class RuleSet:
    """Rules ordered by code.

    Attributes:
        by_id: codes of the rules that were asked for one by one; their exporter guard is not asked.
        settings: (code, parameter) → value.
        warnings: what the compiler found doubtful while loading.
        sources: the texts that the warnings point into.
        selected: whether `select` was called; a set as it was loaded also holds rules that nobody asked for.
        aside: rules that were named, but with others, and are for targets that were not chosen. They do not run.
        questions: repairs that only a person can decide about (`evidence: guess`), and that nobody asked for. They do not run.
        runtimes: runtimes that were chosen as targets: what they refuse is repaired also where the installed one does not.
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

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def chosen_runtimes(self) -> frozenset[str]:
        """Codes of rules about a runtime that were asked for, by their code or by choosing the runtime as the target."""
        return self.by_id | {rule.code for rule in self.rules if not self.runtimes.isdisjoint(rule.runtimes)}

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
    ) -> RuleSet:
        """The rules that are named and not ignored, and those for the chosen targets.

        The first two lists hold codes ("MX001"), prefixes of codes ("MX"), "ALL", "NONE", "DEFAULT" for what runs by
        default, "OPTIMIZE" for what makes a model smaller or faster, or "BASIC" for what of that is exact; nothing selected
        means "DEFAULT". The longer name decides where both lists name a rule; of equally long ones,
        ignoring wins. Targets ("tensorrt", or "all") add their rules of kind exact, approx and repair, and no rule for other
        targets is taken unless its whole code is named. Nor is a repair with `evidence: guess`, unless `guess` says so, which
        also adds those of them to DEFAULT.

        Raises:
            RewriterError: a name fits no rule, or no rule is for a target.
        """
        select, ignore = self._now(select), self._now(ignore)
        for name in (*select, *ignore):
            self._known(name)
        wanted_targets = targets_meant(targets, self.rules)
        chosen: list[Rule] = []
        aside: list[Rule] = []
        questions: list[Rule] = []
        for rule in self.rules:
            meant = not rule.targets or not wanted_targets.isdisjoint(rule.targets)
            wanted = max(_strength(name, rule) for name in select or ("DEFAULT",))
            if (meant and rule.header.on_target) or (rule.guess and "DEFAULT" in (select or ("DEFAULT",))):
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
        near = suggest(name, [*self._by_code, *WORDS])
        hint = f"; did you mean {near}?" if near else ""
        raise RewriterError(f"no rule is called {name!r} and no code begins so{hint}")


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
