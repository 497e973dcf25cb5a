"""What is written as TOML is one printable line, and is read as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rewriter.trust.plan_file import comment, key, value
from rewriter.trust.toml_text import parse

SCALARS = st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


@given(VALUES, st.text(), st.text())
def test_it_reads_back(found: Any, name: str, said: str) -> None:
    line = f"{key(name)} = {value(found)}"
    assert line.isprintable()
    assert comment(said).isprintable()
    assert parse(f"{comment(said)}\n{line}\n", "a text") == {name: found}
