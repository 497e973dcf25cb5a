"""The page of every message code: its meaning, a wrong rule, and a correct one.

`rewriter explain E103`, editors and the documentation show them. A page is a Markdown file in `messages`, named after its
code. The tests compile the examples: a wrong one reports its code, a correct one reports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from textwrap import indent
from types import MappingProxyType

from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import escape, suggest
from rewriter.core.record import record

_PAGE = re.compile(
    r"# (?P<code>[EW]\d{3}): (?P<title>[^\n]+)\n\n(?P<text>.+?)\n\n"
    r"Wrong:\n\n```rules\n(?P<wrong>.+?)```\n\nRight:\n\n```rules\n(?P<right>.+?)```\n",
    re.DOTALL,
)


@record(frozen=True)
class Page:
    """The meaning of a code, with a rule that reports it and one that does not. Codes `W...` are warnings."""

    code: str
    title: str
    text: str
    wrong: str
    right: str

    def render(self) -> str:
        """The page as plain text, without a newline at its end."""
        wrong, right = (indent(example.strip("\n"), "    ") for example in (self.wrong, self.right))
        text = f"{self.code}: {self.title}\n\n{self.text}\n\nWrong:\n\n{wrong}\n\nRight:\n\n{right}"
        return escape(text, "\n")


@cache
def message_pages() -> Mapping[str, Page]:
    """Code → page, errors before warnings, each in the order of their numbers.

    Raises ValueError if a file does not have the form of a page.
    """
    files = sorted(Path(__file__).with_name("messages").glob("[EW]*.md"))
    return MappingProxyType({file.stem: parse_page(file.read_text(encoding="utf-8")) for file in files})


def parse_page(text: str) -> Page:
    """The page in a Markdown file; ValueError if it has another form."""
    page = _PAGE.fullmatch(text)
    if page is None:
        raise ValueError(f"not the page of a message code: {text[:60]!r}")
    return Page(**page.groupdict())


def explain(code: str) -> str:
    """The page of a code as text.

    Raises:
        RewriterError: there is no such code.
    """
    pages = message_pages()
    page = pages.get(code.upper())
    if page is None:
        near = suggest(code.upper(), pages)
        hint = f"did you mean {near}?" if near else "`rewriter explain list` lists them"
        raise RewriterError(f"there is no message {code!r}; {hint}")
    return page.render()
