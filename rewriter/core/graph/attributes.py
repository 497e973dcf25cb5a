"""Attributes and texts of nodes: from their messages to the values that graphsurgeon uses, and back only if a value changed.

Values are int, float, str, lists of them, `Constant` for a tensor, a graph for a subgraph, `gs.Node.AttributeRef` for a
reference to an attribute of the enclosing function. A string that is not UTF-8 is bytes. Values that graphsurgeon does not
support (types, sparse tensors, lists of tensors or graphs, kinds of the future) are copies of their `onnx.AttributeProto`.

The texts of a node, its doc_string and metadata_props, are in its message, which is never changed. If a node got other texts,
the node itself keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.util import misc

from rewriter.core.errors import RewriterError
from rewriter.core.graph.values import loaded_constant, tensor_message
from rewriter.core.onnxfile.tensors import dtype_number, text, text_or_bytes

A = onnx.AttributeProto
WriteGraph = Callable[[gs.Graph], onnx.GraphProto]
"""Returns the message of a subgraph: the original message if the subgraph was not edited."""

_INT, _INTS, _FLOAT, _STRING = int(A.INT), int(A.INTS), int(A.FLOAT), int(A.STRING)
_REFERENCE_TYPES = frozenset((A.FLOAT, A.INT, A.STRING, A.TENSOR, A.GRAPH, A.FLOATS, A.INTS, A.STRINGS, A.TENSORS, A.GRAPHS))


def read_attributes(messages: Iterable[A], graphs: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Values by name; if two attributes have one name, the last one counts. `graphs` holds the subgraphs, built before."""
    return {text(message.name): _read(message, graphs, folder) for message in messages}


def _read(message: A, graphs: Mapping[str, Any], folder: Path | None) -> Any:
    kind = message.type
    if message.ref_attr_name:
        if kind not in _REFERENCE_TYPES:
            return _copy(message)
        return gs.Node.AttributeRef(text(message.ref_attr_name), misc.convert_from_onnx_attr_type(kind))
    if kind == A.INT:
        return message.i
    if kind == A.INTS:
        return list(message.ints)
    if kind == A.FLOAT:
        return message.f
    if kind == A.FLOATS:
        return list(message.floats)
    if kind == A.STRING:
        return text_or_bytes(message.s)
    if kind == A.STRINGS:
        return [text_or_bytes(item) for item in message.strings]
    if kind == A.TENSOR:
        return loaded_constant(text(message.t.name), message.t, folder)
    if kind == A.GRAPH:
        return graphs[text(message.name)]
    return _copy(message)


def _copy(message: A) -> A:
    copy = A()
    copy.CopyFrom(message)
    return copy


