"""Facts and attempts that tell the clock of a profile what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.engine.attempt import Attempt, Fired
from rewriter.engine.compile import CompiledRule
from rewriter.facts.derive import Fact
from rewriter.facts.facts import Facts
from rewriter.log.clock import Profile


class TimedAttempt(Attempt):
    """Tries rules and tells the clock which."""

    def __init__(self, profile: Profile, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._profile = profile

    def at_node(self, compiled: CompiledRule, root: gs.Node) -> Fired | None:
        """As of an attempt."""
        self._profile.asked[compiled.code] += 1
        with self._profile.stage(f"match of {compiled.code}"):
            return super().at_node(compiled, root)

    def on_graph(self, compiled: CompiledRule, bound: Mapping[str, Any], key: int) -> Fired | None:
        """As of an attempt."""
        self._profile.asked[compiled.code] += 1
        with self._profile.stage(f"match of {compiled.code}"):
            return super().on_graph(compiled, bound, key)

    def _rewrite(self, compiled: CompiledRule, *arguments: Any) -> Fired | None:
        with self._profile.stage(f"rewrite of {compiled.code}"):
            fired = super()._rewrite(compiled, *arguments)
        self._profile.fired[compiled.code] += fired is not None
        return fired


class TimedFacts(Facts):
    """Facts that tell the clock when they have to be found."""

    def __init__(self, profile: Profile, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._profile = profile

    def _find(self, wanted: gs.Tensor) -> Fact:
        with self._profile.stage("facts"):
            return super()._find(wanted)
