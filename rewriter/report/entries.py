"""How all formats call the entries of a record: where something happened, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rewriter.log.records import Blocked, Change, Firing, Question, RolledBack, Suppressed
from rewriter.report.document import ModelRecord, Report
from rewriter.report.style import clean, counted


def place_text(at: Firing | Blocked | RolledBack | Suppressed | Question) -> str:
    """`fc1 (Gemm)`, with the graph in front where it is not the main one."""
    where = "" if at.place in ("", "main") else f"{clean(at.place)}: "
    return f"{where}{clean(at.root) or 'model'}" + (f" ({clean(at.op)})" if at.op else "")


def rolled_place(rolled: RolledBack) -> str:
    """Where a firing was taken back."""
    return place_text(rolled) if rolled.place else f"everywhere ({number(rolled.times, 'place')})"


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    """`-before` and `+after`, each on one line."""
    for change in changes:
        if change.before is not None:
            yield f"-{clean(change.before)}"
        if change.after is not None:
            yield f"+{clean(change.after)}"


number = counted


_ENDINGS = {
    "fixpoint": "nothing fires any more",
    "Time": "stopped at the time limit",
    "Budget": "stopped at the limit of rewrites",
    "Growth": "stopped a rule that added too many nodes",
    "Generation": "stopped a rule that went on rewriting its own results",
    "Cycle": "stopped rules that undo each other",
}


def ending(stop: str | None) -> str:
    """Why a run of the rules ended, in words."""
    return _ENDINGS.get(stop or "", "with an error")


def by_rule(firings: Iterable[Firing]) -> dict[str, list[Firing]]:
    """Firings by rule, rules in the order of their codes."""
    found: dict[str, list[Firing]] = {}
    for firing in firings:
        found.setdefault(firing.rule, []).append(firing)
    return dict(sorted(found.items()))


def verb(report: Report) -> str:
    """What a firing is to the command: it has rewritten something, or it would."""
    return "finding" if report.command == "check" else "rewrite"


def severity(report: Report, code: str) -> str:
    """The severity of a rule."""
    rule = report.rule(code)
    return "error" if rule is None else rule.severity


def has_something(model: ModelRecord) -> bool:
    """Whether there is more to say of a model than that nothing fires."""
    found = model.error or model.firings or model.blocked or model.rolled_back or model.refused or model.stops or model.tidied
    return bool(found)
