"""Checked rules, and sets of them: what the engine runs and what the command line selects from, also by the consumers they are
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast as tree
from rewriter.core.language.ast import Kind, OpsetRange, canonical, pattern_nodes
from rewriter.core.language.diagnostics import Diagnostic, SourceText, suggest
from rewriter.core.language.header import RUNTIMES, Header, read_header
from rewriter.core.language.schema import DTYPES, history
from rewriter.core.record import field, getter, names, record, replace
from rewriter.core.resources import resource

if TYPE_CHECKING:
    from rewriter.core.language.rule_files import PackedTrees


LABELS = ("Why", "Fix", "Exporters", "Consumers", "Safe because")
"""Of the paragraphs of a doc comment, in their order."""
_IDENTITY = ("code", "slug", "title", "digest")
_HEADER = names(Header) or ()
Front = tuple[Sequence[str], Sequence[Any]]
"""The data that are needed of every rule: those of `_IDENTITY`, then its wanted operators and the fields of its header, which
many rules have in common.
"""

_LAYOUT = frozenset({"table", "row", "doc"})
"""Fields that do not change the effect of a rule: comments, and its table or row."""

Place = tuple["PackedTrees", int, str]
"""Where the tree of a rule from the cache is, and its part that decides whether the rule may match, packed."""


class Rule:
    """One rule that the compiler has accepted.

    Attributes:
        path: the file of the rule, as it was named when loading.
        source: the text of that file.
    """

    def __init__(self, ast: tree.Rule, path: str, source: SourceText) -> None:
        self.path = path
        self.source = source
        self._tree: tree.Rule | Place = ast

    @classmethod
    def from_cache(cls, place: Place, front: Front, source: SourceText) -> Rule:
        """A rule whose tree is read when it is first needed. The data of `front` are known without it."""
        rule = cls.__new__(cls)
        rule.path = source.path
        rule.source = source
        rule._tree = place
        identity, (wanted, *header) = front
        rule.__dict__.update(zip(_IDENTITY, identity, strict=True), wanted=wanted, header=Header(*header))
        return rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and (self.path, self.digest, self.ast) == (other.path, other.digest, other.ast)

    def __hash__(self) -> int:
        return hash((self.path, self.code))

    def __repr__(self) -> str:
        return f"Rule({self.code}, {self.path!r})"

    @property
    def front(self) -> Front:
        """What `from_cache` takes."""
        return getter(_IDENTITY)(self), (self.wanted, *getter(_HEADER)(self.header))

    @property
    def ast(self) -> tree.Rule:
        """The rule as it was written."""
        if isinstance(self._tree, tuple):
            trees, number, _ = self._tree
            self._tree = trees.tree(number, self.code, self.source)
        return self._tree

    @cached_property
    def variants(self) -> tuple[Rule, ...]:
        """A rule for each pattern of this one: itself, and if its pattern has a choice, one for each other form."""
        forms = (replace(one, doc=self.ast.doc) for one in self.ast.variants)  # the doc comment is written once
        return tuple(Rule(one, self.path, self.source) for one in forms) or (self,)

    @property
    def question(self) -> tree.Rule:
        """Its pattern, conditions, values and parameters, which decide whether it may match; maybe nothing else."""
        if isinstance(self._tree, tuple):
            from rewriter.core.language.rule_files import unpack

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
    def text(self) -> str:
        """The rule as it is written; the row of a table as it would be without the table."""
        from rewriter.core.language.code_table import row_text

        span, row = self.ast.span, self.ast.row
        return self.source.text[span.start : span.end] if row is None else row_text(self.source.text, self.ast, row)

    def words(self, span: tree.Span) -> str:
        """The text of the rule at one place, on one line."""
        row = self.ast.row
        text = self.source.text[span.start : span.end]
        if row is not None and "@" in text:
            from rewriter.core.language.code_table import filled_words

            text = filled_words(text, row)
        return " ".join(text.split())

    def line(self, span: tree.Span) -> int:
        """The line of the file in which a place of the rule is, counted from 1; 0 for no place."""
        return self.source.line_col(span.start)[0] if span != tree.NOWHERE else 0

    @cached_property
    def title(self) -> str:
        """The first line of the doc comment, or the slug in words."""
        first = next((line.strip() for line in self.doc.split("\n") if line.strip()), "")
        return first or self.slug.replace("-", " ")

    @cached_property
    def doc(self) -> str:
        """The doc comment."""
        return "\n".join(self._tree[0].docs[self._tree[1]] if isinstance(self._tree, tuple) else self._tree.doc)

    @property
    def paragraphs(self) -> dict[str, str]:
        """The labelled paragraphs of the doc comment, each on one line, by their labels."""
        return paragraphs(self.doc.split("\n"))

    @cached_property
    def header(self) -> Header:
        return read_header(self.ast.meta)

    @property
    def kind(self) -> Kind:
        return self.header.kind

    @property
    def evidence(self) -> tree.Evidence | None:
        """The evidence of a repair; None for the other kinds."""
        return self.header.evidence

    @property
    def guess(self) -> bool:
        """True if the model does not show whether the repair is needed, so that it runs only when it is selected."""
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
        """Codes of the rules that this one goes before if both match."""
        return self.header.before

    @property
    def issues(self) -> tuple[str, ...]:
        return self.header.issues

    @property
    def default(self) -> bool:
        """True if the rule runs without being selected."""
        return self.header.default

    @property
    def optimizes(self) -> bool:
        """True when the rule makes models smaller or faster for every consumer, and keeps their numbers within its bound."""
        return self.kind.name in ("exact", "approx") and self.phase in ("optimize", "cleanup") and not self.targets

    @property
    def targets(self) -> tuple[str, ...]:
        """Consumers for which the rule is; empty: for all."""
        return self.header.targets

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rule's content, in hexadecimal. Layout and comments do not change it."""
        from hashlib import sha256

        return sha256(canonical(self.ast, _LAYOUT).encode()).hexdigest()

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Operators that only a consumer of the rule has, such as "com.acme:Pool": the rule writes them, is not for ONNX
        Runtime, and ONNX does not define them.
        """
        if not self.targets or not set(RUNTIMES).isdisjoint(self.targets):
            return frozenset()
        written = {part.op for part in tree.walk(self.ast) if isinstance(part, tree.Build) and not part.op.param}
        return frozenset(f"{op.domain}:{op.name}" for op in written if op.domain and not history(op.name, op.domain))

    @cached_property
    def wanted(self) -> tuple[frozenset[tuple[str, str]], ...]:
        """Sets of operators, as (domain, name). A model must have an operator of each set for the rule to match anywhere.

        Operators that a parameter names are not included. The result is empty for a rule with a parameter that has to be set,
        so that a missing setting is reported for every model.
        """
        if any(param.default is None for param in self.ast.params):
            return ()
        wanted, *others = [_wanted(tree) for tree in self.ast.variants or (self.ast,)]
        return tuple(ops for ops in wanted if all(ops in other for other in others))


MAX_LISTS = 512
_with_operators: dict[tuple[int, frozenset[tuple[str, str]]], tuple[Sequence[Rule], Sequence[Rule]]] = {}
"""By the id() of a list of rules, and operators: the list, so that no other one gets its id(), and the rules that remain."""


def with_operators(rules: Sequence[Rule], ops: frozenset[tuple[str, str]]) -> Sequence[Rule]:
    """The rules whose operators are all in `ops`, found without compiling a rule. The list is shared. Do not change it.

    `rules` is one of the lists that models of one exporter share. Models with the same operators also share the answer.
    """
    key = id(rules), ops
    found = _with_operators.get(key)
    if found is None:
        if len(_with_operators) >= MAX_LISTS:
            _with_operators.clear()
        left = [rule for rule in rules if not any(map(ops.isdisjoint, rule.wanted))]
        found = _with_operators[key] = rules, left
    return found[1]


def _wanted(rule: tree.Rule) -> list[frozenset[tuple[str, str]]]:
    """The operators of each node of a pattern, but for nodes whose operator a parameter names, or which may have any."""
    nodes = (node for node in pattern_nodes(rule.match) if not any(op.param or op.is_any for op in node.ops))
    return [frozenset(("" if op.domain == "ai.onnx" else op.domain, op.name) for op in node.ops) for node in nodes]


def paragraphs(lines: Iterable[str]) -> dict[str, str]:
    """The labelled paragraphs of a doc comment, by their labels in the order of the text."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for line in lines:
        label, colon, text = line.strip().partition(": ")
        if colon and label in LABELS:
            words = found.setdefault(label, [])
            words.append(text)
        elif line.strip():
            words.append(line.strip())
        else:
            words = []
    return {label: " ".join(parts) for label, parts in found.items()}


