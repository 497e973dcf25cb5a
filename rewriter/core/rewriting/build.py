"""Applies each statement of a rewrite block to the graph. New nodes and redirected tensors are wired into it. Edits in place
change only the part that they name (`n.attr = v`, `n.inputs[i] = t`, `n.op = ...`, `x.dtype`, `x.shape[i]`, `model.ir_version`,
and `del` of each). This is why the language has edits in addition to replacements.
"""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure
from rewriter.core.graph.attributes import node_texts
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Node, new_variable
from rewriter.core.language import ast
from rewriter.core.onnxfile.tensors import gs_dtype
from rewriter.core.rewriting.model_edits import changed_entry, drop_input, drop_output, import_domain, set_model_field
from rewriter.core.rewriting.prepare import NewNode, attribute_value, settled
from rewriter.core.rewriting.transaction import Refused, Rewriting


def build(rewriting: Rewriting, statement: ast.Build, new: NewNode) -> gs.Tensor:
    """Makes a node. Outputs that have the name of a matched output, or of a run of outputs, replace the matched tensors. The
    first output is the result.
    """
    operands: list[gs.Tensor] = []
    for operand, value in zip(statement.inputs, new.operands, strict=True):
        if isinstance(operand, ast.Ref) and operand.spread:
            operands.extend(rewriting.new_values.get(operand.name) or rewriting.run(operand.name))
        else:
            operands.append(operand_tensor(rewriting, operand, value, new.op))
    while operands and not operands[-1].name:
        operands.pop()
    built = [(output, _outputs(rewriting, output, new.op)) for output in statement.outputs]
    outputs = [tensor for _, tensors in built for tensor in tensors] or [rewriting.fresh(new.op.lower())]
    node = rewriting.insert(new.op, new.domain, outputs[0].name, new.attributes, operands, outputs)
    if new.domain and new.domain not in rewriting.scope.opsets:
        import_domain(rewriting.index, rewriting.edits, rewriting.scope, new.domain, [node])
    for output, tensors in built:
        if output.name and not output.variadic:
            rewriting.new_values[output.name] = tensors[0]
    if statement.label:
        rewriting.new_values[statement.label] = node
    return outputs[0]


def _outputs(rewriting: Rewriting, output: ast.Output, op: str) -> list[gs.Tensor]:
    """The matched tensor, or tensors, that an output redefines, freed from the node that makes them now; else a new one."""
    if output.variadic:
        assert output.name is not None
        old = list(rewriting.run(output.name))
    else:
        found = rewriting.names.bound.get(output.name) if output.name else None
        old = [found] if isinstance(found, gs.Tensor) else []
        if rewriting.root is None and old:
            return [_at_the_end(rewriting, output.name or "", old[0], op)]
    for tensor in old:
        if tensor.name:
            rewriting.release(tensor)
    return old if old or output.variadic else [rewriting.fresh(output.name or op.lower())]


def _at_the_end(rewriting: Rewriting, name: str, old: gs.Tensor, op: str) -> gs.Tensor:
    """The tensor that a new node makes in place of an input of the model, for all its readers, or of an output, for callers."""
    index, edits = rewriting.index, rewriting.edits
    if index.producer(old) is not None:
        if name not in rewriting.kept:
            rewriting.kept[name] = rewriting.fresh("before", old)
        inner = rewriting.kept[name]
        rewriting.release(old)
        edits.replace_uses(old, inner)
        edits.retyped[id(inner)] = inner  # so that the output gets its new declaration
        return old
    if index.output_of(old):
        raise Refused(f"input {old.name!r} is an output of the model, too")
    new = rewriting.fresh(op.lower(), old)
    for user in index.uses(old):
        if not any(user is node for node in rewriting.new_nodes):
            edits.set_inputs(user, [new if tensor is old else tensor for tensor in user.inputs])
    return new


def operand_tensor(rewriting: Rewriting, operand: Any, value: Any, op: str = "") -> gs.Tensor:
    """The tensor of an operand whose computed part is `value`; new constants are named after `op`."""
    if isinstance(operand, ast.Ref):
        return rewriting.tensor(operand.name)
    if isinstance(operand, ast.Absent) or value is ABSENT:
        return new_variable("")
    if isinstance(operand, ast.Build):
        return build(rewriting, operand, value)
    array, dtype = value
    return rewriting.constant(array, dtype, op)


def redirect(rewriting: Rewriting, statement: ast.Redirect, value: Any, at: Any) -> None:
    """Uses of the matched output read the target instead (computed: `value`). An output of the graph keeps its name, in the
    way that is possible there.

    Raises Refused if nothing would change.
    """
    index, edits = rewriting.index, rewriting.edits
    wanted = statement.target
    target = rewriting.tensor(wanted.name) if isinstance(wanted, ast.Ref) else operand_tensor(rewriting, wanted, value)
    old = rewriting.names.bound[statement.output]
    if old is target:
        raise Refused("it redirects a tensor to itself")
    if isinstance(value, tuple):
        rewriting.context.facts.replace_constant(old, target, value[0])
    if not index.output_of(old):
        edits.replace_uses(old, target)
        edits.released[id(old)] = old
        return
    maker = index.producer(target)
    if maker is None or index.output_of(target) or index.scope(maker) is not rewriting.scope:
        _pass_on(rewriting, old, target)
        return
    rewriting.release(old)
    edits.replace_uses(target, old)
    edits.set_outputs(maker, [old if output is target else output for output in maker.outputs])
    if isinstance(statement.target, ast.Ref):
        rewriting.new_values[statement.target.name] = old


def _pass_on(rewriting: Rewriting, old: gs.Tensor, target: gs.Tensor) -> None:
    """An output of the graph that is to be an input, a constant or another output needs a node that hands the value on."""
    maker = rewriting.index.producer(old)
    if maker is not None and maker.op == "Identity" and maker.inputs[0] is target:
        raise Refused("an output of the graph that equals an input, a constant or another output needs this node")
    rewriting.release(old)
    rewriting.insert("Identity", "", old.name, {}, [target], [old])


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
            return  # an inner tensor without a declaration needs no change, and a type without a shape is no declaration
        rewriting.edits.set_type(tensor, gs_dtype(int(value)), tensor.shape, "tensor_type")
        return
    if place.field != "shape":
        raise Failure(f"`{place.field}` of a tensor cannot be set")
    if at is None:
        shape = [None if item is UNKNOWN else _dim(item) for item in value]  # an unknown length is left open
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