class AttributeWriter:
    """Writes the attributes of one node. The settings below may differ from node to node.

    Attributes:
        folder: of the model that is written. Tensors whose data are in another model's folder are written inline.
        write_graph: the function that writes a subgraph.
        op, domain: the operator, whose schema gives the type of a bare number or an empty list.
    """

    __slots__ = ("domain", "folder", "op", "write_graph")

    def __init__(self, folder: Path | None, write_graph: WriteGraph, op: str = "", domain: str = "") -> None:
        self.folder = folder
        self.write_graph = write_graph
        self.op = op
        self.domain = domain

    def changed(self, messages: Iterable[A], values: Mapping[str, Any]) -> list[A] | None:
        """All attributes to write, or None if all are unchanged.

        Unchanged attributes keep their message and their place, removed ones are dropped, and new ones come last.
        """
        originals = list(messages)
        last = {text(message.name): i for i, message in enumerate(originals)}
        if len(last) == len(originals) == len(values) and all(
            name in values and _plainly_same(originals[i], values[name]) for name, i in last.items()
        ):
            return None
        result: list[A] = []
        differs = False
        for i, message in enumerate(originals):
            name = text(message.name)
            if name not in values:
                differs = True
                continue
            new = self._changed(originals[last[name]], name, values[name])
            if new is None:
                result.append(message)
            else:
                differs = True
                if i == last[name]:
                    result.append(new)
        new_names = [name for name in values if name not in last]
        result.extend(self.encode(name, values[name]) for name in new_names)
        return result if differs or new_names else None

    def changed_bodies(self, messages: Iterable[A], bodies: Mapping[str, gs.Graph]) -> list[A] | None:
        """`changed` for a node whose attributes were never read, so that only its subgraphs can have been edited."""
        result: list[A] = []
        differs = False
        for message in messages:
            graph = bodies.get(text(message.name)) if message.type == A.GRAPH and not message.ref_attr_name else None
            if graph is not None and graph.origin.message is message.g:  # else an earlier attribute of the same name
                written = self.write_graph(graph)
                if written is not message.g:
                    differs = True
                    message = _with_graph(message, written)
            result.append(message)
        return result if differs else None

    def _changed(self, message: A, name: str, value: Any) -> A | None:
        """The new message of an attribute, None if `message` has this `value`."""
        if message.type == A.GRAPH and isinstance(value, gs.Graph):
            graph = self.write_graph(value)
            return None if graph is message.g else _with_graph(message, graph)
        if isinstance(value, gs.Constant):
            tensor = tensor_message(value, self.folder)
            if message.type == A.TENSOR and not message.ref_attr_name and (tensor is message.t or tensor == message.t):
                return None
            new = self.encode(name, value)
        else:
            old = _read(message, {}, None) if message.type != A.GRAPH or message.ref_attr_name else None
            new = self.encode(name, value, message.type)
            if old is not None and not isinstance(old, gs.Constant):
                same = old if isinstance(old, A) else self.encode(name, old, message.type)
                if new.SerializeToString(deterministic=True) == same.SerializeToString(deterministic=True):
                    return None
        if message.HasField("doc_string") and not isinstance(value, A):
            new.doc_string = message.doc_string
        return new

    def encode(self, name: str, value: Any, before: int = A.UNDEFINED) -> A:
        """The message of a value; `before` is the type the attribute had. RewriterError when ONNX has none for this value."""
        if isinstance(value, A):
            result = _copy(value)
            if text(value.name) != name:
                result.name = name
            return result
        try:
            result = A(name=name)
            self._fill(result, value, before)
        except (TypeError, ValueError, OverflowError) as error:
            owner = f" of {self.op}" if self.op else ""
            raise RewriterError(f"attribute {name!r}{owner} cannot hold {value!r:.80}: {error}") from error
        return result

    def _fill(self, result: A, value: Any, before: int) -> None:
        if isinstance(value, gs.Constant):
            result.type = A.TENSOR
            result.t.CopyFrom(tensor_message(value, self.folder))
        elif isinstance(value, gs.Graph):
            result.type = A.GRAPH
            result.g.CopyFrom(self.write_graph(value))
        elif isinstance(value, gs.Node.AttributeRef):
            result.type = misc.convert_to_onnx_attr_type(value.type)
            result.ref_attr_name = value.name
        elif isinstance(value, (onnx.TensorProto, onnx.GraphProto, onnx.SparseTensorProto, onnx.TypeProto)):
            result.CopyFrom(onnx.helper.make_attribute(result.name, value))
        else:
            number = dtype_number(value) if isinstance(value, (type, np.dtype)) else None
            self._fill_plain(result, number if number is not None else _plain(value), before)

    def _fill_plain(self, result: A, value: Any, before: int) -> None:
        wanted = schema_type(self.op, self.domain, result.name) or before
        if isinstance(value, (bool, int)) and wanted != A.FLOAT:
            result.type, result.i = A.INT, int(value)
        elif isinstance(value, (int, float)):
            result.type, result.f = A.FLOAT, float(value)
        elif isinstance(value, (str, bytes)):
            result.type, result.s = A.STRING, _bytes(value)
        elif not isinstance(value, list):
            raise TypeError("not a kind of value that attributes have")
        elif not value:
            result.type = _EMPTY_LISTS.get(wanted, A.INTS)
        elif all(isinstance(item, int) for item in value) and wanted != A.FLOATS:
            result.type = A.INTS
            result.ints.extend(map(int, value))
        elif all(isinstance(item, (int, float)) for item in value):
            result.type = A.FLOATS
            result.floats.extend(map(float, value))
        elif all(isinstance(item, (str, bytes)) for item in value):
            result.type = A.STRINGS
            result.strings.extend(map(_bytes, value))
        elif all(isinstance(item, gs.Constant) for item in value):
            result.type = A.TENSORS
            result.tensors.extend(tensor_message(item, self.folder) for item in value)
        elif all(isinstance(item, gs.Graph) for item in value):
            result.type = A.GRAPHS
            result.graphs.extend(self.write_graph(item) for item in value)
        else:
            result.CopyFrom(onnx.helper.make_attribute(result.name, value))


