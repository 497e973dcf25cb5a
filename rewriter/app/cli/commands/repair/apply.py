"""`rewriter apply`: carries out a plan."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import Switch, add_format, add_limits

if TYPE_CHECKING:
    from rewriter.app.batch.work import Outcome, Work
    from rewriter.trust.plans.execution import Missing
    from rewriter.trust.plans.plan_file import Document
    from rewriter.workbench.style import Style
    from rewriter.workbench.surgery.opened import Opened


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "apply",
        help="carry out a plan",
        description="Does the rewrites that a plan accepts, and no other. Nothing is written when the model, a rule or the "
        "source file is not what it was when the plan was made. The exit code is 1 when an accepted rewrite did not happen "
        "though all that it follows did, or when one that is not in the plan was ready to happen; it is not done.",
        epilog="example: rewriter apply plan.toml -o net.fixed.onnx",
    )
    parser.add_argument("plan", metavar="PLAN", help="file written by `rewriter plan`")
    parser.add_argument("-o", "--output", metavar="FILE", help="the result (default: NAME.fixed.onnx beside the model)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--fetch", action="store_true", help="fetch the model and the source file of the plan if they are URLs")
    parser.add_argument("--verify", action="store_true", help="also run the model before and after, as `fix --verify` does")
    parser.add_argument("--stamp", action=Switch, help="leave a record in the result (default: yes)")
    add_format(parser)
    add_limits(parser, "the command", whole=600)


def run(args: argparse.Namespace) -> int:
    """Carries out a plan; returns the exit code."""
    import sys
    from pathlib import Path

    from rewriter.app.batch.job import process
    from rewriter.app.batch.urls import is_remote, is_url, told
    from rewriter.app.cli.console_report import exit_code
    from rewriter.app.cli.output import say, style_of, tell
    from rewriter.app.cli.paths import Found, plan
    from rewriter.app.cli.report_record import model_record
    from rewriter.app.cli.surgery import opened
    from rewriter.app.report.jsonreport import dumps, plain
    from rewriter.core.errors import RewriterError
    from rewriter.trust.plans.execution import UNPLANNED, missing
    from rewriter.trust.plans.plan_file import read
    from rewriter.workbench.style import clean

    found = read(Path(args.plan))
    if is_remote(found.model) and args.output is None:
        raise RewriterError(f"the plan is of {found.model}, no file of this machine; say with -o where the result goes")
    for url in (found.model, found.source[0] if found.source is not None else ""):
        if is_url(url) and not args.fetch:
            raise RewriterError(f"{args.plan} names {url}, and nothing was fetched; look at the address, then add --fetch")
    model = opened(found.model)
    source = None if found.source is None else opened(found.source[0])
    (job,) = plan([Found(model.file, Path(model.file.name))], output=args.output, out=None, in_place=False)
    outcome = process(job, _work(found, model, source, args))
    outcome.path = model.name
    absent = [] if outcome.log is None else missing(found.proposals, outcome.log)
    unplanned = [] if outcome.log is None else [one for one in outcome.log.suppressed if one.reason == UNPLANNED]
    code = exit_code("fix", outcome, args) or int(bool(unplanned) or any(not one.because for one in absent))
    if args.format == "json":
        lost = [{"rewrite": one.proposal.number, "because": one.because} for one in absent]
        record = plain(model_record("fix", outcome))
        print(dumps({"schema": 1, "command": "apply", "exit_code": code, **record, "missing": lost}))
    elif not outcome.error:
        for line in _lines(found, outcome, absent, style_of(sys.stdout)):
            tell(line)
    if outcome.error:
        say(f"rewriter: error: {clean(told(outcome.error))}")
    return code


def _lines(plan: Document, outcome: Outcome, absent: list[Missing], style: Style) -> list[str]:
    from rewriter.app.report.terminal import fix_lines
    from rewriter.workbench.style import clean

    assert outcome.log is not None
    accepted = sum(proposal.apply for proposal in plan.proposals)
    done = f"{len(outcome.log.firings)} of {accepted} accepted rewrites -> {clean(str(outcome.output))}"
    lines = [f"{style.paint('bold', clean(outcome.path))}: {done}", *fix_lines(outcome.log, style)]
    for one in absent:
        what = f"{one.proposal.number} {clean(one.proposal.rule)} at {clean(one.proposal.node)}"
        if one.because:
            before = ", ".join(map(str, one.because))
            lines.append(f"  {style.paint('dim', 'not done')} {what}: it follows {before}, which did not happen")
        else:
            lines.append(f"  {style.paint('red', 'did not happen')} {what}")
    return lines


def _work(plan: Document, model: Opened, source: Opened | None, args: argparse.Namespace) -> Work:
    """What the plan says, when all that it is about is as it was.

    Raises:
        RewriterError: the model, a rule or the source file is another one now.
    """
    from rewriter.app.batch.work import Work
    from rewriter.app.cli.selection import load
    from rewriter.core.errors import RewriterError
    from rewriter.core.record import replace
    from rewriter.trust.provenance.stamp import SHORT, file_digest, fired_only, settings_of

    found = model.digest()
    if found != plan.sha256:
        raise RewriterError(f"{model.name} is not the model of the plan: its SHA-256 is {found}, the plan's {plan.sha256}")
    known = load(plan.rule_paths)
    for code, digest in plan.rules.items():
        rule = known.get(code)
        if rule is None:
            raise RewriterError(f"{args.plan}: rule {code} is not among the rules any more")
        if rule.digest[:SHORT] != digest:
            raise RewriterError(f"{args.plan}: rule {code} has changed since the plan was made; make a new one")
    if plan.source is not None and source is not None and file_digest(source.file) != plan.source[1]:
        raise RewriterError(f"{plan.source[0]} has changed since the plan was made; make a new one")
    rules = fired_only(replace(known, by_id=frozenset(plan.asked), settings=settings_of(plan.set)), frozenset(plan.rules))
    return Work(
        rules,
        source="none" if source is None else str(source.file),
        constant_inputs=plan.constant_inputs,  # type: ignore[arg-type]
        force=args.force,
        tidy=plan.tidy,
        verify=args.verify,
        stamp=args.stamp is not False,
        plan=(args.plan, plan.proposals),
    )
