"""The one exception that means "the input is bad": any part may raise it, and only the command line decides what to print. And
what texts of errors are made of.
"""

from __future__ import annotations


class RewriterError(Exception):
    """Bad input, rule or option; the text is one clear line (a rule file may need several). The command line exits with 2."""


def reason(error: Exception) -> str:
    """The system's error message for a file, to print behind a path and a colon: `no such file or directory`."""
    said = getattr(error, "strerror", None)
    return said.lower() if said else str(error)


def printable(text: str) -> str:
    """The text on one line, with every control character, bidirectional mark and broken character written as an escape.

    Models of strangers contain such names: a name may contain a sequence that clears the screen or hides the rest of a line.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def install(extra: str) -> str:
    """How to install an optional part, for messages. `rewriter` on PyPI is not this package, so a clone is named."""
    return f"pip install '.[{extra}]' in a clone of rewriter"
