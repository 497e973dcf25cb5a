"""All that a rule may ask about the graph it runs on: the world of conditions that has a graph (see `world`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions import graph_functions, value_functions
from rewriter.core.conditions.fields import model_field, node_field
from rewriter.core.conditions.recorded_graph import RecordedGraph
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.conditions.world import BODIES, Implementation, prepared
from rewriter.core.language.functions import FUNCTIONS as DECLARED

_COMPUTING: Mapping[str, Implementation] = {
    **graph_functions.CONTENTS_BODIES,
    **value_functions.LIST_BODIES,
    **value_functions.ARRAY_BODIES,
}
"""Functions in which NumPy may divide by zero or overflow; its warnings are switched off there."""

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
    """One model during one run, for the evaluation of conditions."""

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
        return node_field(self, node, name)

    def model_field(self, name: str) -> Any:
        return model_field(self, name)
