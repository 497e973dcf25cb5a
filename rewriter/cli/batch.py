"""Many models, one report: the common course of `fix` and `check`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from rewriter.batch.pool import run_all
from rewriter.batch.work import Job, Outcome, Work
from rewriter.cli.by_path import unused, vary
from rewriter.cli.options import limits_of
from rewriter.cli.output import say, style_of
from rewriter.cli.paths import STDOUT
from rewriter.cli.progress import Display, progress
from rewriter.cli.report_files import check_reports, printed, snapshots, write_reports
from rewriter.cli.report_record import Command, answers_to, exit_code, make_report, summarize
from rewriter.cli.selection import selected
from rewriter.engine.limits import Limits
from rewriter.log.records import Blocked
from rewriter.record import replace
from rewriter.report.document import Summary
from rewriter.report.style import Style, clean, counted
from rewriter.report.terminal import check_lines, fix_lines, refusal_lines, remaining_lines, unjudged_lines

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_SHOWN = {("check", "findings"): "with findings", ("fix", "refused"): "unchanged and still refused by ONNX Runtime"}
"""Statuses that read differently after a number."""


def run_batch(command: Command, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Does all jobs, reports each, sums up, and returns the exit code.

    Raises:
        RewriterError: the rules cannot be used, or the source file that was named cannot be read.
    """
    started = time.monotonic()
    check_reports(args.report, jobs, args)
    work = make_work(command, args)
    if args.format != "text" or args.report:
        from rewriter.engine.firing_audit import FiringAudit

        work = replace(work, audit=FiringAudit(snapshots=snapshots(args.report, len(jobs))))
    work, jobs = vary(work, jobs, args)
    outcomes, interrupted = _outcomes(command, jobs, work, args)
    for one in () if interrupted else unused(args, outcomes, jobs):
        say(f"{clean(one.origin)}: warning: this suppression of {clean(one.rule)} suppresses nothing")
    seconds = time.monotonic() - started
    code, summary = exit_code(command, outcomes), summarize(command, outcomes, seconds)
    code = INTERRUPTED if interrupted else code
    if args.format != "text" or args.report:
        report = replace(make_report(command, outcomes, work, args, seconds), exit_code=code)
        if args.format != "text":
            print(printed(report, args.format))
        write_reports(report, args.report)
    if work.profile:
        _say_profile(outcomes)
    if args.format != "json":
        sys.stdout.flush()
        say(_summary_line(command, summary))
    if interrupted:
        say(f"interrupted: {len(outcomes)} of {len(jobs)} done")
    return code


def _outcomes(command: Command, jobs: Sequence[Job], work: Work, args: argparse.Namespace) -> tuple[list[Outcome], bool]:
    """What became of the jobs, each told as soon as it is its turn, and whether Ctrl-C left some undone."""
    told: list[Outcome] = []
    done: list[Outcome] = []
    with progress(len(jobs)) as display:
        teller = _Teller(command, args, len(jobs), display)

        def finish(outcome: Outcome) -> None:
            if outcome.output is not None and getattr(args, "output", None) == STDOUT:
                outcome.output = STDOUT
            done.append(outcome)
            display.advance(outcome)

        try:
            for outcome in run_all(jobs, work, args.jobs, finish, apart=True):
                told.append(outcome)
                teller.tell(outcome)
        except KeyboardInterrupt:
            place = {job.path: at for at, job in enumerate(jobs)}
            seen = {id(outcome) for outcome in told}
            for outcome in sorted((one for one in done if id(one) not in seen), key=lambda one: place[one.path]):
                told.append(outcome)
                teller.tell(outcome)
            teller.end()
            return told, True
        teller.end()
    return told, False


class _Teller:
    """Says what became of models as they come."""

    def __init__(self, command: Command, args: argparse.Namespace, models: int, display: Display) -> None:
        self._command = command
        self._args = args
        self._models = models
        self._display = display
        self._style = style_of(sys.stdout)
        self._blocked: Counter[str] = Counter()
        self._titles: dict[str, str] = {}

    def tell(self, outcome: Outcome) -> None:
        args = self._args
        if outcome.error and args.format != "github":
            say(failure(outcome, style_of(sys.stderr), debug=args.debug))
        if args.format != "text":
            return
        for rule, title in {blocked.rule: blocked.title for blocked in grouped(outcome, self._models, args)}.items():
            self._blocked[rule] += 1
            self._titles[rule] = title
        if outcome.changed or self._models == 1 or args.verbose or _noted(outcome, self._models, args):
            for line in _lines(self._command, outcome, args, self._style, self._models):
                self._display.show(line)

    def end(self) -> None:
        """What was only counted: rules that an unknown fact kept from deciding, in how many models."""
        for rule, models in sorted(self._blocked.items()):
            told = f"{self._style.paint('yellow', 'blocked')} {rule} in {counted(models, 'model')}: {clean(self._titles[rule])}"
            self._display.show(told)
        if self._blocked:
            self._display.show("    an unknown fact kept these rules from deciding; --verbose tells which, and where")


