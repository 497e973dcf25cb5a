"""The formatter: the canonical layout, comments that stay, and the promise that formatting twice changes nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewriter.core.language.diagnostics import RuleFileError
from rewriter.core.language.parse import parse
from rewriter.core.language.syntax.grammar import tokens
from rewriter.core.language.syntax.scan import comments, scan
from rewriter.rule_tools.format import format_text, same

HERE = Path(__file__).parent
REFERENCE = (HERE / "reference.rules").read_text(encoding="utf-8")
EVERYTHING = (HERE / "everything.rules").read_text(encoding="utf-8")
SHIPPED = sorted((HERE.parent.parent / "rules").rglob("*.rules"))


def test_reference_is_in_canonical_form() -> None:
    assert format_text(REFERENCE) == REFERENCE


def test_everything() -> None:
    expected = (HERE / "everything.formatted").read_text(encoding="utf-8")
    assert format_text(EVERYTHING) == expected
    assert format_text(expected) == expected


@pytest.mark.parametrize("path", SHIPPED[::8], ids=lambda path: path.stem)
def test_shipped_rules(path: Path) -> None:
    """A sample; `rewriter fmt --check rules` in .ci/run has all."""
    text = path.read_text(encoding="utf-8")
    assert format_text(text) == text


def test_crowded() -> None:
    text = 'rule X1 a<kind:approx(rtol=1e-4),before:[A1,A2]>match{y=Relu<a=-1,!b>(x)}where rank(x)>2 let k=-1 rewrite{y={k}}test"t"unchanged~~~g~~~'
    assert format_text(text) == (
        "rule X1 a\n"
        "<kind: approx(rtol=1e-4), before: [A1, A2]>\n"
        "\n"
        "match { y = Relu<a=-1, !b>(x) }\n"
        "where rank(x) > 2\n"
        "let k = -1\n"
        "\n"
        "rewrite { y = {k} }\n"
        "\n"
        'test "t" unchanged ~~~g~~~\n'
    )


def test_comments() -> None:
    text = """\
# first


# second
/// doc
# between
rule X1 a # behind the name
<kind: exact, # why
 # own
 opset: 7..> # end
# above match
match # before the brace
{ # behind the brace
  # above a line
  [n] y = Relu(x) # behind a line

  # below the lines
} # behind the block

where rank(x) > 1 and # half
  rank(x) < 9 # whole
let k = 1 # one


let longer = 2
let x2 = 3
rewrite { y = x } # done
# last
"""
    expected = """\
# first

# second
/// doc
# between
rule X1 a  # behind the name
<kind: exact,  # why
 # own
 opset: 7..>  # end

# above match
# before the brace
match {  # behind the brace
  # above a line
  [n] y = Relu(x)  # behind a line

  # below the lines
}  # behind the block

where rank(x) > 1 and  # half
    rank(x) < 9  # whole
let k = 1  # one

let longer = 2
let x2     = 3

rewrite { y = x }  # done
# last
"""
    assert format_text(text) == expected
    assert format_text(expected) == expected


def test_comments_that_were_aligned_stay_so() -> None:
    text = "rule X1 a <kind: exact>\nmatch { y = Relu(x) }\n{}\nrewrite { y = x }\n"
    lines = "where rank(x)==2     # one\nwhere dtype(x) == float # too\nwhere size(x) > 1 # apart\nlet a = 1 # alone"
    expected = (
        "where rank(x) == 2       # one\nwhere dtype(x) == float  # too\nwhere size(x) > 1  # apart\nlet a = 1  # alone\n"
    )
    assert expected not in format_text(text.replace("{}", lines))  # the first two do not begin in one column
    shifted = lines.replace("     # one", "        # one")
    done = format_text(text.replace("{}", shifted))
    assert expected in done
    assert format_text(done) == done


def test_long_lines_keep_their_ends() -> None:
    names = " + ".join(f"a_rather_long_name_{i}" for i in range(8))
    text = f"rule X1 a\nmatch {{ y = Relu(x) }}\nwhere {names.replace(' + ', ' +' + chr(10), 3)} == 1\nrewrite {{ y = x }}\n"
    once = format_text(text)
    assert once.count(" +\n    a_rather") == 3
    assert format_text(once) == once
    flat = format_text(text.replace(" +\n", " + "))
    assert max(map(len, flat.splitlines())) > 120


def test_test_texts_are_kept() -> None:
    body = "  <ir_version: 8>   \n\n\tg (x) => (y) { y = Neg ( x ) }  # no comment\n      "
    text = f'rule X1 a match {{ y = Relu(x) }} rewrite {{ y = x }} test "t" ~~~{body}~~~   becomes\n~~~ {body}~~~'
    assert format_text(text).endswith(f'test "t" ~~~{body.rstrip(" ")}~~~ becomes ~~~ {body.rstrip(" ")}~~~\n')


def test_empty() -> None:
    assert format_text("") == format_text("\n \n") == ""
    assert format_text("\n\n# only this\n\n\n# and that  ") == "# only this\n\n# and that\n"


def test_line_ends_and_marks() -> None:
    assert format_text(REFERENCE.replace("\n", "\r\n")) == REFERENCE


def test_what_does_not_parse_is_refused() -> None:
    with pytest.raises(RuleFileError, match=r"E001.*expected"):
        format_text("rule X1 a match { y = Relu(x) } rewrte { y = x }")


# --- Any layout of any rule -----------------------------------------------------------------------------------------------

SEPARATORS = st.sampled_from([" ", "  ", "\t", "\n", "\n\n\n", " # c\n", "\n# own\n", "\n\n# apart\n\n", " #one\n  #two\n"])
_GLUED = {"_TOUCHING"}


def words() -> list[list[tuple[str, bool]]]:
    """The tokens of each rule, and whether one must touch the one before it."""
    text = EVERYTHING + REFERENCE
    chunks = [text[chunk.start : chunk.end] for chunk in scan(text)[0]]
    return [[(str(token), token.type in _GLUED) for token in tokens(chunk)] for chunk in chunks]


WORDS = words()


@st.composite
def layouts(draw: st.DrawFn) -> str:
    """Some rules with other blanks, line ends and comments between their tokens."""
    out = []
    for rule in draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)):
        few = draw(st.booleans())
        odd = draw(st.lists(st.integers(0, len(rule)), max_size=4)) if few else range(len(rule))
        for at, (word, glued) in enumerate(rule):
            separator = draw(SEPARATORS) if at in odd else " "
            if word.startswith("///") or (at and rule[at - 1][0].startswith("///")):
                separator = "\n"
            out.append(("" if glued else separator) + word)
        out.append("\n")
    return "".join(out)


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_any_layout(text: str) -> None:
    before, problems = parse(text)
    assert problems == []
    once = format_text(text)
    assert format_text(once) == once
    assert same(parse(once)[0].rules, before.rules)
    assert said(once) == said(text)
    assert not any(line != line.rstrip() for line in once.splitlines() if "~~~" not in line)


def said(text: str) -> Counter[str]:
    return Counter(text[place.start : place.end].rstrip() for place in comments(text))
