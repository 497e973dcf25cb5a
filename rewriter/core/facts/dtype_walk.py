"""The element type of a tensor, found without its shape: most operators give what their operand has.

Most rules that look at a model in vain ask for element types and nothing else, and inferring the shapes of all that leads to a
tensor takes many times as long. What is found so is what inference finds; it is not kept among the facts, which would have to
follow the edits of a graph, so it serves only as long as nobody edits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_graphsurgeon as gs

from rewriter.core.facts.infer import type_sources
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.values import elem_type
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.operator_traits import CASTS_BY_NUMBER, traits

_FLOAT, _INT64, _BOOL = DTYPES["float"], DTYPES["int64"], DTYPES["bool"]


class DtypeWalk:
    """Walks from tensors to where element types are known.

    Args:
        index: of the graph, which nobody edits.
        known: the element type of a tensor about which all was found already; None for another.
        leaf: that of a tensor that no node makes, or a Constant; None where that takes more to tell.
        functions: domains and names of the local functions.
    """

    def __init__(
        self,
        index: GraphIndex,
        known: Callable[[gs.Tensor], int | None],
        leaf: Callable[[gs.Tensor], int | None],
        functions: Collection[tuple[str, str]],
    ) -> None:
        self._index = index
        self._known = known
        self._leaf = leaf
        self._functions = functions
        self._found: dict[int, tuple[int | None, gs.Tensor]] = {}  # with the tensors, so that no other one gets their id

    def dtype(self, wanted: gs.Tensor) -> int | None:
        """The element type; None where it must be inferred."""
        found, tensor, way = self._found, wanted, list[gs.Tensor]()
        dtype = None
        while True:
            if id(tensor) in found:
                dtype = found[id(tensor)][0]
                break
            dtype = self._known(tensor)
            if dtype is not None or not tensor.name:
                break
            node = self._index.producer(tensor)
            if node is None or node.op == "Constant":
                dtype = self._leaf(tensor)
                break
            found[id(tensor)] = None, tensor  # until it is known: who comes here again goes round in circles
            way.append(tensor)
            source = self._source(node, tensor)
            if source is None:
                dtype = self._own(node, tensor)
                break
            tensor = source
        for passed in way:
            found[id(passed)] = dtype, passed
        return dtype

    def _is_onnx(self, node: gs.Node) -> bool:
        domain = node.domain or ""
        return domain in ("", "ai.onnx") and (domain, node.op) not in self._functions

    def _own(self, node: gs.Node, made: gs.Tensor) -> int | None:
        """The element type that an operator has by itself or by an attribute."""
        if len(node.outputs) != 1 or not self._is_onnx(node):
            return None
        kind = traits(node.op).dtype
        if kind == "bool":
            return _BOOL
        if kind == "int64":
            return _INT64 if len(node.inputs) == 1 and not node.attrs else None
        if kind == "value":
            value = node.attrs.get("value") if node.attrs else _FLOAT
            return value if isinstance(value, int) else elem_type(value) if isinstance(value, gs.Constant) else None
        if kind == "to" and (self._index.scope(node).opsets.get("") or 0) >= CASTS_BY_NUMBER:
            to = node.attrs.get("to")
            return to if isinstance(to, int) and to in DTYPES.values() else None
        return None

    def _source(self, node: gs.Node, made: gs.Tensor) -> gs.Tensor | None:
        """The operand that has the same element type by the schema of the operator, be the shapes ever so wrong."""
        op, known = node.op, traits(node.op)
        if known.dtype not in ("first", "second") or not self._is_onnx(node):
            return None
        version = self._index.scope(node).opsets.get("")
        places = [place for place, tensor in enumerate(node.outputs) if tensor is made]
        if version is None or len(places) != 1 or (places[0] and known.shape != "split"):
            return None
        sources = type_sources(op, version, len(node.outputs))
        at = sources[places[0]] if sources else None
        return node.inputs[at] if at is not None and at < len(node.inputs) else None
