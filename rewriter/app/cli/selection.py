"""From `--rules`, `--target`, `--select`, `--ignore` and `--set` to the rules that run or are shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rewriter.app.cli.output import print_message, tracked, wants_color
from rewriter.app.configuration import files_at, rule_paths
from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import SourceText, render_all
from rewriter.core.language.rule_files import find_rule_files
from rewriter.core.language.rules import Rule, RuleSet, targets_meant
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.load_rules import read_rules as rules_as_written
from rewriter.workbench.style import clean

MANY = 100
"""Rule files whose compilation takes so long that one asks what happens: about half a second."""


def read_rules(paths: Sequence[str] | None) -> list[Rule]:
    """The rules of `--rules` as they are written, by code. Errors as for `load_rules.read_rules`."""
    return rules_as_written(rule_paths(paths))


def selected(args: argparse.Namespace) -> RuleSet:
    """The rules that a command runs.

    Raises:
        RewriterError: rule files are wrong, or a code, setting or path does not exist.
    """
    known = load(args.rules).with_settings(args.set)
    select, targets = codes(args.select), target_names(args)
    rules = choose(args, known, select, codes(args.ignore), targets)
    for code, name in known.settings if args.origins["set"].endswith("--set") else ():
        if rules.get(code) is None:
            print_message(f"rewriter: warning: {code}.{name} is set, but {code} is not selected")
    meant = targets_meant(targets, known)
    lossy = [rule.code for rule in known if not meant.isdisjoint(rule.targets) and rules.get(rule.code) is None]
    if lossy and not select:
        print_message(
            f"rewriter: note: rules for {', '.join(targets)} that run only if you select them: {', '.join(map(clean, lossy))}"
        )
    if args.rules and not select:
        shipped = set(find_rule_files(None))
        asked = [rule.code for rule in known if rules.get(rule.code) is None and rule.path not in shipped]
        guesses = {rule.code for rule in rules.questions}
        asked = [code for code in asked if code not in lossy and code not in guesses]
        if asked:
            print_message(f"rewriter: note: rules that run only if you select them: {', '.join(map(clean, asked))}")
    return rules


def choose(
    args: argparse.Namespace, known: RuleSet, select: Sequence[str], ignore: Sequence[str], targets: Sequence[str]
) -> RuleSet:
    """The rules of some codes and targets, with the guesses and the rule files of the call."""
    return known.select(select, ignore, targets, guess=args.guess, files=wanted_files(args, known))


def wanted_files(args: argparse.Namespace, known: Iterable[Rule]) -> frozenset[str]:
    """The files of `known` rules that are named on the command line. Their rules run, unless `--select` selects others."""
    return files_at([] if args.origins["select"] == "--select" else args.named_files, (rule.path for rule in known))


def load(paths: Sequence[str] | None, *, quiet: bool = False) -> RuleSet:
    """The rules of `--rules`, or the shipped ones. Warnings of the compiler are printed, unless `quiet`.

    Raises:
        RewriterError: rule files are wrong, or have no rule.
    """
    rules = load_rules(rule_paths(paths), _shown)
    if rules.warnings and paths and not quiet:
        print_message(render_all(rules.warnings, rules.sources, wants_color(sys.stderr)))
    if paths and not len(rules):
        raise RewriterError(f"{', '.join(paths)}: there is no rule in it")
    return rules


def _shown(files: Sequence[SourceText]) -> Iterable[SourceText]:
    """The files, with a bar if they are many: the first command after an installation compiles all shipped rules."""
    return files if len(files) < MANY else tracked(files, len(files), "rule files are compiled once", lambda _: False)


def target_names(args: argparse.Namespace) -> list[str]:
    """The targets of `--target`; capitals do not count."""
    return [name.lower() for name in _words(args.target)]


def codes(texts: Sequence[str]) -> list[str]:
    """The codes in comma-separated lists; capitals do not count."""
    return [code.upper() for code in _words(texts)]


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in (part.strip() for part in text.split(",")) if word]
