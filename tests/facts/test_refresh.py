"""After edits, facts are what they would be had the graph always been so, and only what changed is reported."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.facts.facts import Facts, refresh
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.values import new_constant


def model(text: str) -> tuple[GraphIndex, Facts, dict[str, gs.Tensor]]:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    index = GraphIndex(Model.from_proto(proto).graph)
    nodes = [node for scope in index.scopes for node in scope.graph.nodes]
    tensors = {t.name: t for node in nodes for t in (*node.inputs, *node.outputs)}
    tensors |= {t.name: t for scope in index.scopes for t in scope.graph.inputs}
    facts = Facts(index)
    for tensor in tensors.values():
        facts.shape(tensor)
    return index, facts, tensors


def names(tensors: Iterable[gs.Tensor]) -> set[str]:
    return {t.name for t in tensors}


def producer(index: GraphIndex, tensor: gs.Tensor) -> gs.Node:
    node = index.producer(tensor)
    assert node is not None
    return node


CHAIN = """g (float[1,3,9,9] x) => (z) {
    c = MaxPool<kernel_shape=[3,3]>(x)
    y = Relu(c)
    s = Shape(y)
    z = Reshape(x, s)
    w = Neg(x)
}"""


def test_a_change_travels_as_far_as_it_changes_something() -> None:
    index, facts, t = model(CHAIN)
    Edits(index).set_attribute(producer(index, t["c"]), "pads", [1, 1, 1, 1])
    assert names(refresh(facts, [t["c"]])) == {"c", "y", "s", "z"}
    assert facts.shape(t["z"]) == (1, 3, 9, 9)
    Edits(index).set_attribute(producer(index, t["c"]), "auto_pad", "NOTSET")
    assert refresh(facts, [t["c"]]) == []


def test_a_constant_that_takes_the_place_of_what_computed_it_changes_nothing_behind() -> None:
    index, facts, t = model(
        "g (float[2,3] x) => (y) <float[3,2] w = {1, 2, 3, 4, 5, 6}>"
        " { a = Transpose(w)  b = Neg(a)  c = Abs(b)  y = Add(x, c) }"
    )
    array = facts.constant(t["a"])
    assert array is not None
    same, other = new_constant("same", array), new_constant("other", array + 1)
    for new, changed in ((same, set[str]()), (other, {"b", "c"})):
        edits = Edits(index)
        facts.replace_constant(t["a"], new, new.values)
        edits.set_inputs(producer(index, t["b"]), [new])
        assert names(refresh(facts, [t["b"]])) == changed


def test_constants_change_with_their_contents_and_not_without() -> None:
    index, facts, t = model("g (float[2] x) => (y) <float[2] w = {1, 2}> { n = Neg(w)  y = Add(x, n) }")
    assert refresh(facts, [t["w"]]) == []
    np.testing.assert_array_equal(facts.constant(t["n"]), [-1, -2])
    Edits(index).set_inputs(producer(index, t["n"]), [gs.Constant("v", np.array([3, 4], np.float32))])
    assert names(refresh(facts, [t["n"]])) == {"n"}
    np.testing.assert_array_equal(facts.constant(t["n"]), [-3, -4])


def test_an_edited_constant_node_changes_what_folds_from_it() -> None:
    index, facts, t = model("g (float[2,3] x) => (y) { k = Constant<value_ints=[3,2]>()  i = Identity(k)  y = Reshape(x, i) }")
    Edits(index).set_attribute(producer(index, t["k"]), "value_ints", [6, 1])
    assert names(refresh(facts, [t["k"]])) == {"k", "i", "y"}
    assert facts.shape(t["y"]) == (6, 1)


def test_what_fills_a_constant_is_seen() -> None:
    index, facts, t = model(
        "g (float x) => (y) { k = Constant<value_ints=[200]>() f = ConstantOfShape<value = float[1] {2}>(k) y = Neg(f) }"
    )
    before = facts.constant(t["y"])
    node = producer(index, t["f"])
    Edits(index).set_attribute(node, "value", gs.Constant("v", np.array([3], np.float32)))
    assert names(refresh(facts, [t["f"]])) == {"f", "y"}
    assert before[0] == -2 and facts.constant(t["y"])[0] == -3


def test_a_declaration_that_is_edited() -> None:
    _, facts, t = model(CHAIN)
    t["x"].shape = ["N", 3, 9, 9]
    assert names(refresh(facts, [t["x"]])) == {"x", "c", "y", "s", "z", "w"}
    assert facts.shape(t["z"]) == ("N", 3, 7, 7)


def test_a_change_enters_and_leaves_a_body() -> None:
    index, facts, t = model(
        """g (float[2,3] x, bool c) => (z) {
            a = Transpose<perm=[0,1]>(x)
            z = If(c) <then_branch = t () => (p) { p = Relu(a) }, else_branch = e () => (q) { q = Neg(a) }>
            w = Flatten(z)
        }"""
    )
    assert facts.shape(t["w"]) == (2, 3)
    Edits(index).set_attribute(producer(index, t["a"]), "perm", [1, 0])
    assert names(refresh(facts, [t["a"]])) == {"a", "p", "q", "z", "w"}
    assert facts.shape(t["w"]) == (3, 2)


def test_the_inputs_of_a_body_follow_its_owner() -> None:
    index, facts, t = model(
        """g (float[5,4] x, float h) => (z) {
            a = Transpose<perm=[0,1]>(x)
            y, z = Scan(h, a) <num_scan_inputs = 1, body = b (float v, e) => (v2, o) { v2 = Identity(v)  o = Neg(e) }>
        }"""
    )
    assert facts.shape(t["z"]) == (5, 4)
    Edits(index).set_attribute(producer(index, t["a"]), "perm", [1, 0])
    assert names(refresh(facts, [t["a"]])) == {"a", "e", "o", "z"}
    assert facts.shape(t["e"]) == (5,) and facts.shape(t["z"]) == (4, 5)


def test_removed_tensors_are_forgotten() -> None:
    index, facts, t = model(CHAIN)
    edits = Edits(index)
    edits.remove(producer(index, t["w"]))
    assert refresh(facts, [t["w"]]) == []
    assert facts.known(t["w"]) is None


def _fresh(facts: Facts, tensors: Iterable[gs.Tensor]) -> None:
    other = Facts(facts.index)
    for tensor in tensors:
        mine, whole = facts.fact(tensor), other.fact(tensor)
        assert (mine.type, mine.value, mine.mark is None) == (whole.type, whole.value, whole.mark is None), tensor.name
        if mine.mark is not None:
            np.testing.assert_array_equal(facts.constant(tensor), other.constant(tensor))


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_edits_ends_in_the_facts_of_a_fresh_start(seed: int) -> None:
    choose = random.Random(seed)
    x, k = gs.Variable("x", np.float32, ["N", 4, 6]), gs.Constant("k", np.array([2, 3], np.int64))
    tensors: list[gs.Tensor] = [x, k]
    nodes = []
    for i in range(60):
        made = gs.Variable(f"t{i}")
        nodes.append(_random_node(choose, tensors, made))
        tensors.append(made)
    index = GraphIndex(gs.Graph(nodes, [x], tensors[-5:], opset=17))
    facts = Facts(index)
    _fresh(facts, tensors)
    for _ in range(25):
        at = choose.randrange(len(nodes))
        node, edits = nodes[at], Edits(index)
        new = _random_node(choose, tensors[: at + 2], gs.Variable("unused"))
        edits.set_inputs(node, list(new.inputs))
        edits.set_op(node, new.op, "")
        for name in {*node.attrs, *new.attrs}:
            edits.set_attribute(node, name, new.attrs.get(name))
        before = {id(t): facts.fact(t) for t in tensors}
        changed = refresh(facts, node.outputs)
        assert {id(t) for t in changed} == {key for key, fact in before.items() if fact != facts.known(_by_id(tensors, key))}
        _fresh(facts, tensors)


def _by_id(tensors: Iterable[gs.Tensor], key: int) -> gs.Tensor:
    return next(t for t in tensors if id(t) == key)


def _random_node(choose: random.Random, tensors: list[gs.Tensor], made: gs.Tensor) -> gs.Node:
    op, attrs, count = choose.choice(
        [
            ("Shape", {}, 1), ("Concat", {"axis": 0}, 2), ("Reshape", {}, 2), ("Add", {}, 2), ("Mul", {}, 2), ("Relu", {}, 1),
            ("Transpose", {}, 1), ("Gather", {}, 2), ("ConstantOfShape", {}, 1), ("Cast", {"to": 7}, 1), ("Identity", {}, 1),
            ("Flatten", {"axis": choose.randrange(3)}, 1), ("Squeeze", {}, 1), ("Expand", {}, 2), ("Neg", {}, 1),
            ("Nowhere", {}, 1),
        ]
    )  # fmt: skip
    return gs.Node(op, attrs=attrs, inputs=[choose.choice(tensors) for _ in range(count)], outputs=[made])


def test_the_cost_is_that_of_what_changes() -> None:
    tensor = gs.Variable("x", np.float32, ["N", 4])
    graph = gs.Graph(inputs=[tensor], opset=17)
    for i in range(3000):
        made = gs.Variable(f"t{i}")
        graph.nodes.append(gs.Node("Relu", inputs=[tensor], outputs=[made]))
        tensor = made
    facts = Facts(GraphIndex(graph))
    facts.shape(tensor)
    visited: list[gs.Node] = []
    derive = facts.of_node
    facts.of_node = lambda node: (visited.append(node), derive(node))[1]  # type: ignore[method-assign]
    graph.nodes[5].op = "Neg"
    assert refresh(facts, graph.nodes[5].outputs) == []
    assert len(visited) == 1
