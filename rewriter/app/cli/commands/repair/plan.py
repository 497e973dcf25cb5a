"""`rewriter plan`: writes down what would be done to a model, for somebody to edit and `rewriter apply` to carry out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import Switch, add_configuration, add_limits, add_what_is_known, add_which_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewriter.app.batch.work import Outcome, Work
    from rewriter.core.log.records import Firing
    from rewriter.trust.plans.plan_file import Document, Proposal
    from rewriter.workbench.surgery.opened import Opened


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "plan",
        help="write down what would be done, to be edited and applied",
        description="Writes each rewrite that `fix` would do as a table of a TOML file, with what it changes beside it. "
        "Setting `apply = false` rejects one; `rewriter apply` carries out the rest. The model is not changed.",
        epilog="examples:\n  rewriter plan net.onnx -o plan.toml\n  rewriter apply plan.toml -o net.fixed.onnx\n"
        "  rewriter plan net.onnx --interactive -o plan.toml",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    add_which_rules(parser)
    add_what_is_known(parser)
    add_configuration(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the plan (default, and `-`: standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing plan")
    parser.add_argument("--interactive", action="store_true", help="show each rewrite and ask whether to apply it")
    parser.add_argument("--tidy", action=Switch, help="also remove nodes, initializers and imports that nothing uses")
    add_limits(parser, "the plan", whole=600)


def run(args: argparse.Namespace) -> int:
    """Writes a plan; returns 1 when something would be left unfinished."""
    from pathlib import Path

    from rewriter.app.batch.job import process
    from rewriter.app.batch.work import Job
    from rewriter.app.cli.batch import make_work
    from rewriter.app.cli.configured import vary
    from rewriter.app.cli.output import say
    from rewriter.app.cli.surgery import opened
    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.write import check_target, write_bytes
    from rewriter.core.record import replace
    from rewriter.trust.plans.plan_file import written
    from rewriter.workbench.style import clean, counted

    output = None if args.output in (None, "-") else Path(args.output)
    if output is not None:
        check_target(output, args.force)
    given = opened(args.model, args.source)
    work, (job,) = vary(replace(make_work("fix", args), detail=True), [Job(str(given.file))], args)
    outcome = process(job, work)
    if outcome.error or outcome.log is None:
        raise RewriterError(outcome.error or f"{given.name}: nothing is known of it")
    plan = _document(given, args, work.variants[job.variant] if work.variants else work, outcome)
    if args.interactive:
        from rewriter.app.batch.deadline import undisturbed

        with undisturbed():  # somebody thinks
            decided = _decided(plan.proposals, outcome.log.firings)
        plan = replace(plan, proposals=decided)
    told = written(plan, outcome.log.firings, Path.cwd() if output is None else output.parent)
    if output is None:
        print(told, end="")
    else:
        write_bytes(output, told.encode(), args.force)
    say(f"{counted(len(outcome.log.firings), 'rewrite')} proposed" + ("" if output is None else f" in {clean(str(output))}"))
    return 1 if outcome.unfinished else 0


def _decided(proposals: Sequence[Proposal], firings: Sequence[Firing]) -> tuple[Proposal, ...]:
    """As somebody answers, who is asked on stderr: stdout may be the plan."""
    import sys

    from rewriter.app.cli.output import say
    from rewriter.trust.plans.execution import decide

    def ask(question: str) -> str:
        print(question, end="", file=sys.stderr, flush=True)
        return input()

    return decide(proposals, {firing.number: firing for firing in firings}, say, ask)


def _document(given: Opened, args: argparse.Namespace, work: Work, outcome: Outcome) -> Document:
    from pathlib import Path

    from rewriter import __version__
    from rewriter.app.batch.remote import beside
    from rewriter.app.batch.urls import is_url
    from rewriter.trust.plans.plan_file import Document
    from rewriter.trust.provenance.stamp import SHORT, file_digest, fired_only

    assert outcome.log is not None
    used = fired_only(work.rules, frozenset(outcome.log.counts))
    source = outcome.source
    place = beside(args.model, Path(source).name) if source and is_url(args.model) and args.source == "auto" else source
    return Document(
        version=__version__,
        model=args.model,
        sha256=given.digest(),
        rule_paths=tuple(args.rules or ["shipped"]),
        rules={rule.code: rule.digest[:SHORT] for rule in used},
        proposals=tuple(_proposals(outcome)),
        asked=tuple(sorted(used.chosen_runtimes)),
        set={f"{code}.{name}": value for (code, name), value in sorted(used.settings.items())},
        source=None if source is None else (str(place), file_digest(Path(source))),
        constant_inputs=work.constant_inputs,
        tidy=work.tidy,
    )


def _proposals(outcome: Outcome) -> list[Proposal]:
    """What would fire, then what was kept from it."""
    from rewriter.trust.plans.plan_file import Proposal

    log = outcome.log
    assert log is not None
    found = [Proposal(f.number, True, f.rule, f.place, f.root, f.matched, f.parents) for f in log.firings]
    kept = [(one.rule, one.place, one.root, f"suppressed ({one.origin}): {one.reason}") for one in log.suppressed]
    kept += [(one.rule, one.place, one.root, f"rolled back: {one.reason}") for one in log.rolled_back if one.place]
    found += [Proposal(0, False, rule, place, root, None, (), why) for rule, place, root, why in kept if rule in log.counts]
    return found
