"""Many models, one report: the common course of `fix` and `check`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from rewriter.cli.by_path import unused, vary
from rewriter.cli.job import Job, Outcome, Work
from rewriter.cli.output import say, style_of
from rewriter.cli.pool import run_all
from rewriter.cli.progress import progress
from rewriter.cli.record import Command, answers_to, exit_code, make_report, summarize
from rewriter.cli.report_files import check_reports, printed, scenes, write_reports
from rewriter.cli.selection import selected
from rewriter.engine.limits import Limits
from rewriter.record import replace
from rewriter.report.document import Summary
from rewriter.report.style import Style, clean, counted
from rewriter.report.terminal import check_lines, fix_lines, refusal_lines

_SHOWN = {"findings": "with findings"}  # statuses that read differently behind a number


def run_batch(command: Command, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Does all jobs, reports each, sums up, and returns the exit code.

    Raises:
        RewriterError: the rules cannot be used, or the source file that was named cannot be read.
    """
    started = time.monotonic()
    check_reports(args.report, jobs, args)
    work = make_work(command, args)
    if args.format != "text" or args.report:
        from rewriter.engine.audit import Audit

        work = replace(work, audit=Audit(scenes=scenes(args.report, len(jobs))))
    work, jobs = vary(work, jobs, args)
    outcomes: list[Outcome] = []
    style = style_of(sys.stdout)
    with progress(len(jobs)) as display:
        for outcome in run_all(jobs, work, args.jobs, display.advance):
            outcomes.append(outcome)
            if outcome.error and args.format != "github":
                say(failure(outcome, style_of(sys.stderr), debug=args.debug))
            if args.format == "text" and (outcome.changed or len(jobs) == 1 or args.verbose or _noted(outcome)):
                for line in _lines(command, outcome, args, style):
                    display.show(line)
    for one in unused(args, outcomes, jobs):
        say(f"{clean(one.origin)}: warning: this suppression of {clean(one.rule)} suppresses nothing")
    if args.format == "text" and not args.report:
        code, summary = exit_code(command, outcomes), summarize(command, outcomes, time.monotonic() - started)
    else:
        report = make_report(command, outcomes, work, args, time.monotonic() - started)
        code, summary = report.exit_code, report.summary
        if args.format != "text":
            print(printed(report, args.format))
        write_reports(report, args.report)
    if work.profile:
        _say_profile(outcomes)
    if args.format != "json":
        sys.stdout.flush()
        say(_summary_line(command, summary))
    return code


def _say_profile(outcomes: Sequence[Outcome]) -> None:
    from rewriter.engine.profile import Profile
    from rewriter.report.profile import profile_lines

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
    )


def _lines(command: Command, outcome: Outcome, args: argparse.Namespace, style: Style) -> Iterator[str]:
    if outcome.log is None or outcome.error:
        return
    if command == "check":
        yield from check_lines(outcome.path, outcome.log, style)
        if outcome.refusal:
            answers = [answer.rule.code for answer in answers_to(outcome, args)]
            yield from refusal_lines(outcome.path, outcome.refusal, answers, outcome.log, style)
        return
    firings = len(outcome.log.firings)
    what = counted(firings, "rewrite") if firings else "tidied" if outcome.changed else "unchanged"
    where = "" if outcome.output in (None, outcome.path) else f" -> {clean(str(outcome.output))}"
    yield f"{style.paint('bold', clean(outcome.path))}: {style.paint('green', what) if outcome.changed else what}{where}"
    yield from fix_lines(outcome.log, style)
    if args.diff:
        from rewriter.report.comparison import comparison_lines

        yield from comparison_lines(outcome.path, outcome.output or outcome.path, outcome.differences, style)


def _noted(outcome: Outcome) -> bool:
    """Whether there is something to say of a model that did not change."""
    log = outcome.log
    return log is not None and bool(
        log.blocked or log.stops or log.notes or log.rolled_back or log.suppressed or outcome.refusal
    )


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
    by_status = ", ".join(f"{number} {_SHOWN.get(word, word)}" for word, number in summary.statuses.items())
    firings = summary.firings
    rules = f" by {counted(len(firings), 'rule')}" if firings else ""
    verb = "rewrite" if command == "fix" else "finding"
    rest = f", {summary.unfinished} unfinished" if summary.unfinished else ""
    rest += f", {summary.rolled_back} rolled back" if summary.rolled_back else ""
    models = counted(summary.models, "model")
    return f"{models}: {by_status}{rest}; {counted(sum(firings.values()), verb)}{rules}; {summary.seconds:.1f} s"
