"""States of Loops that no iteration changes: the value before the loop can replace them.

tf2onnx passes every weight of a recurrent layer through its loop in this way. If the body reads the weight itself, its shape
and its contents are known there, and values computed from it alone can be computed once.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.scopes import Scope
from rewriter.core.rewriting.stale_types import agrees
from rewriter.core.rewriting.transaction import Rewriting


def unchanged_states(context: Context) -> list[str]:
    return [tensor.name for tensor, _ in _states(context)]


def read_before_loops(rewriting: Rewriting) -> None:
    """The readers of such a state, in the body and after the loop, read its value before the loop."""
    for state, initial in list(_states(rewriting.context)):
        rewriting.edits.replace_uses(state, initial)


def _states(context: Context) -> Iterator[tuple[gs.Tensor, gs.Tensor]]:
    """The states that are read, as inputs of bodies and as outputs of their loops, each with its value before the loop.

    If a body declares another shape than the state has, it runs in some runtimes, as long as they do not know the shape.
    """
    index, facts = context.index, context.facts
    for scope in index.scopes:
        loop, inputs, outputs = scope.owner, scope.graph.inputs, scope.graph.outputs
        if loop is None or loop not in index or loop.op != "Loop" or loop.domain not in (None, "", "ai.onnx"):
            continue
        for i, initial in enumerate(loop.inputs[2 : len(inputs)]):
            if i + 1 >= len(outputs) or outputs[i + 1] is not inputs[i + 2] or not initial.name:
                continue
            if not agrees(*facts.declared(inputs[i + 2]), facts.dtype(initial), facts.shape(initial)):
                continue
            if index.uses(inputs[i + 2]) and not _is_hidden(initial.name, scope, index):
                yield inputs[i + 2], initial
            if i < len(loop.outputs) and index.uses(loop.outputs[i]):
                yield loop.outputs[i], initial


def _is_hidden(name: str, body: Scope, index: GraphIndex) -> bool:
    """Whether the body, or one inside it, has another tensor of that name."""
    for scope in index.scopes:
        around: Scope | None = scope
        while around is not None and around is not body:
            around = around.parent
        own = (tensor.name for tensor in scope.graph.inputs)
        if around is body and (name in index.made_in(scope) or name in own or name in _initializer_names(scope)):
            return True
    return False


def _initializer_names(scope: Scope) -> set[str]:
    return {tensor.name for tensor in vars(scope.graph).get("initializers", ())}
