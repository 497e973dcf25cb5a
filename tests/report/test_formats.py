"""Reports as SARIF, JUnit, CSV, Markdown and annotations: what they say, that others can read it, and that no name escapes."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import junitparser
import pytest
import xmlschema
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif

from rewriter.app.report.document import AnswerRecord, ModelRecord
from rewriter.app.report.formats import ENDINGS, form_of, text_of
from rewriter.app.report.formats.csv_table import COLUMNS, FORMULAS
from rewriter.app.report.formats.sarif import uri
from tests.report.samples import HOSTILE, hostile, model, report

FORMS = sorted({*ENDINGS.values(), "github"})
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e\ud800-\udfff\ufffe]")


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_says_the_format(ending: str) -> None:
    assert form_of(f"a.b/X{ending.upper()}") == ENDINGS[ending]


@pytest.mark.parametrize("place", ["docs/report.md", "rewriter/app/cli/options.py"])
def test_every_ending_is_explained(place: str) -> None:
    said = (Path(__file__).parents[2] / place).read_text(encoding="utf-8")
    assert [ending for ending in ENDINGS if not re.search(rf"[` ]{re.escape(ending)}\b", said)] == []


def test_other_endings_say_nothing() -> None:
    assert form_of("report") is None
    assert form_of("report.txt") is None


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", FORMS)
def test_no_name_brings_control_characters_into_a_report(form: str, name: str, command: str) -> None:
    text = text_of(hostile(name, command), form)
    assert not CONTROL.search(text.replace("\r\n", "\n") if form == "csv" else text)
    text.encode("utf-8")


# --- SARIF ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_sarif_is_as_the_standard_wants_it(name: str, command: str) -> None:
    whole = json.loads(text_of(hostile(name, command), "sarif"))
    Sarif.model_validate(whole)
    run = whole["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
        assert result.get("kind", "fail") == "fail" or result["level"] == "none"
        assert result["message"]["text"]


def test_sarif_says_what_was_found() -> None:
    run = json.loads(text_of(report(), "sarif"))["runs"][0]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("TST001", "warning")
    assert first["locations"][0]["logicalLocations"] == [{"name": "n0", "fullyQualifiedName": "main/n0"}]
    assert "-n0 = Relu(x)" in first["properties"]["changes"]
    assert [result["kind"] for result in run["results"] if "kind" in result] == ["open", "open"]
    assert run["artifacts"][0]["hashes"] == {"sha-256": "cd" * 32}
    told = [notification["message"]["text"] for notification in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("rolled back" in text for text in told)
    assert any("division by zero" in text for text in told)
    assert any("no ONNX model" in text for text in told)
    assert run["invocations"][0]["executionSuccessful"] is False


def test_fingerprints_go_by_rule_and_place() -> None:
    results = json.loads(text_of(report(), "sarif"))["runs"][0]["results"]
    marks = [result["partialFingerprints"]["rewriter/v1"] for result in results if "partialFingerprints" in result]
    assert (len(marks), len(set(marks))) == (14, 13)  # what was suppressed at n9 is at n9


def test_paths_as_uris() -> None:
    assert uri("a b/c#d%.onnx") == "a%20b/c%23d%25.onnx"
    assert uri("c:x") == "c%3Ax"
    assert uri("/a b") == "file:///a%20b"
    assert uri("\udcff") == "%ED%B3%BF"


# --- JUnit ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_junit_is_read_by_others(name: str, command: str) -> None:
    xml = junitparser.JUnitXml.fromstring(text_of(hostile(name, command), "junit").encode())
    said = xml.tests, xml.failures, xml.errors, [(s.tests, s.failures, s.errors, s.skipped) for s in xml]
    xml.update_statistics()
    assert said == (xml.tests, xml.failures, xml.errors, [(s.tests, s.failures, s.errors, s.skipped) for s in xml])


JUNIT = xmlschema.XMLSchema(Path(__file__).parent / "junit-10.xsd")  # of Jenkins' xUnit plugin; its licence is in it


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_junit_is_valid_by_its_schema(name: str, command: str) -> None:
    JUNIT.validate(text_of(hostile(name, command), "junit"))


def cases(command: str) -> dict[str, list[str]]:
    xml = junitparser.JUnitXml.fromstring(text_of(report(command=command), "junit").encode())
    return {case.name: [type(result).__name__ for result in case.result] for suite in xml for case in suite}


def test_a_finding_is_a_failure_and_a_repair_is_none() -> None:
    checked, fixed = cases("check"), cases("fix")
    assert checked["TST001 A title"] == ["Failure"]
    assert fixed["TST001 A title"] == []
    assert fixed["TST001 A title (rolled back)"] == ["Failure"]
    assert fixed["TST002 Another (unknown)"] == ["Skipped"]
    assert fixed["TST003 Third (failed)"] == ["Error"]
    assert fixed["can be worked on"] == ["Error"]
    assert checked["no rule would fire"] == []


# --- CSV --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_no_cell_is_a_formula(name: str) -> None:
    rows = list(csv.reader(io.StringIO(text_of(hostile(name), "csv"), newline="")))
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert not [cell for row in rows for cell in row if cell.lstrip()[:1] and cell.lstrip()[0] in FORMULAS]
    assert not [cell for row in rows for cell in row if "\n" in cell or "\r" in cell]


def test_a_row_for_everything() -> None:
    rows = list(csv.DictReader(io.StringIO(text_of(report(), "csv"), newline="")))
    assert [row["entry"] for row in rows] == [
        "model", *["firing"] * 11, "rolled back", "blocked", "blocked", "failed", "suppressed", "stopped: Cycle", "model", "model",
    ]  # fmt: skip
    whole, first, second = rows[:3]
    assert (whole["model"], whole["verdict"], whole["rule"]) == (first["model"], "still rejected", "TST001")
    assert (first["number"], first["rule"], first["node"], first["verdict"]) == ("1", "TST001", "n0", "kept")
    assert (first["before"], first["after"]) == ("n0 = Relu(x); old = Abs(x)", "n0 = Elu(x); new = Abs(x)")
    assert first["weights"] == "w float[3,5]#abababababab (both)"
    assert first["conditions"] == "rank(x) > 2 [rank(x) is 4]"
    assert second["parents"] == "1"
    assert rows[-1]["reason"] == "bad.onnx: no ONNX model"


# --- Markdown ---------------------------------------------------------------------------------------------------------------


def test_a_check_has_no_columns_about_results() -> None:
    assert "| models | with findings | clean | failed | rejected | not checked | |\n" in text_of(
        report(command="check"), "markdown"
    )
    whole = next(csv.DictReader(io.StringIO(text_of(report(model(), command="check"), "csv"), newline="")))
    assert whole["verdict"] == "rejected"


def outside_of_code(text: str) -> str:
    """What Markdown looks into: without fenced blocks and code spans."""
    without = re.sub(r"^(`{3,})diff\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![`\\])(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", without)


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_looks_into_no_name(name: str, command: str) -> None:
    text = text_of(hostile(name, command), "markdown")
    plain = re.sub(r"\\.", "", outside_of_code(text))
    assert not re.search(r"[<@]|\]\(|!\[", plain)
    for line in text.splitlines():
        if line.startswith("| `"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 7


def test_markdown_tells_what_was_changed() -> None:
    text = text_of(report(), "markdown")
    assert text.startswith("# rewriter fix: 11 rewrites in 3 models\n")
    assert "| TST001 | exact | warning | 11 | A title |" in text
    assert "```diff\n-n0 = Relu(x)\n+n0 = Elu(x)\n+new = Abs(x)\n-old = Abs(x)\n```" in text
    assert "- `rank(x) > 2`: `rank(x) is 4`" in text
    assert "**rolled back** TST001" in text
    assert "**Failed**: `bad.onnx: no ONNX model`" in text


# --- annotations ------------------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"::(error|warning|notice) file=[^:,\n]*,title=[^:,\n]*::[^\n]+")


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", HOSTILE)
def test_every_line_is_one_annotation(name: str, command: str) -> None:
    lines = text_of(hostile(name, command), "github").splitlines()
    assert len(lines) == (8 if name else 6)
    assert all(COMMAND.fullmatch(line) for line in lines if name), lines


def test_annotations_are_grouped_by_rule() -> None:
    lines = text_of(report(command="check"), "github").splitlines()
    assert lines[0].startswith("::warning file=models/net.onnx,title=TST001 A title::n0 (Relu), n1 (Relu)")
    assert lines[0].endswith(" and 3 more")
    assert lines[-1] == "::error file=bad.onnx,title=cannot be worked on::bad.onnx: no ONNX model"


def test_nothing_to_say() -> None:
    assert text_of(report(ModelRecord("a.onnx", status="clean")), "github") == ""
    assert "without findings or changes" not in text_of(report(model()), "markdown")


# --- models that ONNX Runtime rejects ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["html", "markdown", "junit", "github"])
@pytest.mark.parametrize(
    ("counts", "remaining", "words"),
    [
        ({"TST001": 1}, None, "repaired by TST001"),
        ({"TST009": 1}, None, "perhaps repaired by TST009"),
        ({}, None, "not repaired; this message is a symptom of TST001, TST002"),
        ({"TST001": 1}, "no kernel", "not repaired; this message is a symptom of TST002"),
    ],
)
def test_only_rules_that_fire_repair_a_rejected_model(
    form: str, counts: dict[str, int], remaining: str | None, words: str
) -> None:
    answers = tuple(AnswerRecord(rule, "no kernel", 1.0) for rule in ("TST001", "TST002"))
    rejected = replace(model(), refusal="no kernel", remaining=remaining, counts=counts, answers=answers)
    text = re.sub(r"<[^>]*>", "", text_of(report(rejected, command="check" if remaining is None else "fix"), form))
    assert re.search(rf"(?<!perhaps ){words}(?!, TST)", text)
