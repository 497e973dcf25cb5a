"""All that a rule may ask about the graph it runs on: the world of conditions that has a graph (see `evaluate`), and the
functions of rule expressions that ask it: about the graph, the contents of its tensors, the framework's own file.

`evaluate` calls the functions by the names of `language.functions`. Each asks the context of the rule, which records the
questions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions import value_functions
from rewriter.core.conditions.evaluate import BODIES, Implementation, prepared
from rewriter.core.conditions.recorded_graph import RecordedGraph, label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure, Symbol, has_unknown
from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import node_texts
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import form_of, operator_key
from rewriter.core.graph.values import constant_array
from rewriter.core.language import schema
from rewriter.core.language.functions import FUNCTIONS as DECLARED
from rewriter.core.language.operator_traits import SPREADING, having, of_form, traits
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import record

# Whether the nodes of a model would mean the same if it imported another version of a domain.


def obstacle(context: RecordedGraph, domain: str, version: int, apart: Container[int] = ()) -> str:
    """Why the model, as it is, cannot import another version of a domain; "" if it can. `apart`: ids of nodes to skip."""
    index = context.index
    was = index.scopes[0].opsets.get(domain, version)
    if index.graph.functions:
        return "the functions of the model are written for its opset"
    for scope in index.scopes:
        for node in index.nodes_of(scope) if was != version else ():
            if operator_key(node)[0] == domain and id(node) not in apart and _changes(context, node, domain, was, version):
                what = f"{domain or 'opset'} {was} to {version}"
                return f"from {what}, {node.op} {node_name(node)!r} would mean something else"
    return ""


def _changes(context: RecordedGraph, node: gs.Node, domain: str, was: int, version: int) -> bool:
    """Whether a node that the model's version has would be another one, or none, in the other version."""
    if schema.schema(node.op, domain, was) is None:
        return False
    kept = node_keeps_meaning(node, domain, was, version)
    return not kept or (bool(schema.history(node.op, domain)) and not takes_types(context, node, domain, version))


def node_keeps_meaning(node: gs.Node, domain: str, first: int, then: int, *, doubtful: bool = False) -> bool:
    """Whether a node of one version of its domain means the same in another one; element types are not compared.

    `doubtful` is the answer in cases of doubt: see `keeps_meaning`.
    """
    from rewriter.core.language.meaning import keeps_meaning

    return keeps_meaning(node.op, domain, form_of(node), lambda name: node.attrs.get(name), first, then, doubtful=doubtful)


def has_form(node: gs.Node, domain: str, version: int) -> bool:
    """Whether a version has the operator with the node's attributes and operands; element types are not compared."""
    from rewriter.core.language.meaning import fits

    return fits(node.op, domain, version, form_of(node))


def takes_types(
    context: RecordedGraph, node: gs.Node, domain: str, version: int, among: Container[int] = frozenset(DTYPES.values())
) -> bool:
    """Whether a version has the operator for the known element types of this node that are among the passed ones."""
    from rewriter.core.language.meaning import takes

    return all(
        dtype not in among or takes(node.op, domain, version, is_output, position, dtype)
        for is_output, tensors in ((False, node.inputs), (True, node.outputs))
        for position, tensor in enumerate(tensors)
        if tensor.name and (dtype := context.facts.dtype(tensor)) is not None
    )


# Functions of expressions that ask the graph or the model.


def _shape(context: RecordedGraph, part: Any) -> Any:
    return context.shape(part) if isinstance(part, gs.Tensor) else list(np.shape(part))


def _dim(context: RecordedGraph, part: Any, at: int) -> Any:
    found = _shape(context, part)
    if found is UNKNOWN:
        return found
    if not -len(found) <= at < len(found):
        raise Failure(f"a tensor of rank {len(found)} has no dimension {at}")
    dim = found[at]
    return context.doubt(f"dimension {at} of {label(part)} is unknown") if dim is UNKNOWN else dim


