"""The one exception that means "the input is bad": any part may raise it, and only the command line decides what to print."""

from __future__ import annotations


class RewriterError(Exception):
    """Bad input, rule or option; the text is one clear line (a rule file may need several). The command line exits with 2."""


def reason(error: Exception) -> str:
    """The system's error message for a file, to print behind a path and a colon: `no such file or directory`."""
    said = getattr(error, "strerror", None)
    return said.lower() if said else str(error)


def install(extra: str) -> str:
    """How to install an optional part, for messages. `rewriter` on PyPI is not this package, so a clone is named."""
    return f"pip install '.[{extra}]' in a clone of rewriter"
