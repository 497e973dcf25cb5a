"""From what was typed and what a configuration says to the settings of a call; the command line goes before the file.

Options that a file may set have the default None, so that what was typed can be told from what was not. `settle` gives them
their values and notes in `args.origins` where each is from.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.config.find_configuration import candidates
from rewriter.config.keys import SETTINGS

if TYPE_CHECKING:
    from rewriter.config.configuration import Configuration

DEFAULT = "default"


def settle(args: argparse.Namespace) -> bool:
    """Gives every setting of a command its value; whether that was all that was asked for.

    Raises:
        RewriterError: the configuration is wrong.
    """
    found = None if args.no_config else _configuration(args.config)
    args.configuration = found
    args.origins = {}
    for name, setting in SETTINGS.items():
        dest = name.replace("-", "_")
        if dest not in args:
            continue
        typed, written = getattr(args, dest), None if found is None else found.values.get(name)
        if typed is not None:
            value, origin = typed, f"--no-{name}" if typed is False else f"--{name}"
            if name == "set" and written is not None:
                value, origin = [*written.value, *typed], f"{written.origin}, --set"
        elif written is not None:
            value, origin = written.value, written.origin
        else:
            value, origin = setting.default, DEFAULT
        setattr(args, dest, value)
        args.origins[name] = origin
    if args.show_settings:
        _show(args)
    return bool(args.show_settings)


def _configuration(given: str | None) -> Configuration | None:
    if given is None and next(candidates(), None) is None:
        return None  # as mostly, and then nothing that reads one is imported
    from rewriter.config.configuration import named, nearest

    return nearest() if given is None else named(Path(given))


def _show(args: argparse.Namespace) -> None:
    from rewriter.cli.output import tell
    from rewriter.report.jsonreport import dumps
    from rewriter.report.style import clean

    found: Configuration | None = args.configuration
    settings = {name: getattr(args, name.replace("-", "_")) for name in args.origins}
    if getattr(args, "format", "text") == "json":
        print(dumps(_object(found, settings, args)))
        return
    tell(f"configuration: {'none' if found is None else clean(str(found.path))}")
    rows = [(f"{name} = {_shown(value)}", args.origins[name]) for name, value in settings.items()]
    for table in () if found is None else found.per_path:
        rows.append((f"for {', '.join(table.patterns)}:", table.origin))
        rows += [(f"    {name} = {_shown(value.value)}", value.origin) for name, value in table.values.items()]
    for one in () if found is None else found.suppress:
        where = f" at {one.node}" if one.node else ""
        models = f" in {', '.join(one.patterns)}" if one.patterns else ""
        rows.append((f"suppress {one.rule}{where}{models}: {one.reason}", one.origin))
    width = min(max(len(clean(left)) for left, _ in rows), 60)
    for left, right in rows:
        tell(f"{clean(left).ljust(width)}  {clean(right)}", hang=width + 2)


def _object(found: Configuration | None, settings: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": args.command,
        "configuration": None if found is None else str(found.path),
        "settings": {name: {"value": value, "origin": args.origins[name]} for name, value in settings.items()},
        "per-path": [
            {
                "path": table.patterns,
                "origin": table.origin,
                "settings": {name: {"value": value.value, "origin": value.origin} for name, value in table.values.items()},
            }
            for table in (() if found is None else found.per_path)
        ],
        "suppress": [
            {"rule": one.rule, "node": one.node, "path": one.patterns, "reason": one.reason, "origin": one.origin}
            for one in (() if found is None else found.suppress)
        ],
    }


def _shown(value: Any) -> str:
    """A value as a configuration has it."""
    import json

    return "none" if value is None else json.dumps(value, ensure_ascii=False)
