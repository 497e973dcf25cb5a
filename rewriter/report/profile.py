"""`fix --profile`: where the time went, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.log.clock import STAGES, Profile
from rewriter.report.style import Style

MOST_RULES = 20


def profile_lines(profile: Profile, style: Style) -> Iterator[str]:
    """Stages in their order, then the rules that took longest."""
    total = sum(profile.stages.values()) or 1.0
    yield style.paint("bold", f"{'stage':18}{'ms':>10}{'share':>8}")
    for name in (*STAGES, *sorted(set(profile.stages) - set(STAGES))):
        if (seconds := profile.stages[name]) > 0:
            yield f"{name:18}{1e3 * seconds:10.2f}{seconds / total:8.1%}"
    yield f"{'all':18}{1e3 * total:10.2f}"
    costs = {code: profile.matching[code] + profile.rewriting[code] for code in profile.asked}
    dearest = sorted(costs, key=lambda code: (-costs[code], code))[:MOST_RULES]
    if dearest:
        yield style.paint("bold", f"{'rule':10}{'tried':>8}{'fired':>8}{'match ms':>10}{'rewrite ms':>12}")
    for code in dearest:
        told = profile.asked[code], profile.fired[code], 1e3 * profile.matching[code], 1e3 * profile.rewriting[code]
        yield f"{code:10}{told[0]:8}{told[1]:8}{told[2]:10.2f}{told[3]:12.2f}"
    if len(costs) > len(dearest):
        yield f"and {len(costs) - len(dearest)} more rules"
