"""Deciding on the rewrites of a plan, and carrying out those that are accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rewriter.core.engine.attempt import Fired
from rewriter.core.errors import RewriterError
from rewriter.core.log.records import Firing, Log, Suppressed
from rewriter.core.record import record, replace
from rewriter.trust.plans.plan_file import Proposal

# Deciding on each proposed rewrite by an answer, instead of by editing the plan's file.

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


UNPLANNED = "not in the plan"
REJECTED = "rejected in the plan"


class Chooser:
    """Permits the accepted firings of one run, each as often as it is accepted.

    Attributes:
        found: firings that were ready to happen and were not permitted, each once.
    """

    def __init__(self, proposals: Sequence[Proposal], origin: str) -> None:
        self._origin = origin
        self._accepted = Counter((p.rule, p.place, p.matched) for p in proposals if p.apply)
        self._rejected = {(p.rule, p.place, p.node): p.line for p in proposals if not p.apply}
        self.found: list[Suppressed] = []

    def permit(self, fired: Fired) -> bool:
        """Whether a firing may happen."""
        rule, place = fired.compiled.rule, fired.scope.path
        root = fired.names[0] if fired.names else ""
        key = (rule.code, place, fired.names)
        if self._accepted[key] > 0:
            self._accepted[key] -= 1
            return True
        line = self._rejected.get((rule.code, place, root))
        reason, origin = (UNPLANNED, self._origin) if line is None else (REJECTED, f"{self._origin}:{line}")
        found = Suppressed(rule.code, rule.title, place, root, fired.op, reason, origin)
        if found not in self.found:
            self.found.append(found)
        return False


@record(frozen=True, slots=True)
class Missing:
    """An accepted rewrite that did not happen; `because` numbers those that it follows and that did not happen either."""

    proposal: Proposal
    because: tuple[int, ...]


def missing(proposals: Sequence[Proposal], log: Log) -> list[Missing]:
    """The accepted rewrites that are not in the log of the run."""
    done = Counter(map(_key, log.firings))
    gone = {proposal.number for proposal in proposals if not proposal.apply and proposal.number}
    found = []
    for proposal in proposals:
        if not proposal.apply:
            continue
        key = (proposal.rule, proposal.place, proposal.matched)
        if done[key] > 0:
            done[key] -= 1
            continue
        found.append(Missing(proposal, tuple(number for number in proposal.follows if number in gone)))
        gone.add(proposal.number)
    return found


def _key(firing: Firing) -> tuple[str, str, tuple[str, ...] | None]:
    return firing.rule, firing.place, firing.matched
