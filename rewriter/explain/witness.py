"""A matcher that remembers the deepest question to which it answered no.

It asks nothing by itself: every answer is the matcher's own, and only after a "no" it looks which part of the question that
was. A normal run therefore pays nothing for it, and what it says cannot differ from what a run does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions import effective_attributes
from rewriter.conditions.context import Context
from rewriter.conditions.evaluate import Bindings, evaluate
from rewriter.conditions.found_words import node_words, tensor_words, value_words
from rewriter.conditions.rule_text import Text
from rewriter.conditions.rule_values import UNKNOWN, DType, Failure, Symbol
from rewriter.explain.explanation import STAGES, FirstNo
from rewriter.graph.index import operator_key
from rewriter.language import ast
from rewriter.language.dtypes import DTYPES
from rewriter.language.pattern import Made, Operand, Pattern, PatternNode, is_run
from rewriter.matching.match import Goal, Goals, Matcher
from rewriter.matching.operand_shares import Share


class Witness(Matcher):
    """Finds what `Matcher` finds; `deepest` is the question at which the way that came farthest ended."""

    def __init__(
        self, pattern: Pattern, context: Context, given: dict[str, Any], lets: Mapping[str, ast.Expr], text: Text
    ) -> None:
        super().__init__(pattern, context, given, lets)
        self.deepest: FirstNo | None = None
        self._text = text
        self._level = 0
        self._asked_of: gs.Node | None = None
        self._doubts = 0
        self._readers = {id(operand): node.number for node in pattern.nodes for operand in node.inputs}

    # --- how deep, and where -------------------------------------------------------------------------------------------------

    def _solve(self, goals: Goals) -> Iterator[None]:
        self._level += 1
        try:
            yield from super()._solve(goals)
        finally:
            self._level -= 1

    def _begin(self, node: gs.Node | None) -> None:
        """Doubts from here on belong to the next question, which is asked of `node`."""
        self._doubts = len(self.context.doubts)
        self._asked_of = node

    def _reader(self, operand: object) -> gs.Node | None:
        """The matched node whose operand a part of the pattern is."""
        return self.nodes.get(self._readers.get(id(operand), -1))

    def _no(self, kind: str, step: int, asked: str, found: str, span: ast.Span, node: gs.Node | None = None) -> None:
        """Keeps the question if the search had never come so far."""
        depth = (STAGES.index("pattern"), self._level, step)
        if self.deepest is not None and self.deepest.depth >= depth:
            return
        doubts = self.context.doubts[self._doubts :]
        remedy = next((remedy for _, remedy in doubts if remedy), "")
        if doubts:
            found = doubts[0][0]
        named = node if node is not None else self._asked_of
        name = "" if named is None else next((t for t in (named.name, *(o.name for o in named.outputs)) if t), "")
        line = self._text.line(span)
        self.deepest = FirstNo("pattern", kind, depth, asked, found, line, str(name), bool(doubts), remedy)

    # --- nodes ---------------------------------------------------------------------------------------------------------------

    def _node(self, pattern: PatternNode, node: gs.Node) -> Iterator[Sequence[Goal]]:
        self._begin(node)
        known = self.nodes.get(pattern.number)
        if known is not None and known is not node:
            asked = f"`{self._text.at(pattern.source.span)}` is one node"
            self._no("same node", 0, asked, f"{node_words(known)} and {node_words(node)}", pattern.source.span, node)
        return super()._node(pattern, node)

    def fits(self, pattern: PatternNode, node: gs.Node) -> bool:
        self._begin(node)
        if super().fits(pattern, node):
            return True
        span, count = pattern.source.ops_span, sum(bool(tensor.name) for tensor in node.inputs)
        if operator_key(node) not in pattern.ops:
            self._no("operator", 0, f"operator {_ops(pattern)}", node_words(node), span, node)
        elif id(node) in self.taken:
            asked = f"`{self._text.at(pattern.source.span)}` is a node of its own"
            self._no("distinct", 1, asked, f"{node_words(node)} stands for another one already", span, node)
        elif self.context.index.scope(node) is self._scope:
            asked = f"{_arity(pattern)} of {_ops(pattern)}"
            self._no("operands", 2, asked, f"{node_words(node)} has {count}", pattern.source.span, node)
        else:
            path = self.context.index.scope(node).path
            self._no("scope", 3, "all nodes in one graph", f"{node_words(node)} stands in {path}", span, node)
        return False

    def outputs(self, source: ast.NodePattern, node: gs.Node) -> bool:
        self._begin(node)
        if super().outputs(source, node):
            return True
        outputs = list(node.outputs)
        span = source.outputs[0].span if source.outputs else source.span
        for position, output in enumerate(source.outputs):
            if output.variadic:
                break
            if position >= len(outputs) or not outputs[position].name:
                made = sum(bool(tensor.name) for tensor in outputs)
                self._no("outputs", 4, f"{len(source.outputs)} outputs", f"{node_words(node)} makes {made}", span, node)
                return False
            if output.name is not None and not self.same(self.bound.get(output.name), outputs[position]):
                self._not_same(output.name, outputs[position], 4, output.span)
                return False
        named = max(len(source.outputs), 1)
        for position, tensor in enumerate(outputs[named:], named):
            if self.context.index.is_used(tensor):
                asked = f"output {position} of {node.op} is not used (the pattern does not list it)"
                self._no("unused output", 5, asked, f"{tensor.name!r} {read_by(self.context, tensor)}", span, node)
                break
        return False

    # --- attributes ----------------------------------------------------------------------------------------------------------

    def has(self, attr: ast.AttrPattern, node: gs.Node) -> bool:
        self._begin(node)
        free = isinstance(attr.value, ast.Name) and attr.value.id not in self.bound and attr.value.id not in DTYPES
        if super().has(attr, node):
            return True
        if attr.mode != "equals" or free:  # what is compared has been noted by `_equals`
            found = effective_attributes.effective(self.context, node, attr.name)
            said = attr.name in node.attrs
            text = f"{attr.name} = {value_words(found)}" if said else f"{node_words(node)} does not say {attr.name}"
            self._no("attribute", 6, f"`{self._text.at(attr.span)}`", text, attr.span, node)
        return False

    def equals(self, attr: ast.AttrPattern, node: gs.Node) -> bool:
        self._begin(node)
        if super().equals(attr, node):
            return True
        found = effective_attributes.effective(self.context, node, attr.name)
        asked = f"`{self._text.at(attr.span)}`"
        if attr.value is not None and isinstance(attr.value, ast.Name | ast.Binary | ast.Call | ast.Index):
            asked += self._worth(attr.value)
        default = "" if attr.name in node.attrs else " (by default)"
        self._no("attribute", 6, asked, f"{attr.name} = {value_words(found)}{default}", attr.span, node)
        return False

    def _worth(self, expr: ast.Expr) -> str:
        try:
            return f", which is {value_words(evaluate(expr, Bindings(self.bound, self._lets), self.context))}"
        except Failure:
            return ""

    # --- operands ------------------------------------------------------------------------------------------------------------

    def _assign(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> list[Goal] | None:
        self._begin(self.nodes.get(pattern.number))
        goals = super()._assign(pattern, operands)
        if goals is not None:
            return goals
        for position, operand in enumerate(pattern.inputs):
            tensor = operands[position] if position < len(operands) else None
            if not self._possible(operand, tensor):
                self._impossible(pattern, position, operand, tensor)
                break
        return None

    def shares(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> Iterator[list[Share]]:
        self._begin(self.nodes.get(pattern.number))
        reached = False
        for share in super().shares(pattern, operands):
            reached = True
            yield share
        if not reached:
            self._begin(self.nodes.get(pattern.number))
            single = next(i for i, operand in enumerate(pattern.inputs) if not is_run(operand))
            span = pattern.source.inputs[single].span
            listed = ", ".join(repr(tensor.name) for tensor in operands[:8]) or "no operands"
            self._no("operand", 10, f"`{self._text.at(span)}` among the operands", listed, span)

    def _impossible(self, pattern: PatternNode, position: int, operand: Operand, tensor: gs.Tensor | None) -> None:
        span = pattern.source.inputs[position].span
        found = tensor_words(self.context, tensor)
        if isinstance(operand, Made):
            asked = f"operand {position} made by {_ops(self._pattern.nodes[operand.node])}"
            self._no("made by", 10 + position, asked, found, span)
        else:
            self._no("operand", 10 + position, f"operand {position}, `{self._text.at(span)}`", found, span)

    def _operand(self, operand: Operand, tensor: gs.Tensor | None) -> Iterator[Sequence[Goal]]:
        self._begin(self._reader(operand))
        if isinstance(operand, Made):
            maker = None if tensor is None else self.context.producer(tensor)
            if maker is not None and not any(t is tensor for t in maker.outputs[operand.output : operand.output + 1]):
                source = self._pattern.nodes[operand.node].source
                asked = f"output {operand.output} of {_ops(self._pattern.nodes[operand.node])}"
                self._no("made by", 20, asked, tensor_words(self.context, tensor), source.span)
        return super()._operand(operand, tensor)

    def _run(self, operand: Operand, tensors: list[gs.Tensor]) -> Iterator[Sequence[Goal]]:
        self._begin(self._reader(operand))
        reached = False
        for goals in super()._run(operand, tensors):
            reached = True
            yield goals
        if reached:
            return
        self._begin(self._reader(operand))
        listed = ", ".join(repr(tensor.name) for tensor in tensors[:8]) or "no operands"
        if isinstance(operand, Made):
            source = self._pattern.nodes[operand.node].source
            asked = f"`*{operand.run}`: all outputs of one {_ops(self._pattern.nodes[operand.node])}, in their order"
            self._no("run", 20, asked, listed, source.span)
        elif isinstance(operand, ast.Variadic):
            self._no("same", 20, f"`*{operand.name}`: the same tensors at each place", listed, operand.span)

    def capture(self, operand: ast.Capture, tensor: gs.Tensor | None) -> bool:
        self._begin(self._reader(operand))
        bound = self.bound.get(operand.name)
        if super().capture(operand, tensor):
            return True
        asked = f"`{self._text.at(operand.span)}`"
        if tensor is None or not tensor.name:
            here = "" if bound is None else f" (`{operand.name}` is {value_words(bound)})"
            self._no("operand", 20, asked + here, "left out", operand.span)
        elif operand.const and not self.context.is_constant(tensor):
            self._no("constant", 21, f"{asked}, a constant", tensor_words(self.context, tensor), operand.span)
        elif bound is not None and not self.same(bound, tensor):
            self._not_same(operand.name, tensor, 22, operand.span)
        return False  # what a type asks has been noted by `_typed`

    def _not_same(self, name: str, tensor: gs.Tensor, step: int, span: ast.Span) -> None:
        asked = f"`{name}` the same at each place, {value_words(self.bound.get(name))}"
        self._no("same", step, asked, tensor_words(self.context, tensor), span)

    def _typed(self, pattern: ast.TypePattern, tensor: gs.Tensor) -> bool:
        if super()._typed(pattern, tensor):
            return True
        asked = f"`{self._text.at(pattern.span)}`"
        dtype = self.context.facts.dtype(tensor)
        if pattern.dtype is not None and dtype != DTYPES[pattern.dtype]:
            found = f"{tensor.name!r} is {DType(dtype) if dtype else 'of unknown type'}"
            self._no("type", 23, asked, found, pattern.span)
            return False
        shape = self.context.facts.shape(tensor)
        known = "unknown" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
        asks_rank = pattern.dims is not None and shape is not None and not _rank_fits(pattern.dims, len(shape))
        kind = "rank" if shape is None or asks_rank else "dimension"
        self._no(kind, 24 if kind == "rank" else 25, asked, f"shape of {tensor.name!r} is {known}", pattern.span)
        return False

    def _dim(self, wanted: Any, dim: Any, tensor: gs.Tensor) -> bool:
        if super()._dim(wanted, dim, tensor):
            return True
        if isinstance(wanted, str) and (dim is UNKNOWN or isinstance(dim, Symbol)):
            # A name that stands for two dimensions, one of them unknown: the matcher says no, since it cannot tell.
            self.context.doubt(f"a dimension of tensor {tensor.name!r} is unknown")
        return False

    def constant(self, operand: ast.ConstPattern, tensor: gs.Tensor) -> bool:
        self._begin(self._reader(operand))
        if super().constant(operand, tensor):
            return True
        asked = f"`{self._text.at(operand.span)}`"
        if not isinstance(tensor, gs.Tensor) or not self.context.is_constant(tensor):
            self._no("constant", 21, f"{asked}, a constant", tensor_words(self.context, tensor), operand.span)
            return False
        dtype = self.context.facts.dtype(tensor)
        if operand.dtype is not None and dtype != DTYPES[operand.dtype]:
            found = f"{tensor.name!r} is {DType(dtype) if dtype else 'of unknown type'}"
            self._no("type", 22, asked, found, operand.span)
            return False
        if not isinstance(operand.value, ast.Literal | ast.ListOf):
            asked += self._worth(operand.value)
        try:
            found = value_words(self.context.array(tensor))
        except Failure as failure:
            found = str(failure)
        self._no("value", 26, asked, f"{tensor.name!r} is {found}", operand.span)
        return False

    # --- several ends ---------------------------------------------------------------------------------------------------------

    def _join(self, number: int, name: str) -> Iterator[Sequence[Goal]]:
        self._begin(None)
        tensor, pattern = self.bound.get(name), self._pattern.nodes[number]
        if not isinstance(tensor, gs.Tensor):
            self._no("consumer", 0, f"`{name}` read by {_ops(pattern)}", f"`{name}` is absent", pattern.source.span)
        elif not any(True for _ in self.context.index.users_with(tensor, pattern.ops)):
            found = f"{tensor.name!r} {read_by(self.context, tensor)}"
            self._no("consumer", 0, f"`{name}` also read by {_ops(pattern)}", found, pattern.source.span)
        return super()._join(number, name)


def read_by(context: Context, tensor: gs.Tensor) -> str:
    """`is read by Relu 'a', Add 'b' and is an output`."""
    users = context.index.uses(tensor)
    listed = ", ".join(node_words(node) for node in users[:4]) + (f" and {len(users) - 4} more" if len(users) > 4 else "")
    parts = [f"is read by {listed}"] if users else []
    if context.index.output_of(tensor):
        parts.append("is an output of the graph")
    return " and ".join(parts) or "is not read"


def _ops(pattern: PatternNode) -> str:
    return " or ".join(sorted(f"{domain}.{op}" if domain else op for domain, op in pattern.ops)) or "any operator"


def _arity(pattern: PatternNode) -> str:
    if pattern.most is None:
        return f"at least {pattern.fixed} operand{'' if pattern.fixed == 1 else 's'}"
    least, most = pattern.fixed, pattern.most
    return f"{least} operand{'' if least == 1 else 's'}" if least == most else f"{least} to {most} operands"


def _rank_fits(dims: Sequence[Any], rank: int) -> bool:
    return rank >= len(dims) - 1 if Ellipsis in dims else rank == len(dims)
