"""Whether a rule is meant for a model at all: its exporter, its opset and IR range, its need for source information. It is the
first of the questions that `rewriter.core.matching` lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rewriter.core.framework.exporter import Exporter, matches
from rewriter.core.language.rule import Rule
from rewriter.core.language.rules import RuleSet
from rewriter.core.log.records import Skipped
from rewriter.core.record import record


@record(frozen=True, slots=True)
class GuardedModel:
    """What rules are held against before anything of them is tried.

    Attributes:
        ir_version: None where the model says none.
        opsets: versions of ONNX's own operators in the model and its functions.
        has_source: whether the framework's own file is known.
    """

    exporter: Exporter
    ir_version: int | None
    opsets: Collection[int]
    has_source: bool


MOST_SUBJECTS = 256
_known: dict[tuple[object, ...], tuple[RuleSet, tuple[list[Rule], list[Skipped]]]] = {}
"""What was found for subjects of the same rules: models of one exporter are alike, and each call selects its rules anew."""


def suited(rules: RuleSet, subject: GuardedModel) -> tuple[list[Rule], list[Skipped]]:
    """The rules that are meant for a model, and why the others are not. The lists are shared, and not to be changed."""
    same = tuple(map(id, rules.rules)), tuple(map(id, rules.aside)), rules.by_id
    key = same, subject.exporter, subject.ir_version, frozenset(subject.opsets), subject.has_source
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_SUBJECTS:
            _known.clear()
        known = _known[key] = rules, _suited(rules, subject)  # with the rules, so that no others get their id()
    return known[1]


def _suited(rules: RuleSet, subject: GuardedModel) -> tuple[list[Rule], list[Skipped]]:
    found, skipped = list[Rule](), list[Skipped]()
    for rule in rules.aside:
        why = f"it is meant for {', '.join(rule.targets)}; --target {rule.targets[0]} runs it, or select it by its code"
        skipped.append(Skipped(rule.code, why))
    for rule in rules:
        reason = refusal(rule, subject, by_id=rule.code in rules.by_id)
        if reason is None:
            found.append(rule)
        else:
            skipped.append(Skipped(rule.code, reason))
    return found, skipped


def refusal(rule: Rule, subject: GuardedModel, *, by_id: bool) -> str | None:
    """Why the rule is not tried on this model, or None. Asked for by its own code, a rule runs on any exporter's model."""
    if not by_id and rule.exporters:
        meant = matches(subject.exporter, rule.exporters, rule.versions)
        if meant is not True:
            return f"{meant}; select {rule.code} by its code to try it anyway"
    if subject.ir_version and subject.ir_version not in rule.ir:
        return f"the model's ir_version is {subject.ir_version}"
    if subject.opsets and not any(version in rule.opset for version in subject.opsets):
        return f"the model's opset is {_listed(subject.opsets)}"
    if rule.needs_source and not subject.has_source:
        return "it needs the framework's own file (--source)"
    return None


def _listed(versions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(versions)))
