"""What a model says of its training names tensors of its graph; a surgery that takes or renames them leaves it meaningless.

No checker looks at it, so that such a model would pass, and be wrong only where somebody goes on training it.
"""

from __future__ import annotations

from itertools import chain

import onnx

from rewriter.graph.model import Model


def drop_stale_training(model: Model) -> list[str]:
    """Takes the training information out of a model that has not all the tensors it names; a note that says so, if it does."""
    if not model.training_info:
        return []
    graph = model.graph
    known = {tensor.name for tensor in (*graph.inputs, *graph.initializers, *chain(*(node.outputs for node in graph.nodes)))}
    gone = sorted({name for info in model.training_info for name in _named(info)} - known)
    if not gone:
        return []
    del model.training_info[:]
    return [f"the training information is left out: it names {gone[0]!r}, which is no tensor of the result"]


def _named(info: onnx.TrainingInfoProto) -> set[str]:
    """The tensors of the model's own graph that its training reads or sets."""
    bound = {entry.key for entry in (*info.initialization_binding, *info.update_binding)}
    own = set[str]()
    for graph in (info.initialization, info.algorithm):
        own.update(tensor.name for tensor in (*graph.input, *graph.initializer))
        own.update(tensor.values.name for tensor in graph.sparse_initializer)
        own.update(chain(*(node.output for node in graph.node)))
    read = set(chain(*(node.input for node in (*info.initialization.node, *info.algorithm.node))))
    return (bound | read) - own - {""}
