"""Which rules can fire at all in a model, judged by a census of it: before anything is built, and without importing ONNX.

Every question that a rule asks is put to each kind of node, and what the census cannot tell is unknown. A rule for which some
node of the pattern has no kind left cannot match anywhere. So a rule that is said to be out is out; one that is left may still
find nothing. What costs more to tell, the types and then the ranks of all tensors, is found out only where a rule is left that
asks for it. Where this stands among all questions is told in `rewriter.matching`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from rewriter.conditions.asked_model import Asked, AskedModel
from rewriter.errors import RewriterError
from rewriter.facts import dtype_flow, rank_flow
from rewriter.language import ast
from rewriter.language.cache.operator_table import Table
from rewriter.language.pattern import ANY_OPERATOR, compile_pattern
from rewriter.language.rule import Rule
from rewriter.matching.node_question import NodeQuestion
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
        self._types: bool | None = None
        self._ranks: bool | None = None
        self._last: tuple[Sequence[Rule], list[Rule]] = (), []
        self._model = AskedModel(census, table)

    def possible(self, rules: Sequence[Rule]) -> list[Rule]:
        """Those of rules that are meant for the model at all; what was prepared for a list is kept for the next model."""
        if self._last[0] is not rules:
            self._last = rules, self._possible(rules)
        return self._last[1]

    def _possible(self, rules: Sequence[Rule]) -> list[Rule]:
        model = self._model
        left = [one for one in _forecasts(rules).about(frozenset(model.by_op)) if one.open(model, _by_itself)]
        if any(one.asks_types for one in left) and self._has_types():
            left = [one for one in left if one.open(model, _with_types)]
        if any(one.asks_ranks for one in left) and self._has_ranks():
            left = [one for one in left if one.open(model, _with_ranks)]
        return [one.rule for one in left]

    def _has_types(self) -> bool:
        """Whether it can be told what types the operands of the kinds have."""
        if self._types is None:
            self._types = dtype_flow.follow(self.census, self._table)
        return self._types

    def _has_ranks(self) -> bool:
        """Whether it can be told what ranks the operands of the kinds have."""
        if self._ranks is None:
            self._ranks = rank_flow.follow(self.census)
        return self._ranks


Cases = Callable[[AskedModel, NodeKind], Iterable[Asked]]
"""The cases in which a kind of node occurs."""


def _by_itself(model: AskedModel, kind: NodeKind) -> Iterable[Asked]:
    return (Asked(model, kind),)


def _with_types(model: AskedModel, kind: NodeKind) -> Iterable[Asked]:
    return (Asked(model, kind, types=types) for types in kind.made)


def _with_ranks(model: AskedModel, kind: NodeKind) -> Iterable[Asked]:
    return (Asked(model, kind, ranks=ranks) for ranks in kind.ranks)


MOST_KINDS = 1 << 9
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


_last: deque[_RuleForecasts] = deque(maxlen=64)
"""Lists of rules that were asked about last; models of one exporter share theirs."""


def _forecasts(rules: Sequence[Rule]) -> _RuleForecasts:
    found = next((known for known in _last if known.rules is rules), None)
    if found is None:
        found = _RuleForecasts(rules)
        _last.append(found)
    return found


class _RuleForecast:
    """Whether one rule can match, with any of its patterns."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        question = rule.question
        self._patterns = [_questions(one) for one in question.variants or (question,)]
        asked = [one for questions in self._patterns for one in questions]
        self.asks_types = any(question.asks_types for question in asked)
        self.asks_ranks = any(question.asks_ranks for question in asked)

    def open(self, model: AskedModel, cases: Cases) -> bool:
        """Whether every node of one of its patterns has a kind that it may be."""
        return any(self._stands(model, questions, cases) for questions in self._patterns)

    def _stands(self, model: AskedModel, questions: list[NodeQuestion], cases: Cases) -> bool:
        for question in questions:
            if not (question.stands(Asked(model, None)) if question.node is None else self._found(model, question, cases)):
                return False
        return True

    @staticmethod
    def _found(model: AskedModel, question: NodeQuestion, cases: Cases) -> bool:
        assert question.node is not None
        fixed, most = question.node.fixed, question.node.most
        for op in model.by_op if question.node.ops is ANY_OPERATOR else question.node.ops:
            for kind in model.by_op.get(op, ()):
                if any(fixed <= count and (most is None or least <= most) for count, least in kind.arities):
                    for asked in cases(model, kind):
                        if question.stands(asked):
                            return True
        return False


def _questions(asked: ast.Rule) -> list[NodeQuestion]:
    """One for each node; just one for a rule on the model as a whole, or whose operators are parameters."""
    if not asked.match.graph and not asked.params:
        try:
            return [NodeQuestion(asked, node) for node in compile_pattern(asked.match, {}).nodes]
        except RewriterError:
            pass
    return [NodeQuestion(asked, None)]
