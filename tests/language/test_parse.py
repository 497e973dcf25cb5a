"""Text to syntax tree: every form of the language, errors of many rules at once, limits, and text that nobody would write."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from rewriter.core.language import ast
from rewriter.core.language.diagnostics import MAX_FILE_BYTES, Diagnostic, SourceText, render
from rewriter.core.language.parse import parse
from rewriter.core.language.schema import DTYPES
from rewriter.core.language.syntax import words as syntax_limits
from rewriter.core.language.syntax.grammar import grammar
from rewriter.core.language.syntax.words import KEYWORDS

HERE = Path(__file__).parent
REFERENCE = (HERE / "reference.rules").read_text(encoding="utf-8")
EVERYTHING = (HERE / "everything.rules").read_text(encoding="utf-8")
HEAD = "rule X1 a <kind: exact>\n"
MATCH = "match { y = Identity(x) }\n"
REWRITE = "rewrite { y = x }\n"


def rule(text: str) -> ast.Rule:
    rule_file, problems = parse(text)
    assert problems == []
    assert len(rule_file.rules) == 1
    return rule_file.rules[0]


def codes(text: str) -> list[str]:
    return [problem.code for problem in parse(text)[1]]


def condition(text: str) -> ast.Expr:
    return rule(f"{HEAD}{MATCH}where {text}\n{REWRITE}").wheres[0].condition


def statement(text: str) -> ast.Statement:
    return rule(f"{HEAD}{MATCH}rewrite {{ {text} }}").rewrites[0].statements[0]


def operand(text: str) -> ast.Operand:
    return rule(f"{HEAD}match {{ y = Foo({text}) }}\n{REWRITE}").match.nodes[0].inputs[0]


# --- Every form ------------------------------------------------------------------------------------------------------------


def test_reference() -> None:
    rule_file, problems = parse(REFERENCE)
    assert problems == []
    assert [found.code for found in rule_file.rules] == [
        *("MX001", "MX002", "MX003", "GEN001", "PT001", "OPT001", "OPT003", "OPT004", "SURG001", "SURG010"),
    ]


def test_a_rule_whole() -> None:
    found = parse(REFERENCE)[0].rules[0]
    assert found.slug == "gemm-input-not-flattened"
    assert found.doc[1:] == ("", 'ONNX Runtime refuses the export: "First input does not have rank 2".')
    assert {item.key: item.value for item in found.meta if item.key != "issue"} == {
        "exporter": "mxnet",
        "kind": ast.Kind("repair", span=found.meta[1].value_span),
        "evidence": ast.Evidence("refused", span=found.meta[2].value_span),
        "opset": ast.OpsetRange(7, None, found.meta[3].value_span),
        "severity": "error",
    }
    (node,) = found.match.nodes
    assert (node.label, node.ops[0].name, node.more_inputs, node.more_outputs) == ("gemm", "Gemm", True, False)
    assert [type(s) for s in found.rewrites[0].statements] == [ast.Build, ast.Edit]
    assert [(test.title, test.after is None) for test in found.tests] == [
        ("a rank-4 input gets a Flatten", False),
        ("rank 2 is left alone", True),
    ]
    assert found.tests[1].before == "..."


def test_spans_are_places_in_the_file() -> None:
    def text(span: ast.Span) -> str:
        return REFERENCE[span.start : span.end]

    for found in parse(REFERENCE)[0].rules:
        assert text(found.code_span) == found.code
        assert all(text(node.ops_span).startswith(("(", "@", node.ops[0].name)) for node in found.match.nodes)
        assert all(text(item.span).startswith(item.key) for item in found.meta)
        assert all(text(test.before_span) == test.before for test in found.tests)
        assert all(text(test.after_span) == test.after for test in found.tests if test.after is not None)
        assert all(text(where.span).startswith("where ") for where in found.wheres)
    node = parse(REFERENCE)[0].rules[5].match.nodes[1]
    assert text(node.attrs[0].span) == "epsilon=eps"
    assert text(node.attrs[0].name_span) == "epsilon"
    assert text(node.span).startswith("y = BatchNormalization<")


def test_everything() -> None:
    first = parse(EVERYTHING)[0].rules[0]
    assert first.match.inside is not None
    assert (first.match.inside.op.name, first.match.inside.attr) == ("Loop", "body")
    assert [op.domain for op in first.match.nodes[0].ops] == ["", "com.acme"]
    assert [attr.mode for attr in first.match.nodes[0].attrs][3:5] == ["absent", "present"]
    assert first.match.nodes[1].outputs == (ast.Output("parts", True, first.match.nodes[1].outputs[0].span),)
    assert [rewrite.opset and (rewrite.opset.first, rewrite.opset.last) for rewrite in first.rewrites] == [
        (None, 12),
        (13, None),
    ]
    assert [test.after is None for test in first.tests] == [False, True, True]
    assert [name for name, _ in first.tests[0].settings] == ["batch", "sizes"]
    assert first.tests[0].source == '{"n": {"a": 1}}'
    second = parse(EVERYTHING)[0].rules[1].match
    assert [(item.side, item.type and item.type.dims) for item in second.items] == [
        *(("input", (1, ...)), ("output", None), ("input", None), ("output", ())),
    ]
    assert parse(EVERYTHING)[0].rules[2].match.graph


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", ast.Capture("x")),
        ("const w", ast.Capture("w", const=True)),
        ("b?", ast.Capture("b", optional=True)),
        ("float[N, 3, _, ?] x", ast.Capture("x", type=ast.TypePattern("float", ("N", 3, None, None)))),
        ("tensor[..., 2] x", ast.Capture("x", type=ast.TypePattern(None, (..., 2)))),
        ("tensor[...] x", ast.Capture("x", type=ast.TypePattern(None, None))),
        ("int64[] x", ast.Capture("x", type=ast.TypePattern("int64", None))),
        ("int64 x", ast.Capture("x", type=ast.TypePattern("int64", ()))),
        ("_", ast.Wildcard()),
        ("*parts", ast.Variadic("parts")),
        ("{-2.5}", ast.ConstPattern(ast.Literal(-2.5))),
        ("int64{[0]}", ast.ConstPattern(ast.ListOf((ast.Literal(0),)), "int64")),
    ],
)
def test_operand(text: str, expected: ast.Operand) -> None:
    assert bare(operand(text)) == bare(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a ** 2 ** b", "(- (a ** (2 ** b)))"),
        ("-1", "-1"),
        ("a or b and not c == 1", "(a or (b and (not (c == 1))))"),
        ("a or b or c", "(a or b or c)"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("a not in [1, 2.5]", "(a not in [1, 2.5])"),
        ("p[0][-1] + p[1..] + p[..2] + p[0..1]", "(((p[0][-1] + p[1..]) + p[..2]) + p[0..1])"),
        ("f(x, 1..)", "f(x, 1..)"),
        ("outer.body.x", "outer.body.x"),
        ('"a\\n\\u00e9" < float', "('a\\né' < float)"),
        ("true == false != none", None),
        ("(a < b) == none", "((a < b) == None)"),
    ],
)
def test_expression(text: str, expected: str | None) -> None:
    if expected is None:
        assert codes(f"{HEAD}{MATCH}where {text}\n{REWRITE}") == ["E001"]
    else:
        assert show(condition(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x", ast.Redirect("y", ast.Ref("x"))),
        ("y = int64{k}", ast.Redirect("y", ast.Constant(ast.Name("k"), "int64"))),
        ("n.alpha = 1", ast.Edit(ast.Place("n", "alpha"), ast.Literal(1))),
        ("n.inputs[1] = x", ast.Edit(ast.Place("n", "inputs", ast.Literal(1)), ast.Name("x"))),
        ("n.inputs[1] = _", ast.Edit(ast.Place("n", "inputs", ast.Literal(1)), ast.Absent())),
        ('model.opset[""] = 13', ast.Edit(ast.Place("model", "opset", ast.Literal("")), ast.Literal(13))),
        ("x.dtype = float", ast.Edit(ast.Place("x", "dtype"), ast.Name("float"))),
        ("n.v = {k}", ast.Edit(ast.Place("n", "v"), ast.Constant(ast.Name("k")))),
        ("del n", ast.Delete(ast.Place("n"))),
        ("del n.inputs[2]", ast.Delete(ast.Place("n", "inputs", ast.Literal(2)))),
        ("inline n", ast.Inline("n", None)),
        ("inline n.then_branch", ast.Inline("n", "then_branch")),
        (
            "y = Foo(int64[2]{0, -1})",
            ast.Build(
                (ast.Output("y"),),
                ast.Op("Foo"),
                (),
                (ast.Constant(ast.ListOf((ast.Literal(0), ast.Literal(-1))), "int64", (2,)),),
            ),
        ),
    ],
)
def test_statement(text: str, expected: ast.Statement) -> None:
    assert bare(statement(text)) == bare(expected)


def test_lines_need_no_end() -> None:
    text = "n.a = b [l] z = Neg(x) n.a = b *parts = Split(x) n.to = float q = x n.v = p[0]\n[m] r = Neg(x) inline n y = x"
    found = rule(f"{HEAD}{MATCH}rewrite {{ {text} }}").rewrites[0].statements
    kinds = [ast.Edit, ast.Build, ast.Edit, ast.Build, ast.Edit, ast.Redirect, ast.Edit, ast.Build, ast.Inline, ast.Redirect]
    assert [type(line) for line in found] == kinds


def test_blanks_mean_nothing() -> None:
    crowded = 'rule X1 a<kind:exact>match{y=Relu<a=1>(x)}where rank(x)>2 rewrite{y=x}test"t"unchanged~~~g~~~'
    loose = (
        'rule X1 a\n<\nkind :exact>match {y\n=Relu <a =1> (x)}\nwhere rank (x)\n>2 rewrite {y=\nx} test "t"\nunchanged ~~~g~~~'
    )
    assert bare(rule(crowded)) == bare(rule(loose))
    assert bare(rule(loose.replace("\n", "\r\n"))) == bare(rule(loose))


def test_several_rules_on_a_line() -> None:
    one = "match { y = Relu(x) } rewrite { y = x }"
    assert len(parse(f"rule A1 a {one} rule A2 b {one} /// c\nrule A3 c {one}")[0].rules) == 3


@pytest.mark.parametrize("word", sorted(KEYWORDS | {"float", "int64"}))
def test_words_may_name_attributes(word: str) -> None:
    found = rule(f"{HEAD}match {{ [n] y = Foo<{word}=1, !{word}>(x) }} rewrite {{ y = Foo<{word}=2>(x) }}")
    assert found.match.nodes[0].attrs[0].name == word


@pytest.mark.parametrize("word", sorted((KEYWORDS | set(DTYPES)) - {"ordered"}))
def test_words_name_no_tensors(word: str) -> None:
    found = codes(f"{HEAD}match {{ {word} = Identity(x) }}\n{REWRITE}")
    assert found
    assert set(found) <= {"E008", "E001"}


def test_element_types_of_the_grammar() -> None:
    pattern = next(terminal.pattern.to_regexp() for terminal in grammar().terminals if terminal.name == "DTYPE")
    assert all(re.fullmatch(pattern, name) for name in DTYPES)
    for name in [
        f"{stem}{bits}" for stem in ("float", "int", "uint", "complex", "bfloat") for bits in ("", 1, 2, 4, 8, 16, 32, 64)
    ]:
        assert bool(re.fullmatch(pattern, name)) == (name in DTYPES), name


# --- Errors ----------------------------------------------------------------------------------------------------------------


def test_an_error_hides_no_other() -> None:
    good = f"/// fine\n{HEAD}{MATCH}{REWRITE}"
    bad = [
        "rule X1 a match { y = Relu(x)\nwhere rank(x) > 1\nrewrite { y = x }\n",  # a brace is missing
        'rule X1 a match { y = Relu(x) } rewrite { y = x } test "t ~~~ a ~~~ unchanged\n',
        'rule X1 a match { y = Relu(x) } rewrite { y = x } test "t" ~~~ a\n~~~ becomes ~~~ b\n',
        "rule X1 a match { y = } rewrite { y = x }\n",
        "ruel X1 a match { y = Relu(x) } rewrite { y = x }\n",
        "match { y = Relu(x) } rewrite { y = x }\n",
    ]
    text = "".join(broken + good for broken in bad)
    rule_file, problems = parse(text, "some.rules")
    assert len(rule_file.rules) == len(bad) - 2  # the last two have no `rule` of their own, and spoil the rule before them
    lines = [SourceText("", text).line_col(problem.span.start)[0] for problem in problems]
    assert [problem.code for problem in problems] == ["E002", "E002", "E002", "E001", "E001", "E005", "E007"]
    assert lines == sorted(lines)
    assert {problem.path for problem in problems} == {"some.rules"}


def test_words_of_lark_reach_nobody() -> None:
    texts = [REFERENCE[:at] for at in range(0, len(REFERENCE), 23)]
    for text in texts:
        for problem in parse(text)[1]:
            said = render(problem, SourceText("x", text))
            assert not any(
                word in said for word in ("LPAR", "LSQB", "_TOUCHING", "$END", "Expected one of", "Token(", "RBRACE")
            )


# --- Limits ----------------------------------------------------------------------------------------------------------------

HOSTILE = {
    "parentheses": (f"{HEAD}{MATCH}where {'(' * 60_000}x\n{REWRITE}", "E003"),
    "braces": ("rule X1 a match { y = Foo(" + "{" * 60_000, "E003"),
    "nested calls": (f"{HEAD}match {{ y = {'Foo(' * 15_000}x{')' * 15_000} }} {REWRITE}", "E003"),
    "not": (f"{HEAD}{MATCH}where {'not ' * 15_000}x\n{REWRITE}", "E003"),
    "minus": (f"{HEAD}{MATCH}where {'-' * 60_000}x\n{REWRITE}", "E003"),
    "sum": (f"{HEAD}{MATCH}where {'x + ' * 15_000}x\n{REWRITE}", "E003"),
    "power": (f"{HEAD}{MATCH}where {'x ** ' * 12_000}x\n{REWRITE}", "E003"),
    "choice": (f"{HEAD}{MATCH}where {'x if x else ' * 5_000}x\n{REWRITE}", "E003"),
    "fields": (f"{HEAD}{MATCH}where x{'.x' * 30_000}\n{REWRITE}", "E003"),
    "digits": (f"{HEAD}{MATCH}where x == {'9' * 60_000}\n{REWRITE}", "E010"),
    "digits of a float": (f"{HEAD}{MATCH}where x == {'9' * 60_000}.0\n{REWRITE}", "E010"),
    "digits of a version": (f"rule X1 a <opset: {'9' * 60_000}..>\n{MATCH}{REWRITE}", "E010"),
    "one long word": ("x" * 1_000_000, "E003"),
    "a long rule": (f"{HEAD}{MATCH}{'where x ' * 20_000}{REWRITE}", "E003"),
    "a file too long": ("#" * (MAX_FILE_BYTES + 1), "E003"),
    "many rules": ("rule X1 a " * 100_000, "E003"),
    "the word rule": ("rule " * 200_000, "E003"),
    "doc comments": ("///\n" * 200_000, "E003"),
    "doc comments inside": (f"{HEAD}match {{" + "///\nx\n" * 10_000, "E007"),
    "open texts": ("~~~\n///\n" * 100_000, "E003"),
    "quotes": ('"\n' * 30_000, "E002"),
    "one line of quotes": ('rule X1 a "' * 90_000, "E003"),
    "zero bytes": ("\0" * 100_000, "E003"),
    "a surrogate": (f"{HEAD}{MATCH}# \ud800\n{REWRITE}", "E013"),
    "an empty file with a mark": ("\ufeff", "E013"),
    "a lone carriage return": (f"{HEAD}{MATCH}\r{REWRITE}", "E013"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    text, code = HOSTILE[name]
    began = time.process_time()
    found = parse(text)[1]
    source = SourceText("x", text)
    for problem in found[:100]:
        render(problem, source)
    assert time.process_time() - began < 20
    assert code in {problem.code for problem in found}


def test_at_the_limits() -> None:
    depth = syntax_limits.MAX_NESTING - 1
    assert show(condition(f"{'(' * depth}x{')' * depth}")) == "x"
    assert codes(f"{HEAD}{MATCH}where {' + '.join('x' * 90)}\n{REWRITE}") == []
    assert show(condition(str(syntax_limits.MAX_INT))) == str(syntax_limits.MAX_INT)
    assert show(condition(str(syntax_limits.MIN_INT))) == str(syntax_limits.MIN_INT)
    assert codes(f"{HEAD}{MATCH}where x == {syntax_limits.MIN_INT - 1}\n{REWRITE}") == ["E010"]
    assert len(parse(f"{HEAD}{MATCH}{REWRITE}" * syntax_limits.MAX_RULES)[0].rules) == syntax_limits.MAX_RULES
    assert codes(f"{HEAD}{MATCH}{REWRITE}" * (syntax_limits.MAX_RULES + 1)) == ["E003"]
    assert codes("") == codes(" \n# nothing\n") == []


def test_mutated_text_is_never_raised_at() -> None:
    chance = random.Random(7)
    junk = [
        '"',
        "~~~",
        *"{}()[]<>",
        "///",
        "rule ",
        "rule X1 a ",
        "#",
        "\n",
        "\\",
        "..",
        "...",
        "*",
        "=",
        "where",
        "_",
        "\0",
        "漢",
    ]
    began = time.process_time()
    for _ in range(2_000):
        start = chance.randrange(len(EVERYTHING) - 900)
        text = list(EVERYTHING[start : start + 900] if chance.random() < 0.5 else HEAD + MATCH + REWRITE)
        for _ in range(chance.choice([1, 1, 2, 5, 30])):
            at = chance.randrange(len(text) + 1)
            kind = chance.random()
            if kind < 0.4:
                text[at:at] = chance.choice(junk)
            elif kind < 0.7:
                del text[at : at + chance.randrange(1, 30)]
            else:
                text[at:at] = chr(chance.randrange(256))
        problems: list[Diagnostic] = parse("".join(text))[1]
        for problem in problems:
            render(problem, SourceText("x", "".join(text)))
    assert time.process_time() - began < 60


# --- Helpers ---------------------------------------------------------------------------------------------------------------


def bare(part: object) -> object:
    """A piece of syntax as tuples, without its places."""
    if isinstance(part, ast.Span):
        return None
    if isinstance(part, tuple):
        return tuple(bare(item) for item in part)
    if hasattr(part, "__dataclass_fields__"):
        return (type(part).__name__, *(bare(getattr(part, name)) for name in part.__dataclass_fields__))
    return part


def show(expr: ast.Expr | None) -> str:
    """An expression with all its parentheses."""
    match expr:
        case None:
            return ""
        case ast.Literal(value):
            return repr(value)
        case ast.Name(name):
            return name
        case ast.Field(value, name):
            return f"{show(value)}.{name}"
        case ast.Range(start, stop):
            return f"{show(start)}..{show(stop)}"
        case ast.Index(value, index):
            return f"{show(value)}[{show(index)}]"
        case ast.ListOf(items):
            return f"[{', '.join(map(show, items))}]"
        case ast.Call(name, args):
            return f"{name}({', '.join(map(show, args))})"
        case ast.Unary(op, value):
            return f"({op} {show(value)})"
        case ast.Binary(op, left, right) | ast.Compare(op, left, right):
            return f"({show(left)} {op} {show(right)})"
        case ast.Logic(op, operands):
            return f"({f' {op} '.join(map(show, operands))})"
        case ast.Choice(then, test, other):
            return f"({show(then)} if {show(test)} else {show(other)})"
