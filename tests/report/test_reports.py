"""Logs as text, as a diff and as JSON."""

from __future__ import annotations

import json

from rewriter.engine.log import Blocked, Change, Condition, Firing, Log, Skipped, Stop
from rewriter.report.jsonreport import log_object, report
from rewriter.report.style import Style, clean
from rewriter.report.terminal import check_lines, fix_lines

PLAIN = Style()


def firing(number: int, root: str, place: str = "main") -> Firing:
    change = Change(root, f"{root} = Relu(x)", f"{root} = Elu(x)")
    return Firing(
        number,
        "TST001",
        "A title",
        "exact",
        "canonical",
        place,
        root,
        "Relu",
        (root,),
        (change,),
        (Condition("a", "true"),),
        (),
        1.0,
    )


LOG = Log(
    [*(firing(i + 1, f"n{i}") for i in range(10)), firing(11, "inner", "If_3.then_branch")],
    [
        Blocked("TST002", "Another", "main", "b0", "Gemm", "rank of x is unknown", 7, "give the shape of x"),
        Blocked("TST002", "Another", "main", "b1", "Gemm", "rank of x is unknown", 7, "give the shape of x"),
        Blocked("TST003", "Third", "main", "b2", "", "division by zero", error=True),
    ],
    [Skipped("TST004", "the model's opset is 8")],
    [Stop("Cycle", "these rules undo each other: A -> B -> A", ("A", "B"), ("n1",))],
    ["a note"],
)


def test_a_repair() -> None:
    lines = list(fix_lines(LOG, PLAIN))
    assert lines[0] == "  TST001 A title"
    assert lines[1] == "      n0 (Relu)"
    assert lines[9] == "      and 3 more"
    assert lines[10:] == [
        "  blocked TST002 b0 (Gemm): rank of x is unknown (line 7 of the rule)",
        "      help: give the shape of x",
        "  blocked TST002 b1 (Gemm): rank of x is unknown (line 7 of the rule)",
        "  failed TST003 b2: division by zero",
        "  stopped Cycle: these rules undo each other: A -> B -> A (at n1)",
        "  note: a note",
    ]


def test_a_check_names_the_file_in_every_line() -> None:
    lines = list(check_lines("m.onnx", LOG, PLAIN))
    assert lines[0] == "m.onnx: TST001 n0 (Relu): A title"
    assert lines[10] == "m.onnx: TST001 If_3.then_branch: inner (Relu): A title"
    assert all(line.startswith(("m.onnx: ", "    help: ")) for line in lines)


def test_json_holds_all_of_the_log() -> None:
    text = report("fix", [{"path": "\x1bm", **log_object(LOG)}], {"models": 1}, 1)
    assert text.isascii()
    assert text.isprintable() or "\x1b" not in text
    whole = json.loads(text)
    assert (whole["schema"], whole["command"], whole["exit_code"], whole["summary"]) == (1, "fix", 1, {"models": 1})
    model = whole["models"][0]
    assert model["counts"] == {"TST001": 11}
    assert model["firings"][0]["changes"] == [{"name": "n0", "before": "n0 = Relu(x)", "after": "n0 = Elu(x)"}]
    assert model["blocked"][2]["error"] is True
    assert model["skipped"] == [{"rule": "TST004", "reason": "the model's opset is 8"}]
    assert model["stops"][0]["kind"] == "Cycle"


def test_colour_and_escapes() -> None:
    assert Style(True).paint("red", "x") == "\x1b[31mx\x1b[0m"
    assert Style(False).paint("red", "x") == "x"
    assert clean("größe 名前") == "größe 名前"
    assert clean("a\x1b[2J\n\t\u202e\u200f\x9b\udc80") == "a\\x1b[2J\\n\\t\\u202e\\u200f\\x9b\\udc80"
