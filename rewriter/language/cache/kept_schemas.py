"""The operators of ONNX as plain data, kept so that rules are compiled without importing ONNX, which takes longer than thirty
rules.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Callable
from functools import cache
from typing import Any

from rewriter.language.cache.compiler_versions import versions
from rewriter.language.cache.own_folder import keep_sealed, own_folder, read_sealed


@cache
def read_schemas() -> Any:
    """What a process before this one kept; None when there is nothing for this version of ONNX."""
    folder = own_folder()
    data = None if folder is None else read_sealed(folder / _name())
    made_for, found = (None, None) if data is None else json.loads(data)
    return found if made_for == versions() else None


def write_schemas(make: Callable[[], Any]) -> None:
    """Keeps what is made, unless it is kept already."""
    if read_schemas() is None and (folder := own_folder()) is not None:
        keep_sealed(folder / _name(), json.dumps((versions(), make())))
        read_schemas.cache_clear()


def _name() -> str:
    return f"schemas-{crc32(versions().encode()):08x}.json"
