"""Parts of models as models of their own: `rewriter extract`.

Unwanted nodes are removed from the graph in place, so that everything else is written back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError, counted, listed
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph, needed_functions, with_inner
from rewriter.core.graph.tidy import drop_imports
from rewriter.core.graph.values import Constant, new_variable
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.core.record import record
from rewriter.trust.proof.output_agreement import Bound
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery.finish import Checks, Numbers, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import Parts, Ports, inner_tensors, parsed_types, reads, shown
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement


def keep_nodes(graph: Graph, nodes: list[gs.Node]) -> None:
    """Keeps these nodes, in their order, and removes everything that only the others needed: constants without readers,
    functions without calls, operator sets without nodes.
    """
    index, kept = GraphIndex(graph), set(map(id, nodes))
    edits = Edits(index)
    for node in graph.nodes:
        if id(node) not in kept:
            edits.remove(node)
    index.finish()
    graph.nodes[:] = nodes
    drop_unread(graph)
    graph.functions[:] = needed_functions(graph.functions, with_inner(nodes))
    drop_imports(GraphIndex(graph))


def drop_unread(graph: Graph) -> None:
    """Removes the initializers that no node reads and that are no outputs, except the parameters of quantized tensors."""
    read = {id(tensor) for node in graph.nodes for tensor in reads(node)}
    read.update(map(id, graph.outputs))
    alive = set[int]()
    if graph.origin.annotations:
        alive = read | {id(tensor) for node in graph.nodes for tensor in node.outputs} | set(map(id, graph.inputs))
    for tensors in graph.origin.annotations:
        if tensors[0] is not None and id(tensors[0]) in alive:
            read.update(id(tensor) for tensor in tensors[1:] if tensor is not None)
    graph.initializers = [tensor for tensor in graph.initializers if id(tensor) in read]


# A part of a model as a model of its own: the nodes that lead from some tensors to others.

_NAMED = 12  # tensors that an error lists


@record(frozen=True, slots=True)
class Extracted:
    """The part that was cut out.

    Attributes:
        inputs, outputs: inputs and outputs of the part.
        nodes: how many nodes of the main graph are in it; `of` is the number of nodes before the cut.
        notes: further lines to print.
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
    """Cuts a model down to the nodes that lead from some tensors to others.

    Args:
        model: is edited.
        to: outputs of the part: tensors, nodes (all their outputs) or patterns of names; if empty, the model's outputs.
        start: inputs of the part; None means the inputs of the model. A node means all tensors that it reads.
        types: types of tensors that become inputs or outputs, by name, if the model does not determine them.
        auto_inputs: whether inputs of the model that are needed in addition to `start` become inputs, too.

    Raises:
        RewriterError: a needed tensor is no input, or a type is unknown; the model may be half cut.
    """
    graph = model.graph
    assert isinstance(graph, Graph)
    index = GraphIndex(graph)
    parts = Parts(index)
    outputs = parts.outputs_of(to) or list(graph.outputs)
    first = [] if start is None else parts.inputs_of(start)
    start_ids = set(map(id, first))
    nodes, leaves = upstream(index, outputs, start_ids)
    needed = [tensor for tensor in leaves if not isinstance(tensor, gs.Constant) and id(tensor) not in start_ids]
    model_inputs = set(map(id, graph.inputs))
    missing = [t for t in needed if not (auto_inputs or (start is None and id(t) in model_inputs))]
    if missing:
        raise RewriterError(_not_given(missing, outputs, model_inputs, start is None))
    read = {id(tensor) for tensor in (*leaves, *outputs)}
    inputs = [tensor for tensor in first if id(tensor) in read]
    needed_ids = set(map(id, needed))
    inputs += [tensor for tensor in graph.inputs if id(tensor) in needed_ids]
    inputs += [tensor for tensor in needed if id(tensor) not in model_inputs]
    notes = [f"{tensor.name!r} is not read by any node that leads to the outputs" for tensor in first if id(tensor) not in read]
    ports = Ports(Facts(index, model.overridable), types or {})
    ports.declare(inputs, "input")
    ports.declare(outputs, "output")
    notes += [f"the type of {name!r} is not needed: it is no input or output of the part" for name in ports.unused()]
    total = len(graph.nodes)
    _free(graph, inputs)
    _rename_given(index, nodes, inputs)
    keep_nodes(graph, nodes)
    graph.inputs, graph.outputs = inputs, outputs
    return Extracted(inputs, outputs, len(nodes), total, notes)


