"""Carrying out a plan: of all firings that are ready to happen, those that are accepted do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rewriter.engine.attempt import Fired
from rewriter.log.records import Firing, Log, Suppressed
from rewriter.plans.plan_file import Proposal
from rewriter.record import record

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
