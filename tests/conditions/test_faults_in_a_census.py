"""Faults of a model: what a census rules out, the search in the graph does not find."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx import helper

from rewriter.core.conditions.coarse_world import FAULT_IS_RULED_OUT, no_early_forms
from rewriter.core.conditions.context import Context
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language import schema
from rewriter.core.onnxfile.take_census import take_census
from rewriter.core.onnxfile.wire import MalformedError
from rewriter.repairs import find
from rewriter.repairs.old_opsets import early_forms
from tests.cli.call import MODELS

CHANGED = [op for op in schema.operators() if len(schema.versions(op)) > 1 and not schema.subgraphs(op, "")]
NEWEST = 24


def seen(op: str, written: frozenset[str], operands: list[str], opset: int) -> tuple[bool, bool]:
    """Whether the census leaves the fault open, and whether the graph has it. Attributes have the value 0."""
    node = helper.make_node(op, operands, ["y"], "n", **dict.fromkeys(written, 0))
    graph = helper.make_graph([node], "g", [], [])
    proto = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    ruled_out = no_early_forms(take_census(proto.SerializeToString()))
    return not ruled_out, any(True for _ in early_forms(Context(GraphIndex(Model.from_proto(proto).graph))))


@pytest.mark.parametrize("op", CHANGED)
def test_a_census_does_not_rule_out_a_form_that_the_graph_has(op: str) -> None:
    history = schema.history(op)
    required = {frozenset(name for name, one in found.attributes.items() if one.required) for found in history}
    written = {frozenset(), *required, *(some | {name} for some in required for found in history for name in found.attributes)}
    operands = [[f"x{place}" for place in range(count)] for count in range(1, 5)]
    operands += [[name if place != gap else "" for place, name in enumerate(some)] for some in operands[2:] for gap in (1, 2)]
    for opset in {since for since in schema.versions(op)[:-1] if since <= NEWEST}:
        for names in written:
            for some in operands:
                is_open, is_there = seen(op, names, some, opset)
                assert is_open or not is_there, (op, opset, sorted(names), some)


def test_an_ordinary_node_is_ruled_out() -> None:
    assert seen("Gemm", frozenset(), ["a", "b", "c"], 9) == seen("Resize", frozenset(), ["x", "r", "s"], 11) == (False, False)
    assert seen("Gemm", frozenset(), ["a", "b"], 9) == seen("Resize", frozenset(), ["x", "", "s"], 11) == (True, True)


def damaged(model: onnx.ModelProto, chance: random.Random) -> None:
    """Breaks one thing: an import, a name, the order, an operand, an attribute or a domain."""
    nodes, imports = model.graph.node, model.opset_import
    first, second, last = (chance.choice(nodes) for _ in range(3))
    match chance.randrange(7):
        case 0:
            imports[0].version = chance.randrange(1, NEWEST)
        case 1:
            del imports[chance.randrange(len(imports))]
        case 2:
            first.name = second.name
        case 3:
            first.output[0] = second.output[0]
        case 4:
            moved = onnx.NodeProto.FromString(first.SerializeToString())
            first.CopyFrom(last)
            last.CopyFrom(moved)
        case 5 if first.input:
            first.input[chance.randrange(len(first.input))] = ""
        case _:
            first.domain = chance.choice(["ai.onnx.ml", "com.microsoft"])
            del second.attribute[:1]


@pytest.mark.parametrize("folder", sorted(MODELS.glob("*/model.onnx"))[::6], ids=lambda path: path.parent.name)
def test_a_census_does_not_rule_out_a_fault_that_the_graph_has(folder: Path) -> None:
    chance = random.Random(folder.parent.name)
    for _ in range(5):
        proto = onnx.load(folder, load_external_data=False)
        damaged(proto, chance)
        try:
            census = take_census(proto.SerializeToString())
        except MalformedError:  # no census: nothing is ruled out
            continue
        context = Context(GraphIndex(Model.from_proto(proto).graph))
        for fault, is_ruled_out in FAULT_IS_RULED_OUT.items():
            assert not is_ruled_out(census) or not find(fault, context), fault
