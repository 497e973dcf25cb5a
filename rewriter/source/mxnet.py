"""Reads MXNet's `*-symbol.json`, in every layout that MXNet 0.5 to 1.9 wrote.

    {"nodes": [{"op": "null", "name": "data", "inputs": []},
               {"op": "Pooling", "name": "pool0", "attrs": {"kernel": "(3, 3)"}, "inputs": [[0, 0, 0]]}],
     "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10301]}}

What changed: operator parameters stand under `param` before 0.9 (beside `attr`, then only for hints such as `lr_mult`), under
`attr` up to 0.12 and under `attrs` since; an edge is [node, output] or [node, output, version]; values are texts of
Python values.
"""

from __future__ import annotations

from typing import Any

from rewriter.errors import RewriterError
from rewriter.source.info import SourceInfo, SourceNode

_KEYS = ("attr", "attrs", "param")  # later ones win


def is_symbol(data: object) -> bool:
    """Whether parsed JSON is a symbol file rather than a table that happens to have a node called "nodes"."""
    nodes = data.get("nodes") if isinstance(data, dict) else None
    return isinstance(nodes, list)


def read_symbol(data: dict[str, Any], path: str) -> SourceInfo:
    """The source information of a parsed symbol file.

    Raises:
        RewriterError: a node, an attribute or an edge is not what a symbol file has there.
    """
    listed = data["nodes"]
    names = [_name(node, position, path) for position, node in enumerate(listed)]
    keys = _keys(names)
    nodes = [
        SourceNode(
            name, str(node.get("op", "")), _attributes(node, path), _edges(node.get("inputs", ()), keys, name, path), position
        )
        for position, (name, node) in enumerate(zip(names, listed, strict=True))
    ]
    heads = _edges(data.get("heads", ()), keys, "heads", path)
    return SourceInfo(nodes, path=path, framework="mxnet", version=_version(data.get("attrs")), heads=heads)


def _name(node: object, position: int, path: str) -> str:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str):
        raise RewriterError(f"{path}: node {position} of the symbol file has no name")
    return str(node["name"])


def _keys(names: list[str]) -> list[str]:
    """Names, later ones of the same name by position, as MXNet 1.9 renames them and `SourceInfo` keeps them."""
    first = {name: position for position, name in reversed(list(enumerate(names)))}
    return [name if first[name] == position else f"idx_{position}_{name}" for position, name in enumerate(names)]


def _attributes(node: dict[str, Any], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in _KEYS:
        texts = node.get(key)
        if texts is None:
            continue
        if not isinstance(texts, dict):
            raise RewriterError(f"{path}: `{key}` of node {node['name']!r} is not a JSON object")
        found.update((name, value if isinstance(value, str) else repr(value)) for name, value in texts.items())
    return found


def _edges(edges: object, names: list[str], owner: str, path: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(edges, (list, tuple)):
        raise RewriterError(f"{path}: the edges of {owner!r} are not a list")
    found = []
    for edge in edges:
        whole = isinstance(edge, list) and len(edge) in (2, 3) and all(type(part) is int for part in edge)
        if not whole or not 0 <= edge[0] < len(names) or edge[1] < 0:
            raise RewriterError(f"{path}: the edge {str(edge)[:60]} of {owner!r} is not [node, output]")
        found.append((names[edge[0]], edge[1]))
    return tuple(found)


def _version(attrs: object) -> str:
    """ "1.9.1" for {"mxnet_version": ["int", 10901]}; "" where the file does not tell."""
    told = attrs.get("mxnet_version") if isinstance(attrs, dict) else None
    number = told[-1] if isinstance(told, list) and told else told
    if type(number) is not int or number <= 0:
        return ""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
