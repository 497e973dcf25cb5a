"""A form of the language that is added is missed nowhere: each consumer of the syntax tree knows every form of its family, or
it is said here why it needs not.

What a consumer knows is read from its table where it has one, else from its source: the forms of `ast` that it names.
"""

from __future__ import annotations

import ast as python
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from rewriter.core.conditions import evaluate
from rewriter.core.language import ast, pattern
from rewriter.core.language import claims as terms
from rewriter.core.language import pattern as specificity
from rewriter.core.language.ast import walk
from rewriter.core.language.expand import variants as simplify
from rewriter.core.language.parse import parse
from rewriter.core.language.rule_files import flat, pack, unpack
from rewriter.core.language.syntax.tree import ExpressionBuilder, PatternBuilder, RewriteBuilder
from rewriter.core.language.syntax.words import CONTEXTUAL, KEYWORDS
from rewriter.core.language.syntax.words import STATEMENTS as WORDS
from rewriter.core.matching import pattern_program, requirements
from rewriter.core.record import names
from rewriter.core.rewriting import build, rewrite
from rewriter.rule_tools.checks import names as checked_names
from rewriter.rule_tools.checks.check import check
from rewriter.rule_tools.checks.expressions import Types
from rewriter.rule_tools.checks.rewrites import BlockCheck
from rewriter.rule_tools.format import format_text, same
from rewriter.rule_tools.lint import outcome
from rewriter.rule_tools.lint import outcome as independence
from rewriter.rule_tools.lint import overlay as rule_graph
from rewriter.trust.proof.instances import pattern_instances

HERE = Path(__file__).parent
STATEMENTS = get_args(ast.Statement)
OPERANDS = get_args(ast.Operand)
NEW_OPERANDS = get_args(ast.NewOperand)
EXPRESSIONS = get_args(ast.Expr)

_NESTED = {ast.NodePattern: "compiled, a nested node is a `Made`"}
_PLAIN = {ast.Wildcard: "what is left: any operand"}
_NO_NODE = "makes no node of an operator, and no element type, that the model has not got"

CONSUMERS: Mapping[str, tuple[tuple[Any, ...], Any, Mapping[Any, str]]] = {
    "statements: parser": (STATEMENTS, RewriteBuilder, {}),
    "statements: checks": (STATEMENTS, BlockCheck.check, {}),
    "statements: preparation": (
        STATEMENTS, (build.computes, build.prepare), dict.fromkeys((ast.Inline, ast.Mend, ast.AddOutput), "computes nothing")
    ),
    "statements: rewriting": (STATEMENTS, rewrite._PERFORM, {}),
    "statements: names that are read": (
        STATEMENTS, rewrite._read, dict.fromkeys((ast.Redirect, ast.Delete, ast.Inline, ast.Mend, ast.AddOutput), "reads no old value of a name"),
    ),
    "statements: inventory": (
        STATEMENTS,
        requirements.needs,
        {
            **dict.fromkeys((ast.Redirect, ast.Each), "its constant, or node, is walked to"),
            **dict.fromkeys((ast.Delete, ast.Inline, ast.Mend, ast.AddOutput), _NO_NODE),
        },
    ),
    "statements: where a part is absent": (
        STATEMENTS, simplify._RULES, {ast.Build: "its operands are walked to", ast.Mend: "names no part of the pattern"}
    ),
    "statements: lint, outcome": (STATEMENTS, outcome._STATEMENTS, {}),
    "statements: lint, independence": (
        STATEMENTS,
        independence._writes,
        dict.fromkeys((ast.Redirect, ast.Inline, ast.Mend, ast.Each, ast.AddOutput), "may write anywhere, as everything else that has no place"),
    ),
    "operands: parser": (OPERANDS, (PatternBuilder._operand, PatternBuilder._node), {}),
    "operands: checks": (OPERANDS, checked_names.Pattern._operand, {}),
    "operands: compiled": (
        OPERANDS,
        (pattern._PatternBuilder._operand, pattern._interchangeable),
        {ast.ConstPattern: "stays as it is"},
    ),
    "operands: matching": (
        OPERANDS, pattern_program._Builder._operand, {**_NESTED, ast.Wildcard: "asks for nothing by itself"}
    ),
    "operands: specificity": (
        OPERANDS, specificity._weight, dict.fromkeys((ast.Wildcard, ast.Variadic, ast.NodePattern), "asks for nothing by itself")
    ),
    "operands: lint": (OPERANDS, rule_graph._RuleGraphBuilder._operand, {**_NESTED, **_PLAIN}),
    "operands: instances": (OPERANDS, pattern_instances._InstanceBuilder._operands, {**_NESTED, **_PLAIN}),
    "new operands: parser": (
        NEW_OPERANDS, (RewriteBuilder._operand_of_new, RewriteBuilder._build, RewriteBuilder._constant), {}
    ),
    "new operands: checks": (NEW_OPERANDS, BlockCheck.operand, {}),
    "new operands: preparation": (
        NEW_OPERANDS, build.prepare_operand, dict.fromkeys((ast.Ref, ast.Absent), "computes nothing")
    ),
    "new operands: rewriting": (NEW_OPERANDS, build.operand_tensor, {ast.Constant: "what is left: it was computed"}),
    "new operands: lint": (NEW_OPERANDS, outcome._ResultWriter._operand, {}),
    "expressions: parser": (EXPRESSIONS, ExpressionBuilder, {}),
    "expressions: checks": (EXPRESSIONS, Types.of, {}),
    "expressions: evaluation": (EXPRESSIONS, evaluate.MEANINGS, {}),
    "expressions: lint": (EXPRESSIONS, terms._TERMS, {}),
}  # fmt: skip

