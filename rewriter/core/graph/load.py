"""From a model's messages to the objects of its graph, keeping for every object the message it came from.

Anything that parses is accepted: names that are defined twice or never, nodes in any order, cycles. A use means the latest
definition before it, else a later one, else a tensor without producer. If a name is defined twice, each definition gets its own
tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import read_attributes
from rewriter.core.graph.gs_lists import tie_all
from rewriter.core.graph.objects import Function, Graph, Node, Origin, loaded_nodes
from rewriter.core.graph.values import Constant, Variable, loaded_constant, new_variable, new_variables
from rewriter.core.isolation.budget import collector_off
from rewriter.core.onnxfile.model_file import NodeColumns, RawFunction, RawGraph, columns, raw_message
from rewriter.core.onnxfile.tensors import text

# Names that are not UTF-8: protobuf returns them as bytes, and no text could refer to them.


def check_text(name: str | bytes) -> None:
    """Raises RewriterError for a name that is not UTF-8."""
    if isinstance(name, bytes):
        raise RewriterError(f"the name {repr(name)[1:]:.80} in this model is not valid UTF-8")


MOST_LEVELS = 34
"""How deep subgraphs may be nested. A protobuf file cannot hold more."""

TOO_DEEP = f"subgraphs are nested more than {MOST_LEVELS} levels deep"

_GRAPH = onnx.AttributeProto.GRAPH
_HOLDS_GRAPH = b"\xa0\x01" + bytes([_GRAPH])
"""The field of an attribute that marks it as a graph, as it occurs in the bytes of a node."""


Parts = Iterable[tuple[gs.Tensor, ...]]
"""Operands or results, for each node."""


class _LoadedNames:
    """The names of one scope while it is built."""

    __slots__ = ("_later", "defined", "inputs", "level", "new_tensors", "of_nodes", "outputs", "parent", "tensors")

    def __init__(self, parent: _LoadedNames | None) -> None:
        self.parent = parent
        self.level: int = 0 if parent is None else parent.level + 1
        self.tensors: dict[str, gs.Tensor] = {}
        self.inputs: set[str] = set()
        self.defined: set[str] = set()  # as an output of a node
        self.outputs: Sequence[str] = ()  # of the nodes
        self.new_tensors: list[gs.Tensor] = []  # tensors made for a use or as an output
        self.of_nodes: set[type] = set()  # the types of the nodes' own names
        self._later: set[str] | None = None

    @property
    def later(self) -> set[str]:
        """Names that some node of this scope defines."""
        if self._later is None:
            self._later = set(self.outputs)
        return self._later

    def find(self, name: str) -> gs.Tensor | None:
        """The tensor that is known under this name here or in an outer scope."""
        scope: _LoadedNames | None = self
        while scope is not None:
            found = scope.tensors.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def use(self, name: str) -> gs.Tensor:
        """The tensor that a use of this name means, if the scope does not have it yet."""
        if not name:
            self.new_tensors.append(new_variable(name))
            return self.new_tensors[-1]
        found = self.find(name)
        if found is None:
            scope = self
            while scope.parent is not None and name not in scope.later:
                scope = scope.parent
            found = scope.tensors[name] = new_variable(name)
            scope.new_tensors.append(found)
        return found

    def at_once(self, read: NodeColumns) -> tuple[Parts, Parts] | None:
        """Operands and results of nodes without bodies. None if they must be found node by node: names are defined twice, or
        may belong to an outer scope.
        """
        names = read.outputs.names
        results = new_variables(names)
        defined = dict(zip(names, results, strict=True))
        spare = names.count("") - 1 if "" in defined else 0
        if self.parent is not None or len(defined) + spare < len(names) or not defined.keys().isdisjoint(self.tensors.keys()):
            return None
        defined.pop("", None)
        defined.update(self.tensors)
        known = self.tensors = defined
        self.new_tensors += results
        try:
            operands = list(map(known.__getitem__, read.inputs.names))
        except KeyError:  # an operand that is left out, mostly
            operands = [known.get(name) or self.use(name) for name in read.inputs.names]
        return read.inputs.parts(operands), read.outputs.parts(results)

    def define(self, name: str) -> gs.Tensor:
        """The tensor a node's output becomes: its own, unless it was only used so far, or is an output of this node already."""
        known = self.tensors.get(name) if name else None
        if known is not None and name not in self.defined and name not in self.inputs and not isinstance(known, gs.Constant):
            return known
        tensor = new_variable(name)
        self.new_tensors.append(tensor)
        if name:
            self.tensors[name] = tensor
        return tensor


