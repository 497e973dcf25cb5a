"""Facts of a node that looks like another one are those that the node gives by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.core.facts import facts as facts_module
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model, load
from tests.facts.test_facts import Known

MODELS = sorted((Path(__file__).parents[1] / "models").rglob("*.onnx"))


def all_facts(model: Model) -> list[tuple[object, ...]]:
    """Type, value and constancy of every tensor."""
    index = GraphIndex(model.graph)
    facts = Facts(index)
    tensors = [tensor for scope in index.scopes for node in index.members(scope) for tensor in (*node.inputs, *node.outputs)]
    found = [facts.fact(tensor) for tensor in tensors]
    return [(fact.type, fact.value, fact.mark is None) for fact in found]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name + "/" + path.stem)
def test_remembering_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = all_facts(load(path))
    monkeypatch.setattr(facts_module, "look", lambda *_: None)
    assert found == all_facts(load(path))


CASES = [
    ("(float[2,3] x) => () <int64[2] s = {3, 2}, int64[2] t = {1, 6}>"
     "{ a = Reshape(x, s)  b = Reshape(x, t)  c = Reshape(x, s) }", {"a": (3, 2), "b": (1, 6), "c": (3, 2)}),
    ("(float[2,3] x) => () <int64[1] s = {0}, int64[1] t = {1}>"
     "{ a = Unsqueeze(x, s)  b = Unsqueeze(x, t) }", {"a": (1, 2, 3), "b": (2, 1, 3)}),
    ("(float[2,3] x) => () { a = Transpose(x)  b = Transpose<perm=[0,1]>(x)  c = Transpose<perm=[1,0]>(x) }",
     {"a": (3, 2), "b": (2, 3), "c": (3, 2)}),
    ("(float[2,3] x, float[N,3] y) => () { a = Relu(x)  b = Relu(y)  c = Shape(x)  d = Reshape(y, c) }",
     {"a": (2, 3), "b": ("N", 3), "d": (2, 3)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_what_differs_is_told_apart(text: str, shapes: dict[str, tuple[int | str, ...]]) -> None:
    known = Known(f"g {text}")
    assert {name: known.shape(name) for name in shapes} == shapes


def test_a_declaration_is_of_its_own_tensor() -> None:
    """Two nodes that look alike and infer nothing: what the file says of one is not said of the other."""
    known = Known("g (float[2] x) => () <float[5] a> { a = com.acme.Op(x)  b = com.acme.Op(x) }")
    assert known.shape("a") == (5,)
    assert known.shape("b") is None
