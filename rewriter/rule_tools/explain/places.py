"""One rule at one place: it fires, or this is the deepest question that it reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import onnx_graphsurgeon as gs

from rewriter.core.conditions import recorded_graph
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate, holds
from rewriter.core.conditions.recorded_graph import label
from rewriter.core.conditions.rule_values import MISTAKES, UNKNOWN, DType, Failure
from rewriter.core.conditions.witnessed import Witnessed, node_words, tensor_words, value_words
from rewriter.core.engine.attempt import Attempt, Fired, Tracer
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.engine.phases import Recorder, changes_nothing
from rewriter.core.errors import listed
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import operator_key
from rewriter.core.graph.values import used_count
from rewriter.core.language import ast
from rewriter.core.language.pattern import Made, PatternNode, is_run
from rewriter.core.language.schema import DTYPES
from rewriter.core.log import Change, Condition, Log
from rewriter.core.matching.pattern_program import Place, interface_matches
from rewriter.core.matching.questions import Registers, is_same
from rewriter.core.record import record

# The records of explanations: facts about a rule that fires in a model, or does not.

Stage = Literal["place", "pattern", "private", "where", "rewrite"]
STAGES: tuple[Stage, ...] = ("place", "pattern", "private", "where", "rewrite")

Depth = tuple[int, int, int]


@record(frozen=True, slots=True)
class FirstNo:
    """One question of a rule whose answer was no, "unknown", or an error.

    Attributes:
        stage: the part of the rule that contains the question; the parts are tested in the order of `STAGES`.
        kind: the kind of question: "opset", "inside", "operator", "operands", "distinct", "same node", "scope", "outputs",
            "unused output", "attribute", "operand", "made by", "consumer", "constant", "value", "same", "type", "rank",
            "dimension", "run", "private", "where", "rewrite", "search", "interface".
        depth: how far the rule got; the larger, the nearer to firing.
        asked: the question, mostly in the rule's own text.
        found: the value in the model.
        line: line of the question in the rule file.
        node: name of the node of the question, "" for none.
        unknown: whether the answer is not "no" but "unknown"; `remedy` is the way to make it known, or "".
        error: whether the question raised an error.
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
    """The result of the rule at one place.

    Attributes:
        place: path of the graph; `node` and `op` are the name and operator of the root, "" for a rule on the whole model.
        fires: whether it fires there, with the names of the `matched` nodes, `changes` and the values of its `conditions`.
        question: the deepest question that kept it from firing, None if it fires.
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
    """A firing that happens only in a run of all selected rules: `after` are the firings (rule, node) that made way for it."""

    place: str
    node: str
    op: str
    after: tuple[tuple[str, str], ...]


@record(frozen=True, slots=True)
class Earlier:
    """A place where the rule would fire if another rule had not fired there first."""

    place: str
    node: str
    rule: str
    at: str


@record(frozen=True, slots=True)
class Explanation:
    """All results for one rule and one model.

    Attributes:
        rule, title, path, line: the rule and its place in its file.
        guards: why a run does not try the rule on this model at all; places are explained as if it did.
        ops: the operators that the rule's root may have, "" for a rule on the whole model.
        answers: one for each place; places where the rule fires come first, then the near misses by depth.
        later, earlier: the differences in a run of all selected rules.
        settled: (place, node) if the unknown fact is known in that run, and the rule does not fire.
        stops: why that run ended early.
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


# The question of a pattern and the answer in the model, in words.
#
# The match program reports as a word which question failed, and why. A run builds no sentences, and the sentences cannot differ
# from the behaviour of the run.

Words = tuple[int, str, str, ast.Span]
"""How far a node had come, the question, the value that was found instead, and the place in the rule."""


