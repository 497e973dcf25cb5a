"""One rule at one place: it fires, or this is the deepest question that it reached."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.evaluate import Bindings, holds
from rewriter.conditions.found_words import value_words
from rewriter.conditions.rule_text import Text
from rewriter.conditions.rule_values import UNKNOWN, Failure
from rewriter.conditions.witnessed import Witnessed
from rewriter.engine.attempt import MISTAKES, Attempt, Fired
from rewriter.engine.compile import CompiledRule
from rewriter.engine.recorder import Recorder
from rewriter.explain.explanation import STAGES, Depth, FirstNo, RuleAnswer, Stage
from rewriter.explain.witness import Witness, read_by
from rewriter.graph.node_text import node_name
from rewriter.language import ast
from rewriter.log.records import Log
from rewriter.matching.interface import interface_matches
from rewriter.matching.match import Matcher


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
        for bound in interface_matches(self._compiled.rule.ast.match, self.context, self._compiled.given):
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
        told = log.firings[0]
        return RuleAnswer(told.place, told.root, told.op, True, None, told.matched, told.changes, told.conditions)

    # --- questions ------------------------------------------------------------------------------------------------------------

    def _keep(self, question: FirstNo) -> None:
        if self._deepest is None or question.depth > self._deepest.depth:
            self._deepest = question

    def _note(self, stage: Stage, kind: str, depth: tuple[int, int], asked: str, found: str, span: ast.Span) -> None:
        self._keep(FirstNo(stage, kind, _depth(stage, *depth), asked, found, self._text.line(span)))

    def _matcher_for(self, compiled: CompiledRule, root: gs.Node) -> Matcher | None:
        return self._matcher(compiled, root) if self._inside(compiled, root) else None

    def _matcher(self, compiled: CompiledRule, root: gs.Node) -> Matcher:
        assert compiled.pattern is not None
        given = self._given(compiled, root)
        self._witness = Witness(compiled.pattern, self.context, given, compiled.lets, self._text)
        return self._witness

    def _inside(self, compiled: CompiledRule, root: gs.Node) -> bool:
        if super()._inside(compiled, root):
            return True
        rule, scope = compiled.rule, self.context.index.scope(root)
        version, inside = scope.opsets.get(""), rule.ast.match.inside
        if version is not None and version not in rule.opset:
            asked = f"opset {rule.opset.first or ''}..{rule.opset.last or ''}"
            self._note("place", "opset", (0, 0), asked, f"opset {version}", _header(rule.ast, "opset"))
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
                        asked = f"`{self._text.at(private.span)}`: not used outside of the match"
                        told = f"{tensor.name!r} {read_by(self.context, tensor)}"
                        self._note("private", "private", (number, 0), asked, told, private.span)
                        return False
        return False

    def _refused(self, compiled: CompiledRule, root: gs.Node | None, nodes: Any) -> bool:
        if super()._refused(compiled, root, nodes):
            return True
        span = _header(compiled.rule.ast, "evidence")
        asked = f"{' or '.join(compiled.rule.runtimes)} refuses it"
        self._note("where", "runtime", (len(compiled.wheres), 0), asked, "the installed one has a kernel for it", span)
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
            depth, asked, span = _depth("where", number, 1), f"`{self._text.at(where.span)}`", where.span
            question = FirstNo("where", "where", depth, asked, reason, self._text.line(span), "", not error, remedy, error)
            self._keep(question)
        elif self._in_rewrite:
            span = rule.rewrites[0].span
            depth = _depth("rewrite", 0, 0)
            asked = "the rewrite can be done"
            self._keep(FirstNo("rewrite", "rewrite", depth, asked, reason, self._text.line(span), "", False, remedy, error))
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
                asked = "a rewrite block for the opset"
                self._note("rewrite", "rewrite", (0, 0), asked, f"opset {self._version(root)}", rule.rewrites[0].span)
        return fired

    def _version(self, root: gs.Node | None) -> int:
        index = self.context.index
        return (index.scopes[0] if root is None else index.scope(root)).opsets.get("", 1)

    def _interface(self) -> FirstNo:
        """The first item of `match graph` that no input or output fits."""
        match = self._compiled.rule.ast.match
        for number, item in enumerate(match.items):
            shortened = ast.Match(graph=True, items=match.items[: number + 1])
            if next(interface_matches(shortened, self.context, self._compiled.given), None) is None:
                graph = self.context.index.graph
                tensors = graph.inputs if item.side == "input" else graph.outputs
                found = ", ".join(self._declared(tensor) for tensor in tensors[:4]) or f"no {item.side}"
                found += f" and {len(tensors) - 4} more" if len(tensors) > 4 else ""
                asked, line = f"`{self._text.at(item.span)}`", self._text.line(item.span)
                return FirstNo("pattern", "interface", _depth("pattern", number, 0), asked, found, line)
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