def _size(context: RecordedGraph, part: Any, at: Any = None) -> Any:
    """Product of dimensions; 1 for none. A dimension 0 makes the product 0, even if others are unknown."""
    found = _shape(context, part)
    if found is UNKNOWN:
        return found
    dims = found if at is None else found[at] if isinstance(at, slice) else [found[at]]
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) == len(dims) or 0 in numbers:
        return int(np.prod(numbers, dtype=object))
    symbols = [dim for dim in dims if dim is UNKNOWN or isinstance(dim, Symbol)]
    if len(symbols) == 1 and isinstance(symbols[0], Symbol) and all(dim == 1 for dim in numbers):
        return symbols[0]
    return context.doubt(f"a dimension of {label(part)} is unknown")


def _is_declared(context: RecordedGraph, tensor: gs.Tensor, dtype: int) -> bool:
    context.traced[id(tensor)] = tensor
    return context.facts.declared(tensor)[0] == dtype


def _declared_rank(context: RecordedGraph, tensor: gs.Tensor) -> Any:
    shape = context.declared(tensor)[1]
    return shape if shape is UNKNOWN else len(shape)


def _present(context: RecordedGraph, value: Any) -> Any:
    return value if value is UNKNOWN else not (value is ABSENT or (isinstance(value, gs.Tensor) and not value.name))


def _producer(context: RecordedGraph, tensor: gs.Tensor) -> str:
    found = context.producer(tensor)
    return found.op if found is not None else ""


LENGTHS = of_form("shape", "size")
SIGNLESS = having("keeps_sign") | SPREADING | LENGTHS
"""Operators whose results are not negative if their data are not."""

SIGN_TENSORS = 64
"""How many tensors are looked at for one answer."""


def _never_negative(context: RecordedGraph, tensor: gs.Tensor) -> bool:
    """Whether a tensor is made of lengths and of constants that are not negative; False also if that is not known."""
    pending, seen = [tensor], {id(tensor)}
    while pending:
        part = pending.pop()
        if context.is_constant(part):
            array = context.array(part)
            if array.dtype.kind not in "biuf" or not np.all(array >= 0):
                return False
            continue
        node = context.producer(part)
        if node is None or node.domain or node.op not in SIGNLESS:
            return False
        known = traits(node.op)
        data = [] if node.op in LENGTHS else [one for position, one in enumerate(node.inputs) if known.is_data(position)]
        new = [operand for operand in data if operand.name and id(operand) not in seen]
        seen.update(map(id, new))
        pending += new
        if len(seen) > SIGN_TENSORS:
            return False
    return True


def _in_node_order(context: RecordedGraph, names: list[str]) -> list[str]:
    positions = {
        tensor.name: number
        for number, node in enumerate(context.index.members(context.index.scopes[0]))
        for tensor in node.outputs
    }
    return sorted(names, key=lambda name: positions.get(name, -1))


def _metadata(context: RecordedGraph, node: gs.Node, key: str) -> str:
    return node_texts(node).metadata.get(key, "")


def _model_metadata(context: RecordedGraph, key: str) -> str:
    found: dict[str, str] = getattr(context.index.graph, "model_metadata", None) or {}
    return found.get(key, "")


def _maybe(context: RecordedGraph, condition: Any) -> Any:
    return True if condition is UNKNOWN else condition


def _known(context: RecordedGraph, value: Any) -> bool:
    return value is not UNKNOWN and not (isinstance(value, list) and has_unknown(value))


