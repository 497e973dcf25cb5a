"""Finds the rules that can fire in a model from its census, before anything is built and without importing ONNX.

Every question of a rule is asked about each kind of node. A fact that the census does not contain is unknown. If a node of the
pattern has no kind left, the rule cannot match anywhere. So the forecast never drops a rule that could fire, but a remaining
rule may still not match. The costlier facts, the types and then the ranks of all tensors, are determined only if a remaining
rule needs them. `rewriter.core.matching` lists all questions in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from rewriter.core.conditions.coarse_world import (
    FAULT_IS_RULED_OUT,
    AttributeOf,
    CensusModel,
    CoarseNames,
    CoarseNode,
    CoarseTensor,
    CoarseWorld,
    RunOf,
    may_hold,
    value_in,
)
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, compare
from rewriter.core.errors import RewriterError
from rewriter.core.facts.census_flow import follow_ranks, follow_types
from rewriter.core.language import ast, schema
from rewriter.core.language.ast import bound, walk
from rewriter.core.language.pattern import ANY_OPERATOR, PatternNode, compile_pattern, is_late, is_run
from rewriter.core.language.rules import Rule, with_operators
from rewriter.core.language.schema import DTYPES
from rewriter.core.onnxfile.census import OPAQUE, Census, NodeKind

# The demands of one pattern node on a kind of node, and the conditions of the rule for that kind.


class NodeQuestion:
    """The question for one node of a pattern. A rule about the whole model has one question without a node.

    Attributes:
        node: the node in question.
    """

    def __init__(self, rule: ast.Rule, node: PatternNode | None, strangers: Collection[str] = ()) -> None:
        """`strangers`: names of the rule that other nodes of the pattern bind."""
        self.node = node
        self._lets = {let.name: let.value for let in rule.lets}
        self._wheres = [where.condition for where in rule.wheres]
        self._names: dict[str, Any] = dict.fromkeys(strangers, UNKNOWN)
        self._required: list[int] = []
        self._early: list[ast.AttrPattern] = []
        self._late: list[ast.AttrPattern] = []
        self._asks_types = False
        if node is not None:
            self._tensors(node)
            for attr in node.source.attrs:
                (self._late if is_late(attr) else self._early).append(attr)
                self._bind(attr)

    def _tensors(self, node: PatternNode) -> None:
        """Notes the places of the names of the pattern."""
        source, names = node.source, self._names
        commutative = node.ops is ANY_OPERATOR or any(schema.is_commutative(op, domain) for domain, op in node.ops)
        free = not source.ordered and commutative
        count = len(node.inputs)
        placed = next((at for at, operand in enumerate(node.inputs) if is_run(operand)), count)
        fixed = not source.more_inputs and not any(isinstance(one, ast.Capture) and one.optional for one in node.inputs)
        one_run = fixed and sum(map(is_run, node.inputs)) == 1
        places: dict[str, list[int]] = {}
        for position, operand in enumerate(node.inputs):
            capture = operand if isinstance(operand, ast.Capture) else None
            if isinstance(operand, ast.Variadic) and operand.name is not None and one_run and (not free or count == 1):
                names[operand.name] = RunOf(position, count - position - 1)
            if capture is not None and position < placed:
                places.setdefault(capture.name, []).append(position)
            if position < placed and not free and not (capture is not None and capture.optional):
                self._required.append(position)
        optional = [at for at, one in enumerate(node.inputs) if isinstance(one, ast.Capture) and one.optional]
        self._asks_types = any(at > optional[0] for at in self._required if optional)
        names.update((name, CoarseTensor(tuple(at), free=free)) for name, at in places.items())
        for position, output in enumerate(source.outputs):
            if output.variadic:
                break
            if output.name is not None:
                names[output.name] = CoarseTensor((), output=position)
        if source.label is not None:
            names[source.label] = CoarseNode()

    def _bind(self, attr: ast.AttrPattern) -> None:
        """Notes the name that an attribute is bound to, if it is."""
        name = attr.value.id if attr.mode == "equals" and isinstance(attr.value, ast.Name) else None
        if name is not None and self._names.get(name, UNKNOWN) is UNKNOWN and name not in self._lets and name not in DTYPES:
            self._names[name] = AttributeOf(attr.name)

    def stands(self, world: CoarseWorld) -> bool:
        """False if a condition is surely false, or the pattern surely does not match.

        The engine checks the pattern first. It reports an attribute there that may be unknown, even if a condition is false.
        """
        names = CoarseNames(self._names, self._lets)
        for attr in self._early:
            if (found := _fits(attr, names, world)) is not True:
                return found is UNKNOWN
        if self._late:
            late = [_fits(attr, names, world) for attr in self._late]  # asked in another order there: each may be the first
            if UNKNOWN in late:
                return True
            if False in late:
                return False
        if world.operand_types is None:
            world.wants_types = self._asks_types
        types = world.operand_types
        if types is not None and any(position < len(types) and not types[position] for position in self._required):
            return False  # an operand of the pattern is left out
        return all(may_hold(where, names, world) for where in self._wheres)


def _fits(attr: ast.AttrPattern, names: CoarseNames, world: CoarseWorld) -> Any:
    """Whether a kind has the attribute of the pattern; UNKNOWN if the engine may not know it or may fail on it."""
    if attr.mode != "equals":
        return (attr.name in world.kind.attrs) == (attr.mode == "present")
    value = world.attribute(attr.name)
    if value is UNKNOWN and world.kind.attrs.get(attr.name) is not OPAQUE:
        return UNKNOWN
    if value is ABSENT:
        return False
    if attr.value is None or _binds(attr, names):
        return True
    wanted = value_in(attr.value, names, world)
    return UNKNOWN if wanted is UNKNOWN else compare("==", value, wanted) is not False


def _binds(attr: ast.AttrPattern, names: CoarseNames) -> bool:
    """Whether the pattern binds the name to this very attribute. Its value may be NaN, which does not equal itself."""
    bound = names.bound.get(attr.value.id) if isinstance(attr.value, ast.Name) else None
    return isinstance(bound, AttributeOf) and bound.name == attr.name


class Forecast:
    """Which rules may fire in one model.

    Attributes:
        census: of the model.
    """

    def __init__(self, census: Census) -> None:
        self.census = census
        self._types: bool | None = None
        self._ranks: bool | None = None
        self._last: tuple[Sequence[Rule], list[Rule]] = (), []
        self._model = CensusModel(census)

    def possible(self, rules: Sequence[Rule]) -> list[Rule]:
        """The rules that can fire in the model. The data prepared for a list of rules are kept for the next model."""
        if self._last[0] is not rules:
            self._last = rules, self._possible(rules)
        return self._last[1]

    def _possible(self, rules: Sequence[Rule]) -> list[Rule]:
        model = self._model
        relevant = _relevant_forecasts(with_operators(rules, model.operators))
        model_wide = relevant.model_wide(model)
        left: dict[_RuleForecast, int] = {}
        for one in relevant.rules:
            found = (one in model_wide) if one.is_whole else one.open(model, _by_itself)
            if found:
                left[one] = found
        for wants, can_tell, cases in (
            (_WANTS_TYPES, self._has_types, _with_types),
            (_WANTS_RANKS, self._has_ranks, _with_ranks),
        ):
            if any(found & wants for found in left.values()) and can_tell():
                left = {
                    one: more for one, found in left.items() if (more := one.open(model, cases) if found & wants else found)
                }
        return [one.rule for one in left]

    def _has_types(self) -> bool:
        """Whether the types of the operands of the kinds can be determined."""
        if self._types is None:
            self._types = follow_types(self.census)
        return self._types

    def _has_ranks(self) -> bool:
        """Whether the ranks of the operands of the kinds can be determined."""
        if self._ranks is None:
            self._ranks = follow_ranks(self.census)
        return self._ranks


Case = tuple[tuple[int, ...] | None, tuple[int | None, ...] | None, Hashable]
"""Types and ranks of the operands, if they are known, and the facts about the outputs that follow from them."""
Cases = Callable[[NodeKind], Iterable[Case]]
"""The cases in which a kind of node occurs."""

_NOTHING_TOLD: tuple[Case, ...] = ((None, None, None),)


def _by_itself(kind: NodeKind) -> Iterable[Case]:
    return _NOTHING_TOLD


def _with_types(kind: NodeKind) -> Iterable[Case]:
    return [(types, None, output_types) for types, output_types in kind.output_types.items()]


def _with_ranks(kind: NodeKind) -> Iterable[Case]:
    return [(None, ranks, rank) for ranks, rank in kind.ranks.items()]


_STANDS, _WANTS_TYPES, _WANTS_RANKS = 1, 2, 4
"""An answer is 0 if the node surely does not match. Otherwise it may match, and types or ranks may decide more."""
_DEPENDS_ON_DECLARATIONS = -1
"""In place of an answer: there is one for each set of declarations."""


def _answer(question: NodeQuestion, world: CoarseWorld) -> int:
    stands = question.stands(world) and any(one is world or question.stands(one) for one in world.by_outputs())
    return _STANDS | world.wants_types * _WANTS_TYPES | world.wants_ranks * _WANTS_RANKS if stands else 0


MOST_KINDS = 1 << 9
MOST_RULES = 1 << 12
_of_rules: dict[int, _RuleForecast] = {}
"""The forecast of each rule, by its id(): lists of rules differ from exporter to exporter, the forecast of a rule does not."""


class _RelevantForecasts:
    """The forecasts of the rules whose operators a model has. Rules about the whole model are looked up by faults."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = [_forecast_of(rule) for rule in rules]
        self._listed = rules  # so that no other list gets its id()
        self._whole = [one for one in self.rules if one.is_whole]
        self._faults = sorted({fault for one in self._whole for fault in one.faults})
        self._model_wide: dict[tuple[object, ...], frozenset[_RuleForecast]] = {}

    def model_wide(self, model: CensusModel) -> frozenset[_RuleForecast]:
        """The rules about the whole model that may fire. Models with the same faults, mostly none, and as many outputs share
        the answer.
        """
        maybe = tuple([model.model_field(fault) is UNKNOWN for fault in self._faults])
        key = maybe, len(model.census.graph.outputs), model.census.ir_version, frozenset(model.versions)
        found = self._model_wide.get(key)
        if found is None:
            if len(self._model_wide) >= MOST_KINDS:
                self._model_wide.clear()
            found = self._model_wide[key] = frozenset([one for one in self._whole if one.open(model, _by_itself)])
        return found


