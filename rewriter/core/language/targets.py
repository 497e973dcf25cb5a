"""The consumers that rules are for, and which of them a call means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import suggest

if TYPE_CHECKING:
    from rewriter.core.language.rule import Rule

EVERY_TARGET = "all"


def targets_meant(targets: Iterable[str], rules: Iterable[Rule]) -> frozenset[str]:
    """The targets that are named; "all" stands for each that a rule is for.

    Raises:
        RewriterError: none of the rules is for one of them.
    """
    wanted = set(targets)
    known = sorted({target for rule in rules for target in (*rule.targets, *rule.runtimes)}) if wanted else []
    if EVERY_TARGET in wanted and known:
        wanted = wanted - {EVERY_TARGET} | set(known)
    for name in sorted(wanted):
        if name not in known:
            near = suggest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            raise RewriterError(f"no rule is for target {name!r}{hint}; targets: {', '.join(known) or 'none'}")
    return frozenset(wanted)
