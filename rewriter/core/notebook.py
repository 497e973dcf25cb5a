"""The view of models, logs and rules in a notebook: one table, cut after a hundred rows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

MAX_ROWS = 100


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """HTML of a caption and, if there are rows, a table of them; texts are escaped."""
    shown = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows[:MAX_ROWS])
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rest = f"<p>and {len(rows) - MAX_ROWS:,} more</p>" if len(rows) > MAX_ROWS else ""
    return f"<p>{escape(caption)}</p>" + (f"<table><tr>{head}</tr>{shown}</table>{rest}" if rows else "")
