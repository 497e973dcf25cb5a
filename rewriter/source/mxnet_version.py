"""What a model of MXNet, which signs nothing, betrays of the version that exported it: up to 1.8, or 1.9.

1.9 is another exporter: it gives names to some kinds of nodes only, needs opset 12, and has other helpers. What it cannot
have written is from before. Up to 1.8 every node has a name; yet tools name nodes, take names away, and insert nodes without
one, so that a node without a name is no evidence by itself. It counts only where all nodes have and lack names as 1.9 does
it. Naming nodes may therefore take a version away, and never adds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from rewriter.versions import Bounds

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs

FIRST = (1, 3)
"""The first version that exported."""
REWRITTEN = (1, 9)
"""The first one with the exporter of today."""
_LEAST_OPSET = 12  # of 1.9

_NEVER_NAMED = frozenset(
    [
        "And",
        "ArgMax",
        "ArgMin",
        "AveragePool",
        "Conv",
        "ConvTranspose",
        "Equal",
        "GlobalMaxPool",
        "Greater",
        "Less",
        "LpPool",
        "MaxPool",
        "Not",
        "ReduceL1",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "Split",
        "TopK",
    ]
)
_ALWAYS_NAMED = frozenset(
    [
        "BatchNormalization",
        "Ceil",
        "Clip",
        "Elu",
        "Floor",
        "Gather",
        "InstanceNormalization",
        "LRN",
        "LeakyRelu",
        "LpNormalization",
        "PRelu",
        "Reciprocal",
        "Relu",
        "Selu",
        "Sigmoid",
        "Sin",
        "Softplus",
        "Softsign",
        "SpaceToDepth",
        "Sum",
        "Tanh",
    ]
)
_OLD_HELPERS = re.compile(r"(?:reshape|reps)_attr_tensor\d+|transpose\d+_[ab]")


def version_bounds(opsets: Mapping[str, int], naming: Iterable[tuple[str, bool]], names: Iterable[str]) -> Bounds:
    """The versions of MXNet that may have written a graph.

    Args:
        opsets: by domain.
        naming: operators of the nodes, and whether they have a name; each needs to come once only.
        names: those of nodes and initializers.
    """
    opset = max((opsets[domain] for domain in ("", "ai.onnx") if domain in opsets), default=_LEAST_OPSET)
    if opset < _LEAST_OPSET or any(map(_OLD_HELPERS.fullmatch, names)):
        return Bounds(FIRST, REWRITTEN)
    return Bounds(least=REWRITTEN if _is_new(naming) else FIRST)


def graph_bounds(graph: gs.Graph) -> Bounds:
    """`version_bounds` of a graph."""
    constants = vars(graph).get("initializers")  # graphsurgeon prints an error where it is asked for more than it has
    if constants is None:
        constants = [tensor for node in graph.nodes for tensor in getattr(node, "inputs", ()) if hasattr(tensor, "values")]
    return version_bounds(
        {opset.domain: opset.version for opset in graph.import_domains or ()},
        ((node.op, bool(node.name)) for node in graph.nodes),
        chain((tensor.name for tensor in constants), (node.name for node in graph.nodes)),
    )


def _is_new(nodes: Iterable[tuple[str, bool]]) -> bool:
    """Whether operators have and lack names as 1.9 has it."""
    found = False
    for operator, named in nodes:
        if operator in (_NEVER_NAMED if named else _ALWAYS_NAMED):
            return False
        found |= not named and operator in _NEVER_NAMED
    return found
