"""From the rewrites of a trial run to a plan that you edit, and from the plan to the work that carries it out.

`rewriter plan` and `rewriter apply` use it. The format of the file is in `plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewriter import __version__
from rewriter.app.batch.work import Outcome, Reading, Rewriting, Work, is_url
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet
from rewriter.core.record import replace
from rewriter.trust.plan_file import Document, Proposal
from rewriter.trust.stamp import SHORT, file_digest, fired_only, settings_of
from rewriter.workbench.surgery.opened import Opened


def plan_of(outcome: Outcome, work: Work, model: Opened, path: str, rules: Sequence[str] | None) -> Document:
    """The plan of the rewrites that a run would do.

    Args:
        outcome: of the run.
        work: its settings.
        model: on which it ran.
        path: of the model, or its URL.
        rules: the paths of the rules.
    """
    assert outcome.log is not None
    used = fired_only(work.rewriting.rules, frozenset(outcome.log.counts))
    source = outcome.source
    place = source
    if source and is_url(path) and work.reading.source == "auto":
        from rewriter.app.batch.remote import beside

        place = beside(path, Path(source).name)
    return Document(
        version=__version__,
        model=path,
        sha256=model.digest(),
        rule_paths=tuple(rules or ["shipped"]),
        rules={rule.code: rule.digest[:SHORT] for rule in used},
        proposals=tuple(_proposals(outcome)),
        asked=tuple(sorted(used.chosen_runtimes)),
        set={f"{code}.{name}": value for (code, name), value in sorted(used.settings.items())},
        source=None if source is None else (str(place), file_digest(Path(source))),
        constant_inputs=work.reading.constant_inputs,
        tidy=work.rewriting.tidy,
    )


def _proposals(outcome: Outcome) -> list[Proposal]:
    """The firings that would happen, then the suppressed and the rolled back ones."""
    log = outcome.log
    assert log is not None
    found = [Proposal(f.number, True, f.rule, f.place, f.root, f.matched, f.parents) for f in log.firings]
    kept = [(one.rule, one.place, one.root, f"suppressed ({one.origin}): {one.reason}") for one in log.suppressed]
    kept += [(one.rule, one.place, one.root, f"rolled back: {one.reason}") for one in log.rolled_back if one.place]
    found += [Proposal(0, False, rule, place, root, None, (), why) for rule, place, root, why in kept if rule in log.counts]
    return found


def work_of(plan: Document, name: str, known: RuleSet, model: Opened, source: Opened | None) -> Work:
    """The work that a plan describes, if the model, the rules and the source file are unchanged.

    Args:
        plan: the plan.
        name: of its file.
        known: the rules of its paths.
        model: its model.
        source: its source file.

    Raises:
        RewriterError: the model, a rule or the source file has changed.
    """
    found = model.digest()
    if found != plan.sha256:
        raise RewriterError(f"{model.name} is not the model of the plan: its SHA-256 is {found}, the plan's {plan.sha256}")
    for code, digest in plan.rules.items():
        rule = known.get(code)
        if rule is None:
            raise RewriterError(f"{name}: rule {code} is not among the rules any more")
        if rule.digest[:SHORT] != digest:
            raise RewriterError(f"{name}: rule {code} changed since the plan was made; make a new plan")
    if plan.source is not None and source is not None and file_digest(source.file) != plan.source[1]:
        raise RewriterError(f"{plan.source[0]} changed since the plan was made; make a new plan")
    rules = fired_only(replace(known, by_id=frozenset(plan.asked), settings=settings_of(plan.set)), frozenset(plan.rules))
    return Work(
        Rewriting(rules, tidy=plan.tidy, plan=(name, plan.proposals)),
        Reading("none" if source is None else str(source.file), plan.constant_inputs),  # type: ignore[arg-type]
    )