def _say_profile(outcomes: Sequence[Outcome]) -> None:
    from rewriter.log.clock import Profile
    from rewriter.report.terminal import profile_lines

    total = Profile()
    for outcome in outcomes:
        if outcome.profile is not None:
            total.add(outcome.profile)
    for line in profile_lines(total, style_of(sys.stderr)):
        say(line)


def make_work(command: Command, args: argparse.Namespace) -> Work:
    """What the options say about all jobs."""
    rules = selected(args)
    if args.source not in ("auto", "none"):
        from rewriter.source.find import load_source

        load_source(args.source)  # a bad file is one error, not one for each model
    limits = Limits(seconds=getattr(args, "timeout", None))
    if getattr(args, "max_firings", None) is not None:
        limits = replace(limits, firings=args.max_firings)
    return Work(
        rules,
        source=args.source,
        constant_inputs=args.constant_inputs,
        limits=limits,
        keep=command == "fix",
        force=getattr(args, "force", False),
        tidy=getattr(args, "tidy", False),
        verify=getattr(args, "verify", False),
        stamp=getattr(args, "stamp", False),
        inputs=getattr(args, "inputs", None),
        diff=getattr(args, "diff", False),
        profile=getattr(args, "profile", False),
        runtime=getattr(args, "ask_runtime", "no"),
        **limits_of(args),
    )


def grouped(outcome: Outcome, models: int, args: argparse.Namespace) -> list[Blocked]:
    """Of many models: what an unknown fact kept from being decided, which is told once for all of them."""
    if models == 1 or args.verbose or outcome.log is None or outcome.error:
        return []
    return [blocked for blocked in outcome.log.blocked if not blocked.error]


def _lines(command: Command, outcome: Outcome, args: argparse.Namespace, style: Style, models: int) -> Iterator[str]:
    log = outcome.log
    if log is None or outcome.error:
        return
    if apart := grouped(outcome, models, args):
        log = replace(log, blocked=[one for one in log.blocked if one not in apart])
    if command == "check":
        yield from check_lines(outcome.path, log, style)
        if outcome.refusal:
            answers = [answer.rule.code for answer in answers_to(outcome, args)]
            yield from refusal_lines(outcome.path, outcome.refusal, answers, log, style)
        yield from unjudged_lines(outcome.unjudged, f"{clean(outcome.path)}: ", style)
        return
    firings = len(log.firings)
    what = counted(firings, "rewrite") if firings else "tidied" if outcome.changed else "unchanged"
    where = "" if outcome.output in (None, outcome.path, STDOUT) else f" -> {clean(str(outcome.output))}"
    yield f"{style.paint('bold', clean(outcome.path))}: {style.paint('green', what) if outcome.changed else what}{where}"
    yield from fix_lines(log, style)
    if outcome.remaining:
        answers = [answer.rule.code for answer in answers_to(outcome, args)]
        yield from remaining_lines(outcome.remaining, answers, log, style)
    yield from unjudged_lines(outcome.unjudged, "  ", style)
    if args.diff:
        from rewriter.report.comparison_lines import comparison_lines

        yield from comparison_lines(outcome.path, outcome.output or outcome.path, outcome.differences, style)


def _noted(outcome: Outcome, models: int, args: argparse.Namespace) -> bool:
    """Whether there is something to say of a model that did not change."""
    log = outcome.log
    if log is None:
        return False
    blocked = len(log.blocked) > len(grouped(outcome, models, args))
    said = log.stops or log.notes or log.rolled_back or log.suppressed or log.questions
    return blocked or bool(said or outcome.refusal or outcome.remaining or outcome.unjudged)


def failure(outcome: Outcome, style: Style, *, debug: bool) -> str:
    """The line on a model that could not be worked on."""
    path = clean(outcome.path)
    message = clean(outcome.error)
    shown = message if message.startswith(path) else f"{path}: {message}"
    kept = "" if outcome.output is None else f"; written unchanged to {clean(outcome.output)}"
    if outcome.crash:
        kept += f"; please report it\n{outcome.crash.rstrip()}" if debug else "; please report it (--debug shows the traceback)"
    return f"{style.paint('red', 'error')}: {shown}{kept}"


def _summary_line(command: Command, summary: Summary) -> str:
    shown = {word: f"{number} {_SHOWN.get((command, word), word)}" for word, number in summary.statuses.items()}
    refused = summary.refused - summary.statuses.get("refused", 0)
    if command == "fix" and refused:
        shown["changed"] += f" ({refused} of them still refused by ONNX Runtime)"
    by_status = ", ".join(shown.values())
    firings = summary.firings
    rules = f" by {counted(len(firings), 'rule')}" if firings else ""
    verb = "rewrite" if command == "fix" else "finding"
    rest = f", {summary.unfinished} unfinished" if summary.unfinished else ""
    rest += f", {summary.unjudged} not judged" if summary.unjudged else ""
    rest += f", {summary.rolled_back} rolled back" if summary.rolled_back else ""
    models = counted(summary.models, "model")
    return f"{models}: {by_status}{rest}; {counted(sum(firings.values()), verb)}{rules}; {summary.seconds:.1f} s"
