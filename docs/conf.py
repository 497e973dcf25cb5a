"""The site by Sphinx: the pages of this folder and those of rules and commands. `python docs/build_site.py` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

sys.path.insert(0, str(DOCS))

import rewriter  # noqa: E402
from symptom_pages import linked  # noqa: E402

project, author, copyright = "rewriter", "the rewriter authors", "the rewriter authors. Apache-2.0"
version = release = rewriter.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["notebooks/**"]
html_theme = "furo"
html_title = f"rewriter {release}"
html_static_path: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.strikethrough"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"

REPOSITORY = os.environ.get("REPOSITORY", "https://localhost/") + "/blob/main/"
"""Where files that are no pages are read; whoever publishes the site sets REPOSITORY to the address of the repository."""


def setup(app: Any) -> None:
    from pygments.lexers import get_lexer_by_name
    from pygments.lexers.special import TextLexer
    from pygments.util import ClassNotFound

    for name in ("rules", "groovy"):
        try:
            get_lexer_by_name(name)
        except ClassNotFound:
            app.add_lexer(name, TextLexer)
    app.connect("source-read", prepared)
    app.connect("build-finished", lead_in)


def prepared(app: Any, page: str, source: list[str]) -> None:
    """Links that leave the folder lead to the pages of rules or to the repository; the index gets its tree of pages."""
    text = source[0]
    made = page.startswith(("rules/", "symptoms/"))
    up = r"\.\./\.\./" if made else r"\.\./"
    if text.startswith("# Error messages: "):
        text = linked(text)
    to_rules = "" if page.startswith("rules/") else "../rules/" if made else "rules/"
    text = re.sub(rf"\[([A-Z]+\d+)\]\({up}rules/[\w-]+/[\w.-]+\)", rf"[\1]({to_rules}\1.md)", text)
    text = re.sub(rf"\]\({up}([^)\s]+)\)", rf"]({REPOSITORY}\1)", text)
    text = re.sub(r"\]\(((?:schema|notebooks)/[^)\s]+|[\w-]+\.(?:json|py))\)", rf"]({REPOSITORY}docs/\1)", text)
    if page == root_doc:
        text += tree(text)
    elif made:  # in no menu: a menu of 480 entries on each of 480 pages takes minutes
        text = f"---\norphan: true\n---\n{text}"
    source[0] = text


def tree(index: str) -> str:
    """The pages that the index names, by its headings, as Sphinx wants them."""
    parts = ["", "```{toctree}", ":hidden:", "", "Commands <commands/index>", "```"]
    for group in re.split(r"(?m)^## ", index)[1:]:
        caption, _, rows = group.partition(":")
        names = dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md\)", rows))
        parts.append("\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```"]))
    return "\n" + "\n".join(parts) + "\n"


def lead_in(app: Any, exception: Exception | None) -> None:
    """Servers look for index.html."""
    if exception is None and app.builder.name == "html":
        Path(app.outdir, "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; url=README.html">\n')
