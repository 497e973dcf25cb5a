"""Whether a repair states why it is certain, and tests the facts that its evidence claims.

A repair changes output values, or makes a rejected model load, on the strength of its evidence. This module checks what the
text of a rule shows: that there is evidence, and that a rule which appeals to a declaration, to the framework's own file or to
an exporter tests for it. `rewriter verify` tests whether models of a rule with `evidence: refused` are in fact rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.ast import children, pattern_nodes, walk
from rewriter.core.language.diagnostics import Diagnostic, suggest
from rewriter.core.language.expand.variants import is_false, left_of
from rewriter.core.language.functions import OF_ABSENT, SOURCE_FUNCTIONS
from rewriter.core.language.header import EVIDENCE, KINDS, RUNTIMES
from rewriter.core.language.operator_traits import of_form
from rewriter.core.record import replace
from rewriter.rule_tools.checks.context import CheckContext, did_you_mean
from rewriter.rule_tools.checks.header import KEYS

# Uses of operands or nodes that may be absent: an optional operand, a node of another form of the pattern.
#
# Such a rule would just not fire if they are absent, and its author would not notice.


def without_optional(rule: ast.Rule) -> Iterator[tuple[str, ast.Rule]]:
    """Each operand `b?` that the conditions do not demand, and the rule that remains if it is absent."""
    for name in dict.fromkeys(one.name for one in walk(rule.match) if isinstance(one, ast.Capture) and one.optional):
        wheres, lets, rewrites = (left_of(part, {name}, {}) for part in (rule.wheres, rule.lets, rule.rewrites))
        if any(is_false(where.condition) for where in wheres) or any(_absent_arguments(wheres)):
            continue
        read = {one.id for one in walk((*wheres, *rewrites)) if isinstance(one, ast.Name)}
        lets = tuple(let for let in lets if let.name in read)
        yield name, replace(rule, wheres=wheres, lets=lets, rewrites=rewrites)


def asks_nothing(rule: ast.Rule, rule_file: ast.RuleFile, question: str = "matched(n)") -> Iterator[Diagnostic]:
    """Reports functions of, and arithmetic with, absent operands; `question` is the test for their presence."""
    for span, what in _absent_arguments((*rule.wheres, *rule.lets, *rule.rewrites)):
        name = rule_file.text[span.start : span.end]
        message = f"if `{name}` is absent, {what}"
        label = "" if "present" in question else "label the node, and "
        helps = (f"{label}ask first: not {question} or ... in a condition, {{... if {question} else none}} for an operand",)
        yield Diagnostic("E206", message, span, "not always there", (), helps, rule_file.path)


def _absent_arguments(part: Any) -> Iterator[tuple[ast.Span, str]]:
    for one in walk(part):
        if isinstance(one, ast.Call) and one.function not in OF_ABSENT:
            yield from ((arg.span, f"`{one.function}` has no value") for arg in one.args if _is_none(arg))
        elif isinstance(one, ast.Binary):
            yield from ((arg.span, f"`{one.op}` has no value") for arg in (one.left, one.right) if _is_none(arg))


def _is_none(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.value is None


# Whether a rule says in its header that it needs the framework's own file.

_ANSWERED = frozenset({"maybe", "known", "source_has"})
"""Functions that return an answer if there is no such file."""


def check_source(context: CheckContext) -> None:
    """Reports a condition that only the framework's file can make true, and a header that requires the file in vain."""
    rule = context.rule
    lets = {let.name: let.value for let in rule.lets}
    known: dict[str, ast.Call | None] = {}
    needing = [call for where in rule.wheres if (call := _needed(where.condition, lets, known)) is not None]
    if needing and not context.header.needs_source:
        context.report(
            "W203",
            f"without the framework's file `{needing[0].function}` is always unknown",
            needing[0].span,
            "reads the framework's file",
            helps=("declare it in the header: `needs: source`", "or let the rule fire if the condition is unknown: maybe(...)"),
        )
    item = next((item for item in rule.meta if item.key == "needs"), None)
    if context.header.needs_source and item is not None and not _mentions(rule):
        message = "the rule needs the framework's file and never reads it"
        context.report("W203", message, item.span, "without effect", helps=("leave it out",))


