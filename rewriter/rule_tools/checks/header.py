"""The header, the parameters and the settings of the tests: words and values that only this language defines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rewriter.core.language import ast, schema
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.header import KINDS, ONCE, PHASES, SEVERITIES
from rewriter.core.language.rules import LABELS, paragraphs
from rewriter.core.record import replace
from rewriter.rule_tools.checks import expressions as types
from rewriter.rule_tools.checks.context import Binding, CheckContext, NameScope, did_you_mean
from rewriter.rule_tools.checks.edits import operator_named
from rewriter.rule_tools.checks.expressions import Types
from rewriter.rule_tools.checks.names import PARAM_TYPES
from rewriter.rule_tools.checks.operators import check_operator

# Defines: the errors of a define that no rule calls, and the text that a message about a call has to quote.


def check_defines(rule_file: ast.RuleFile) -> list[Diagnostic]:
    """The errors of the defines of a file that do not depend on their arguments."""
    found: list[Diagnostic] = []
    known: set[str] = set()
    for define in rule_file.defines:
        context = CheckContext(ast.Rule("", "", (), (), ast.Match(), ()), rule_file)
        if define.name in known:
            context.report("E018", f"`{define.name}` is defined twice in this file", define.name_span, "cannot be defined")
        known.add(define.name)
        scope = NameScope(context)
        for param in define.params:
            scope.define(Binding(param, "param", "any", context.narrow(define.span, param)))
        Types(context, scope).of(define.body)
        for bound in scope.names.values():
            if not bound.uses and not bound.name.startswith("_"):
                helps = (f"leave it out, or call it `_{bound.name}`",)
                context.report("W202", f"the parameter `{bound.name}` is never used", bound.span, "never used", helps=helps)
        found += context.found
    return found


def explained(found: Iterable[Diagnostic], rule_file: ast.RuleFile) -> list[Diagnostic]:
    """The findings; a finding at the call of a define gets the define's text as a note."""
    texts = {define.name: define.text for define in (*rule_file.shared, *rule_file.defines)}
    if not texts:
        return list(found)
    return [_with_text(one, texts, rule_file.text) for one in found]


def _with_text(one: Diagnostic, texts: dict[str, str], text: str) -> Diagnostic:
    note = texts.get(text[one.span.start : one.span.end].partition("(")[0].strip())
    return one if note is None or note in one.notes else replace(one, notes=(*one.notes, note))


KEYS = (
    "before", "default", "evidence", "exporter", "ir", "issue", "kind", "needs", "once", "opset", "phase", "question",
    "replaces", "severity", "symptom", "target", "unverified", "versions",
)  # fmt: skip
_CHOICES = {"severity": SEVERITIES, "phase": PHASES, "default": ("on", "off"), "needs": ("source",), "once": ONCE}
_LISTS = ("exporter", "issue", "symptom", "before", "replaces", "needs", "target")
_VERSIONS = re.compile(r"\s*(==|!=|<=|>=|<|>|~=)\s*\d+(\.\d+)*([a-z0-9.+-]*)(\.\*)?\s*")
CODE = re.compile(r"[A-Z]+[0-9]+")
_TARGET = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_header(context: CheckContext) -> None:
    """Every key is known, written once, and has a value of its kind."""
    seen: set[str] = set()
    for item in context.rule.meta:
        if item.key not in KEYS:
            helps, notes = did_you_mean(item.key, KEYS), (f"keys: {', '.join(KEYS)}",)
            context.report("E251", f"there is no header key `{item.key}`", item.span, "unknown key", notes, helps)
        elif item.key in seen:
            context.report("E252", f"`{item.key}` is twice in the header", item.span, "again")
        else:
            _value(context, item)
        seen.add(item.key)
    _unasked(context)


def _unasked(context: CheckContext) -> None:
    """Reports a rule for some consumers that would change the models of all others."""
    items = {item.key: item for item in context.rule.meta}
    if "target" in items and "default" in items and items["default"].value == "on":
        message = "`default: on` and `target` contradict each other"
        helps = ("remove `default: on`: a rule with a target runs only if --target names it",)
        context.report("E252", message, items["default"].value_span, "runs for everybody", helps=helps)


def _value(context: CheckContext, item: ast.MetaItem) -> None:
    value = item.value
    if item.key == "kind":
        _kind(context, item)
    elif item.key == "evidence" and isinstance(value, ast.Evidence):
        pass  # `check_evidence` checks its claims
    elif item.key in ("opset", "ir"):
        _range(context, item)
    elif isinstance(value, (ast.Kind, ast.Evidence, ast.OpsetRange)) or (isinstance(value, tuple) and item.key not in _LISTS):
        wanted = "a text or a list of texts" if item.key in _LISTS else "a single word or text"
        context.report("E252", f"`{item.key}` must be {wanted}", item.value_span, "not of this kind")
    else:
        for word in value if isinstance(value, tuple) else (value,):
            _word(context, item, word)