_EMPTY_LISTS = {int(kind): kind for kind in (A.INTS, A.FLOATS, A.STRINGS, A.TENSORS, A.GRAPHS, A.SPARSE_TENSORS, A.TYPE_PROTOS)}


def _plain(value: Any) -> Any:
    """NumPy numbers, arrays, tuples and ranges as plain numbers and lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [item.item() if isinstance(item, np.generic) else item for item in value]
    return value


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _plainly_same(message: A, value: Any) -> bool:
    """True when an attribute of a usual kind was surely not edited; a quick answer for nearly all attributes."""
    kind = type(value)
    if message.ref_attr_name:
        return False
    if kind is int:
        return bool(message.type == _INT and message.i == value)
    if kind is list:
        return bool(message.type == _INTS and message.ints == value and all(type(item) is int for item in value))
    if kind is float:
        return bool(message.type == _FLOAT and message.f == value != 0.0)  # 0.0 equals -0.0
    return kind is str and bool(message.type == _STRING and text_or_bytes(message.s) == value)


def _with_graph(message: A, graph: onnx.GraphProto) -> A:
    result = A(name=message.name, type=A.GRAPH)
    if message.HasField("doc_string"):
        result.doc_string = message.doc_string
    result.g.CopyFrom(graph)
    return result


@lru_cache(maxsize=4096)
def schema_type(op: str, domain: str, attribute: str) -> int:
    """Type that the newest schema of an operator gives an attribute; UNDEFINED for unknown operators and attributes."""
    try:
        schema = onnx.defs.get_schema(op, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return int(A.UNDEFINED)
    known = schema.attributes.get(attribute)
    return int(A.UNDEFINED) if known is None else int(known.type)  # type: ignore[call-overload]


HISTORY = "rewriter.history"
"""Of the model's metadata_props: the runs that changed it (`rewriter.trust.stamp`)."""

RULES = "rewriter.rules"
"""Of a node's metadata_props: the rules that made or changed it, separated by spaces."""


class NodeTexts(NamedTuple):
    doc_string: str
    metadata: Mapping[str, str]


def node_texts(node: gs.Node) -> NodeTexts:
    """The texts of a node; all are empty if the node is not of this package."""
    changed: NodeTexts | None = getattr(node, "texts", None)
    proto: onnx.NodeProto | None = getattr(node, "proto", None)
    if changed is not None or proto is None:
        return changed or NodeTexts("", {})
    return NodeTexts(text(proto.doc_string), {text(entry.key): text(entry.value) for entry in proto.metadata_props})


def write_texts(message: onnx.NodeProto, texts: NodeTexts) -> None:
    """Puts texts into a message, which is edited; entries of the metadata keep their order."""
    message.ClearField("doc_string")
    if texts.doc_string:
        message.doc_string = texts.doc_string
    message.ClearField("metadata_props")
    message.metadata_props.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in texts.metadata.items())


def rename_sharded(message: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Edits the device settings of a message: they get the names that the operands and results are going to have."""
    names: dict[str, str] = {}
    for before, now in ((message.input, inputs), (message.output, outputs)):
        if len(before) == len(now):
            names.update(zip(reversed(before), reversed(now), strict=True))  # of a tensor read twice the first place counts
    for device in message.device_configurations:
        for spec in device.sharding_spec:
            if spec.tensor_name and names.get(spec.tensor_name):
                spec.tensor_name = names[spec.tensor_name]
