"""The facts about the graph of a run, with a record of the facts that rules asked for.

The record has two uses. Roots whose rules asked about a tensor are tried again when that tensor changes. The audit shows an
unanswered question as the reason why a rule did not fire.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import UNKNOWN, DType, Failure, Symbol
from rewriter.core.facts.facts import Facts
from rewriter.core.framework.exporter import Exporter, GuardedModel, exporter_of
from rewriter.core.graph.index import GraphIndex
from rewriter.core.record import record

if TYPE_CHECKING:
    import onnx

    from rewriter.core.framework.source_info import SourceInfo


HasKernel = Callable[["onnx.ModelProto"], "bool | None"]


@record
class Knowledge:
    """The facts about a model in addition to its graph.

    Attributes:
        source: the contents of the framework's own file.
        settings: values of rule parameters by (code, name).
        overridable: names of initializers that a caller may override, which are therefore no constants.
        exporter: the exporter of the model; if None, it is determined from the graph and the source.
        has_kernel: runs a model of one node in the installed runtime (it returns None if there is no such runtime). Rules about
            kernels that a runtime lacks (`evidence: refused(...)`) fire only if it returns False, unless they or the runtime
            were chosen. If it is None, no runtime is used.
    """

    source: SourceInfo | None = None
    settings: Mapping[tuple[str, str], Any] | None = None
    overridable: Collection[str] = ()
    exporter: Exporter | None = None
    has_kernel: HasKernel | None = None


NOTHING_KNOWN = Knowledge()


class RecordedGraph:
    """One model under one run.

    Attributes:
        seen: tensors (by id) whose facts were asked for since the last `forget`.
        traced: tensors (by id) whose producer or declaration was asked for since then.
        counted: tensors (by id) whose readers were asked for since then, with the count above which all are alike.
        doubts: why something was unknown, in order, since the last `forget`; pairs (reason, remedy).
        gained: tensors (by id) that rules have made outputs of the graph.
        absent: parts that were not found in the whole model, with the `novelty` of the index at that time.
        source, settings, exporter, has_kernel: as they were known.
    """

    def __init__(self, index: GraphIndex, known: Knowledge = NOTHING_KNOWN, facts: Facts | None = None) -> None:
        """`facts` are the facts of the graph, if they exist already."""
        self.index = index
        self.facts = Facts(index, known.overridable) if facts is None else facts
        self.source = known.source
        self.exporter = known.exporter or exporter_of(index.graph, known.source)
        self.settings = known.settings or {}
        self.has_kernel = known.has_kernel
        self.seen: dict[int, gs.Tensor] = {}
        self.traced: dict[int, gs.Tensor] = {}
        self.counted: dict[tuple[int, int], gs.Tensor] = {}
        self.doubts: list[tuple[str, str]] = []
        self.gained: dict[int, gs.Tensor] = {}
        self.absent: dict[str, int] = {}

    def forget(self) -> None:
        if self.seen:
            self.seen = {}
        if self.traced:
            self.traced = {}
        if self.counted:
            self.counted = {}
        if self.doubts:
            self.doubts = []

    def doubt(self, reason: str, remedy: str = "") -> Any:
        """Records why an answer is unknown, and is that answer."""
        self.doubts.append((reason, remedy))
        return UNKNOWN

    def see(self, tensor: gs.Tensor) -> None:
        self.seen[id(tensor)] = tensor

    def count(self, tensor: gs.Tensor, most: int = sys.maxsize) -> None:
        """Notes that the readers of a tensor were asked for. All numbers above `most` count as one answer."""
        self.counted[id(tensor), most] = tensor

    # --- facts -------------------------------------------------------------------------------------------------------------

    def shape(self, tensor: gs.Tensor) -> Any:
        """List of ints, `Symbol`s and UNKNOWN; just UNKNOWN if the rank is unknown."""
        self.see(tensor)
        found = self.facts.shape(tensor)
        if found is None:
            return self.doubt(
                f"rank of {label(tensor)} is unknown", "run shape inference, or declare the shapes of the graph's inputs"
            )
        return [_dim(d) for d in found]

    def rank(self, tensor: gs.Tensor) -> Any:
        found = self.shape(tensor)
        return found if found is UNKNOWN else len(found)

    def dtype(self, tensor: gs.Tensor) -> Any:
        self.see(tensor)
        found = self.facts.dtype(tensor)
        return self.doubt(f"element type of {label(tensor)} is unknown") if not found else DType(found)

    def declared(self, tensor: gs.Tensor) -> tuple[Any, Any]:
        """(element type, shape) as the file declares them, not as they are inferred; UNKNOWN if it does not declare them."""
        self.traced[id(tensor)] = tensor
        dtype, shape = self.facts.declared(tensor)
        return (
            DType(dtype) if dtype else self.doubt(f"{label(tensor)} has no declared element type"),
            self.doubt(f"{label(tensor)} has no declared shape") if shape is None else [_dim(d) for d in shape],
        )

    def value(self, tensor: gs.Tensor) -> Any:
        """Partially known integers: a number for rank 0, a list for rank 1."""
        self.see(tensor)
        found = self.facts.value(tensor)
        if found is None:
            return self.doubt(f"value of {label(tensor)} is unknown")
        items = [_dim(d) for d in found.items]
        return items if found.shape else items[0]

    def is_constant(self, tensor: gs.Tensor) -> bool:
        self.see(tensor)
        return self.facts.is_constant(tensor)

    def array(self, tensor: gs.Tensor) -> np.ndarray[Any, Any]:
        """The values of a compile-time constant. Raises Failure when the tensor is none."""
        self.see(tensor)
        found = self.facts.constant(tensor)
        if found is None:
            raise Failure(f"{label(tensor)} is not a compile-time constant")
        return found

    def producer(self, tensor: gs.Tensor) -> gs.Node | None:
        self.traced[id(tensor)] = tensor
        return self.index.producer(tensor)

    def uses(self, tensor: gs.Tensor) -> list[gs.Node]:
        self.count(tensor)
        return self.index.uses(tensor)

    def use_count(self, tensor: gs.Tensor, most: int = sys.maxsize) -> int:
        """The number of readers of a tensor, to be compared with numbers below `most` or equal to it."""
        self.count(tensor, most)
        return self.index.use_count(tensor)

    # --- the model ---------------------------------------------------------------------------------------------------------

    def opset(self, node: gs.Node | None, domain: str = "") -> Any:
        """Version of a domain in the scope of `node` (the main graph without one).

        If ONNX's own domain is not imported, its version is unknown. Any other domain that is not imported has version 0.
        """
        scope = self.index.scopes[0] if node is None else self.index.scope(node)
        found = scope.opsets.get(domain, 0 if domain else None)
        return self.doubt(f"the model imports no opset of domain {domain!r}") if found is None else found

    @property
    def subject(self) -> GuardedModel:
        """The facts that decide which rules are meant for this model."""
        opsets = {version for scope in self.index.scopes if (version := scope.opsets.get("")) is not None}
        ir_version = getattr(self.index.graph, "ir_version", None)
        return GuardedModel(self.exporter, ir_version, opsets, self.source is not None)

    @property
    def ir_version(self) -> Any:
        return getattr(self.index.graph, "ir_version", None) or UNKNOWN

    def refused(self, nodes: Iterable[gs.Node]) -> Any:
        """Whether the installed runtime has no kernel for one of these nodes; True if no runtime is to be used."""
        if self.has_kernel is None:
            return True
        from rewriter.core.facts.single_node import single_node

        is_known = True
        for node in nodes:
            for tensor in node.inputs:
                self.see(tensor)
            model = single_node(node, self.facts, self.index.scope(node))
            answer = None if model is None else self.has_kernel(model)
            if answer is False:
                return True
            is_known = is_known and answer is not None
        remedy = "install ONNX Runtime, or name it as the target: --target onnxruntime"
        return False if is_known else self.doubt("whether the runtime has a kernel for it is unknown", remedy)

    # --- the framework's own file --------------------------------------------------------------------------------------------

    def source_key(self, node: gs.Node) -> Any:
        """The node's name in the source information, or UNKNOWN."""
        remedy = "pass the framework's own file: --source model-symbol.json, or a JSON/CSV table keyed by node name"
        if self.source is None:
            return self.doubt(f"no source information for {label(node)}", remedy)
        key = self.source.node_for(node.name, [tensor.name for tensor in node.outputs])
        return self.doubt(f"{label(node)} is not in the source information", remedy) if key is None else key


def _dim(dim: int | str | None) -> Any:
    return UNKNOWN if dim is None else Symbol(dim) if isinstance(dim, str) else dim


def label(part: gs.Tensor | gs.Node) -> str:
    """How messages call a part of the model."""
    if isinstance(part, gs.Node):
        return (
            f"node {part.name!r}"
            if part.name
            else f"{part.op} node making {part.outputs[0].name!r}"
            if part.outputs
            else f"{part.op} node"
        )
    return f"tensor {part.name!r}"
