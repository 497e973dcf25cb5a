"""Which uses of a name mean the model's input where a node makes a tensor of the same name.

A use means the latest definition before it: what works in place is written so. PyTorch's exporter inlines functions whose local
names may be names of inputs; behind such a function the name means the input again. Declared shapes tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.facts.derive import node_facts
from rewriter.facts.infer import output_types


def uses_meaning_input(context: Context, made: gs.Tensor, given: gs.Tensor) -> Iterator[tuple[gs.Node, int]]:
    """Nodes, and positions of their operands, that read `made` and give what they declare only where they read `given`."""
    shape = context.facts.shape(made)
    if shape is None or None in shape:
        return
    for node in context.index.uses(made):
        if _gives_the_declared(context, node, made, given) and not _gives_the_declared(context, node, made, made):
            yield from ((node, i) for i, tensor in enumerate(node.inputs) if tensor is made)


def _gives_the_declared(context: Context, node: gs.Node, made: gs.Tensor, read: gs.Tensor) -> bool:
    """Whether all outputs of a node are just what they are declared as when it reads `read` in place of `made`."""
    facts, imports = context.facts, context.index.scope(node).opsets
    operands = [facts.fact(read if tensor is made else tensor) if tensor.name else None for tensor in node.inputs]
    types = output_types(node_facts(node, imports, operands, lambda i: facts.constant(node.inputs[i])), imports)
    declared = [facts.declared(tensor) for tensor in node.outputs]
    return all(
        known.shape is not None and (known.dtype, known.shape) == wanted for known, wanted in zip(types, declared, strict=True)
    )
