"""What the functions on text give: conditions on names rest on them."""

from __future__ import annotations

import pytest

from rewriter.core.conditions.value_functions import LIST_BODIES
from tests.engine.helpers import rewrite_text


@pytest.mark.parametrize(
    "name, part",
    [("floordiv", "floordiv"), ("a/b/floordiv_1", "floordiv_1"), ("floordiv/TruncateDiv", "TruncateDiv"), ("a/", "")],
)
def test_last_part_is_what_follows_the_last_separator(name: str, part: str) -> None:
    rule = (
        f'rule X1 f <kind: exact> match {{ [n] y = Neg(t) }} where last_part(name(n), "/") == "{part}" rewrite {{ y = Abs(t) }}'
    )
    assert rewrite_text(f'g (float[2] t) => (float[2] y) {{ ["{name}"] y = Neg(t) }}', rule).fired == ["X1"]


def test_last_part_needs_a_separator() -> None:
    rule = 'rule X1 f <kind: exact> match { [n] y = Neg(t) } where last_part(name(n), "") == "" rewrite { y = Abs(t) }'
    assert rewrite_text("g (float[2] t) => (float[2] y) { [a] y = Neg(t) }", rule).fired == []


@pytest.mark.parametrize(
    "text, pattern, fits",
    [
        ("/encoder/layer.0/attn/MatMul", "/encoder/*/attn/MatMul*", True),
        ("/encoder/layer.0/attn/MatMul_1", "/encoder/*/attn/MatMul", False),
        ("Conv_12", "Conv_??", True),
        ("Conv_1", "Conv_??", False),
        ("a[0]", "a[0]", True),
        ("a0", "a[0]", False),
        ("", "*", True),
        ("", "?", False),
        ("", "", True),
        ("abcab", "*ab", True),
        ("abcabc", "*ab", False),
        ("a" * 2000, "*a" * 200 + "b", False),
    ],
)
def test_glob(text: str, pattern: str, fits: bool) -> None:
    assert LIST_BODIES["glob"](None, text, pattern) is fits


@pytest.mark.parametrize("text, plain", [("", True), ("naive_1", True), ("naïve", False), ("中", False)])
def test_is_ascii(text: str, plain: bool) -> None:
    assert LIST_BODIES["is_ascii"](None, text) is plain
