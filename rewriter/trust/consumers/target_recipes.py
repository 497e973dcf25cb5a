"""What is known of consumers, as tables: the steps that bring a model into the form that a consumer takes, in order, for
`fix --target NAME` (`targets/NAME.toml`), and advice on their error messages (`targets/messages.toml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import EVERY_TARGET, RuleSet, targets_with_recipe
from rewriter.core.record import record
from rewriter.core.resources import resource

_ACTION = re.compile(r"rules|optimize|static|opset [1-9]\d?|dtype (float16|float32)")
_SAFE = ("rules", "optimize")
"""Steps that may be taken without asking: they run rules, in the same run as the repairs."""


@record(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        action: "rules", the rules of the target; "optimize"; "opset N"; "dtype TYPE"; or "static", which only its user can do.
        is_safe: whether the step is also done without running the consumer.
        reason: the purpose of the step.
    """

    action: str
    is_safe: bool
    reason: str

    @property
    def advice(self) -> str:
        """The step as a person takes it."""
        words = {"static": "--static INPUT:SHAPE", "optimize": "`rewriter optimize MODEL`"}
        name, _, value = self.action.partition(" ")
        return words.get(
            name, f"`rewriter opset MODEL {value}`" if name == "opset" else f"`rewriter convert MODEL --dtype {value}`"
        )


@record(frozen=True, slots=True)
class Recipe:
    """The steps that prepare a model for one target.

    Attributes:
        title: the name of the consumer, as people write it.
        module: the consumer in `runtimes` that can be run, "" if there is none.
        ignore: codes of rules that make models worse for it.
        only_asked: codes of rules that help in one version and may do harm in another, so that the consumer has to judge.
    """

    target: str
    title: str
    module: str
    ignore: tuple[str, ...]
    only_asked: tuple[str, ...]
    steps: tuple[Step, ...]


@lru_cache(maxsize=64)
def recipe_of(target: str) -> Recipe:
    """The recipe of a target; one that has only rules has no steps.

    Raises:
        RewriterError: the file is wrong.
    """
    from rewriter.trust.toml_text import parse

    try:
        file = resource(f"targets/{target}.toml")
    except FileNotFoundError:
        return Recipe(target, target, "", (), (), ())
    content = parse(file.read_text(encoding="utf-8"), str(file))
    steps = tuple(Step(one["do"], one.get("safe", False), one["because"]) for one in content["step"])
    for step in steps:
        if not _ACTION.fullmatch(step.action) or (step.is_safe and step.action not in _SAFE):
            raise RewriterError(f"{file}: no step of a recipe: {step.action!r}, safe = {step.is_safe}")
    ignore, only_asked = (tuple(content.get(name, ())) for name in ("ignore", "only_asked"))
    return Recipe(target, content["title"], content.get("consumer", ""), ignore, only_asked, steps)


def recipes_of(targets: Iterable[str]) -> list[Recipe]:
    """The recipes of these targets. `all` has none: steps for one consumer may harm a model for another."""
    return [recipe_of(target) for target in targets if target.replace("-", "").isalnum() and target != EVERY_TARGET]


OPTIMIZED = ("DEFAULT", "OPTIMIZE")
"""What a repair selects that also optimizes."""


def repair_words(targets: Iterable[str]) -> tuple[str, ...]:
    """What a repair for some targets selects: if optimizing is a safe step for one of them, it also optimizes."""
    steps = (step for recipe in recipes_of(targets) for step in recipe.steps)
    return OPTIMIZED if any(step.is_safe and step.action == "optimize" for step in steps) else ()


def left_out(targets: Sequence[str], known: RuleSet, *, asked: bool = False) -> list[str]:
    """Codes of the known rules that the recipes of some targets leave out.

    Args:
        targets: the targets of a call.
        known: the rules that are loaded.
        asked: whether the consumers are asked, and so judge the rules that help in some of their versions only.
    """
    recipes = recipes_of(targets)
    codes = [code for recipe in recipes for code in recipe.ignore]
    if not asked:
        concerned = recipes_of(targets_with_recipe()) if EVERY_TARGET in targets else recipes
        codes += [code for recipe in concerned for code in recipe.only_asked]
    return [code for code in codes if known.get(code) is not None]


# Advice on error messages of consumers that no rule alone repairs: `targets/messages.toml`.

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


@record(frozen=True, slots=True)
class Advice:
    """Which consumer prints a message, what to do, and the thread that it comes from."""

    consumer: str
    text: str
    advice: str
    thread: str


def advice_on(message: str) -> list[Advice]:
    """The advice whose words all occur in a message."""
    from rewriter.trust.toml_text import parse

    file = resource("targets/messages.toml")
    known = [Advice(**entry) for entry in parse(file.read_text(encoding="utf-8"), str(file))["message"]]
    words = set(_WORD.findall(message.lower()))
    return [one for one in known if words.issuperset(_WORD.findall(one.text.lower()))]