def _needed(expr: object, lets: Mapping[str, ast.Expr], known: dict[str, ast.Call | None]) -> ast.Call | None:
    """The question without whose answer an expression is unknown, or None. One side of an `or` is enough to answer it.

    `known` caches the results for `let` names: many others may read each name.
    """
    if isinstance(expr, ast.Call) and expr.function in _ANSWERED:
        return None
    if isinstance(expr, ast.Call) and expr.function in SOURCE_FUNCTIONS:
        return expr
    if isinstance(expr, ast.Name):
        if expr.id in lets and expr.id not in known:
            known[expr.id] = None
            known[expr.id] = _needed(lets[expr.id], lets, known)
        return known.get(expr.id)
    if isinstance(expr, ast.Logic) and expr.op == "or":
        found = [_needed(operand, lets, known) for operand in expr.operands]
        return found[0] if all(found) else None
    if isinstance(expr, ast.Choice):
        then, other = _needed(expr.then, lets, known), _needed(expr.other, lets, known)
        return _needed(expr.test, lets, known) or (then if other else None)
    return next((call for child in children(expr) if (call := _needed(child, lets, known)) is not None), None)


def _mentions(rule: ast.Rule) -> bool:
    return any(
        isinstance(record, ast.Call) and record.function in SOURCE_FUNCTIONS
        for part in (*rule.wheres, *rule.lets, *rule.rewrites)
        for record in walk(part)
    )


DECLARED = frozenset({"declared_dtype", "declared_rank", "declared_shape"})
MISDECLARED = frozenset({"misdeclared_tensors", "misdeclared_outputs", "misdeclared_maps"})
SHAPE_FUNCTIONS = frozenset({"shape", "rank", "dim", "size", "broadcast", "can_broadcast"})
BROADCASTING = of_form("broadcast", "sloped", "expand")


def check_evidence(context: CheckContext) -> None:
    """Reports evidence that is missing, unknown, out of place or not tested, and doubt about a shape that decides."""
    items = {item.key: item for item in context.rule.meta}
    item = items.get("evidence")
    if item is None:
        if context.is_repair and not any(key not in KEYS and suggest(key, ["evidence"]) for key in items):
            _missing(context)
    elif not context.is_repair:
        if "kind" in items and getattr(items["kind"].value, "name", "") not in KINDS:
            return  # `check_header` reports the kind, which may be a repair
        message = f"`evidence` belongs to a repair, and this rule is of kind `{context.header.kind.name}`"
        context.report("E254", message, item.span, "not here", helps=("leave it out", "or say `kind: repair`"))
    elif context.header.evidence is not None and _known(context, item, context.header.evidence):
        _check_question(context, item, context.header.evidence)
    _doubtful_broadcast(context)


_ANSWERS = (
    "`evidence: refused` if the model is rejected without the repair",
    "`evidence: guess` if the repair cannot be determined from the model",
)


def _missing(context: CheckContext) -> None:
    span = next((item.span for item in context.rule.meta if item.key == "kind"), context.rule.code_span)
    context.report(
        "E254",
        "a repair names its evidence, and this one does not",
        span,
        "on what evidence?",
        (f"one of: {', '.join(EVIDENCE)}",),
        _ANSWERS,
    )


