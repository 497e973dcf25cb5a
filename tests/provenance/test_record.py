"""The record as text: what is written is read, and what is no record is said to be none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewriter.trust.stamp import RecordedRun, Unreadable, dumps, history, loads

TEXT = st.text(max_size=8)
VALUES = st.one_of(st.booleans(), st.integers(-99, 99), TEXT, st.lists(st.integers(-9, 9), max_size=3))
RUNS = st.builds(
    RecordedRun,
    version=TEXT,
    input=TEXT,
    rules=st.dictionaries(TEXT, st.tuples(st.integers(1, 99), TEXT), max_size=3),
    rule_set=TEXT,
    asked=st.lists(TEXT, max_size=2).map(tuple),
    set=st.dictionaries(TEXT, VALUES, max_size=2),
    source=st.none() | st.tuples(TEXT, TEXT),
    constant_inputs=st.sampled_from((None, True, False)),
    left_out=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=2).map(tuple),
    firings=st.none() | st.integers(0, 99),
    tidy=st.booleans(),
)


@given(st.lists(RUNS, max_size=3).map(tuple))
def test_what_is_written_is_read(runs: tuple[RecordedRun, ...]) -> None:
    text = dumps(runs)
    assert text.isascii()
    assert loads(text) == runs
    assert history({"rewriter.history": text, "other": "{"}) == runs


def test_a_model_without_a_record() -> None:
    assert history({"author": "somebody"}) == ()


GOOD = json.loads(dumps((RecordedRun("0.1.0", "ab", {"MX001": (1, "cd")}, "ef"),)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 2, "runs": []}',
        '{"schema": 1}',
        '{"schema": 1, "runs": [3]}',
        "[" * 100_000,
        " " * (1 << 20) + "{}",
        *(
            json.dumps({"schema": 1, "runs": [{**GOOD["runs"][0], name: value}]})
            for name, value in (
                ("version", 3),
                ("rules", []),
                ("rules", {"MX001": 1}),
                ("rules", {"MX001": [1, 2]}),
                ("set", []),
                ("left_out", [["a", "b"]]),
                ("source", ["a"]),
                ("constant_inputs", "yes"),
                ("firings", "many"),
            )
        ),
        json.dumps({"schema": 1, "runs": [{}]}),
    ],
)
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(Unreadable):
        loads(text)