class Reasons:
    """Makes a `FirstNo` of each question of one pattern that fails."""

    def __init__(self, context: Context, compiled: CompiledRule) -> None:
        assert compiled.pattern is not None
        self._context, self._rule = context, compiled.rule
        self._nodes, self._program, self._lets = compiled.pattern.nodes, compiled.program, compiled.lets

    def first_no(self, place: Place, reason: str, registers: Registers, doubts: int) -> FirstNo | None:
        """The question at a place; None for a question that has no words."""
        kind, words = self._words(place, reason, registers)
        if words is None:
            return None
        step, question, found, span = words
        new_doubts = self._context.doubts[doubts:]
        remedy = next((remedy for _, remedy in new_doubts if remedy), "")
        node = None if isinstance(place.part, str) else registers[place.node]
        name = "" if node is None else next((t for t in (node.name, *(o.name for o in node.outputs)) if t), "")
        return FirstNo(
            "pattern",
            kind,
            _depth("pattern", place.level, step),
            question,
            new_doubts[0][0] if new_doubts else found,
            self._rule.line(span),
            str(name),
            bool(new_doubts),
            remedy,
        )

    def _words(self, place: Place, reason: str, r: Registers) -> tuple[str, Words | None]:
        part = place.part
        if isinstance(part, PatternNode):
            return self._of_node(part, place, reason, r)
        if isinstance(part, ast.AttrPattern):
            return reason, self._of_attribute(part, place, r)
        if isinstance(part, tuple):
            return reason, self._of_outputs(part, place, reason, r)
        if isinstance(part, Made):
            return reason, self._of_maker(part, place, reason, r)
        if isinstance(part, str):
            return ("consumer", self._of_reader(part, place, r)) if reason == "no way" else (reason, None)
        if isinstance(part, ast.Capture | ast.ConstPattern):
            return reason.removeprefix("unknown "), self._of_tensor(part, place, reason, r)
        assert isinstance(part, ast.Variadic)
        return reason, (20, f"`*{part.name}`: the same tensors at each place", self._listed(r[place.listed], place), part.span)

    def _bound(self, place: Place, r: Registers) -> dict[str, Any]:
        """The names that were bound before a question."""
        return {name: r[at] for name, at in self._program.names[: place.known] if r[at] is not None}

    def _worth(self, expr: ast.Expr, place: Place, r: Registers) -> str:
        try:
            return f", which is {value_words(evaluate(expr, Bindings(self._bound(place, r), self._lets), self._context))}"
        except Failure:
            return ""

    def _not_same(self, name: str, tensor: gs.Tensor, step: int, span: ast.Span, r: Registers) -> Words:
        value = r[dict(self._program.names)[name]]
        question = f"`{name}` the same at each place, {value_words(value)}"
        return step, question, tensor_words(self._context, tensor), span

    # --- nodes ---------------------------------------------------------------------------------------------------------------

    def _of_node(self, pattern: PatternNode, place: Place, reason: str, r: Registers) -> tuple[str, Words]:
        node, source = r[place.node], pattern.source
        found = node_words(node)
        if reason == "operator":
            return reason, (0, f"operator {_ops(pattern)}", found, source.ops_span)
        if reason == "same node":
            known = node_words(r[pattern.number])
            return reason, (0, f"`{self._rule.words(source.span)}` is one node", f"{known} and {found}", source.span)
        if reason == "distinct":
            question = f"`{self._rule.words(source.span)}` is a node of its own"
            return reason, (1, question, f"{found} is already matched with another one", source.ops_span)
        if reason == "operands":
            count = sum(bool(tensor.name) for tensor in node.inputs)
            return reason, (2, f"{_arity(pattern)} of {_ops(pattern)}", f"{found} has {count}", source.span)
        if reason == "scope":
            path = self._context.index.scope(node).path
            return reason, (3, "all nodes in one graph", f"{found} is in {path}", source.ops_span)
        if reason == "no way":
            single = next(i for i, operand in enumerate(pattern.inputs) if not is_run(operand))
            span = source.inputs[single].span
            operands = node.inputs[: used_count(node.inputs)]
            return "operand", (10, f"`{self._rule.words(span)}` among the operands", _names(operands), span)
        return self._of_operands(pattern, r[place.listed])

    def _of_operands(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> tuple[str, Words]:
        """The first operand that is missing, or that another operator makes."""
        for position, operand in enumerate(pattern.inputs):
            span = pattern.source.inputs[position].span
            tensor = operands[position] if position < len(operands) else None
            found = tensor_words(self._context, tensor)
            if isinstance(operand, Made):
                maker = None if tensor is None else self._context.index.producer(tensor)
                if maker is None or operator_key(maker) not in self._nodes[operand.node].ops:
                    question = f"operand {position} made by {_ops(self._nodes[operand.node])}"
                    return "made by", (10 + position, question, found, span)
            elif (tensor is None or not tensor.name) and not (isinstance(operand, ast.Capture) and operand.optional):
                hint = f"{found}; `{getattr(operand, 'name', 'b')}?` would be an operand that may be"
                return "operand", (10 + position, f"operand {position}, `{self._rule.words(span)}`", hint, span)
        raise AssertionError("no operand is missing")

    def _of_outputs(self, outputs: tuple[ast.Output, ...], place: Place, reason: str, r: Registers) -> Words | None:
        node = r[place.node]
        made = node.outputs
        source = self._nodes[place.node].source
        span = outputs[0].span if outputs else source.span
        if reason == "outputs":
            count = sum(bool(tensor.name) for tensor in made)
            return 4, f"{len(outputs)} outputs", f"{node_words(node)} makes {count}", span
        if reason == "unused output":
            position = next(i for i in range(max(len(outputs), 1), len(made)) if self._context.index.is_used(made[i]))
            question = f"output {position} of {node.op} is not used (the pattern does not list it)"
            return 5, question, f"{made[position].name!r} {read_by(self._context, made[position])}", span
        bound = {name: r[at] for name, at in self._program.names}
        for output, tensor in zip(outputs, made, strict=False):
            if output.variadic:
                break
            if output.name is not None and not is_same(self._context, bound[output.name], tensor):
                return self._not_same(output.name, tensor, 4, output.span, r)
        return None

    def _of_attribute(self, attr: ast.AttrPattern, place: Place, r: Registers) -> Words:
        node, value = r[place.node], attr.value
        is_free = isinstance(value, ast.Name) and value.id not in self._bound(place, r) and value.id not in DTYPES
        found = value_words(recorded_graph.effective(self._context, node, attr.name))
        question, is_written = f"`{self._rule.words(attr.span)}`", attr.name in node.attrs
        if attr.mode != "equals" or is_free:
            text = f"{attr.name} = {found}" if is_written else f"{node_words(node)} has no attribute {attr.name}"
            return 6, question, text, attr.span
        if isinstance(value, ast.Name | ast.Binary | ast.Call | ast.Index):
            question += self._worth(value, place, r)
        return 6, question, f"{attr.name} = {found}" + ("" if is_written else " (by default)"), attr.span

    # --- operands ------------------------------------------------------------------------------------------------------------

    def _of_maker(self, operand: Made, place: Place, reason: str, r: Registers) -> Words:
        pattern = self._nodes[operand.node]
        ops, span = _ops(pattern), pattern.source.span
        if reason == "made by":
            tensor = r[place.listed][place.position]
            return 20, f"output {operand.output} of {ops}", tensor_words(self._context, tensor), span
        question = f"`*{operand.run}`: all outputs of one {ops}, in their order"
        return 20, question, self._listed(r[place.listed], place), span

    def _listed(self, operands: Sequence[Any], place: Place) -> str:
        """The tensors of a run, which a choice has cut out, or which goes to the end."""
        shared = self._nodes[place.node].split
        return _names(operands[place.position] if shared else operands[place.position :])

    def _of_tensor(self, part: ast.Capture | ast.ConstPattern, place: Place, reason: str, r: Registers) -> Words:
        operands, question = r[place.listed], f"`{self._rule.words(part.span)}`"
        tensor = operands[place.position] if place.position < len(operands) else None
        if reason == "operand":
            assert isinstance(part, ast.Capture)
            value = self._bound(place, r).get(part.name)
            here = "" if value is None else f" (`{part.name}` is {value_words(value)})"
            return 20, question + here, "left out", part.span
        assert tensor is not None
        if reason == "constant":
            return 21, f"{question}, a constant", tensor_words(self._context, tensor), part.span
        if isinstance(part, ast.ConstPattern):
            return self._of_constant(part, question, place, reason, r)
        if reason == "same":
            return self._not_same(part.name, tensor, 22, part.span, r)
        assert part.type is not None
        question = f"`{self._rule.words(part.type.span)}`"
        if reason == "type":
            return 23, question, self._type_words(tensor), part.type.span
        if reason == "unknown dimension":  # a name means two dimensions, one of them unknown
            self._context.doubt(f"a dimension of {label(tensor)} is unknown")
        shape = self._context.facts.shape(tensor)
        known = "unknown" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
        return 24 if reason == "rank" else 25, question, f"shape of {tensor.name!r} is {known}", part.type.span

    def _of_constant(self, operand: ast.ConstPattern, question: str, place: Place, reason: str, r: Registers) -> Words:
        tensor = r[place.listed][place.position]
        if reason == "type":
            return 22, question, self._type_words(tensor), operand.span
        if not isinstance(operand.value, ast.Literal | ast.ListOf):
            question += self._worth(operand.value, place, r)
        try:
            found = value_words(self._context.array(tensor))
        except Failure as failure:
            found = str(failure)
        return 26, question, f"{tensor.name!r} is {found}", operand.span

    def _type_words(self, tensor: gs.Tensor) -> str:
        dtype = self._context.facts.dtype(tensor)
        return f"{tensor.name!r} is {DType(dtype) if dtype else 'of unknown type'}"

    def _of_reader(self, name: str, place: Place, r: Registers) -> Words:
        tensor, pattern = r[dict(self._program.names)[name]], self._nodes[place.node]
        if not isinstance(tensor, gs.Tensor):
            return 0, f"`{name}` read by {_ops(pattern)}", f"`{name}` is absent", pattern.source.span
        found = f"{tensor.name!r} {read_by(self._context, tensor)}"
        return 0, f"`{name}` also read by {_ops(pattern)}", found, pattern.source.span


def _names(tensors: Sequence[gs.Tensor]) -> str:
    return ", ".join(repr(tensor.name) for tensor in tensors[:8]) or "no operands"


def read_by(context: Context, tensor: gs.Tensor) -> str:
    """`is read by Relu 'a', Add 'b' and is an output`."""
    users = context.index.uses(tensor)
    parts = [f"is read by {listed(list(map(node_words, users)), 4)}"] if users else []
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


class Explainer(Tracer):
    """Tries one rule at places as a run does, rolls back its changes, and gets the reasons why it does not fire."""

    asks_why = True

    def __init__(self, context: Context, compiled: CompiledRule) -> None:
        self._context, self._compiled, self._rule = context, compiled, compiled.rule
        self._attempt = Attempt(context, detail=True, tracers=(self,))
        self._reasons = None if compiled.pattern is None else Reasons(context, compiled)
        self._deepest: FirstNo | None = None
        self._is_rewriting = False

    # --- places ---------------------------------------------------------------------------------------------------------------

    def explain(self, root: gs.Node) -> RuleAnswer:
        """The rule at one node of its root's operator."""
        place, name = self._context.index.scope(root).path, node_name(root)
        self._deepest = None
        self._context.forget()
        fired = self._attempt.at_node(self._compiled, root)
        if fired is None or self._is_idle(fired):
            return RuleAnswer(place, name, root.op, False, self._deepest)
        return self._fires(fired)

    def explain_model(self) -> RuleAnswer:
        """The rule on the model's interface."""
        self._deepest = None
        for bound in interface_matches(self._compiled.rule.ast.match, self._context, self._compiled.parameter_values):
            fired = self._attempt.on_graph(self._compiled, bound, 0)
            if fired is not None and not self._is_idle(fired):
                return self._fires(fired)
        return RuleAnswer(self._context.index.scopes[0].path, "", "", False, self._deepest or self._interface())

    def _fires(self, fired: Fired) -> RuleAnswer:
        log = Log()
        Recorder(log, self._context, detail=True).record(fired)
        self._attempt.take_back(fired)
        firing = log.firings[0]
        return RuleAnswer(firing.place, firing.root, firing.op, True, None, firing.matched, firing.changes, firing.conditions)

    def _is_idle(self, fired: Fired) -> bool:
        """Whether the rewrite makes the matched nodes again. A run rolls such a rewrite back, as this does."""
        if not changes_nothing(fired.edits):
            return False
        self._attempt.take_back(fired)
        span = self._compiled.rule.ast.rewrites[0].span
        self._note("rewrite", "rewrite", (0, 0), "the rewrite can be done", "it would change nothing", span)
        return True

    def _keep(self, question: FirstNo | None) -> None:
        if question is not None and (self._deepest is None or question.depth > self._deepest.depth):
            self._deepest = question

    def _note(self, stage: Stage, kind: str, depth: tuple[int, int], question: str, found: str, span: ast.Span) -> None:
        self._keep(FirstNo(stage, kind, _depth(stage, *depth), question, found, self._rule.line(span)))

    # --- as a tracer ----------------------------------------------------------------------------------------------------------

    def is_not_meant(self, compiled: CompiledRule, root: gs.Node) -> None:
        """As in `Tracer`."""
        rule, scope = compiled.rule, self._context.index.scope(root)
        version, inside = scope.opsets.get(""), rule.ast.match.inside
        if version is not None and version not in rule.opset:
            question = f"opset {rule.opset.first or ''}..{rule.opset.last or ''}"
            self._note("place", "opset", (0, 0), question, f"opset {version}", _header(rule.ast, "opset"))
        elif inside is not None:
            owner = "the main graph" if scope.owner is None else f"{scope.attr} of {scope.owner.op}"
            found = scope.path if scope.is_function and scope.owner is None else owner
            self._note("place", "inside", (0, 1), f"`{self._rule.words(inside.span)}`", found, inside.span)

    def fails(self, place: Place, reason: str, registers: Registers, doubts: int) -> None:
        """As in `Tracer`."""
        assert self._reasons is not None
        self._keep(self._reasons.first_no(place, reason, registers, doubts))

    def is_read_outside(self, compiled: CompiledRule, name: str, tensor: gs.Tensor) -> None:
        """As in `Tracer`."""
        number, private = next((i, one) for i, one in enumerate(compiled.rule.ast.privates) if name in one.names)
        question = f"`{self._rule.words(private.span)}`: not used outside of the match"
        self._note(
            "private", "private", (number, 0), question, f"{tensor.name!r} {read_by(self._context, tensor)}", private.span
        )

    def has_kernel(self, compiled: CompiledRule) -> None:
        """As in `Tracer`."""
        span = _header(compiled.rule.ast, "evidence")
        question = f"{' or '.join(compiled.rule.runtimes)} rejects it"
        self._note("where", "runtime", (len(compiled.wheres), 0), question, "the installed one has a kernel for it", span)

    def declines(self, compiled: CompiledRule, names: Bindings) -> None:
        """Notes the first `where` line that is false. It wins over lines that fail or are unknown, which `blocks` has noted."""
        mark = len(self._context.doubts)
        for number, where in enumerate(compiled.rule.ast.wheres):
            try:
                answer = holds(where.condition, names, self._context)
            except (Failure, *MISTAKES):
                continue
            if answer is False:
                found = Witnessed(where.condition, names, self._context, self._rule).found()
                self._note(
                    "where", "where", (number, 0), f"`{self._rule.words(where.span)}`", found or "it is false", where.span
                )
                break
        del self._context.doubts[mark:]

    def blocks(self, compiled: CompiledRule, reason: str, remedy: str, where: ast.Where | None, *, error: bool) -> None:
        """As in `Tracer`."""
        rule = compiled.rule.ast
        if where is not None:
            # The lines after an unknown line are still tested; if none of them is false, the unknown line is the deepest.
            number = rule.wheres.index(where) if error else len(rule.wheres)
            depth, text, span = _depth("where", number, 1), f"`{self._rule.words(where.span)}`", where.span
            question = FirstNo("where", "where", depth, text, reason, self._rule.line(span), "", not error, remedy, error)
            self._keep(question)
        elif self._is_rewriting:
            span = rule.rewrites[0].span
            depth = _depth("rewrite", 0, 0)
            text = "the rewrite can be done"
            self._keep(FirstNo("rewrite", "rewrite", depth, text, reason, self._rule.line(span), "", False, remedy, error))
        elif error:
            line = self._rule.line(rule.match.span)
            self._keep(FirstNo("pattern", "search", _depth("pattern", 1 << 20, 0), "a match", reason, line, error=True))

    def rewrites(self, compiled: CompiledRule, names: Bindings, nodes: Mapping[int, gs.Node]) -> None:
        """As in `Tracer`."""
        self._is_rewriting = True

    def has_rewritten(self, compiled: CompiledRule, root: gs.Node | None, fired: Fired | None) -> None:
        """As in `Tracer`."""
        self._is_rewriting = False
        if fired is not None:
            return
        rule, index = compiled.rule.ast, self._context.index
        version = (index.scopes[0] if root is None else index.scope(root)).opsets.get("", 1)
        if not any(block.opset is None or version in block.opset for block in rule.rewrites):
            question = "a rewrite block for the opset"
            self._note("rewrite", "rewrite", (0, 0), question, f"opset {version}", rule.rewrites[0].span)

    def _interface(self) -> FirstNo:
        """The first item of `match graph` that matches no input or output."""
        match = self._compiled.rule.ast.match
        for number, item in enumerate(match.items):
            shortened = ast.Match(graph=True, items=match.items[: number + 1])
            if next(interface_matches(shortened, self._context, self._compiled.parameter_values), None) is None:
                graph = self._context.index.graph
                tensors = graph.inputs if item.side == "input" else graph.outputs
                found = listed(list(map(self._declared, tensors)), 4) or f"no {item.side}"
                question, line = f"`{self._rule.words(item.span)}`", self._rule.line(item.span)
                return FirstNo("pattern", "interface", _depth("pattern", number, 0), question, found, line)
        return FirstNo("pattern", "interface", _depth("pattern", 0, 0), "a match", "none", self._rule.line(match.span))

    def _declared(self, tensor: gs.Tensor) -> str:
        dtype, shape = self._context.declared(tensor)
        dims = "of unknown rank" if shape is UNKNOWN else ",".join(value_words(dim) for dim in shape)
        return f"{tensor.name!r} {value_words(dtype)}" + (f" {dims}" if shape is UNKNOWN else f"[{dims}]")


def _depth(stage: Stage, number: int, step: int) -> Depth:
    return STAGES.index(stage), number, step


def _header(rule: ast.Rule, key: str) -> ast.Span:
    """The place of a key in the rule's header; the place of the rule's code if the key is missing."""
    return next((item.span for item in rule.meta if item.key == key), rule.code_span)
