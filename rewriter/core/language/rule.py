"""A checked rule: its tree, its header, and its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rewriter.core.language import ast as tree
from rewriter.core.language.ast import Kind, OpsetRange
from rewriter.core.language.diagnostics import SourceText
from rewriter.core.language.header import Header, read_header
from rewriter.core.language.walk import canonical, pattern_nodes
from rewriter.core.record import getter, names, replace

if TYPE_CHECKING:
    from rewriter.core.language.cache.pack import PackedTrees

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
            from rewriter.core.language.cache.pack import unpack

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
    def wanted(self) -> tuple[frozenset[tuple[str, str]], ...]:
        """Sets of operators, as (domain, name). A model must have an operator of each set for the rule to match anywhere.

        Operators that a parameter names are not included. The result is empty for a rule with a parameter that has to be set,
        so that a missing setting is reported for every model.
        """
        if any(param.default is None for param in self.ast.params):
            return ()
        wanted, *others = [_wanted(tree) for tree in self.ast.variants or (self.ast,)]
        return tuple(ops for ops in wanted if all(ops in other for other in others))


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
