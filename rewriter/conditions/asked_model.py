"""The model that a forecast puts its questions to, and the single cases of them, with what was found before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rewriter.conditions.partial_values import ABSENT, UNKNOWN
from rewriter.conditions.ruled_out import NONE
from rewriter.language import schema
from rewriter.language.cache.operator_table import Table
from rewriter.onnxfile.census import OPAQUE, Census, NodeKind

_REPEATED = {"pads": (0, 2), "strides": (1, 1), "dilations": (1, 1)}
"""Defaults that depend on the number of spatial axes: the item, and how many an axis."""


MOST_ANSWERS = 1 << 16
MOST_SUBJECTS = 64
Answers = dict[tuple[Any, ...], bool]
_answers: dict[tuple[object, ...], tuple[Table, Answers]] = {}


class AskedModel:
    """What questions are put to, with what was found before.

    Attributes:
        answers: to questions about the form of a kind alone, those of other models of these versions among them.
    """

    def __init__(self, census: Census, table: Table) -> None:
        self.census = census
        self.table = table
        self.by_op: dict[tuple[str, str], list[NodeKind]] = {}
        for kind in census.kinds:
            self.by_op.setdefault((kind.domain, kind.op), []).append(kind)
        self.versions = census.versions
        self.answers = self._shared()
        self._effective: dict[tuple[NodeKind, str], Any] = {}
        self._none: dict[str, Any] = {}

    def _shared(self) -> Answers:
        key = id(self.table), self.census.ir_version, frozenset(self.versions), bool(self.census.functions)
        found = _answers.get(key)
        if found is None:
            if len(_answers) >= MOST_SUBJECTS:
                _answers.clear()
            found = _answers[key] = self.table, {}  # with the table, so that no other one gets its id()
        elif len(found[1]) >= MOST_ANSWERS:
            found[1].clear()
        return found[1]

    def effective(self, kind: NodeKind, name: str) -> Any:
        """The value that an attribute has by itself or by default."""
        found = self._effective.get((kind, name))
        if found is None:
            found = self._effective[kind, name] = self._find(kind, name)
        return found

    def _find(self, kind: NodeKind, name: str) -> Any:
        found = kind.attrs.get(name)
        if found is not None:
            return UNKNOWN if found is OPAQUE else found
        entry = None if kind.domain else self.table.get(kind.op)
        if entry is None:
            return UNKNOWN
        defaults = [_at(entry[0].get(name, ()), version) for version in self.versions]
        if not defaults or any(default != defaults[0] for default in defaults):
            return UNKNOWN
        if defaults[0] is not None:
            return defaults[0]
        if name not in schema.COMPUTED_FROM_OPERANDS or schema.computed_default(kind.op, "", name) is None:
            return ABSENT
        item, times = _REPEATED.get(name, (0, 0))
        axes = kind.attrs.get("kernel_shape")
        padded = kind.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", "")
        return UNKNOWN if not times or not isinstance(axes, list) or (padded and not item) else [item] * (len(axes) * times)

    def field(self, name: str) -> Any:
        """`model.name`."""
        if name == "ir_version":
            return self.census.ir_version or UNKNOWN
        if name not in self._none:
            self._none[name] = [] if NONE[name](self.census, self.table) else UNKNOWN
        return self._none[name]


class Asked:
    """One case that a question is put to: a kind of node, and what its operands may be."""

    __slots__ = ("kind", "lets", "model", "ranks", "types")

    def __init__(
        self,
        model: AskedModel,
        kind: NodeKind | None,
        types: tuple[int, ...] | None = None,
        ranks: tuple[int | None, ...] | None = None,
    ) -> None:
        self.model = model
        self.kind: Any = kind
        self.types = types
        self.ranks = ranks
        self.lets: dict[str, Any] = {}


def _at(values: Iterable[tuple[int, Any]], version: int) -> Any:
    """The default that holds in an opset; None for none."""
    found = None
    for since, value in values:
        if since <= version:
            found = value
    return found
