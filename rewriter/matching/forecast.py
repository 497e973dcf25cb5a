"""Which rules can fire at all in a model, judged by a census of it: before anything is built, and without importing ONNX.

Every question that a rule asks is put to each kind of node, and what the census cannot tell is unknown. A rule for which some
node of the pattern has no kind left cannot match anywhere. So a rule that is said to be out is out; one that is left may still
find nothing. Where this stands among all questions is told in `rewriter.matching`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rewriter.conditions.partial_answers import AskedModel, PartialAnswers
from rewriter.errors import RewriterError
from rewriter.facts.dtype_flow import follow
from rewriter.language import ast
from rewriter.language.cache.operator_table import Table
from rewriter.language.pattern import Pattern, PatternNode, compile_pattern
from rewriter.language.rule import Rule
from rewriter.onnxfile.census import Census, NodeKind


class Forecast:
    """Which rules may fire in one model.

    Attributes:
        census: of the model.
    """

    def __init__(self, census: Census, table: Table) -> None:
        """`table` has defaults and types of ONNX's operators."""
        self.census = census
        self._table = table
        self._typed: bool | None = None
        self._last: tuple[Sequence[Rule], list[Rule]] = (), []
        by_op: dict[tuple[str, str], list[NodeKind]] = {}
        for kind in census.kinds:
            by_op.setdefault((kind.domain, kind.op), []).append(kind)
        self._model = AskedModel(census, table, by_op)

    def possible(self, rules: Sequence[Rule]) -> list[Rule]:
        """Those of rules that are meant for the model at all; what was prepared for a list is kept for the next model."""
        if self._last[0] is not rules:
            self._last = rules, self._possible(rules)
        return self._last[1]

    def _possible(self, rules: Sequence[Rule]) -> list[Rule]:
        model = self._model
        asked = [question for question in _questions(rules).about(frozenset(model.by_op)) if question.open(model)]
        if not any(question.asks_types for question in asked) or not self._has_types():
            return [question.rule for question in asked]
        return [question.rule for question in asked if question.open(model, typed=True)]

    def _has_types(self) -> bool:
        """Whether it can be told what types the operands of the kinds have; followed when a rule is left that the operators and
        their attributes alone do not exclude.
        """
        if self._typed is None:
            self._typed = follow(self.census, self._table)
        return self._typed


MOST_KINDS = 64
MOST_RULES = 1 << 12
_of_rules: dict[int, _RuleForecast] = {}
"""Of each rule, by its id(): lists of rules differ from exporter to exporter, what is made of a rule does not."""


class _RuleForecasts:
    """Those of a list of rules, each made when it is first needed."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._about: dict[frozenset[tuple[str, str]], list[_RuleForecast]] = {}

    def about(self, ops: frozenset[tuple[str, str]]) -> list[_RuleForecast]:
        """Those of rules whose operators are all among these; models of one kind have the same ones."""
        found = self._about.get(ops)
        if found is None:
            if len(self._about) >= MOST_KINDS:
                self._about.clear()
            left = [rule for rule in self.rules if all(not ops.isdisjoint(wanted) for wanted in rule.wanted)]
            found = self._about[ops] = [self.of(rule) for rule in left]
        return found

    @staticmethod
    def of(rule: Rule) -> _RuleForecast:
        found = _of_rules.get(id(rule))
        if found is None:
            if len(_of_rules) >= MOST_RULES:
                _of_rules.clear()
            found = _of_rules[id(rule)] = _RuleForecast(rule)  # which holds the rule, so that no other one gets its id()
        return found


_last: deque[_RuleForecasts] = deque(maxlen=MOST_KINDS)
"""Lists of rules that were asked about last; models of one exporter share theirs."""


def _questions(rules: Sequence[Rule]) -> _RuleForecasts:
    found = next((known for known in _last if known.rules is rules), None)
    if found is None:
        found = _RuleForecasts(rules)
        _last.append(found)
    return found


class _RuleForecast:
    """Whether one rule can match."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.ast = rule.question
        self.asks_types = any(True for _ in _typed(self.ast))
        self.pattern: Pattern | None = None
        if not self.ast.match.graph and all(param.default is not None for param in self.ast.params):
            try:
                self.pattern = None if self.ast.params else compile_pattern(self.ast.match, {})
            except RewriterError:
                self.pattern = None

    def open(self, model: AskedModel, *, typed: bool = False) -> bool:
        """Whether every node of the pattern has a kind that it may be."""
        if self.pattern is None:  # a rule on the model as a whole, or one whose operators are parameters
            return PartialAnswers(self.ast, model, None, None, None).stands()
        return all(self._found(model, node, typed) for node in self.pattern.nodes)

    def _found(self, model: AskedModel, node: PatternNode, typed: bool) -> bool:
        kinds = (kind for op in node.ops for kind in model.by_op.get(op, ()))
        return any(self._fits(model, node, kind, typed) for kind in kinds)

    def _fits(self, model: AskedModel, node: PatternNode, kind: NodeKind, typed: bool) -> bool:
        if not any(node.fixed <= count and (node.most is None or least <= node.most) for count, least in kind.arities):
            return False
        operands: Iterable[tuple[int, ...] | None] = kind.made if typed else (None,)
        return any(PartialAnswers(self.ast, model, node, kind, types).stands() for types in operands)


def _typed(rule: ast.Rule) -> Iterator[ast.Call | ast.TypePattern]:
    from rewriter.language.walk import walk

    for part in walk((rule.match, *rule.wheres, *rule.lets)):
        if (isinstance(part, ast.Call) and part.function in ("dtype", "declared_dtype", "is_output")) or isinstance(
            part, ast.TypePattern
        ):
            yield part
