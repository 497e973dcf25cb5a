"""What a run changed, as a unified diff of ONNX text: one hunk a firing, the rule in its heading.

The line numbers of a patch have no meaning in a graph; a hunk is headed by the rule, the place and the firing's number instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.engine.log import Log
from rewriter.report.style import Style, clean


def diff_lines(before: str, after: str, log: Log, style: Style) -> Iterator[str]:
    """The diff of one model, `before` and `after` being its file names; nothing when no rule fired."""
    if not log.firings:
        return
    yield style.paint("bold", f"--- {clean(before)}")
    yield style.paint("bold", f"+++ {clean(after)}")
    for firing in log.firings:
        place = "" if firing.place in ("", "main") else f"{clean(firing.place)}: "
        yield style.paint("cyan", f"@@ {firing.number} {firing.rule} at {place}{clean(firing.root) or 'model'} @@")
        for change in firing.changes:
            if change.before is not None:
                yield style.paint("red", f"-{clean(change.before)}")
            if change.after is not None:
                yield style.paint("green", f"+{clean(change.after)}")
