"""All that a rule may ask about the graph it runs on: the world of conditions that has a graph (see `world`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions import graph_functions, value_functions
from rewriter.core.conditions.effective_attributes import effective
from rewriter.core.conditions.model_fields import MODEL_TEXTS, find, least_ir_version
from rewriter.core.conditions.recorded_graph import RecordedGraph
from rewriter.core.conditions.rule_values import ABSENT, Failure
from rewriter.core.conditions.world import BODIES, Implementation, prepared
from rewriter.core.graph.metadata import node_texts
from rewriter.core.language import ast
from rewriter.core.language.functions import FAULTS
from rewriter.core.language.functions import FUNCTIONS as DECLARED
from rewriter.core.language.rule import Rule

_COMPUTING: Mapping[str, Implementation] = {
    **graph_functions.CONTENTS_BODIES,
    **value_functions.LIST_BODIES,
    **value_functions.ARRAY_BODIES,
}
"""Functions in which NumPy may divide by zero or overflow, of which it is not to warn."""

_BODIES: Mapping[str, Implementation] = {
    **BODIES,
    **graph_functions.FACT_BODIES,
    **graph_functions.SOURCE_BODIES,
    **graph_functions.EINSUM_BODIES,
    **{name: np.errstate(all="ignore")(body) for name, body in _COMPUTING.items()},
}
FUNCTIONS: Mapping[str, Implementation] = {name: prepared(function, _BODIES[name]) for name, function in DECLARED.items()}
"""All functions of `language.functions`."""


class Context(RecordedGraph):
    """One model under one run, asked by conditions."""

    functions = FUNCTIONS
    tensor_class = gs.Tensor
    node_class = gs.Node
    is_coarse = False

    def without(self, function: str) -> Any:
        raise Failure(f"unknown function `{function}`")

    def is_same(self, one: gs.Tensor, other: gs.Tensor) -> bool:
        return one is other

    def tensor_name(self, tensor: gs.Tensor) -> str:
        return str(tensor.name)

    def node_field(self, node: gs.Node, name: str) -> Any:
        """What a label's field says: the node's own lists and texts, else an attribute."""
        if name == "inputs":
            return [tensor if tensor.name else ABSENT for tensor in node.inputs]
        if name == "outputs":
            return list(node.outputs)
        if name == "op":
            return node.op
        if name == "doc_string":
            return node_texts(node).doc_string
        return effective(self, node, name)

    def model_field(self, name: str) -> Any:
        if name == "ir_version":
            return self.ir_version
        if name == "opset":
            return self.opset(None)
        if name == "outputs":
            return [tensor.name for tensor in self.index.graph.outputs]
        if name in FAULTS:
            return find(name, self)
        if name == "least_ir_version":
            return least_ir_version(self)
        found = getattr(self.index.graph, MODEL_TEXTS.get(name, name), None)
        return found if isinstance(found, str) else self.doubt(f"model.{name} is not known")


class Text:
    """The text of one rule: what it says at a span, and in which line."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def at(self, span: ast.Span) -> str:
        """What the rule says there, on one line."""
        return self._rule.words(span)

    def line(self, span: ast.Span) -> int:
        """Counted from 1; 0 for no span."""
        return self._rule.source.line_col(span.start)[0] if span != ast.NOWHERE else 0
