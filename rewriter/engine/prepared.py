"""Rules made ready once for all models of a call.

What a rule compiles to, and what it needs to find in a model, follows from the rule and the settings alone; only which of the
rules can fire depends on the model. With many small models, making rules ready anew for each would take most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from rewriter.engine.compile import CompiledRule, PhasePlan, compile_rule, plan
from rewriter.language.rule import Rule
from rewriter.language.rules import RuleSet
from rewriter.matching.requirements import Inventory, Needs, needs

MOST_SETS = 4
"""Rule sets that are remembered: a call has one, and those that leave out a rule which did harm."""

MOST_PLANS = 512
"""Selections of one rule set whose plans are remembered: as many as there are models of different kinds."""


class Prepared:
    """The rules of one set, compiled when a model first needs them."""

    def __init__(self, rules: tuple[Rule, ...], settings: Mapping[tuple[str, str], Any]) -> None:
        self.rules = rules
        self.signature = _signature(settings)
        self._settings = dict(settings)
        self._ready: dict[str, list[tuple[CompiledRule, Needs]]] = {}
        self._plans: dict[tuple[str, ...], list[PhasePlan]] = {}
        self._of_ops: dict[tuple[int, frozenset[tuple[str, str]]], tuple[Sequence[Rule], Sequence[Rule]]] = {}

    def plans(self, suited: Sequence[Rule], inventory: Inventory) -> list[PhasePlan]:
        """The plans of those rules that can find something in a model. They are shared, and not to be changed.

        Raises:
            RewriterError: one of the rules lacks a parameter, or its pattern is too large.
        """
        waiting = self._about(suited, inventory.ops)
        found: set[str] = set()
        growing = True
        while growing:  # what one rule makes may be what another one needs
            growing, ops = False, inventory.ops
            for rule in waiting:
                met = [need for _, need in self._rule(rule) if need.met(inventory)]
                if met:
                    for need in met:
                        grown = need.added(inventory)
                        growing = growing or grown is not inventory
                        inventory = grown
                    found.add(rule.code)
            if growing:
                known = waiting if inventory.ops == ops else self._about(suited, inventory.ops)
                waiting = [rule for rule in known if rule.code not in found]
        return self._plan([rule for rule in suited if rule.code in found])

    def _about(self, suited: Sequence[Rule], ops: frozenset[tuple[str, str]]) -> Sequence[Rule]:
        """Those of rules whose operators are all among these: known without compiling a rule, and the same for models of one
        kind. `suited` is one of the lists that models of one exporter share.
        """
        key = id(suited), ops
        known = self._of_ops.get(key)
        if known is None:
            if len(self._of_ops) >= MOST_PLANS:
                self._of_ops.clear()
            about = [rule for rule in suited if not any(map(ops.isdisjoint, rule.wanted))]
            known = self._of_ops[key] = suited, about  # with the list, so that no other one gets its id()
        return known[1]

    def only(self, rules: Sequence[Rule]) -> list[PhasePlan]:
        """The plans of just these rules; errors as for `plans`. They are shared, and not to be changed."""
        return self._plan(rules)

    def _rule(self, rule: Rule) -> list[tuple[CompiledRule, Needs]]:
        """A rule with each of its patterns."""
        found = self._ready.get(rule.code)
        if found is None:
            ready = [compile_rule(variant, self._settings) for variant in rule.variants]
            found = [(one, needs(one.rule.ast, one.pattern, one.given)) for one in ready]
            self._ready[rule.code] = found
        return found

    def _plan(self, rules: Sequence[Rule]) -> list[PhasePlan]:
        codes = tuple(rule.code for rule in rules)
        found = self._plans.get(codes)
        if found is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            found = self._plans[codes] = plan(compiled for rule in rules for compiled, _ in self._rule(rule))
        return found


_prepared: deque[Prepared] = deque(maxlen=MOST_SETS)


def prepared(rules: RuleSet, settings: Mapping[tuple[str, str], Any]) -> Prepared:
    """The rules of a set with these settings, made ready; the same object for the same rules and settings."""
    signature = _signature(settings)
    for known in _prepared:
        same = known.rules is rules.rules or (len(known.rules) == len(rules.rules) and all(map(is_, known.rules, rules.rules)))
        if same and known.signature == signature:
            return known
    made = Prepared(rules.rules, settings)
    _prepared.append(made)
    return made


def _signature(settings: Mapping[tuple[str, str], Any]) -> str:
    """Tells settings apart that are equal to Python: 1 and true are different parameters."""
    return repr(sorted((place, repr(value)) for place, value in settings.items()))
