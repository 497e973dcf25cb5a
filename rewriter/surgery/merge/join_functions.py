"""Local functions of models that become one: equal ones are one, others of one name get another."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.graph.model import Model
from rewriter.graph.objects import Function
from rewriter.surgery.keep import FunctionKey, called, key_of, with_inner


def unite_functions(first: Model, second: Model) -> list[str]:
    """Adds the functions of a model to those of another one; names that had to change, as `local::F -> local::F_1`."""
    own, theirs = _functions(first), _functions(second)
    called_here, called_there = _calls(first), _calls(second)
    # What only one model defines is an operator of a runtime where the other one calls it.
    foreign = {key for key in own if key not in theirs and key in called_there}
    unequal = {key for key in theirs if key not in own and key in called_here}
    unequal |= {key for key in theirs if key in own and (not _equal(theirs[key], own[key]) or _calls_any(own[key], foreign))}
    _spread(unequal, theirs, own)
    taken = {*own, *theirs, *called_here, *called_there}
    notes = _rename(first, {key: _free_name(key, taken) for key in own if key in foreign})
    notes += _rename(second, {key: _free_name(key, taken) for key in theirs if key in unequal})
    first.graph.functions.extend(function for key, function in theirs.items() if key in unequal or key not in own)
    return notes


def _functions(model: Model) -> dict[FunctionKey, gs.Function]:
    return {key_of(function): function for function in model.graph.functions}


def _nodes(model: Model) -> Iterator[gs.Node]:
    """All nodes, those of functions and bodies included."""
    for nodes in (model.graph.nodes, *(function.nodes for function in model.graph.functions)):
        yield from with_inner(nodes)


def _calls(model: Model) -> set[FunctionKey]:
    return set(map(called, _nodes(model)))


def _calls_any(function: gs.Function, keys: set[FunctionKey]) -> bool:
    return any(called(node) in keys for node in with_inner(function.nodes))


def _rename(model: Model, names: dict[FunctionKey, str]) -> list[str]:
    """Gives functions other names, also where they are called; what was renamed, in words."""
    if names:
        for node in _nodes(model):
            node.op = names.get(called(node), node.op)
        for key, function in _functions(model).items():
            function.name = names.get(key, function.name)
    return [f"{key[0]}::{key[1]} -> {name}" for key, name in names.items()]


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
            if key in own and key not in unequal and _calls_any(function, unequal):
                unequal.add(key)
                grew = True


def _free_name(key: FunctionKey, taken: set[FunctionKey]) -> str:
    number = 1
    while (key[0], f"{key[1]}_{number}", key[2]) in taken:
        number += 1
    taken.add((key[0], f"{key[1]}_{number}", key[2]))
    return f"{key[1]}_{number}"
