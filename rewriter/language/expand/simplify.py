"""What is left of a rule where a part of its pattern is not there: names that nothing binds are `none`, and what then decides
itself is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rewriter.language import ast
from rewriter.language.expand.rebuild import rebuild
from rewriter.language.walk import walk
from rewriter.record import replace


def left_of(part: Any, missing: Collection[str], same: Mapping[str, str]) -> Any:
    """A part of a rule behind its pattern, in a variant that does not bind the `missing` names.

    Args:
        same: names that mean another one there.
    """

    targets = {one.target.span for one in walk(part) if isinstance(one, ast.Redirect)}  # for which nothing is no tensor

    def change(node: Any) -> Any:
        if isinstance(node, ast.Ref) and node.name in missing and node.span in targets:
            return node  # which the checks refuse
        rule = _RULES.get(node.__class__)
        return node if rule is None else rule(node, missing, same)

    return rebuild(part, change)


def is_false(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.value is False


def _name(node: ast.Name, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.id in missing:
        return ast.Literal(None, node.span)
    return replace(node, id=same[node.id]) if node.id in same else node


def _ref(node: ast.Ref, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.name in missing:
        return None if node.spread else ast.Absent(node.span)
    return replace(node, name=same[node.name]) if node.name in same else node


def _copy(node: ast.AttrCopy, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return None if node.label in missing else node


def _place(node: ast.Place, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.base in missing:
        return None  # and so is the statement
    return replace(node, base=same[node.base]) if node.base in same else node


def _at_place(node: ast.Edit | ast.Delete, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return None if node.place is None else node


def _inline(node: ast.Inline, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return None if node.label in missing else node


def _each(node: ast.Each, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return None if node.base in missing else node


def _add_output(node: ast.AddOutput, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.name in missing:
        return None
    return replace(node, name=same[node.name]) if node.name in same else node


def _output(node: ast.Output, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return replace(node, name=same[node.name]) if node.name is not None and node.name in same else node


def _redirect(node: ast.Redirect, missing: Collection[str], same: Mapping[str, str]) -> Any:
    """Where nothing stands between two tensors, the one needs not be put in the place of the other."""
    output = same.get(node.output, node.output)
    if node.output in missing or (isinstance(node.target, ast.Ref) and node.target.name == output):
        return None
    return replace(node, output=output) if output != node.output else node


def _private(node: ast.Private, missing: Collection[str], same: Mapping[str, str]) -> Any:
    names = tuple(dict.fromkeys(same.get(name, name) for name in node.names if name not in missing))
    return None if not names else replace(node, names=names) if names != node.names else node


# --- Expressions that decide themselves ------------------------------------------------------------------------------------


def _call(node: ast.Call, missing: Collection[str], same: Mapping[str, str]) -> Any:
    first = node.args[0] if node.args else None
    absent = isinstance(first, ast.Literal) and first.value is None
    if node.function == "matched" and len(node.args) == 1 and isinstance(first, ast.Name | ast.Literal):
        return ast.Literal(not absent, node.span)
    if node.function == "present" and absent:
        return ast.Literal(False, node.span)
    return node.args[1] if node.function == "default" and absent and len(node.args) == 2 else node


def _unary(node: ast.Unary, missing: Collection[str], same: Mapping[str, str]) -> Any:
    decided = node.op == "not" and isinstance(node.operand, ast.Literal) and isinstance(node.operand.value, bool)
    return ast.Literal(is_false(node.operand), node.span) if decided else node


def _logic(node: ast.Logic, missing: Collection[str], same: Mapping[str, str]) -> Any:
    decisive = node.op == "or"
    if any(isinstance(one, ast.Literal) and one.value is decisive for one in node.operands):
        return ast.Literal(decisive, node.span)
    open_ = tuple(one for one in node.operands if not (isinstance(one, ast.Literal) and one.value is (not decisive)))
    if len(open_) == len(node.operands):
        return node
    return ast.Literal(not decisive, node.span) if not open_ else open_[0] if len(open_) == 1 else replace(node, operands=open_)


def _choice(node: ast.Choice, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if isinstance(node.test, ast.Literal) and isinstance(node.test.value, bool):
        return node.then if node.test.value else node.other
    return node


_RULES: Mapping[type, Any] = {
    ast.Name: _name,
    ast.Ref: _ref,
    ast.AttrCopy: _copy,
    ast.Place: _place,
    ast.Edit: _at_place,
    ast.Delete: _at_place,
    ast.Inline: _inline,
    ast.Each: _each,
    ast.AddOutput: _add_output,
    ast.Output: _output,
    ast.Redirect: _redirect,
    ast.Private: _private,
    ast.Call: _call,
    ast.Unary: _unary,
    ast.Logic: _logic,
    ast.Choice: _choice,
}
