"""What one node of a pattern asks of a kind of node, and what the conditions of the rule say then."""

from __future__ import annotations

from rewriter.conditions.asked_model import Asked
from rewriter.conditions.partial_answers import NODE, ConditionCompiler
from rewriter.conditions.partial_types import Known
from rewriter.conditions.partial_values import UNKNOWN, truth
from rewriter.facts.type_sets import ANY, union
from rewriter.language import ast, schema
from rewriter.language.dtypes import DTYPES
from rewriter.language.pattern import ANY_OPERATOR, PatternNode, is_run
from rewriter.language.pattern_order import is_late


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
        self.is_local = node is not None and not self.faults and not compiler.asks_handed

    def _tensors(self, node: PatternNode, compiler: ConditionCompiler) -> None:
        """Tells where the names of the pattern stand."""
        source = node.source
        for position, output in enumerate(source.outputs):
            if output.variadic:
                break
            if output.name is not None:
                compiler.outputs[output.name] = position
        if source.label is not None:
            compiler.bound[source.label] = lambda asked: NODE
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

    def stands(self, asked: Asked) -> bool:
        """False when a condition is surely false, or the pattern surely does not fit.

        The engine asks the pattern first: what it may not know of an attribute there, it reports, whatever the conditions say.
        """
        for fits in self._early:
            if (found := fits(asked)) is not True:
                return found is UNKNOWN
        if self._late:
            late = [fits(asked) for fits in self._late]  # asked in another order there: each may be the first
            if UNKNOWN in late:
                return True
            if False in late:
                return False
        if asked.types is not None and not self._reads(asked.types):
            return False
        return all(truth(where(asked)) is not False for where in self._wheres)

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
