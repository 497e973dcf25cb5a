"""Why a rule fires in a model or does not: every place with an operator of its root, the nearest misses first.

Places are explained in the model as it is, before any rule has fired. A run of the selected rules then shows if another rule
makes room for this one, or fires there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.engine.compile import CompiledRule, compile_rule
from rewriter.core.errors import RewriterError
from rewriter.core.framework.exporter import refusal
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import operator_key
from rewriter.core.language.diagnostics import suggest
from rewriter.core.language.pattern import Pattern
from rewriter.core.language.rules import Rule
from rewriter.core.log import Firing, Log
from rewriter.rule_tools.explain.places import Earlier, Explainer, Explanation, FirstNo, Later, RuleAnswer


def explain(context: Context, rule: Rule, node: str | None = None, replay: Callable[[], Log] | None = None) -> Explanation:
    """Explains one rule on one model; the graph is left as it was.

    Args:
        context: the model, before any firing.
        rule: the rule, which need not be among the rules of the run.
        node: only the places that this node is part of: its name, the name of one of its outputs, or a glob of such names.
        replay: runs all selected rules with this one and rolls everything back.

    Raises:
        RewriterError: no node has this name, the rule lacks a parameter, or its pattern is too large.
    """
    nodes = None if node is None else named(context.index, node)
    ops: tuple[str, ...] = ()
    of_patterns: list[list[RuleAnswer]] = []
    for variant in rule.variants:
        own, found = _answers(context, compile_rule(variant, context.settings), nodes)
        ops = tuple(sorted({*ops, *own}))
        of_patterns.append(found)
    answers = of_patterns[0] if len(of_patterns) == 1 else _best(of_patterns)
    context.index.finish()
    log = Log() if replay is None else replay()
    places = None if node is None else {(answer.place, answer.node) for answer in answers}
    return Explanation(
        rule.code,
        rule.title or rule.slug,
        rule.path,
        rule.line(rule.ast.span),
        tuple(_guards(rule, context)),
        ops,
        tuple(sorted(answers, key=_rank)),  # stable: the order of the model among equals
        tuple(later for later in _later(rule, answers, log) if places is None or (later.place, later.node) in places),
        tuple(_earlier(rule, answers, log)),
        tuple(_settled(rule, answers, log)),
        tuple(stop.message for stop in log.stops),
    )


def _answers(context: Context, compiled: CompiledRule, nodes: list[gs.Node] | None) -> tuple[tuple[str, ...], list[RuleAnswer]]:
    """The operators of a pattern's root, and the answer for each place; None: all places."""
    explainer, pattern = Explainer(context, compiled), compiled.pattern
    if pattern is None:
        return ("",), [explainer.explain_model()]
    root_ops = pattern.nodes[pattern.root].ops
    ops = tuple(sorted(f"{domain}.{op}" if domain else op for domain, op in root_ops)) or ("of any operator",)
    if nodes is None:
        return ops, [explainer.explain(n) for n in _nodes(context.index) if operator_key(n) in root_ops]
    return ops, list(_around(context.index, explainer, pattern, nodes, ops))


def named(index: GraphIndex, name: str) -> list[gs.Node]:
    """The nodes of a name, of an output's name, or of a glob. Raises RewriterError if there is none."""
    exact = [node for node in _nodes(index) if name in _names(node)]
    found = exact or [node for node in _nodes(index) if any(fnmatchcase(own, name) for own in _names(node))]
    if found:
        return found
    near = suggest(name, [own for node in _nodes(index) for own in _names(node)])
    hint = f"; did you mean {near!r}?" if near else "; `rewriter show MODEL --nodes` lists them"
    raise RewriterError(f"no node and no node's output is called {name!r}{hint}")


def _names(node: gs.Node) -> list[str]:
    return [name for name in (node.name, *(tensor.name for tensor in node.outputs)) if name]


def _nodes(index: GraphIndex) -> Iterator[gs.Node]:
    """All nodes, in the order of the model."""
    for scope in index.scopes:
        yield from index.members(scope)


def _guards(rule: Rule, context: Context) -> Iterator[str]:
    """The reasons why a run does not try the rule, each once."""
    yield from dict.fromkeys(
        reason for by_id in (False, True) if (reason := refusal(rule, context.subject, by_id=by_id)) is not None
    )


