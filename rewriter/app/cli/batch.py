"""Many models, one report: the common course of `fix`, `optimize` and `check`, with `--resume` and `--update`, and its output,
model by model and at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from rewriter.app.batch.job import do
from rewriter.app.batch.jobs import check_results, find_models, has_result, plan
from rewriter.app.batch.outcome_records import FINDINGS, OK, Command, Totals, answers_to
from rewriter.app.batch.processes import run_all
from rewriter.app.batch.work import STDOUT, Checking, Job, Notes, Outcome, Reading, Rewriting, Work, Writing, is_remote, is_url
from rewriter.app.cli.options import limits_of, runtime_choice
from rewriter.app.cli.output import Display, check_stdout, model_to_stdout, print_message, progress, style_of
from rewriter.app.cli.settings import codes, selected, unused, vary
from rewriter.app.report.document import pattern_of
from rewriter.app.report.terminal import (
    VerdictCounts,
    check_lines,
    expectation_lines,
    fix_lines,
    optimize_lines,
    outcome_lines,
    profile_lines,
    rejection_lines,
    remaining_lines,
    repaired_lines,
    summary_line,
    unchecked_lines,
    verdict_lines,
)
from rewriter.app.style import Style, clean
from rewriter.core.engine.limits import Limits
from rewriter.core.errors import RewriterError, counted
from rewriter.core.isolation.child import Interrupted, Interruption, heard
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Log, Profile
from rewriter.core.onnxfile.files import sole_run, temporary_folder
from rewriter.core.record import replace

if TYPE_CHECKING:
    from rewriter.app.batch.result_folder import ResultFolder
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.graph.model import Model
    from rewriter.workbench.surgery.opened import Opened


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
            head = [*rejection_lines(outcome.refusal, answers, log, self._why(outcome), style, advice)]
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
            yield from remaining_lines(self._answers(outcome), self._why(outcome), log, style)
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
        """The rules that repair the error message, with the option that runs each rule that was not tried."""
        rules = [answer.rule for answer in answers_to(outcome, self._args.rules)]
        if not rules:
            return {}
        from rewriter.app.report.rule_lines import when_asked

        tried = {rule.code for rule in self._rules.questions} if self._command == "check" else set()
        tried -= {question.rule for question in outcome.log.questions} if outcome.log is not None else set()
        idle = [rule.default or rule.code in tried or self._rules.get(rule.code) is not None for rule in rules]
        return {rule.code: "" if one else f"runs {when_asked(rule)}" for rule, one in zip(rules, idle, strict=True)}

    def _why(self, outcome: Outcome) -> Callable[[str], str]:
        return lambda code: _why_command(code, outcome, self._args)

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
        return fix_command(args, f"DEFAULT,{code}") if when else _why_command(code, outcome, args)
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
    replaced = ("select", "ignore", "guess") if select else ("target",) if consumers else ()
    wanted = [option for option in OPTIONS_OF_FINDINGS if option not in replaced]
    options = [*(["--select", select] if select else []), *_typed(args, wanted)]
    if consumers:
        options += [f"--target {quote(','.join(sorted(consumers)))} --ask"]
        options += [f"--consumer-env {quote(clean(folder))}" for folder in args.consumer_env]
    if len(paths) != 1 or os.path.isdir(paths[0]):
        where = ["--out", "DIR"]
    elif paths[0] == STDOUT:
        where = ["-o", "fixed.onnx", "< MODEL"]
    else:
        where = ["-o", quote(name.removesuffix(".onnx") + ".fixed.onnx")]
    return " ".join(["rewriter fix", *(quote(clean(path)) for path in paths), *options, *where])


def _typed(args: argparse.Namespace, options: Iterable[str]) -> Iterator[str]:
    """Those of some options that were typed, as they are typed again, and the choice of the configuration."""
    if args.no_config or args.config is not None:
        yield "--no-config" if args.no_config else f"--config {quote(clean(args.config))}"
    for option in options:
        value = getattr(args, option.replace("-", "_"))
        if option == "rules" and args.extend:
            value = value[: -len(args.extend)]  # the rules of --extend follow them in this list
        if value and args.origins[option].startswith("--"):
            values = [value] if isinstance(value, str) else [] if value is True else value
            yield from [f"--{option} {quote(clean(one))}" for one in values] or [f"--{option}"]


def _why_command(code: str, outcome: Outcome, args: argparse.Namespace) -> str:
    options = _typed(args, ("rules", "extend", "set", "source", "constant-inputs"))
    return " ".join(["rewriter why", code, quote(clean(outcome.path)), *options])


def run_batch(command: Command, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Does all jobs, reports each, prints the totals, and returns the exit code.

    Raises:
        RewriterError: the rules cannot be used, or the source file that was named cannot be read.
    """
    with heard() as interruption:
        return _run(command, jobs, args, interruption)


