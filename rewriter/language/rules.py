"""Checked rules, and sets of them: what the engine runs and what the command line selects from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.errors import RewriterError
from rewriter.language import ast as tree
from rewriter.language.ast import Kind, OpsetRange
from rewriter.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.language.header import RUNTIMES, Header, read_header
from rewriter.language.rule_files import find_rule_files
from rewriter.language.targets import targets_meant
from rewriter.language.walk import pattern_nodes, said
from rewriter.record import field, record, replace

if TYPE_CHECKING:
    from rewriter.language.cache.kept_rules import Library
    from rewriter.language.cache.rule_store import Shelf

"""Stands for each target that a rule is for."""

FRONT = ("code", "slug", "doc", "header", "digest", "wanted")
Front = tuple[str, str, str, Header, str, tuple[frozenset[tuple[str, str]], ...]]
Place = tuple["Shelf", int, bytes]
"""Where the tree of a kept rule is, and its part that decides whether the rule may match, packed."""


class Rule:
    """One rule that the compiler has accepted.

    Attributes:
        path: the file that it stands in, as it was named when loading.
        source: the text of that file.
    """

    def __init__(self, ast: tree.Rule, path: str, source: SourceText) -> None:
        self.path = path
        self.source = source
        self._tree: tree.Rule | Place = ast

    @classmethod
    def kept(cls, place: Place, front: Front, source: SourceText) -> Rule:
        """A rule whose tree is read when it is asked for; what `front` says is known without it."""
        rule = cls.__new__(cls)
        rule.path = source.path
        rule.source = source
        rule._tree = place
        rule.__dict__.update(zip(FRONT, front, strict=True))
        return rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and (self.path, self.digest, self.ast) == (other.path, other.digest, other.ast)

    def __hash__(self) -> int:
        return hash((self.path, self.code))

    def __repr__(self) -> str:
        return f"Rule({self.code}, {self.path!r})"

    @property
    def front(self) -> Front:
        """What is asked of every rule, in the order of `FRONT`."""
        return (self.code, self.slug, self.doc, self.header, self.digest, self.wanted)

    @property
    def ast(self) -> tree.Rule:
        """The rule as it was written."""
        if isinstance(self._tree, tuple):
            shelf, number, _ = self._tree
            self._tree = shelf.tree(number, self.code, self.source)
        return self._tree

    @property
    def question(self) -> tree.Rule:
        """Its pattern, conditions, values and parameters, which decide whether it may match; maybe nothing else."""
        if isinstance(self._tree, tuple):
            from rewriter.language.cache.pack import unpack

            question: tree.Rule = unpack(self._tree[2])
            return question
        return self._tree

    @cached_property
    def code(self) -> str:
        return self.ast.code

    @cached_property
    def slug(self) -> str:
        return self.ast.slug

    @property
    def title(self) -> str:
        """The first line of the doc comment, or the slug in words."""
        first = next((line.strip() for line in self.doc.split("\n") if line.strip()), "")
        return first or self.slug.replace("-", " ")

    @cached_property
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
    def evidence(self) -> tree.Evidence | None:
        """What makes a repair certain; None for the other kinds."""
        return self.header.evidence

    @property
    def guess(self) -> bool:
        """True when the model cannot tell whether the repair is due, so that it runs only when it is selected."""
        return self.header.evidence is not None and self.header.evidence.name == "guess"

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtime whose missing kernels the rule is about; empty: none."""
        evidence = self.header.evidence
        return (evidence.runtime,) if evidence is not None and evidence.runtime else ()

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
    def targets(self) -> tuple[str, ...]:
        """Consumers for which the rule is; empty: for all."""
        return self.header.targets

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the rule says, in hexadecimal; layout and comments do not change it."""
        from hashlib import sha256

        return sha256(_canonical(self.ast).encode()).hexdigest()

    @cached_property
    def wanted(self) -> tuple[frozenset[tuple[str, str]], ...]:
        """Operators, as (domain, name), of which a model must have one of each set for the rule to match anywhere.

        What a parameter names is not among them. Nothing is said of a rule with a parameter that has to be set, so that its
        being missed does not depend on the model.
        """
        if any(param.default is None for param in self.ast.params):
            return ()
        nodes = (node for node in pattern_nodes(self.ast.match) if not any(op.param for op in node.ops))
        return tuple(frozenset(("" if op.domain == "ai.onnx" else op.domain, op.name) for op in node.ops) for node in nodes)


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

    @property
    def chosen_runtimes(self) -> frozenset[str]:
        """Codes of rules about a runtime that were asked for, by their code or by choosing the runtime as the target."""
        return self.by_id | {rule.code for rule in self.rules if not self.runtimes.isdisjoint(rule.runtimes)}

    @cached_property
    def _by_code(self) -> Mapping[str, Rule]:
        return {rule.code: rule for rule in self.rules}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the digests of all rules and the settings."""
        from hashlib import sha256

        lines = [f"{rule.code} {rule.digest}" for rule in self.rules]
        lines += [f"{code}.{name}={value!r}" for (code, name), value in sorted(self.settings.items())]
        return sha256("\n".join(lines).encode()).hexdigest()

    def get(self, code: str) -> Rule | None:
        return self._by_code.get(code)

    def select(
        self,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        targets: Sequence[str] = (),
        *,
        guess: bool = False,
    ) -> RuleSet:
        """The rules that are named and not ignored, and those for the chosen targets.

        The first two lists hold codes ("MX001"), prefixes of codes ("MX"), "ALL", "NONE", or "DEFAULT" for what runs by
        default; nothing selected means "DEFAULT". The longer name decides where both lists name a rule; of equally long ones,
        ignoring wins. Targets ("tensorrt", or "all") add their rules of kind exact, approx and repair, and no rule for other
        targets is taken unless its whole code is named. Nor is a repair with `evidence: guess`, unless `guess` says so, which
        also adds those of them to DEFAULT.

        Raises:
            RewriterError: a name fits no rule, or no rule is for a target.
        """
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
        from rewriter.language.settings import parse_setting

        return replace(self, settings={**self.settings, **dict(parse_setting(text, self) for text in texts)})

    def _known(self, name: str) -> None:
        if name in ("ALL", "DEFAULT", "NONE") or (name and any(rule.code.startswith(name) for rule in self.rules)):
            return
        near = suggest(name, [*self._by_code, "ALL", "DEFAULT", "NONE"])
        hint = f"; did you mean {near}?" if near else ""
        raise RewriterError(f"no rule is called {name!r} and no code begins so{hint}")


