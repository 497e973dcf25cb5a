"""`rewriter rules`: lists rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_configuration, add_format, add_limits, add_rule_paths, add_target

if TYPE_CHECKING:
    from rewriter.core.language.rule import Rule


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "rules",
        help="list the rules",
        description="Lists rules: code, kind, evidence, exporter, when it runs (by default, with --guess, for a target, when "
        "selected) and title. With --symptom, "
        "the rules that answer the message of a tool, best first; the exit code is 1 when none surely does and the nearest are "
        "listed.",
        epilog='example: rewriter rules --symptom "First input does not have rank 2"',
    )
    parser.add_argument(
        "--symptom", metavar="TEXT", help="rules that answer this message; names and numbers in it do not count"
    )
    parser.add_argument("--exporter", metavar="NAME", help="rules for models of this exporter; `any`: those for models of all")
    add_target(parser, "rules for these, also those that run only when selected")
    parser.set_defaults(target=[])  # here it says what is listed, which is nothing for a configuration to decide
    parser.add_argument("--packs", action="store_true", help="list the installed rule packs instead, for --rules pack:NAME")
    add_rule_paths(parser)
    add_configuration(parser)
    add_limits(parser, "the command", whole=600)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Lists rules; returns 1 when no rule answers the symptom, otherwise 0."""
    from rewriter.app.cli.output import say
    from rewriter.app.cli.rule_page import rule_object
    from rewriter.app.cli.selection import read_rules, target_names
    from rewriter.app.report.jsonreport import dumps
    from rewriter.rule_tools.symptoms import find_answers

    if args.packs:
        return _print_packs(args)
    rules = for_targets(of_exporter(read_rules(args.rules), args.exporter), target_names(args))
    answers = [] if args.symptom is None else find_answers(rules, args.symptom)
    sure = args.symptom is None or any(answer.sure for answer in answers)
    if args.format == "json":
        found = [{**rule_object(a.rule), "answers": a.symptom, "score": a.score, "sure": a.sure} for a in answers]
        listed = found if args.symptom is not None else [rule_object(rule) for rule in rules]
        print(dumps({"schema": 1, "command": "rules", "rules": listed}))
        return 0 if sure else 1
    if not sure:
        say("no rule answers this text" + ("; the nearest:" if answers else ""))
    if args.symptom is None or answers:
        _print_table(rules if args.symptom is None else [answer.rule for answer in answers])
    return 0 if sure else 1


def _print_packs(args: argparse.Namespace) -> int:
    """The packs, one a line; no code of the packages that bring them is run."""
    from rewriter.app.cli.output import say, tell
    from rewriter.app.report.jsonreport import dumps
    from rewriter.core.language.rule_files import find_rule_files
    from rewriter.rule_tools.packs import packs
    from rewriter.workbench.style import clean, counted

    found = [(pack, len(find_rule_files([pack.folder]))) for pack in packs()]
    if args.format == "json":
        listed = [{"name": p.name, "from": p.distribution, "folder": str(p.folder), "files": files} for p, files in found]
        print(dumps({"schema": 1, "command": "rules", "packs": listed}))
        return 0
    for pack, files in found:
        tell(clean(f"pack:{pack.name}  {counted(files, 'rule file')}, {pack.distribution}, {pack.folder}"))
    if not found:
        say("no installed package brings rules")
    return 0


def of_exporter(rules: Sequence[Rule], name: str | None) -> Sequence[Rule]:
    """The rules for one exporter; None: all of them.

    Raises:
        RewriterError: no rule is for it.
    """
    from rewriter.core.errors import RewriterError
    from rewriter.core.language.diagnostics import suggest

    if name is None:
        return rules
    wanted = name.lower()
    found = [rule for rule in rules if (wanted in rule.exporters if wanted != "any" else not rule.exporters)]
    if not found:
        known = sorted({exporter for rule in rules for exporter in rule.exporters})
        near = suggest(wanted, known)
        hint = f"did you mean {near}?" if near else f"there are rules for {', '.join(known) or 'any'}"
        raise RewriterError(f"no rule is for exporter {name!r}; {hint}")
    return found


def for_targets(rules: Sequence[Rule], targets: Sequence[str]) -> Sequence[Rule]:
    """The rules for one of the targets, also those that run only when selected; no target: all rules.

    Raises:
        RewriterError: no rule is for a target.
    """
    from rewriter.core.language.targets import targets_meant

    meant = targets_meant(targets, rules)
    return [rule for rule in rules if not meant or not meant.isdisjoint(rule.targets)]


def _print_table(rules: Sequence[Rule]) -> None:
    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.rule_page import runs
    from rewriter.workbench.style import clean

    style = style_of(sys.stdout)
    heading = ("code", "kind", "evidence", "exporter", "runs", "title")
    rows = [
        (rule.code, rule.kind.name, _evidence(rule), ",".join(rule.exporters) or "any", runs(rule), rule.title)
        for rule in rules
    ]
    widths = [max(len(clean(row[i])) for row in (heading, *rows)) for i in range(len(heading) - 1)]
    for number, row in enumerate((heading, *rows)):
        cells = [clean(cell).ljust(width) for cell, width in zip(row, widths, strict=False)]
        cells[0] = style.paint("bold" if number == 0 else "cyan", cells[0])
        tell("  ".join([*cells, clean(row[-1])]), hang=sum(widths) + 2 * len(widths))


def _evidence(rule: Rule) -> str:
    from rewriter.app.cli.rule_page import evidence_text

    return "-" if rule.evidence is None else evidence_text(rule.evidence)
