"""Deciding on each proposed rewrite by an answer, instead of by editing the plan's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rewriter.errors import RewriterError
from rewriter.log.records import Firing
from rewriter.plans.plan_file import Proposal
from rewriter.record import replace

ANSWERS = "y: apply it, n: leave it out, a: apply it and all that come, q: leave it out and all that come"


def decide(
    proposals: Sequence[Proposal],
    firings: Mapping[int, Firing],
    tell: Callable[[str], None],
    ask: Callable[[str], str],
) -> tuple[Proposal, ...]:
    """The proposals with `apply` as answered; what the plan rejects anyway (suppressed, rolled back) stays so, unasked.

    Args:
        proposals: in the order of the run; those that are rejected anyway come last.
        firings: what the proposals stand for, by number.
        tell: prints a line.
        ask: prints a question and returns the answer; raises EOFError when there is none.

    Raises:
        RewriterError: the answers end before all is decided.
    """
    out: set[int] = set()
    decided: list[Proposal] = []
    rest = ""
    many = sum(one.apply for one in proposals)
    for at, one in enumerate(proposals, 1):
        if not one.apply:
            decided.append(one)
            continue
        if not rest:
            for line in _shown(one, firings[one.number], f"{at} of {many}", sorted(out.intersection(one.follows))):
                tell(line)
        answer = rest or _answer(tell, ask)
        rest = answer if answer in "aq" else ""
        if answer in "nq":
            out.add(one.number)
        decided.append(replace(one, apply=one.number not in out))
    return tuple(decided)


def _shown(one: Proposal, firing: Firing, at: str, missing: Sequence[int]) -> Iterator[str]:
    yield f"{at}: {one.rule} {one.node or 'model'}: {firing.title}"
    for change in firing.changes:
        yield from (f"  {sign} {side}" for sign, side in (("-", change.before), ("+", change.after)) if side)
    yield from (f"  it builds on rewrite {number}, which is left out; it may not be possible" for number in missing)


def _answer(tell: Callable[[str], None], ask: Callable[[str], str]) -> str:
    while True:
        try:
            answer = ask("apply it? [y,n,a,q] ").strip().lower()
        except EOFError:
            raise RewriterError("the answers ended before all rewrites were decided; no plan was written") from None
        if answer in ("y", "n", "a", "q"):
            return answer
        tell(ANSWERS)
