"""A command as it is recorded and shown: with its options, without the names of files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def command_text(name: str, options: Iterable[tuple[str, Iterable[str]]], **switches: bool) -> str:
    """`extract --from a,b --to c --auto-inputs`."""
    words = [name]
    for option, values in options:
        words += [word for value in values for word in (option, shlex.quote(value))]
    words += [f"--{switch.replace('_', '-')}" for switch, on in switches.items() if on]
    return " ".join(words)
