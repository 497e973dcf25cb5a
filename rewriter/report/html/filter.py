"""The filter of the HTML report: a field, a choice of status, and the one script that the page allows, known by its hash.

No other script runs, also none that a name in a model would bring: the policy admits this text and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from rewriter.report.document import Report

SCRIPT = "".join(line.strip() + "\n" for line in (files(__package__) / "filter.js").read_text(encoding="utf-8").splitlines())

POLICY = (
    f"default-src 'none'; script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'; "
    "style-src 'unsafe-inline'; img-src data:"
)
"""What a browser is to allow the page: its own styles, this script, and nothing else."""


def filter_bar(report: Report) -> str:
    """The field, and with several models the statuses that there are."""
    statuses = "".join(f"<option>{word}</option>" for word in report.summary.statuses)
    choice = f'<select id="status" aria-label="status"><option value="">any status</option>{statuses}</select>'
    field = '<input id="find" type="search" placeholder="filter by model, rule, node, text ( / )" aria-label="filter">'
    return (
        f'<p class="filter">{field}{choice if len(report.models) > 1 else ""}<span id="told" aria-live="polite"></span></p>\n'
    )
