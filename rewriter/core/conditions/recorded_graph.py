"""The facts about the graph of a run, with a record of the facts that rules asked for; also the fields of a node and of the
model, as conditions name them: `n.axis`, `model.unsorted_nodes`.

The record has two uses. Roots whose rules asked about a tensor are tried again when that tensor changes. The audit shows an
unanswered question as the reason why a rule did not fire.

An attribute has its effective value: the node's own, else the schema's default, else the default in the operator's text.
The last group is missing in `onnx.defs`, which has no default for pads, strides, dilations, perm, kernel_shape and group
sizes whose default depends on the operands. The code that finds a fault of the model is outside of the core, next to the code
that repairs it (`core.whole_model`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, DType, Failure, Marker, Symbol
from rewriter.core.facts.facts import Facts
from rewriter.core.framework.exporter import Exporter, GuardedModel, exporter_of
from rewriter.core.graph.attributes import node_texts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.values import elem_type
from rewriter.core.language import schema
from rewriter.core.language.functions import FAULTS
from rewriter.core.record import record
from rewriter.core.whole_model import repairs

if TYPE_CHECKING:
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
            unreadable = self.facts.is_constant(tensor)
            raise Failure(
                f"{label(tensor)} {'has data that cannot be read' if unreadable else 'is not a compile-time constant'}"
            )
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

    def node_field(self, node: gs.Node, name: str) -> Any:
        """The value of a label's field: one of the node's own lists and texts, else an attribute."""
        if name == "inputs":
            return [tensor if tensor.name else ABSENT for tensor in node.inputs]
        if name == "outputs":
            return list(node.outputs)
        if name == "op":
            return node.op
        if name == "doc_string":
            return node_texts(node).doc_string
        return effective(self, node, name)

    def model_field(self, name: str) -> Any:
        """The value of `model.NAME`; for a fault, the list of the parts that have it."""
        if name == "ir_version":
            return self.ir_version
        if name == "opset":
            return self.opset(None)
        if name == "outputs":
            return [tensor.name for tensor in self.index.graph.outputs]
        if name in FAULTS:
            return find(name, self)
        if name == "least_ir_version":
            return least_ir_version(self)
        found = getattr(self.index.graph, MODEL_TEXTS.get(name, name), None)
        return found if isinstance(found, str) else self.doubt(f"model.{name} is not known")

    # --- the framework's own file --------------------------------------------------------------------------------------------

    def source_key(self, node: gs.Node) -> Any:
        """The node's name in the source file, or UNKNOWN."""
        remedy = "pass the framework's own file: --source model-symbol.json, or a JSON/CSV table keyed by node name"
        if self.source is None:
            return self.doubt(f"no source file describes {label(node)}", remedy)
        key = self.source.node_for(node.name, [tensor.name for tensor in node.outputs])
        return self.doubt(f"{label(node)} is not in the source file", remedy) if key is None else key


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


def explicit(node: gs.Node, name: str) -> Any:
    """The attribute as the node states it, ABSENT when it does not."""
    found = node.attrs.get(name, ABSENT)
    return read(found)


def read(value: Any) -> Any:
    """An attribute value of the graph as a value of the language: tensors as arrays, tuples as lists."""
    from rewriter.core.graph.objects import constant_array

    if isinstance(value, gs.Constant):
        return constant_array(value)
    return list(value) if isinstance(value, tuple) else value


def effective(context: RecordedGraph, node: gs.Node, name: str) -> Any:
    """Explicit value, schema default or computed default; ABSENT if there is none, UNKNOWN if it cannot be determined."""
    found = explicit(node, name)
    if isinstance(found, gs.Node.AttributeRef):
        return context.doubt(f"attribute {name} of {label(node)} depends on the caller of the function")
    if found is not ABSENT:
        return found
    domain = node.domain or ""
    version = context.index.scope(node).opsets.get(domain, context.index.scope(node).opsets.get("", 1))
    default = schema.effective_default(node.op, domain, version, name)
    if default is not None:
        return list(default) if isinstance(default, tuple) else default
    compute = COMPUTED.get(name)
    if compute is None or schema.computed_default(node.op, domain, name) is None:
        return ABSENT
    return compute(context, node)


