"""What an audit wants to know of a firing beyond its text: what its conditions saw, which weights it touched, how its
surroundings looked. All of it is found only when an audit is asked for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.engine.camera import Camera
from rewriter.engine.compile import CompiledRule
from rewriter.engine.context import Context
from rewriter.engine.explain.conditions import Witnessed
from rewriter.engine.explain.rule_text import Text
from rewriter.engine.expressions.evaluate import Names
from rewriter.engine.log import Weight
from rewriter.engine.scene import Scene
from rewriter.errors import RewriterError
from rewriter.graph.derive import constant_node_array
from rewriter.graph.edits import Edits
from rewriter.graph.index import operator_key
from rewriter.graph.node_state import NodeState
from rewriter.graph.node_text import constant_text, node_text, printable
from rewriter.graph.tensor_types import dtype_number
from rewriter.graph.values import constant_array
from rewriter.language.dtypes import DTYPE_NAMES

FEW = {"i": 8, "u": 8, "b": 8, "f": 2}  # elements of a constant that is shown by its values, by kind
CONSTANT = ("", "Constant")


@dataclass(frozen=True, slots=True)
class Audit:
    """What is wanted besides conditions and weights.

    Attributes:
        scenes: of the first so many firings of each rule, the surroundings.
        scene_of: of the firing of this number, too.
    """

    scenes: int = 0
    scene_of: int = 0


@dataclass(slots=True)
class Noted:
    """What was seen before a rewrite: what each condition found, and the types of tensors when a scene is wanted."""

    found: tuple[str, ...]
    types: dict[int, str] = field(default_factory=dict)
    scene: bool = False


class Auditor:
    """Looks closely at the firings of one run."""

    def __init__(self, context: Context, audit: Audit) -> None:
        self._audit = audit
        self._context = context
        self._camera = Camera(context, self.constant_words)
        self._taken: Counter[str] = Counter()
        self._number = 0
        self._weights: dict[int, tuple[gs.Tensor, Any, tuple[str, str, str]]] = {}

    # --- before the rewrite ------------------------------------------------------------------------------------------------

    def note(self, compiled: CompiledRule, names: Names, nodes: Mapping[int, gs.Node]) -> Noted:
        """To be asked when all conditions hold, before anything is edited."""
        text = Text(compiled.rule)
        found = tuple(Witnessed(where.condition, names, self._context, text).found() for where in compiled.rule.ast.wheres)
        wanted = self._taken[compiled.code] < self._audit.scenes or self._number + 1 == self._audit.scene_of
        return Noted(found, self._camera.types(nodes.values()) if wanted else {}, wanted)

    # --- after the rewrite -------------------------------------------------------------------------------------------------

    def weights(self, edits: Edits) -> tuple[Weight, ...]:
        """The constants that the changed nodes read before and after, each once."""
        before = [tensor for state in edits.before.values() for tensor in state.inputs]
        now = [*edits.added.values(), *(node for node in edits.edited.values() if node in self._context.index)]
        after = [tensor for node in now for tensor in node.inputs]
        used = {id(tensor) for tensor in before}, {id(tensor) for tensor in after}
        found = []
        for tensor in {id(tensor): tensor for tensor in (*before, *after)}.values():
            facts = self.constant(tensor)
            if facts is not None:
                when = "both" if id(tensor) in used[0] & used[1] else "before" if id(tensor) in used[0] else "after"
                found.append(Weight(printable(tensor.name), *facts, when))
        return tuple(found)

    def count(self, code: str, noted: Noted) -> None:
        """The firing stands."""
        self._number += 1
        self._taken[code] += noted.scene

    def scene(self, nodes: Sequence[gs.Node], edits: Edits, noted: Noted) -> Scene:
        """The surroundings of a firing, to be asked when the facts are those after it."""
        return self._camera.scene(nodes, edits, noted.types)

    # --- constants ---------------------------------------------------------------------------------------------------------

    def text(self, node: gs.Node | NodeState) -> str:
        """A node as ONNX text, tensor attributes with their hashes."""
        return node_text(node, self.constant_words)

    def constant_words(self, tensor: gs.Tensor) -> str:
        """`int64[2] {0, -1}` or `float[64,3,7,7] #1a2b3c4d5e6f`; "" for what is no constant."""
        found = self.constant(tensor)
        if found is None:
            return ""
        kind, digest, values = found
        return f"{kind} {values or '#' + (digest[:12] or '?')}"

    def constant(self, tensor: gs.Tensor) -> tuple[str, str, str] | None:
        """Type, sha256 and values (when few) of an initializer, a tensor attribute or what a Constant node makes; else None."""
        if not tensor.name and not isinstance(tensor, gs.Constant):
            return None
        maker = None if isinstance(tensor, gs.Constant) else self._context.index.producer(tensor)
        if not isinstance(tensor, gs.Constant) and (maker is None or operator_key(maker) != CONSTANT):
            return None
        held = tensor._values if isinstance(tensor, gs.Constant) else maker
        known = self._weights.get(id(tensor))
        if known is None or known[1] is not held:
            known = self._weights[id(tensor)] = tensor, held, self._read(tensor, maker)
        return known[2]

    @staticmethod
    def _read(tensor: gs.Tensor, maker: gs.Node | None) -> tuple[str, str, str]:
        try:
            array = constant_array(tensor) if maker is None else constant_node_array(maker)
        except (RewriterError, MemoryError):
            array = None
        if array is None:
            return constant_text(tensor) if maker is None else "unknown", "", ""
        kind = constant_text(tensor) if maker is None else _type_of(array)
        return kind, digest(array), _values(array)


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
