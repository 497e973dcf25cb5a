"""From the objects of a graph back to messages: unedited objects are written as they were read, edited ones as a copy with the
difference.

Every object is compared with the message it came from, so that edits need not be reported. Only `graph.nodes`, `inputs`,
`outputs`, the nodes' own lists and the tensors are read, never the reverse lists. New objects, also graphsurgeon's plain ones,
get new messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import RULES, AttributeWriter, rename_sharded, write_texts
from rewriter.core.graph.load import MOST_LEVELS, TOO_DEEP
from rewriter.core.graph.objects import Function, Graph, Node, Origin, form_of
from rewriter.core.graph.values import Constant, Message, Variable, constant_node, has_type, info_message, tensor_message
from rewriter.core.language import schema
from rewriter.core.onnxfile.model_file import RawFunction, RawGraph, with_inputs
from rewriter.core.onnxfile.tensors import text

# Operator set imports of a model or function to write: its own imports, as edited, and imports that new nodes need.


def written_imports(
    graph: gs.Graph, origin: Origin, new_nodes: Mapping[str, Sequence[gs.Node]], ir_version: int
) -> list[onnx.OperatorSetIdProto] | None:
    """Operator set imports of a model or function, None when they are as loaded. Domains of new nodes are added."""
    imports: list[onnx.OperatorSetIdProto] = []
    for entry in graph.import_domains or ():
        imports.append(onnx.OperatorSetIdProto())
        imports[-1].CopyFrom(entry)
    if graph.opset is not None and graph.opset != origin.opset:
        own = [entry for entry in imports if entry.domain in ("", "ai.onnx")]
        for entry in own:
            entry.version = graph.opset
        if not own:
            imports.append(onnx.OperatorSetIdProto(domain="", version=graph.opset))
    known = {"" if entry.domain == "ai.onnx" else entry.domain for entry in imports}
    for domain, nodes in new_nodes.items():
        if domain not in known and (domain or origin.imports):
            imports.append(onnx.OperatorSetIdProto(domain=domain, version=import_version(domain, nodes, ir_version)))
    return None if imports == origin.imports else imports


def import_version(domain: str, nodes: Iterable[gs.Node], ir_version: int) -> int:
    """Version under which to import a domain for nodes that need it: the newest that the model's ir_version allows and that has
    the nodes' operators in their forms. If an operator came later, its version is the first that has it.
    """
    newest = newest_import(domain, ir_version)
    forms = {(node.op, form_of(node)) for node in nodes if schema.history(node.op, domain)}
    if not forms:
        return newest
    from rewriter.core.language.meaning import fits

    versions = range(1, schema.latest_opset(domain) + 1)
    having = [version for version in versions if all(fits(op, domain, version, form) for op, form in forms)]
    having = having or [version for version in versions if all(schema.exists(op, domain, version) for op, _ in forms)]
    return max((version for version in having if version <= newest), default=min(having, default=newest))


def newest_import(domain: str, ir_version: int) -> int:
    """The newest version of a domain that came with an ir_version or before it."""
    column = {"": 2, "ai.onnx.ml": 3}.get(domain)
    if column is None:
        return 1
    return max((int(row[column]) for row in onnx.helper.VERSION_TABLE if int(row[1]) <= ir_version), default=1)


def oldest_ir(version: int) -> int:
    """The ir_version that came with a version of ONNX's operators."""
    return next(ir for ir in range(1, onnx.IR_VERSION + 1) if newest_import("", ir) >= version)


Fields = dict[str, Any]
"""Fields of a message to be replaced; all others stay as they are."""

Visible = tuple[frozenset[int], ...]


def assemble(target: Any, source: Any, fields: Fields) -> None:
    """Fills an empty message with the fields of `source`, replaced by `fields`. Weights that stay are copied once."""
    present = source.ListFields()
    if not fields or len(UnknownFieldSet(source)) or any(_undecodable(*field) for field in present):
        target.CopyFrom(source)  # the only way to keep fields of a newer ONNX, and text that is not UTF-8
        for name in fields:
            target.ClearField(name)
    else:
        for descriptor, value in present:
            if descriptor.name not in fields:
                _put(target, descriptor.name, value)
    for name, value in fields.items():
        _put(target, name, value)


