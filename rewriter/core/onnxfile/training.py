"""What a model says of its training names tensors of its graph; an edit that takes or renames them leaves it meaningless.

No checker looks at it, so that such a model would pass, and be wrong only where somebody goes on training it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import onnx
import onnx_graphsurgeon as gs


def drop_stale_training(infos: Any, graph: gs.Graph) -> list[str]:
    """Takes the training information out of a model that has not all the tensors it names; a note that says so, if it does."""
    if not infos:
        return []
    known = {tensor.name for tensor in (*graph.inputs, *graph.initializers, *chain(*(node.outputs for node in graph.nodes)))}
    gone = sorted(named_by_training(infos) - known)
    if not gone:
        return []
    del infos[:]
    return [f"the training information is left out: it names {gone[0]!r}, which is no tensor of the result"]


def set_by_training(infos: Iterable[onnx.TrainingInfoProto]) -> frozenset[str]:
    """The initializers that training gives other values, which are no constants therefore."""
    return frozenset(entry.key for info in infos for entry in (*info.initialization_binding, *info.update_binding))


def named_by_training(infos: Iterable[onnx.TrainingInfoProto]) -> frozenset[str]:
    """The tensors of the model's own graph that its training reads or sets."""
    return frozenset(name for info in infos for name in _named(info))


def _named(info: onnx.TrainingInfoProto) -> frozenset[str]:
    own = set[str]()
    for graph in (info.initialization, info.algorithm):
        own.update(tensor.name for tensor in (*graph.input, *graph.initializer))
        own.update(tensor.values.name for tensor in graph.sparse_initializer)
        own.update(chain(*(node.output for node in graph.node)))
    read = set(chain(*(node.input for node in (*info.initialization.node, *info.algorithm.node))))
    return (set_by_training([info]) | read) - own - {""}
