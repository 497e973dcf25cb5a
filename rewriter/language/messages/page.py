"""The page of one code."""

from __future__ import annotations

from textwrap import indent

from rewriter.language.diagnostics import escape
from rewriter.record import record


@record(frozen=True)
class Page:
    """What a code means, with a rule that gives it and one that does not. Codes `W...` are warnings."""

    code: str
    title: str
    text: str
    wrong: str
    right: str

    def render(self) -> str:
        """The page as plain text, without a newline at its end."""
        wrong, right = (indent(example.strip("\n"), "    ") for example in (self.wrong, self.right))
        text = f"{self.code}: {self.title}\n\n{self.text.strip()}\n\nWrong:\n\n{wrong}\n\nRight:\n\n{right}"
        return escape(text, "\n")
