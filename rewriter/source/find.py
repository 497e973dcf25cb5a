"""Finds and opens the source file of a model, whatever its format.

Beside `NAME.onnx` these are looked for, in this order: `NAME-symbol.json`, and, where `NAME.onnx` is the only model of its
folder, `symbol.json` and the only `*-symbol.json`. The result of an earlier repair, `NAME.fixed.onnx`, shares the file of its
input. What is found is not believed yet: `acceptance` holds the file against the model.
"""

from __future__ import annotations

import os
import time
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.errors import RewriterError, reason

if TYPE_CHECKING:
    from rewriter.source.info import SourceInfo

MAX_BYTES = 64 << 20
FIXED = ".fixed"
PLAIN = "symbol.json"
SETTLED = 2_000_000_000
"""Nanoseconds after a change from which on the time of a folder tells whether it changed again: clocks are coarse."""


def find(model: Path | str) -> Path | None:
    """The source file that belongs to a model file, None where there is none or more than one could."""
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
"""What is in the folder that was listed last, by its name, number and time: thousands of models may share it."""


def _listed(folder: str) -> tuple[frozenset[str], list[str]]:
    """Stems of models, of which two are enough to know, and the names of symbol files, as long as there is one stem."""
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

    from rewriter.source.attribute_table import read_csv, read_table
    from rewriter.source.mxnet import is_symbol, read_symbol

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
    """What stands in a source file. Raises RewriterError if it is no regular file, or larger than 64 MiB."""
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