def _word(context: CheckContext, item: ast.MetaItem, word: str) -> None:
    choices = _CHOICES.get(item.key)
    if choices and word not in choices:
        message = f"`{item.key}` cannot be `{word}`"
        helps = did_you_mean(word, choices)
        context.report("E252", message, item.value_span, "unknown word", (f"one of: {', '.join(choices)}",), helps)
    elif item.key in ("before", "replaces") and not CODE.fullmatch(word):
        message = f"`{item.key}` names rules by their codes, and `{word}` is no code"
        context.report("E252", message, item.value_span, "not a code", helps=("write codes as after `rule`: MX001",))
    elif item.key == "target" and not _TARGET.fullmatch(word):
        helps = ("write small letters, digits and hyphens: tensorrt",)
        context.report("E252", f"`{word}` cannot be the name of a target", item.value_span, "not such a name", helps=helps)
    elif item.key == "versions" and not all(_VERSIONS.fullmatch(part) for part in word.split(",")):
        helps = ('write comparisons, separated by commas: ">=1.3,<1.9"',)
        context.report("E252", f"`{word}` is not a range of versions", item.value_span, "not understood", helps=helps)
    elif not word.strip():
        context.report("E252", f"`{item.key}` is empty", item.value_span, "nothing written")


def _kind(context: CheckContext, item: ast.MetaItem) -> None:
    kind = item.value
    if not isinstance(kind, ast.Kind) or kind.name not in KINDS:
        word = kind.name if isinstance(kind, ast.Kind) else kind if isinstance(kind, str) else ""
        message = f"there is no kind `{word}`" if word else "`kind` must be one word"
        notes = (f"kinds: {', '.join(KINDS)}",)
        context.report("E252", message, item.value_span, "unknown kind", notes, did_you_mean(word, KINDS))
    elif kind.name == "approx" and not (kind.rtol > 0 or kind.atol > 0):
        helps = ("write how far results may be off: approx(rtol=1e-4)", "or promise equality: exact")
        context.report("E253", "`kind: approx` needs a bound", item.value_span, "how near?", helps=helps)
    elif kind.name != "approx" and (kind.rtol or kind.atol):
        context.report("E253", f"`kind: {kind.name}` takes no bound", item.value_span, "only approx has one")


def _range(context: CheckContext, item: ast.MetaItem) -> None:
    value = item.value
    if not isinstance(value, ast.OpsetRange):
        context.report(
            "E252", f"`{item.key}` must be a range", item.value_span, "not a range", helps=("write 7.. or ..12 or 9..12",)
        )
        return
    if value.first is not None and value.last is not None and value.first > value.last:
        context.report(
            "E252",
            f"the range {value.first}..{value.last} is empty",
            item.value_span,
            "ends before it begins",
            helps=(f"write {value.last}..{value.first}",),
        )
    latest = schema.latest_opset()
    if item.key == "opset" and value.first is not None and value.first > latest:
        message = f"there is no opset {value.first} yet"
        context.report("E252", message, item.value_span, notes=(f"the installed onnx knows opsets up to {latest}",))


# --- Parameters and settings ---------------------------------------------------------------------------------------------


def bind_params(context: CheckContext, scope: NameScope) -> None:
    """Defines the parameters; a default must be a literal of the parameter's type."""
    for param in context.rule.params:
        kind = param.type if param.type in PARAM_TYPES else "any"
        if kind == "any":
            notes = (f"types: {', '.join(PARAM_TYPES)}",)
            helps = did_you_mean(param.type, PARAM_TYPES)
            span = context.narrow(param.span, param.type)
            context.report("E213", f"there is no parameter type `{param.type}`", span, "unknown type", notes, helps)
        elif param.default is not None:
            _setting(context, param, param.default, "the default")
        scope.define(Binding(param.name, "param", kind, param.span))


def check_settings(context: CheckContext) -> None:
    """Tests set parameters that the rule has, to values that they can take."""
    params = {param.name: param for param in context.rule.params}
    for test in context.rule.tests:
        for name, value in test.settings:
            if name in params:
                _setting(context, params[name], value, "the setting")
            else:
                message = f"the rule has no parameter `{name}`"
                context.report("E213", message, value.span, "no such parameter", helps=did_you_mean(name, params))


def _setting(context: CheckContext, param: ast.Param, value: ast.Expr, role: str) -> None:
    if param.type not in PARAM_TYPES:
        return
    if isinstance(value, ast.Name) and param.type in ("op", "string"):
        helps = (f'write "{value.id}"',)
        context.report("E213", f"{role} of `{param.name}: {param.type}` is in quotes", value.span, "not a text", helps=helps)
        return
    actual = Types(context, NameScope(context)).of(value)
    accepted = {"op": "string", "dim": "int|string"}.get(param.type, param.type)
    if not types.fits(actual, accepted):
        message = f"{role} of `{param.name}: {param.type}` must be {types.describe(accepted)}"
        context.report("E213", message, value.span, f"this is {types.describe(actual)}")
    elif param.type == "op" and isinstance(value, ast.Literal) and isinstance(value.value, str):
        check_operator(context, operator_named(value.value, value.span), in_pattern=True)


def check_doc(context: CheckContext) -> None:
    """Reports labelled paragraphs of a doc comment that are out of order, or that lack the paragraph `Fix`."""
    labels = list(paragraphs(context.rule.doc))
    ordered = [label for label in LABELS if label in labels]
    span = context.rule.code_span
    if labels != ordered:
        message = f"the paragraphs of the doc comment are in another order: {', '.join(labels)}"
        context.report("W204", message, span, "not in order", helps=(f"write {', '.join(ordered)}",))
    elif labels and "Fix" not in labels:
        message = "the doc comment has labelled paragraphs, but `Fix:` is missing"
        context.report("W204", message, span, "no `Fix:`", helps=("add a line `/// Fix: ...`; `rewriter fix` prints it",))