def _undecodable(descriptor: Any, value: Any) -> bool:
    return isinstance(value, bytes) and descriptor.type == descriptor.TYPE_STRING


def _put(target: Any, name: str, value: Any) -> None:
    if value is None:
        return
    field = getattr(target, name)
    if hasattr(field, "extend"):
        field.extend(value)
    elif hasattr(field, "CopyFrom"):
        field.CopyFrom(value)
    else:
        setattr(target, name, value)


def _whole(kind: Any, raw_kind: Any, source: Any, fields: Fields) -> Any:
    """The message whose raw form is `source`, with `fields` replaced."""
    result = raw_kind()
    assemble(result, source, fields)
    return kind.FromString(result.SerializeToString(deterministic=True))


class Writer:
    """Writes the graphs of one model.

    Attributes:
        folder: of the model that is written.
        list_new: whether a new initializer of the main graph is to be listed among its inputs.
        ir_version: of the model.
        marks: whether nodes are written with the rules that made or changed them.
        devices: whether nodes may name the tensors that devices share.
        new_nodes: new nodes and nodes that got another operator, by domain; the model must import their operator sets.
    """

    def __init__(
        self, folder: Path | None, list_new: bool, ir_version: int, marks: bool = False, devices: bool = False
    ) -> None:
        self.folder = folder
        self.ir_version = ir_version
        self.marks = marks
        self.devices = devices
        self.list_new = list_new
        self.new_nodes: dict[str, list[gs.Node]] = {}
        self._renamed: dict[int, gs.Tensor] = {}

    # --- graphs ------------------------------------------------------------------------------------------------------------

    def graph_fields(self, graph: gs.Graph, level: int = 0, visible: Visible = ()) -> tuple[Any, Fields]:
        """The raw message a graph came from (an empty one for a new graph), and the fields of it that changed.

        Args:
            graph: the graph.
            level: how deep it is nested.
            visible: ids of constants that outer graphs write, for each of them.
        """
        if level >= MOST_LEVELS:
            raise RewriterError(TOO_DEEP)
        origin = graph.origin if isinstance(graph, Graph) else Origin(RawGraph())
        self._renamed.update(origin.renamed())
        fields: Fields = {}
        set_text(fields, origin.proto, "name", graph.name)
        set_text(fields, origin.proto, "doc_string", graph.doc_string)
        constants = self.constants(graph, visible)
        self.set_constants(fields, origin, constants)
        nodes = self.nodes(graph.nodes, origin, level, (*visible, frozenset(map(id, constants))))
        if nodes is not None:
            fields["node"] = nodes
        self.set_list(fields, "input", origin.proto.input, self.inputs(graph, origin, constants, level))
        self.set_list(fields, "output", origin.proto.output, _infos(graph.outputs, origin.outputs, origin.proto.output))
        described = origin.infos or origin.annotations
        alive = _alive(graph, constants) if fields and described else None
        self.set_list(fields, "value_info", origin.proto.value_info, _value_infos(graph, origin, alive))
        self.set_list(fields, "quantization_annotation", origin.proto.quantization_annotation, _annotations(origin, alive))
        return origin.proto, fields

    def body(self, graph: gs.Graph, level: int, visible: Visible) -> onnx.GraphProto:
        """The message of a subgraph, its original message if it was not edited."""
        raw, fields = self.graph_fields(graph, level, visible)
        if not fields and isinstance(graph, Graph) and graph.origin.message is not None:
            return graph.origin.message  # type: ignore[no-any-return]
        return _whole(onnx.GraphProto, RawGraph, raw, fields)  # type: ignore[no-any-return]

    @staticmethod
    def set_list(fields: Fields, name: str, before: Sequence[Any], now: list[Any]) -> None:
        """Replaces a list of messages unless it holds the same objects."""
        if len(before) != len(now) or any(old is not new for old, new in zip(before, now, strict=True)):
            fields[name] = now

    # --- constants ---------------------------------------------------------------------------------------------------------

    def constants(self, graph: gs.Graph, visible: Visible) -> list[gs.Constant]:
        """Initializers to write: the graph's own in their order, then constants that its nodes use and no outer graph has."""
        own = graph.initializers if isinstance(graph, Graph) else ()
        result = {id(tensor): tensor for tensor in own if isinstance(tensor, gs.Constant)}
        read = (tensor for node in graph.nodes for tensor in node.inputs if type(tensor) is not Variable)
        used = (tensor for tensor in read if isinstance(tensor, gs.Constant))
        for tensor in (*used, *(tensor for tensor in graph.outputs if isinstance(tensor, gs.Constant))):
            if tensor.name and id(tensor) not in result and not any(id(tensor) in outer for outer in visible):
                result[id(tensor)] = tensor
        return list(result.values())

    def set_constants(self, fields: Fields, origin: Origin, constants: Sequence[gs.Constant]) -> None:
        dense: list[Message] = []
        sparse: list[Message] = []
        for constant in constants:
            message = tensor_message(constant, self.folder)
            (sparse if isinstance(message, onnx.SparseTensorProto) else dense).append(message)
        self.set_list(fields, "initializer", origin.proto.initializer, dense)
        self.set_list(fields, "sparse_initializer", origin.proto.sparse_initializer, sparse)

    def inputs(
        self, graph: gs.Graph, origin: Origin, constants: Sequence[gs.Constant], level: int
    ) -> list[onnx.ValueInfoProto]:
        """The declared inputs: real ones in the graph's order, listed initializers at their old places."""
        written = {id(constant) for constant in constants}
        places = {id(tensor): i for i, tensor in enumerate(origin.inputs)}
        listed = [
            (i, tensor)
            for i, tensor in enumerate(origin.inputs)
            if isinstance(tensor, Constant) and tensor.listed and id(tensor) in written
        ]
        old = {id(tensor) for tensor in origin.inputs}
        order: list[gs.Tensor] = []
        k = 0
        for tensor in graph.inputs:
            place = places.get(id(tensor), -1)
            while k < len(listed) and listed[k][0] < place:
                order.append(listed[k][1])
                k += 1
            order.append(tensor)
        order.extend(tensor for _, tensor in listed[k:])
        known = {id(tensor) for tensor in (*origin.constants, *origin.sparse)}
        order.extend(
            tensor
            for tensor in constants
            if id(tensor) not in old
            and (getattr(tensor, "listed", False) or (self.list_new and not level and id(tensor) not in known))
        )
        return _infos(order, origin.inputs, origin.proto.input)

    # --- nodes -------------------------------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[gs.Node], origin: Origin, level: int, visible: Visible) -> list[bytes] | None:
        """All nodes as bytes; None when they are the same nodes in the same order and none was edited."""
        result: list[Any] = []
        edited: set[int] = set()
        other: set[int] = set()  # nodes of another operator than they were read with
        renamed = self._renamed.keys()
        before = origin.nodes
        same = len(before) == len(nodes) and all(map(is_, before, nodes))
        # A node of a graph that is gone may have tensors that were renamed there; `renamed` lacks them.
        moved = frozenset[int]() if same else set(map(id, nodes)) - set(map(id, before))
        for node in nodes:
            read = node._read if type(node) is Node and id(node) not in moved else None
            # Quick answers for nearly all nodes: a node is unchanged, or only its operands differ.
            if (
                read is not None
                and node._attrs is None
                and not node._bodies
                and (node._rules is None or not self.marks)
                and node.texts is None
                and read[0] is node.op
                and read[1] is node.name
                and read[2] is node.domain
                and read[4] == tuple(node.outputs)
                and (not renamed or renamed.isdisjoint(map(id, (*node.inputs, *node.outputs))))
            ):
                if read[3] == tuple(node.inputs):
                    result.append(node.data)
                    continue
                names = [tensor.name for tensor in node.inputs]
                if {*map(type, names)} == {str} and not self.devices:
                    edited.add(id(node))
                    result.append(with_inputs(node.data, len(read[3]), names))
                    continue
            written = self.node(node, level, visible)
            if not isinstance(node, Node) or written is not node.data:
                edited.add(id(node))
                if read is None or (read[0], read[2] or "") != (node.op, node.domain or ""):
                    other.add(id(node))
            result.append(written)
        if same and not edited:
            return None
        suspects = other | moved
        for node in nodes:
            if id(node) in suspects:
                self.new_nodes.setdefault(schema.normal(node.domain or ""), []).append(node)
        return result

    def node(self, node: gs.Node, level: int, visible: Visible) -> bytes:
        """A node as bytes, its original bytes if it was not edited."""
        data = node.data if isinstance(node, Node) else None
        message: Any = onnx.NodeProto() if data is None else onnx.NodeProto.FromString(data)
        differs = False
        for field, value in (("op_type", node.op), ("name", node.name or ""), ("domain", node.domain or "")):
            if getattr(message, field) != value:
                differs = True
                message.ClearField(field)
                _put(message, field, value or None)
        inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (node.inputs, node.outputs))
        if self.devices:
            rename_sharded(message, inputs, outputs)
        for field, names in (("input", inputs), ("output", outputs)):
            if getattr(message, field) != names:
                differs = True
                message.ClearField(field)
                _put(message, field, names)
        unread = isinstance(node, Node) and node._attrs is None and not node._bodies
        attributes = None if unread else self.attributes(node, level, visible)
        if attributes is not None:
            differs = True
            message.ClearField("attribute")
            message.attribute.extend(attributes)
        if isinstance(node, Node) and node.texts is not None:
            differs = True
            write_texts(message, node.texts)
        if self.marks and isinstance(node, Node) and node.rules != node.rules_read:
            differs = True
            kept = [entry for entry in message.metadata_props if entry.key != RULES]
            message.ClearField("metadata_props")
            message.metadata_props.extend([*kept, onnx.StringStringEntryProto(key=RULES, value=" ".join(node.rules))])
        return message.SerializeToString(deterministic=True) if differs or data is None else data

    def attributes(self, node: gs.Node, level: int, visible: Visible) -> list[onnx.AttributeProto] | None:
        """Messages of all attributes of a node, None when none was edited."""
        writer = AttributeWriter(self.folder, lambda graph: self.body(graph, level + 1, visible), node.op, node.domain or "")
        messages = node.messages if isinstance(node, Node) else ()
        if isinstance(node, Node) and node._attrs is None:
            return writer.changed_bodies(messages, node.bodies)
        return writer.changed(messages, node.attrs)

    # --- functions ---------------------------------------------------------------------------------------------------------

    def function(self, function: gs.Function) -> onnx.FunctionProto:
        """The message of a function, its original message if it was not edited."""
        origin = function.origin if isinstance(function, Function) else Origin(RawFunction())
        self._renamed.update(origin.renamed())
        outer, self.new_nodes = self.new_nodes, {}
        fields: Fields = {}
        for name in ("name", "domain", "doc_string", "overload"):
            set_text(fields, origin.proto, name, function.__dict__.get(name))
        for name, tensors in (("input", function.inputs), ("output", function.outputs)):
            names = [tensor.name for tensor in tensors]
            if getattr(origin.proto, name) != names:
                fields[name] = names
        constants = self.constants(function, ())
        nodes = self.nodes(function.nodes, origin, 0, (frozenset(map(id, constants)),))
        if nodes is not None or constants:
            before = [constant_node(tensor, self.folder).SerializeToString(deterministic=True) for tensor in constants]
            fields["node"] = before + (nodes if nodes is not None else list(origin.proto.node))
        alive = _alive(function, []) if fields else None
        infos = _value_infos(function, origin, alive) if isinstance(function, Function) and origin.proto.value_info else []
        self.set_list(fields, "value_info", origin.proto.value_info, infos)
        self.set_defaults(fields, function, origin)
        imports = written_imports(function, origin, self.new_nodes, self.ir_version)
        self.new_nodes = outer
        if imports is not None:
            fields["opset_import"] = imports
        if not fields and isinstance(function, Function):
            return origin.message  # type: ignore[no-any-return]
        return _whole(onnx.FunctionProto, RawFunction, origin.proto, fields)  # type: ignore[no-any-return]

    def set_defaults(self, fields: Fields, function: gs.Function, origin: Origin) -> None:
        defaults = {text(message.name) for message in origin.proto.attribute_proto}
        plain = [name for name, value in function.attrs.items() if value is None]
        if plain != [name for name in dict.fromkeys(origin.proto.attribute) if name not in defaults]:
            fields["attribute"] = plain
        writer = AttributeWriter(self.folder, lambda graph: self.body(graph, 1, ()))
        values = {name: value for name, value in function.attrs.items() if value is not None}
        changed = writer.changed(origin.proto.attribute_proto, values)
        if changed is not None:
            fields["attribute_proto"] = changed