def _run(command: Command, jobs: Sequence[Job], args: argparse.Namespace, interruption: Interruption) -> int:
    started = time.monotonic()
    interruption.waited = len(jobs) > 1
    if args.report:
        from rewriter.app.batch.result_folder import check_reports

        check_reports(args.report, _used_files(jobs, args), args.staging)
    work = make_work(command, args)
    reports = args.format != "text" or bool(args.report)
    if reports:
        from rewriter.app.batch.result_folder import snapshots
        from rewriter.core.engine.firing_audit import FiringAudit

        notes = replace(work.notes, audit=FiringAudit(snapshots=snapshots(args.report, len(jobs))))
        work = replace(work, checking=replace(work.checking, before=command != "check"), notes=notes)
    work, jobs = vary(work, jobs, args, partial(_rules_of, command))
    batch = _Batch(command, jobs, work, args, keeps=reports)
    batch.run(interruption)
    seconds = time.monotonic() - started
    code = OK if args.exit_zero and batch.totals.code == FINDINGS else batch.totals.code
    code = interruption.code if interruption.number else code
    if not interruption.number:
        batch.warn()
    if reports:
        report = batch.totals.report(work, seconds, code)
        if args.format != "text":
            from rewriter.app.report.formats import pieces_of

            sys.stdout.writelines(pieces_of(report, args.format))
        if args.report:
            from rewriter.app.batch.result_folder import write_reports

            write_reports(report, args.report, args.staging)
    if work.notes.profile:
        for line in profile_lines(batch.profile, style_of(sys.stderr)):
            print_message(line)
    if args.format != "json":
        sys.stdout.flush()
        summary = batch.totals.summary(seconds)
        print_message(summary_line(command, summary))
        if command == "check" and args.format == "text":
            repairable = bool(summary.firings or batch.declining)
            if advice := fix_command(args, consumers=batch.declining) if repairable else batch.advice:
                print(f"next: {advice}", file=sys.stderr)  # never broken, so that it can be copied
    if interruption.number:
        more = "; continue with --resume" if batch.results is not None else ""
        print_message(f"interrupted: {batch.totals.models:,} of {len(jobs):,} done{more}")
    return code


def one_run(
    command: Command, source: Opened, args: argparse.Namespace, change: Callable[[Work], Work]
) -> tuple[Work, Outcome, Model | None]:
    """Runs the selected rules on a single model, which is read once, and writes nothing.

    Args:
        command: the command whose defaults are used.
        source: the model.
        args: the options that select rules.
        change: changes the work before it is done.

    Returns:
        The work, its outcome, and the model after the run; None if no rule can fire and the model was not loaded.

    Raises:
        RewriterError: the rules cannot be used, or the model cannot be read.
    """
    work, (job,) = vary(make_work(command, args), [Job(str(source.file))], args, partial(_rules_of, command))
    work = change(work.variants[job.variant] if work.variants else work)
    outcome = Outcome(job.path)
    return work, outcome, do(job, work, outcome)


def firings_of(
    source: Opened, args: argparse.Namespace, audit: FiringAudit, most: int | None = None
) -> tuple[list[Firing], Model]:
    """The firings that `check` finds in a model, at most so many, with the pictures that `audit` requires, and the model.

    Guesses are not tried: they would double the time, and are no firings.

    Raises:
        RewriterError: the rules cannot be used, or the model cannot be read.
    """

    def audited(work: Work) -> Work:
        rewriting = replace(work.rewriting, rules=replace(work.rewriting.rules, questions=()), limits=Limits(firings=most))
        checking, notes = replace(work.checking, runtime="no"), replace(work.notes, audit=audit)
        return replace(work, rewriting=rewriting, checking=checking, notes=notes)

    _, outcome, model = one_run("check", source, args, audited)
    assert model is not None and outcome.log is not None  # an audit loads every model
    return outcome.log.firings, model


def _used_files(jobs: Sequence[Job], args: argparse.Namespace) -> Iterator[str]:
    """Files that the call reads or writes."""
    for job in jobs:
        yield job.path
        if job.target is not None:
            yield job.target
    if args.source not in ("auto", "none"):
        yield args.source
    for name in ("inputs", "output"):
        if getattr(args, name, None):
            yield getattr(args, name)


