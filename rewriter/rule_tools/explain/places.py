"""One rule at one place: it fires, or this is the deepest question that it reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import onnx_graphsurgeon as gs

from rewriter.core.conditions import effective_attributes
from rewriter.core.conditions.context import Context, Text
from rewriter.core.conditions.evaluate import Bindings, evaluate, holds
from rewriter.core.conditions.rule_values import UNKNOWN, DType, Failure, Symbol
from rewriter.core.conditions.witnessed import Witnessed, node_words, tensor_words, value_words
from rewriter.core.engine.attempt import MISTAKES, Attempt, Fired
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.engine.recorder import Recorder
from rewriter.core.graph.index import operator_key
from rewriter.core.graph.message_text import node_name
from rewriter.core.language import ast
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.pattern import Made, Operand, Pattern, PatternNode, is_run
from rewriter.core.log import Change, Condition, Log
from rewriter.core.matching.match import Goal, Goals, Matcher, Share, interface_matches
from rewriter.core.record import record

# What is known of a rule that fires in a model, or does not: the records that explanations are made of.

Stage = Literal["place", "pattern", "private", "where", "rewrite"]
STAGES: tuple[Stage, ...] = ("place", "pattern", "private", "where", "rewrite")

Depth = tuple[int, int, int]


@record(frozen=True, slots=True)
class FirstNo:
    """One question of a rule that was answered with no, with "unknown", or with an error.

    Attributes:
        stage: which part of the rule asked; the parts are asked in the order of `STAGES`.
        kind: what sort of question: "opset", "inside", "operator", "operands", "distinct", "same node", "scope", "outputs",
            "unused output", "attribute", "operand", "made by", "consumer", "constant", "value", "same", "type", "rank",
            "dimension", "run", "private", "where", "rewrite", "search", "interface".
        depth: how far the rule had come; the larger, the nearer to firing.
        asked: the question, mostly in the rule's own words.
        found: what the model has there.
        line: line of the rule file that asks.
        node: name of the node at which it was asked, "" for none.
        unknown: whether the answer is not "no" but "unknown"; `remedy` says what would make it known, or is "".
        error: whether asking raised an error.
    """

    stage: Stage
    kind: str
    depth: Depth
    asked: str
    found: str
    line: int = 0
    node: str = ""
    unknown: bool = False
    remedy: str = ""
    error: bool = False


@record(frozen=True, slots=True)
class RuleAnswer:
    """What became of the rule at one place.

    Attributes:
        place: path of the graph; `node` and `op` are those of the root, "" for a rule on the model as a whole.
        fires: whether it fires there, with the names of the `matched` nodes, `changes` and the values of its `conditions`.
        question: the deepest question that kept it from firing, None where it fires.
    """

    place: str
    node: str
    op: str
    fires: bool
    question: FirstNo | None = None
    matched: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    conditions: tuple[Condition, ...] = ()


@record(frozen=True, slots=True)
class Later:
    """A firing that only a run of all selected rules brings: `after` are the firings (rule, node) that made way for it."""

    place: str
    node: str
    op: str
    after: tuple[tuple[str, str], ...]


@record(frozen=True, slots=True)
class Earlier:
    """A place where the rule would fire, had not another rule fired there first."""

    place: str
    node: str
    rule: str
    at: str


@record(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about one rule and one model.

    Attributes:
        rule, title, path, line: the rule and where it stands.
        guards: why a run does not try the rule on this model at all; places are explained as if it did.
        ops: the operators at which the rule stands, "" for a rule on the model as a whole.
        answers: one for each place, those that fire first, then the near misses by depth.
        later, earlier: what a run of all selected rules changes in this.
        settled: (place, node) where the fact that was unknown is known in that run, and the rule does not fire.
        stops: why that run ended before its time.
    """

    rule: str
    title: str
    path: str
    line: int
    guards: tuple[str, ...]
    ops: tuple[str, ...]
    answers: tuple[RuleAnswer, ...]
    later: tuple[Later, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    settled: tuple[tuple[str, str], ...] = ()
    stops: tuple[str, ...] = ()


# A matcher that remembers the deepest question to which it answered no.
#
# It asks nothing by itself: every answer is the matcher's own, and only after a "no" it looks which part of the question that
# was. A normal run therefore pays nothing for it, and what it says cannot differ from what a run does.


class Witness(Matcher):
    """Finds what `Matcher` finds; `deepest` is the question at which the way that came farthest ended."""

    def __init__(
        self, pattern: Pattern, context: Context, parameter_values: dict[str, Any], lets: Mapping[str, ast.Expr], text: Text
    ) -> None:
        super().__init__(pattern, context, parameter_values, lets)
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

    def _no(self, kind: str, step: int, question: str, found: str, span: ast.Span, node: gs.Node | None = None) -> None:
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
        self.deepest = FirstNo("pattern", kind, depth, question, found, line, str(name), bool(doubts), remedy)

    # --- nodes ---------------------------------------------------------------------------------------------------------------

    def _node(self, pattern: PatternNode, node: gs.Node) -> Iterator[Sequence[Goal]]:
        self._begin(node)
        known = self.nodes.get(pattern.number)
        if known is not None and known is not node:
            question = f"`{self._text.at(pattern.source.span)}` is one node"
            self._no("same node", 0, question, f"{node_words(known)} and {node_words(node)}", pattern.source.span, node)
        return super()._node(pattern, node)

    def fits(self, pattern: PatternNode, node: gs.Node) -> bool:
        self._begin(node)
        if super().fits(pattern, node):
            return True
        span, count = pattern.source.ops_span, sum(bool(tensor.name) for tensor in node.inputs)
        if operator_key(node) not in pattern.ops:
            self._no("operator", 0, f"operator {_ops(pattern)}", node_words(node), span, node)
        elif id(node) in self.taken:
            question = f"`{self._text.at(pattern.source.span)}` is a node of its own"
            self._no("distinct", 1, question, f"{node_words(node)} stands for another one already", span, node)
        elif self.context.index.scope(node) is self._scope:
            question = f"{_arity(pattern)} of {_ops(pattern)}"
            self._no("operands", 2, question, f"{node_words(node)} has {count}", pattern.source.span, node)
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
                count = sum(bool(tensor.name) for tensor in outputs)
                self._no("outputs", 4, f"{len(source.outputs)} outputs", f"{node_words(node)} makes {count}", span, node)
                return False
            if output.name is not None and not self.same(self.bound.get(output.name), outputs[position]):
                self._not_same(output.name, outputs[position], 4, output.span)
                return False
        named = max(len(source.outputs), 1)
        for position, tensor in enumerate(outputs[named:], named):
            if self.context.index.is_used(tensor):
                question = f"output {position} of {node.op} is not used (the pattern does not list it)"
                self._no("unused output", 5, question, f"{tensor.name!r} {read_by(self.context, tensor)}", span, node)
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
        question = f"`{self._text.at(attr.span)}`"
        if attr.value is not None and isinstance(attr.value, ast.Name | ast.Binary | ast.Call | ast.Index):
            question += self._worth(attr.value)
        default = "" if attr.name in node.attrs else " (by default)"
        self._no("attribute", 6, question, f"{attr.name} = {value_words(found)}{default}", attr.span, node)
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
            question = f"operand {position} made by {_ops(self._pattern.nodes[operand.node])}"
            self._no("made by", 10 + position, question, found, span)
        else:
            self._no("operand", 10 + position, f"operand {position}, `{self._text.at(span)}`", found, span)

    def _operand(self, operand: Operand, tensor: gs.Tensor | None) -> Iterator[Sequence[Goal]]:
        self._begin(self._reader(operand))
        if isinstance(operand, Made):
            maker = None if tensor is None else self.context.producer(tensor)
            if maker is not None and not any(t is tensor for t in maker.outputs[operand.output : operand.output + 1]):
                source = self._pattern.nodes[operand.node].source
                question = f"output {operand.output} of {_ops(self._pattern.nodes[operand.node])}"
                self._no("made by", 20, question, tensor_words(self.context, tensor), source.span)
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
            question = f"`*{operand.run}`: all outputs of one {_ops(self._pattern.nodes[operand.node])}, in their order"
            self._no("run", 20, question, listed, source.span)
        elif isinstance(operand, ast.Variadic):
            self._no("same", 20, f"`*{operand.name}`: the same tensors at each place", listed, operand.span)

    def capture(self, operand: ast.Capture, tensor: gs.Tensor | None) -> bool:
        self._begin(self._reader(operand))
        bound = self.bound.get(operand.name)
        if super().capture(operand, tensor):
            return True
        question = f"`{self._text.at(operand.span)}`"
        if tensor is None or not tensor.name:
            here = "" if bound is None else f" (`{operand.name}` is {value_words(bound)})"
            self._no("operand", 20, question + here, "left out", operand.span)
        elif operand.const and not self.context.is_constant(tensor):
            self._no("constant", 21, f"{question}, a constant", tensor_words(self.context, tensor), operand.span)
        elif bound is not None and not self.same(bound, tensor):
            self._not_same(operand.name, tensor, 22, operand.span)
        return False  # what a type asks has been noted by `_typed`

    def _not_same(self, name: str, tensor: gs.Tensor, step: int, span: ast.Span) -> None:
        question = f"`{name}` the same at each place, {value_words(self.bound.get(name))}"
        self._no("same", step, question, tensor_words(self.context, tensor), span)

    def _typed(self, pattern: ast.TypePattern, tensor: gs.Tensor) -> bool:
        if super()._typed(pattern, tensor):
            return True
        question = f"`{self._text.at(pattern.span)}`"
        dtype = self.context.facts.dtype(tensor)
        if pattern.dtype is not None and dtype != DTYPES[pattern.dtype]:
            found = f"{tensor.name!r} is {DType(dtype) if dtype else 'of unknown type'}"
            self._no("type", 23, question, found, pattern.span)
            return False
        shape = self.context.facts.shape(tensor)
        known = "unknown" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
        asks_rank = pattern.dims is not None and shape is not None and not _rank_fits(pattern.dims, len(shape))
        kind = "rank" if shape is None or asks_rank else "dimension"
        self._no(kind, 24 if kind == "rank" else 25, question, f"shape of {tensor.name!r} is {known}", pattern.span)
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
        question = f"`{self._text.at(operand.span)}`"
        if not isinstance(tensor, gs.Tensor) or not self.context.is_constant(tensor):
            self._no("constant", 21, f"{question}, a constant", tensor_words(self.context, tensor), operand.span)
            return False
        dtype = self.context.facts.dtype(tensor)
        if operand.dtype is not None and dtype != DTYPES[operand.dtype]:
            found = f"{tensor.name!r} is {DType(dtype) if dtype else 'of unknown type'}"
            self._no("type", 22, question, found, operand.span)
            return False
        if not isinstance(operand.value, ast.Literal | ast.ListOf):
            question += self._worth(operand.value)
        try:
            found = value_words(self.context.array(tensor))
        except Failure as failure:
            found = str(failure)
        self._no("value", 26, question, f"{tensor.name!r} is {found}", operand.span)
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


class Explainer(Attempt):
    """Tries one rule at places as a run does, takes back what it did, and knows why it did not."""

    def __init__(self, context: Context, compiled: CompiledRule) -> None:
        super().__init__(context, detail=True)
        self._compiled = compiled
        self._text = Text(compiled.rule)
        self._deepest: FirstNo | None = None
        self._witness: Witness | None = None

    # --- places ---------------------------------------------------------------------------------------------------------------

    def explain(self, root: gs.Node) -> RuleAnswer:
        """The rule at one node of its root's operator."""
        index = self.context.index
        place, name = index.scope(root).path, node_name(root)
        self._deepest = self._witness = None
        self.context.forget()
        mark = index.names.mark(), index.node_names.mark()
        fired = self.at_node(self._compiled, root)
        if fired is not None:
            return self._fires(fired, mark)
        if self._witness is not None and self._witness.deepest is not None:
            self._keep(self._witness.deepest)
        return RuleAnswer(place, name, root.op, False, self._deepest)

    def explain_model(self) -> RuleAnswer:
        """The rule on the model's interface."""
        index = self.context.index
        self._deepest = None
        self.context.forget()
        mark = index.names.mark(), index.node_names.mark()
        for bound in interface_matches(self._compiled.rule.ast.match, self.context, self._compiled.parameter_values):
            fired = self.on_graph(self._compiled, bound, 0)
            if fired is not None:
                return self._fires(fired, mark)
        if self._deepest is None:
            self._deepest = self._interface()
        return RuleAnswer(index.scopes[0].path, "", "", False, self._deepest)

    def _fires(self, fired: Fired, mark: tuple[int, int]) -> RuleAnswer:
        log = Log()
        Recorder(log, self.context, detail=True).record(fired)
        self._take_back(fired.edits, mark)
        firing = log.firings[0]
        return RuleAnswer(firing.place, firing.root, firing.op, True, None, firing.matched, firing.changes, firing.conditions)

    # --- questions ------------------------------------------------------------------------------------------------------------

    def _keep(self, question: FirstNo) -> None:
        if self._deepest is None or question.depth > self._deepest.depth:
            self._deepest = question

    def _note(self, stage: Stage, kind: str, depth: tuple[int, int], question: str, found: str, span: ast.Span) -> None:
        self._keep(FirstNo(stage, kind, _depth(stage, *depth), question, found, self._text.line(span)))

    def _first(self, compiled: CompiledRule, root: gs.Node, started: float) -> Fired | None:
        if not self._inside(compiled, root):
            return None
        assert compiled.pattern is not None
        values = self._parameter_values(compiled, root)
        self._witness = Witness(compiled.pattern, self.context, values, compiled.lets, self._text)
        for _ in self._witness.matches(root):
            bound, nodes = self._witness.snapshot()
            fired = self._try(compiled, root, bound, nodes, started)
            if fired is not None:
                return fired
        return None

    def _inside(self, compiled: CompiledRule, root: gs.Node) -> bool:
        if super()._inside(compiled, root):
            return True
        rule, scope = compiled.rule, self.context.index.scope(root)
        version, inside = scope.opsets.get(""), rule.ast.match.inside
        if version is not None and version not in rule.opset:
            question = f"opset {rule.opset.first or ''}..{rule.opset.last or ''}"
            self._note("place", "opset", (0, 0), question, f"opset {version}", _header(rule.ast, "opset"))
        elif inside is not None:
            owner = "the main graph" if scope.owner is None else f"{scope.attr} of {scope.owner.op}"
            found = scope.path if scope.is_function and scope.owner is None else owner
            self._note("place", "inside", (0, 1), f"`{self._text.at(inside.span)}`", found, inside.span)
        return False

    def _private(self, compiled: CompiledRule, bound: Any, nodes: Any) -> bool:
        if super()._private(compiled, bound, nodes):
            return True
        matched = {id(node) for node in nodes.values()}
        for number, private in enumerate(compiled.rule.ast.privates):
            for name in private.names:
                found = bound[name]
                for tensor in found if isinstance(found, list) else [found]:
                    if self.context.index.output_of(tensor) or not self.context.index.users(tensor).keys() <= matched:
                        question = f"`{self._text.at(private.span)}`: not used outside of the match"
                        reason = f"{tensor.name!r} {read_by(self.context, tensor)}"
                        self._note("private", "private", (number, 0), question, reason, private.span)
                        return False
        return False

    def _refused(self, compiled: CompiledRule, root: gs.Node | None, nodes: Any) -> bool:
        if super()._refused(compiled, root, nodes):
            return True
        span = _header(compiled.rule.ast, "evidence")
        question = f"{' or '.join(compiled.rule.runtimes)} refuses it"
        self._note("where", "runtime", (len(compiled.wheres), 0), question, "the installed one has a kernel for it", span)
        return False

    def _try(self, compiled: CompiledRule, root: Any, bound: Any, nodes: Any, started: float) -> Fired | None:
        fired = super()._try(compiled, root, bound, nodes, started)
        if fired is None:
            self._false_condition(compiled, Bindings(bound, compiled.lets))
        return fired

    def _false_condition(self, compiled: CompiledRule, names: Bindings) -> None:
        """Notes the first `where` line that is false, which wins over those that fail or are unknown; of these `_block` has
        noted what there is.
        """
        mark = len(self.context.doubts)
        for number, where in enumerate(compiled.rule.ast.wheres):
            try:
                answer = holds(where.condition, names, self.context)
            except (Failure, *MISTAKES):
                continue
            if answer is False:
                found = Witnessed(where.condition, names, self.context, self._text).found()
                self._note("where", "where", (number, 0), f"`{self._text.at(where.span)}`", found or "it is false", where.span)
                break
        del self.context.doubts[mark:]

    def _block(
        self,
        compiled: CompiledRule,
        root: gs.Node | None,
        reason: str,
        remedy: str = "",
        *,
        where: ast.Where | None = None,
        error: bool = False,
    ) -> None:
        super()._block(compiled, root, reason, remedy, where=where, error=error)
        rule = compiled.rule.ast
        if where is not None:
            # An unknown line lets the following ones be asked; that none of them is false makes it the deepest.
            number = rule.wheres.index(where) if error else len(rule.wheres)
            depth, text, span = _depth("where", number, 1), f"`{self._text.at(where.span)}`", where.span
            question = FirstNo("where", "where", depth, text, reason, self._text.line(span), "", not error, remedy, error)
            self._keep(question)
        elif self._in_rewrite:
            span = rule.rewrites[0].span
            depth = _depth("rewrite", 0, 0)
            text = "the rewrite can be done"
            self._keep(FirstNo("rewrite", "rewrite", depth, text, reason, self._text.line(span), "", False, remedy, error))
        elif error:
            line = self._text.line(rule.match.span)
            self._keep(FirstNo("pattern", "search", _depth("pattern", 1 << 20, 0), "a match", reason, line, error=True))

    _in_rewrite = False

    def _rewrite(self, *args: Any) -> Fired | None:
        self._in_rewrite = True
        try:
            fired = super()._rewrite(*args)
        finally:
            self._in_rewrite = False
        if fired is None:
            rule, root = self._compiled.rule.ast, args[1]
            if not any(b.opset is None or self._version(root) in b.opset for b in rule.rewrites):
                question = "a rewrite block for the opset"
                self._note("rewrite", "rewrite", (0, 0), question, f"opset {self._version(root)}", rule.rewrites[0].span)
        return fired

    def _version(self, root: gs.Node | None) -> int:
        index = self.context.index
        return (index.scopes[0] if root is None else index.scope(root)).opsets.get("", 1)

    def _interface(self) -> FirstNo:
        """The first item of `match graph` that no input or output fits."""
        match = self._compiled.rule.ast.match
        for number, item in enumerate(match.items):
            shortened = ast.Match(graph=True, items=match.items[: number + 1])
            if next(interface_matches(shortened, self.context, self._compiled.parameter_values), None) is None:
                graph = self.context.index.graph
                tensors = graph.inputs if item.side == "input" else graph.outputs
                found = ", ".join(self._declared(tensor) for tensor in tensors[:4]) or f"no {item.side}"
                found += f" and {len(tensors) - 4} more" if len(tensors) > 4 else ""
                question, line = f"`{self._text.at(item.span)}`", self._text.line(item.span)
                return FirstNo("pattern", "interface", _depth("pattern", number, 0), question, found, line)
        return FirstNo("pattern", "interface", _depth("pattern", 0, 0), "a match", "none", self._text.line(match.span))

    def _declared(self, tensor: gs.Tensor) -> str:
        dtype, shape = self.context.declared(tensor)
        dims = "of unknown rank" if shape is UNKNOWN else ",".join(value_words(dim) for dim in shape)
        return f"{tensor.name!r} {value_words(dtype)}" + (f" {dims}" if shape is UNKNOWN else f"[{dims}]")


def _depth(stage: Stage, number: int, step: int) -> Depth:
    return STAGES.index(stage), number, step


def _header(rule: ast.Rule, key: str) -> ast.Span:
    """Where a key of the rule's header stands; the rule's code for one that is not written."""
    return next((item.span for item in rule.meta if item.key == key), rule.code_span)
