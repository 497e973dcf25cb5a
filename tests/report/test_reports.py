"""Logs as text."""

from __future__ import annotations

from dataclasses import replace

from rewriter.app.report.terminal import check_lines, fix_lines
from rewriter.workbench.style import Style, clean
from tests.report.samples import log

PLAIN = Style()
LOG = replace(log(), rolled_back=[], suppressed=[], verification=None)


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
        "  stopped: these rules undo each other: A -> B -> A (at n1)",
        "  note: a note",
    ]


def test_a_check_names_the_file_in_every_line() -> None:
    lines = list(check_lines("m.onnx", LOG, PLAIN))
    assert lines[0] == "m.onnx: TST001 n0 (Relu): A title"
    assert lines[10] == "m.onnx: TST001 If_3.then_branch: inner (Relu): A title"
    assert all(line.startswith(("m.onnx: ", "    help: ")) for line in lines)


def test_colour_and_escapes() -> None:
    assert Style(True).paint("red", "x") == "\x1b[31mx\x1b[0m"
    assert Style(False).paint("red", "x") == "x"
    assert clean("größe 名前") == "größe 名前"
    assert clean("a\x1b[2J\n\t\u202e\u200f\x9b\udc80") == "a\\x1b[2J\\n\\t\\u202e\\u200f\\x9b\\udc80"
