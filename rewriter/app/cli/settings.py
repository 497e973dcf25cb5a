"""The settings of a call, from the command line and from the configuration, for all models or for some paths."""

from __future__ import annotations

import argparse
import json
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from rewriter.app.batch.work import Job, Work
from rewriter.app.cli.output import answer_json, print_line
from rewriter.app.cli.selection import choose, codes, load, target_names
from rewriter.app.configuration import SETTINGS, Configuration, Suppression, Value, named, nearest
from rewriter.core.errors import RewriterError
from rewriter.core.record import as_dict, replace
from rewriter.workbench.style import clean

# Parts of a configuration about some models only: settings by path, and nodes that rules leave alone.


def vary(work: Work, jobs: Sequence[Job], args: argparse.Namespace) -> tuple[Work, list[Job]]:
    """The work with a variant for each set of tables that applies to a model, and the jobs with the numbers of their variants.

    Later tables have priority over earlier ones, and the command line has priority over all tables.

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
        variant = _variant(work, args, found, tables)
        variants.append(replace(variant, rewriting=replace(variant.rewriting, suppress=suppress)))
    return replace(work, variants=tuple(variants)), result


def _variant(work: Work, args: argparse.Namespace, configuration: Configuration, tables: tuple[bool, ...]) -> Work:
    values = {
        name: (getattr(args, name.replace("-", "_")), "") for name in ("select", "ignore", "set", "source", "constant-inputs")
    }
    for table, holds in zip(configuration.per_path, tables, strict=True):
        for name, value in table.settings.items() if holds else ():
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
        rules = choose(args, known, codes(values["select"][0]), codes(values["ignore"][0]), target_names(args))
        source = values["source"][0]
        if source not in ("auto", "none") and source != args.source:
            from rewriter.trust.source.find import load_source

            load_source(source)
    except RewriterError as error:
        raise RewriterError(f"{origins}: {error}") from None
    reading = replace(work.reading, source=source, constant_inputs=values["constant-inputs"][0])
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
    found: Configuration = args.configuration
    path = None if found.path is None else str(found.path)
    settings = {name: Value(getattr(args, name.replace("-", "_")), origin) for name, origin in args.origins.items()}
    if getattr(args, "format", "text") == "json":
        tables = {"settings": settings, "per-path": found.per_path, "suppress": found.suppress}
        answer_json(args, {"configuration": path, **as_dict(tables)})
        return
    print_line(f"configuration: {clean(path or 'none')}")
    rows = [(f"{name} = {_shown(value.value, name)}", value.origin) for name, value in settings.items()]
    for table in found.per_path:
        rows.append((f"for {', '.join(table.path)}:", table.origin))
        rows += [(f"    {name} = {_shown(value.value)}", value.origin) for name, value in table.settings.items()]
    for one in found.suppress:
        where = f" at {one.node}" if one.node else ""
        models = f" in {', '.join(one.path)}" if one.path else ""
        rows.append((f"suppress {one.rule}{where}{models}: {one.reason}", one.origin))
    width = min(max(len(clean(left)) for left, _ in rows), 60)
    for left, right in rows:
        print_line(f"{clean(left).ljust(width)}  {clean(right)}", hang=width + 2)


def _shown(value: Any, name: str = "") -> str:
    """A value as it is written in a configuration."""
    return json.dumps(value, ensure_ascii=False) if value is not None else '["shipped"]' if name == "rules" else "none"