def set_text(fields: Fields, proto: Any, name: str, value: str | None) -> None:
    if text(getattr(proto, name)) != (value or ""):
        fields[name] = value or None


def _infos(
    tensors: Sequence[gs.Tensor], before: Sequence[gs.Tensor], messages: Sequence[onnx.ValueInfoProto]
) -> list[onnx.ValueInfoProto]:
    """Declarations of inputs or outputs; a new tensor that took over an old one's name keeps its declaration."""
    result = []
    own: dict[int, list[onnx.ValueInfoProto]] = {}
    names: dict[str, onnx.ValueInfoProto] = {}
    for tensor, message in zip(before, messages, strict=True):
        own.setdefault(id(tensor), []).append(message)
        names.setdefault(text(message.name), message)
    for tensor in tensors:
        known = own.get(id(tensor))
        info = names.get(tensor.name) if not known else known.pop(0) if len(known) > 1 else known[0]
        result.append(info_message(tensor, info))
    return result


def _alive(graph: gs.Graph, constants: Sequence[gs.Constant]) -> set[int]:
    """Ids of the tensors that this graph still has."""
    alive = {id(tensor) for node in graph.nodes for tensor in (*node.inputs, *node.outputs)}
    alive.update(id(tensor) for tensor in (*graph.inputs, *graph.outputs, *constants))
    return alive


