"""Applying a rewrite block to a match, as one transaction.

First everything is computed, while the graph is as it was matched. Then the new parts are built, wired and put in order, and
dead nodes are swept away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import label
from rewriter.core.conditions.rule_values import Failure, truth
from rewriter.core.graph.objects import bodies, new_node, new_variable, operator_key
from rewriter.core.graph.save import Writer
from rewriter.core.graph.values import new_constant
from rewriter.core.language import ast
from rewriter.core.language.schema import is_commutative
from rewriter.core.record import record
from rewriter.core.rewriting.build import (
    NOTHING,
    NewNode,
    apply_delete,
    apply_edit,
    build,
    computes,
    prepare,
    prepare_node,
    redirect,
)
from rewriter.core.rewriting.model_edits import add_output, set_model_field
from rewriter.core.rewriting.transaction import Refused, Rewriting
from rewriter.core.whole_model import repairs

# `each x in n.inputs if ... { x = Op(x) }`: new tensors replace some operands or outputs, for any number of them.
#
# This is a statement of its own, since a rule does not know how many operands and outputs a node has. A tensor in several
# positions is rewritten once.


@record(frozen=True, slots=True)
class _Chosen:
    """A tensor that passes the test, and the node that takes its place."""

    tensor: gs.Tensor
    new: NewNode


def prepare_each(rewriting: Rewriting, each: ast.Each) -> tuple[Any, Any]:
    """The computed parts for every tensor that passes the test. Raises Undecided if a test is unknown."""
    outer, chosen = rewriting.names, dict[int, _Chosen]()
    for tensor in _tensors(rewriting, each):
        if not tensor.name or id(tensor) in chosen:
            continue
        rewriting.names = outer.within(each.name, tensor)
        try:
            if each.test is None or truth(rewriting.value(each.test)):
                chosen[id(tensor)] = _Chosen(tensor, prepare_node(rewriting, each.value))
        finally:
            rewriting.names = outer
    return chosen, None


def apply_each(rewriting: Rewriting, each: ast.Each, value: Any, at: Any) -> None:
    """Builds the new nodes and hands their results to the node, to the readers of its outputs, or to the readers of the run."""
    outer, new_tensors = rewriting.names, dict[int, gs.Tensor]()
    old = {number: rewriting.fresh("before", one.tensor) for number, one in value.items()} if each.field == "outputs" else {}
    for number, one in value.items():
        rewriting.names = outer.within(each.name, one.tensor)
        if old:
            rewriting.kept[each.name] = old[number]
        try:
            new_tensors[number] = build(rewriting, each.value, one.new)
        finally:
            rewriting.names = outer
            rewriting.kept.pop(each.name, None)
            rewriting.new_values.pop(each.name, None)
    if old:
        return  # the new nodes make the tensors that the node made
    operands = _tensors(rewriting, each)
    if each.field is None:
        rewriting.new_values[each.base] = [new_tensors.get(id(tensor), tensor) for tensor in operands]
        return
    node = rewriting.node(each.base)
    for position, tensor in enumerate(operands):
        if id(tensor) in new_tensors:
            rewriting.edits.set_input(node, position, new_tensors[id(tensor)])


def _tensors(rewriting: Rewriting, each: ast.Each) -> list[gs.Tensor]:
    if each.field:
        node = rewriting.node(each.base)
        return list(node.inputs if each.field == "inputs" else node.outputs)
    return list(rewriting.new_values.get(each.base) or rewriting.run(each.base))


class Block:
    """A rewrite block, with the facts that are known of it before any match.

    Attributes:
        opset: the opset for which the block is written, None for all.
        steps: statements in their order, each with whether a part of it is computed first, and the function that performs it.
        computes: whether a part of any statement is computed first.
        reread: names that the block redefines and also reads. Their old values get names of their own.
    """

    __slots__ = ("computes", "opset", "reread", "steps")

    def __init__(self, block: ast.Rewrite) -> None:
        self.opset = block.opset
        self.steps = tuple((statement, computes(statement), _PERFORM[type(statement)]) for statement in block.statements)
        self.computes = any(computed for _, computed, _ in self.steps)
        redefined = {o.name for s in block.statements if isinstance(s, ast.Build) for o in s.outputs if o.name}
        self.reread = tuple(sorted(redefined.intersection(_read(block))))


def apply_block(rewriting: Rewriting, block: Block) -> None:
    """Builds and wires. Raises Failure or Refused; the caller rolls back."""
    if not block.computes:
        for statement, _, perform in block.steps:
            perform(rewriting, statement, None, None)
    else:
        _compute_and_perform(rewriting, block)
    _order(rewriting)
    rewriting.edits.sweep([*rewriting.matched, *rewriting.new_nodes])


def _compute_and_perform(rewriting: Rewriting, block: Block) -> None:
    prepared = [_prepared(rewriting, statement) if computed else NOTHING for statement, computed, _ in block.steps]
    for name in block.reread:
        if isinstance(found := rewriting.names.bound.get(name), gs.Tensor):
            is_input = rewriting.index.producer(found) is None  # an input stays an input
            rewriting.kept[name] = found if is_input else rewriting.fresh("before", found)
    for (statement, _, perform), (value, at) in zip(block.steps, prepared, strict=True):
        perform(rewriting, statement, value, at)


def _prepared(rewriting: Rewriting, statement: ast.Statement) -> tuple[Any, Any]:
    return prepare_each(rewriting, statement) if isinstance(statement, ast.Each) else prepare(rewriting, statement)


def _build(rewriting: Rewriting, statement: ast.Build, value: Any, at: Any) -> None:
    if not statement.outlined:
        build(rewriting, statement, value)
        return
    outline(rewriting, statement, value)


def _delete(rewriting: Rewriting, statement: ast.Delete, value: Any, at: Any) -> None:
    apply_delete(rewriting, statement, at)


def _mend(rewriting: Rewriting, statement: ast.Mend, value: Any, at: Any) -> None:
    repairs().mend(statement.fault, rewriting)


def _add_output(rewriting: Rewriting, statement: ast.AddOutput, value: Any, at: Any) -> None:
    add_output(rewriting, statement.name)


def _inline(rewriting: Rewriting, statement: ast.Inline, value: Any, at: Any) -> None:
    from rewriter.core.rewriting.inline import inline

    inline(rewriting, statement)


_PERFORM: Mapping[type, Callable[[Rewriting, Any, Any, Any], None]] = {
    ast.Build: _build,
    ast.Redirect: redirect,
    ast.Edit: apply_edit,
    ast.Delete: _delete,
    ast.Mend: _mend,
    ast.Inline: _inline,
    ast.Each: apply_each,
    ast.AddOutput: _add_output,
}


def _order(rewriting: Rewriting) -> None:
    """Makes every new edge lead forwards. Raises Refused if an edge would close a cycle."""
    index = rewriting.index
    for node in (*rewriting.new_nodes, *rewriting.edits.edited.values()):
        if node._scope is not None and not index.put_behind(node):
            raise Refused("it would close a cycle")
    for node in rewriting.new_nodes:
        if node._scope is not None and not index.put_before(node):
            raise Refused("it would close a cycle")


def _read(block: ast.Rewrite) -> list[str]:
    """Names that the operands of a block's new nodes and edits read."""
    found: list[str] = []
    waiting: list[Any] = list(block.statements)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Build):
            waiting.extend(item.inputs)
        elif isinstance(item, ast.Each) or (isinstance(item, ast.Edit) and item.place.field == "inputs"):
            waiting.append(item.value)
        elif isinstance(item, ast.Ref | ast.Name):
            found.append(item.name if isinstance(item, ast.Ref) else item.id)
    return found


