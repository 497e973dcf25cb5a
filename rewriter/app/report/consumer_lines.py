"""The verdicts of consumers as lines: on one model, before and after a repair, and on a folder, equal reasons as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rewriter.app.report.document import pattern_of
from rewriter.trust.consumers.consumer_verdict import STATES, State, Verdict
from rewriter.workbench.style import Style, clean, counted

COUNTED: dict[State, str] = {
    "equal": "read, with equal outputs",
    "reads": "read, and not compared",
    "differs": "read, with different outputs",
    "fails": "read, and fail when they run",
    "rejects": "rejected",
    "ends": "end the process",
    "silent": "without an answer",
}
MOST_GROUPS = 200
"""Reasons of consumers that are printed at the end."""


def verdict_lines(verdicts: Sequence[Verdict], prefix: str, style: Style) -> Iterator[str]:
    """A line for each consumer."""
    for one in verdicts:
        name = style.paint("green" if one.accepts else "red", clean(one.consumer))
        yield f"{prefix}{name}{clean(one.sentence.removeprefix(one.consumer))}"


def repaired_lines(before: Sequence[Verdict], after: Sequence[Verdict], steps: Sequence[str], style: Style) -> Iterator[str]:
    """The verdicts of consumers on the model and on the result. Indented by two."""
    for old, new in zip(before, after, strict=True):
        now = "" if old.accepts and new.accepts else "now: "
        if now:
            yield from verdict_lines([old], f"  {style.paint('dim', 'before')}: ", style)
        yield from verdict_lines([new], f"  {now}", style)
    if steps:
        yield f"  steps of the recipe: {', '.join(map(clean, steps))}"


class VerdictCounts:
    """The verdicts on the models of a call."""

    def __init__(self) -> None:
        self._states: dict[str, Counter[State]] = {}
        self._groups: dict[str, tuple[str, Verdict, int]] = {}

    def add(self, path: str, verdicts: Sequence[Verdict]) -> None:
        for one in verdicts:
            self._states.setdefault(one.consumer, Counter())[one.state] += 1
            if not one.accepts:
                pattern = pattern_of(one.sentence)
                first, shown, times = self._groups.get(pattern, (path, one, 0))
                if times or len(self._groups) < MOST_GROUPS:
                    self._groups[pattern] = first, shown, times + 1

    def lines(self, style: Style) -> Iterator[str]:
        """Each reason once, the most frequent first, then the counts of each consumer."""
        for path, one, times in sorted(self._groups.values(), key=lambda group: -group[2]):
            where = path if times == 1 else f"{path} and {counted(times - 1, 'more model')}"
            yield from verdict_lines([one], f"{clean(where)}: ", style)
        for consumer, states in self._states.items():
            found = ", ".join(f"{states[state]:,} {COUNTED[state]}" for state in reversed(STATES) if states[state])
            yield f"{clean(consumer)}: {counted(sum(states.values()), 'model')}: {found}"