def _known_but_one(context: RecordedGraph, value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    return sum(not isinstance(item, int) for item in value) <= 1


def _reshape_target(context: RecordedGraph, tensor: gs.Tensor, value: list[Any]) -> Any:
    """A constant for Reshape (allowzero=0) that means what the computed shape means.

    A dimension known by name that the input has at the same place becomes 0, which copies it. One other unknown item becomes
    -1. A target dimension 0 can be kept only if the input has 0 at the same place. A target with a dimension 0 cannot also have
    a -1.
    """
    context.see(tensor)
    dims = context.facts.shape(tensor) or ()
    target = [_kept(item, dims[at] if at < len(dims) else None) for at, item in enumerate(value)]
    unknown = target.count(-1)
    if unknown > 1:
        return context.doubt("more than one item of the shape is unknown")
    empty = [at for at, item in enumerate(value) if item == 0 and isinstance(item, int)]
    if empty and (unknown or any(at >= len(dims) or dims[at] != 0 for at in empty)):
        return context.doubt("a shape with a dimension of length 0 has no constant form here")
    return target


def _kept(item: Any, dim: Any) -> int:
    """An item of a shape as Reshape takes it: 0 to copy the input's dimension, -1 to infer it."""
    if isinstance(item, Symbol):
        return 0 if isinstance(dim, str) and dim == str(item) else -1
    return item if isinstance(item, int) else -1


def _broadcast(context: RecordedGraph, left: list[Any], right: list[Any]) -> Any:
    result: list[Any] = []
    width = max(len(left), len(right))
    for one, other in zip([1] * (width - len(left)) + left, [1] * (width - len(right)) + right, strict=True):
        if one == 1 or (isinstance(one, Symbol) and isinstance(other, Symbol) and str(one) == str(other)):
            result.append(other)
        elif other == 1:
            result.append(one)
        elif isinstance(one, int) and isinstance(other, int):
            if one != other:
                raise Failure(f"{one} and {other} do not broadcast")
            result.append(one)
        else:
            result.append(one if isinstance(one, int) else other if isinstance(other, int) else UNKNOWN)
    return result


def _can_broadcast(context: RecordedGraph, left: list[Any], right: list[Any]) -> Any:
    unknown = False
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if isinstance(one, int) and isinstance(other, int):
            if one != other and 1 not in (one, other):
                return False
        elif 1 not in (one, other) and not (isinstance(one, Symbol) and isinstance(other, Symbol) and str(one) == str(other)):
            unknown = True
    return UNKNOWN if unknown else True


def _default(context: RecordedGraph, value: Any, other: Any) -> Any:
    absent = value is ABSENT or (isinstance(value, gs.Tensor) and not value.name)
    return other if absent else value


FACT_BODIES: dict[str, Callable[..., Any]] = {
    "dim": _dim,
    "size": _size,
    "declared_dtype": lambda context, tensor: context.declared(tensor)[0],
    "is_declared": _is_declared,
    "declared_rank": _declared_rank,
    "declared_shape": lambda context, tensor: context.declared(tensor)[1],
    "value": lambda context, tensor: context.value(tensor),
    "is_const": lambda context, tensor: context.is_constant(tensor),
    "present": _present,
    "matched": lambda context, node: node is not ABSENT,
    "uses": RecordedGraph.use_count,
    "users": lambda context, tensor: [node.op for node in context.uses(tensor)],
    "producer": _producer,
    "never_negative": _never_negative,
    "is_output": lambda context, tensor: context.index.output_of(tensor),
    "is_input": lambda context, tensor: context.index.input_of(tensor),
    "name": lambda context, part: part.name,
    "op": lambda context, node: node.op,
    "domain": lambda context, node: node.domain or "",
    "has": lambda context, node, attribute: attribute in node.attrs,
    "n_inputs": lambda context, node: len(node.inputs),
    "n_outputs": lambda context, node: len(node.outputs),
    "metadata": _metadata,
    "model_metadata": _model_metadata,
    "in_node_order": _in_node_order,
    "keeps_meaning": lambda context, version, domain="": not obstacle(context, domain, version),
    "exporter": lambda context: context.exporter.name,
    "exporter_version": lambda context: context.exporter.version,
    "ir_version": lambda context: context.ir_version,
    "known": _known,
    "known_but_one": _known_but_one,
    "maybe": _maybe,
    "reshape_target": _reshape_target,
    "broadcast": _broadcast,
    "can_broadcast": _can_broadcast,
    "default": _default,
}


# Functions of expressions about the contents of a tensor, for any producer and any shape.
#
# A pattern's `const w` gives the contents of the operands that it names. These functions work for any matched tensor.

_LONGEST_CHAIN = 64


def _constant(context: RecordedGraph, tensor: gs.Tensor) -> Any:
    if not context.is_constant(tensor):
        return context.doubt(f"{label(tensor)} is no constant")
    return context.array(tensor)


def _computed(context: RecordedGraph, tensor: gs.Tensor) -> Any:
    if context.is_constant(tensor):
        return context.array(tensor)
    node = context.producer(tensor)
    if node is None or tensor is not node.outputs[0]:
        return context.doubt(f"{label(tensor)} is not the first output of a node")
    for operand in node.inputs:
        if operand.name and not context.is_constant(operand):
            return context.doubt(f"{label(operand)} is no constant")
    found = context.facts.computed(node)
    return context.doubt(f"{label(node)} is not computed before the model runs") if found is None else found


def _fill(context: RecordedGraph, tensor: gs.Tensor) -> Any:
    for _ in range(_LONGEST_CHAIN):
        node = context.producer(tensor)
        if node is None or node.op == "Constant":
            break
        if (node.domain or "") not in ("", "ai.onnx"):
            return context.doubt(f"{label(node)} is no operator of ONNX")
        if node.op == "ConstantOfShape":
            return _only_item(context, node)
        if node.op not in SPREADING or not node.inputs:
            break
        tensor = node.inputs[0]
    if not context.is_constant(tensor):
        return context.doubt(f"{label(tensor)} is no constant")
    return _number(context, context.array(tensor), label(tensor))


def _only_item(context: RecordedGraph, node: gs.Node) -> Any:
    value = node.attrs.get("value")
    if value is None:
        return 0.0
    if not isinstance(value, gs.Constant):
        return context.doubt(f"{label(node)} holds no tensor")
    try:
        return _number(context, constant_array(value), label(node))
    except RewriterError as error:
        return context.doubt(str(error))


def _number(context: RecordedGraph, array: np.ndarray[Any, Any], what: str) -> Any:
    flat = array.reshape(-1)
    if not flat.size or flat.dtype.kind not in "biuf" or not (flat == flat[0]).all():
        return context.doubt(f"{what} does not hold the same value everywhere")
    return flat[0].item()


def _expand_target(context: RecordedGraph, tensor: gs.Tensor, value: list[Any]) -> Any:
    """A constant for Expand that means what the computed shape means: a length that the input has there already becomes 1."""
    context.see(tensor)
    shape = context.facts.shape(tensor)
    if shape is None:
        return context.doubt(f"rank of {label(tensor)} is unknown")
    before = len(value) - len(shape)
    target: list[Any] = []
    for at, item in enumerate(value):
        dim = shape[at - before] if at >= before else 1
        if isinstance(item, int):
            target.append(item)
        elif isinstance(item, Symbol) and isinstance(dim, str) and dim == str(item):
            target.append(1)
        else:
            return context.doubt(f"item {at} of the shape is unknown") if item is UNKNOWN else UNKNOWN
    return target


CONTENTS_BODIES: dict[str, Callable[..., Any]] = {
    "computed": _computed,
    "constant": _constant,
    "expand_target": _expand_target,
    "fill": _fill,
}


# Functions of expressions that read the framework's own file. The result is unknown if the file or the fact is missing.


def _own_key(context: RecordedGraph, node: gs.Node) -> Any:
    """The name of the framework node that became this node, as its operator shows; UNKNOWN if it only took over its name.

    After a rewrite, a node may have the name of another one: if a scale is folded into a BatchNormalization, the result is
    named after the multiplication. For an attribute of the node, the multiplication would give the default.
    """
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    from rewriter.core.framework.exports import may_become

    known = context.source.nodes[key]
    if context.source.framework and not may_become(known, node.op):
        operator = known.operator or "without an operator"
        return context.doubt(f"{label(node)} is {operator} in the source file, which is not exported to {node.op}")
    return key


def _source(context: RecordedGraph, node: gs.Node, attribute: str, like: Any = ABSENT) -> Any:
    key = _own_key(context, node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    from rewriter.core.framework.source_info import Missing

    found = context.source.attribute(key, attribute, None if like is ABSENT else like)
    if found is Missing.ATTRIBUTE or found is None:
        return like
    if isinstance(found, Missing):
        return context.doubt(f"`{attribute}` of {label(node)} in {context.source.path or 'the source'}: {found.value}")
    return list(found) if isinstance(found, tuple) else found


def _source_op(context: RecordedGraph, node: gs.Node) -> Any:
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    operator = context.source.nodes[key].operator
    return operator or context.doubt(f"the source file has no operator for {label(node)}")


def _source_edge(context: RecordedGraph, node: gs.Node, at: int) -> Any:
    key = _own_key(context, node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    found = context.source.source_input(key, at)
    return context.doubt(f"the source file has no input {at} for {label(node)}") if found is None else found


def _source_input(context: RecordedGraph, node: gs.Node, at: int) -> Any:
    edge = _source_edge(context, node, at)
    return edge if edge is UNKNOWN else edge[0]


def _source_index(context: RecordedGraph, node: gs.Node, at: int) -> Any:
    edge = _source_edge(context, node, at)
    return edge if edge is UNKNOWN else edge[1]


def _source_is_output(context: RecordedGraph, node: gs.Node) -> Any:
    key = context.source_key(node)
    if key is UNKNOWN or context.source is None:
        return UNKNOWN
    if not context.source.heads:
        return context.doubt("the source file does not list the graph's outputs")
    return any(name == key for name, _ in context.source.heads)


def _source_has(context: RecordedGraph, node: gs.Node) -> bool:
    return context.source is not None and context.source.node_for(node.name, [t.name for t in node.outputs]) is not None


def _source_outputs(context: RecordedGraph) -> Any:
    """Names of the tensors that stand for the heads of the framework's graph, in its order; UNKNOWN when one is not found."""
    if context.source is None or not context.source.heads:
        return context.doubt("the source file does not list the graph's outputs")
    tensors_by_name = context.index.made_in(context.index.scopes[0])
    found = []
    for key, index in context.source.heads:
        several = [f"{key}{index}", f"{key}_output{index}"] if context.source.output_count(key) > 1 else []
        name = next((name for name in (*several, *([key] if index == 0 else [])) if name in tensors_by_name), None)
        if name is None:
            return context.doubt(f"no tensor is output {index} of {key!r} in the source file")
        found.append(name)
    return found


def _source_nodes(context: RecordedGraph) -> Any:
    if context.source is None:
        return context.doubt("the model has no source file")
    return list(context.source.nodes)


SOURCE_BODIES: dict[str, Callable[..., Any]] = {
    "source": _source,
    "source_op": _source_op,
    "source_input": _source_input,
    "source_index": _source_index,
    "source_is_output": _source_is_output,
    "source_outputs": _source_outputs,
    "source_nodes": _source_nodes,
    "source_has": _source_has,
}


_PAD = "1"  # a dimension of length 1 that has no letter


@record(frozen=True, slots=True)
class Equation:
    """Letters of the operands and of the output, in their order."""

    operands: tuple[str, ...]
    output: str

    def layout(self, position: int) -> str:
        """Letters of an operand in the order for MatMul, `_PAD` for a missing one; a single operand keeps its order."""
        if len(self.operands) == 1:
            return _PAD + self.operands[0]
        batch, inner, rows, columns = self._roles()
        other = columns if position == 0 else rows
        shared = batch + inner[1:] + rows[:-1] + columns[:-1]
        row, depth, column = (letters[-1:] or _PAD for letters in (rows, inner[:1], columns))
        tail = row + depth if position == 0 else depth + column
        return _PAD + "".join(_PAD if letter in other else letter for letter in shared) + tail

    def product(self) -> str:
        """Letters of the result of MatMul; for a single operand, its own letters."""
        if len(self.operands) == 1:
            return self.layout(0)
        batch, inner, rows, columns = self._roles()
        return _PAD + batch + inner[1:] + rows[:-1] + columns[:-1] + (rows[-1:] or _PAD) + (columns[-1:] or _PAD)

    def _roles(self) -> tuple[str, str, str, str]:
        """(batch, inner, rows, columns). The last row and column are kept letters if there are any."""
        first, second = self.operands
        batch = "".join(letter for letter in first if letter in second and letter in self.output)
        inner = "".join(letter for letter in first if letter in second and letter not in self.output)
        alone = ("".join(sorted(set(one) - set(other), key=one.index)) for one, other in ((first, second), (second, first)))
        rows, columns = ("".join(sorted(letters, key=lambda letter: letter in self.output)) for letters in alone)
        return batch, inner, rows, columns


def read(text: str) -> Equation | None:
    """The equation, or None if it is not a product of two matrices: an ellipsis, a letter twice in one operand, three
    operands.
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    operands = tuple(left.split(","))
    letters = "".join(operands)
    output = right if arrow else "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    known = all(part.isalpha() and len(set(part)) == len(part) for part in operands)
    if not known or len(operands) > 2 or len(set(output)) != len(output) or set(output) - set(letters):
        return None
    return Equation(operands, output)


def _equation(text: str) -> Equation:
    found = read(text)
    if found is None:
        raise Failure(f"einsum equation {text!r} is not of the simple kind; ask einsum_simple first")
    return found


def _perm(context: RecordedGraph, text: str, position: int) -> list[int]:
    equation = _equation(text)
    return [equation.operands[position].index(letter) for letter in equation.layout(position) if letter != _PAD]


def _unsqueezed(context: RecordedGraph, text: str, position: int) -> list[int]:
    return [at for at, letter in enumerate(_equation(text).layout(position)) if letter == _PAD]


def _summed(context: RecordedGraph, text: str) -> list[int]:
    equation = _equation(text)
    return [at for at, letter in enumerate(equation.product()) if letter not in equation.output]


def _output(context: RecordedGraph, text: str) -> list[int]:
    equation = _equation(text)
    left = [letter for letter in equation.product() if letter in equation.output]
    return [left.index(letter) for letter in equation.output]


EINSUM_BODIES: dict[str, Callable[..., Any]] = {
    "einsum_simple": lambda context, text: read(text) is not None,
    "einsum_perm": _perm,
    "einsum_unsqueezed": _unsqueezed,
    "einsum_summed": _summed,
    "einsum_output": _output,
}


_COMPUTING: Mapping[str, Implementation] = {
    **CONTENTS_BODIES,
    **value_functions.LIST_BODIES,
    **value_functions.ARRAY_BODIES,
}
"""Functions in which NumPy may divide by zero or overflow; its warnings are switched off there."""

_BODIES: Mapping[str, Implementation] = {
    **BODIES,
    **FACT_BODIES,
    **SOURCE_BODIES,
    **EINSUM_BODIES,
    **{name: np.errstate(all="ignore")(body) for name, body in _COMPUTING.items()},
}
FUNCTIONS: Mapping[str, Implementation] = {name: prepared(function, _BODIES[name]) for name, function in DECLARED.items()}
"""All functions of `language.functions`."""


class Context(RecordedGraph):
    """One model during one run, for the evaluation of conditions."""

    functions = FUNCTIONS
    tensor_class = gs.Tensor
    node_class = gs.Node
    is_coarse = False

    def without(self, function: str) -> Any:
        raise Failure(f"unknown function `{function}`")

    def is_same(self, one: gs.Tensor, other: gs.Tensor) -> bool:
        return one is other

    def tensor_name(self, tensor: gs.Tensor) -> str:
        return str(tensor.name)