def _spatial(context: RecordedGraph, node: gs.Node) -> Any:
    """Number of spatial axes of a convolution or pooling; UNKNOWN when the rank is."""
    kernel = node.attrs.get("kernel_shape")
    if isinstance(kernel, list | tuple):
        return len(kernel)
    rank = context.rank(node.inputs[0]) if node.inputs else UNKNOWN
    return UNKNOWN if isinstance(rank, Marker) else max(rank - 2, 0)


def _repeat(item: int, times: int) -> Callable[[RecordedGraph, gs.Node], Any]:
    def compute(context: RecordedGraph, node: gs.Node) -> Any:
        if item == 0 and node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", ""):
            return context.doubt(f"pads of {label(node)} depend on auto_pad")
        axes = _spatial(context, node)
        return axes if axes is UNKNOWN else [item] * (axes * times)

    return compute


def _perm(context: RecordedGraph, node: gs.Node) -> Any:
    rank = context.rank(node.inputs[0]) if node.inputs else UNKNOWN
    return UNKNOWN if isinstance(rank, Marker) else list(range(rank))[::-1]


def _kernel(context: RecordedGraph, node: gs.Node) -> Any:
    shape = context.shape(node.inputs[1]) if len(node.inputs) > 1 else UNKNOWN
    return UNKNOWN if isinstance(shape, Marker) else shape[2:]


COMPUTED: dict[str, Callable[[RecordedGraph, gs.Node], Any]] = {
    **{name: _repeat(item, times) for name, (item, times) in schema.DEFAULTS_PER_AXIS.items()},
    "perm": _perm,
    "kernel_shape": _kernel,
}


# The format version that a model needs for the parts that it uses (onnx.proto names the ir_version that brought each part).

LEAST = 3
"""Below it models have no opset imports."""

_TYPES: Mapping[int, tuple[str, ...]] = {
    4: ("BFLOAT16",),
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("UINT4", "INT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("UINT2", "INT2"),
}
_BY_TYPE: Mapping[int, int] = {
    getattr(onnx.TensorProto, name): version
    for version, names in _TYPES.items()
    for name in names
    if hasattr(onnx.TensorProto, name)
}
_BY_KIND: Mapping[str, int] = {"sparse_tensor_type": 8, "optional_type": 8}


def least_ir_version(context: RecordedGraph) -> int:
    """The lowest ir_version whose format has all that this model computes with; metadata of nodes are read over by older
    programs.
    """
    return max((*_of_graph(context.index), *_of_tensors(context.index)), default=LEAST)


def _of_graph(index: GraphIndex) -> Iterator[int]:
    graph = index.graph
    if isinstance(graph, Graph):
        if not all(getattr(tensor, "listed", False) for tensor in graph.initializers):
            yield 4
        if graph.origin.annotations:
            yield 5
        if graph.origin.sparse:
            yield 6
    for function in getattr(graph, "functions", ()):
        defaults = any(value is not None for value in (function.attrs or {}).values())
        yield 10 if getattr(function, "overload", "") else 9 if defaults else 8


def _of_tensors(index: GraphIndex) -> Iterator[int]:
    for scope in index.scopes:
        nodes = (tensor for node in index.nodes_of(scope) for tensor in (*node.inputs, *node.outputs))
        for tensor in (*scope.graph.inputs, *scope.graph.outputs, *nodes):
            yield _BY_TYPE.get(elem_type(tensor) or 0, LEAST)
            yield _BY_KIND.get(str(getattr(tensor, "type", None)), LEAST)


MODEL_TEXTS = {
    "producer_name": "producer_name", "producer_version": "producer_version", "name": "name", "doc_string": "model_doc_string",
}  # fmt: skip
"""The attributes of the graph with the texts that rules read and write as `model.doc_string`."""

LASTING = frozenset({"repeated_nodes", "repeated_tensors", "unsorted_nodes", "unnamed_nodes", "odd_names", "missing_imports"})
"""Faults that only new parts can cause: a model without them stays without them as long as nodes are only removed or read other
existing tensors.
"""


def find(name: str, context: RecordedGraph) -> list[str]:
    """The parts of the model that have a fault; one that can only have come with something new is not looked for again until
    something new came.
    """
    novelty = context.index.novelty
    if context.absent.get(name) == novelty:
        return []
    found = repairs().find(name, context)
    if not found and name in LASTING:
        context.absent[name] = novelty
    return found
