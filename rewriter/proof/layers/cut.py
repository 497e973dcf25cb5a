"""The part of a model that computes given tensors, as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx


class Cutter:
    """Takes parts out of a model. Weights are shared with it until a part is serialised.

    Attributes:
        model: the whole, which is not changed.
        nodes: of the main graph, in their order.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        graph = model.graph
        self.nodes: list[onnx.NodeProto] = list(graph.node)
        self._reads = [list(dict.fromkeys(_reads(node))) for node in self.nodes]
        self._makers: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for name in filter(None, node.output):
                self._makers.setdefault(name, []).append(number)
        self._dense = {tensor.name: tensor for tensor in graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self._infos = {info.name: info for info in (*graph.value_info, *graph.output)}

    def behind(self, number: int) -> set[int]:
        """A node and all that are computed from it."""
        readers: dict[str, list[int]] = {}
        for reader, names in enumerate(self._reads):
            for name in names:
                readers.setdefault(name, []).append(reader)
        found, waiting = {number}, [number]
        while waiting:
            for name in self.nodes[waiting.pop()].output:
                fresh = [reader for reader in readers.get(name, ()) if reader not in found]
                found.update(fresh)
                waiting.extend(fresh)
        return found

    def computing(self, tensors: Iterable[str]) -> onnx.ModelProto:
        """The model whose outputs are these tensors, which nodes make; it holds what they are computed from and no more."""
        names = list(tensors)
        wanted: set[int] = set()
        waiting = [number for name in names for number in self._makers.get(name, ())]
        while waiting:
            number = waiting.pop()
            if number not in wanted:
                wanted.add(number)
                waiting.extend(maker for name in self._reads[number] for maker in self._makers.get(name, ()))
        return self._part(sorted(wanted), names)

    def first(self, numbers: Collection[int]) -> onnx.ModelProto | None:
        """The model of these nodes, whose outputs are what they leave unread; None when they make nothing."""
        kept = sorted(numbers)
        read = {name for number in kept for name in self._reads[number]}
        made = [name for number in kept for name in self.nodes[number].output if name]
        unread = [name for name in made if name not in read] or made[-1:]
        return self._part(kept, unread) if unread else None

    def _part(self, numbers: Iterable[int], outputs: Iterable[str]) -> onnx.ModelProto:
        whole, graph = self.model, self.model.graph
        nodes = list(numbers)
        read = {name for number in nodes for name in self._reads[number]}
        made = {name for number in nodes for name in self.nodes[number].output}
        part = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import, functions=whole.functions)
        part.graph.name = graph.name or "part"
        part.graph.node.extend(self.nodes[number] for number in nodes)
        part.graph.input.extend(info for info in graph.input if info.name in read)
        part.graph.initializer.extend(tensor for name, tensor in self._dense.items() if name in read)
        part.graph.sparse_initializer.extend(tensor for name, tensor in self._sparse.items() if name in read)
        part.graph.value_info.extend(info for info in graph.value_info if info.name in read & made)
        # What a tensor is declared to be may be what is wrong with the model, so outputs are named and no more.
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(outputs))
        return part


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, its bodies' names from outside among them; a name that a body makes itself does no harm."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            for inner in body.node:
                yield from _reads(inner)
            yield from (output.name for output in body.output)
