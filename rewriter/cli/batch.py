"""Many models, one report: the common course of `fix` and `check`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rewriter.cli.by_path import unused, vary
from rewriter.cli.job import Job, Outcome, Work
from rewriter.cli.output import say, style_of
from rewriter.cli.pool import run_all
from rewriter.cli.progress import progress
from rewriter.cli.selection import selected
from rewriter.engine.limits import Limits
from rewriter.report.comparison import comparison_lines
from rewriter.report.jsonreport import log_object, report
from rewriter.report.style import Style, clean
from rewriter.report.terminal import check_lines, fix_lines, refusal_lines

if TYPE_CHECKING:
    from rewriter.language.symptoms import Answer

_SHOWN = {"findings": "with findings"}  # statuses that read differently behind a number


def run_batch(command: str, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Does all jobs, reports each, sums up, and returns the exit code.

    Raises:
        RewriterError: the rules cannot be used, or the source file that was named cannot be read.
    """
    started = time.monotonic()
    work, jobs = vary(make_work(command, args), jobs, args)
    outcomes: list[Outcome] = []
    style = style_of(sys.stdout)
    with progress(len(jobs)) as display:
        for outcome in run_all(jobs, work, args.jobs, display.advance):
            outcomes.append(outcome)
            if outcome.error:
                say(_failure(outcome, style_of(sys.stderr), debug=args.debug))
            if args.format == "text":
                for line in _lines(command, outcome, args, style):
                    display.show(line)
    for one in unused(args, outcomes, jobs):
        say(f"{clean(one.origin)}: warning: this suppression of {clean(one.rule)} suppresses nothing")
    code = exit_code(command, outcomes)
    summary = summarize(command, outcomes, time.monotonic() - started)
    if args.format == "json":
        models = [model_object(command, outcome, answers_to(outcome, args)) for outcome in outcomes]
        print(report(command, models, summary, code))
    else:
        sys.stdout.flush()
        say(_summary_line(command, summary))
    return code


def make_work(command: str, args: argparse.Namespace) -> Work:
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
        runtime=getattr(args, "ask_runtime", False),
    )


def exit_code(command: str, outcomes: Sequence[Outcome]) -> int:
    """3 when this program made a mistake, 2 when a model failed, 1 for findings or something unrepaired, 0 otherwise."""
    if any(outcome.crash for outcome in outcomes):
        return 3
    if any(outcome.error for outcome in outcomes):
        return 2
    findings = any(outcome.unfinished or (command == "check" and (outcome.changed or outcome.refusal)) for outcome in outcomes)
    return 1 if findings else 0


def summarize(command: str, outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """Totals of a call: models by status, firings by rule, models with something unfinished, seconds."""
    statuses = Counter(status(command, outcome) for outcome in outcomes)
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.log is not None and not outcome.error:
            counts.update(outcome.log.counts)
    return {
        "models": len(outcomes),
        "statuses": dict(sorted(statuses.items())),
        "unfinished": sum(outcome.unfinished for outcome in outcomes),
        "rolled_back": sum(len(outcome.log.rolled_back) for outcome in outcomes if outcome.log is not None),
        "firings": dict(sorted(counts.items())),
        "seconds": round(seconds, 3),
    }


def status(command: str, outcome: Outcome) -> str:
    """One word for what became of a model."""
    if outcome.error:
        return "failed"
    if outcome.refusal and not outcome.changed:
        return "refused"
    words = ("changed", "unchanged") if command == "fix" else ("findings", "clean")
    return words[0] if outcome.changed else words[1]


def model_object(command: str, outcome: Outcome, answers: Sequence[Answer] = ()) -> dict[str, Any]:
    """A model's part of the JSON report; `answers` are what rules say to the refusal of ONNX Runtime."""
    return {
        "path": outcome.path,
        "output": outcome.output,
        "status": status(command, outcome),
        "error": outcome.error or None,
        "exporter": outcome.exporter or None,
        "source": outcome.source,
        "constant_inputs": outcome.constant_inputs,
        "tidied": outcome.tidied,
        "refusal": outcome.refusal,
        "answers": [{"rule": answer.rule.code, "symptom": answer.symptom, "score": answer.score} for answer in answers],
        "seconds": round(outcome.seconds, 6),
        **({} if outcome.log is None else log_object(outcome.log)),
    }


def _lines(command: str, outcome: Outcome, args: argparse.Namespace, style: Style) -> Iterator[str]:
    if outcome.log is None or outcome.error:
        return
    if command == "check":
        yield from check_lines(outcome.path, outcome.log, style)
        if outcome.refusal:
            answers = [answer.rule.code for answer in answers_to(outcome, args)]
            yield from refusal_lines(outcome.path, outcome.refusal, answers, outcome.log, style)
        return
    firings = len(outcome.log.firings)
    what = _number(firings, "rewrite") if firings else "tidied" if outcome.changed else "unchanged"
    where = "" if outcome.output in (None, outcome.path) else f" -> {clean(str(outcome.output))}"
    yield f"{style.paint('bold', clean(outcome.path))}: {style.paint('green', what) if outcome.changed else what}{where}"
    yield from fix_lines(outcome.log, style)
    if args.diff:
        yield from comparison_lines(outcome.path, outcome.output or outcome.path, outcome.differences, style)


def answers_to(outcome: Outcome, args: argparse.Namespace) -> list[Answer]:
    """The rules that surely answer the refusal of ONNX Runtime, those that would fire in this model first."""
    if not outcome.refusal or outcome.log is None:
        return []
    from rewriter.cli.catalogue import read_rules
    from rewriter.language.symptoms import find_answers

    fires = outcome.log.counts
    found = [answer for answer in find_answers(read_rules(args.rules), outcome.refusal) if answer.sure]
    return sorted(found, key=lambda answer: answer.rule.code not in fires)


def _failure(outcome: Outcome, style: Style, *, debug: bool) -> str:
    path = clean(outcome.path)
    message = clean(outcome.error)
    shown = message if message.startswith(path) else f"{path}: {message}"
    kept = "" if outcome.output is None else f"; written unchanged to {clean(outcome.output)}"
    if outcome.crash:
        kept += f"; please report it\n{outcome.crash.rstrip()}" if debug else "; please report it (--debug shows the traceback)"
    return f"{style.paint('red', 'error')}: {shown}{kept}"


def _summary_line(command: str, summary: dict[str, Any]) -> str:
    by_status = ", ".join(f"{number} {_SHOWN.get(word, word)}" for word, number in summary["statuses"].items())
    firings = summary["firings"]
    rules = f" by {_number(len(firings), 'rule')}" if firings else ""
    verb = "rewrite" if command == "fix" else "finding"
    rest = f", {summary['unfinished']} unfinished" if summary["unfinished"] else ""
    rest += f", {summary['rolled_back']} rolled back" if summary["rolled_back"] else ""
    models = _number(summary["models"], "model")
    return f"{models}: {by_status}{rest}; {_number(sum(firings.values()), verb)}{rules}; {summary['seconds']:.1f} s"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
