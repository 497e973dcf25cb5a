"""The state of one `edit`: the model between its steps, and the lines that describe them."""

from __future__ import annotations

from functools import cached_property

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import new_variable
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.workbench.surgery.ports import Parts


class Editing:
    """A model that is edited step by step.

    Attributes:
        model: the model as it is now; a step may replace it.
        with_children: whether everything computed from a dropped node is dropped as well.
        types: types of new outputs, by name, that cannot be determined from the model.
        new_outputs: their names.
        did: a line for each step.
        renamed: by the name that an input or output has now, the name that it had.
        same: whether the steps so far leave the output values unchanged.
    """

    def __init__(self, model: Model, *, with_children: bool = False) -> None:
        self.model = model
        self.with_children = with_children
        self.types: dict[str, TensorType] = {}
        self.new_outputs: set[str] = set()
        self.did: list[str] = []
        self.notes: list[str] = []
        self.renamed: dict[str, str] = {}
        self.same = True

    @property
    def graph(self) -> gs.Graph:
        return self.model.graph

    @cached_property
    def index(self) -> GraphIndex:
        return GraphIndex(self.graph)

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.index, self.model.overridable)

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.index)

    @cached_property
    def edits(self) -> Edits:
        """The transaction of this step."""
        return Edits(self.index)

    def part(self, tensor: gs.Tensor, name: str) -> tuple[gs.Tensor, gs.Tensor]:
        """Makes room for a node between the maker of a tensor and its readers; returns the operand and the output of the node.

        One of the two is a new tensor of this name: an input of the model stays what callers pass, and any other tensor stays
        what its readers read.
        """
        maker, new = self.index.producer(tensor), new_variable(self.index.names.fresh(name))
        if maker is not None:
            self.edits.set_outputs(maker, [new if output is tensor else output for output in maker.outputs])
            return new, tensor
        self.edits.replace_uses(tensor, new)
        return tensor, new

    def settle(self) -> None:
        """Ends a step: removes the nodes that it made dead, and forgets the facts about the model."""
        if "edits" in self.__dict__:
            self.edits.sweep(())
            freed = self.edits.freed
            if freed:
                self.graph.initializers = [tensor for tensor in self.graph.initializers if id(tensor) not in freed]
            self.index.finish()
        for known in ("index", "facts", "parts", "edits"):
            self.__dict__.pop(known, None)

    def replace(self, model: Model) -> None:
        """Continues with another model."""
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
