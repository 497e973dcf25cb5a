"""The contents of a model, read from its message alone: no graph is built and no weight is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path

import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.framework.exporter import identify, version_bounds
from rewriter.core.graph.model_text import attribute_text, graphs_by_path, type_text
from rewriter.core.language.header import Bounds
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.model_file import read_model_file
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.onnxfile.tensors import byte_size, text
from rewriter.core.record import field, record

_STRING = int(onnx.TensorProto.STRING)


@record(slots=True)
class SummaryPort:
    """An input or output: `type` reads "float[N,3]", "" if no type is declared."""

    name: str
    type: str


@record(slots=True)
class HeldWeights:
    """Tensors in the model, each storage counted once: `shared` is the number of other tensors that refer to a counted storage.

    `elements` is the number of their elements, `bytes` their size; of texts only the number is known.
    """

    tensors: int = 0
    elements: int = 0
    bytes: int = 0
    shared: int = 0
    by_type: dict[str, int] = field(default_factory=dict)


@record(slots=True)
class DataFile:
    """A file with external data: how many tensors refer to it, and its size; `problem` says why it cannot be read."""

    location: str
    tensors: int = 0
    size: int | None = None
    problem: str = ""


@record(slots=True)
class GraphSize:
    """A graph: the main one, a subgraph body, or a local function, with its number of nodes."""

    path: str
    nodes: int


@record(slots=True)
class NodeLine:
    """One node. `attributes` are short texts by name; weights are shown by type and shape."""

    place: str
    name: str
    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, str]


@record(slots=True)
class ModelSummary:
    """A model in numbers.

    Attributes:
        size: bytes of the model file.
        exporter: the exporter, and the evidence for it.
        listed: how many initializers are also inputs; `inputs` does not contain these.
        operators: how often each occurs, in all graphs, as "domain.Op" outside of the default domain.
        initializers, constants: weights, and tensors in attributes of nodes.
        typed: how many intermediate tensors have a declared type.
    """

    path: str
    size: int
    ir_version: int
    producer: str
    exporter: str
    graph: str
    opsets: dict[str, int]
    inputs: list[SummaryPort]
    outputs: list[SummaryPort]
    listed: int
    nodes: int
    operators: dict[str, int]
    initializers: HeldWeights
    constants: HeldWeights
    typed: int
    subgraphs: list[GraphSize]
    functions: list[GraphSize]
    external: list[DataFile]
    metadata: dict[str, str]
    lines: list[NodeLine] = field(default_factory=list)


def summarise(path: Path, *, nodes: bool = False) -> ModelSummary:
    """The summary of a model file, with a line for each node if `nodes` is set.

    Raises:
        RewriterError: the file is missing or no ONNX model.
    """
    found = read_model_file(path)
    model, size = found.proto, path.stat().st_size
    return _Survey(model, path).summary(size, nodes)


class _Survey:
    def __init__(self, model: onnx.ModelProto, path: Path) -> None:
        self._model = model
        self._path = path
        self._stored: set[tuple[str, int, int | None]] = set()
        self._files: dict[str, DataFile] = {}

    def summary(self, size: int, with_nodes: bool) -> ModelSummary:
        model = self._model
        main = model.graph
        graphs = list(graphs_by_path(model))
        operators: Counter[str] = Counter()
        initializers, constants = HeldWeights(), HeldWeights()
        lines: list[NodeLine] = []
        typed = 0
        for path, graph in graphs:
            for node in graph.node:
                operators[_op(node)] += 1
                for attribute in node.attribute:
                    for tensor in _tensors(attribute):
                        self._count(constants, tensor)
                if with_nodes:
                    lines.append(_line(path, node))
            if isinstance(graph, onnx.GraphProto):
                for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
                    self._count(initializers, tensor)
            typed += len(graph.value_info)
        inputs = [SummaryPort(text(value.name), type_text(value.type)) for value in free_inputs(main)]
        return ModelSummary(
            path=str(self._path),
            size=size,
            ir_version=model.ir_version,
            producer=" ".join(part for part in (text(model.producer_name), text(model.producer_version)) if part),
            exporter=self._exporter(),
            graph=text(main.name),
            opsets={text(entry.domain): entry.version for entry in model.opset_import},
            inputs=inputs,
            outputs=[SummaryPort(text(value.name), type_text(value.type)) for value in main.output],
            listed=len(main.input) - len(inputs),
            nodes=operators.total(),
            operators=dict(operators),
            initializers=initializers,
            constants=constants,
            typed=typed,
            subgraphs=[GraphSize(path, len(graph.node)) for path, graph in graphs[1:] if isinstance(graph, onnx.GraphProto)],
            functions=[GraphSize(path, len(graph.node)) for path, graph in graphs if isinstance(graph, onnx.FunctionProto)],
            external=sorted(self._files.values(), key=lambda file: file.location),
            metadata={text(entry.key): text(entry.value) for entry in model.metadata_props},
            lines=lines,
        )

    def _exporter(self) -> str:
        model, graph = self._model, self._model.graph
        opsets = {text(entry.domain): entry.version for entry in model.opset_import}

        def mxnet() -> Bounds:
            naming = ((text(node.op_type), bool(node.name)) for node in graph.node)
            return version_bounds(opsets, naming, (text(one.name) for one in (*graph.initializer, *graph.node)))

        return str(identify(text(model.producer_name), text(model.producer_version), text(graph.name), opsets, mxnet))

    def _count(self, weights: HeldWeights, tensor: onnx.TensorProto) -> None:
        """Adds a tensor; of external tensors that share their bytes only the first."""
        weights.tensors += 1
        if external_data.is_external(tensor):
            try:
                place = external_data.reference(tensor)
            except RewriterError as error:
                self._files.setdefault("", DataFile("", problem=str(error))).tensors += 1
            else:
                self._refer(place.location)
                key = (place.location, place.offset, place.length)
                if key in self._stored:
                    weights.shared += 1
                    return
                self._stored.add(key)
        count = prod(max(dim, 0) for dim in tensor.dims)
        weights.elements += count
        weights.bytes += 0 if tensor.data_type == _STRING else byte_size(tensor.data_type, count)
        name = DTYPE_NAMES.get(tensor.data_type, f"type {tensor.data_type}")
        weights.by_type[name] = weights.by_type.get(name, 0) + count

    def _refer(self, location: str) -> None:
        file = self._files.get(location)
        if file is None:
            file = self._files[location] = DataFile(location)
            try:
                with external_data.opened(self._path.absolute().parent, location) as (_, size):
                    file.size = size
            except RewriterError as error:
                file.problem = str(error)
        file.tensors += 1


def _tensors(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    if attribute.HasField("sparse_tensor"):
        yield attribute.sparse_tensor.values
    yield from attribute.tensors
    yield from (sparse.values for sparse in attribute.sparse_tensors)


def _op(node: onnx.NodeProto) -> str:
    domain = text(node.domain)
    return f"{domain}.{text(node.op_type)}" if domain and domain != "ai.onnx" else text(node.op_type)


def _line(place: str, node: onnx.NodeProto) -> NodeLine:
    attributes = {text(attribute.name): attribute_text(attribute) for attribute in node.attribute}
    return NodeLine(place, text(node.name), _op(node), list(map(text, node.input)), list(map(text, node.output)), attributes)
