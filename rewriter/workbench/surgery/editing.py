"""The state of one `edit`: the model between its steps, and what has been told of them."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.workbench.surgery.ports import Parts


class Editing:
    """A model that is edited step by step.

    Attributes:
        model: as it is now; a step may put another one in its place.
        with_children: whether what is computed from a dropped node is dropped as well.
        types: of new outputs, by name, where the model does not tell.
        did: a line for each step.
        renamed: by the name that an input or output has now, the one that it had.
        same: whether the steps so far leave the numbers alone.
    """

    def __init__(self, model: Model, *, with_children: bool = False) -> None:
        self.model = model
        self.with_children = with_children
        self.types: dict[str, TensorType] = {}
        self.did: list[str] = []
        self.notes: list[str] = []
        self.renamed: dict[str, str] = {}
        self.same = True
        self._index: GraphIndex | None = None
        self._facts: Facts | None = None
        self._parts: Parts | None = None
        self._edits: Edits | None = None

    @property
    def graph(self) -> gs.Graph:
        return self.model.graph

    @property
    def index(self) -> GraphIndex:
        if self._index is None:
            self._index = GraphIndex(self.graph)
        return self._index

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = Facts(self.index, self.model.overridable)
        return self._facts

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = Parts(self.index)
        return self._parts

    @property
    def edits(self) -> Edits:
        """The transaction of this step."""
        if self._edits is None:
            self._edits = Edits(self.index)
        return self._edits

    def settle(self) -> None:
        """Ends a step: what it made dead goes, and what is known of the model is forgotten."""
        if self._edits is not None and self._index is not None:
            self._edits.sweep(())
            freed = self._edits.freed
            if freed:
                self.graph.initializers = [tensor for tensor in self.graph.initializers if id(tensor) not in freed]
            self._index.finish()
        self._index = self._facts = self._parts = self._edits = None

    def replace(self, model: Model) -> None:
        """Goes on with another model."""
        self.settle()
        self.model = model


def pair(text: str, what: str, known: object = None) -> tuple[str, str]:
    """`NAME=VALUE`; of several equals signs the first one behind a known name counts. Raises RewriterError."""
    places = [place for place, letter in enumerate(text) if letter == "=" and place]
    if not places:
        raise RewriterError(f"{text!r} is not {what}")
    if callable(known):
        places = [place for place in places if known(text[:place])] or places
    return text[: places[0]], text[places[0] + 1 :]
