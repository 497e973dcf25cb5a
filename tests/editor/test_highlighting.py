"""The colours of editors: every shipped rule is covered without an error, by Pygments and by the TextMate grammar."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Literal, Name

from rewriter.app.editor.highlighting import COLOURS, SCOPE, textmate
from rewriter.app.editor.pygments_lexer import RulesLexer
from rewriter.core.language.rule_files import find_rule_files

HERE = Path(__file__).parent
VSCODE = HERE.parent.parent / "editors" / "vscode"
FILES = [
    *find_rule_files(None),
    *map(str, sorted((HERE.parent / "language").glob("*.rules"))),
    *map(str, sorted((HERE.parent / "right_rules").glob("*.rules"))),
]
SAMPLE = """/// Doc.
rule MY001 a-slug <kind: approx(rtol=1e-6), opset: 7..>  # comment
match { [n] y = Conv<group=1>(x, const w, @op) }
where rank(x) == 3 and dtype(x) in [float] and all(w != -0.5)
test "a \\"test\\"" ~~~ {"json": [1.5]} ~~~ unchanged
"""


def scopes(text: str) -> list[tuple[str, str]]:
    """What a TextMate engine does with a flat grammar: at each place the pattern that fits first, the earlier one on a tie."""
    grammar = json.loads((VSCODE / "syntaxes" / "onnx-rules.tmLanguage.json").read_text(encoding="utf-8"))
    rows = [(re.compile(row["match"]), row["name"]) for row in grammar["patterns"]]
    found = []
    for line in text.splitlines():
        place = 0
        while place < len(line):
            matches = [(match.start(), number) for number, (row, _) in enumerate(rows) if (match := row.search(line, place))]
            if not matches:
                break
            start, number = min(matches)
            match = rows[number][0].search(line, start)
            assert match is not None and match.end() > start
            found.append((match[0], rows[number][1]))
            place = match.end()
    return found


def test_every_shipped_rule_has_its_colours() -> None:
    """One row of the table, of which both are made, fits wherever something stands: neither comes to its row for errors."""
    row = re.compile("|".join(f"(?:{row.pattern})" for row in COLOURS), re.MULTILINE)
    assert len(FILES) > 300
    for file in FILES:
        assert (file, row.sub("", Path(file).read_text(encoding="utf-8")).split()) == (file, [])


def test_pygments_and_textmate_find_no_error() -> None:
    lexer = RulesLexer()
    for file in FILES[::15]:
        text = Path(file).read_text(encoding="utf-8")
        tokens = list(lexer.get_tokens(text))
        assert [(file, value) for kind, value in tokens if kind in Error] == []
        assert "".join(value for _, value in tokens).strip() == text.strip()
        assert [(file, word) for word, scope in scopes(text) if scope.startswith("invalid")] == []


def test_words_are_what_they_are() -> None:
    kinds = {value: kind for kind, value in RulesLexer().get_tokens(SAMPLE)}
    wanted = {"/// Doc.": Comment, "rule": Keyword, "MY001": Name.Label, "approx": Name.Constant, "kind": Name.Attribute, "Conv": Name.Class, "1e-6": Literal.Number, "# comment": Comment, "const": Keyword, "@op": Name.Variable, "rank": Name.Function, "float": Keyword.Type, '"a \\"test\\""': Literal.String}  # fmt: skip
    assert {word: kinds[word] for word in wanted if kinds[word] not in wanted[word]} == {}
    of_textmate = dict(scopes(SAMPLE))
    by_token = {row.token: row.scope for row in COLOURS}
    for word, kind in (("MY001", "Name.Label"), ("Conv", "Name.Class"), ("rank", "Name.Function"), ("@op", "Name.Variable")):
        assert of_textmate[word] == f"{by_token[kind]}.onnx-rules"
    assert ("?!", "invalid") not in of_textmate.items()


def test_what_is_no_rule_is_an_error() -> None:
    assert any(kind in Error for kind, _ in RulesLexer().get_tokens("rule ` $"))
    assert any(scope.startswith("invalid") for _, scope in scopes("rule ` $"))


def test_the_grammar_is_made_of_the_table() -> None:
    assert (VSCODE / "syntaxes" / "onnx-rules.tmLanguage.json").read_text(encoding="utf-8") == textmate()


def test_pygments_finds_the_lexer() -> None:
    pytest.importorskip("pygments")
    from importlib.metadata import entry_points

    found = [entry for entry in entry_points(group="pygments.lexers") if entry.name == "rewriter-rules"]
    if not found:
        pytest.skip("rewriter was installed before it had a lexer")
    assert found[0].load() is RulesLexer


def test_the_extension_names_what_is_there() -> None:
    package = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    language, grammar = package["contributes"]["languages"][0], package["contributes"]["grammars"][0]
    assert language["id"] == grammar["language"] and grammar["scopeName"] == SCOPE and language["extensions"] == [".rules"]
    for path in (package["main"], language["configuration"], grammar["path"]):
        assert (VSCODE / path).is_file()
    json.loads((VSCODE / "language-configuration.json").read_text(encoding="utf-8"))
    assert package["contributes"]["configuration"]["properties"]["onnxRules.command"]["default"] == ["rewriter", "lsp"]
