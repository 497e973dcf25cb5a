"""Which rules can fire at all in a model, judged by a census of it: before anything is built, and without importing ONNX.

Every question that a rule asks is put to each kind of node, and what the census cannot tell is unknown. A rule for which some
node of the pattern has no kind left cannot match anywhere. So a rule that is said to be out is out; one that is left may still
find nothing. What costs more to tell, the types and then the ranks of all tensors, is found out only where a rule is left that
asks for it. Where this stands among all questions is told in `rewriter.core.matching`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence

from rewriter.core.conditions.census_model import UNDECIDED, CensusModel, Known, NodeCase, partial_truth
from rewriter.core.conditions.partial_answers import NODE, ConditionCompiler
from rewriter.core.errors import RewriterError
from rewriter.core.facts import census_flow as dtype_flow
from rewriter.core.facts import census_flow as rank_flow
from rewriter.core.language import ast, schema
from rewriter.core.language.cache.operator_table import ANY, Table, union
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.pattern import ANY_OPERATOR, PatternNode, compile_pattern, is_late, is_run
from rewriter.core.language.rule import Rule
from rewriter.core.onnxfile.census import Census, NodeKind

# What one node of a pattern asks of a kind of node, and what the conditions of the rule say then.


class NodeQuestion:
    """One for each node of a pattern; for a rule about the model as a whole, one without a node.

    Attributes:
        node: the one in question.
        asks_types, asks_ranks: whether more may be told where types or ranks of the operands are known.
        faults: of the model, that the conditions ask about.
        is_local: whether the answer follows from the kind, its types and ranks, and the versions that the model imports.
    """

    def __init__(self, rule: ast.Rule, node: PatternNode | None) -> None:
        self.node = node
        self._required: list[int] = []
        self._typed: list[tuple[int, int]] = []
        self._early: list[Known] = []
        self._late: list[Known] = []
        compiler = ConditionCompiler(rule)
        if node is not None:
            self._tensors(node, compiler)
            attrs = node.source.attrs
            self._early = [compiler.attribute(attr) for attr in attrs if not is_late(attr)]
            self._late = [compiler.attribute(attr) for attr in attrs if is_late(attr)]
        found = [compiler.value(where.condition) for where in rule.wheres]
        self._wheres = [where for where in found if where is not None]
        self.asks_types = compiler.asks_types or bool(self._typed)
        self.asks_ranks = compiler.asks_ranks
        self.faults = frozenset(compiler.faults)
        self.is_local = node is not None and not self.faults and not compiler.asks_declared_outputs

    def _tensors(self, node: PatternNode, compiler: ConditionCompiler) -> None:
        """Tells where the names of the pattern stand."""
        source = node.source
        for position, output in enumerate(source.outputs):
            if output.variadic:
                break
            if output.name is not None:
                compiler.outputs[output.name] = position
        if source.label is not None:
            compiler.bound[source.label] = lambda case: NODE
        commutative = node.ops is ANY_OPERATOR or any(schema.is_commutative(op, domain) for domain, op in node.ops)
        compiler.free = free = not source.ordered and commutative
        count = len(node.inputs)
        placed = next((at for at, operand in enumerate(node.inputs) if is_run(operand)), count)
        fixed = not any(isinstance(operand, ast.Capture) and operand.optional for operand in node.inputs)
        one_run = fixed and sum(map(is_run, node.inputs)) == 1
        for position, operand in enumerate(node.inputs):
            capture = operand if isinstance(operand, ast.Capture) else None
            if capture is not None:
                behind = position - count if one_run else None
                compiler.operand(capture.name, behind if position >= placed else position)
            if isinstance(operand, ast.Variadic) and operand.name is not None:
                alone = one_run and (not free or count == 1)
                compiler.runs[operand.name] = (position, count - position - 1) if alone else None
            if position < placed and not free and not (capture is not None and capture.optional):
                self._required.append(position)
            if position < placed and capture is not None and capture.type is not None and capture.type.dtype is not None:
                self._typed.append((-1 if free else position, 1 << DTYPES[capture.type.dtype]))

    def stands(self, case: NodeCase) -> bool:
        """False when a condition is surely false, or the pattern surely does not fit.

        The engine asks the pattern first: what it may not know of an attribute there, it reports, whatever the conditions say.
        """
        for fits in self._early:
            if (found := fits(case)) is not True:
                return found is UNDECIDED
        if self._late:
            late = [fits(case) for fits in self._late]  # asked in another order there: each may be the first
            if UNDECIDED in late:
                return True
            if False in late:
                return False
        if case.operand_types is not None and not self._reads(case.operand_types):
            return False
        return all(partial_truth(where(case)) is not False for where in self._wheres)

    def _reads(self, types: tuple[int, ...]) -> bool:
        """Whether operands of these types may be what the pattern wants."""
        count = len(types)
        if any(position < count and not types[position] for position in self._required):
            return False
        for position, wanted in self._typed:
            bits = union(types) if position < 0 else types[position] if position < count else ANY
            if bits and not bits & wanted:
                return False
        return True


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
        self._model = CensusModel(census, table)

    def possible(self, rules: Sequence[Rule]) -> list[Rule]:
        """Those of rules that are meant for the model at all; what was prepared for a list is kept for the next model."""
        if self._last[0] is not rules:
            self._last = rules, self._possible(rules)
        return self._last[1]

    def _possible(self, rules: Sequence[Rule]) -> list[Rule]:
        model = self._model
        relevant = _forecasts(rules).relevant(frozenset(model.kinds_by_operator))
        model_wide = relevant.model_wide(model)
        left = [one for one in relevant.rules if (one in model_wide if one.is_whole else one.open(model, _by_itself))]
        if any(one.asks_types for one in left) and self._has_types():
            left = [one for one in left if one.open(model, _with_types)]
        if any(one.asks_ranks for one in left) and self._has_ranks():
            left = [one for one in left if one.open(model, _with_ranks)]
        return [one.rule for one in left]

    def _has_types(self) -> bool:
        """Whether it can be told what types the operands of the kinds have."""
        if self._types is None:
            self._types = dtype_flow.follow_types(self.census, self._table)
        return self._types

    def _has_ranks(self) -> bool:
        """Whether it can be told what ranks the operands of the kinds have."""
        if self._ranks is None:
            self._ranks = rank_flow.follow_ranks(self.census)
        return self._ranks


Case = tuple[tuple[int, ...] | None, tuple[int | None, ...] | None, Hashable]
"""Types and ranks of the operands, where they are told, and what follows from them for the outputs."""
Cases = Callable[[NodeKind], Iterable[Case]]
"""The cases in which a kind of node occurs."""

_NOTHING_TOLD: tuple[Case, ...] = ((None, None, None),)


def _by_itself(kind: NodeKind) -> Iterable[Case]:
    return _NOTHING_TOLD


def _with_types(kind: NodeKind) -> Iterable[Case]:
    return [(types, None, output_types) for types, output_types in kind.output_types.items()]


def _with_ranks(kind: NodeKind) -> Iterable[Case]:
    return [(None, ranks, rank) for ranks, rank in kind.ranks.items()]


MOST_KINDS = 1 << 9
MOST_RULES = 1 << 12
_of_rules: dict[int, _RuleForecast] = {}
"""Of each rule, by its id(): lists of rules differ from exporter to exporter, what is made of a rule does not."""


class _RelevantForecasts:
    """Those of some rules that are about operators that a model has; which on the model as a whole stand for which faults."""

    def __init__(self, rules: list[_RuleForecast]) -> None:
        self.rules = rules
        self._whole = [one for one in rules if one.is_whole]
        self._faults = sorted({fault for one in self._whole for fault in one.faults})
        self._model_wide: dict[tuple[object, ...], frozenset[_RuleForecast]] = {}

    def model_wide(self, model: CensusModel) -> frozenset[_RuleForecast]:
        """Those on the model as a whole that may fire; models with the same faults, mostly none, have the same ones."""
        maybe = tuple([model.model_field(fault) is UNDECIDED for fault in self._faults])
        key = maybe, model.census.ir_version, frozenset(model.versions)
        found = self._model_wide.get(key)
        if found is None:
            if len(self._model_wide) >= MOST_KINDS:
                self._model_wide.clear()
            found = self._model_wide[key] = frozenset([one for one in self._whole if one.open(model, _by_itself)])
        return found


class _RuleForecasts:
    """Those of a list of rules, each made when it is first needed."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._relevant: dict[frozenset[tuple[str, str]], _RelevantForecasts] = {}

    def relevant(self, ops: frozenset[tuple[str, str]]) -> _RelevantForecasts:
        """Those of rules whose operators are all among these; models of one kind have the same ones."""
        found = self._relevant.get(ops)
        if found is None:
            if len(self._relevant) >= MOST_KINDS:
                self._relevant.clear()
            left = [rule for rule in self.rules if all(not ops.isdisjoint(wanted) for wanted in rule.wanted)]
            found = self._relevant[ops] = _RelevantForecasts([self.of(rule) for rule in left])
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
        all_questions = [one for questions in self._patterns for one in questions]
        self.asks_types = any(question.asks_types for question in all_questions)
        self.asks_ranks = any(question.asks_ranks for question in all_questions)
        self.is_whole = all(one.node is None for one in all_questions)
        self.faults = frozenset().union(*[one.faults for one in all_questions])

    def open(self, model: CensusModel, cases: Cases) -> bool:
        """Whether every node of one of its patterns has a kind that it may be."""
        for questions in self._patterns:
            for question in questions:
                if not (question.stands(NodeCase(model, None)) if question.node is None else _found(model, question, cases)):
                    break
            else:
                return True
        return False


