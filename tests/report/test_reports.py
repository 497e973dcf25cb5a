"""Logs as text."""

from __future__ import annotations

from dataclasses import replace

from rewriter.app.report.terminal import check_lines, fix_lines
from rewriter.app.style import Style, clean
from rewriter.core.log import Change
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


def test_a_check_is_one_message_with_the_places_of_a_rule_counted() -> None:
    lines = list(check_lines("m.onnx", LOG, ["rejected by ONNX Runtime: why"], PLAIN))
    assert lines[:3] == [
        "m.onnx: rejected by ONNX Runtime: why",
        "  TST001 at 11 places: A title",
        "      n0 (Relu), n1 (Relu), n2 (Relu) and 8 more",
    ]
    assert lines[3].startswith("  blocked TST002 b0 ") and all(line.startswith("  ") for line in lines[1:])
    one = replace(LOG, firings=LOG.firings[:1], blocked=[], stops=[], notes=[])
    assert list(check_lines("m.onnx", one, [], PLAIN)) == ["m.onnx: TST001 n0 (Relu): A title"]
    assert list(check_lines("m.onnx", replace(one, firings=[]), [], PLAIN)) == []


def test_firings_at_one_place_are_one_line_with_their_number() -> None:
    whole = [replace(firing, root="", op="") for firing in LOG.firings[:2]]
    one = replace(LOG, firings=whole, blocked=[], stops=[], notes=[])
    assert list(fix_lines(one, PLAIN)) == ["  TST001 A title", "      model, 2 times"]
    assert list(check_lines("m.onnx", one, [], PLAIN)) == ["m.onnx: TST001 model, 2 times: A title"]


def test_a_check_shows_a_small_change() -> None:
    change = Change("n0", "y = Relu(x)", "y = Abs(x)")
    one = replace(LOG, firings=[replace(LOG.firings[0], changes=(change,), omitted=0)], blocked=[], stops=[], notes=[])
    shown = list(check_lines("m.onnx", one, [], PLAIN, changes=True))[1:]
    assert shown == ["      - y = Relu(x)", "      + y = Abs(x)"]
    large = replace(one.firings[0], changes=(change,) * 4)
    assert len(list(check_lines("m.onnx", replace(one, firings=[large]), [], PLAIN, changes=True))) == 1


def test_colour_and_escapes() -> None:
    assert Style(True).paint("red", "x") == "\x1b[31mx\x1b[0m"
    assert Style(False).paint("red", "x") == "x"
    assert clean("größe 名前") == "größe 名前"
    assert clean("a\x1b[2J\n\t\u202e\u200f\x9b\udc80") == "a\\x1b[2J\\n\\t\\u202e\\u200f\\x9b\\udc80"
