"""`rewriter why`: why a rule fires at a place, or does not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_configuration, add_format, add_limits, add_what_is_known, add_which_rules, count

if TYPE_CHECKING:
    from rewriter.core.language.rule import Rule
    from rewriter.core.language.rules import RuleSet

PLACES = 10  # shown in full


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "why",
        help="explain why a rule fires at a place, or does not",
        description="For each place where the operator of the rule's last node occurs: that the rule fires, or the deepest "
        "question that it reached there, what the model answered, and, where the answer is unknown, what would make it "
        "known. The nearest misses come first. Places are looked at before any rule has fired; a run of all "
        "selected rules then shows where this one fires only after others, or comes too late. Nothing is written.",
        epilog="example: rewriter why MX001 net.onnx fc1",
    )
    parser.add_argument("rule", metavar="RULE", help="code of the rule; it need not be one that runs by default")
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument(
        "node",
        metavar="NODE",
        nargs="?",
        help="only matches that this node could be part of: its name or that of an output, or a pattern such as 'block1/*'",
    )
    add_which_rules(parser)
    add_what_is_known(parser)
    add_configuration(parser)
    parser.add_argument(
        "--limit", metavar="N", type=count, default=PLACES, help=f"places shown in full (default: {PLACES}); JSON has all"
    )
    add_format(parser)
    add_limits(parser, "the command", whole=600)


def run(args: argparse.Namespace) -> int:
    """Explains one rule on one model; returns 0."""
    import sys

    from rewriter.app.batch.sources import source_of
    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.rule_page import when_asked
    from rewriter.app.cli.selection import target_names
    from rewriter.app.cli.surgery import opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.why_lines import why_lines, why_object
    from rewriter.core.conditions.context import Context, Knowledge
    from rewriter.core.engine.run import run as run_rules
    from rewriter.core.graph.index import GraphIndex
    from rewriter.core.language.targets import EVERY_TARGET
    from rewriter.rule_tools.explain.why_rules import explain
    from rewriter.trust.proof.kernels import has_kernel

    rule, rules = _rules(args)
    given = opened(args.model, args.source)
    model = given.read()
    model.constant_inputs = args.constant_inputs
    source, notes = source_of(model, str(given.file), args.source)
    known = Knowledge(source, rules.settings, model.overridable, has_kernel=has_kernel)
    context = Context(GraphIndex(model.graph), known)
    found = explain(
        context,
        rule,
        args.node,
        lambda: run_rules(
            model.graph,
            rules,
            known,
            keep=False,
            detail=False,
        ),
    )
    if not (rule.default or (rule.header.on_target and not {EVERY_TARGET, *rule.targets}.isdisjoint(target_names(args)))):
        notes.append(f"{rule.code} runs only {when_asked(rule)}")
    configuration = args.configuration
    for one in () if configuration is None else configuration.suppress:
        if rule.code.startswith(one.rule) and (not one.patterns or configuration.fits(one.patterns, args.model)):
            notes.append(f"{one.origin} suppresses {one.rule}" + (f" at {one.node}" if one.node else "") + f": {one.reason}")
    if args.format == "json":
        print(dumps(why_object(found, given.name, str(context.exporter), notes)))
    else:
        for line in why_lines(found, notes, args.limit, style_of(sys.stdout)):
            tell(line)
    return 0


def _rules(args: argparse.Namespace) -> tuple[Rule, RuleSet]:
    """The rule, and all selected ones with it among them."""
    from rewriter.app.cli.selection import codes, find_rule, load, target_names

    known = load(args.rules).with_settings(args.set)
    rule = find_rule(args.rule, list(known))
    return rule, known.select(
        [*(codes(args.select) or ["DEFAULT"]), rule.code], codes(args.ignore), target_names(args), guess=args.guess
    )
