"""The published schema says what reports are, and reports are what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rewriter.app.report.printout import report_pieces
from rewriter.core.log import Verification
from tests.report.samples import HOSTILE, hostile, model, report

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "report.json").read_text(encoding="utf-8"))


def strict(schema: Any) -> Any:
    """The schema with every field that it does not name forbidden."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if "required" in schema else closed


def test_it_is_a_schema_and_describes_every_record() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert all(record["description"] for record in PUBLISHED["$defs"].values())
    assert set(PUBLISHED["$defs"]) >= {"Firing", "Change", "Condition", "Weight", "Blocked", "RolledBack", "Judged", "Stop"}
    assert PUBLISHED["$defs"]["Firing"]["properties"]["parents"]["description"].startswith("numbers of earlier firings")


@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_reports_are_valid_and_say_everything(name: str) -> None:
    text = "".join(report_pieces(hostile(name)))
    assert text.isascii()
    whole = json.loads(text)
    jsonschema.validate(whole, strict(PUBLISHED))
    firing = whole["models"][0]["firings"][0]
    assert "snapshot" not in firing
    assert firing["root"] == (name or "")
    assert firing["conditions"][0].keys() == {"text", "value", "found"}


def test_a_report_without_a_field_is_not_valid() -> None:
    whole = json.loads("".join(report_pieces(report())))
    del whole["models"][0]["firings"][0]["verdict"]
    with pytest.raises(jsonschema.ValidationError, match="verdict"):
        jsonschema.validate(whole, PUBLISHED)


def test_infinity_is_no_number_in_json() -> None:
    one = replace(model(), verification=Verification("differ", largest=math.inf))
    whole = json.loads("".join(report_pieces(report(one))), parse_constant=lambda text: pytest.fail(text))
    assert whole["models"][0]["verification"]["largest"] is None