def _value_infos(graph: gs.Graph, origin: Origin, alive: set[int] | None) -> list[onnx.ValueInfoProto]:
    """value_info: the old entries whose tensors still exist, then tensors of a known type that have none yet."""
    result = []
    ports = set(map(id, graph.inputs)) - set(map(id, origin.inputs))
    for tensor, message in zip(origin.infos, origin.proto.value_info, strict=True):
        if id(tensor) in ports:
            continue  # it has become an input, and is declared there
        if tensor is None:
            result.append(message)
        elif alive is None or id(tensor) in alive:
            result.append(info_message(tensor, message))
    declared = {id(tensor) for tensor in (*origin.infos, *graph.inputs, *graph.outputs)}
    tensors = (
        tensor
        for node in graph.nodes
        for tensor in node.outputs
        if type(tensor) is not Variable or tensor.infos or tensor.typed
    )
    for tensor in tensors:
        if tensor.name and id(tensor) not in declared and isinstance(tensor, gs.Variable) and has_type(tensor):
            declared.add(id(tensor))
            result.append(info_message(tensor, None))
    return result


def _annotations(origin: Origin, alive: set[int] | None) -> list[onnx.TensorAnnotation]:
    """Quantization annotations of the tensors that still exist, under their present names."""
    result = []
    for tensors, message in zip(origin.annotations, origin.proto.quantization_annotation, strict=True):
        if alive is not None and tensors[0] is not None and id(tensors[0]) not in alive:
            continue
        names = [message.tensor_name, *(entry.value for entry in message.quant_parameter_tensor_names)]
        now = [name if tensor is None else tensor.name for tensor, name in zip(tensors, names, strict=True)]
        if now != names:
            copy = onnx.TensorAnnotation()
            copy.CopyFrom(message)
            if tensors[0] is not None:
                copy.tensor_name = now[0]
            for entry, tensor in zip(copy.quant_parameter_tensor_names, tensors[1:], strict=True):
                if tensor is not None:
                    entry.value = tensor.name
            message = copy
        result.append(message)
    return result
