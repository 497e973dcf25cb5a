"""Commands that repair models, and that show what a repair would do."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rewriter.app.batch import jobs
from rewriter.app.cli.options import (
    MODEL,
    PATHS,
    RESULTS,
    RULES_AT_WORK,
    SELECTION,
    Limits,
    Option,
    command,
    like,
    runtime_choice,
    with_words,
)
from rewriter.app.cli.output import answer, print_message
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, counted
from rewriter.core.record import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewriter.core.log import Firing
    from rewriter.trust.plan_file import Proposal


@command(
    "fix",
    "repair models",
    PATHS,
    epilog="examples:\n  rewriter fix exported/ --out repaired/ --jobs 4\n"
    "  rewriter fix net.onnx -o fixed.onnx --verify --report audit.html --report audit.json",
    options=(
        *SELECTION,
        with_words("static", what="first fix the shape of an input"),
        (
            "ask",
            Option(
                "load and run each model in the consumers of --target, before and after; if a consumer rejects it, try further "
                "steps for this consumer, such as another opset",
                action="store_true",
            ),
        ),
        "consumer-env",
        *RESULTS,
    ),
)
def fix(args: argparse.Namespace) -> int:
    """Repairs models. The input is modified only with --in-place. Without -o, --out or --in-place the result is NAME.fixed.onnx
    next to the input, and *.fixed.onnx files in folders are skipped as results. Hidden folders are not searched.
    """
    from rewriter.app.cli.batch import write_results

    return write_results("fix", args, jobs.FIXED)


@command(
    "check",
    "report which rules would fire, and where",
    PATHS,
    epilog="examples:\n  rewriter check net.onnx --source net-symbol.json\n"
    "  rewriter check exported/ --format github --report findings.sarif",
    options=(
        *SELECTION,
        with_words(
            "runtime",
            what="also loads the models, to print why it rejects them and which rules repair them. auto: if it is installed; "
            "of several models, those up to 256 MiB",
        ),
        "expect",
        "ask",
        "consumer-env",
    ),
)
def check(args: argparse.Namespace) -> int:
    """Reports which rules would fire and where. If an unknown fact keeps a rule from firing, names the fact and how to make it
    known. Nothing is written. The exit code is 1 if a rule would fire, or if ONNX Runtime rejects a model. It is also 1 if a
    small model fails on all generated inputs, unless the inputs can be the cause.
    """
    from rewriter.app.cli.batch import run_batch

    if args.expect is not None:
        fixed = args.expect.replace("{dir}", "").replace("{name}", "")
        if "{" in fixed:
            raise RewriterError(f"--expect {args.expect}: unknown placeholder; use {{dir}} or {{name}}")
        if fixed == args.expect and not os.path.isfile(args.expect):
            raise RewriterError(f"--expect {args.expect}: no such file")
    found = jobs.unwritten(jobs.find_models(args.paths))
    args.ask_runtime = runtime_choice(args.runtime)
    args.moderate = len(found) > 1
    return run_batch("check", found, args)


# Plans: the rewrites that `fix` would do, in a file that you edit and `apply` carries out.


@command(
    "plan",
    "write the rewrites of `fix` to a file that you can edit and apply",
    MODEL,
    epilog="examples:\n  rewriter plan net.onnx -o plan.toml\n  rewriter apply plan.toml -o net.fixed.onnx\n"
    "  rewriter plan net.onnx --interactive -o plan.toml",
    options=(
        *RULES_AT_WORK,
        like("output", help="the plan (default, and `-`: standard output)"),
        like("force", help="overwrite an existing plan"),
        "interactive",
        "tidy",
        Limits("the plan", 600),
    ),
)
def plan(args: argparse.Namespace) -> int:
    """Writes each rewrite that `fix` would do as a table of a TOML file, next to the change that it makes. Set `apply = false`
    to reject one. `rewriter apply` carries out the rest. The model is not changed.
    """
    from rewriter.app.batch.planned_work import plan_of
    from rewriter.app.cli.batch import one_run
    from rewriter.app.report.document import rolled_place
    from rewriter.core.onnxfile.files import check_target, write_file
    from rewriter.trust.plan_file import written

    output = None if args.output in (None, "-") else Path(args.output)
    if output is not None:
        check_target(output, args.force)
    file = jobs.opened(args.model, args.source)
    work, outcome, _ = one_run("fix", file, args, lambda work: replace(work, notes=replace(work.notes, detail=True)))
    assert outcome.log is not None
    document = plan_of(outcome, work, file, args.model, args.rules)
    if args.interactive:
        from rewriter.core.isolation.budget import undisturbed

        with undisturbed():  # the time in which the user decides does not count
            decided = _decided(document.proposals, outcome.log.firings)
        document = replace(document, proposals=decided)
    text = written(document, outcome.log.firings, Path.cwd() if output is None else output.parent)
    if output is None:
        print(text, end="")
    else:
        write_file(output, text.encode(), args.force)
    for rolled in outcome.log.rolled_back:
        print_message(f"rolled back {rolled.rule} {rolled_place(rolled)}: {clean(rolled.reason)}")
    rewrites = counted(len(outcome.log.firings), "rewrite")
    accepted = sum(proposal.apply for proposal in document.proposals)
    where = "" if output is None else f" in {clean(str(output))}"
    print_message((f"{accepted:,} of {rewrites} accepted" if args.interactive else f"{rewrites} proposed") + where)
    if output is not None and outcome.log.firings:
        result = quote(clean(f"{file.file.name.removesuffix('.onnx')}.fixed.onnx")) + (" < MODEL" if args.model == "-" else "")
        print_message(f"next: rewriter apply {quote(clean(str(output)))} -o {result}")
    return 1 if outcome.unfinished else 0


def _decided(proposals: Sequence[Proposal], firings: Sequence[Firing]) -> tuple[Proposal, ...]:
    """The proposals as the user decides them. The questions go to stderr, because stdout may be the plan."""
    from rewriter.trust.plan_file import decide

    def ask(question: str) -> str:
        print(question, end="", file=sys.stderr, flush=True)
        return input()

    return decide(proposals, {firing.number: firing for firing in firings}, print_message, ask)


@command(
    "apply",
    "carry out a plan",
    ("plan", Option("file written by `rewriter plan`", "PLAN")),
    epilog="example: rewriter apply plan.toml -o net.fixed.onnx",
    options=(
        like("output", help="the result (default: NAME.fixed.onnx next to the model)"),
        like("force", help="overwrite an existing file"),
        "fetch",
        like("verify", action="store_true", help="also run the model before and after, as `fix --verify` does"),
        like("stamp", help="leave a record in the result (default: yes)"),
        "format",
        Limits("the command", 600),
    ),
)
def apply(args: argparse.Namespace) -> int:
    """Does the rewrites that a plan accepts, and no other. Nothing is written if the model, a rule or the source file has
    changed since the plan was made. The exit code is 1 if an accepted rewrite did not happen although all rewrites before it in
    its chain did. It is also 1 if a rewrite that is not in the plan was ready to happen; that rewrite is not done.
    """
    from rewriter.app.batch.job import process
    from rewriter.app.batch.outcome_records import exit_code, model_record
    from rewriter.app.batch.planned_work import work_of
    from rewriter.app.batch.work import Checking, Writing, is_remote, is_url, with_names
    from rewriter.app.cli.settings import load
    from rewriter.app.report.printout import Printout, plain
    from rewriter.app.report.terminal import applied_lines
    from rewriter.trust.plan_file import UNPLANNED, missing, read

    found = read(Path(args.plan))
    if is_remote(found.model) and args.output is None:
        raise RewriterError(f"the plan is of {found.model}, no file of this machine; name the result with -o")
    for url in (found.model, found.source[0] if found.source is not None else ""):
        if is_url(url) and not args.fetch:
            raise RewriterError(f"{args.plan} names {url}, which was not downloaded; if you trust this address, add --fetch")
    model = jobs.opened(found.model)
    source = None if found.source is None else jobs.opened(found.source[0])
    (job,) = jobs.plan([jobs.Found(str(model.file), model.file.name)], output=args.output, out=None, in_place=False)
    work = work_of(found, args.plan, load(found.rule_paths), model, source)
    writing = Writing(force=args.force, stamp=args.stamp is not False)
    outcome = process(job, replace(work, checking=Checking(verify=args.verify), writing=writing))
    outcome.path = model.name
    absent = [] if outcome.log is None else missing(found.proposals, outcome.log)
    unplanned = [] if outcome.log is None else [one for one in outcome.log.suppressed if one.reason == UNPLANNED]
    code = exit_code("fix", outcome) or int(bool(unplanned) or any(not one.because for one in absent))
    lost = [{"rewrite": one.proposal.number, "because": one.because} for one in absent]
    done, accepted = (outcome.path, str(outcome.output), outcome.log), sum(proposal.apply for proposal in found.proposals)
    shown = Printout(
        lambda: {"exit_code": code, **plain(model_record("fix", outcome)), "missing": lost},
        lambda style: () if outcome.error else applied_lines(*done, accepted, absent, style),
    )
    answer(args, shown)
    if outcome.error:
        print_message(f"rewriter: error: {clean(with_names(outcome.error))}")
    return code


@command(
    "why",
    "explain why a rule fires at a place, or does not",
    ("rule", Option("code of the rule; it need not be one that runs by default", "RULE", shell_words="one_code")),
    MODEL,
    (
        "node",
        Option(
            "only matches that this node could be part of: its name or that of an output, or a pattern such as 'block1/*'",
            "NODE",
            nargs="?",
            shell_words="nodes",
        ),
    ),
    epilog="example: rewriter why MX001 net.onnx fc1",
    options=(*RULES_AT_WORK, "limit", "format", Limits("the command", 600)),
)
def why(args: argparse.Namespace) -> int:
    """For each place where the operator of the rule's last node occurs, prints that the rule fires, or the condition that
    stopped it and the value found in the model. If the value is unknown, prints how to make it known. The nearest misses come
    first. Places are examined before any rule has fired. A run of all selected rules then shows if this rule fires only after
    others, or too late. Nothing is written.
    """
    from rewriter.app.chosen_rules import find_rule
    from rewriter.app.cli.settings import choose, codes, load_set, target_names, wanted_files
    from rewriter.app.findings import explained
    from rewriter.app.report.rule_lines import when_asked
    from rewriter.app.report.why_lines import explanation
    from rewriter.core.language.rules import EVERY_TARGET

    known = load_set(args)
    rule = find_rule(args.rule, list(known))
    select = [*(codes(args.select) or ["DEFAULT"]), rule.code]
    rules = choose(args, known, select, codes(args.ignore), target_names(args))
    file = jobs.opened(args.model, args.source)
    found, exporter, notes = explained(file.file, rule.code, rules, args.node, args.source, args.constant_inputs)
    named = not rule.guess and rule.path in wanted_files(args, [rule])
    if not (
        named or rule.default or (rule.header.on_target and not {EVERY_TARGET, *rule.targets}.isdisjoint(target_names(args)))
    ):
        notes.append(f"{rule.code} runs only {when_asked(rule)}")
    for one in args.configuration.suppress:
        if rule.code.startswith(one.rule) and (not one.path or args.configuration.fits(one.path, args.model)):
            notes.append(f"{one.origin} suppresses {one.rule}" + (f" at {one.node}" if one.node else "") + f": {one.reason}")
    return answer(args, explanation(found, file.name, exporter, notes, args.limit))
