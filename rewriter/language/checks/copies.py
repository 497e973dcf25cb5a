"""Attributes that a rewrite would lose or bring along by mistake: the classic error of rebuilding a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewriter.language import ast, schema
from rewriter.language.checks.context import CheckContext
from rewriter.language.walk import pattern_nodes


def check_copies(
    context: CheckContext, build: ast.Build, copied: Mapping[str, tuple[ast.Op, ...]], opsets: Sequence[int]
) -> None:
    """A new node of a matched operator keeps the attributes (W301), and copies fit the operator that they go to (W303)."""
    if build.op.param or not schema.history(build.op.name, build.op.domain):
        return
    if _wraps(build):
        return
    written = {attr.name for attr in build.attrs if isinstance(attr, ast.AttrSet)}
    if copied:
        _strange(context, build, copied, written, opsets)
    else:
        _lost(context, build, written, opsets)


def _wraps(build: ast.Build) -> bool:
    """`y = Cast<to=float>(y)`: the matched node stays as it is, and the new one takes its value."""
    made = {output.name for output in build.outputs}
    return any(isinstance(operand, ast.Ref) and operand.name in made for operand in build.inputs)


def _lost(context: CheckContext, build: ast.Build, written: set[str], opsets: Sequence[int]) -> None:
    op = build.op
    has = set(schema.attributes(op.name, op.domain, _versions(op, opsets)))
    for node in pattern_nodes(context.rule.match):
        if not any(other.name == op.name and schema.normal(other.domain) == schema.normal(op.domain) for other in node.ops):
            continue
        if {output.name for output in node.outputs} & {
            operand.name for operand in build.inputs if isinstance(operand, ast.Ref)
        }:
            continue  # it stands behind the matched node, not in its place
        lost = sorted(has - written - {attr.name for attr in node.attrs})
        if not lost:
            continue
        label = node.label or "n"
        where = "" if node.label else f", with the label `[{label}]` in the pattern"
        helps = (f"copy them: `{op.name}<..{label}>(...)`{where}", "or constrain them in the pattern, or write them here")
        context.report(
            "W301",
            f"the new `{op.name}` forgets attributes of the matched one: {', '.join(lost)}",
            op.span,
            "made anew without them",
            helps=helps,
        )
        return


def _strange(
    context: CheckContext, build: ast.Build, copied: Mapping[str, tuple[ast.Op, ...]], written: set[str], opsets: Sequence[int]
) -> None:
    op = build.op
    takes = set(schema.attributes(op.name, op.domain, _versions(op, opsets)))
    constrained = {node.label: _absent(node) for node in pattern_nodes(context.rule.match) if node.label}
    for attr in build.attrs:
        if not isinstance(attr, ast.AttrCopy):
            continue
        brings: set[str] = set()
        for other in copied.get(attr.label, ()):
            if (other.name, schema.normal(other.domain)) != (op.name, schema.normal(op.domain)) and not other.param:
                brings |= set(schema.attributes(other.name, other.domain, _versions(other, opsets)))
        strange = sorted(brings - takes - constrained.get(attr.label, set()))
        if strange:
            names = ", ".join(f"`{name}`" for name in strange)
            message = f"`..{attr.label}` may bring along what `{op.name}` does not have: {names}"
            helps = (f"require in the pattern that it is absent (`!{strange[0]}`), or write the attributes one by one",)
            context.report("W303", message, attr.span, "copied where it does not belong", helps=helps)


def _absent(node: ast.NodePattern) -> set[str]:
    return {attr.name for attr in node.attrs if attr.mode == "absent"}


def _versions(op: ast.Op, opsets: Sequence[int]) -> Sequence[int]:
    return range(1, schema.latest_opset(op.domain) + 1) if schema.normal(op.domain) else opsets
