"""Who takes conditions apart: the syntax, its checks, the evaluator and the claims. All others ask one of these."""

from __future__ import annotations

import ast as python
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "rewriter"
FORMS = {"Binary", "Call", "Choice", "Compare", "Index", "Logic", "Quantified"}
"""Expressions that are made of expressions. A name, a literal or a list may stand in a pattern, too."""

READERS = {
    "core/conditions/evaluate.py": "gives an expression its value",
    "core/conditions/witnessed.py": "says which parts decided a value",
    "core/language/claims.py": "says what a condition demands",
    "core/language/expand/rule_forms.py": "writes definitions out",
    "core/language/expand/variants.py": "writes out what is left where a part of the pattern is absent",
    "core/language/syntax/tree.py": "makes expressions of text",
    "rule_tools/checks/evidence.py": "checks what a rule appeals to",
    "rule_tools/checks/expressions.py": "checks types",
}
PATTERNS = {
    "core/engine/compile.py": "what it costs to ask a condition",
    "core/matching/requirements.py": "an attribute that a rewrite gives the element type of a tensor",
    "rule_tools/explain/places.py": "an attribute that is computed from names is told with its value",
    "rule_tools/lint/outcome.py": "which places a rule speaks of",
    "trust/proof/instances/element_types.py": "what a rule asks the framework's file, for one to be made",
}
"""These weigh or look for one form among all parts of a rule, and take no condition apart."""


def test_who_takes_conditions_apart() -> None:
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    found = {
        name
        for name, text in texts.items()
        if re.search(rf"\b(?:ast|tree)\s*\.\s*(?:{'|'.join(FORMS)})\b", text)  # without it, parsing the text finds no such node
        for node in python.walk(python.parse(text))
        if isinstance(node, python.Attribute)
        and node.attr in FORMS
        and isinstance(node.value, python.Name)
        and node.value.id in ("ast", "tree")
    }
    assert found - PATTERNS.keys() == READERS.keys()