def _around(
    index: GraphIndex, explainer: Explainer, pattern: Pattern, nodes: list[gs.Node], ops: tuple[str, ...]
) -> Iterator[RuleAnswer]:
    """The places whose match could contain a node: the node itself, if it is a root, and the roots around it."""
    done: set[int] = set()
    for node in nodes:
        roots = _roots(index, pattern, node)
        yield from (explainer.explain(root) for number, root in roots.items() if number not in done)
        done |= roots.keys()
        if not roots:
            text = f"a node of the pattern, whose root is {' or '.join(ops)}"
            question = FirstNo("place", "operator", (0, 0, 0), text, f"{node.op}, with no such root around it")
            yield RuleAnswer(index.scope(node).path, node_name(node), node.op, False, question)


def _roots(index: GraphIndex, pattern: Pattern, node: gs.Node) -> dict[int, gs.Node]:
    """The roots whose match could contain a node."""
    found: dict[int, gs.Node] = {}
    for number, path in pattern.paths:
        here = {id(node): node} if operator_key(node) in pattern.nodes[number].ops else {}
        for step, ops in path:
            here = {id(n): n for start in here.values() for n in _step(index, start, step) if operator_key(n) in ops}
        found.update(here)
    return found


def _step(index: GraphIndex, node: gs.Node, step: str) -> Iterator[gs.Node]:
    if step == "user":
        for tensor in node.outputs:
            yield from index.uses(tensor)
    elif step == "maker":
        yield from (maker for tensor in node.inputs if (maker := index.producer(tensor)) is not None)
    else:
        for tensor in (*node.inputs, *node.outputs):
            yield from index.uses(tensor)
            if (maker := index.producer(tensor)) is not None:
                yield maker


def _best(of_patterns: list[list[RuleAnswer]]) -> list[RuleAnswer]:
    """For each place, the answer of the pattern that comes nearest to firing."""
    best: dict[tuple[str, str, str], RuleAnswer] = {}
    for answer in (answer for answers in of_patterns for answer in answers):
        place = answer.place, answer.node, answer.op
        if place not in best or _rank(answer) < _rank(best[place]):
            best[place] = answer
    return list(best.values())


def _rank(answer: RuleAnswer) -> tuple[bool, tuple[int, ...]]:
    question = answer.question
    return not answer.fires, () if question is None else tuple(-part for part in question.depth)


def _later(rule: Rule, answers: list[RuleAnswer], log: Log) -> Iterator[Later]:
    known = {(answer.place, answer.node) for answer in answers if answer.fires}
    for firing in log.firings:
        if firing.rule == rule.code and (firing.place, firing.root) not in known:
            after = tuple((parent.rule, parent.root) for parent in _parents(firing, log))
            yield Later(firing.place, firing.root, firing.op, after)


def _parents(firing: Firing, log: Log) -> list[Firing]:
    """The firings that made the nodes of a firing's match; empty if they changed only a condition or a use."""
    return [log.firings[number - 1] for number in firing.parents]


def _earlier(rule: Rule, answers: list[RuleAnswer], log: Log) -> Iterator[Earlier]:
    fired = {(firing.place, firing.root) for firing in log.firings if firing.rule == rule.code}
    taken: dict[tuple[str, str], Firing] = {}
    for firing in log.firings:
        for name in firing.matched:
            taken.setdefault((firing.place, name), firing)
    for answer in answers:
        if answer.fires and (answer.place, answer.node) not in fired:
            by = next((taken[answer.place, name] for name in answer.matched if (answer.place, name) in taken), None)
            if by is not None:
                yield Earlier(answer.place, answer.node, by.rule, by.root)


def _settled(rule: Rule, answers: list[RuleAnswer], log: Log) -> Iterator[tuple[str, str]]:
    logged_places = {(blocked.place, blocked.root) for blocked in log.blocked if blocked.rule == rule.code}
    logged_places |= {(firing.place, firing.root) for firing in log.firings if firing.rule == rule.code}
    for answer in answers if log.firings else ():
        key = (answer.place, answer.node)
        if answer.question is not None and answer.question.unknown and key not in logged_places:
            yield key