# `outline y = acme.Gelu(x)`: the nodes that make `y` of `x` become the body of a local function, and a call takes their place.
#
# `outline` is the counterpart of `inline`. The body consists of matched nodes and of nodes that the block has made before. So a
# rule wraps either the nodes that it finds, or new ones that it writes. A function is defined once: equal bodies call the same
# function. If another function has the name already, the new function gets a name of its own.

LEAST_IR_VERSION = 8
"""The first format that has local functions."""

_PLAIN_INITIALIZERS = 4
"""The first format whose initializers are constants unless they are inputs, too: raising an older one would change them."""


def outline(rewriting: Rewriting, statement: ast.Build, new: NewNode) -> None:
    """Raises Refused if the body needs a tensor that is no operand, or if the model cannot have the function."""
    operands = [rewriting.tensor(ref.name) for ref in statement.inputs if isinstance(ref, ast.Ref)]
    results = [_output_tensor(rewriting, output.name or "") for output in statement.outputs]
    _check_place(rewriting, new)
    body = _body(rewriting, operands, results)
    formals = [(ref.name, tensor) for ref, tensor in zip(statement.inputs, operands, strict=True) if isinstance(ref, ast.Ref)]
    names = [output.name or "" for output in statement.outputs]
    function = _Copier(formals, list(zip(names, results, strict=True))).function(new, body, rewriting.scope.opsets)
    name = _defined(rewriting, function)
    build(rewriting, statement, NewNode(name, new.domain, {}, new.operands))