def load_rules(paths: Iterable[Path | str] | None = None) -> RuleSet:
    """Reads, parses and checks rule files; folders are searched for `*.rules`. None: the rules that are shipped.

    What was found right once is kept (`kept_rules`), and is not parsed and checked again.

    Raises:
        RewriterError: a path does not exist, cannot be read or is too big.
        RuleFileError: with everything that is wrong in all files, warnings included.
    """
    from rewriter.language.cache.kept_rules import Library

    library = Library(find_rule_files(paths))
    rules, warnings = library.read("checked") or _compiled(library)
    ordered = tuple(sorted(rules, key=lambda rule: _code_key(rule.code)))
    doubtful = {diagnostic.path for diagnostic in warnings}
    return RuleSet(
        ordered, warnings=warnings, sources={source.path: source for source in library.sources if source.path in doubtful}
    )


def _compiled(library: Library) -> tuple[list[Rule], tuple[Diagnostic, ...]]:
    """Parses and checks; what is right is kept. Raises RuleFileError."""
    from rewriter.collector import collector_off

    with collector_off():
        rules, found = _checked(library.texts)
    if any(not diagnostic.is_warning for diagnostic in found):
        raise RuleFileError(found, {source.path: source for source in library.texts})
    from rewriter.language.cache.operator_table import write_table

    write_table()
    library.write("checked", rules, found)
    return rules, tuple(found)


def _checked(sources: Iterable[SourceText]) -> tuple[list[Rule], list[Diagnostic]]:
    """The rules of all files, and all that the compiler says of them."""
    from rewriter.language.check import check
    from rewriter.language.checks.duplicate_codes import check_codes
    from rewriter.language.parse import parse

    found: list[Diagnostic] = []
    rules: list[Rule] = []
    for source in sources:
        rule_file, problems = parse(source.text, source.path)
        found.extend(problems)
        found.extend(check(rule_file))
        rules.extend(Rule(rule, source.path, source) for rule in rule_file.rules)
    found.extend(check_codes(rules))
    return rules, found


def _strength(name: str, rule: Rule) -> int:
    """How exactly a selector names a rule: -1 not at all, otherwise the more the better."""
    if name == "NONE":
        return -1
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
    if isinstance(value, tuple):
        return f"({','.join(map(_canonical, value))})"
    fields = said(value.__class__)
    if fields is None:
        return repr(value)
    return f"{type(value).__name__}({','.join([f'{name}={_canonical(getattr(value, name))}' for name in fields])})"