_relevant: dict[int, _RelevantForecasts] = {}
"""By the id() of a list of rules."""


def _relevant_forecasts(rules: Sequence[Rule]) -> _RelevantForecasts:
    """The forecasts of a list of rules that models of one kind share."""
    found = _relevant.get(id(rules))
    if found is None:
        if len(_relevant) >= MOST_KINDS:
            _relevant.clear()
        found = _relevant[id(rules)] = _RelevantForecasts(rules)
    return found


def _forecast_of(rule: Rule) -> _RuleForecast:
    found = _of_rules.get(id(rule))
    if found is None:
        if len(_of_rules) >= MOST_RULES:
            _of_rules.clear()
        found = _of_rules[id(rule)] = _RuleForecast(rule)  # which holds the rule, so that no other one gets its id()
    return found


class _RuleForecast:
    """Whether one rule can match, with any of its patterns."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        question = rule.question
        variants = question.variants or (question,)
        self._patterns = [_questions(one) for one in variants]
        self.is_whole = all(one.node is None for questions in self._patterns for one in questions)
        parts = walk(tuple([part for one in variants for part in (*one.wheres, *one.lets)])) if self.is_whole else ()
        self.faults = FAULT_IS_RULED_OUT.keys() & {part.name for part in parts if isinstance(part, ast.Field)}

    def open(self, model: CensusModel, cases: Cases) -> int:
        """The answer for the first of its patterns whose nodes all have a possible kind; 0 if there is none."""
        for questions in self._patterns:
            found = _STANDS
            for question in questions:
                answer = (
                    _answer(question, CoarseWorld(model, None)) if question.node is None else _found(model, question, cases)
                )
                if not answer:
                    break
                found |= answer
            else:
                return found
        return 0


def _found(model: CensusModel, question: NodeQuestion, cases: Cases) -> int:
    """The answer for the first possible kind of a pattern node; 0 if there is none."""
    assert question.node is not None
    fixed, most = question.node.fixed, question.node.most
    for op in model.operators if question.node.ops is ANY_OPERATOR else question.node.ops & model.operators:
        for kind in model.kinds_by_operator[op]:
            for count, least in kind.arities:
                if fixed <= count and (most is None or least <= most):
                    break
            else:
                continue
            for types, ranks, output_facts in cases(kind):
                answer = _known_answer(model, question, kind, (types, ranks, output_facts))
                if answer:
                    return answer
    return 0


def _known_answer(model: CensusModel, question: NodeQuestion, kind: NodeKind, case: Case) -> int:
    """The answer for one case of a kind. It is found once for all models that agree in what it depends on."""
    case_key = question, kind.form, case
    key: tuple[Any, ...] = case_key
    answer = model.answers.get(key) if kind.form is not None else None
    if answer == _DEPENDS_ON_DECLARATIONS:
        key = *case_key, model.declarations(kind)
        answer = model.answers.get(key)
    if answer is not None:
        return answer
    world = CoarseWorld(model, kind, *case[:2])
    answer = _answer(question, world)
    if kind.form is not None and not world.asks_model:
        if world.asks_declarations:
            model.answers[case_key] = _DEPENDS_ON_DECLARATIONS
            key = *case_key, model.declarations(kind)
        model.answers[key] = answer
    return answer


def _questions(rule: ast.Rule) -> list[NodeQuestion]:
    """One question for each node; only one for a rule about the whole model or with operators that are parameters."""
    if not rule.match.graph and not rule.params:
        try:
            pattern = compile_pattern(rule.match, {})
        except RewriterError:
            return [NodeQuestion(rule, None)]
        names = bound(rule.match)
        return [NodeQuestion(rule, node, names) for node in pattern.nodes]
    return [NodeQuestion(rule, None)]
