"""Whether a repair says what makes it certain, and asks what its evidence claims.

A repair changes numbers, or has a refused model accepted, on the strength of its evidence. What the text of a rule alone can
show is checked here: that there is evidence, and that a rule which appeals to a declaration, to the framework's own file or to
an exporter asks for it. Whether instances of `refused` are in fact refused is for `rewriter verify` to find out.
"""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext, did_you_mean
from rewriter.language.header import EVIDENCE, RUNTIMES
from rewriter.language.walk import pattern_nodes, walk

DECLARED = frozenset({"declared_dtype", "declared_rank", "declared_shape"})
MISDECLARED = frozenset({"misdeclared_tensors", "misdeclared_outputs"})
SHAPE_FUNCTIONS = frozenset({"shape", "rank", "dim", "size", "broadcast", "can_broadcast"})
BROADCASTING = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "PRelu", "Max", "Min", "Mean", "Sum", "Where", "Expand"),
        *("And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    }
)


def check_evidence(context: CheckContext) -> None:
    """Reports evidence that is missing, unknown, out of place or not asked for, and doubt about a shape that decides."""
    item = next((item for item in context.rule.meta if item.key == "evidence"), None)
    if item is None:
        if context.is_repair:
            _missing(context)
    elif not context.is_repair:
        message = f"`evidence` belongs to a repair, and this rule is of kind `{context.header.kind.name}`"
        context.report("E254", message, item.span, "not here", helps=("leave it out", "or say `kind: repair`"))
    elif context.header.evidence is not None and _known(context, item, context.header.evidence):
        _asked(context, item, context.header.evidence)
    _doubtful_broadcast(context)


def _missing(context: CheckContext) -> None:
    span = next((item.span for item in context.rule.meta if item.key == "kind"), context.rule.code_span)
    context.report(
        "E254",
        "a repair says what makes it certain, and this one does not",
        span,
        "on what evidence?",
        (f"one of: {', '.join(EVIDENCE)}",),
        ("`evidence: refused` where the model is refused as it is", "`evidence: guess` where the model does not tell"),
    )


def _known(context: CheckContext, item: ast.MetaItem, evidence: ast.Evidence) -> bool:
    """Whether the words are words of the language."""
    if evidence.name not in EVIDENCE:
        notes, helps = (f"one of: {', '.join(EVIDENCE)}",), did_you_mean(evidence.name, EVIDENCE)
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


def _asked(context: CheckContext, item: ast.MetaItem, evidence: ast.Evidence) -> None:
    """Whether the rule asks for what it appeals to."""
    header = context.header
    message, help_text = "", ""
    if evidence.name == "source" and not header.needs_source:
        message = "evidence from the framework's own file, and the rule does not need that file"
        help_text = "say `needs: source`, and ask source(...) in a condition"
    elif evidence.name == "exporter" and not header.exporters:
        message = "evidence is what an exporter leaves, and the rule names no exporter"
        help_text = 'name it, and the versions that have the defect: exporter: "mxnet", versions: "<1.9"'
    elif evidence.name == "contradiction" and not any(_asks_declaration(context.rule)):
        message = "evidence is a declaration that the nodes contradict, and no condition asks for one"
        help_text = "ask declared_dtype, declared_rank, declared_shape or a `model.misdeclared_...` fault in a `where` line"
    if message:
        context.report("E255", message, item.value_span, "not asked for", helps=(help_text,))
    if (
        evidence.name == "guess"
        and (on := next((i for i in context.rule.meta if i.key == "default"), None))
        and on.value == "on"
    ):
        message = "`default: on` and `evidence: guess` contradict each other"
        helps = ("take `default: on` away: a guess runs where `--guess` or its code asks for it",)
        context.report("E252", message, on.value_span, "runs for everybody", helps=helps)


def _asks_declaration(rule: ast.Rule) -> Iterator[bool]:
    """True for each question about what the model declares, in conditions and in the values that they read."""
    for part in (*rule.wheres, *rule.lets):
        for one in walk(part):
            if isinstance(one, ast.Call):
                yield one.function in DECLARED
            elif isinstance(one, ast.Field):
                yield one.name in MISDECLARED


def _doubtful_broadcast(context: CheckContext) -> None:
    """A rewrite that takes a broadcasting node away changes shapes where its operands differ: `maybe` must not decide that."""
    if not _drops_broadcast(context.rule):
        return
    for where in context.rule.wheres:
        for call in walk(where):
            if isinstance(call, ast.Call) and call.function == "maybe" and _about_shapes(call):
                context.report(
                    "E217",
                    "`maybe` decides about a shape, and the rewrite takes a node away that may broadcast",
                    call.span,
                    "also holds where the shapes differ",
                    ("where the shapes are unknown, the result could have another shape",),
                    ("ask the shapes themselves, so that the rule does not fire where they are unknown",),
                )


def _drops_broadcast(rule: ast.Rule) -> bool:
    """Whether the output of a matched broadcasting node becomes that of another operator, or another tensor."""
    made = {
        output.name: {op.name for op in node.ops}
        for node in pattern_nodes(rule.match)
        for output in node.outputs
        if any(op.name in BROADCASTING for op in node.ops)
    }
    for statement in (statement for rewrite in rule.rewrites for statement in rewrite.statements):
        if isinstance(statement, ast.Redirect) and statement.output in made:
            return True
        if isinstance(statement, ast.Build):
            redefined = [output.name for output in statement.outputs if output.name in made]
            if any(statement.op.name not in made[name] for name in redefined):
                return True
    return False


def _about_shapes(call: ast.Call) -> bool:
    return any(isinstance(part, ast.Call) and part.function in SHAPE_FUNCTIONS for part in walk(call))
