"""A part of a model as a model of its own: what leads from some tensors to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.values import Constant, new_variable
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.core.record import record
from rewriter.trust.proof.models.output_agreement import Bound
from rewriter.trust.proof.models.validity import Candidate
from rewriter.workbench.style import counted
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.keep import keep_nodes
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.parts import Parts, inner_tensors, reads
from rewriter.workbench.surgery.ports import Ports, parsed_types, shown
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement

_NAMED = 12  # tensors that an error lists


@record(frozen=True, slots=True)
class Extracted:
    """What was cut out.

    Attributes:
        inputs, outputs: of the part.
        nodes: how many nodes of the main graph are in it; `of` how many there were.
        notes: what else is to be said.
    """

    inputs: list[gs.Tensor]
    outputs: list[gs.Tensor]
    nodes: int
    of: int
    notes: list[str]


def extract(
    model: Model,
    to: Iterable[str] = (),
    start: Iterable[str] | None = None,
    *,
    types: Mapping[str, TensorType] | None = None,
    auto_inputs: bool = False,
) -> Extracted:
    """Cuts a model down to what leads from some tensors to others.

    Args:
        model: is edited.
        to: what the part gives: tensors, nodes (all that they make) or patterns of names; nothing means the model's outputs.
        start: what it is given; None means the inputs of the model. Of a node all that it reads is given.
        types: of tensors that become inputs or outputs, by name, where the model does not tell.
        auto_inputs: inputs of the model that are needed besides `start` are given, too.

    Raises:
        RewriterError: something that is needed is not given, or a type is not known; the model may be half cut.
    """
    parts = Parts(GraphIndex(model.graph))
    outputs = parts.outputs_of(to) or list(model.graph.outputs)
    return cut_out(model, parts, outputs, None if start is None else parts.inputs_of(start), types or {}, auto_inputs)


def cut_out(
    model: Model,
    parts: Parts,
    outputs: list[gs.Tensor],
    start: list[gs.Tensor] | None,
    types: Mapping[str, TensorType],
    auto_inputs: bool,
) -> Extracted:
    """`extract` for tensors that were found already."""
    graph, index = model.graph, parts.index
    assert isinstance(graph, Graph)
    given = {id(tensor) for tensor in start or ()}
    nodes, leaves = upstream(index, outputs, given)
    needed = [tensor for tensor in leaves if not isinstance(tensor, gs.Constant) and id(tensor) not in given]
    model_inputs = set(map(id, graph.inputs))
    missing = [t for t in needed if not (auto_inputs or (start is None and id(t) in model_inputs))]
    if missing:
        raise RewriterError(_not_given(missing, outputs, model_inputs, start is None))
    read = {id(tensor) for tensor in (*leaves, *outputs)}
    inputs = [tensor for tensor in start or () if id(tensor) in read]
    inputs += list({id(t): t for t in (*(t for t in graph.inputs if _among(t, needed)), *needed)}.values())
    notes = [f"{tensor.name!r} is not read by what leads to the outputs" for tensor in start or () if id(tensor) not in read]
    ports = Ports(Facts(index, model.overridable), types)
    ports.declare(inputs, "input")
    ports.declare(outputs, "output")
    notes += [f"the type of {name!r} is not needed: it is no input or output of the part" for name in ports.unused()]
    total = len(graph.nodes)
    _free(graph, inputs)
    _rename_given(index, nodes, inputs)
    keep_nodes(graph, nodes)
    graph.inputs, graph.outputs = _unlisted(inputs), outputs
    return Extracted(inputs, outputs, len(nodes), total, notes)


def upstream(index: GraphIndex, wanted: Sequence[gs.Tensor], given: set[int]) -> tuple[list[gs.Node], list[gs.Tensor]]:
    """The nodes of the main graph that tensors are computed by, as far as those that are given, in their order; and the
    tensors that these nodes read and that are given, are constants, or come from nowhere. What bodies read counts.
    """
    inner, main = inner_tensors(index), index.scopes[0]
    found: dict[int, gs.Node] = {}
    leaves: dict[int, gs.Tensor] = {}
    waiting, seen = list(reversed(wanted)), set[int]()
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen or not tensor.name or id(tensor) in inner:
            continue
        seen.add(id(tensor))
        maker = None if id(tensor) in given else index.producer(tensor)
        if maker is None:
            leaves[id(tensor)] = tensor
        elif id(maker) not in found and index.scope(maker) is main:
            found[id(maker)] = maker
            waiting.extend(reversed(list(reads(maker))))
    return [node for node in index.graph.nodes if id(node) in found], list(leaves.values())


def _not_given(missing: list[gs.Tensor], outputs: list[gs.Tensor], inputs: set[int], whole: bool) -> str:
    names = ", ".join(repr(tensor.name) for tensor in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    if whole:
        return f"{names}{more}: made by no node and no input of the model; --auto-inputs makes inputs of them"
    kinds = "inputs of the model" if all(id(tensor) in inputs for tensor in missing) else "needed"
    shown = ", ".join(repr(tensor.name) for tensor in outputs[:3])
    return f"{names}{more}: {kinds} that {shown} is computed from, not among --from; name them, or use --auto-inputs"


def _free(graph: Graph, inputs: list[gs.Tensor]) -> None:
    """Initializers that are to be inputs are none any more."""
    freed = [tensor for tensor in inputs if isinstance(tensor, Constant)]
    gone = set(map(id, freed))
    if freed:
        graph.initializers = [tensor for tensor in graph.initializers if id(tensor) not in gone]
    for tensor in freed:
        tensor.to_variable(tensor.dtype, tensor.shape)


def _rename_given(index: GraphIndex, nodes: list[gs.Node], inputs: list[gs.Tensor]) -> None:
    """A node that stays for one output, while another one is an input now, makes that under a new name."""
    given = set(map(id, inputs))
    for node in nodes:
        for position, tensor in enumerate(node.outputs):
            if id(tensor) in given:
                node.outputs[position] = new_variable(index.names.fresh(f"{tensor.name}_unused"))


def _unlisted(inputs: list[gs.Tensor]) -> list[gs.Tensor]:
    return [tensor for tensor in inputs if not isinstance(tensor, gs.Constant)]


def _among(tensor: gs.Tensor, tensors: list[gs.Tensor]) -> bool:
    return any(tensor is other for other in tensors)


# `rewriter extract`: a part of a model, checked against the whole.


def extracted(
    source: Opened,
    to: Sequence[str] = (),
    start: Sequence[str] | None = None,
    types: Sequence[str] = (),
    *,
    auto_inputs: bool = False,
    checks: Checks | None = None,
) -> Surgery:
    """The part of a model that leads to some tensors, as `extract` cuts it, checked and recorded.

    Raises:
        RewriterError: there is no such part, or it does not compute what the whole does.
    """
    model = source.read()
    cut = extract(model, to, start, types=parsed_types(types), auto_inputs=auto_inputs)
    did = [
        f"{counted(cut.nodes, 'node')} of {cut.of:,}",
        *(f"input   {shown(tensor)}" for tensor in cut.inputs),
        *(f"output  {shown(tensor)}" for tensor in cut.outputs),
    ]
    command = command_text("extract", [("--from", start or ()), ("--to", to), ("--type", types)], auto_inputs=auto_inputs)
    return finish(
        model, [source], command, did, cut.notes, checks or Checks(), lambda c, most: _agreement(source, cut, c, most)
    )


def _agreement(source: Opened, cut: Extracted, part: Candidate, most: int) -> Agreement:
    return same_as_whole(source, [part], [t.name for t in cut.inputs], [t.name for t in cut.outputs], most)


def same_as_whole(
    source: Opened,
    parts: Sequence[Candidate],
    given: Sequence[str],
    wanted: Sequence[str],
    most: int,
    bound: Bound | None = None,
) -> Agreement:
    """Whether parts that run one after the other give what the whole model gives: what is `given` is taken from it. `bound`
    as for `agreement`.
    """
    whole = source.read()
    own = {tensor.name for tensor in whole.graph.inputs}
    made = {tensor.name: tensor for node in whole.graph.nodes for tensor in node.outputs if tensor.name}
    asked = [name for name in dict.fromkeys((*given, *wanted)) if name in made]
    inputs = [tensor for tensor in whole.graph.inputs if tensor.name in given]
    if any(name not in made and name not in own for name in given):
        return Agreement(False, reason="an initializer of the whole is an input now")
    whole.graph.outputs = [made[name] for name in asked] or [new_variable(tensor.name) for tensor in inputs]
    candidate = Candidate(whole)
    steps = [Step(part) for part in parts]
    return agreement(candidate, [Step(candidate)], steps, [n for n in wanted if n in made], given=given, most=most, bound=bound)
