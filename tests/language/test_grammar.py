"""The nodes of the parser are lark's own trees, places included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree

from rewriter.core.language.rule_files import find_rule_files, read_rule_file
from rewriter.core.language.syntax.grammar import Node, grammar
from rewriter.core.language.syntax.scan import scan
from rewriter.core.resources import resource


def same(theirs: Any, mine: Any) -> bool:
    if theirs is None or mine is None or isinstance(theirs, Token):
        return bool(theirs == mine) and getattr(theirs, "start_pos", 0) == getattr(mine, "start_pos", 0)
    assert isinstance(theirs, Tree) and isinstance(mine, Node)
    return (
        (theirs.data, theirs.meta.start_pos, theirs.meta.end_pos) == (mine.data, mine.start_pos, mine.end_pos)
        and len(theirs.children) == len(mine.children)
        and all(map(same, theirs.children, mine.children))
    )


def test_nodes_are_larks_trees() -> None:
    text = resource("grammar/rules.lark").read_text(encoding="utf-8")
    lark = Lark(text, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)
    count = 0
    every_form = str(Path(__file__).with_name("everything.rules"))
    for rules in map(read_rule_file, [every_form, *find_rule_files(None)[::4]]):
        for chunk in scan(rules)[0]:
            rule = rules[chunk.start : chunk.end]
            assert same(lark.parse(rule), grammar().parse(rule)), rule
            count += 1
    assert count > 150