def build(model: Any, folder: Path | None) -> Graph:
    """The graph of a model, its subgraphs and functions with it.

    Args:
        model: its raw message, kept by reference and never changed; it must not be changed by others either.
        folder: of the model, against which external data are resolved; None when it has none.
    Raises:
        RewriterError: a name is not valid UTF-8, or subgraphs are nested too deep.
    """
    with collector_off():
        builder = _GraphBuilder(folder)
        imports = [_copy(entry) for entry in model.opset_import]
        builder.imports, builder.opset = imports, default_opset(imports)
        graph = builder.graph(model.graph, None)
        graph.ir_version = model.ir_version if model.HasField("ir_version") else None
        graph.producer_name = text(model.producer_name)
        graph.producer_version = text(model.producer_version)
        graph.model_doc_string = text(model.doc_string)
        graph.origin.opset, graph.origin.imports = graph.opset, [_copy(entry) for entry in imports]
        builder.functions.extend([builder.function(function) for function in model.functions])
        return graph


def default_opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    """Version of ONNX's own operators; 1 for a model that imports none, as the first models did not."""
    return next((entry.version for entry in imports if entry.domain in ("", "ai.onnx")), 1)


def _copy(entry: onnx.OperatorSetIdProto) -> onnx.OperatorSetIdProto:
    copy = onnx.OperatorSetIdProto()
    copy.CopyFrom(entry)
    return copy


