"""The statements of a rewrite block: their values are computed while the graph is as it was matched, then each is applied.

New nodes and redirected tensors are wired into the graph. Edits in place change only the part that they name (`n.attr = v`,
`n.inputs[i] = t`, `n.op = ...`, `x.dtype`, `x.shape[i]`, `model.ir_version`, and `del` of each). This is why the language has
edits in addition to replacements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure, Symbol, as_array, flat, show
from rewriter.core.conditions.value_functions import element_type
from rewriter.core.graph.attributes import node_texts
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Node, new_constant, new_variable
from rewriter.core.language import ast, schema
from rewriter.core.language.pattern import operator_names
from rewriter.core.language.schema import DTYPES
from rewriter.core.onnxfile.model_file import LEAST_ASIDE
from rewriter.core.onnxfile.tensors import gs_dtype
from rewriter.core.record import record
from rewriter.core.rewriting.model_edits import changed_entry, drop_input, drop_output, import_domain, set_model_field
from rewriter.core.rewriting.transaction import Refused, Rewriting, Undecided

# Values of expressions in ONNX's types: attributes of the type that the operator needs, constants of the correct element
# type.
#
# A plain number in a rule has no element type of its own: `Add(x, {1.0})` means one of x's type, and in `Reshape(x, {[0, -1]})`
# the schema leaves only int64.

FLOAT, INT64, BOOL, STRING = DTYPES["float"], DTYPES["int64"], DTYPES["bool"], DTYPES["string"]


def attribute_value(op: str, domain: str, version: int, name: str, value: Any) -> Any:
    """A value as the graph stores it in attribute `name`. Raises Failure when it does not fit, Undecided when it is unknown."""
    if not isinstance(value, bool | int | float | str | list | np.ndarray) or isinstance(value, Symbol):
        if value is UNKNOWN or value is ABSENT or isinstance(value, Symbol):
            raise Undecided(f"the value of attribute `{name}` is not known")
        return value  # subgraphs, tensors and other values copied from a node
    declared = schema.attribute(op, domain, version, name)
    kind = declared.kind if declared is not None else _guess(value)
    try:
        return _AS[kind](value) if kind in _AS else value
    except (TypeError, ValueError) as error:
        raise Failure(f"{show(value)} does not fit attribute `{name}` of {op}, which is of type {kind}") from error


def settled(context: Context, op: str, domain: str, version: int, name: str, value: Any) -> Any:
    """A captured constant becomes its values, unless the attribute is a tensor. Raises Failure for other tensors."""
    declared = schema.attribute(op, domain, version, name)
    is_usable = not isinstance(value, gs.Tensor) or (declared is not None and declared.kind == "tensor")
    return value if is_usable else context.array(value)


def _guess(value: Any) -> str:
    """The type of an attribute that no schema declares: a number, a list, or a tensor for a value with more dimensions."""
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return "tensor"

    items = value.ravel().tolist() if isinstance(value, np.ndarray) else value if isinstance(value, list) else [value]
    base = (
        "float"
        if any(isinstance(item, float) for item in items)
        else "string"
        if any(isinstance(i, str) for i in items)
        else "int"
    )
    return base + "s" if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim) else base


def _items(value: Any) -> list[Any]:
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list) or any(item is UNKNOWN or isinstance(item, Symbol) for item in items):
        raise TypeError
    return items


def _int(value: Any) -> int:
    if isinstance(value, np.ndarray):
        value = value.item()
    if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
        raise TypeError
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    return float(value.item() if isinstance(value, np.ndarray) else value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_AS: dict[str, Any] = {
    "int": _int,
    "float": _float,
    "string": _text,
    "ints": lambda value: [_int(item) for item in _items(value)],
    "floats": lambda value: [_float(item) for item in _items(value)],
    "strings": lambda value: [_text(item) for item in _items(value)],
    "tensor": lambda value: new_constant("", as_array(value), _natural(value)),
}


def constant_array(operand: ast.Constant, context: Context, value: Any, wanted: int | None) -> tuple[np.ndarray[Any, Any], int]:
    """(values, TensorProto element type) of a new initializer.

    Arrays keep their type; plain numbers take the one written before the braces, else `wanted`, else float, int64 or bool.
    Raises Failure when the value has no constant form, Undecided when it is unknown.
    """
    if isinstance(value, gs.Tensor):
        dtype = context.facts.dtype(value)
        value = context.array(value)
        if operand.dtype is None and dtype:
            return value, dtype
    if isinstance(value, list) and any(item is UNKNOWN or isinstance(item, Symbol) for item in flat(value)):
        raise Undecided("an item of the constant is unknown")
    if value is ABSENT or not isinstance(value, bool | int | float | str | list | np.ndarray):
        raise Failure(f"{show(value)} is no constant")
    if operand.dtype is not None:
        dtype = DTYPES[operand.dtype]
    elif isinstance(value, np.ndarray):
        dtype = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    else:
        dtype = wanted if wanted is not None and _fits(value, wanted) else _natural(value)
    try:
        array = as_array(value)
        if dtype == STRING:
            array = np.asarray(value, dtype=object)
        else:
            # a larger view is put aside from where it is
            array = array.astype(element_type(dtype), copy=array.nbytes < LEAST_ASIDE)
        return (array if operand.dims is None else array.reshape(operand.dims)), dtype
    except (ValueError, TypeError, OverflowError) as error:
        raise Failure(f"{show(value)} cannot become a constant: {error}") from error


def _natural(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
    items = flat(value)
    if any(isinstance(item, str) for item in items):
        return STRING
    if any(isinstance(item, float) for item in items):
        return FLOAT
    return BOOL if items and all(isinstance(item, bool) for item in items) else INT64


def _fits(value: Any, dtype: int) -> bool:
    """A number with a fraction does not become an integer silently, nor a text a number."""
    kind = _natural(value)
    if kind == STRING or dtype == STRING:
        return kind == dtype
    return kind != FLOAT or element_type(dtype).kind not in "iub"


def operand_types(op: str, domain: str, version: int, known: Sequence[int | None]) -> list[int | None]:
    """For each operand the element type that the schema and the other operands allow, None if they allow several."""
    operator = schema.schema(op, domain, version)
    formals = () if operator is None else operator.inputs
    found: list[int | None] = []
    for position in range(len(known)):
        formal = formals[min(position, len(formals) - 1)] if formals else None
        if operator is None or formal is None or (position >= len(formals) and not formal.variadic):
            found.append(None)
            continue
        same = (
            dtype
            for other, dtype in enumerate(known)
            if dtype and other != position and formals[min(other, len(formals) - 1)].kind == formal.kind
        )
        found.append(next(same, None) or _only(*operator.types[formal.kind]))
    return found


def _only(bits: int, others: tuple[str, ...]) -> int | None:
    """The single element type allowed, or int64 if int32 and int64 are allowed (shapes, axes)."""
    dtypes = schema.dtypes_of(bits)
    if len(dtypes) == 1 and not any(name.startswith("tensor(") for name in others):
        return dtypes[0]
    return INT64 if dtypes == [DTYPES["int32"], INT64] else None


@record(frozen=True, slots=True)
class NewNode:
    """A node that is going to be built: `operands` has the computed part of each, None for names and omitted ones."""

    op: str
    domain: str
    attributes: dict[str, Any]
    operands: list[Any]


NOTHING: tuple[Any, Any] = (None, None)


def computes(statement: ast.Statement) -> bool:
    """Whether anything of a statement has to be computed before the graph is changed."""
    if isinstance(statement, ast.Redirect):
        return isinstance(statement.target, ast.Constant | ast.Build)
    return isinstance(statement, ast.Build | ast.Edit | ast.Delete | ast.Each)


def prepare(rewriting: Rewriting, statement: ast.Statement) -> tuple[Any, Any]:
    """(value, position) of a statement: a `NewNode`, a constant, an attribute value, or None if it has no computed part.

    Raises Failure if a value is unknown or has the wrong type.
    """
    if isinstance(statement, ast.Build):
        if statement.outputs and statement.outputs[0].name:
            rewriting.builds[statement.outputs[0].name] = statement
        return prepare_node(rewriting, statement), None
    if isinstance(statement, ast.Redirect):
        return prepare_operand(rewriting, statement.target), None
    if isinstance(statement, ast.Edit):
        return _prepare_edit(rewriting, statement)
    if isinstance(statement, ast.Delete) and statement.place.index is not None:
        return None, rewriting.value(statement.place.index)
    return NOTHING


def prepare_node(rewriting: Rewriting, build: ast.Build) -> NewNode:
    """The attributes of a new node as its operator wants them, and its constants in the element type of its other operands."""
    domain, op = operator_names(build.op, rewriting.names.bound)
    version = rewriting.scope.opsets.get(domain, 1)
    attributes = {
        name: attribute_value(op, domain, version, name, value)
        for name, value in _attributes(rewriting, build, op, domain, version).items()
    }
    return NewNode(op, domain, attributes, _operands(rewriting, build, op, domain, version))


def _operands(rewriting: Rewriting, build: ast.Build, op: str, domain: str, version: int) -> list[Any]:
    """The computed part of each operand. A constant gets the element type that follows from the other operands."""
    if not any(isinstance(operand, ast.Constant) for operand in build.inputs):
        return [prepare_operand(rewriting, operand) for operand in build.inputs]
    wanted = operand_types(op, domain, version, [_dtype(rewriting, operand) for operand in build.inputs])
    return [prepare_operand(rewriting, operand, dtype) for operand, dtype in zip(build.inputs, wanted, strict=True)]


def _attributes(rewriting: Rewriting, build: ast.Build, op: str, domain: str, version: int) -> dict[str, Any]:
    """Attributes as written, later ones winning; one whose value is absent is left out."""
    attributes: dict[str, Any] = {}
    for item in build.attrs:
        if isinstance(item, ast.AttrCopy):
            attributes.update(rewriting.node(item.label).attrs)
        elif (value := rewriting.value(item.value)) is ABSENT:
            attributes.pop(item.name, None)
        else:
            attributes[item.name] = settled(rewriting.context, op, domain, version, item.name, value)
    return attributes


def _dtype(rewriting: Rewriting, operand: Any) -> int | None:
    """Element type of an operand that is captured or new, if it is known."""
    if isinstance(operand, ast.Build):
        return _result_dtype(rewriting, operand)
    if not isinstance(operand, ast.Ref):
        return None
    found = rewriting.names.bound.get(operand.name)
    if isinstance(found, gs.Tensor):
        return rewriting.context.facts.dtype(found)
    if operand.name not in rewriting.new_dtypes:
        build = rewriting.builds.get(operand.name)
        rewriting.new_dtypes[operand.name] = None if build is None else _result_dtype(rewriting, build)
    return rewriting.new_dtypes[operand.name]


def _result_dtype(rewriting: Rewriting, build: ast.Build) -> int | None:
    """Element type of a new node's first output, if it is that of an operand, or if the operator has no other."""
    domain, op = operator_names(build.op, rewriting.names.bound)
    version = rewriting.scope.opsets.get(domain, 1)
    operator = schema.schema(op, domain, version)
    if operator is None or not operator.outputs:
        return None
    if op == "Cast":
        to = _attributes(rewriting, build, op, domain, version).get("to")
        return to if isinstance(to, int) else None
    kind = operator.outputs[0].kind
    dtypes = schema.dtypes_of(operator.types[kind][0])
    if len(dtypes) == 1 and not operator.types[kind][1]:
        return dtypes[0]
    known = (_dtype(rewriting, one) for formal, one in zip(operator.inputs, build.inputs, strict=False) if formal.kind == kind)
    return next(filter(None, known), None)


def prepare_operand(rewriting: Rewriting, operand: Any, wanted: int | None = None) -> Any:
    """The computed part of an operand: (array, element type) of a constant, or ABSENT, a `NewNode`, or None."""
    if isinstance(operand, ast.Constant):
        value = rewriting.value(operand.value)
        return ABSENT if value is ABSENT else constant_array(operand, rewriting.context, value, wanted)
    return prepare_node(rewriting, operand) if isinstance(operand, ast.Build) else None


def _prepare_edit(rewriting: Rewriting, edit: ast.Edit) -> tuple[Any, Any]:
    at = None if edit.place.index is None else rewriting.value(edit.place.index)
    if isinstance(edit.value, ast.Constant | ast.Build | ast.Absent):
        return prepare_operand(rewriting, edit.value), at
    if edit.place.field == "inputs":
        return None, at
    return rewriting.value(edit.value), at


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
