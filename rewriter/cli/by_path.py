"""What a configuration says of some models only: settings by path, and nodes that rules are to leave alone."""

from __future__ import annotations

import argparse
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from rewriter.batch.work import Job, Work
from rewriter.cli.selection import codes, load, target_names
from rewriter.errors import RewriterError
from rewriter.record import replace

if TYPE_CHECKING:
    from rewriter.config.configuration import Configuration, Suppression


def vary(work: Work, jobs: Sequence[Job], args: argparse.Namespace) -> tuple[Work, list[Job]]:
    """The work with a variant for each set of tables that some model falls under, and the jobs with the numbers of theirs.

    Later tables go before earlier ones, and what was typed goes before all of them.

    Raises:
        RewriterError: a table names a code or a parameter that does not exist, or a source that cannot be read.
    """
    found: Configuration | None = args.configuration
    if found is None or not (found.per_path or found.suppress):
        return work, list(jobs)
    numbers: dict[tuple[tuple[bool, ...], tuple[Suppression, ...]], int] = {}
    result = []
    for job in jobs:
        tables = tuple(found.fits(table.patterns, job.path) for table in found.per_path)
        suppress = tuple(one for one in found.suppress if not one.patterns or found.fits(one.patterns, job.path))
        result.append(replace(job, variant=numbers.setdefault((tables, suppress), len(numbers))))
    variants = [replace(_variant(work, args, found, tables), suppress=suppress) for tables, suppress in numbers]
    return replace(work, variants=tuple(variants)), result


def _variant(work: Work, args: argparse.Namespace, found: Configuration, tables: tuple[bool, ...]) -> Work:
    values = {
        name: (getattr(args, name.replace("-", "_")), "") for name in ("select", "ignore", "set", "source", "constant-inputs")
    }
    for table, holds in zip(found.per_path, tables, strict=True):
        for name, value in table.values.items() if holds else ():
            if name == "set":
                values[name] = [*values[name][0], *value.value], value.origin
            elif not args.origins[name].startswith("--"):
                values[name] = value.value, value.origin
    if not any(origin for _, origin in values.values()):
        return work
    origins = ", ".join(dict.fromkeys(origin for _, origin in values.values() if origin))
    try:
        typed = [line for line in args.set if args.origins["set"].endswith("--set")]
        known = load(args.rules, quiet=True).with_settings([*values["set"][0], *typed])
        rules = known.select(codes(values["select"][0]), codes(values["ignore"][0]), target_names(args), guess=args.guess)
        source = values["source"][0]
        if source not in ("auto", "none") and source != args.source:
            from rewriter.source.find import load_source

            load_source(source)
    except RewriterError as error:
        raise RewriterError(f"{origins}: {error}") from None
    return replace(work, rules=rules, source=source, constant_inputs=values["constant-inputs"][0])


def unused(args: argparse.Namespace, used: Container[str], jobs: Sequence[Job]) -> list[Suppression]:
    """Suppressions that kept nothing from happening in any of the models that they are for; `used` has the others' origins."""
    found: Configuration | None = args.configuration
    if found is None:
        return []
    return [
        one
        for one in found.suppress
        if one.origin not in used and (not one.patterns or any(found.fits(one.patterns, job.path) for job in jobs))
    ]
