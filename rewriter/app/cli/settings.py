"""The settings of a call, from the command line and from the configuration, for all models or for some paths. The rules of the
call follow from `--rules`, `--target`, `--select`, `--ignore` and `--set`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewriter.app.batch.work import Job, Work
from rewriter.app.cli.output import answer, print_message, tracked, wants_color
from rewriter.app.configuration import SETTINGS, Configuration, Suppression, Value, files_at, named, nearest, rule_paths
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import SourceText, render_all
from rewriter.core.language.rule_files import find_rule_files
from rewriter.core.language.rules import Rule, RuleSet, targets_meant
from rewriter.core.record import replace
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.load_rules import read_rules as rules_as_written

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
    known = load_set(args)
    select, targets = codes(args.select), target_names(args)
    rules = choose(args, known, select, codes(args.ignore), targets)
    for code, name in known.settings if args.origins["set"].endswith("--set") else ():
        if rules.get(code) is None:
            print_message(f"rewriter: warning: {code}.{name} is set, but {code} is not selected")
    meant = targets_meant(targets, known)
    lossy = [rule.code for rule in known if not meant.isdisjoint(rule.targets) and rules.get(rule.code) is None]
    if lossy and not select:
        named = "all targets" if targets == ["all"] else ", ".join(targets)
        print_message(f"rewriter: note: rules for {named} that run only if you select them: {', '.join(map(clean, lossy))}")
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
    """The rules of some codes and targets, with the guesses and the rule files of the call.

    Raises:
        RewriterError: a code or target does not exist.
    """
    with _set_in(args, "target"):
        targets_meant(targets, known)
    with _set_in(args, "ignore"):
        known.require(ignore)
    with _set_in(args, "select"):
        return known.select(select, ignore, targets, guess=args.guess, files=wanted_files(args, known))


@contextmanager
def _set_in(args: argparse.Namespace, name: str) -> Iterator[None]:
    """An error of a setting names the line of the configuration that has it."""
    try:
        yield
    except RewriterError as error:
        origin = args.origins[name]
        raise error if origin.startswith(("--", "default")) else RewriterError(f"{origin}: {error}") from None


def wanted_files(args: argparse.Namespace, known: Iterable[Rule]) -> frozenset[str]:
    """The files of `known` rules that are named on the command line. Their rules run, unless `--select` selects others."""
    return files_at([] if args.origins["select"] == "--select" else args.named_files, (rule.path for rule in known))


def load_set(args: argparse.Namespace, *, quiet: bool = False) -> RuleSet:
    """The rules of `--rules` with the parameters of `--set`. Errors as for `load`, and for a parameter that does not exist."""
    known = load(args.rules, quiet=quiet)
    with _set_in(args, "set"):
        return known.with_settings(args.set)


def load(paths: Sequence[str] | None, *, quiet: bool = False) -> RuleSet:
    """The rules of `--rules`, or the shipped ones. Warnings of the compiler are printed, unless `quiet`.

    Raises:
        RewriterError: rule files are wrong, or a path has no rule.
    """
    rules = load_rules(rule_paths(paths), _with_bar)
    if rules.warnings and paths and not quiet:
        print_message(render_all(rules.warnings, rules.sources, wants_color(sys.stderr)))
    for path in paths or ():
        if path != "shipped" and not files_at(find_rule_files(rule_paths([path])), (rule.path for rule in rules)):
            raise RewriterError(f"{path}: there is no rule in it")
    return rules


def _with_bar(files: Sequence[SourceText]) -> Iterable[SourceText]:
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


# Parts of a configuration about some models only: settings by path, and nodes that rules leave alone.


def vary(
    work: Work, jobs: Sequence[Job], args: argparse.Namespace, rules_of: Callable[[argparse.Namespace, RuleSet], RuleSet]
) -> tuple[Work, list[Job]]:
    """The work with a variant for each set of tables that applies to a model, and the jobs with the numbers of their variants.

    Later tables have priority over earlier ones, and the command line has priority over all tables. `rules_of` changes the
    rules that options choose by the recipes of their targets.

    Raises:
        RewriterError: a table names a code or a parameter that does not exist, or a source file that cannot be read.
    """
    found: Configuration = args.configuration
    if not (found.per_path or found.suppress):
        return work, list(jobs)
    numbers: dict[tuple[tuple[bool, ...], tuple[Suppression, ...]], int] = {}
    result = []
    for job in jobs:
        tables = tuple(found.fits(table.path, job.path) for table in found.per_path)
        suppress = tuple(one for one in found.suppress if not one.path or found.fits(one.path, job.path))
        result.append(replace(job, variant=numbers.setdefault((tables, suppress), len(numbers))))
    variants = []
    for tables, suppress in numbers:
        variant = _variant(work, _with_tables(args, found, tables), rules_of) if any(tables) else work
        variants.append(replace(variant, rewriting=replace(variant.rewriting, suppress=suppress)))
    return replace(work, variants=tuple(variants)), result


def _with_tables(args: argparse.Namespace, configuration: Configuration, tables: tuple[bool, ...]) -> argparse.Namespace:
    """The options with the settings of the tables that apply."""
    found = argparse.Namespace(**{**vars(args), "origins": dict(args.origins)})
    written = configuration.values.get("set")
    typed = args.set[0 if written is None else len(written.value) :] if args.origins["set"].endswith("--set") else []
    for table, applies in zip(configuration.per_path, tables, strict=True):
        for name, setting in table.settings.items() if applies else ():
            if name == "set":
                found.set, found.origins[name] = [*found.set, *setting.value, *typed], setting.origin
            elif not args.origins[name].startswith("--"):
                setattr(found, name.replace("-", "_"), setting.value)
                found.origins[name] = setting.origin
    return found


def _variant(work: Work, args: argparse.Namespace, rules_of: Callable[[argparse.Namespace, RuleSet], RuleSet]) -> Work:
    known = load_set(args, quiet=True)
    rules = rules_of(args, choose(args, known, codes(args.select), codes(args.ignore), target_names(args)))
    if args.source != work.reading.source and args.source not in ("auto", "none"):
        from rewriter.trust.source.find import load_source

        with _set_in(args, "source"):
            load_source(args.source)
    reading = replace(work.reading, source=args.source, constant_inputs=args.constant_inputs)
    return replace(work, rewriting=replace(work.rewriting, rules=rules), reading=reading)


def unused(args: argparse.Namespace, used: Container[str], jobs: Sequence[Job]) -> list[Suppression]:
    """Suppressions that suppressed nothing in any of their models; `used` has the origins of the other suppressions."""
    found: Configuration = args.configuration
    return [
        one
        for one in found.suppress
        if one.origin not in used and (not one.path or any(found.fits(one.path, job.path) for job in jobs))
    ]


def settle(args: argparse.Namespace) -> bool:
    """Gives every setting of a command its value. Returns whether the call only shows the settings.

    Raises:
        RewriterError: the configuration is wrong.
    """
    found = Configuration() if args.no_config else nearest() if args.config is None else named(Path(args.config))
    args.configuration = found
    args.origins = {}
    for name, setting in SETTINGS.items():
        dest = name.replace("-", "_")
        if dest not in args:
            continue
        typed, written = getattr(args, dest), found.values.get(name)
        if typed is not None:
            value, origin = typed, f"--no-{name}" if typed is False else f"--{name}"
            if name == "set" and written is not None:
                value, origin = [*written.value, *typed], f"{written.origin}, --set"
        elif written is not None:
            value, origin = written.value, written.origin
        else:
            value, origin = setting.default, "default"
        setattr(args, dest, value)
        args.origins[name] = origin
    if args.show_settings:
        _show(args)
    return bool(args.show_settings)


def _show(args: argparse.Namespace) -> None:
    from rewriter.app.report.printout import Printout

    found: Configuration = args.configuration
    path = None if found.path is None else str(found.path)
    settings = {name: Value(getattr(args, name.replace("-", "_")), origin) for name, origin in args.origins.items()}
    tables = {"settings": settings, "per-path": found.per_path, "suppress": found.suppress}
    rows = [(f"{name} = {_shown(value.value, name)}", value.origin) for name, value in settings.items()]
    for table in found.per_path:
        rows.append((f"for {', '.join(table.path)}:", table.origin))
        rows += [(f"    {name} = {_shown(value.value)}", value.origin) for name, value in table.settings.items()]
    for one in found.suppress:
        where = f" at {one.node}" if one.node else ""
        models = f" in {', '.join(one.path)}" if one.path else ""
        rows.append((f"suppress {one.rule}{where}{models}: {one.reason}", one.origin))
    width = min(max(len(clean(left)) for left, _ in rows), 60)
    lines = [f"configuration: {clean(path or 'none')}", *(f"{clean(one).ljust(width)}  {clean(other)}" for one, other in rows)]
    answer(args, Printout(lambda: {"configuration": path, **tables}, lambda style: lines, hang=width + 2))


def _shown(value: Any, name: str = "") -> str:
    """A value as it is written in a configuration."""
    if value is None:
        return '["shipped"]' if name == "rules" else "none"
    return json.dumps(value, ensure_ascii=False)