def _known(context: CheckContext, item: ast.MetaItem, evidence: ast.Evidence) -> bool:
    """Whether the words are words of the language."""
    if evidence.name not in EVIDENCE:
        notes, helps = (f"one of: {', '.join(EVIDENCE)}",), did_you_mean(evidence.name, EVIDENCE) or _ANSWERS
        context.report("E252", f"there is no evidence `{evidence.name}`", item.value_span, "unknown word", notes, helps)
        return False
    if evidence.runtime and evidence.name != "refused":
        message = f"only `refused` names a runtime, not `{evidence.name}`"
        context.report("E252", message, item.value_span, "not here", helps=(f"write just `{evidence.name}`",))
        return False
    if evidence.runtime and evidence.runtime not in RUNTIMES:
        notes, helps = (f"known: {', '.join(RUNTIMES)}",), did_you_mean(evidence.runtime, RUNTIMES)
        context.report("E252", f"no runtime is called `{evidence.runtime}`", item.value_span, "unknown runtime", notes, helps)
        return False
    return True


def _check_question(context: CheckContext, item: ast.MetaItem, evidence: ast.Evidence) -> None:
    """Whether the rule tests the fact to which it appeals."""
    header = context.header
    message, help_text = "", ""
    if evidence.name == "source" and not header.needs_source:
        message = "evidence from the framework's own file, and the rule does not need that file"
        help_text = "write `needs: source`, and use source(...) in a condition"
    elif evidence.name == "exporter" and not header.exporters:
        message = "evidence is what an exporter leaves, and the rule names no exporter"
        help_text = 'name it, and the versions that have the defect: exporter: "mxnet", versions: "<1.9"'
    elif evidence.name == "contradiction" and not any(_asks_declaration(context.rule)):
        message = "the evidence is a contradicted declaration, but no condition reads a declaration"
        help_text = "ask declared_dtype, declared_rank, declared_shape or a `model.misdeclared_...` fault in a `where` line"
    if message:
        context.report("E255", message, item.value_span, "not asked for", helps=(help_text,))
    if (
        evidence.name == "guess"
        and (on := next((i for i in context.rule.meta if i.key == "default"), None))
        and on.value == "on"
    ):
        message = "`default: on` and `evidence: guess` contradict each other"
        helps = ("remove `default: on`: a guess runs only with `--guess` or if its code is selected",)
        context.report("E252", message, on.value_span, "runs for everybody", helps=helps)


def _asks_declaration(rule: ast.Rule) -> Iterator[bool]:
    """True for each question about declarations of the model, in conditions and in the values that they read."""
    for part in (*rule.wheres, *rule.lets):
        for one in walk(part):
            if isinstance(one, ast.Call):
                yield one.function in DECLARED
            elif isinstance(one, ast.Field):
                yield one.name in MISDECLARED


def _doubtful_broadcast(context: CheckContext) -> None:
    """Reports `maybe` that decides about the removal of a broadcasting node: shapes change if its operands differ."""
    if not _drops_broadcast(context.rule):
        return
    for where in context.rule.wheres:
        for call in walk(where):
            if isinstance(call, ast.Call) and call.function == "maybe" and _about_shapes(call):
                context.report(
                    "E217",
                    "`maybe` decides about a shape, and the rewrite removes a node that may broadcast",
                    call.span,
                    "also true if the shapes differ",
                    ("where the shapes are unknown, the result could have another shape",),
                    ("ask the shapes themselves, so that the rule does not fire where they are unknown",),
                )


def _drops_broadcast(rule: ast.Rule) -> bool:
    """Whether another operator or another tensor replaces the output of a matched broadcasting node."""
    makers = {
        output.name: {op.name for op in node.ops}
        for node in pattern_nodes(rule.match)
        for output in node.outputs
        if any(op.name in BROADCASTING for op in node.ops)
    }
    for statement in (statement for rewrite in rule.rewrites for statement in rewrite.statements):
        if isinstance(statement, ast.Redirect) and statement.output in makers:
            return True
        if isinstance(statement, ast.Build):
            redefined = [output.name for output in statement.outputs if output.name in makers]
            if any(statement.op.name not in makers[name] for name in redefined):
                return True
    return False


def _about_shapes(call: ast.Call) -> bool:
    return any(isinstance(part, ast.Call) and part.function in SHAPE_FUNCTIONS for part in walk(call))
