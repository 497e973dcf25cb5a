"""The part of a model around one node, with small weights: what a rule is begun with."""

from __future__ import annotations

import time
from collections.abc import Iterator

import onnx

from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.language.diagnostics import suggest
from rewriter.language.rules import RuleSet
from rewriter.surgery.reduce.reduction import Reduction
from rewriter.surgery.reduce.some_nodes import bodies, body_alone, known_types, some_nodes
from rewriter.surgery.reduce.trials import Trials

SECONDS = 60.0
"""For making weights small."""


def around_node(model: Model, name: str, depth: int, rules: RuleSet, *, runtime: bool) -> tuple[onnx.ModelProto, int]:
    """The nodes at most `depth` steps away from a node, and its place among them.

    Args:
        model: is not changed.
        name: of the node, or of a tensor that it makes; it may stand in a body.
        depth: steps along tensors, against their direction as well; nodes in other bodies are not reached.
        rules: which fire in the part as before when its weights are smaller.
        runtime: whether ONNX Runtime is asked if it takes the part with smaller weights.

    Raises:
        RewriterError: there is no such node.
    """
    whole, types = model.sketch(), known_types(model)
    place = _place(whole.graph, name)
    if place is None:
        for number, body in enumerate(bodies(whole.graph.node)):
            if _place(body, name) is not None:
                whole = body_alone(whole, number, types)
                place = _place(whole.graph, name)
                break
    if place is None:
        near = suggest(name, [text for node in whole.graph.node for text in (node.name, *node.output) if text])
        hint = f"did you mean {near!r}?" if near else "`rewriter show MODEL --nodes` lists them"
        raise RewriterError(f"no node and no node's output is called {name!r}; {hint}")
    kept = sorted(_near(whole.graph, place, depth))
    part = Model.from_proto(some_nodes(whole, kept, types), model.folder)
    part.constant_inputs = "yes" if model.inputs_are_constant else "no"
    work = Reduction(part, Trials(part, [], rules, runtime=runtime), time.monotonic() + SECONDS)
    work.smaller_weights()
    work.fewer_words()
    return work.finished(), kept.index(place)


def _place(graph: onnx.GraphProto, name: str) -> int | None:
    by_name = (place for place, node in enumerate(graph.node) if node.name == name)
    by_output = (place for place, node in enumerate(graph.node) if name in node.output)
    return next(by_name, next(by_output, None))


def _near(graph: onnx.GraphProto, place: int, depth: int) -> set[int]:
    """The places of nodes near one, and of the Constant nodes that they read."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(number)

    def beside(number: int) -> Iterator[int]:
        node = graph.node[number]
        yield from (makers[name] for name in node.input if name in makers)
        for name in node.output:
            yield from readers.get(name, ())

    found, last = {place}, {place}
    for _ in range(depth):
        last = {other for number in last for other in beside(number)} - found
        last = {number for number in last if graph.node[number].op_type != "Constant"}
        found |= last
    constants = {makers[name] for number in found for name in graph.node[number].input if name in makers}
    return found | {number for number in constants if graph.node[number].op_type == "Constant"}
