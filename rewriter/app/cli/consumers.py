"""`--target`, `--ask` and `--consumer-env` together: which consumers load the models, which rules run, which steps follow."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from rewriter.app.batch.outcome_records import Command
from rewriter.app.batch.work import Planned
from rewriter.app.cli.output import print_message
from rewriter.app.cli.settings import choose, codes, load_set, target_names
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet, targets_with_recipe
from rewriter.trust.consumers.consumer_verdict import Consumer
from rewriter.trust.consumers.target_recipes import OPTIMIZED, Recipe, left_out, recipes_of, repair_words


class Asking:
    """The consumers of a call.

    Attributes:
        consumers: the consumers that are asked.
        steps: the steps that follow the repair until the consumers accept the result.

    Raises:
        RewriterError: a consumer of --ask cannot be asked, or is not installed.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._ask = _ask(args)
        self._targets = target_names(args)
        self._recipes = recipes_of(self._targets)
        self.consumers = tuple(installed(name, args.consumer_env) for name in self._names())
        self.steps = tuple(self._planned(args)) if self._ask is True else ()
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

    def _planned(self, args: argparse.Namespace) -> Iterator[Planned]:
        words = {"rules": (), "optimize": OPTIMIZED}
        for action in dict.fromkeys(step.action for recipe in self._recipes for step in recipe.steps):
            if action != "static":
                yield Planned(action, _select(args, words[action], self._targets) if action in words else None)


def rules_for_targets(command: Command, args: argparse.Namespace, chosen: RuleSet) -> RuleSet:
    """The rules that run: those that the options choose, changed by the recipes of the targets.

    With --ask, rules of the targets are left out: consumers decide whether they are needed.
    """
    ask, targets = _ask(args), target_names(args)
    if ask is True:
        return _select(args, (), [])
    if not targets or (args.select and args.origins["select"] != "--level"):
        return chosen
    return _select(args, repair_words(targets) if command == "fix" else (), targets)


def _ask(args: argparse.Namespace) -> Any:
    """`--ask`: of `fix` a truth value, of `check` names; None of commands that ask no consumer."""
    return getattr(args, "ask", None)


def _select(args: argparse.Namespace, words: Iterable[str], targets: list[str]) -> RuleSet:
    known = load_set(args, quiet=True)
    ignore = [*codes(args.ignore), *left_out(target_names(args), known, asked=bool(_ask(args)))]
    return choose(args, known, [*codes(args.select), *words], ignore, targets)


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
