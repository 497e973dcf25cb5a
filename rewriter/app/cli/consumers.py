"""`--target`, `--ask` and `--consumer-env` together: which consumers load the models, which rules run, which steps follow."""

from __future__ import annotations

import argparse

from rewriter.app.batch.work import Planned
from rewriter.app.cli.output import print_message
from rewriter.app.cli.settings import choose, codes, load_set, target_names
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import EVERY_TARGET, RuleSet, targets_with_recipe
from rewriter.trust.consumers.consumer_verdict import Consumer
from rewriter.trust.consumers.target_recipes import Recipe, recipes_of


class Asking:
    """The consumers of a call.

    Attributes:
        consumers: the consumers that are asked.
        steps: the steps that follow the repair until the consumers accept the result.

    Raises:
        RewriterError: a consumer of --ask cannot be asked, or is not installed.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._ask = getattr(args, "ask", None)  # of fix a truth value, of check names; a plan asks no consumer
        self._targets = target_names(args)
        self._recipes = recipes_of(self._targets)
        self.consumers = tuple(installed(name, args.consumer_env) for name in self._names())
        self.steps = tuple(self._planned()) if self._ask is True else ()
        if self._ask is False:
            for recipe in self._recipes:
                print_message(f"rewriter: note: {clean(unasked(recipe))}")

    def _names(self) -> list[str]:
        """The consumers to ask."""
        if self._ask is not True:
            return [name.lower() for name in codes(self._ask or ())]
        found = [recipe.module for recipe in self._recipes if recipe.module]
        if len(found) < len(self._targets) or not found:
            runnable = [recipe.target for recipe in recipes_of(sorted(targets_with_recipe())) if recipe.module]
            raise RewriterError(f"--ask needs a --target whose consumer rewriter can run: {', '.join(runnable)}")
        return found

    def rules(self, chosen: RuleSet) -> RuleSet:
        """The rules of the repair. With --ask, rules of the targets are left out: consumers decide whether they are needed."""
        if self._ask is True:
            return self._select([], [])
        safe = {step.action for recipe in self._recipes for step in recipe.steps if step.is_safe}
        if "optimize" in safe and self._ask is False and not self._args.select:
            return self._select(["DEFAULT", "OPTIMIZE"], self._targets)
        return self._select([], self._targets) if EVERY_TARGET in self._targets and not self._args.select else chosen

    def _select(self, words: list[str], targets: list[str]) -> RuleSet:
        args = self._args
        known = load_set(args, quiet=True)
        concerned = recipes_of(targets_with_recipe()) if EVERY_TARGET in self._targets else self._recipes
        unwanted = [code for recipe in self._recipes for code in recipe.ignore]
        unwanted += [code for recipe in concerned for code in recipe.only_asked if not self._ask]
        ignore = [*codes(args.ignore), *(code for code in unwanted if known.get(code) is not None)]  # --rules may lack them
        return choose(args, known, [*codes(args.select), *words], ignore, targets)

    def _planned(self) -> list[Planned]:
        actions = dict.fromkeys(step.action for recipe in self._recipes for step in recipe.steps if step.action != "static")
        words: dict[str, list[str]] = {"rules": [], "optimize": ["DEFAULT", "OPTIMIZE"]}
        return [Planned(action, self._select(words[action], self._targets) if action in words else None) for action in actions]


def unasked(recipe: Recipe) -> str:
    """The note that a consumer was not asked, with advice."""
    asks = "; to run the models in it, pass --ask" if recipe.module else ": rewriter cannot run it, and no test runs it"
    advice = [f"{step.advice} ({step.reason})" for step in recipe.steps if not step.is_safe]
    return f"{recipe.title} did not run{asks}" + (f"; other steps that often help: {', '.join(advice)}" if advice else "")


def installed(name: str, environments: list[str]) -> Consumer:
    """A consumer that can be asked. Raises RewriterError if it cannot be asked or is not installed."""
    from rewriter.core.isolation.budget import Budget, budgeted, share_of_machine
    from rewriter.trust.consumers.asking import find, known

    if name not in known():
        raise RewriterError(f"--ask {name}: unknown consumer; use one of {', '.join(known())}")
    with budgeted(Budget(most=share_of_machine(1))):
        consumer = find(name, environments)
    if consumer is None:
        where = f" in {' or '.join(map(clean, environments))}" if environments else ""
        how = "install it, or name an environment that has it with --consumer-env DIR (packages: docs/targets.md)"
        raise RewriterError(f"{name} is not installed{where}; {how}")
    return consumer