class _Batch:
    """The jobs of a call, and their outcomes."""

    def __init__(self, command: Command, jobs: Sequence[Job], work: Work, args: argparse.Namespace, *, keeps: bool) -> None:
        self._command = command
        self._jobs = jobs
        self._args = args
        self._used: set[str] = set()
        self.totals = Totals(command, args.rules, [one.rewriting.rules for one in (work, *work.variants)], keeps=keeps)
        self.profile = Profile()
        self.advice = ""
        self.declining: set[str] = set()
        self.results: ResultFolder | None = None
        if getattr(args, "out", None) is not None and not is_url(args.out):
            self.results = _result_folder(command, jobs, work, args)
        self._work = work if self.results is None else self.results.work

    def run(self, interruption: Interruption) -> None:
        """Does the jobs that are left."""
        if self.results is None:
            self._do(list(enumerate(self._jobs)), interruption)
            return
        with closing(self.results):
            for number, record in self.results.earlier():
                self.totals.add_record(number, record)
            self._do(self.results.left, interruption)

    def _do(self, numbered: Sequence[tuple[int, Job]], interruption: Interruption) -> None:
        jobs = [job for _, job in numbered]
        numbers = {job.path: number for number, job in numbered}
        with progress(len(jobs)) as display:
            console = ConsoleReport(self._command, self._args, self._work.rewriting.rules, len(self._jobs), display)

            def finish(outcome: Outcome) -> None:
                number = numbers[outcome.path]
                _name_files(outcome, self._args)
                if self._command == "optimize" and outcome.log is not None and not self._args.verbose:
                    # an optimization that an unknown fact prevented is no defect, and there are many
                    outcome.log.blocked = [blocked for blocked in outcome.log.blocked if blocked.error]
                if self.results is not None:
                    self.results.note(number, outcome)
                self.totals.add(number, outcome)
                if outcome.profile is not None:
                    self.profile.add(outcome.profile)
                if outcome.log is not None:
                    self._used.update(one.origin for one in outcome.log.suppressed)
                display.advance(failed=bool(outcome.error))

            try:
                for outcome in self._outcomes(jobs, finish, interruption):
                    console.print_outcome(outcome)
            except Interrupted:
                pass
            console.end()
            self.advice, self.declining = console.advice, console.declining

    def _outcomes(
        self, jobs: Sequence[Job], finish: Callable[[Outcome], None], interruption: Interruption
    ) -> Iterator[Outcome]:
        if self._args.scheduler is None:
            return run_all(jobs, self._work, self._args.jobs, finish, apart=True, interruption=interruption)
        from rewriter.app.batch.cluster import run_on_cluster

        return run_on_cluster(jobs, self._work, self._args.scheduler, self._args.jobs, finish, interruption)

    def warn(self) -> None:
        """Prints the suppressions of a configuration that suppressed nothing, if all models were read."""
        if self.totals.failed or (self.results is not None and self.results.skipped):
            return
        for one in unused(self._args, self._used, self._jobs):
            print_message(f"{clean(one.origin)}: warning: this suppression of {clean(one.rule)} has no effect")


def _result_folder(command: Command, jobs: Sequence[Job], work: Work, args: argparse.Namespace) -> ResultFolder:
    """The folder of `--out`. Prints how many jobs earlier runs have done."""
    from rewriter.app.batch.result_folder import ResultFolder

    limits = {"seconds": work.seconds, "memory": None if args.memory_limit is None else work.memory}
    journal = None if args.journal is None else Path(args.journal)
    mode: Literal["all", "resume", "update"] = "resume" if args.resume else "update" if args.update else "all"
    folder = ResultFolder(command, jobs, work, Path(args.out), journal, mode, limits)
    for message in folder.messages:
        print_message(message)
    return folder


def _name_files(outcome: Outcome, args: argparse.Namespace) -> None:
    """Gives a result the name of its final target, and names a link that the sandbox cannot follow."""
    if args.staging is not None and outcome.error and os.path.islink(outcome.path) and not os.path.exists(outcome.path):
        outcome.error = f"{outcome.path}: symbolic link out of the models' folder, which --sandbox does not follow"
    output = getattr(args, "output", None)
    if outcome.output is not None and output is not None and (output == STDOUT or args.staging is not None):
        name = output if output == STDOUT else str(Path(output))
        outcome.stamps = [replace(one, path=name) if one.path == outcome.output else one for one in outcome.stamps]
        outcome.output = name


def _rules_of(command: Command, args: argparse.Namespace, chosen: RuleSet) -> RuleSet:
    """The rules that run: those that the options choose, changed by the recipes of the targets."""
    if not args.target:
        return chosen
    from rewriter.app.cli.consumers import rules_for_targets

    return rules_for_targets(command, args, chosen)


