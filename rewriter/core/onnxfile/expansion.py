"""The number of nodes of a model after its local functions are put in place of their calls.

Checkers expand functions before anything else, and a kilobyte of functions that call each other twice expands to more nodes
than a machine holds. So the nodes are counted first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

MOST = 100_000
"""The most nodes that a checker gets; ONNX Runtime takes hours for them."""

TOLD = f"the functions of the model expand to more than {MOST:,} nodes"

Key = tuple[str, str]  # domain and name


def expands_too_much(model: onnx.ModelProto) -> bool:
    """Whether the calls of local functions stand for more than `MOST` nodes, or for more of themselves."""
    if not model.functions:
        return False
    bodies = {(function.domain, function.name): list(_operators(function.node)) for function in model.functions}
    return expanded(bodies, _operators(model.graph.node)) > MOST


def expanded(bodies: Mapping[Key, Iterable[Key]], main: Iterable[Key]) -> float:
    """The number of nodes to which the calls in `main` expand; infinite if a function calls itself.

    Args:
        bodies: the operators in the body of each function.
        main: the operators outside of functions.
    """
    sizes: dict[Key, float] = {}
    for key in bodies:
        _measure(key, bodies, sizes)
    return sum(sizes[key] for key in main if key in sizes)


def _measure(first: Key, bodies: Mapping[Key, Iterable[Key]], sizes: dict[Key, float]) -> None:
    """Finds the size of a function after the sizes of its callees; a chain of calls may be longer than Python's stack."""
    waiting, entered = [first], set()
    while waiting:
        key = waiting[-1]
        missing = [called for called in bodies[key] if called in bodies and called not in sizes]
        if key in sizes or not missing or key in entered:
            sizes.setdefault(key, sum(sizes.get(called, float("inf") if called in bodies else 1) for called in bodies[key]))
            waiting.pop()
            continue
        entered.add(key)
        waiting.extend(dict.fromkeys(missing))


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[Key]:
    """The operators of nodes and of the nodes in their bodies."""
    from rewriter.core.onnxfile.part import bodies

    for graph in (nodes, *(body.node for body in bodies(nodes))):
        yield from ((node.domain, node.op_type) for node in graph)
