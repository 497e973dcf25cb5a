"""A result that loads and does not run where the model as it was ran."""

from __future__ import annotations

import onnx
import pytest

from rewriter.core.graph.model import Model
from rewriter.core.isolation.child import Crash
from rewriter.trust.proof import validity
from rewriter.trust.proof.judges import Session
from rewriter.trust.proof.model_inputs import Feed
from rewriter.trust.proof.validity import Candidate, RunFailure, Running, failure_in_check
from tests.proof.test_guard import History

pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
RUNS = "(float[N, 6] x) => (float[A, B] y) { c = Constant<value = int64[2] {-1, 3}>() y = Reshape(x, c) }"
FAILS = "(float[N, 6] x) => (float[A, B] y) { c = Constant<value = int64[2] {-1, 5}>() y = Reshape(x, c) }"
ENDLESS = (
    "(float[2] x) => (float[2] y) { c = Constant<value = bool {1}>() y = Loop<body = b "
    "(int64 i, bool t, float[2] a) => (bool u, float[2] o) { u = Identity(t) o = Neg(a) }>(, c, x) }"
)


def candidate(text: str) -> Candidate:
    return Candidate(Model.from_proto(onnx.parser.parse_model(HEAD + text)))


def refusal(after: str, before: str) -> str | None:
    return Running(lambda: candidate(before)).refusal(candidate(after))


def test_it_loads_and_does_not_run() -> None:
    assert candidate(FAILS).first_refusal() is None
    assert "Reshape" in (refusal(FAILS, RUNS) or "")
    assert refusal(RUNS, FAILS) == ""
    assert refusal(FAILS, FAILS) is None


def test_the_model_as_it_was_is_loaded_only_when_the_result_fails() -> None:
    def never() -> Candidate:
        raise AssertionError("it was asked for")

    assert Running(never).refusal(candidate(RUNS)) == ""


def test_a_failure_of_made_up_inputs_shows_in_both() -> None:
    """Place 1 is outside of an axis of length 1, whatever the rules did; with place 0 both run, and the result need not."""
    text = "(float[1] x, int64[1] i) => (float[1] y) {{ a = Gather(x, i) {} }}"
    kept = text.format("y = Identity(a)")
    fails = text.format("c = Constant<value = int64[1] {2}>() b = Gather(x, c) y = Add(a, b)")
    assert refusal(kept, kept) == ""
    assert "Gather" in (refusal(fails, kept) or "")


def test_a_fixed_batch_is_found_where_the_batch_is_open() -> None:
    text = "(float[N, 2] x) => (float[M] y) {{ c = Constant<value = int64[1] {{{}}}>() y = Reshape(x, c) }}"
    assert "Reshape" in (refusal(text.format(6), text.format(-1)) or "")


@pytest.mark.parametrize(("name", "bound"), [("MOST_BYTES_TO_RUN", 10), ("MOST_BYTES_OF_INPUTS", 10)])
def test_what_is_large_is_not_run(monkeypatch: pytest.MonkeyPatch, name: str, bound: int) -> None:
    monkeypatch.setattr(validity, name, bound)
    assert refusal(FAILS, RUNS) is None


def test_a_long_run_is_ended_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "SECONDS", 0.2)
    assert refusal(ENDLESS, RUNS) is None


def test_a_result_that_ends_the_process_is_a_result_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(session: Session, names: object, feed: Feed, *, seconds: float) -> list[object]:
        if b"Reshape" in session._model[1]:
            raise Crash("crashed (SIGFPE)")
        return []

    monkeypatch.setattr(Session, "run", crash)
    sound = "(float[N, 6] x) => (float[A, B] y) { y = Identity(x) }"
    assert refusal(RUNS, sound) == "crashed (SIGFPE)"
    assert refusal(RUNS, FAILS) is None
    assert refusal(sound, RUNS) == ""


def test_the_firing_is_found_and_the_rest_stays() -> None:
    history = History(9, lambda left: HEAD + (FAILS if 4 in left else RUNS))
    standing, rolled = history.roots()
    assert rolled == ["n4"] and len(standing) == 8


ALWAYS = "(float[1, 1, 2, 2, 2, 2] x) => (float[A, B, C, D, E, F] y) { y = MaxPool<kernel_shape = [1, 1, 1, 1]>(x) }"
"""ONNX Runtime loads poolings of four axes, and runs those of three."""


def failure(text: str) -> RunFailure | None:
    return failure_in_check(candidate(text))


def test_a_model_that_no_input_can_make_run() -> None:
    found = failure(ALWAYS)
    assert found is not None and found.certain and not found.note
    assert found.refusal.startswith("it loads, and fails on generated inputs: ") and "MaxPool" in found.refusal
    assert failure(RUNS) is None


@pytest.mark.parametrize(
    "text",
    [
        FAILS,  # another batch, another reason
        ALWAYS.replace("2] x)", "2] x, int64[1] i)"),
        ALWAYS.replace("2, 2, 2, 2] x", "M, M, M, M] x"),
        ALWAYS.replace("{ y", "{ n = NonZero(x) y"),
        "(float[2] x) => (float[A, B] y) { y = ai.onnx.ml.OneHotEncoder<cats_int64s = [7], zeros = 0>(x) }",
    ],
)
def test_inputs_that_may_be_at_fault_are_noted(text: str) -> None:
    text = HEAD.replace("17]", '17, "ai.onnx.ml": 3]') + text
    found = failure_in_check(Candidate(Model.from_proto(onnx.parser.parse_model(text))))
    assert found is not None and not found.certain and not found.refusal
    assert "the inputs may be the cause" in found.note


def test_a_check_gives_up_on_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "SECONDS_OF_CHECK", 0.2)
    assert failure(ENDLESS) is None
