"""Fixed shapes for inputs of a model that take any, before anything else is done with it.

A dimension that has a name gets its length wherever the model uses the name, since one name is one length. What lies behind
dimensions without a name is found anew from the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError

Static = Sequence[tuple[str, Sequence[int]]]
"""Names of inputs with their shapes."""


def fix_shapes(graph: gs.Graph, static: Static) -> None:
    """Gives inputs their shapes. Raises RewriterError, before anything is changed, where one cannot have its shape."""
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    lengths: dict[str, int] = {}
    for name, shape in static:
        tensor = inputs.get(name)
        if tensor is None:
            raise RewriterError(f"--static {name}: the model has no such input; it has {', '.join(inputs) or 'none'}")
        said = tensor.shape
        if said is not None and len(said) != len(shape):
            raise RewriterError(f"--static {name}: the input has {len(said)} dimensions, not {len(shape)}")
        for dim, length in zip(said or (), shape, strict=False):
            if isinstance(dim, int) and dim != length:
                raise RewriterError(f"--static {name}: a dimension of the input is {dim}, and cannot become {length}")
            if isinstance(dim, str) and lengths.setdefault(dim, length) != length:
                raise RewriterError(f"--static {name}: {dim} would be {lengths[dim]} and {length}")
    for name, shape in static:
        inputs[name].shape = list(shape)
    for tensor in _variables(graph) if lengths else ():
        said = tensor.shape
        if said is not None and any(isinstance(dim, str) and dim in lengths for dim in said):
            tensor.shape = [lengths.get(dim, dim) if isinstance(dim, str) else dim for dim in said]


def _variables(graph: gs.Graph) -> Iterator[Any]:
    """Inputs, outputs and inner tensors of a graph and of the bodies inside it."""
    waiting = [graph]
    while waiting:
        scope = waiting.pop()
        made = [tensor for node in scope.nodes for tensor in node.outputs]
        yield from (tensor for tensor in (*scope.inputs, *scope.outputs, *made) if isinstance(tensor, gs.Variable))
        waiting.extend(value for node in scope.nodes for value in node.attrs.values() if isinstance(value, gs.Graph))
