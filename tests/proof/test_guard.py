"""The search for firings that make a model worse, apart from the models that it is made for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rewriter.core.graph.model import Model, load
from rewriter.core.isolation.child import Crash
from rewriter.core.log import Firing, Log
from rewriter.trust.proof import guard, validity
from rewriter.trust.proof.guard import TIDYING, ReplayedRun, Variation, first_bad, guarded
from rewriter.trust.proof.validity import CHECKER, FULL_CHECK, PLAIN, RUNTIME, SESSION, WRITTEN, Candidate

GOOD = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
ILL_TYPED = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[3] y) { y = Relu(x) }'
INVALID = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(nothing) }'
UNKNOWN = '<ir_version: 8, opset_import: ["": 17, "a.b": 1]> g (float[2] x) => (float[2] y) { y = a.b.Op(x) }'
CLASH = """<ir_version: 8, opset_import: ["": 17]> g (float[2,3,2] x) => (float[2,3,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, int64[3] gemm_output_shape = {2, 3, 2}>
{ a = MatMul(x, w) c = Add(a, b) y = Reshape(c, gemm_output_shape) }"""
"""A right model; an optimization of ONNX Runtime makes a constant of a name that it has already."""


def candidate(text: str) -> Candidate:
    return Candidate(Model.from_proto(onnx.parser.parse_model(text)))


def firing(number: int, rule: str = "A001") -> Firing:
    return Firing(number, rule, rule, "exact", "canonical", "main", f"n{number}", "Relu", (), (), (), (), 0.0)


class History:
    """A run of firings 1 to n. After each of them the model is `text(those that happened)`."""

    def __init__(self, firings: int, text: object) -> None:
        self.firings = [firing(number) for number in range(1, firings + 1)]
        self.text = text
        self.runs = 0

    def __call__(self, plan: Variation) -> ReplayedRun:
        self.runs += 1
        left = [f for f in self.firings if (f.rule, f.place, f.root) not in plan.veto and f.rule not in plan.without]
        left = left[: plan.firings]
        text = self.text(frozenset(f.number for f in left))  # type: ignore[operator]
        return ReplayedRun(Model.from_proto(onnx.parser.parse_model(text)), Log(firings=left))

    def roots(self) -> tuple[list[str], list[str]]:
        """(roots that stand, roots that were rolled back)."""
        log = guarded(self(Variation()), self).log
        return [f.root for f in log.firings], [rolled.root for rolled in log.rolled_back]


def test_the_first_bad_firing_is_found_by_halves() -> None:
    asked: list[int] = []

    def ask(number: int) -> str:
        asked.append(number)
        return "broken" if number >= 700 else ""

    assert first_bad(0, 1000, "worse", ask) == (700, "broken")
    assert len(asked) <= 10
    assert first_bad(4, 5, "worse", ask) == (5, "worse")


def test_judges() -> None:
    pytest.importorskip("onnxruntime")
    taken = {text: [judge for judge in validity.JUDGES if candidate(text).refusal(judge) == ""] for text in (GOOD, ILL_TYPED)}
    assert taken[GOOD] == [WRITTEN, CHECKER, FULL_CHECK, *RUNTIME]
    assert taken[ILL_TYPED] == [WRITTEN, CHECKER, *RUNTIME]
    assert candidate(INVALID).first_refusal() is not None
    assert candidate(UNKNOWN).first_refusal() == (SESSION, candidate(UNKNOWN).refusal(SESSION))
    assert "a.b:Op" in (candidate(UNKNOWN).refusal(SESSION) or "")


def clashing() -> Candidate:
    """`CLASH`, where the installed version of ONNX Runtime does not survive it."""
    pytest.importorskip("onnxruntime")
    found = candidate(CLASH)
    if found.refusal(SESSION) == "":
        pytest.skip("this version of ONNX Runtime loads it with its optimizations, too")
    return found


def test_who_refuses_a_model_only_with_its_optimizations_is_named() -> None:
    found = clashing()
    assert (found.refusal(PLAIN), found.loaded_by) == ("", PLAIN)
    only = " (with its default optimizations only: with optimizations off it loads the model)"
    assert (found.runtime_refusal() or "").endswith(only)
    both = candidate(UNKNOWN)
    assert both.loaded_by is None and both.runtime_refusal() == both.refusal(PLAIN) == both.refusal(SESSION)


def test_whether_optimizations_are_off_is_asked_only_where_they_fail() -> None:
    pytest.importorskip("onnxruntime")
    good = candidate(GOOD)
    assert (good.refusal(PLAIN), good.loaded_by, good.runtime_refusal()) == ("", SESSION, "")
    assert [judge for judge, _ in good.answers] == [SESSION]


def test_large_models_are_loaded_with_optimizations_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(validity, "MOST_BYTES_OPTIMIZED", 10)
    large = candidate(CLASH)
    assert (large.refusal(SESSION), large.refusal(PLAIN), large.runtime_refusal()) == (None, "", "")
    assert large.not_loaded().startswith("not loaded with the default optimizations of ONNX Runtime: 0.0 GiB with its data")
    assert not large.unanswered


def test_a_firing_after_which_a_model_fails_only_with_optimizations() -> None:
    clashing()
    plain = CLASH.replace("gemm_output_shape", "shape")
    history = History(9, lambda left: CLASH if 4 in left else plain)
    standing, rolled = history.roots()
    assert rolled == ["n4"] and len(standing) == 8


@pytest.mark.parametrize("firings", [0, 5])
def test_tidying_is_one_more_firing(firings: int) -> None:
    history = History(firings, lambda left: GOOD)

    def replay(plan: Variation) -> ReplayedRun:
        attempt = history(plan)
        if plan.tidies:
            attempt.tidied = 3
            attempt.model = Model.from_proto(onnx.parser.parse_model(INVALID))
        return attempt

    result = guarded(replay(Variation()), replay)
    assert (len(result.log.firings), result.tidied) == (firings, 0)
    (rolled,) = result.log.rolled_back
    assert (rolled.rule, rolled.place, rolled.times) == (TIDYING, "main", 1) and "nothing" in rolled.reason
    assert result.candidate.first_refusal() is None


def test_worse_means_that_a_judge_changed_its_mind_to_no() -> None:
    assert candidate(INVALID).worse_than(candidate(GOOD)) is not None
    assert candidate(GOOD).worse_than(candidate(INVALID)) is None
    assert candidate(INVALID).worse_than(candidate(INVALID)) is None
    assert (candidate(ILL_TYPED).worse_than(candidate(GOOD)) or ("",))[0] == FULL_CHECK


class Doomed(Candidate):
    """A model that ends the process of ONNX Runtime if it has the name "ends"."""

    def _load(self, data: bytes, judge: str) -> str:
        if self.model.graph.name == "ends":
            raise Crash("crashed (SIGSEGV)")
        return super()._load(data, judge)


ENDS = GOOD.replace(" g (", " ends (")


def doomed(text: str) -> Candidate:
    return Doomed(Model.from_proto(onnx.parser.parse_model(text)))


def test_to_end_the_process_is_worse_than_to_be_rejected() -> None:
    pytest.importorskip("onnxruntime")
    assert doomed(ENDS).worse_than(doomed(UNKNOWN)) == (SESSION, "crashed (SIGSEGV)")
    assert doomed(UNKNOWN).worse_than(doomed(ENDS)) is None
    assert doomed(ENDS).worse_than(doomed(ENDS)) is None
    assert doomed(GOOD).worse_than(doomed(ENDS)) is None


def test_a_firing_after_which_a_rejected_model_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(guard, "Candidate", Doomed)
    history = History(9, lambda left: ENDS if 4 in left else UNKNOWN)
    log = guarded(history(Variation()), history).log
    assert [rolled.root for rolled in log.rolled_back] == ["n4"] and len(log.firings) == 8
    assert log.rolled_back[0].reason == "ONNX Runtime ended the process: crashed (SIGSEGV)"


def test_a_model_that_ends_the_process_only_between_two_firings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "Candidate", Doomed)
    history = History(9, lambda left: ENDS if 4 in left and 7 not in left else UNKNOWN)
    assert history.roots() == ([f"n{number}" for number in range(1, 10)], [])


def test_without_onnx_runtime_two_judges_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity.judges, "installed", lambda: False)
    assert candidate(UNKNOWN).first_refusal() is None
    assert candidate(UNKNOWN).refusal(SESSION) is None
    assert candidate(INVALID).worse_than(candidate(GOOD)) is not None


def test_large_models_are_not_loaded_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "MOST_BYTES", 10)
    assert candidate(UNKNOWN).refusal(SESSION) is None
    history = History(1, lambda left: UNKNOWN if left else GOOD)
    log = guarded(history(Variation()), history).log
    assert len(log.firings) == 1
    assert [note.split(": ")[0] for note in log.notes] == ["not loaded into ONNX Runtime"]


def test_one_culprit() -> None:
    history = History(50, lambda left: INVALID if 33 in left else GOOD)
    standing, rolled = history.roots()
    assert rolled == ["n33"]
    assert standing == [f"n{i}" for i in range(1, 51) if i != 33]
    assert history.runs <= 12


def test_several_culprits_of_one_rule_cost_the_rule() -> None:
    history = History(9, lambda left: INVALID if left & {2, 5, 6, 8} else GOOD)
    history.firings[2] = firing(3, "B001")
    log = guarded(history(Variation()), history).log
    assert [f.rule for f in log.firings] == ["B001"]
    assert [(rolled.rule, rolled.place, rolled.times) for rolled in log.rolled_back] == [("A001", "", 8)]


def test_a_firing_that_only_looked_bad_is_pardoned() -> None:
    """Firing 1 breaks, 2 mends, 4 breaks for good: bisection blames 1 first."""

    def text(left: frozenset[int]) -> str:
        return INVALID if (1 in left) != (2 in left) or 4 in left else GOOD

    history = History(4, text)
    history.firings = [firing(number, f"A00{number}") for number in range(1, 5)]
    standing, rolled = history.roots()
    assert (standing, rolled) == (["n1", "n2", "n3"], ["n4"])


def test_a_rule_that_undoes_a_repair() -> None:
    """The input is refused; a repair mends it, and another rule breaks it in another way."""
    pytest.importorskip("onnxruntime")
    broken = GOOD.replace("Relu", "Concat<axis=7>")

    def text(left: frozenset[int]) -> str:
        return UNKNOWN if 2 in left else GOOD if 1 in left else broken

    history = History(2, text)
    history.firings[1] = firing(2, "B001")
    log = guarded(history(Variation()), history).log
    assert [f.rule for f in log.firings] == ["A001"]
    assert [rolled.rule for rolled in log.rolled_back] == ["B001"]


def test_external_data_are_found_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[600] x) => (float[600] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(600, np.float32), "w"))
    (tmp_path / "net" / "data").mkdir(parents=True)
    onnx.save(model, tmp_path / "net" / "net.onnx", save_as_external_data=True, location="data/w.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)
    loaded = Candidate(load(tmp_path / "net" / "net.onnx"))
    assert [loaded.refusal(judge) for judge in validity.JUDGES] == [""] * 5
    (tmp_path / "net" / "data" / "w.bin").unlink()
    lost = Candidate(load(tmp_path / "net" / "net.onnx"))
    assert [lost.refusal(judge) for judge in validity.JUDGES] == ["", None, None, None, None]
