"""Keeps firings from happening that a configuration forbids, and remembers each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewriter.core.engine.firing import Fired
from rewriter.core.log import Suppressed

if TYPE_CHECKING:
    from rewriter.app.configuration import Suppression


class Suppressor:
    """The suppressions of one model.

    Attributes:
        found: what was suppressed.
    """

    def __init__(self, suppressions: Sequence[Suppression]) -> None:
        self._suppressions = suppressions
        self.found: list[Suppressed] = []

    def permit(self, fired: Fired) -> bool:
        """Whether a firing may happen."""
        rule, place = fired.compiled.rule, fired.scope.path
        one = next((one for one in self._suppressions if one.covers(rule.code, fired.names)), None)
        if one is None:
            return True
        root = fired.names[0] if fired.names else ""
        found = Suppressed(rule.code, rule.title, place, root, fired.op, one.reason, one.origin)
        if found not in self.found:
            self.found.append(found)
        return False
