"""The output of a call of `fix`, `optimize` or `check`, model by model and at the end."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from shlex import quote

from rewriter.app.batch.outcome_records import Command, answers_to
from rewriter.app.batch.work import STDOUT, Outcome
from rewriter.app.cli.output import Display, print_message, style_of
from rewriter.app.cli.selection import codes
from rewriter.app.report.document import pattern_of
from rewriter.app.report.terminal import (
    VerdictCounts,
    check_lines,
    expectation_lines,
    fix_lines,
    optimize_lines,
    outcome_lines,
    rejection_lines,
    remaining_lines,
    repaired_lines,
    unchecked_lines,
    verdict_lines,
)
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log
from rewriter.core.record import replace
from rewriter.workbench.style import Style, clean, counted

# The lines about each model as it is finished, and about all models at the end.

MAX_WAITING = 10_000
"""Lines of a check that are printed at the end, behind the models that ONNX Runtime rejects."""


class ConsoleReport:
    """Prints the results of models as they are finished."""

    def __init__(self, command: Command, args: argparse.Namespace, rules: RuleSet, models: int, display: Display) -> None:
        self._command = command
        self._args = args
        self._rules = rules
        self._models = models
        self._display = display
        self._style = style_of(sys.stdout)
        self._blocked: Counter[tuple[str, str]] = Counter()
        self._rejected: dict[str, str] = {}
        self._waiting: list[str] = []
        self._verdicts = VerdictCounts()
        self.advice = ""
        self.declining: set[str] = set()
        """The consumers of --ask that do not accept all models, and are targets."""

    def print_outcome(self, outcome: Outcome) -> None:
        args = self._args
        if outcome.error and args.format != "github":
            print_message(failure(outcome, style_of(sys.stderr), debug=args.debug))
        if args.format != "text" or outcome.log is None or outcome.error:
            return
        self._verdicts.add(outcome.path, outcome.asked_after or outcome.asked)
        if outcome.asked and self._command == "check":
            from rewriter.trust.consumers.target_recipes import recipes_of

            names = [recipe.module for recipe in recipes_of(code.lower() for code in codes(args.ask))]
            self.declining.update(name for name, one in zip(names, outcome.asked, strict=True) if name and not one.accepts)
        log = self._without_needless(outcome, outcome.log)
        if self._models > 1 and not args.verbose:
            self._blocked.update({(blocked.rule, blocked.title) for blocked in log.blocked if not blocked.error})
            log = replace(log, blocked=[blocked for blocked in log.blocked if blocked.error])
        if not (outcome.changed or self._models == 1 or args.verbose or _has_remarks(outcome, log)):
            return
        lines = [*(self._check_lines(outcome, log) if self._command == "check" else self._repair_lines(outcome, log))]
        if self._command == "check" and self._models > 1 and not outcome.refusal and len(self._waiting) < MAX_WAITING:
            self._waiting += lines
        else:
            self._display.show(*lines)

    def end(self) -> None:
        """Prints the lines that were kept for the end, and the number of models in which an unknown fact blocked a rule."""
        self._display.show(*self._waiting)
        for (rule, title), models in sorted(self._blocked.items()):
            head = f"{self._style.paint('yellow', 'blocked')} {rule} in {counted(models, 'model')}"
            self._display.show(f"{head}: {clean(title)}")
        if self._blocked:
            self._display.show("    an unknown fact kept these rules from deciding; --verbose lists the facts and places")
        if self._models > 1:
            self._display.show(*self._verdicts.lines(self._style))

    def _check_lines(self, outcome: Outcome, log: Log) -> Iterator[str]:
        """The findings of a check in one model."""
        style, head = self._style, list[str]()
        if outcome.refusal:
            known = self._rejected if len(self._rejected) < MAX_WAITING else {}
            like = known.setdefault(pattern_of(outcome.refusal), outcome.path)
            answers = self._answers(outcome)
            advice = ": run `rewriter fix`" if self._models == 1 else ""
            head = [*rejection_lines(outcome.refusal, answers, log, outcome.path, style, advice)]
            if like != outcome.path and not self._args.verbose:
                head[0] = f"{style.paint('red', 'rejected')} by ONNX Runtime with the error message of {clean(like)}"
            if self._models == 1:
                self.advice = _advice(outcome, answers, self._args)
        if outcome.expectation is not None:
            expected = [*expectation_lines(outcome.expectation, style)]
            if not (head and outcome.expectation.before):
                head += expected
            elif log.counts or outcome.expectation.questions or not outcome.expectation.after:
                head[1:] = expected[1:]
        yield from check_lines(outcome.path, log, head, style, changes=self._models == 1)
        yield from unchecked_lines(outcome.unjudged, style)
        if outcome.asked and (self._models == 1 or self._args.verbose):
            yield from verdict_lines(outcome.asked, f"{clean(outcome.path)}: ", style)

    def _repair_lines(self, outcome: Outcome, log: Log) -> Iterator[str]:
        """The changes of a repair or an optimization in one model: whether it loads now, the rewrites, and what is left."""
        style, command = self._style, self._command
        what = counted(len(log.firings), "rewrite") if log.firings else "tidied" if outcome.changed else "unchanged"
        if outcome.nodes is not None:
            what = f"{counted(outcome.nodes[0], 'node')}, {outcome.nodes[1]:,} left; {what}"
        where = "" if outcome.output in (None, outcome.path, STDOUT) else f" -> {clean(str(outcome.output))}"
        yield f"{style.paint('bold', clean(outcome.path))}: {style.paint('green', what) if outcome.changed else what}{where}"
        yield from outcome_lines(outcome.refusal, outcome.remaining, log, style)
        if outcome.remaining and command == "optimize":
            yield f"      `rewriter optimize` does not repair it; next: rewriter check {quote(clean(outcome.path))}"
        elif outcome.remaining:
            yield from remaining_lines(self._answers(outcome), outcome.path, log, style)
        counts = command == "optimize" and not self._args.verbose
        yield from optimize_lines(log, style) if counts else fix_lines(log, style, self._fixes(log))
        yield from unchecked_lines(outcome.unjudged, style)
        if outcome.asked:
            yield from repaired_lines(outcome.asked, outcome.asked_after, outcome.steps, style)
        if self._args.diff:
            from rewriter.app.report.comparison_lines import comparison_lines

            yield from comparison_lines(outcome.path, outcome.output or outcome.path, outcome.differences, style)

    def _without_needless(self, outcome: Outcome, log: Log) -> Log:
        """The log without blocked rules that only repair what ONNX Runtime rejects, if it accepts the model as it is."""
        if outcome.refusal != "" or not log.blocked:
            return log
        needless = {rule.code for rule in self._rules if rule.evidence is not None and rule.evidence.name == "refused"}
        return replace(log, blocked=[blocked for blocked in log.blocked if blocked.error or blocked.rule not in needless])

    def _answers(self, outcome: Outcome) -> dict[str, str]:
        """The rules that repair the error message, with the option that runs each rule that was not selected."""
        rules = [answer.rule for answer in answers_to(outcome, self._args.rules)]
        if not rules:
            return {}
        from rewriter.app.report.rule_lines import when_asked

        return {rule.code: "" if rule.default or self._rules.get(rule.code) else f"runs {when_asked(rule)}" for rule in rules}

    def _fixes(self, log: Log) -> dict[str, str]:
        """The `Fix:` paragraphs of the rules that fired."""
        rules = [rule for code in log.counts if (rule := self._rules.get(code)) is not None]
        return {rule.code: rule.paragraphs["Fix"] for rule in rules if rule.paragraphs.get("Fix")}


_NODE = re.compile(
    r"[Nn]ode \((?P<node>[^()\s]+)\)|Name:'(?P<name>[^']+)'|(?<!ai\.onnx):(?P<op>\w+)\(-?\d+\) is not a registered"
)
"""The node in an error message of ONNX Runtime, or its operator in another domain than ONNX's own."""


