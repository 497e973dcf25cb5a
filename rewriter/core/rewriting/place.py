"""Edits in place: `n.attr = v`, `n.inputs[i] = t`, `n.op = ...`, `x.dtype`, `x.shape[i]`, `model.ir_version`, and `del` of
each.

They change what they name and nothing else; that is why they stand beside replacements in the language.
"""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure
from rewriter.core.graph.message_text import node_name
from rewriter.core.graph.metadata import node_texts
from rewriter.core.graph.objects import Node, new_variable
from rewriter.core.language import ast
from rewriter.core.onnxfile.tensors import gs_dtype
from rewriter.core.rewriting.build import operand_tensor
from rewriter.core.rewriting.model_edits import changed_entry, drop_input, drop_output, set_model_field
from rewriter.core.rewriting.prepare import attribute_value, settled
from rewriter.core.rewriting.transaction import Rewriting


def apply_edit(rewriting: Rewriting, edit: ast.Edit, value: Any, at: Any) -> None:
    """Performs one edit whose value and position were computed before. Raises Failure when it makes no sense here."""
    place = edit.place
    if place.base == "model":
        set_model_field(rewriting, place.field or "", at, value)
        return
    subject = rewriting.names.bound.get(place.base)
    if isinstance(subject, gs.Node):
        _edit_node(rewriting, subject, edit, value, at)
    elif isinstance(subject, gs.Tensor):
        _edit_tensor(rewriting, subject, place, value, at)
    else:
        raise Failure(f"`{place.base}` is neither a node nor a tensor")


def _edit_node(rewriting: Rewriting, node: gs.Node, edit: ast.Edit, value: Any, at: Any) -> None:
    field = edit.place.field
    if field == "inputs":
        position = _position(at, len(node.inputs) + 16)
        if isinstance(edit.value, ast.Constant | ast.Build | ast.Absent):
            tensor = operand_tensor(rewriting, edit.value, value, node.op)
        else:
            assert isinstance(edit.value, ast.Name)
            tensor = rewriting.tensor(edit.value.id)
        rewriting.edits.set_input(node, position, tensor)
    elif field == "op":
        domain, _, op = str(value).replace("::", ".").rpartition(".")
        rewriting.edits.set_op(node, op, domain or node.domain)
    elif field in ("doc_string", "metadata_props"):
        _say(rewriting, node, field, at, value)
    elif field is not None and at is None:
        domain = node.domain or ""
        version = rewriting.scope.opsets.get(domain, 1)
        if not isinstance(edit.value, ast.Constant):
            value = settled(rewriting.context, node.op, domain, version, field, value)
        rewriting.edits.set_attribute(
            node, field, None if value is ABSENT else attribute_value(node.op, domain, version, field, value)
        )
    else:
        raise Failure("only attributes, `op`, `inputs[i]` and texts of a node can be set")


def _say(rewriting: Rewriting, node: gs.Node, field: str, key: Any, value: Any) -> None:
    """Sets the doc_string of a node or an entry of its metadata_props; an empty text takes it away."""
    if not isinstance(node, Node) or not isinstance(value, str):
        raise Failure(f"{field} of this node cannot be set to this")
    texts = node_texts(node)
    before = texts.doc_string if field == "doc_string" else texts.metadata.get(key, "")
    if value == before:
        return
    if field == "doc_string":
        texts = texts._replace(doc_string=value)
    else:
        texts = texts._replace(metadata=changed_entry(texts.metadata, key, value))
    shown = field if key is None else f'{field}["{key}"]'
    rewriting.edits.declare("text", f"{node_name(node)}.{shown}", before, value)
    rewriting.edits.set_texts(node, texts)


def _edit_tensor(rewriting: Rewriting, tensor: gs.Tensor, place: ast.Place, value: Any, at: Any) -> None:
    if place.field == "name":
        _rename(rewriting, tensor, value)
        return
    if not isinstance(tensor, gs.Variable):
        raise Failure("the type of a constant cannot be edited")
    if place.field == "dtype":
        index = rewriting.index
        if tensor.shape is None and tensor.dtype is None and not index.output_of(tensor) and not index.input_of(tensor):
            return  # an inner tensor that declares nothing is right as it is, and a type without a shape is no declaration
        rewriting.edits.set_type(tensor, gs_dtype(int(value)), tensor.shape, "tensor_type")
        return
    if place.field != "shape":
        raise Failure(f"`{place.field}` of a tensor cannot be set")
    if at is None:
        shape = [None if item is UNKNOWN else _dim(item) for item in value]  # a length that nobody knows is left open
    else:
        if tensor.shape is None:
            raise Failure("the tensor declares no shape")
        shape = list(tensor.shape)
        position = _position(at, len(shape))
        shape[position] = _dim(value)
    rewriting.edits.set_type(tensor, tensor.dtype, shape)


def _rename(rewriting: Rewriting, tensor: gs.Tensor, name: Any) -> None:
    """Gives a tensor another name, which no other one may have in any graph of the model."""
    if not isinstance(name, str) or not name:
        raise Failure("a name is a text that is not empty")
    if name == tensor.name:
        return
    if name in rewriting.index.names:
        raise Failure(f"{tensor.name!r} cannot be named {name!r}: another tensor has this name")
    rewriting.edits.rename(tensor, rewriting.index.names.fresh(name))


def _dim(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Failure("a dimension is a number or a name")
    return str(value) if isinstance(value, str) else value


def _position(at: Any, limit: int) -> int:
    if not isinstance(at, int) or isinstance(at, bool) or not -limit <= at < limit:
        raise Failure(f"position {at} is out of range")
    return at if at >= 0 else at + limit


def apply_delete(rewriting: Rewriting, statement: ast.Delete, at: Any) -> None:
    """`del n`, `del n.attr`, `del n.inputs[i]`, `del x`. Raises Failure when it is still needed."""
    place = statement.place
    subject = rewriting.names.bound.get(place.base)
    if isinstance(subject, gs.Node):
        _delete_of_node(rewriting, subject, place, at)
    elif isinstance(subject, gs.Tensor) and place.field is None:
        if not drop_input(rewriting, subject) and not drop_output(rewriting, subject):
            raise Failure(f"`{place.base}` is neither an input nor an output of the graph")
    else:
        raise Failure(f"`{place.base}` cannot be deleted")


def _delete_of_node(rewriting: Rewriting, node: gs.Node, place: ast.Place, at: Any) -> None:
    if place.field is None:
        if any(tensor.name and rewriting.index.is_used(tensor) for tensor in node.outputs):
            raise Failure("an output of the node is still used")
        if node in rewriting.index:
            rewriting.edits.remove(node)
    elif place.field == "inputs":
        rewriting.edits.set_input(node, _position(at, len(node.inputs)), new_variable(""))
    elif place.field == "outputs":
        position = _position(at, len(node.outputs))
        if rewriting.index.is_used(node.outputs[position]):
            raise Failure("the output is still used")
        outputs = list(node.outputs)
        outputs[position] = new_variable("")
        while outputs and not outputs[-1].name:
            outputs.pop()
        rewriting.edits.set_outputs(node, outputs)
    else:
        rewriting.edits.set_attribute(node, place.field, None)
