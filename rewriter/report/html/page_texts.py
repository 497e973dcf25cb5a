"""Texts of the HTML report: prose of rules with code spans, links to upstream threads, paths without private folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from html import escape

from rewriter.report.document import Report
from rewriter.report.style import clean

_CODE = re.compile("`([^`]+)`")
_LINK = re.compile(r"https://[\w.-]+(/[\w./?=&#%+~:@-]*)?")


def prose(text: str) -> str:
    """What a rule or this program says: what stands between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(clean(text)))


def issue_link(issue: str, shown: str = "") -> str:
    """An upstream thread, as a link when it is an address of the web and nothing else."""
    text = escape(shown or clean(issue))
    return f'<a href="{escape(issue)}" rel="noreferrer">{text}</a>' if _LINK.fullmatch(issue) else escape(clean(issue))


def shortened(pieces: Iterable[str], report: Report) -> Iterator[str]:
    """The page without the folder that all absolute paths of models and results share, and with ~ for that of the user.

    A report is sent to others; where its files were on one machine is not their business.
    """
    paths = [path for model in report.models for path in (model.path, model.output) if path and os.path.isabs(path)]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    except ValueError:  # several drives
        common = ""
    folders = {os.path.expanduser("~"): os.path.join("~", ""), common: ""}
    told = {escape(clean(os.path.join(folder, ""))): short for folder, short in folders.items() if len(folder) > 1}
    whole = re.compile("|".join(rf"(?<![\w.~/\\-]){re.escape(folder)}" for folder in sorted(told, key=len, reverse=True)))
    yield from (whole.sub(lambda found: told[found[0]], piece) if told else piece for piece in pieces)
