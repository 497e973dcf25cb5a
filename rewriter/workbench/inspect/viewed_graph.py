"""The contents of a model for the page, as plain data: columns of nodes and tensors of each graph, each name stored once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model_text import attribute_text, graphs_by_path, message_name, tensor_text, type_text
from rewriter.core.graph.objects import rules_of
from rewriter.core.language.schema import DTYPE_NAMES, registered_at
from rewriter.core.onnxfile.model_file import read_model_file
from rewriter.core.onnxfile.tensors import read_tensor, text
from rewriter.core.record import record
from rewriter.trust.difference import Difference
from rewriter.workbench.inspect.model_stats import ModelStats, NodeCost, module_of

Graph = onnx.GraphProto | onnx.FunctionProto
TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type")
"""Attributes whose integer is an element type."""

MOST_VALUES = 8
"""Limit for a constant whose values are shown."""


@record(frozen=True, slots=True)
class NodeNote:
    """A note on a node: `status` is "finding", "rewritten", "added", "removed" or "edited"; `rule` may be "".
    `picture` is HTML that shows the node before and after the rule, or "". With `constant` the note is about its readers.
    """

    place: str
    node: str
    status: str
    rule: str
    text: str
    picture: str = ""
    constant: str = ""


Notes = dict[tuple[str, str], list[NodeNote]]
Costs = dict[tuple[str, str], list[NodeCost]]


def viewed_model(path: Path, stats: ModelStats, notes: Iterable[NodeNote] = ()) -> dict[str, Any]:
    """A model in the form that the page reads.

    Args:
        path: the model's file; weights are not read, and the page shows only their type and shape.
        stats: costs of the nodes and types of their outputs.
        notes: notes on its nodes; the place is a path as `rewriter show` prints it ("main", "main/If_3.then_branch").

    Raises:
        RewriterError: the file is missing or no ONNX model.
    """
    file = read_model_file(path)
    model = file.proto
    by_place: dict[str, Notes] = {}
    for note in notes:
        by_place.setdefault(note.place, {}).setdefault((note.node, note.constant), []).append(note)
    opsets = {text(entry.domain): entry.version for entry in model.opset_import}
    costs: Costs = {}
    for cost in stats.nodes:
        costs.setdefault((cost.place, cost.name), []).append(cost)
    graphs = [_graph(path, graph, opsets, by_place.get(path, {}), costs) for path, graph in graphs_by_path(model)]
    entries = [
        ("file", path.name),
        ("exporter", " ".join(part for part in (text(model.producer_name), text(model.producer_version)) if part)),
        ("IR", str(model.ir_version)),
        ("opsets", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in opsets.items())),
        ("nodes", f"{sum(len(graph['nodes']) for graph in graphs):,}"),
        ("graphs", str(len(graphs)) if len(graphs) > 1 else ""),
        ("parameters", f"{stats.total.parameters:,}"),
        ("MACs", f"{stats.total.macs:,}" + (f" (with {' = '.join(stats.open)} = 1)" if stats.open else "")),
    ]
    return {"about": [entry for entry in entries if entry[1]], "graphs": graphs}


def _graph(path: str, graph: Graph, opsets: dict[str, int], notes: Notes, costs: Costs) -> dict[str, Any]:
    names: dict[str, int] = {}

    def number(name: str | bytes) -> int:
        """The number of a tensor; -1 for an operand that is left out."""
        return names.setdefault(text(name), len(names)) if name else -1

    nodes = []
    types: dict[int, str] = {}
    for node in graph.node:
        name = message_name(node)
        about = [(name, ""), *(("", text(operand)) for operand in dict.fromkeys(node.input))]
        found = [
            *(note for key in about for note in notes.get(key, ())),
            *(NodeNote(path, name, "rewritten", rule, "") for rule in rules_of(node)),
        ]
        domain = text(node.domain)
        cost = known.pop(0) if (known := costs.get((path, name))) else None
        if cost is not None:
            types |= {number(output): known for output, known in zip(node.output, cost.types, strict=False) if output and known}
        nodes.append(
            [
                text(node.op_type) if domain in ("", "ai.onnx") else f"{domain}::{text(node.op_type)}",
                name,
                [number(operand) for operand in node.input],
                [number(output) for output in node.output],
                list(_attributes(node, opsets)),
                module_of(node, name),
                [[note.status, note.rule, note.text, note.picture] for note in found],
                [cost.cost.parameters, cost.cost.macs] if cost is not None else [0, 0],
            ]
        )
    function = isinstance(graph, onnx.FunctionProto)
    inputs = [number(one if isinstance(one, str | bytes) else one.name) for one in graph.input]
    outputs = [number(one if isinstance(one, str | bytes) else one.name) for one in graph.output]
    types = {number(value.name): type_text(value.type) for value in _declared(graph)} | types
    weights = {} if function else dict(_weights(graph, number))
    weights |= {number(node.output[0]): constant for node in graph.node if (constant := _constant(node)) and node.output}
    return {
        "path": path,
        "nodes": nodes,
        "inputs": [one for one in inputs if one not in weights],
        "outputs": outputs,
        "tensors": list(names),
        "types": types,
        "weights": weights,
    }


def _declared(graph: Graph) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.value_info
    if isinstance(graph, onnx.GraphProto):
        yield from graph.input
        yield from graph.output


def _weights(graph: onnx.GraphProto, number: Any) -> Iterator[tuple[int, str]]:
    for tensor in graph.initializer:
        yield number(tensor.name), _with_values(tensor)
    for sparse in graph.sparse_initializer:
        dense = onnx.TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
        yield number(sparse.values.name), f"sparse {tensor_text(dense)}"


def _constant(node: onnx.NodeProto) -> str:
    """The value of a Constant node; "" for other nodes."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or not node.attribute:
        return ""
    value = node.attribute[0]
    return _with_values(value.t) if value.HasField("t") else attribute_text(value)


