"""The names that a model uses, read when the first new one is needed: most runs make none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import onnx_graphsurgeon as gs

from rewriter.graph.names import NameTable
from rewriter.graph.objects import Function, Graph
from rewriter.graph.scopes import Scope


class Named(Protocol):
    """What is asked of the index of a graph."""

    @property
    def scopes(self) -> Sequence[Scope]: ...

    def all_nodes(self) -> Iterable[gs.Node]: ...

    def producer(self, tensor: gs.Tensor) -> gs.Node | None: ...

    def is_used(self, tensor: gs.Tensor) -> bool: ...


class Naming:
    """The names of tensors and those of nodes; a node and a tensor may share one."""

    __slots__ = ("_index", "_nodes", "_tensors")

    def __init__(self, index: Named) -> None:
        self._index = index
        self._tensors: NameTable | None = None
        self._nodes: NameTable | None = None

    @property
    def tensors(self) -> NameTable:
        """All tensor names of the model."""
        if self._tensors is None:
            self._tensors = NameTable(self._all_names())
        return self._tensors

    @property
    def nodes(self) -> NameTable:
        """All node names of the model."""
        if self._nodes is None:
            self._nodes = NameTable(node.name for node in self._index.all_nodes())
        return self._nodes

    @property
    def has_made(self) -> bool:
        """Whether a name was asked for, so that there may be some to be given back."""
        return self._tensors is not None or self._nodes is not None

    def mark(self) -> tuple[int, int]:
        """How many names of tensors and of nodes were made so far, a point to come back to with `give_back`."""
        tensors, nodes = self._tensors, self._nodes
        if tensors is None is nodes:
            return 0, 0
        return 0 if tensors is None else tensors.mark(), 0 if nodes is None else nodes.mark()

    def give_back(self, mark: tuple[int, int]) -> None:
        """Gives back every name made since then."""
        for table, made in zip((self._tensors, self._nodes), mark, strict=True):
            if table is not None:
                table.restore(made)

    def release(self, nodes: Iterable[gs.Node], tensors: Iterable[gs.Tensor]) -> None:
        """Gives back the names of nodes that went, of what they alone made, and of tensors, as far as they were made here."""
        index = self._index
        if self._nodes is not None:
            for node in nodes:
                self._nodes.release(node.name)
        if self._tensors is not None:
            for node in nodes:
                for tensor in node.outputs:
                    if index.producer(tensor) is None and not index.is_used(tensor):
                        self._tensors.release(tensor.name)
            for tensor in tensors:
                self._tensors.release(tensor.name)

    def _all_names(self) -> Iterator[str]:
        scopes = self._index.scopes
        for scope in scopes:
            for tensor in (*scope.graph.inputs, *scope.graph.outputs):
                yield tensor.name
        for node in self._index.all_nodes():
            for tensor in node.inputs:
                yield tensor.name
            for tensor in node.outputs:
                yield tensor.name
        for scope in scopes:
            if isinstance(scope.graph, Graph | Function):
                yield from scope.graph.origin.names()
