"""Constants by their type and hash: how an audit and a picture name weights, without showing them."""

from __future__ import annotations

import sys
from hashlib import sha256
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.facts.derive import constant_node_array
from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.node_text import constant_text
from rewriter.graph.values import constant_array
from rewriter.language.dtypes import DTYPE_NAMES
from rewriter.onnxfile.tensor_types import dtype_number

FEW = {"i": 8, "u": 8, "b": 8, "f": 2}  # elements of a constant that is shown by its values, by kind
CONSTANT = ("", "Constant")


class Weights:
    """The constants of one model; each is read once."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._known: dict[int, tuple[gs.Tensor, Any, tuple[str, str, str]]] = {}

    def words(self, tensor: gs.Tensor) -> str:
        """`int64[2] {0, -1}` or `float[64,3,7,7] #1a2b3c4d5e6f`; "" for what is no constant."""
        found = self.find(tensor)
        if found is None:
            return ""
        kind, digits, values = found
        return f"{kind} {values or '#' + (digits[:12] or '?')}"

    def find(self, tensor: gs.Tensor) -> tuple[str, str, str] | None:
        """Type, sha256 and values (when few) of an initializer, a tensor attribute or what a Constant node makes; else None.

        The hash is "" when the values cannot be read.
        """
        constant = isinstance(tensor, gs.Constant)
        maker = None if constant or not tensor.name else self._index.producer(tensor)
        if not constant and (maker is None or operator_key(maker) != CONSTANT):
            return None
        held = tensor._values if maker is None else maker
        known = self._known.get(id(tensor))
        if known is None or known[1] is not held:
            known = self._known[id(tensor)] = tensor, held, _read(tensor, maker)
        return known[2]


def _read(tensor: gs.Tensor, maker: gs.Node | None) -> tuple[str, str, str]:
    try:
        array = constant_array(tensor) if maker is None else constant_node_array(maker)
    except (RewriterError, MemoryError):
        array = None
    if array is None:
        return constant_text(tensor) if maker is None else "unknown", "", ""
    return constant_text(tensor) if maker is None else _type_of(array), digest(array), _values(array)


def digest(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of an array's values, row by row, little-endian; of texts, each with its length before it."""
    if array.dtype.kind == "O":
        found = sha256()
        for item in array.ravel():
            data = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")
            found.update(len(data).to_bytes(8, "little") + data)
        return found.hexdigest()
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.byteswap()
    return sha256(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"").hexdigest()


def _values(array: np.ndarray[Any, Any]) -> str:
    if array.size > FEW.get(array.dtype.kind, 0):
        return ""
    return "{" + ", ".join(f"{np.float32(item):g}" if array.dtype.kind == "f" else str(item) for item in array.ravel()) + "}"


def _type_of(array: np.ndarray[Any, Any]) -> str:
    name = DTYPE_NAMES.get(dtype_number(array.dtype) or 0, "unknown")
    return f"{name}[{','.join(map(str, array.shape))}]"
