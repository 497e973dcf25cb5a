"""What all checks of one rule share: the rule, the opsets it claims, and the list of what was found wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rewriter.language import ast, schema
from rewriter.language.diagnostics import Diagnostic, suggest
from rewriter.language.header import Header, read_header
from rewriter.language.walk import pattern_nodes

_WORD = re.compile(r"\w+")


class CheckContext:
    """One rule under examination.

    Attributes:
        declared: the opsets of the default domain that the rule claims.
        reach: those of them in which all operators of the pattern exist; only there can the rule fire. A rule of kind `repair`
            describes models that break the rules, so it reaches all that it declares.
        found: the diagnostics so far.
        defines: what it may call besides functions, by name.
    """

    def __init__(self, rule: ast.Rule, rule_file: ast.RuleFile) -> None:
        self.rule = rule
        self.path = rule_file.path
        self.text = rule_file.text
        self.header: Header = read_header(rule.meta)
        self.found: list[Diagnostic] = []
        self.defines = {define.name: define for define in (*rule_file.shared, *rule_file.defines)}
        latest = schema.latest_opset()
        first = max(1, min(self.header.opset.first or 1, latest))
        last = min(self.header.opset.last or latest, latest)
        self.declared: tuple[int, ...] = tuple(range(first, last + 1)) or (first,)
        self.reach = self._reach()

    @property
    def is_repair(self) -> bool:
        return self.header.kind.name == "repair"

    @property
    def is_interface(self) -> bool:
        return self.header.kind.name == "interface"

    def report(
        self,
        code: str,
        message: str,
        span: ast.Span,
        label: str = "",
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> None:
        """Adds a finding; the same one is not said twice."""
        found = Diagnostic(code, message, span, label, tuple(notes), tuple(helps), self.path)
        if found not in self.found:
            self.found.append(found)

    def narrow(self, span: ast.Span, word: str) -> ast.Span:
        """The first place of a word inside a span, for records whose parts have no span of their own."""
        found = next((one for one in _WORD.finditer(self.text, span.start, span.end) if one[0] == word), None)
        return ast.Span(*found.span()) if found else span

    def phrase(self, versions: Sequence[int]) -> str:
        """`13..`, `..8`, `9..12`, `7 and 13..`: open where the rule's own range is open."""
        parts = []
        for first, last in _runs(versions):
            at_start = first == self.declared[0] and self._open_start()
            at_end = last == self.declared[-1] and self.header.opset.last is None
            if at_end:
                parts.append(f"{first}..")
            elif at_start:
                parts.append(f"..{last}")
            else:
                parts.append(str(first) if first == last else f"{first}..{last}")
        return " and ".join(parts)

    def limit(self, bad: Iterable[int]) -> str | None:
        """Advice to declare only the opsets that are not bad; None when none or no single range is left."""
        wrong = set(bad)
        good = [version for version in self.declared if version not in wrong]
        return f"limit the rule to `opset: {self.phrase(good)}`" if good and len(_runs(good)) == 1 else None

    def _open_start(self) -> bool:
        written = next((item.value for item in self.rule.meta if item.key == "opset"), None)
        return not isinstance(written, ast.OpsetRange) or written.first is None

    def _reach(self) -> tuple[int, ...]:
        if self.is_repair:
            return self.declared
        nodes = list(pattern_nodes(self.rule.match))
        return tuple(v for v in self.declared if all(any(_may_exist(op, v) for op in node.ops) for node in nodes))


def did_you_mean(word: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """The help line for a misspelling, if a candidate is near enough."""
    near = suggest(word, candidates)
    return (f"did you mean `{near}`?",) if near else ()


def _may_exist(op: ast.Op, version: int) -> bool:
    """True unless ONNX knows the operator of the default domain and says that this opset does not have it."""
    known = not op.param and not schema.normal(op.domain) and schema.history(op.name, "")
    return not known or schema.exists(op.name, "", version)


def _runs(versions: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for version in sorted(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs
