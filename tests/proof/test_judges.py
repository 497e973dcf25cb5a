"""What judges may take: those that hang, take all memory or end their process cost one answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.core.graph.model import Model, load
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.core.isolation.child import NoAnswer, OutOfMemory, TooSlow
from rewriter.core.onnxfile.part import expanded, expands_too_much
from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import CHECKER, FULL_CHECK, SESSION, RefusedError, Session
from rewriter.trust.proof.validity import REFERENCE, Candidate, CannotRun, ModelRun
from tests.hostile import poison_models

pytest.importorskip("onnxruntime")

FEED = {"x": np.ones(4, np.float32)}


@pytest.fixture(autouse=True)
def budget() -> Iterator[Budget]:
    with budgeted(Budget(240.0, 2 << 30)) as made:
        yield made


def session(name: str, folder: Path, runtime: str = SESSION) -> Session:
    """A poison model with its nodes in order."""
    poison_models.POISON[name](folder)
    model = onnx.load(folder / f"{name}.onnx", load_external_data=False)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([nodes[-1], *nodes[:-1]])
    return Session(model.SerializeToString(), folder, runtime)


@pytest.mark.parametrize("runtime", [SESSION, REFERENCE])
def test_a_loop_without_end(tmp_path: Path, runtime: str) -> None:
    with pytest.raises(TooSlow, match=r"did not answer within 1 s"):
        session("endless-loop", tmp_path, runtime).run(None, FEED, seconds=1.0)


@pytest.mark.parametrize("name", ["constant-of-2-31", "expand-to-2-36", "concat-doubled-40-times"])
def test_memory_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises((OutOfMemory, TooSlow), match=r"needs more than the memory limit of 2 GiB|did not answer"):
        session(name, tmp_path).run(None, FEED)


def test_weights_of_64_gib(tmp_path: Path) -> None:
    with pytest.raises((NoAnswer, RefusedError)):
        session("sparse-external-data", tmp_path).run(None, FEED)


def test_a_session_outlives_its_process() -> None:
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Neg(x) }')
    made = Session(model.SerializeToString(), None)
    assert (made.outputs, made.run(None, FEED)[0].tolist()) == (["y"], [-1.0] * 4)
    judges._CHILD.close()
    assert made.run(["y"], FEED)[0].tolist() == [-1.0] * 4
    assert made.run([], FEED) == []
    with pytest.raises(RefusedError, match="Invalid rank"):
        made.run(None, {"x": np.ones((1, 4), np.float32)})


def test_one_session_at_a_time_where_weights_are_in_other_files(tmp_path: Path) -> None:
    """Nobody wants the weights of two states of a model in memory."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Add(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    data = (tmp_path / "m.onnx").read_bytes()
    first, second = (Session(data, tmp_path) for _ in range(2))
    assert first.run(None, FEED)[0].tolist() == second.run(None, FEED)[0].tolist() == [2.0] * 4
    keys = first._key, second._key
    kept = [judges._ask("", "run", key, SESSION, None, tmp_path, None, FEED) for key in keys]
    assert [isinstance(found, judges.NotKept) for found in kept] == [True, False]


def test_who_was_too_slow_is_not_asked_again(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        raise TooSlow("did not answer within 1 s")

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
    monkeypatch.setattr(judges._CHILD, "ask", slow)
    one, other = (Candidate(Model.from_proto(onnx.parser.parse_model(text))) for _ in range(2))
    assert one.refusal(SESSION) is None and one.unanswered == {SESSION: "ONNX Runtime did not answer within 1 s"}
    monkeypatch.undo()
    assert other.refusal(SESSION) is None and other.refusal(FULL_CHECK) == ""
    budget.silent.clear()
    assert Candidate(other.model).refusal(SESSION) == ""


def test_functions_that_stand_for_too_much_are_put_before_no_judge(tmp_path: Path) -> None:
    poison_models.POISON["functions-doubled-40-times"](tmp_path)
    candidate = Candidate(load(str(tmp_path / "functions-doubled-40-times.onnx")))
    assert candidate.refusal(SESSION) is None and candidate.refusal(FULL_CHECK) is None
    assert "topologically sorted" in (candidate.refusal(CHECKER) or "")
    told = "did not run, because the functions of the model expand to more than 100,000 nodes"
    assert candidate.unanswered == {judge: f"{judge} {told}" for judge in (SESSION, FULL_CHECK)}
    for runtime in (SESSION, REFERENCE):
        with pytest.raises(CannotRun, match=f"^{runtime}.* expand to more than 100,000 nodes"):
            ModelRun(candidate, runtime)


def test_what_functions_stand_for() -> None:
    a, b, c, relu = ("", "a"), ("", "b"), ("", "c"), ("", "Relu")
    assert expanded({a: [relu], b: [a, a, relu], c: [b, b]}, [c, relu, a]) == 7
    assert expanded({a: [b], b: [a]}, [a]) == float("inf")
    assert expanded({a: [a], b: [relu]}, [b]) == 1
    chain = {("", str(i)): [("", str(i - 1))] for i in range(60_000)}
    assert expanded(chain, [("", "59999")]) == 1
    assert not expands_too_much(onnx.ModelProto())
