"""Edits of the types of inputs; the whole graph behind the inputs follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import refresh
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.objects import new_node
from rewriter.core.graph.tidy import replace_dims
from rewriter.core.graph.values import Variable, elem_type
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.onnxfile.tensors import Dim, clean, gs_dtype
from rewriter.core.rewriting.model_edits import declare_anew
from rewriter.core.whole_model import DoesNotFlow
from rewriter.repairs.dim_follow.follow import DimensionWalk, SizeWalk, named_dimensions
from rewriter.workbench.surgery.editing import Editing, pair

Shapes = dict[str, list[Dim]]
_OPEN = "?"


def shapes(editing: Editing, texts: Sequence[str]) -> None:
    """`INPUT:DIM,DIM,...` for one or several inputs at once. Raises RewriterError, which names the node that is in the way."""
    wanted: Shapes = {}
    for text in texts:
        name, colon, dims = text.rpartition(":")
        if not colon:
            raise RewriterError(f"{text!r} is not INPUT:DIMENSIONS, as x:N,3,H,W")
        wanted[name] = [_dim(word.strip(), text) for word in dims.strip("[]").split(",") if word.strip()]
    _reshape(editing, wanted)
    editing.did += [f"shape  {name} [{','.join(map(shown_dim, dims))}]" for name, dims in wanted.items()]


def batch(editing: Editing, text: str) -> None:
    """A number or a name for the first dimension of all inputs that share it with the first input. Errors as for `shapes`."""
    dim = _dim(text.strip(), text.strip())
    if dim == 0:
        raise RewriterError("a batch of 0 has no data; write a number from 1 on, a name, or ?")
    known = {tensor.name: clean(tensor.shape) for tensor in editing.graph.inputs}
    shaped = [shape for shape in known.values() if shape]
    if not shaped:
        raise RewriterError("no input declares a first dimension; declare it with --shape")
    first = shaped[0][0]
    wanted = {name: [dim, *shape[1:]] for name, shape in known.items() if shape and shape[0] == first}
    _reshape(editing, wanted)
    editing.did.append(f"batch  {shown_dim(first)} -> {shown_dim(dim)} in {', '.join(wanted)}")


def dtype(editing: Editing, text: str) -> None:
    """`NAME=TYPE`: an input or output gets another element type; a Cast connects it with the rest of the model.

    Raises:
        RewriterError: the name is no input or output, or is both, or there is no such type.
    """
    graph = editing.graph
    ports = {tensor.name: tensor for tensor in (*graph.outputs, *graph.inputs)}
    name, kind = pair(text, "NAME=TYPE, as x=uint8", ports.__contains__)
    numbers = {known: number for number, known in DTYPE_NAMES.items()}
    if name not in ports or kind not in numbers:
        what = f"there is no input or output {name!r}" if name not in ports else f"there is no element type {kind!r}"
        raise RewriterError(f"{what}; there is {', '.join(ports if name not in ports else numbers)}")
    tensor = ports[name]
    before = elem_type(tensor)
    if before is None or not isinstance(tensor, Variable):
        raise RewriterError(f"{name!r} has no known element type, or is a constant")
    if before == numbers[kind]:
        raise RewriterError(f"{name!r} is {kind} already")
    outer = editing.index.producer(tensor) is None
    if outer and editing.index.output_of(tensor):
        raise RewriterError(f"{name!r} is an input and also an output, so no node can be inserted")
    put_between(editing, tensor, "Cast", {"to": before if outer else numbers[kind]})
    tensor.dtype = gs_dtype(numbers[kind])
    editing.settle()
    editing.same = False
    editing.did.append(f"type  {name}: {DTYPE_NAMES[before]} -> {kind}")


def put_between(editing: Editing, port: Variable, op: str, attributes: dict[str, Any]) -> None:
    """Puts a node between an input or output and the rest of the model, which gets a tensor of the same type in its place."""
    graph, name, is_input = editing.graph, f"{port.name}_{op.lower()}", editing.index.producer(port) is None
    node_name = editing.index.node_names.fresh(name)
    source, result = editing.part(port, name)
    inner = result if is_input else source
    inner.dtype, inner.shape = port.dtype, port.shape
    if not is_input:
        editing.edits.replace_uses(port, inner)
    editing.settle()
    graph.nodes.insert(0 if is_input else len(graph.nodes), new_node(op, "", node_name, attributes, [source], [result]))


def _reshape(editing: Editing, wanted: Shapes) -> None:
    graph = editing.graph
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    for name in wanted:
        if name not in inputs:
            known = ", ".join(map(repr, inputs)) or "none"
            raise RewriterError(f"there is no input {name!r}; there is {known}. Other shapes follow from those of inputs")
    plan = _Plan(editing, {name: inputs[name] for name in wanted}, wanted)
    plan.substitute()
    plan.follow()
    plan.finish()


class _Plan:
    """The new shapes of inputs: names of dimensions change everywhere; numbers get a name, which the graph follows."""

    def __init__(self, editing: Editing, inputs: dict[str, gs.Tensor], wanted: Shapes) -> None:
        self.editing = editing
        self.names: dict[str, Dim] = {}  # of dimensions, to what they become
        self.targets: dict[str, list[Dim]] = {}
        self.inputs = inputs
        taken: dict[tuple[int, int, Dim], str] = {}
        self.at_last: dict[str, Dim] = {}
        for name, dims in wanted.items():
            before = clean(inputs[name].shape)
            if before is not None and len(before) != len(dims):
                raise RewriterError(f"{name!r} has {len(before)} dimensions, not {len(dims)}")
            target: list[Dim] = []
            for position, (old, new) in enumerate(zip(before or [None] * len(dims), dims, strict=True)):
                if isinstance(old, str) and new is not None and old != new:
                    if self.names.setdefault(old, new) != new:
                        raise RewriterError(f"{old!r} cannot become {shown_dim(self.names[old])} and {shown_dim(new)}")
                    target.append(new)
                elif isinstance(old, int) and old != new and not isinstance(new, str):
                    passing = taken.setdefault((position, old, new), f"rewriter_dim_{len(taken)}")
                    self.at_last[passing] = new
                    target.append(passing)
                else:
                    target.append(new)
            self.targets[name] = target

    def substitute(self) -> None:
        """Replaces names by numbers or other names, wherever the names are declared."""
        if self.names:
            replace_dims(self.editing.graph, self.names)
            others = [name for name in self.names if name]
            self.editing.notes.append(
                f"{', '.join(map(repr, others))}: changed in all tensors, because a name means one length in the whole model"
            )
            self.editing.settle()

    def follow(self) -> None:
        """Makes the graph follow numbers that became names."""
        editing = self.editing
        index, facts = editing.index, editing.facts
        edits = Edits(index)
        for name, target in self.targets.items():
            tensor = self.inputs[name]
            if isinstance(tensor, Variable) and clean(tensor.shape) != tuple(target):
                edits.set_type(tensor, tensor.dtype, target)
        changed = list(edits.retyped.values())
        if not changed:
            return
        refresh(facts, changed)
        try:
            sizes = named_dimensions([edits])
            first = [target[0] for target in self.targets.values() if target]
            if batch := [name for name in sizes if name in first]:
                DimensionWalk(Context(index, facts=facts), edits, sizes, batch).follow()
            for name in sizes:
                if name not in batch:
                    SizeWalk(Context(index, facts=facts), edits, sizes, [name]).follow()
        except DoesNotFlow as error:
            raise RewriterError(f"the shape cannot be changed: {self._clear(str(error))}") from None
        edits.sweep(())
        refresh(facts, list(edits.retyped.values()))
        declare_anew(index, facts, changed)
        index.finish()
        editing.settle()

    def _clear(self, text: str) -> str:
        for passing, dim in self.at_last.items():
            text = text.replace(repr(passing), shown_dim(dim))
        return text

    def finish(self) -> None:
        """Gives dimensions that had a temporary name their final name or number."""
        if self.at_last:
            replace_dims(self.editing.graph, self.at_last)
            self.editing.settle()
            self._size_outputs()
            if any(dim is not None for dim in self.at_last.values()):
                self.editing.same = False
        if any(isinstance(dim, int) for dim in self.names.values()):
            self.editing.same = False

    def _size_outputs(self) -> None:
        """Declares the sizes of outputs that follow from the new sizes of the inputs."""
        facts = self.editing.facts
        for tensor in self.editing.graph.outputs:
            declared, known = facts.declared(tensor)[1], facts.shape(tensor)
            if declared is not None and None in declared and known is not None and len(known) == len(declared):
                tensor.shape = [size if dim is None else dim for dim, size in zip(declared, known, strict=True)]
        self.editing.settle()


def _dim(word: str, text: str) -> Dim:
    if word == _OPEN:
        return None
    if word.isascii() and word.isdigit():
        return int(word)
    if not word.isidentifier():
        where = "" if word == text else f"{text!r}: "
        raise RewriterError(f"{where}{word!r} is no dimension; write a number, a name, or ?")
    return word


def shown_dim(dim: Dim) -> str:
    """A dimension as people write it."""
    return _OPEN if dim is None else str(dim)
