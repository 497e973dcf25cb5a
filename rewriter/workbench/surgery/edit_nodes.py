"""Edits of nodes and of constants, with the values that people type for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError, counted
from rewriter.core.graph.attributes import read_attributes, schema_type
from rewriter.core.graph.objects import Graph, new_node
from rewriter.core.graph.values import Constant, Variable, elem_type, new_constant
from rewriter.core.onnxfile.tensors import dtype_number, gs_dtype, numpy_dtype
from rewriter.core.rewriting.model_edits import agrees, mend_stale_types
from rewriter.trust.proof.model_inputs import opened_arrays
from rewriter.workbench.surgery.editing import Editing, pair
from rewriter.workbench.surgery.extract import keep_nodes
from rewriter.workbench.surgery.ports import reached, set_type, shown

# Values that people type: numbers, lists, and arrays in files.

FILE = "@"
"""Begins the name of a file with a value."""


def literal(text: str) -> Any:
    """A number, a list of these, or a text as it is. Raises RewriterError for a broken list."""
    shown = text.strip()
    if (number := _number(shown)) is not None:
        return number
    if shown.startswith("["):
        try:
            return json.loads(shown)
        except ValueError:
            raise RewriterError(f'{text!r} is no list of numbers or texts, as [1, 2] or ["a"]') from None
    return {"true": True, "false": False}.get(shown.lower(), text)


def array(text: str, name: str, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """`@FILE.npy`, `@FILE.npz` (the array of this name), a number or a list.

    Raises:
        RewriterError: the file cannot be read or lacks the array, or the text is no value.
    """
    if text.startswith(FILE):
        return _array_of_file(Path(text.removeprefix(FILE)), name)
    value = literal(text)
    if isinstance(value, str):
        raise RewriterError(f"{text!r} is no value for {name!r}; write a number, a list, or @FILE.npy")
    try:
        found = np.asarray(value)
        return found if dtype is None else found.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise RewriterError(f"{text!r} is no value for {name!r}: {error}") from None


def _array_of_file(path: Path, name: str) -> np.ndarray[Any, Any]:
    with opened_arrays(path) as arrays:
        if isinstance(arrays, np.ndarray):
            return arrays
        if name not in arrays.files:
            raise RewriterError(f"{path}: there is no array {name!r} in it; it has {', '.join(arrays.files[:8])}")
        return np.asarray(arrays[name])


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


A = onnx.AttributeProto
_CALL = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<.*>)?\s*(?:\((.*)\))?\s*", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_LISTS = {int(A.INTS): int, int(A.FLOATS): float, int(A.STRINGS): str}
_SINGLE = {int(A.INT): int, int(A.FLOAT): float, int(A.STRING): str}
_SINGULARS: dict[type, str] = {int: "an integer", float: "a number", str: "a text"}
_PLURALS: dict[type, str] = {int: "integers", float: "numbers", str: "texts"}


def drop(editing: Editing, text: str) -> None:
    """Removes nodes: the readers of a node read its operand instead, or are removed as well with `with_children`.

    Raises:
        RewriterError: there is no such node, or nothing can take its place.
    """
    nodes = editing.parts.nodes_of([text])
    if editing.with_children:
        _drop_behind(editing, nodes)
        return
    before = len(editing.graph.nodes)
    touched: list[gs.Node] = []
    for node in nodes:
        if node in editing.index:
            touched += _bypass(editing, node)
    _settle(editing, touched)
    shown = ", ".join(f"{node.name or '?'} ({node.op})" for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
    editing.did.append(f"dropped {shown}; {counted(before - len(editing.graph.nodes), 'node')} fewer")


def _bypass(editing: Editing, node: gs.Node) -> list[gs.Node]:
    """Makes the users of a node read its first operand that is no constant; returns the nodes whose operands changed."""
    index, edits = editing.index, editing.edits
    used = [tensor for tensor in node.outputs if tensor.name and index.is_used(tensor)]
    source = next((t for t in node.inputs if t.name and not isinstance(t, gs.Constant)), None)
    name = repr(node.name or node.op)
    if len(used) > 1:
        raise RewriterError(f"{name} makes {len(used)} tensors that are read; only --with-children can drop it")
    if used and source is None:
        raise RewriterError(
            f"{name} has no operand that can replace it; --with-children also drops everything computed from it"
        )
    if not used or source is None:
        edits.remove(node)
        return []
    output = used[0]
    types = [editing.facts.dtype(tensor) for tensor in (output, source)]
    if None not in types and types[0] != types[1]:
        raise RewriterError(
            f"{name} changes the element type, so its operand cannot replace it; use --replace or --with-children"
        )
    known = editing.facts.fact(source).type
    readers = index.uses(output)
    maker = index.producer(source)
    if not index.output_of(output):
        edits.replace_uses(output, source)
        edits.remove(node)
        return readers
    if maker is not None and index.scope(maker) is index.scope(node) and not index.output_of(source):
        edits.remove(node)
        edits.replace_uses(source, output)
        edits.set_outputs(maker, [output if tensor is source else tensor for tensor in maker.outputs])
    else:  # callers know both by their names
        edits.set_op(node, "Identity", "")
        for attribute in list(node.attrs):
            edits.set_attribute(node, attribute, None)
        edits.set_inputs(node, [source])
    if isinstance(output, Variable) and (known.other or (known.dtype is not None and known.shape is not None)):
        set_type(output, known)
    return index.uses(output)


def _drop_behind(editing: Editing, nodes: list[gs.Node]) -> None:
    """Removes nodes, everything computed from them, and nodes that only these needed."""
    graph, index, edits = editing.graph, editing.index, editing.edits
    assert isinstance(graph, Graph)
    gone = reached(nodes, index.followers)
    dead = {id(tensor) for node in gone.values() for tensor in node.outputs}
    left = [tensor for tensor in graph.outputs if id(tensor) not in dead]
    if not left:
        raise RewriterError("all outputs are computed from the dropped nodes; make another tensor an output, with --add-output")
    lost = [tensor for tensor in graph.outputs if id(tensor) in dead]
    before = len(graph.nodes)
    graph.outputs = left
    for tensor in lost:
        index.unlist_output(tensor)
    for node in gone.values():
        edits.remove(node)
    editing.settle()
    keep_nodes(graph, list(graph.nodes))
    names = ", ".join(tensor.name for tensor in lost)
    editing.did.append(f"dropped {counted(before - len(graph.nodes), 'node')}" + (f" and the outputs {names}" if lost else ""))


def insert_after(editing: Editing, text: str) -> None:
    """`T=Op<attributes>(operands)`: the readers of T read the new node instead. Among the operands, `_` is T, a number is a
    constant of T's type, and `@FILE.npy` is the array in a file.

    Raises:
        RewriterError: the text cannot be parsed, or an operand does not exist.
    """
    parts, graph = editing.parts, editing.graph
    name, call = pair(text, "TENSOR=Operator<attribute=value>(_, ...)", lambda n: n in parts.tensors or n in parts.nodes)
    found = parts.outputs_of([name])
    if len(found) != 1:
        raise RewriterError(f"{name!r} matches {len(found)} tensors; name one")
    tensor = found[0]
    op, domain, attributes, operands = _parsed_call(editing, call, tensor)
    index = editing.index
    maker, readers = index.producer(tensor), index.uses(tensor)
    if maker is None and index.output_of(tensor):
        raise RewriterError(f"{name!r} is an input and also an output, so no node can be inserted")
    new_name = f"{tensor.name}_{op.lower()}"
    node_name = index.node_names.fresh(new_name)
    source, result = editing.part(tensor, new_name if maker is None else f"{tensor.name}_before")
    if maker is not None:
        if isinstance(tensor, Variable) and not index.output_of(tensor):
            source.infos, tensor.infos = tensor.infos, ()
        source.dtype, source.shape = tensor.dtype, tensor.shape
    editing.settle()
    place = 0 if maker is None else next(i for i, node in enumerate(graph.nodes) if node is maker) + 1
    inputs = [source if operand is None else operand for operand in operands]
    node = new_node(op, domain, node_name, attributes, inputs, [result])
    graph.nodes.insert(_after(graph, node, place), node)
    if isinstance(result, Variable):
        declared = result.dtype, result.shape
        result.dtype = result.shape = None
    editing.settle()
    if isinstance(result, Variable):
        known = editing.facts.fact(result).type
        if known.other or (known.dtype is not None and known.shape is not None):
            set_type(result, known)
        elif any(result is output for output in graph.outputs):
            result.dtype, result.shape = declared
    _settle(editing, readers)
    editing.did.append(f"inserted {op} after {name}")


def _after(graph: gs.Graph, node: gs.Node, place: int) -> int:
    """The earliest place after all nodes that a node reads."""
    read = set(map(id, node.inputs))
    places = [i + 1 for i, other in enumerate(graph.nodes) if any(id(tensor) in read for tensor in other.outputs)]
    return max([place, *places])


def _parsed_call(editing: Editing, text: str, tensor: gs.Tensor) -> tuple[str, str, dict[str, Any], list[gs.Tensor | None]]:
    found = _CALL.fullmatch(text)
    if found is None:
        raise RewriterError(f"{text!r} is no operator as Relu, Cast<to=1> or Mul(_, 0.5)")
    domain, _, op = found[1].rpartition(".")
    try:
        parsed = onnx.parser.parse_node(f"y = {op}{found[2] or ''}(x)")
    except Exception as error:  # the parser raises a class of its own
        raise RewriterError(f"{text!r}: {' '.join(str(error).split())[:200]}") from None
    attributes = read_attributes(parsed.attribute, {}, None)
    if any(attribute.type == A.GRAPH for attribute in parsed.attribute):
        raise RewriterError(f"{text!r}: a node with a body cannot be inserted")
    words = ["_"] if found[3] is None else [word.strip() for word in found[3].split(",")]
    return op, domain, attributes, [_operand(editing, word, tensor) for word in words if word]


def _operand(editing: Editing, word: str, tensor: gs.Tensor) -> gs.Tensor | None:
    if word == "_":
        return None
    if word.startswith(FILE):
        return new_constant(editing.index.names.fresh(f"{tensor.name}_value"), _from_file(word, editing.facts.dtype(tensor)))
    if word in editing.parts.tensors or not _NUMBER.fullmatch(word):
        return editing.parts.tensor(word)
    number = editing.facts.dtype(tensor)
    dtype = np.dtype(np.float32) if number is None else numpy_dtype(number)
    return new_constant(editing.index.names.fresh(f"{tensor.name}_value"), np.asarray(float(word)).astype(dtype))


def _from_file(word: str, wanted: int | None) -> np.ndarray[Any, Any]:
    """The array in a file; floating-point numbers get the type `wanted`."""
    found = array(word, "", None)
    dtype = None if wanted is None else numpy_dtype(wanted)
    return found.astype(dtype) if dtype is not None and found.dtype.kind == dtype.kind == "f" else found


def replace(editing: Editing, text: str) -> None:
    """`OLD=NEW`: nodes of an operator, or named nodes, get another operator, and keep their operands and attributes.

    Raises:
        RewriterError: there is no such node.
    """
    old, new = pair(text, "OLD=NEW, two operators", lambda n: n in editing.parts.nodes)
    if old in editing.parts.nodes or old.startswith("op:"):
        nodes = editing.parts.nodes_of([old])
    else:
        domain, _, op = old.rpartition(".")
        nodes = [n for n in editing.index.all_nodes() if n.op == op and (not domain or n.domain == domain)]
    if not nodes:
        raise editing.parts.missing(old, "node or operator", editing.parts.nodes)
    if not re.fullmatch(r"[\w.]+", new):
        raise RewriterError(f"{new!r} is no operator")
    domain, _, op = new.rpartition(".")
    for node in nodes:
        editing.edits.set_op(node, op, domain)
    _settle(editing, nodes)
    editing.did.append(f"{counted(len(nodes), 'node')} {old} became {new}")


def set_attribute(editing: Editing, text: str) -> None:
    """`NODE.attribute=value`; `none` removes the attribute.

    Raises:
        RewriterError: the value has another type, or no node has the attribute that is to be removed.
    """
    place, value = pair(text, "NODE.attribute=value", lambda n: "." in n and _is_node(editing, n.rpartition(".")[0]))
    name, dot, attribute = place.rpartition(".")
    if not dot or not name or not attribute:
        raise RewriterError(f"{text!r} is not NODE.attribute=value")
    nodes = editing.parts.nodes_of([name])
    if value.lower() == "none" and not any(attribute in node.attrs for node in nodes):
        raise RewriterError(f"{name!r} has no attribute {attribute!r}; there is {_attributes(nodes)}")
    for node in nodes:
        editing.edits.set_attribute(node, attribute, _value(node, attribute, value))
    _settle(editing, nodes)
    editing.did.append(f"{counted(len(nodes), 'node')}: {attribute} = {value}")


def _attributes(nodes: list[gs.Node]) -> str:
    return ", ".join(dict.fromkeys(repr(name) for node in nodes for name in node.attrs)) or "none"


def _is_node(editing: Editing, name: str) -> bool:
    return name in editing.parts.nodes or name in editing.parts.tensors or name.startswith("op:") or "*" in name


def _value(node: gs.Node, attribute: str, text: str) -> Any:
    if text.lower() == "none":
        return None
    if text.startswith(FILE):
        return new_constant("", array(text, attribute, None))
    kind = schema_type(node.op, node.domain or "", attribute)
    before = node.attrs.get(attribute)
    value = literal(text)
    if kind in _LISTS:
        items = value if isinstance(value, list) else [literal(word) for word in text.split(",")]
        return [_converted(item, _LISTS[kind], text, f"a list of {_PLURALS[_LISTS[kind]]}", attribute) for item in items]
    if kind in _SINGLE or isinstance(before, (str, int, float)):
        wanted = _SINGLE.get(kind, type(before))
        return _converted(text if kind == A.STRING else value, wanted, text, _SINGULARS.get(wanted, wanted.__name__), attribute)
    if isinstance(before, Constant) and not isinstance(value, str):
        return new_constant("", np.asarray(value).astype(before.dtype))
    return value


def _converted(value: Any, kind: Any, text: str, what: str, attribute: str) -> Any:
    fits = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
    if not fits:
        raise RewriterError(f"{attribute!r} is {what}, but {text!r} is not")
    return kind(value)


def _settle(editing: Editing, changed: list[gs.Node]) -> None:
    """Ends a step after which other values are computed. Declares the new types of the tensors behind changed nodes, outputs of
    the model included.
    """
    editing.settle()
    editing.same = False
    index, facts = editing.index, editing.facts
    mend_stale_types(index, facts, [node for node in changed if node in index])
    for tensor in editing.graph.outputs:
        if not isinstance(tensor, Variable):
            continue
        dtype, shape = facts.declared(tensor)
        known = facts.fact(tensor).type
        if known.dtype is not None and known.shape is not None and not agrees(dtype, shape, known.dtype, known.shape):
            set_type(tensor, known)
    index.finish()
    editing.settle()  # the next edit derives its facts again


# Edits of constants: an input gets a value, an initializer becomes an input or gets another value.


def constant(editing: Editing, text: str) -> None:
    """`INPUT=VALUE`: the input becomes an initializer. Raises RewriterError if the value does not match the input."""
    graph = editing.graph
    by_name = {tensor.name: tensor for tensor in graph.inputs}
    name, value = pair(text, "INPUT=VALUE, as x=@x.npy or x=0.5", by_name.__contains__)
    if name not in by_name:
        raise RewriterError(f"there is no input {name!r}; there is {', '.join(map(repr, by_name)) or 'none'}")
    tensor = by_name[name]
    found = _fitting(tensor, value, tensor.shape)
    graph.inputs = [other for other in graph.inputs if other is not tensor]
    assert isinstance(tensor, Variable)
    initializer = new_constant(name, found)
    tensor.to_constant(initializer._values)
    tensor.infos = ()
    graph.initializers = [*graph.initializers, tensor]
    editing.same = False
    editing.did.append(f"constant  {shown(tensor)}")


def free(editing: Editing, text: str) -> None:
    """Turns an initializer into an input. Raises RewriterError if no initializer has this name."""
    graph = editing.graph
    tensor = editing.parts.tensor(text)
    if not isinstance(tensor, Constant):
        raise RewriterError(f"{text!r} is no initializer")
    graph.initializers = [other for other in graph.initializers if other is not tensor]
    tensor.to_variable(tensor.dtype, tensor.shape)
    graph.inputs = [*graph.inputs, tensor]
    editing.same = False
    editing.did.append(f"input  {shown(tensor)}")


def set_weight(editing: Editing, text: str) -> None:
    """`NAME=VALUE`: an initializer gets other values of the same type and shape. Raises RewriterError."""
    name, value = pair(text, "NAME=@FILE.npy", editing.parts.tensors.__contains__)
    tensor = editing.parts.tensor(name)
    if not isinstance(tensor, Constant):
        raise RewriterError(f"{name!r} is no initializer")
    found = _fitting(tensor, value, tensor.shape)
    tensor._values = new_constant(name, found)._values
    editing.same = False
    editing.did.append(f"weight  {shown(tensor)}")


def _fitting(tensor: gs.Tensor, text: str, shape: Any) -> np.ndarray[Any, Any]:
    """The value, if it has the type and shape of the tensor; a number fills the whole tensor."""
    number = elem_type(tensor)
    dtype = None if number is None else numpy_dtype(number)
    found = array(text, tensor.name, dtype)
    known = None if shape is None else list(shape)
    if not text.startswith("@") and found.ndim == 0 and known and all(isinstance(dim, int) for dim in known):
        found = np.full(known, found, found.dtype)
    if number is not None and dtype_number(found.dtype) != number:
        raise RewriterError(f"{tensor.name!r} is {gs_dtype(number)}, but the value is {found.dtype}; convert it first")
    if known is not None and (
        len(known) != found.ndim
        or any(isinstance(dim, int) and dim != size for dim, size in zip(known, found.shape, strict=True))
    ):
        raise RewriterError(f"{tensor.name!r} has the shape {known}, but the value has {list(found.shape)}")
    return found
