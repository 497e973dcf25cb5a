"""What a call of `fix`, `optimize` or `check` prints, model by model and at the end, and the reports that it writes."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from rewriter.app.batch.outcome_records import Command, answers_to
from rewriter.app.batch.urls import STDOUT
from rewriter.app.batch.work import Outcome
from rewriter.app.cli.output import folded, say, style_of, tell
from rewriter.app.report.consumer_lines import VerdictCounts, repaired_lines, verdict_lines
from rewriter.app.report.document import pattern_of
from rewriter.app.report.terminal import (
    accepted_line,
    check_lines,
    expectation_lines,
    fix_lines,
    optimize_lines,
    refusal_lines,
    remaining_lines,
    unjudged_lines,
)
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Blocked, Log
from rewriter.core.record import replace
from rewriter.workbench.style import Style, clean, counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# A progress bar on a terminal, nothing elsewhere: there the lines of the results show how far it is.


class Display:
    """Where lines of results go while jobs run, and who is told of finished ones. This one has no bar."""

    def advance(self, outcome: Outcome) -> None:
        """Another model is finished."""

    def show(self, line: str) -> None:
        """Prints a line of results to stdout."""
        tell(line)


class _Bar(Display):
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._failures = 0

    def advance(self, outcome: Outcome) -> None:
        self._failures += bool(outcome.error)
        self._bar.update(self._task, advance=1, failed=f"{self._failures} failed, " if self._failures else "")

    def show(self, line: str) -> None:
        """Above the bar when both are on the terminal."""
        from rich.text import Text

        if sys.stdout.isatty():
            self._bar.console.print(Text.from_ansi(folded(line, sys.stdout)), soft_wrap=True)
        else:
            tell(line)


@contextmanager
def progress(total: int) -> Iterator[Display]:
    """The display for so many models: a bar on stderr when that is a terminal and there is more than one."""
    if total < 2 or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Display()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[failed]}models", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield _Bar(bar, bar.add_task("", total=total, failed=""))


# What is said of models as they come, and of all of them at the end.

MESSAGES = 200
"""Of ONNX Runtime against models of a check, that are told at the end."""


class ConsoleReport:
    """Says what became of models as they come."""

    def __init__(self, command: Command, args: argparse.Namespace, rules: RuleSet, models: int, display: Display) -> None:
        self._command = command
        self._args = args
        self._rules = rules
        self._models = models
        self._display = display
        self._style = style_of(sys.stdout)
        self._blocked: Counter[str] = Counter()
        self._titles: dict[str, str] = {}
        self._refused: dict[str, tuple[Outcome, int]] = {}
        self._verdicts = VerdictCounts()

    def tell(self, outcome: Outcome) -> None:
        args = self._args
        if outcome.error and args.format != "github":
            say(failure(outcome, style_of(sys.stderr), debug=args.debug))
        if args.format != "text":
            return
        self._verdicts.add(outcome.path, outcome.asked_after or outcome.asked)
        for rule, title in {blocked.rule: blocked.title for blocked in grouped(outcome, self._models, args)}.items():
            self._blocked[rule] += 1
            self._titles[rule] = title
        if outcome.refusal and gathers(self._command, self._models, args):
            pattern = pattern_of(outcome.refusal)
            first, times = self._refused.get(pattern, (outcome, 0))
            if times or len(self._refused) < MESSAGES:
                self._refused[pattern] = first, times + 1
        if outcome.changed or self._models == 1 or args.verbose or _noted(outcome, self._models, args):
            answers = {} if gathers(self._command, self._models, args) else self._answers(outcome)
            for line in _lines(self._command, outcome, answers, self._fixes(outcome), args, self._style, self._models):
                self._display.show(line)

    def end(self) -> None:
        """What was only counted: rules that an unknown fact kept from deciding, in how many models."""
        for rule, models in sorted(self._blocked.items()):
            line = f"{self._style.paint('yellow', 'blocked')} {rule} in {counted(models, 'model')}: {clean(self._titles[rule])}"
            self._display.show(line)
        if self._blocked:
            self._display.show("    an unknown fact kept these rules from deciding; --verbose tells which, and where")
        for first, times in self._refused.values():
            answers = self._answers(first)
            path = first.path if times == 1 else f"{first.path} and {counted(times - 1, 'more model')}"
            for line in refusal_lines(path, first.refusal or "", answers, first.log or Log(), self._style):
                self._display.show(line)
        if self._models > 1:
            for line in self._verdicts.lines(self._style):
                self._display.show(line)

    def _answers(self, outcome: Outcome) -> dict[str, str]:
        """The rules that answer a refusal, and what makes each of them run that was not selected."""
        rules = [answer.rule for answer in answers_to(outcome, self._args.rules)]
        if not rules:
            return {}
        from rewriter.app.report.rule_lines import when_asked

        return {rule.code: "" if rule.default or self._rules.get(rule.code) else f"runs {when_asked(rule)}" for rule in rules}

    def _fixes(self, outcome: Outcome) -> dict[str, str]:
        """What the rules do that fired, where their authors say it."""
        fired = [self._rules.get(code) for code in (outcome.log.counts if outcome.log is not None else ())]
        said = {rule.code: rule.paragraphs.get("Fix", "") for rule in fired if rule is not None}
        return {code: text for code, text in said.items() if text}


def gathers(command: Command, models: int, args: argparse.Namespace) -> bool:
    """Whether refusals are told at the end, those that say the like as one."""
    return command == "check" and models > 1 and not args.verbose


def grouped(outcome: Outcome, models: int, args: argparse.Namespace) -> list[Blocked]:
    """Of many models: what an unknown fact kept from being decided, which is told once for all of them."""
    if models == 1 or args.verbose or outcome.log is None or outcome.error:
        return []
    return [blocked for blocked in outcome.log.blocked if not blocked.error]


def _lines(
    command: Command,
    outcome: Outcome,
    answers: dict[str, str],
    fixes: dict[str, str],
    args: argparse.Namespace,
    style: Style,
    models: int,
) -> Iterator[str]:
    log = outcome.log
    if log is None or outcome.error:
        return
    if apart := grouped(outcome, models, args):
        log = replace(log, blocked=[one for one in log.blocked if one not in apart])
    if command == "check":
        yield from check_lines(outcome.path, log, style)
        if outcome.refusal and not gathers(command, models, args):
            yield from refusal_lines(outcome.path, outcome.refusal, answers, log, style)
        if outcome.expectation is not None:
            yield from expectation_lines(outcome.path, outcome.expectation, style)
        yield from unjudged_lines(outcome.unjudged, f"{clean(outcome.path)}: ", style)
        if not gathers(command, models, args):
            yield from verdict_lines(outcome.asked, f"{clean(outcome.path)}: ", style)
        return
    firings = len(log.firings)
    what = counted(firings, "rewrite") if firings else "tidied" if outcome.changed else "unchanged"
    if outcome.nodes is not None:
        what = f"{counted(outcome.nodes[0], 'node')}, {outcome.nodes[1]:,} left; {what}"
    where = "" if outcome.output in (None, outcome.path, STDOUT) else f" -> {clean(str(outcome.output))}"
    yield f"{style.paint('bold', clean(outcome.path))}: {style.paint('green', what) if outcome.changed else what}{where}"
    yield from optimize_lines(log, style) if command == "optimize" and not args.verbose else fix_lines(log, style, fixes)
    if outcome.changed and outcome.refusal and outcome.remaining == "":
        yield accepted_line(style)
    if outcome.remaining:
        yield from remaining_lines(outcome.remaining, answers, log, style)
        if command == "optimize":
            yield "      `rewriter optimize` repairs nothing; `rewriter check` tells which repairs there are"
    yield from unjudged_lines(outcome.unjudged, "  ", style)
    yield from repaired_lines(outcome.asked, outcome.asked_after, outcome.steps, style)
    if args.diff:
        from rewriter.app.report.comparison_lines import comparison_lines

        yield from comparison_lines(outcome.path, outcome.output or outcome.path, outcome.differences, style)


def _noted(outcome: Outcome, models: int, args: argparse.Namespace) -> bool:
    """Whether there is something to say of a model that did not change."""
    log = outcome.log
    if log is None:
        return False
    blocked = len(log.blocked) > len(grouped(outcome, models, args))
    said = log.stops or log.notes or log.rolled_back or log.suppressed or log.questions
    wrong = outcome.expectation is not None and outcome.expectation.wrong
    return blocked or wrong or bool(said or outcome.refusal or outcome.remaining or outcome.unjudged)


def failure(outcome: Outcome, style: Style, *, debug: bool) -> str:
    """The line on a model that could not be worked on."""
    path = clean(outcome.path)
    message = clean(outcome.error)
    shown = message if message.startswith(path) else f"{path}: {message}"
    kept = "" if outcome.output is None else f"; written unchanged to {clean(outcome.output)}"
    if outcome.crash:
        kept += f"; please report it\n{outcome.crash.rstrip()}" if debug else "; please report it (--debug shows the traceback)"
    return f"{style.paint('red', 'error')}: {shown}{kept}"


def next_step(paths: Sequence[str]) -> str:
    """What to do about the findings of a check."""
    if len(paths) != 1 or os.path.isdir(paths[0]):
        return f"next: rewriter fix {' '.join(map(quote, map(clean, paths)))} --out DIR"
    if paths[0] == STDOUT:
        return "next: rewriter fix - -o fixed.onnx"
    name = clean(paths[0])
    return f"next: rewriter fix {quote(name)} -o {quote(name.removesuffix('.onnx') + '.fixed.onnx')}"