MORE = """
rule MORE1 more <kind: repair, evidence: refused(onnxruntime)>
match graph { }
where len(model.unsorted_nodes) > 0
rewrite { mend model.unsorted_nodes }

/// @op
rule MORE2 table <kind: lossy>
table {
  code   op
  MORE2  Relu
  MORE3  Abs
}
match { y = @op(x) }
rewrite { y = x }
test "@op" unchanged ~~~ @op ~~~
"""


def known(consumer: Any) -> Iterator[Any]:
    """The forms that a table has, or that the source of a function or class names outside of its annotations."""
    if isinstance(consumer, Mapping):
        yield from consumer
        return
    for part in consumer if isinstance(consumer, tuple) else (consumer,):
        tree = python.parse(textwrap.dedent(inspect.getsource(part)))
        annotations = [getattr(node, word, None) for node in python.walk(tree) for word in ("annotation", "returns")]
        passed = {id(inner) for annotation in annotations if annotation for inner in python.walk(annotation)}
        for node in python.walk(tree):
            if id(node) not in passed and isinstance(node, python.Attribute) and python.unparse(node.value) == "ast":
                yield getattr(ast, node.attr)


@pytest.mark.parametrize("name", CONSUMERS)
def test_each_consumer_knows_every_form_of_its_family(name: str) -> None:
    family, consumer, excepted = CONSUMERS[name]
    assert set(family) - set(known(consumer)) == set(excepted)


def test_each_word_of_the_grammar_is_known() -> None:
    """A word that is in neither table can be no name where the grammar has it, and is told and coloured as one."""
    grammar = (HERE.parents[1] / "grammar" / "rules.lark").read_text(encoding="utf-8")
    lines = [line for line in grammar.splitlines() if not line.startswith(("//", "DTYPE"))]
    quoted = re.findall(r'"([a-z]+)"', "\n".join(lines))
    ahead = [
        word
        for line in lines
        if (found := re.match(r"[A-Z_.0-9]+: /\(?([a-z|]+)\)?\(\?=", line))
        for word in found[1].split("|")
    ]
    assert {"outline", "any", "count"} <= set(ahead)
    assert {*quoted, *ahead} - KEYWORDS - CONTEXTUAL == set()


def test_each_word_that_begins_a_statement_is_proposed_and_explained() -> None:
    grammar = (HERE.parents[1] / "grammar" / "rules.lark").read_text(encoding="utf-8")
    statements = re.search(r"^\?statement: (.*)$", grammar, re.MULTILINE)
    assert statements is not None
    assert len({*statements[1].split(" | ")} - {"assign", "edit"}) == len(WORDS)
    page = (HERE.parents[1] / "docs" / "language.md").read_text(encoding="utf-8")
    assert [word for word in WORDS if f"`{word} " not in page] == []


def everything() -> ast.RuleFile:
    file, problems = parse((HERE / "everything.rules").read_text(encoding="utf-8") + MORE, "everything.rules")
    assert not problems
    return file


def test_every_record_of_the_syntax_is_written_read_checked_and_kept() -> None:
    file = everything()
    records = {kind for kind in vars(ast).values() if isinstance(kind, type) and names(kind) is not None}
    assert records - {type(record) for record in walk(file)} == {ast.Span}
    assert not [found for found in check(file) if found.code.startswith("E0")]
    assert same(parse(format_text(file.text), file.path)[0].rules, file.rules)
    assert unpack(pack(flat(file))) == file
