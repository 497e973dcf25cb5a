"""Local functions of models that become one: equal ones are one, others of one name get another."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.graph.model import Model
from rewriter.graph.objects import Function
from rewriter.surgery.keep import FunctionKey, called, key_of, with_inner


def unite_functions(first: Model, second: Model) -> list[str]:
    """Adds the functions of a model to those of another one; names that had to change, as `local::F -> local::F_1`."""
    own = {key_of(function): function for function in first.graph.functions}
    theirs = {key_of(function): function for function in second.graph.functions}
    unequal = {key for key, function in theirs.items() if key in own and not _equal(function, own[key])}
    _spread(unequal, theirs, own)
    renamed = {key: _free_name(key, {*own, *theirs}) for key in unequal}
    if renamed:
        for nodes in (second.graph.nodes, *(function.nodes for function in theirs.values())):
            for node in with_inner(nodes):
                if called(node) in renamed:
                    node.op = renamed[called(node)]
        for key, name in renamed.items():
            theirs[key].name = name
    first.graph.functions.extend(function for key, function in theirs.items() if key in unequal or key not in own)
    return [f"{key[0]}::{key[1]} -> {name}" for key, name in renamed.items()]


def _equal(one: gs.Function, other: gs.Function) -> bool:
    if not isinstance(one, Function) or not isinstance(other, Function):
        return False
    a, b = one.origin.message, other.origin.message
    return bool(a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True))


def _spread(unequal: set[FunctionKey], theirs: dict[FunctionKey, gs.Function], own: dict[FunctionKey, gs.Function]) -> None:
    """A function that calls one which is to be renamed is another one, too."""
    grew = True
    while grew:
        grew = False
        for key, function in theirs.items():
            if key in own and key not in unequal and any(called(node) in unequal for node in with_inner(function.nodes)):
                unequal.add(key)
                grew = True


def _free_name(key: FunctionKey, taken: set[FunctionKey]) -> str:
    number = 1
    while (key[0], f"{key[1]}_{number}", key[2]) in taken:
        number += 1
    taken.add((key[0], f"{key[1]}_{number}", key[2]))
    return f"{key[1]}_{number}"
