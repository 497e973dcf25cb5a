"""Many models, one report: the common course of `fix`, `optimize` and `check`, with `--resume` and `--update`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.app.batch.job import do
from rewriter.app.batch.jobs import check_results, find_models, has_result, plan
from rewriter.app.batch.outcome_records import FINDINGS, OK, Command, Totals
from rewriter.app.batch.processes import run_all
from rewriter.app.batch.work import STDOUT, Checking, Job, Notes, Outcome, Reading, Rewriting, Work, Writing, is_remote, is_url
from rewriter.app.cli.console_report import ConsoleReport, fix_command
from rewriter.app.cli.options import limits_of, runtime_choice
from rewriter.app.cli.output import check_stdout, model_to_stdout, print_message, progress, style_of
from rewriter.app.cli.selection import selected
from rewriter.app.cli.settings import unused, vary
from rewriter.app.report.terminal import profile_lines, summary_line
from rewriter.core.engine.limits import Limits
from rewriter.core.errors import RewriterError
from rewriter.core.isolation.child import Interrupted, Interruption, heard
from rewriter.core.log import Firing, Profile
from rewriter.core.onnxfile.files import sole_run, temporary_folder
from rewriter.core.record import replace
from rewriter.workbench.style import clean

if TYPE_CHECKING:
    from rewriter.app.batch.result_folder import ResultFolder
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.graph.model import Model
    from rewriter.workbench.surgery.opened import Opened


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
    work, jobs = vary(work, jobs, args)
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
    work, (job,) = vary(make_work(command, args), [Job(str(source.file))], args)
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


def make_work(command: Command, args: argparse.Namespace) -> Work:
    """The work of all jobs, from the options."""
    rules = selected(args)
    if args.source not in ("auto", "none"):
        from rewriter.trust.source.find import load_source

        load_source(args.source)  # a bad file is one error, not one for each model
    limits = Limits(seconds=getattr(args, "timeout", None))
    if getattr(args, "max_firings", None) is not None:
        limits = replace(limits, firings=args.max_firings)
    asking = None
    if command != "optimize" and (getattr(args, "ask", None) or args.target):
        from rewriter.app.cli.consumers import Asking

        asking = Asking(args)
    return Work(
        Rewriting(
            rules if asking is None else asking.rules(rules),
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
    if args.inputs is not None and not args.verify:
        raise RewriterError("--inputs needs --verify; pass both")
    args.ask_runtime = runtime_choice(args.runtime)
    for name in ("resume", "update", "journal"):
        if getattr(args, name) and (not args.out or is_url(args.out)):
            raise RewriterError(f"--{name} needs a folder of results on this machine; pass --out")
    if args.inputs is not None:
        from rewriter.core.isolation.budget import within_limits
        from rewriter.trust.proof.models.model_inputs import read_inputs

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
