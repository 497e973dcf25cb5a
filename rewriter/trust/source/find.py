"""The framework's own file that belongs to a model: found next to it, or named by `--source`."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from codecs import BOM_UTF8
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.core.errors import RewriterError, reason
from rewriter.core.record import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rewriter.core.framework.exporter import GuardedModel
    from rewriter.core.framework.source_info import SourceInfo
    from rewriter.core.graph.model import Model
    from rewriter.core.language.rules import Rule, RuleSet


# Reads plain tables of node attributes, for frameworks without a reader of their own.
#
# JSON: {"node": {"attribute": value}} CSV: a line `node,attribute,value`, then one line an attribute
#
# Values are kept as texts and read by the type that the asking rule expects, as everywhere in `source`.

COLUMNS = ["node", "attribute", "value"]


def read_table(data: dict[str, Any], path: str) -> SourceInfo:
    """The source information of a parsed JSON table.

    Raises:
        RewriterError: the entry of a node is not an object of attributes.
    """
    from rewriter.core.framework.source_info import SourceInfo, SourceNode

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
    from rewriter.core.framework.source_info import SourceInfo, SourceNode

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


# Reads MXNet's `*-symbol.json`, in every layout that MXNet 0.5 to 1.9 wrote.
#
#     {"nodes": [{"op": "null", "name": "data", "inputs": []},
#                {"op": "Pooling", "name": "pool0", "attrs": {"kernel": "(3, 3)"}, "inputs": [[0, 0, 0]]}],
#      "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10301]}}
#
# What changed: operator parameters are under `param` before 0.9 (next to `attr`, then only for hints such as `lr_mult`), under
# `attr` up to 0.12 and under `attrs` since; an edge is [node, output] or [node, output, version]; values are texts of Python
# values.

_KEYS = ("attr", "attrs", "param")  # later ones win


def is_symbol(data: object) -> bool:
    """Whether parsed JSON is a symbol file rather than a table that happens to have a node called "nodes"."""
    nodes = data.get("nodes") if isinstance(data, dict) else None
    return isinstance(nodes, list)


def read_symbol(data: dict[str, Any], path: str) -> SourceInfo:
    """The source information of a parsed symbol file.

    Raises:
        RewriterError: a node, an attribute or an edge has a form that a symbol file does not allow.
    """
    from rewriter.core.framework.source_info import SourceInfo, SourceNode

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
    """ "1.9.1" for {"mxnet_version": ["int", 10901]}; "" if the file has no version."""
    value = attrs.get("mxnet_version") if isinstance(attrs, dict) else None
    number = value[-1] if isinstance(value, list) and value else value
    if type(number) is not int or number <= 0:
        return ""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


MAX_BYTES = 64 << 20
FIXED = ".fixed"
PLAIN = "symbol.json"
SETTLED = 2_000_000_000
"""Nanoseconds after a change until a further change shows in the time of a folder: clocks are coarse."""


def find(model: Path | str) -> Path | None:
    """The source file that belongs to a model file, None if there is none or more than one could."""
    parent, name = os.path.split(model)
    stem = os.path.splitext(name)[0].removesuffix(FIXED)
    if os.path.isfile(own := os.path.join(parent, f"{stem}-symbol.json")):
        return Path(own)
    try:
        models, symbols = _listed(parent or ".")
    except (OSError, ValueError):
        return None
    if not symbols or models - {stem}:
        return None
    named = [name for name in symbols if name.endswith("-symbol.json")]
    likely = [PLAIN, *(named if len(named) == 1 else ())]
    return next((Path(place) for name in likely if os.path.isfile(place := os.path.join(parent, name))), None)


_last: dict[tuple[str, int, int], tuple[frozenset[str], list[str]]] = {}
"""The contents of the folder that was listed last, by its name, number and time: thousands of models may share it."""


def _listed(folder: str) -> tuple[frozenset[str], list[str]]:
    """Stems of models, at most two, which is enough; and the names of symbol files, as long as there is one stem."""
    found = os.stat(folder)
    key = folder if os.path.isabs(folder) else os.path.abspath(folder), found.st_ino, found.st_mtime_ns
    if key in _last:
        return _last[key]
    models, symbols = set(), []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".onnx"):
                models.add(entry.name.removesuffix(".onnx").removesuffix(FIXED))
                if len(models) > 1:
                    break  # a folder may hold 100,000 of them
            elif entry.name.lower() == PLAIN or entry.name.endswith("-symbol.json"):
                symbols.append(entry.name)
    result = frozenset(models), symbols
    _last.clear()
    if time.time_ns() - found.st_mtime_ns > SETTLED:
        _last[key] = result
    return result


def load_source(path: Path | str) -> SourceInfo:
    """Reads a source file: a symbol file, a JSON table, or a CSV table by its ending.

    Raises:
        RewriterError: it cannot be read, is larger than 64 MiB, or is none of these.
    """
    return parse_source(_read(Path(path)), str(path))


def parse_source(text: str, shown: str) -> SourceInfo:
    """Reads the text of a source file named `shown`; raises as `load_source`."""
    import json

    if shown.lower().endswith(".csv"):
        return read_csv(text, shown)
    try:
        data = json.loads(text)
    except RecursionError:
        raise RewriterError(f"{shown}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise RewriterError(f"{shown}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise RewriterError(f"{shown}: neither a symbol file nor a table of nodes")
    return read_symbol(data, shown) if is_symbol(data) else read_table(data, shown)


def read_source_bytes(path: Path) -> bytes:
    """The bytes of a source file. Raises RewriterError if it is no regular file, or larger than 64 MiB."""
    try:
        if not path.is_file():
            raise RewriterError(f"{path}: no such source file" if not path.exists() else f"{path}: not a file")
        with path.open("rb", buffering=0) as file:
            large = os.fstat(file.fileno()).st_size > MAX_BYTES
            data = b"" if large else file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from None
    if large or len(data) > MAX_BYTES:
        raise RewriterError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    return data


def _read(path: Path) -> str:
    data = read_source_bytes(path)
    try:
        return data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise RewriterError(f"{path}: not UTF-8 text") from None


# The source information that belongs to a model, according to `--source`.

NOT_USED = "source file not used: "


def source_of(model: Model, path: str, choice: str) -> tuple[SourceInfo | None, list[str]]:
    """The source information to use, and messages about it.

    A symbol file is used only if it belongs to this model, whether it was found next to the model or named: a wrong file would
    change correct values. A table that was named is used unchecked. A file that was found need not even be readable.

    Raises:
        RewriterError: the file that was named cannot be read.
    """
    if choice == "none":
        return None, []
    found = find(path) if choice == "auto" else choice
    if found is None:
        return None, []
    try:
        source = _read_source(str(found))
    except RewriterError as error:
        if choice != "auto":
            raise
        return None, [f"{NOT_USED}{error}"]
    if choice != "auto" and not source.framework:
        return source, []
    from rewriter.trust.source.acceptance import objection

    reason = objection(source, model.graph)
    return (None, [f"{NOT_USED}{found} is not the file of this model: {reason}"]) if reason else (source, [])


def _read_source(path: str) -> SourceInfo:
    """The source information of a file, read once for the many models of a call."""
    try:
        found = os.stat(path)
    except OSError:
        return _read_again(path, (0, 0))
    return _read_again(path, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=4)
def _read_again(path: str, stamp: tuple[int, int]) -> SourceInfo:
    return load_source(path)


# The note on a model whose exporter left information in the framework's own file, if that file is missing.
#
# Without the note, a model that no rule can repair without the file would look correct.


def missing_source(
    rules: RuleSet, subject: GuardedModel, operators: Iterable[str], path: str, *, is_of_another: bool
) -> list[str]:
    """How many rules need the source file of a model, and the places in which it is searched. Empty if no rule needs it.

    Args:
        rules: the rules that run.
        subject: a model without a source file, by one of `SOURCE_FILES`.
        operators: of the main graph, as it was read.
        path: of the model.
        is_of_another: whether there is a file, and it belongs to another model.
    """
    from shlex import quote

    from rewriter.core.framework.exporter import SOURCE_FILES

    name, kind, ending = SOURCE_FILES[subject.exporter.name]
    waiting = _waiting(rules, subject, frozenset(operators))
    if not waiting:
        return []
    what = f"{waiting:,} rule{'' if waiting == 1 else 's'} for {name} need{'s' if waiting == 1 else ''} the {kind}"
    if is_of_another:
        return [f"{what} of this model"]
    if Path(path).name == "stdin.onnx":  # a model from the standard input
        return [f"{what}: pass --source NET{ending}"]
    file = f"{Path(path).stem}{ending}" if path.endswith(".onnx") else f"NET{ending}"
    return [f"{what}: put {file} next to the model or pass --source {quote(file)}"]


def _waiting(rules: RuleSet, subject: GuardedModel, operators: Collection[str]) -> int:
    """How many rules for this model lack only its source file, and have operators that the model has."""
    from rewriter.core.framework.exporter import suited

    meant, _ = suited(rules, replace(subject, has_source=True))
    return sum(_has_operators(rule, operators) for rule in meant if rule.needs_source)


def _has_operators(rule: Rule, operators: Collection[str]) -> bool:
    """Whether there are operators for every node of one form of the pattern."""
    if not all(any(op in operators for _, op in ops) for ops in rule.wanted):
        return False  # known of every rule; the forms have to be read
    return any(all(not ops.isdisjoint(operators) for ops in form) for form in _forms(rule))


@lru_cache(maxsize=1 << 10)
def _forms(rule: Rule) -> list[list[frozenset[str]]]:
    """The operators of each node, for each form of the pattern; nodes that may have any operator are left out."""
    from rewriter.core.language.ast import pattern_nodes

    return [
        [
            frozenset(op.name for op in node.ops)
            for node in pattern_nodes(form.match)
            if not any(op.param or op.is_any for op in node.ops)
        ]
        for form in rule.question.variants or (rule.question,)
    ]
