"""Plain tables, and the literals that all source files are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewriter.core.errors import RewriterError
from rewriter.core.framework.source_info import NotOfType, Value, parse_as, parse_literal
from rewriter.trust.source.find import load_source


def test_json_table(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(
        '{"bn0": {"fix_gamma": true, "axis": 1, "pads": [1, 2], "mode": "same", "none": null}, "nodes": {"a": "1"}}'
    )
    info = load_source(path)
    assert info.attribute("bn0", "fix_gamma", False) is True
    assert info.attribute("bn0", "fix_gamma") is True
    assert info.attribute("bn0", "axis", 0) == 1
    assert info.attribute("bn0", "pads", [0]) == [1, 2]
    assert info.attribute("bn0", "mode") == "same"
    assert info.attribute("bn0", "none", 3) is None
    assert info.node_for("nodes") == "nodes"
    assert info.node_for("bn0_helper", ["bn0_helper"]) is None


def test_csv_table(tmp_path: Path) -> None:
    path = tmp_path / "table.CSV"
    path.write_text('Node,attribute,value\nconv0,pad,"(1, 1)"\n\nconv0,no_bias,True\n')
    info = load_source(path)
    assert info.attribute("conv0", "pad", [0]) == [1, 1]
    assert info.attribute("conv0", "no_bias", False) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line"),
        ("a,b,c\n", "first line"),
        ("node,attribute,value\na,b\n", "line 2 has 2 cells instead of 3"),
        ('node,attribute,value\na,b,"c\n', "line 2: unexpected end of data"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(RewriterError, match=message):
        load_source(path)


@pytest.mark.parametrize(
    ("text", "like", "expected"),
    [
        ("True", False, True),
        ("1", False, True),
        ("false", True, False),
        ("3", 0, 3),
        ("3L", 0, 3),
        ("-4.0", 0, -4),
        ("1e-05", 0.0, 1e-5),
        ("2", 0.0, 2.0),
        ("(3L, 3L)", [], [3, 3]),
        ("(3,)", [], [3]),
        ("(3)", [], [3]),
        ("3", [], [3]),
        ("[]", [], []),
        ("(0, 1, None, 2)", [], [0, 1, None, 2]),
        ("None", 1, None),
        ("None", [], None),
        ("None", "", "None"),
        ("(3L, 3L)", "", "(3L, 3L)"),
    ],
)
def test_read_by_type(text: str, like: Value, expected: Value) -> None:
    found = parse_as(text, like)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("maybe", True),
        ("2", True),
        ("0.5", 1),
        ("True", 1),
        ("relu", 1.0),
        ("(1", []),
        ("1 2", []),
        ("9" * 30, 1),
        ("[" * 40, []),
    ],
)
def test_text_of_another_type(text: str, like: Value) -> None:
    with pytest.raises(NotOfType):
        parse_as(text, like)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("relu", "relu"),
        ("1", 1),
        ("0.5", 0.5),
        ("True", True),
        ("None", None),
        ("u'same'", "same"),
        ('["zero", {}]', '["zero", {}]'),
        ("1.2.3", "1.2.3"),
        ("((1, 2), (3,))", [[1, 2], [3]]),
        ("", ""),
        ("-inf", float("-inf")),
    ],
)
def test_guess(text: str, expected: Value) -> None:
    assert parse_literal(text) == expected


@given(st.text(alphabet="()[],.0123456789-+eELl 'uNoneTru", max_size=60))
def test_any_text_is_read_or_kept(text: str) -> None:
    parse_literal(text)