class _GraphBuilder:
    """Builds graphs and functions that share one list of functions."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.functions: list[Function] = []
        self.imports: list[onnx.OperatorSetIdProto] = []
        self.opset = 1

    def graph(self, proto: Any, parent: _LoadedNames | None, message: onnx.GraphProto | None = None) -> Graph:
        names = _LoadedNames(parent)
        if names.level >= MOST_LEVELS:
            raise RewriterError(TOO_DEEP)
        origin = Origin(proto, message)
        origin.constants = [self.constant(names, item, item.name) for item in proto.initializer]
        origin.sparse = [self.constant(names, item, item.values.name) for item in proto.sparse_initializer]
        origin.inputs = [self.input(names, info) for info in proto.input]
        _declare(zip(origin.inputs, proto.input, strict=True))
        origin.nodes = self.nodes(proto.node[:], names)
        declared: list[tuple[gs.Tensor, onnx.ValueInfoProto]] = []
        for info in proto.output:
            tensor = names.tensors.get(info.name) or names.use(info.name)
            if tensor is names.tensors.get(info.name):  # a body may return a tensor of an outer graph, declared there
                declared.append((tensor, info))
            origin.outputs.append(tensor)
        for info in proto.value_info:
            own = names.tensors.get(info.name)
            if own is not None:
                declared.append((own, info))
            origin.infos.append(own if own is not None else names.find(info.name))
        _declare(declared)
        for annotation in proto.quantization_annotation:
            entries = [annotation.tensor_name, *(entry.value for entry in annotation.quant_parameter_tensor_names)]
            origin.annotations.append([names.find(name) for name in entries])
        origin.note_names([*names.new_tensors, *origin.inputs, *origin.constants, *origin.sparse])
        _check_names(names, origin.nodes)
        graph: Graph = self.assemble(object.__new__(Graph), origin, text(proto.name), text(proto.doc_string))
        return graph

    def constant(self, names: _LoadedNames, proto: onnx.TensorProto | onnx.SparseTensorProto, name: str) -> Constant:
        constant = loaded_constant(name, proto, self.folder)
        check_text(name)
        if name:
            names.tensors[name] = constant
        return constant

    def input(self, names: _LoadedNames, info: onnx.ValueInfoProto) -> gs.Tensor:
        name = info.name
        tensor = names.tensors.get(name)
        if isinstance(tensor, Constant):
            tensor.listed = True
        else:
            tensor = new_variable(name)
            if name:
                names.tensors[name] = tensor
                names.inputs.add(name)
        check_text(name)
        return tensor

    def nodes(self, encoded: Sequence[bytes], names: _LoadedNames) -> list[Node]:
        read = columns(encoded)
        names.outputs = read.outputs.names
        names.of_nodes = {*map(type, read.ops), *map(type, read.names), *map(type, read.domains)}
        if _HOLDS_GRAPH in b"".join(encoded):
            holders = {i: _parsed(data) for i, data in enumerate(encoded) if _HOLDS_GRAPH in data}
        else:
            holders = {}
        found = names.at_once(read) if not holders else None
        inputs, outputs, bodies = self.one_by_one(read, names, holders) if found is None else (*found, {})
        nodes = loaded_nodes(encoded, read.ops, read.names, read.domains, inputs, outputs, self.folder)
        tie_all(nodes)
        for i, graphs in bodies.items():
            nodes[i]._proto, nodes[i]._bodies = holders[i], graphs
        return nodes

    def one_by_one(
        self, read: NodeColumns, names: _LoadedNames, holders: Mapping[int, onnx.NodeProto]
    ) -> tuple[Parts, Parts, dict[int, dict[str, Graph]]]:
        """Operands, results and bodies of nodes, found in the order of the nodes; `holders` are those that may have bodies."""
        inputs, outputs, bodies = [], [], {}
        reads, makes = (column.parts(column.names) for column in (read.inputs, read.outputs))
        for i, (operands, results) in enumerate(zip(reads, makes, strict=True)):
            inputs.append(tuple([names.tensors.get(name) or names.use(name) for name in operands]))
            if i in holders:
                bodies[i] = self.bodies(holders[i].attribute, names)
            outputs.append(tuple([names.define(name) for name in results]))
            names.defined.update(results)
        return inputs, outputs, bodies

    def bodies(self, attributes: Iterable[onnx.AttributeProto], names: _LoadedNames) -> dict[str, Graph]:
        """The subgraphs of a node, by attribute."""
        graphs = (a for a in attributes if a.type == _GRAPH and not a.ref_attr_name)
        return {text(attribute.name): self.body(attribute.g, names) for attribute in graphs}

    def body(self, message: onnx.GraphProto, names: _LoadedNames | None) -> Graph:
        return self.graph(raw_message(RawGraph, message), names, message)

    def assemble(self, graph: Any, origin: Origin, name: str, doc_string: str) -> Any:
        fields = graph.__dict__
        fields.update(
            nodes=list(origin.nodes),
            inputs=[tensor for tensor in origin.inputs if not isinstance(tensor, gs.Constant)],
            outputs=list(origin.outputs),
            name=name,
            __name__=name,
            doc_string=doc_string,
            opset=self.opset,
            import_domains=self.imports,
            producer_name="",
            producer_version="",
            ir_version=None,
            name_idx=0,
            _functions=self.functions,
            initializers=[*origin.constants, *origin.sparse],
            origin=origin,
        )
        return graph

    def function(self, proto: onnx.FunctionProto) -> Function:
        inner = _GraphBuilder(self.folder)
        inner.functions = self.functions
        inner.imports = [_copy(entry) for entry in proto.opset_import]
        inner.opset = default_opset(inner.imports) if inner.imports else self.opset
        names = _LoadedNames(None)
        raw = raw_message(RawFunction, proto)
        origin = Origin(raw, proto, opset=inner.opset, imports=[_copy(entry) for entry in inner.imports])
        for name in proto.input:
            tensor = new_variable(name)
            names.tensors[name] = tensor
            names.inputs.add(name)
            origin.inputs.append(tensor)
        origin.nodes = inner.nodes(raw.node[:], names)
        origin.outputs = [names.tensors.get(name) or names.use(name) for name in proto.output]
        origin.infos = [names.tensors.get(info.name) for info in proto.value_info]
        _declare((own, info) for own, info in zip(origin.infos, proto.value_info, strict=True) if own is not None)
        origin.note_names([*names.new_tensors, *origin.inputs])
        _check_names(names, origin.nodes)
        for name in (proto.name, proto.domain, proto.overload, *proto.attribute):
            check_text(name)
        function: Function = inner.assemble(object.__new__(Function), origin, proto.name, text(proto.doc_string))
        fields = function.__dict__
        for name in ("producer_name", "producer_version", "initializers"):
            del fields[name]
        graphs = {text(a.name): inner.body(a.g, names) for a in proto.attribute_proto if a.type == _GRAPH}
        defaults = read_attributes(proto.attribute_proto, graphs, self.folder)
        fields.update(domain=proto.domain, overload=proto.overload, attrs={**dict.fromkeys(proto.attribute), **defaults})
        return function


def _parsed(data: bytes) -> onnx.NodeProto:
    try:
        return onnx.NodeProto.FromString(data)  # type: ignore[no-any-return]
    except DecodeError as error:  # only if the model never was a file: protobuf rejects such a file
        raise RewriterError(TOO_DEEP) from error


def _declare(declared: Iterable[tuple[gs.Tensor, onnx.ValueInfoProto]]) -> None:
    """Notes further declarations in tensors, all at once, since one name may be declared thousands of times."""
    found: dict[int, tuple[gs.Tensor, list[onnx.ValueInfoProto]]] = {}
    for tensor, info in declared:
        found.setdefault(id(tensor), (tensor, []))[1].append(info)
    for tensor, infos in found.values():
        if isinstance(tensor, (Variable, Constant)):
            tensor.infos = (*tensor.infos, *infos)


def _check_names(names: _LoadedNames, nodes: Sequence[Node]) -> None:
    """Rejects names that are not UTF-8."""
    if not {*map(type, names.tensors)} <= {str}:
        for name in names.tensors:
            check_text(name)
    if not names.of_nodes <= {str, type(None)}:
        for node in nodes:
            for name in (node.name, node.op, node.domain or ""):
                check_text(name)