def _output_tensor(rewriting: Rewriting, name: str) -> gs.Tensor:
    """The tensor that the function returns: the block's new tensor of this name, else the matched one."""
    found = rewriting.new_values.get(name, rewriting.names.bound.get(name))
    if not isinstance(found, gs.Tensor) or rewriting.index.producer(found) is None:
        raise Failure(f"no node makes `{name}`")
    return found


def _check_place(rewriting: Rewriting, new: NewNode) -> None:
    """Raises Refused if a function would call itself, or if the model's format has no functions."""
    scope = rewriting.scope
    while scope.parent is not None:
        scope = scope.parent
    if scope.is_function and scope.graph.domain == new.domain and _is_name(new.op, scope.graph.name):
        raise Refused(f"it is in the function {scope.graph.name} itself")
    version = rewriting.index.graph.ir_version
    if version is not None and version < LEAST_IR_VERSION:
        if version < _PLAIN_INITIALIZERS:
            raise Refused(f"a model of ir_version {version} has no local functions")
        set_model_field(rewriting, "ir_version", None, LEAST_IR_VERSION)


def _body(rewriting: Rewriting, operands: Sequence[gs.Tensor], results: Sequence[gs.Tensor]) -> list[gs.Node]:
    """The matched or new nodes that make the results of the operands: each behind those that it reads, in the order of its
    operands, which is the same wherever the nodes stand.
    """
    outside = set(map(id, operands)) - set(map(id, results))
    own = {id(node) for node in (*rewriting.matched, *rewriting.new_nodes)}
    found: dict[int, gs.Node] = {}
    waiting: list[gs.Tensor | gs.Node] = list(reversed(results))
    while waiting:
        part = waiting.pop()
        if isinstance(part, gs.Node):
            found.setdefault(id(part), part)
        elif part.name and id(part) not in outside:
            maker = _maker(rewriting, part, own)
            if maker is not None and id(maker) not in found:
                waiting += [maker, *reversed(maker.inputs)]
    return list(found.values())


def _maker(rewriting: Rewriting, tensor: gs.Tensor, own: set[int]) -> gs.Node | None:
    """The node that makes a tensor of the body; None for a constant. Raises Refused for any other tensor."""
    maker = rewriting.index.producer(tensor)
    if maker is None and isinstance(tensor, gs.Constant):
        return None
    if maker is None or (id(maker) not in own and maker.op != "Constant"):
        raise Refused(f"the body reads {label(tensor)}, which is no operand of the function")
    if any(True for _ in bodies(maker)):
        raise Refused(f"{maker.op} contains a subgraph, which is not moved into a function")
    if any(isinstance(value, gs.Node.AttributeRef) for value in maker.attrs.values()):
        raise Refused(f"{maker.op} has an attribute of the function around it")
    return maker