def _advice(outcome: Outcome, answers: Mapping[str, str], args: argparse.Namespace) -> str:
    """The next command for a model that ONNX Runtime rejects and no rule that ran repairs; "" if there is none."""
    name = quote(clean(outcome.path))
    for code, when in answers.items():
        return fix_command(args, f"DEFAULT,{code}") if when else f"rewriter why {code} {name}"
    named = _NODE.search(outcome.refusal or "")
    if named is None:
        return ""
    around = f"op:{named['op']} --depth 0" if named["op"] else quote(clean(named["node"] or named["name"]))
    return f"rewriter new MY001 --from {name} --around {around} -o MY001.rules"


def _has_remarks(outcome: Outcome, log: Log) -> bool:
    """Whether there is something to print about a model that did not change."""
    said = log.stops or log.notes or log.rolled_back or log.suppressed or log.questions or log.blocked
    wrong = outcome.expectation is not None and outcome.expectation.wrong
    return wrong or bool(said or outcome.refusal or outcome.remaining or outcome.unjudged)


def failure(outcome: Outcome, style: Style, *, debug: bool) -> str:
    """The line on a model that could not be worked on."""
    path = clean(outcome.path)
    message = clean(outcome.error)
    shown = message if message.startswith(path) else f"{path}: {message}"
    kept = "" if outcome.output is None else f"; written unchanged to {clean(outcome.output)}"
    if outcome.crash:
        kept += f"; please report it\n{outcome.crash.rstrip()}" if debug else "; please report it (--debug shows the traceback)"
    return f"{style.paint('red', 'error')}: {shown}{kept}"


OPTIONS_OF_FINDINGS = ("rules", "extend", "target", "select", "ignore", "set", "source", "constant-inputs", "guess")
"""Options of a check on which its findings depend."""


def fix_command(args: argparse.Namespace, select: str = "", consumers: Collection[str] = ()) -> str:
    """The command that repairs what a check found, with the options that were typed.

    Args:
        args: of the check.
        select: codes to select.
        consumers: the consumers that do not accept the models.
    """
    paths, name = args.paths, clean(args.paths[0]) if args.paths else ""
    options = [] if not select else ["--select", select]
    for option in OPTIONS_OF_FINDINGS:
        value = getattr(args, option.replace("-", "_"))
        if option == "rules" and args.extend:
            value = value[: -len(args.extend)]  # the rules of --extend follow them in this list
        if value and args.origins[option].startswith("--") and not (select and option in ("select", "ignore", "guess")):
            values = [value] if isinstance(value, str) else [] if value is True else value
            options += [f"--{option} {quote(clean(one))}" for one in values] or [f"--{option}"]
    if consumers:
        options += [f"--target {quote(','.join(sorted(consumers)))} --ask"]
        options += [f"--consumer-env {quote(clean(folder))}" for folder in args.consumer_env]
    if len(paths) != 1 or os.path.isdir(paths[0]):
        where = ["--out", "DIR"]
    elif paths[0] == STDOUT:
        where = ["-o", "fixed.onnx"]
    else:
        where = ["-o", quote(name.removesuffix(".onnx") + ".fixed.onnx")]
    return " ".join(["rewriter fix", *(quote(clean(path)) for path in paths), *options, *where])
