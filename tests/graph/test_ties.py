"""Who makes and who reads a tensor, before, while and after rules edit a graph: whatever lists somebody holds are right again."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import pytest

import rewriter
from rewriter.core.engine.run import run
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import CROWD, GraphIndex
from rewriter.core.language.rules import RuleSet

MODEL = """<ir_version: 8, opset_import: ["": 13]>
g (float[N,4] x) => (float[N,4] y) {
  [i] a = Identity(x)  [s] b = Sigmoid(a)  [n] c = Neg(a)  [d] d = Add(b, c)  [q] e = Mul(d, d)  [j] f = Identity(e)  [r] y = Relu(f)
}"""


def own() -> gs.Graph:
    return rewriter.Model.from_proto(onnx.parser.parse_model(MODEL)).graph


def foreign() -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(MODEL))


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    (tmp_path / "my.rules").write_text(
        "/// Nothing.\nrule TST001 identity <kind: exact, default: on>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"
    )
    return rewriter.load_rules([tmp_path]).select(["TST001"], [])


def ties(graph: gs.Graph) -> dict[str, tuple[list[str], list[str]]]:
    """By name, the makers and the readers of all tensors, as their lists have them."""
    found = {t.name: t for node in graph.nodes for t in (*node.inputs, *node.outputs)}
    return {name: ([n.name for n in t.inputs], [n.name for n in t.outputs]) for name, t in found.items()}


def from_nodes(graph: gs.Graph) -> dict[str, tuple[list[str], list[str]]]:
    """The same as it follows from the nodes."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for node in graph.nodes:
        for tensor in node.inputs:
            found.setdefault(tensor.name, ([], []))[1].append(node.name)
        for tensor in node.outputs:
            found.setdefault(tensor.name, ([], []))[0].append(node.name)
    return found


@pytest.mark.parametrize("make", [own, foreign])
@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_lists_are_right_after_a_run_and_are_the_same_lists(make: object, looked: bool, keep: bool, rules: RuleSet) -> None:
    graph = make()  # type: ignore[operator]
    tensors = {t.name: t for node in graph.nodes for t in (*node.inputs, *node.outputs)}
    held = {name: (t.inputs, t.outputs) for name, t in tensors.items()} if looked else {}
    log = run(graph, rules, keep=keep)
    assert len(log.firings) == 2
    assert {name: tuple(map(sorted, ends)) for name, ends in ties(graph).items()} == {
        name: tuple(map(sorted, ends)) for name, ends in from_nodes(graph).items()
    }
    for name, (makers, readers) in held.items():
        assert tensors[name].inputs is makers
        assert tensors[name].outputs is readers
    if make is foreign:
        assert not any(name.startswith("_") and name != "_values" for t in tensors.values() for name in vars(t))


@pytest.mark.parametrize("make", [own, foreign])
def test_nodes_that_were_taken_out_by_hand_read_nothing(make: object, rules: RuleSet) -> None:
    graph = make()  # type: ignore[operator]
    run(graph, rules, keep=False)
    sigmoid, negation = graph.nodes[1], graph.nodes[2]
    assert sigmoid.op == "Sigmoid"
    graph.nodes.remove(sigmoid)  # still tied to its tensors
    index = GraphIndex(graph)
    assert index.users(graph.nodes[0].outputs[0]) == {id(negation): negation}
    assert index.producer(sigmoid.outputs[0]) is None
    assert sigmoid not in index


def test_a_second_maker_stays_where_nothing_is_edited() -> None:
    graph = foreign()
    first, second = graph.nodes[1], graph.nodes[2]
    second.outputs[0] = first.outputs[0]
    index = GraphIndex(graph)
    assert index.producer(first.outputs[0]) is first
    assert index.users(first.outputs[0])
    index.finish()
    assert list(first.outputs[0].inputs) == [first, second]


@pytest.mark.parametrize("make", [own, foreign])
def test_edits_taken_back_leave_all_readers_of_a_crowd(make: object) -> None:
    graph = make()  # type: ignore[operator]
    x = graph.inputs[0]
    for number in range(2 * CROWD):
        graph.nodes.append(gs.Node("Neg", f"n{number}", inputs=[x], outputs=[gs.Variable(f"o{number}")]))
    before = ties(graph)
    index = GraphIndex(graph)
    edits = Edits(index)
    edits.replace_uses(x, graph.nodes[0].outputs[0])
    negations = list(index.users_with(graph.nodes[0].outputs[0], frozenset({("", "Neg")})))
    assert len(negations) == 2 * CROWD + 1
    assert not index.is_used(x)
    edits.rollback()
    index.finish()
    assert {name: sorted(ends[1]) for name, ends in ties(graph).items()} == {
        name: sorted(ends[1]) for name, ends in before.items()
    }
