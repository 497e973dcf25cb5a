"""New nodes and redirected tensors, wired into the graph."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.graph.objects import new_variable
from rewriter.language import ast
from rewriter.rewriting.opset_edits import import_domain
from rewriter.rewriting.prepare import NewNode
from rewriter.rewriting.transaction import Refused, Rewriting


def build(rewriting: Rewriting, statement: ast.Build, new: NewNode) -> gs.Tensor:
    """Makes a node; outputs that have the name of a matched output take over that tensor. The first output is the result."""
    operands: list[gs.Tensor] = []
    for operand, value in zip(statement.inputs, new.operands, strict=True):
        if isinstance(operand, ast.Ref) and operand.spread:
            operands.extend(rewriting.run(operand.name))
        else:
            operands.append(operand_tensor(rewriting, operand, value, new.op))
    while operands and not operands[-1].name:
        operands.pop()
    if new.domain and new.domain not in rewriting.scope.opsets:
        import_domain(rewriting.index, rewriting.edits, rewriting.scope, new.domain)
    outputs = [_output(rewriting, output, new.op) for output in statement.outputs] or [rewriting.fresh(new.op.lower())]
    node = rewriting.insert(new.op, new.domain, outputs[0].name, new.attributes, operands, outputs)
    for output, tensor in zip(statement.outputs, outputs, strict=False):
        if output.name:
            rewriting.made[output.name] = tensor
    if statement.label:
        rewriting.made[statement.label] = node
    return outputs[0]


def _output(rewriting: Rewriting, output: ast.Output, op: str) -> gs.Tensor:
    """The matched tensor that an output redefines, freed from the node that makes it now; else a new one."""
    old = rewriting.names.bound.get(output.name) if output.name else None
    if not isinstance(old, gs.Tensor):
        return rewriting.fresh(output.name or op.lower())
    rewriting.release(old)
    return old


def operand_tensor(rewriting: Rewriting, operand: Any, value: Any, op: str = "") -> gs.Tensor:
    """The tensor of an operand whose computed part is `value`; new constants are named after `op`."""
    if isinstance(operand, ast.Ref):
        return rewriting.tensor(operand.name)
    if isinstance(operand, ast.Absent):
        return new_variable("")
    if isinstance(operand, ast.Build):
        return build(rewriting, operand, value)
    array, dtype = value
    return rewriting.constant(array, dtype, op)


def redirect(rewriting: Rewriting, statement: ast.Redirect, value: Any) -> None:
    """Uses of the matched output take the target; an output of the graph keeps its name, by whichever way is possible.

    Raises Refused when nothing would change.
    """
    index, edits = rewriting.index, rewriting.edits
    target = operand_tensor(rewriting, statement.target, value)
    old = rewriting.names.bound[statement.output]
    if old is target:
        raise Refused("it redirects a tensor to itself")
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
    edits.set_outputs(maker, [old if made is target else made for made in maker.outputs])
    if isinstance(statement.target, ast.Ref):
        rewriting.made[statement.target.name] = old


def _pass_on(rewriting: Rewriting, old: gs.Tensor, target: gs.Tensor) -> None:
    """An output of the graph that is to be an input, a constant or another output needs a node that hands the value on."""
    maker = rewriting.index.producer(old)
    if maker is not None and maker.op == "Identity" and maker.inputs[0] is target:
        raise Refused("an output of the graph that equals an input, a constant or another output needs this node")
    rewriting.release(old)
    rewriting.insert("Identity", "", old.name, {}, [target], [old])
