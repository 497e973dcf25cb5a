"""New nodes and redirected tensors, wired into the graph."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import ABSENT
from rewriter.core.graph.objects import new_variable
from rewriter.core.language import ast
from rewriter.core.rewriting.model_edits import import_domain
from rewriter.core.rewriting.prepare import NewNode
from rewriter.core.rewriting.transaction import Refused, Rewriting


def build(rewriting: Rewriting, statement: ast.Build, new: NewNode) -> gs.Tensor:
    """Makes a node; outputs that have the name of a matched output, or of a run of them, take over what was matched. The
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
    if new.domain and new.domain not in rewriting.scope.opsets:
        import_domain(rewriting.index, rewriting.edits, rewriting.scope, new.domain)
    built = [(output, _outputs(rewriting, output, new.op)) for output in statement.outputs]
    outputs = [tensor for _, tensors in built for tensor in tensors] or [rewriting.fresh(new.op.lower())]
    node = rewriting.insert(new.op, new.domain, outputs[0].name, new.attributes, operands, outputs)
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
    """What a new node makes in the place of an input of the model, for all that read it, or of an output, for callers alone."""
    index, edits = rewriting.index, rewriting.edits
    if index.producer(old) is not None:
        if name not in rewriting.kept:
            rewriting.kept[name] = rewriting.fresh("before", old)
        inner = rewriting.kept[name]
        rewriting.release(old)
        edits.replace_uses(old, inner)
        edits.retyped[id(inner)] = inner  # so that the output is declared as what it becomes
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
    """Uses of the matched output take the target (computed: `value`); an output of the graph keeps its name, by whichever way
    is possible.

    Raises Refused when nothing would change.
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
