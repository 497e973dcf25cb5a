"""The output of a command in two forms: JSON for programs, lines of text for people.

Each other module of this folder makes the printouts of some commands. `cli.output` prints the form that `--format` names. The
Python functions that do the same as a command return both forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rewriter.core.record import record
from rewriter.workbench.style import Style


@record(frozen=True, slots=True)
class Printout:
    """Both forms of the result of a command.

    Attributes:
        content: makes the JSON object, without the head that all commands share. Records in it become objects.
        lines: makes the lines, in a style.
        hang: columns by which the rest of a folded line is indented.
    """

    content: Callable[[], Mapping[str, Any]]
    lines: Callable[[Style], Iterable[str]]
    hang: int = 4

    def data(self) -> dict[str, Any]:
        """The JSON object."""
        from rewriter.app.report.jsonreport import plain

        found: dict[str, Any] = plain(self.content())
        return found