def _with_values(tensor: onnx.TensorProto) -> str:
    """`int64[2] {0, -1}`, or the type alone when there are many values or they are in another file."""
    shown = tensor_text(tensor)
    if math.prod(tensor.dims) > MOST_VALUES or tensor.external_data:
        return shown
    try:
        values = read_tensor(tensor, None).ravel().tolist()
    except RewriterError:
        return shown
    return f"{shown} {{{', '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)}}}"


def _attributes(node: onnx.NodeProto, opsets: dict[str, int]) -> Iterator[tuple[str, str, int]]:
    """Name, text, and 1 if the value is the schema's default."""
    defaults = _defaults(text(node.op_type), text(node.domain), opsets.get(text(node.domain), 0))
    for attribute in node.attribute:
        name, shown = text(attribute.name), attribute_text(attribute)
        same = int(defaults.get(name) == shown)
        if name in TYPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INT:
            shown = DTYPE_NAMES.get(attribute.i, shown)
        yield name, shown, same


@cache
def _defaults(op: str, domain: str, opset: int) -> dict[str, str]:
    schema = registered_at(op, domain, opset)
    if schema is None:
        return {}
    return {
        name: attribute_text(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type
    }


ON_NODES = ("node", "attribute", "operand", "result")  # kinds of differences that are marked on nodes


def notes_of_differences(differences: Sequence[Difference]) -> tuple[list[NodeNote], list[NodeNote]]:
    """The differences that `rewriter diff` finds, as notes on the nodes of the first and of the second model."""
    first: list[NodeNote] = []
    second: list[NodeNote] = []
    for one in differences:
        if one.kind == "node":
            status, notes = ("removed", first) if one.after is None else ("added", second)
            notes.append(NodeNote(one.place, one.name, status, "", one.before or one.after or ""))
        elif one.kind in ON_NODES:
            words = f"{one.kind} {one.part}: {one.before or 'none'} \u2192 {one.after or 'none'}"
            for notes in (first, second):
                notes.append(NodeNote(one.place, one.name, "edited", "", words))
        elif one.kind == "constant" and one.before and one.after:
            words = "its values differ" if one.before == one.after else f"{one.before} \u2192 {one.after}"
            for notes, name in zip(
                (first, second), (one.name.partition(" -> ")[0], one.name.rpartition(" -> ")[2]), strict=True
            ):
                notes.append(NodeNote(one.place, "", "edited", "", f"constant {one.name}: {words}", constant=name))
    return first, second
