"""How a finding looks: the picture, and that no text of a file can do more than be shown."""

from __future__ import annotations

import pytest

from rewriter.core.language.ast import NOWHERE, Span
from rewriter.core.language.diagnostics import MAX_WIDTH, Diagnostic, RuleFileError, SourceText, render, suggest

RULE = SourceText("my.rules", "rule X1 a\n\nmatch { u = Unsqueeze<axes=a>(x)   y = Relu(u) }\n")
AXES = Diagnostic(
    "E103",
    "attribute `axes` of `Unsqueeze` does not exist in opset 13..",
    Span(RULE.text.index("axes"), RULE.text.index("axes") + 4),
    "not an attribute here",
    ("since opset 13 it is an input: Unsqueeze(data, axes)",),
    ("write the pattern for the input form, or limit the rule to `opset: ..12`",),
)


def picture(text: str, part: str, label: str = "") -> list[str]:
    """The shown line and the line of carets."""
    start = text.index(part)
    shown = render(Diagnostic("E1", "m", Span(start, start + len(part)), label), SourceText("f", text)).split("\n")
    return [line.split("|", 1)[1][1:] for line in shown[3:5]]


def test_picture() -> None:
    assert render(AXES, RULE) == (
        "error[E103]: attribute `axes` of `Unsqueeze` does not exist in opset 13..\n"
        "  --> my.rules:3:23\n"
        "   |\n"
        " 3 | match { u = Unsqueeze<axes=a>(x)   y = Relu(u) }\n"
        "   |                       ^^^^ not an attribute here\n"
        "   |\n"
        "   = note: since opset 13 it is an input: Unsqueeze(data, axes)\n"
        "   = help: write the pattern for the input form, or limit the rule to `opset: ..12`"
    )


def test_colors_change_no_letter() -> None:
    import re

    colored = render(AXES, RULE, color=True)
    assert "\x1b[1;31merror[E103]" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(AXES, RULE)


def test_warning_and_wide_margin() -> None:
    source = SourceText("f", "\n" * 99 + "x")
    assert render(Diagnostic("W201", "m", Span(99, 100)), source) == (
        "warning[W201]: m\n   --> f:100:1\n     |\n 100 | x\n     | ^".replace("   -->", "    -->")
    )


def test_without_place_or_source() -> None:
    assert (
        render(Diagnostic("E401", "m", NOWHERE, path="f", notes=("n",)), RULE) == "error[E401]: m\n  --> f\n   |\n   = note: n"
    )
    assert render(Diagnostic("E401", "m", Span(3, 4)), None) == "error[E401]: m"


def test_tabs_and_wide_letters() -> None:
    assert picture("\tab = x", "ab") == ["    ab = x", "    ^^"]
    assert picture("ab\tcd", "cd") == ["ab  cd", "    ^^"]
    assert picture("漢字 = x", "x") == ["漢字 = x", "       ^"]
    assert picture("x = 漢字", "漢字") == ["x = 漢字", "    ^^^^"]
    assert picture("e\u0301 x", "x") == ["e\u0301 x", "  ^"]


def test_what_steers_a_terminal_is_shown_as_text() -> None:
    assert picture("a \x1b[31m b", "b") == ["a \\x1b[31m b", "           ^"]
    assert picture("a \u202e b", "\u202e") == ["a \\u{202e} b", "  ^^^^^^^^"]
    bad = Diagnostic("E1", "\x1b[2J\n", Span(0, 1), "\x07", ("a\nb\x08",), ("\u2066",), "\x1b]0;t\x07")
    assert not set(render(bad, RULE)) & {"\x1b", "\x07", "\x08", "\u2066"}
    assert "= note: a\n           b\\x08" in render(bad, RULE)


@pytest.mark.parametrize("at", [0, 5, 100, 5_000, 999_990])
def test_long_lines_are_cut(at: int) -> None:
    text = "q" * at + "HERE" + "z" * (1_000_000 - at)
    line, carets = picture(text, "HERE", "label")
    assert len(line) <= MAX_WIDTH
    assert line[carets.index("^") :].startswith("HERE")
    assert carets.strip() == "^^^^ label"


def test_places_beyond_the_line() -> None:
    assert picture("ab\ncd", "b\ncd") == ["ab", " ^"]
    shown = render(Diagnostic("E1", "m", Span(2, 2)), SourceText("f", "ab"))
    assert shown.endswith(" 1 | ab\n   |   ^")
    assert SourceText("f", "ab\r\ncd").line(1) == "ab"
    assert SourceText("f", "ab").line_col(99) == (1, 3)
    assert SourceText("f", "").line(2) == ""


def test_error_shows_all() -> None:
    error = RuleFileError([AXES, Diagnostic("W201", "unused", Span(0, 1), path="other")], {"": RULE})
    assert str(error).count("\n\n") == 1
    assert str(error).endswith("warning[W201]: unused\n  --> other")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("wher", "where"),
        ("rewite", "rewrite"),
        ("mathc", "match"),
        ("RELU", "Relu"),
        ("x", None),
        ("", None),
        ("q" * 10**6, None),
    ],
)
def test_suggest(word: str, expected: str | None) -> None:
    assert suggest(word, ["where", "rewrite", "match", "Relu", "y"]) == expected