def make_work(command: Command, args: argparse.Namespace) -> Work:
    """The work of all jobs, from the options."""
    rules = _rules_of(command, args, selected(args))
    if args.source not in ("auto", "none"):
        from rewriter.trust.source.find import load_source

        load_source(args.source)  # a bad file is one error, not one for each model
    limits = Limits(seconds=getattr(args, "timeout", None))
    if getattr(args, "max_firings", None) is not None:
        limits = replace(limits, firings=args.max_firings)
    asking = None
    if command != "optimize" and (getattr(args, "ask", None) or args.target or getattr(args, "consumer_env", None)):
        from rewriter.app.cli.consumers import Asking

        asking = Asking(args)
    return Work(
        Rewriting(
            rules,
            limits,
            keep=command != "check",
            keep_partial=getattr(args, "keep_partial", False),
            tidy=getattr(args, "tidy", False),
        ),
        Reading(args.source, args.constant_inputs, static=tuple(getattr(args, "static", ()))),
        Checking(
            runtime=getattr(args, "ask_runtime", "no"),
            moderate=getattr(args, "moderate", True),
            before=command == "fix",
            verify=getattr(args, "verify", False),
            inputs=getattr(args, "inputs", None),
            expect=getattr(args, "expect", None),
            consumers=() if asking is None else asking.consumers,
        ),
        Writing(
            force=getattr(args, "force", False),
            stamp=getattr(args, "stamp", False),
            full_record=getattr(args, "record", "") == "full",
        ),
        Notes(
            count=command == "optimize",
            diff=getattr(args, "diff", False),
            detail=command == "check" and getattr(args, "format", "") == "text" and not getattr(args, "moderate", True),
            profile=getattr(args, "profile", False),
        ),
        **limits_of(args),
        steps=() if asking is None or command == "check" else asking.steps,
    )


# Where results go.


def write_results(command: Command, args: argparse.Namespace, ending: str) -> int:
    """Rewrites models; returns the exit code.

    Args:
        command: the command that has these options.
        args: the options.
        ending: of the names of results that go next to the models.

    Raises:
        RewriterError: options contradict each other, rules are bad, or a target is not possible.
    """
    args.ask_runtime = runtime_choice(args.runtime)
    for name in ("resume", "update", "journal"):
        if getattr(args, name) and (not args.out or is_url(args.out)):
            raise RewriterError(f"--{name} needs a folder of results on this machine; pass --out")
    if args.inputs is not None:
        from rewriter.core.isolation.budget import within_limits
        from rewriter.trust.proof.model_inputs import read_inputs

        with within_limits(**limits_of(args)):
            read_inputs(args.inputs)  # a bad file is one error, before any work is done
    folder = os.path.dirname(args.output or "")
    if folder and not is_remote(args.output) and not os.path.isdir(folder):
        print_message(f"rewriter: note: the folder {clean(folder)} does not exist and is created for the result")
    targets = {"output": args.output, "out": args.out, "in_place": args.in_place}
    found = find_models(args.paths, leave_out=args.out, skip="" if any(targets.values()) else ending)
    jobs = plan(found, **targets, ending=ending)
    with nullcontext() if args.out is None or is_url(args.out) else sole_run(args.out):
        if args.skip_existing:
            left = [job for job in jobs if not has_result(job)]
            if len(left) < len(jobs):
                print_message(f"{len(jobs) - len(left)} of {len(jobs)} results exist and were skipped")
            jobs = left
        elif not (args.force or args.resume or args.update or any(map(is_remote, (*args.paths, args.output, args.out)))):
            check_results(jobs)
        if args.staging is not None and args.output not in (None, STDOUT):
            from rewriter.app.batch.result_folder import result_in

            jobs = [replace(job, target=str(result_in(args.staging))) for job in jobs]
        return _run_to_stdout(command, jobs, args) if args.output == STDOUT else run_batch(command, jobs, args)


def _run_to_stdout(command: Command, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """`-o -`: the result of a single model goes to standard output, and all messages about it go to stderr.

    Raises:
        RewriterError: standard output is a terminal or busy, or the result does not fit into one file.
    """
    check_stdout()
    if args.format != "text":
        raise RewriterError(f"-o - and --format {args.format} would both write to standard output; use --report")
    with temporary_folder() as folder:
        with redirect_stdout(sys.stderr):
            code = run_batch(command, [replace(job, target=str(folder / "model.onnx")) for job in jobs], args)
        model_to_stdout(folder)
    return code
