"""Long lines are broken between words, and nothing of them is lost."""

from hypothesis import given
from hypothesis import strategies as st

from rewriter.app.style import Style, fold

WORDS = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=30), min_size=1)


@given(st.integers(0, 30), WORDS, st.integers(20, 60), st.integers(0, 20))
def test_no_line_is_wider_unless_it_is_one_word_and_all_words_stay(
    indent: int, words: list[str], width: int, hang: int
) -> None:
    lines = list(fold(" " * indent + " ".join(words), width, hang))
    assert [word for line in lines for word in line.split()] == words
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_the_rest_is_indented_by_what_the_line_is_and_the_hang() -> None:
    assert list(fold("  a bird in the hand is worth two in the bush", 30, 4)) == [
        "  a bird in the hand is worth",
        "      two in the bush",
    ]


def test_colour_takes_no_columns() -> None:
    painted = f"{Style(True).paint('red', 'twelve')} letters"
    assert list(fold(painted, 14)) == [painted]


def test_what_is_painted_from_its_first_column_is_indented_likewise() -> None:
    lines = list(fold(Style(True).paint("green", "    + a bird in the hand is worth"), 30, 4))
    assert [line.replace("\x1b[32m", "").replace("\x1b[0m", "") for line in lines] == [
        "    + a bird in the hand is",
        "        worth",
    ]


def test_letters_of_two_columns_take_two() -> None:
    assert list(fold("模型 模型 模型 模型 模型 模型", 20, 0)) == ["模型 模型 模型 模型", "模型 模型"]
