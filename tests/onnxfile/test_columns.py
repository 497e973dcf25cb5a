"""Nodes cut as columns are the nodes that are read one by one, whatever stands in the bytes."""

from __future__ import annotations

import random
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from rewriter.core.conditions.coarse_world import FAULT_IS_RULED_OUT
from rewriter.core.facts.census_flow import follow_types
from rewriter.core.onnxfile import take_census
from rewriter.core.onnxfile.census import OPAQUE, Census
from rewriter.core.onnxfile.wire import MalformedError

NAMES = ("x", "y\n", 'a"b', "\x12q", "é", "n" * 127, "n" * 128, "n" * 130, "/block/out", "")
ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"axis": 1}, {"pads": [1, 1, 1, 10]}, {"mode": "\n\x05\x12\x01ab"}, {"alpha": 0.5}, {"axis": 10, "to": 18},
)  # fmt: skip
BRANCH = helper.make_graph([helper.make_node("Relu", ["x"], ["inner"])], "b", [], [])


def plain(value: Any) -> Any:
    return "opaque" if value is OPAQUE else value


def told(census: Census) -> Any:
    """What a census says of the nodes, in a form that can be compared."""
    body = census.graph
    nodes = [
        (kind.op, kind.domain, {name: plain(value) for name, value in kind.attrs.items()}, kind.dtype, inputs, outputs)
        for kind, inputs, outputs in body.nodes
    ]
    arities = sorted((kind.op, kind.domain, repr(kind.attrs), sorted(kind.arities)) for kind in census.kinds)
    return nodes, [one for one in arities if "object" not in one[2]], body.inputs, body.outputs, body.constants


def judged(census: Census) -> tuple[Any, Any]:
    """Which faults there surely are not, and what follows of the types."""
    none = {name: answer(census) for name, answer in FAULT_IS_RULED_OUT.items()}
    followed = follow_types(census)
    types = sorted(
        (
            kind.op,
            kind.domain,
            repr(sorted(map(repr, kind.attrs))),
            sorted(kind.output_types),
            sorted(kind.declared_outputs.items()),
        )
        for kind in census.kinds
    )
    return none, types if followed else None


def both(data: bytes, patch: pytest.MonkeyPatch) -> tuple[Census | None, Census | None]:
    """The census read in columns, and the one read node by node; None for bytes that are refused."""
    found: list[Census | None] = []
    for large in (0, 1 << 60):
        patch.setattr(take_census, "MANY", large)
        try:
            found.append(take_census.take_census(data))
        except MalformedError:
            found.append(None)
    return found[0], found[1]


def made_up(chance: random.Random, *, odd: float) -> onnx.ModelProto:
    nodes, known = [], ["x", "w"]
    for i in range(chance.randint(1, 60)):
        strange = chance.random() < odd
        op = chance.choice(("Relu", "Add", "Sigmoid", "Mul", "Conv", "Shape" if strange else "Abs"))
        operands = chance.choices(known[-5:], k=chance.randint(0, 5) if strange else chance.randint(1, 3))
        outputs = [f"t{i}"]
        if strange and chance.random() < 0.5:
            outputs = [chance.choice((*NAMES, *known, f"u{i}")) for _ in range(chance.randint(0, 3))]
            operands = [chance.choice((*operands, *NAMES, *outputs)) for _ in operands]
        attributes = chance.choice(ATTRIBUTES) if strange or op == "Conv" else {}
        name = chance.choice((*NAMES, "n0")) if strange else f"n{i}"
        domain = "com.acme" if strange and chance.random() < 0.2 else ""
        node = helper.make_node(op, operands, outputs, name, domain=domain, **attributes)
        if strange and chance.random() < 0.05:
            node = helper.make_node("If", ["x"], outputs, name, then_branch=BRANCH, else_branch=BRANCH)
        if strange and chance.random() < 0.1:
            node.doc_string = "told\n\x05\x12"
        nodes.append(node)
        known += [output for output in outputs if output]
    if chance.random() < odd:
        chance.shuffle(nodes)
    dtype = TensorProto.INT64 if chance.random() < odd else TensorProto.FLOAT
    ends = [helper.make_tensor_value_info("x", dtype, [2]), helper.make_tensor_value_info(known[-1], TensorProto.FLOAT, [2])]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [0.0, 1.0])
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
@settings(max_examples=200, deadline=None)
def test_columns_say_what_the_nodes_say(seed: int, odd: float) -> None:
    chance = random.Random(seed)
    data = made_up(chance, odd=odd).SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(data, patch)
        if fast is None:  # refused is never wrong; it is left to the ordinary way
            assert odd
            return
        assert slow is not None
        assert told(fast) == told(slow)
        assert judged(fast) == judged(slow)


@given(st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_bytes_that_were_changed_are_refused_or_read_alike(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(made_up(chance, odd=0.02).SerializeToString())
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data))
        data[place] = chance.choice((10, 18, 26, 34, 42, 0, 1, data[place] ^ 1, data[place - 1], chance.randrange(256)))
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(bytes(data), patch)
    if fast is not None:
        assert slow is not None
        assert told(fast) == told(slow)
        assert judged(fast) == judged(slow)


def test_a_name_that_lies_about_its_length_is_refused() -> None:
    graph = helper.make_graph([helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(5000)], "g", [], [])
    data = helper.make_model(graph).SerializeToString()
    assert take_census.take_census(data).graph.columns is not None
    for place in (b"\n\x05t2000", b"\x12\x05t2000", b"\x1a\x05n2000"):
        assert data.count(place) == 1
        lying = data.replace(place, place.replace(b"\x05", b"\x04"))
        with pytest.raises(MalformedError):
            take_census.take_census(lying)


def test_large_graphs_are_read_in_columns() -> None:
    nodes = [
        helper.make_node(
            "Split" if i % 40 == 0 else "Relu", [f"t{i}"], [f"t{i + 1}", "s" + "x" * i][: 1 + (i % 40 == 0)], f"n{i}"
        )
        for i in range(5000)
    ]
    data = helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString()
    columns = take_census.take_census(data).graph.columns
    assert columns is not None
    assert len(columns) == 5000


def elsewhere() -> onnx.TensorProto:
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    return tensor


@pytest.mark.parametrize("place", ["nowhere", "initializer", "attribute", "list of an attribute", "sparse", "body", "default"])
@pytest.mark.parametrize("large", [0, 1 << 60])
def test_data_elsewhere_are_noticed(place: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a tensor may stand; where it is not looked at, it may be one."""
    monkeypatch.setattr(take_census, "MANY", large)
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [], [])
    model = helper.make_model(graph, ir_version=8)
    attributes = model.graph.node[0].attribute
    if place == "initializer":
        model.graph.initializer.append(elsewhere())
    elif place == "attribute":
        attributes.append(helper.make_attribute("a", elsewhere()))
    elif place == "list of an attribute":
        attributes.append(helper.make_attribute("a", [elsewhere()]))
    elif place == "sparse":
        model.graph.sparse_initializer.add(dims=[2]).indices.CopyFrom(elsewhere())
        model.graph.sparse_initializer[0].values.CopyFrom(helper.make_tensor("w", 1, [0], []))
    elif place == "body":
        attributes.append(helper.make_attribute("a", helper.make_graph([], "b", [], [], [elsewhere()])))
    elif place == "default":
        function = model.functions.add(name="f", domain="d")
        function.attribute_proto.append(helper.make_attribute("a", elsewhere()))
    assert take_census.take_census(model.SerializeToString()).refers == (place != "nowhere")