class _Copier:
    """Writes the nodes of a match again, by names that are the same for all matches alike."""

    def __init__(self, formals: Sequence[tuple[str, gs.Tensor]], results: Sequence[tuple[str, gs.Tensor]]) -> None:
        self.inputs = [new_variable(name) for name, _ in formals]
        self.tensors = {id(tensor): new for (_, tensor), new in zip(formals, self.inputs, strict=True) if tensor.name}
        self.outputs = [
            new_variable(name if name not in {formal for formal, _ in formals} else f"{name}_out") for name, _ in results
        ]
        for (_, tensor), new in zip(results, self.outputs, strict=True):
            self.tensors[id(tensor)] = new
        self.taken = {tensor.name for tensor in (*self.inputs, *self.outputs)}

    def function(self, new: NewNode, nodes: Sequence[gs.Node], opsets: dict[str, int]) -> gs.Function:
        copies = [self._copy(node, number) for number, node in enumerate(nodes)]
        domains = sorted({operator_key(node)[0] for node in nodes})
        imports = [onnx.OperatorSetIdProto(domain=domain, version=opsets.get(domain, 1)) for domain in domains]
        function = gs.Function(
            new.op, new.domain, copies, self.inputs, self.outputs, "", opsets.get("", 1), imports, functions=[], attrs={}
        )
        function.overload = ""
        return function

    def _copy(self, node: gs.Node, number: int) -> gs.Node:
        read = list(node.inputs)
        if len(read) == 2 and is_commutative(node.op, node.domain or ""):
            read.sort(key=self._rank)  # so that both orders are one function
        operands = [self._tensor(tensor, f"{node.op.lower()}_{number}_{at}") for at, tensor in enumerate(read)]
        results = [self._tensor(tensor, f"{node.op.lower()}_{number}_out{at}") for at, tensor in enumerate(node.outputs)]
        name, overload = f"{node.op.lower()}_{number}", getattr(node, "overload", "")
        return new_node(node.op, node.domain, name, dict(node.attrs), operands, results, overload)

    def _rank(self, tensor: gs.Tensor) -> tuple[bool, str]:
        """Operands and results by their names, then constants."""
        known = self.tensors.get(id(tensor))
        return known is None, known.name if known is not None else ""

    def _tensor(self, tensor: gs.Tensor, name: str) -> gs.Tensor:
        if not tensor.name:
            return new_variable("")
        if id(tensor) not in self.tensors:
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            constant = isinstance(tensor, gs.Constant)
            self.tensors[id(tensor)] = new_constant(name, tensor.values) if constant else new_variable(name)
        return self.tensors[id(tensor)]


def _defined(rewriting: Rewriting, function: gs.Function) -> str:
    """Adds the function to the model, unless it is there. Returns its name."""
    graph, by_operator = rewriting.index.graph, rewriting.index.by_operator
    before: list[Any] = graph.functions
    alike = [one for one in before if one.domain == function.domain and _is_name(function.name, one.name)]
    said = function.said = _said(function)
    known = next((one for one in alike if _said(one) == said and not one.__dict__.get("overload")), None)
    if known is not None:
        return str(known.name)
    base, number, taken = function.name, len(alike), {one.name for one in alike}
    # Of another operator of the model, which a runtime knows by this name, it may not take the name either.
    while function.name in taken or by_operator.of((function.domain, function.name)):
        number += 1
        function.name = f"{base}_{max(number, 2)}"
    called = f"{function.domain}.{function.name}"
    rewriting.edits.declare("function", called, None, called)
    rewriting.edits.later(setattr, graph, "functions", graph.functions)
    graph.functions = [*before, function]
    return str(function.name)


def _is_name(base: str, name: str) -> bool:
    """Whether a function has the name in the rule, or this name with a number."""
    return name == base or (name.startswith(f"{base}_") and name[len(base) + 1 :].isdecimal())


def _said(function: gs.Function) -> bytes:
    """The content of a function except its name, for loaded and for new ones. It is cached for functions of this module."""
    said = function.__dict__.get("said")
    if said is None:
        message = Writer(None, False, LEAST_IR_VERSION).function(function)
        whole = onnx.FunctionProto.FromString(message.SerializeToString())
        whole.ClearField("name")
        said = whole.SerializeToString(deterministic=True)
    return bytes(said)