def _hint(word: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown word."""
    near = suggest(word, candidates)
    return f"; did you mean {near}?" if near else ""


# Values of parameters as a person types them on a command line or in a configuration.

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WANTED = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "ints": "whole numbers such as 1,2,3",
    "dim": "a length or a name",
}  # fmt: skip


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
    if kind != "dim":
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    if not text[0].isalpha() and text[0] != "_":
        raise RewriterError(f"{role}: {text!r} is not {_WANTED[kind]}")
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

    def _now(self, names: Iterable[str]) -> list[str]:
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
        self.require((*select, *ignore))
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

    def require(self, names: Iterable[str]) -> None:
        """Raises RewriterError for the first of these codes, prefixes and words that names no rule."""
        for name in self._now(names):
            if name not in WORDS and not (name and any(rule.code.startswith(name) for rule in self.rules)):
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
    known = (
        sorted({target for rule in rules for target in (*rule.targets, *rule.runtimes)} | targets_with_recipe())
        if wanted
        else []
    )
    if EVERY_TARGET in wanted and known:
        wanted = wanted - {EVERY_TARGET} | set(known)
    for name in sorted(wanted):
        if name not in known:
            hint = _hint(name, known) or f"; the targets are {', '.join(known) or 'none'}"
            raise RewriterError(f"there is no target {name!r}{hint}")
    return frozenset(wanted)


def targets_with_recipe() -> set[str]:
    """The targets that have a recipe."""
    return {path.stem for path in resource("targets").glob("*.toml")} - {"messages"}
