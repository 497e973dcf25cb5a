"""Reads plain tables of node attributes, for frameworks without a reader of their own.

JSON:  {"node": {"attribute": value}}     CSV:  a line `node,attribute,value`, then one line an attribute

Values are kept as texts and read by the type that the asking rule expects, as everywhere in `source`.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rewriter.errors import RewriterError
from rewriter.source.info import SourceInfo, SourceNode

COLUMNS = ["node", "attribute", "value"]


def read_table(data: dict[str, Any], path: str) -> SourceInfo:
    """The source information of a parsed JSON table.

    Raises:
        RewriterError: the entry of a node is not an object of attributes.
    """
    nodes = []
    for name, attributes in data.items():
        if not isinstance(attributes, dict):
            raise RewriterError(f'{path}: the entry of {name!r} is no object; a table is {{"node": {{"attribute": value}}}}')
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}
        nodes.append(SourceNode(name, attributes=texts))
    return SourceInfo(nodes, path=path)


def read_csv(text: str, path: str) -> SourceInfo:
    """The source information of a CSV table; a later line for the same attribute wins.

    Raises:
        RewriterError: the first line is not `node,attribute,value`, or a line has not three cells.
    """
    rows = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    found: dict[str, dict[str, str]] = {}
    try:
        if [cell.strip().lower() for cell in next(rows, [])] != COLUMNS:
            raise RewriterError(f"{path}: the first line of a CSV table is `{','.join(COLUMNS)}`")
        for row in rows:
            if not row:
                continue
            if len(row) != len(COLUMNS):
                raise RewriterError(f"{path}: line {rows.line_num} has {len(row)} cells instead of {len(COLUMNS)}")
            node, attribute, value = row
            found.setdefault(node, {})[attribute] = value
    except csv.Error as error:
        raise RewriterError(f"{path}: line {rows.line_num}: {error}") from None
    return SourceInfo((SourceNode(name, attributes=texts) for name, texts in found.items()), path=path)