def upstream(index: GraphIndex, wanted: Sequence[gs.Tensor], start_ids: set[int]) -> tuple[list[gs.Node], list[gs.Tensor]]:
    """The nodes of the main graph that compute the wanted tensors from the start, in their order; and the tensors that these
    nodes read and that are in the start, are constants, or have no maker. Tensors that bodies read are included.
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
        maker = None if id(tensor) in start_ids else index.producer(tensor)
        if maker is None:
            leaves[id(tensor)] = tensor
        elif id(maker) not in found and index.scope(maker) is main:
            found[id(maker)] = maker
            waiting.extend(reversed(list(reads(maker))))
    return [node for node in index.graph.nodes if id(node) in found], list(leaves.values())


def _not_given(missing: list[gs.Tensor], outputs: list[gs.Tensor], inputs: set[int], whole: bool) -> str:
    names = listed([repr(tensor.name) for tensor in missing], _NAMED)
    if whole:
        return f"{names}: no node and no input of the model has this name; make inputs of such tensors with --auto-inputs"
    kinds = "inputs of the model" if all(id(tensor) in inputs for tensor in missing) else "needed"
    shown = ", ".join(repr(tensor.name) for tensor in outputs[:3])
    return f"{names}: {kinds} that {shown} is computed from, not among --from; name them, or use --auto-inputs"


def _free(graph: Graph, inputs: list[gs.Tensor]) -> None:
    """Turns initializers that become inputs into variables."""
    freed = [tensor for tensor in inputs if isinstance(tensor, Constant)]
    gone = set(map(id, freed))
    if freed:
        graph.initializers = [tensor for tensor in graph.initializers if id(tensor) not in gone]
    for tensor in freed:
        tensor.to_variable(tensor.dtype, tensor.shape)


def _rename_given(index: GraphIndex, nodes: list[gs.Node], inputs: list[gs.Tensor]) -> None:
    """If one output of a kept node is now an input, the node makes this output under a new name."""
    input_ids = set(map(id, inputs))
    for node in nodes:
        for position, tensor in enumerate(node.outputs):
            if id(tensor) in input_ids:
                node.outputs[position] = new_variable(index.names.fresh(f"{tensor.name}_unused"))


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
        RewriterError: there is no such part, or its outputs differ from the outputs of the whole.
    """
    model = source.read()
    declared = parsed_types(types)
    cut = extract(model, to, start, types=declared, auto_inputs=auto_inputs)
    ports = [tensor.name for tensor in (*cut.inputs, *cut.outputs)]
    if unused := [name for name in declared if name not in ports]:
        raise RewriterError(f"--type: the part has no input or output {unused[0]!r}; there is {listed(ports, _NAMED)}")
    did = [
        f"{counted(cut.nodes, 'node')} of {cut.of:,}",
        *(f"input   {shown(tensor)}" for tensor in cut.inputs),
        *(f"output  {shown(tensor)}" for tensor in cut.outputs),
    ]
    command = command_text("extract", [("--from", start or ()), ("--to", to), ("--type", types)], auto_inputs=auto_inputs)
    return finish(model, [source], command, did, cut.notes, checks, as_in(source, model))


def as_in(source: Opened, result: Model, bound: Bound | None = None) -> Numbers:
    """Compares the outputs of a result with the same tensors of the whole model. `bound` as for `agreement`."""
    inputs, outputs = ([tensor.name for tensor in ports] for ports in (result.graph.inputs, result.graph.outputs))
    return lambda candidate, most: same_as_whole(source, [candidate], inputs, outputs, most, bound)


def same_as_whole(
    source: Opened,
    parts: Sequence[Candidate],
    boundary_names: Sequence[str],
    wanted: Sequence[str],
    most: int,
    bound: Bound | None = None,
) -> Agreement:
    """Whether parts that run one after the other compute the same outputs as the whole model.

    The values of `boundary_names` come from the whole model. `bound` as for `agreement`.
    """
    whole = source.read()
    own = {tensor.name for tensor in whole.graph.inputs}
    outputs_by_name = {tensor.name: tensor for node in whole.graph.nodes for tensor in node.outputs if tensor.name}
    names = [name for name in dict.fromkeys((*boundary_names, *wanted)) if name in outputs_by_name]
    inputs = [tensor for tensor in whole.graph.inputs if tensor.name in boundary_names]
    if any(name not in outputs_by_name and name not in own for name in boundary_names):
        return Agreement(False, reason="an initializer of the whole is an input now")
    whole.graph.outputs = [outputs_by_name[name] for name in names] or [new_variable(tensor.name) for tensor in inputs]
    candidate = Candidate(whole)
    steps = [Step(part) for part in parts]
    return agreement(
        candidate,
        [Step(candidate)],
        steps,
        [n for n in wanted if n in outputs_by_name],
        boundary_names=boundary_names,
        most=most,
        bound=bound,
    )