def _found(model: CensusModel, question: NodeQuestion, cases: Cases) -> bool:
    """Whether the model has a kind of node that one of a pattern may be."""
    assert question.node is not None
    fixed, most = question.node.fixed, question.node.most
    answers = model.answers if question.is_local else None
    for op in model.kinds_by_operator if question.node.ops is ANY_OPERATOR else question.node.ops:
        for kind in model.kinds_by_operator.get(op, ()):
            for count, least in kind.arities:
                if fixed <= count and (most is None or least <= most):
                    break
            else:
                continue
            for types, ranks, output_facts in cases(kind):
                if answers is None or kind.form is None:
                    stands = question.stands(NodeCase(model, kind, types, ranks))
                else:
                    key = question, kind.form, types, ranks, output_facts
                    known = answers.get(key)
                    if known is None:
                        known = answers[key] = question.stands(NodeCase(model, kind, types, ranks))
                    stands = known
                if stands:
                    return True
    return False


def _questions(rule: ast.Rule) -> list[NodeQuestion]:
    """One for each node; just one for a rule on the model as a whole, or whose operators are parameters."""
    if not rule.match.graph and not rule.params:
        try:
            return [NodeQuestion(rule, node) for node in compile_pattern(rule.match, {}).nodes]
        except RewriterError:
            pass
    return [NodeQuestion(rule, None)]
