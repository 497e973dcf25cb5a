"""The page of the viewer: data, styles and scripts in one file, which makes no requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from rewriter.app.report.picture.svg import COLORS, STYLE

POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
"""The browser blocks every request, also requests from texts in a model."""


def viewer_page(models: Sequence[dict[str, Any]], title: str, differences: Sequence[str] = ()) -> str:
    """One self-contained HTML page.

    Args:
        models: one or two of `inspect.viewed_graph.viewed_model`.
        title: plain text.
        differences: of two models, as plain texts: the differences in addition to the marked nodes.
    """
    contents = {"models": models, "differences": differences}
    data = json.dumps(contents, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    here = files(__package__)
    names = ("viewer.css", "layout.js", "visible.js", "viewer.js")
    css, layout, visible, script = ((here / name).read_text(encoding="utf-8") for name in names)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title><style>{COLORS}{STYLE}
{css}</style></head><body>
<header><h1>{escape(title)}</h1><span class="grow"></span>
<input type="search" placeholder="search nodes, operators, tensors, rules" aria-label="search">
<button type="button" id="fit">fit</button></header>
<main><div id="graphs"><div id="panes"></div><section id="mark" aria-label="mark" tabindex="0" hidden></section></div>
<aside aria-live="polite" aria-label="details" tabindex="0"></aside></main>
<script type="application/json" id="data">{data}</script>
<script id="layout">{layout}</script>
<script>{visible}</script>
<script>{script}</script>
</body></html>
"""
