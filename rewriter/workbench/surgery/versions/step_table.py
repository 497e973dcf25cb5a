"""Every step of every operator, with what `rewriter opset` does about it: for readers, and for a test that misses none."""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.core.language import ast, schema
from rewriter.core.language.schema import Operator
from rewriter.core.language.walk import walk
from rewriter.core.record import record
from rewriter.workbench.surgery.versions.opset_conversion import conversions
from rewriter.workbench.surgery.versions.opset_steps import CHANGED, MEANINGLESS, NEWER, OLDER, WIDENED, has_body

NOTHING = "nothing to do"


@record(frozen=True, slots=True)
class StepRow:
    """A step of an operator: `before` is the version that it had, 0 for none; `up` and `down` say what is done about it."""

    op: str
    before: int
    version: int
    up: str
    down: str


def step_table() -> Iterator[StepRow]:
    """All steps of the operators of ONNX; that an operator came to be is one, too."""
    codes = _codes()
    for op in schema.operators():
        versions = schema.versions(op)
        for old, new in zip((0, *versions), versions, strict=False):
            if new == 1:
                continue
            up = _told(op, new - 1, new, codes.get((OLDER, op, new), [])) if old else NOTHING
            yield StepRow(op, old, new, up, _told(op, new, new - 1, codes.get((NEWER, op, new - 1), [])))


def _codes() -> dict[tuple[str, str, int], list[str]]:
    """Codes of the rules that convert an operator into a version."""
    found: dict[tuple[str, str, int], list[str]] = {}
    for rule in conversions():
        ops = {(part.domain, part.name) for part in walk(rule.ast.match) if isinstance(part, ast.Op)}
        for domain, op in ops:
            found.setdefault((domain, op, rule.header.opset.first or 0), []).append(rule.code)
    return found


def _told(op: str, before: int, after: int, codes: list[str]) -> str:
    old, new = schema.schema(op, "", before), schema.schema(op, "", after)
    assert old is not None or new is not None
    if old is None or old.deprecated:
        return NOTHING
    if new is None or new.deprecated:
        if codes:
            return f"converted by {', '.join(codes)}"
        return "written out as its body" if has_body(op, before) else f"refused: opset {after} has no {op}"
    lost = _lost_types(op, before, after)
    types = f"; refused for {', '.join(lost)}" if lost else ""
    if codes:
        return f"converted by {', '.join(codes)}{types}"
    step = op, max(before, after)
    changed = CHANGED.get(step) or (WIDENED.get(step) if after < before else None)
    if changed:
        return f"refused: {changed}{types}"
    reasons = list(_differences(old, new, after < before))
    if not reasons:
        return NOTHING + types
    return f"nothing to do, but {'; '.join(reasons)}{types}"


def _differences(old: Operator, new: Operator, down: bool) -> Iterator[str]:
    """What an operator lacks in a version that it had in another one."""
    for name, attribute in old.attributes.items():
        if name in new.attributes or name in MEANINGLESS:
            continue
        default = "ones" if schema.computed_default(old.name, "", name) == "ones" else attribute.default
        if down and default is not None:
            yield f"refused with {name} other than {default}"
        else:
            yield f"refused with {name}"
    if any(attribute.required and name not in old.attributes for name, attribute in new.attributes.items()):
        yield "refused: an attribute is required"
    for what, before, after in (("operand", old.inputs, new.inputs), ("result", old.outputs, new.outputs)):
        for formal in before[len(after) :]:
            yield f"refused with the {what} {formal.name}"
        for one, other in zip(before, after, strict=False):
            if one.optional and not other.optional and not other.variadic:
                yield f"refused without the {what} {one.name}"


def _lost_types(op: str, before: int, after: int) -> list[str]:
    """Element types that some operand or result may have in one version, and none in another."""
    types = []
    for version in (before, after):
        found = schema.registered_at(op, "", version)
        formals = () if found is None else (*found.inputs, *found.outputs)
        types.append({name for formal in formals for name in formal.types})
    return sorted(name.removeprefix("tensor(").removesuffix(")") for name in types[0] - types[1] if name.startswith("tensor("))
