"""What a step from one version of an operator domain to the next means for a node, and operators written out in others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import written_names
from rewriter.core.language import schema
from rewriter.core.language.operator_traits import having, of_form
from rewriter.core.language.schema import Formal, Operator
from rewriter.core.onnxfile.tensors import encode
from rewriter.core.rewriting.inline import inline_function
from rewriter.core.rewriting.transaction import Rewriting

# Operators that an older version lacks, written out in others: as the body by which ONNX itself defines them.


def has_body(op: str, version: int) -> bool:
    """Whether ONNX defines an operator by others that a version has."""
    schema: Any = onnx.defs.get_schema(op, version, "")
    return bool(schema.has_function or schema.has_context_dependent_function)


def write_out(index: GraphIndex, overridable: Collection[str], nodes: Sequence[gs.Node], version: int) -> list[gs.Node]:
    """Puts bodies in the place of nodes, whose operators have some in this version; those that stay where they are.

    A body depends on what is known of the operands, and one that holds subgraphs is not written out.
    """
    facts = Facts(index, overridable)
    context = Context(index, facts=facts)
    edits = Edits(index)
    left = []
    for node in nodes:
        function = _body(node, version, facts)
        if function is None:
            left.append(node)
            continue
        inline_function(Rewriting(context, edits, Bindings({}, {}), node, {}, index.scope(node)), node, function)
    edits.sweep(())
    index.finish()
    return left


def _body(node: gs.Node, version: int, facts: Facts) -> gs.Function | None:
    """The body of a node as a local function; None where there is none for these operands."""
    schema: Any = onnx.defs.get_schema(node.op, version, "")
    if any(isinstance(value, gs.Node.AttributeRef | gs.Graph) for value in node.attrs.values()):
        return None
    of = schema.function_opset_versions if schema.has_function else schema.context_dependent_function_opset_versions
    fitting = max((one for one in of if one <= version), default=None)
    if fitting is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(fitting)
    else:
        types = [encode(facts.fact(tensor).type) for tensor in node.inputs]
        if any(tensor.name and not known for tensor, known in zip(node.inputs, types, strict=True)):
            return None
        inputs, outputs = ([tensor.name for tensor in side] for side in (node.inputs, node.outputs))
        message = onnx.helper.make_node(node.op, inputs, outputs, **node.attrs)
        data = schema.get_context_dependent_function_with_opset_version(fitting, message.SerializeToString(), types)
    function = onnx.FunctionProto.FromString(data)
    attributes = [attribute for inner in function.node for attribute in inner.attribute]
    if not function.node or any(attribute.type == onnx.AttributeProto.GRAPH for attribute in attributes):
        return None
    for attribute in attributes:
        if attribute.ref_attr_name and not attribute.type:  # some bodies leave it out
            attribute.type = int(schema.attributes[attribute.ref_attr_name].type)
    function.attribute_proto.extend(a.default_value for a in schema.attributes.values() if a.default_value.name)
    found: gs.Function = Model.from_proto(onnx.ModelProto(ir_version=10, functions=[function])).graph.functions[0]
    return found


OLDER = "older"
NEWER = "newer"
"""Domains in which nodes wait for a rule while a step is done: their meaning is that of the version before, or after it."""

_AXES = of_form("arg", "reduction", "concat", "flatten", "slice", "split", "squeeze", "unsqueeze") | having("flattens")

CHANGED: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        **{(op, 13): "it goes along one axis, and went over all axes from it on" for op in having("flattens")},
        ("AveragePool", 19): "where the last window lies when the size is rounded up",
        ("BatchNormalization", 7): "when it trains",
        ("BatchNormalization", 14): "what its further outputs are",
        ("Clip", 11): "what the bounds are that are not given",
        ("ConvTranspose", 11): "where auto_pad puts an odd row",
        ("DFT", 20): "which axis is transformed where none is given",
        ("Dropout", 7): "when it trains",
        ("Dropout", 10): "the element type of its mask",
        ("GRU", 3): "a word of its direction",
        ("GridSample", 20): "the names of the modes",
        ("GroupNormalization", 21): "scale and bias are of channels, and were of groups",
        ("OneHot", 11): "negative indices count from the end, and were off",
        ("PRelu", 7): "which axes a slope is for",
        ("Resize", 11): "coordinates, and how they are told",
        ("Resize", 13): "tf_half_pixel_for_nn is gone, and the region may be left out",
        ("RoiAlign", 16): "where pixels are",
        ("Scan", 9): "the batch dimension",
        ("Split", 18): "the number of parts is told where their sizes are not",
    }
)
"""Steps, by operator and the version that begins with them, that change the meaning of nodes which both versions accept."""

WIDENED: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        **{(op, v): "operands broadcast" for op in of_form("broadcast") for v in schema.versions(op) if v in (7, 8)},
        **{(op, 11): "axes may be negative" for op in _AXES | {"Compress"}},
        **{(op, 13): "parameters may be one for each index of an axis" for op in ("QuantizeLinear", "DequantizeLinear")},
        **{(op, 18): "reductions max and min" for op in ("ScatterElements", "ScatterND")},
        **{(op, 7): "whether all steps are given out" for op in ("GRU", "LSTM", "RNN")},
        ("Constant", 9): "tensors of other types than floating-point numbers",
        ("Dropout", 12): "the mask where it does not train",
        ("Gather", 11): "axis and indices may be negative",
        ("Gemm", 7): "the bias broadcasts",
        ("GridSample", 20): "volumes",
        ("Mod", 28): "floating-point numbers with fmod=0",
        ("Pad", 19): "mode wrap",
        ("Resize", 19): "half_pixel_symmetric",
        ("ScatterElements", 11): "it was called Scatter",
    }
)
"""Steps after which an operator can say more: nodes keep their meaning on the way up, and may lose it on the way down."""

DEFAULTS_BEFORE: Mapping[tuple[str, str], Any] = MappingProxyType({("Concat", "axis"): 1})
"""What the absence of an attribute meant before it became required."""


MEANINGLESS = ("consumed_inputs",)
"""Attributes that say nothing of what is computed."""


def stepped(before: int, after: int, domain: str = "") -> frozenset[str]:
    """The operators that have a version of their own at the later of two neighbouring versions of a domain."""
    return _stepped(max(before, after), domain)


@cache
def _stepped(version: int, domain: str) -> frozenset[str]:
    return frozenset(op for op in schema.operators(domain) if version in schema.versions(op, domain))


def keeps(node: gs.Node, before: int, after: int, domain: str = "") -> bool:
    """Whether a node means the same in two versions of its domain, as it is written; element types are not looked at."""
    low, high = sorted((before, after))
    steps = [since for since in schema.versions(node.op, domain) if low < since <= high]
    if before > after:
        steps.reverse()
    return all(_keeps_step(node, since - 1, since, domain) if after > before else _keeps_step(node, since, since - 1, domain)
               for since in steps)  # fmt: skip


def _keeps_step(node: gs.Node, before: int, after: int, domain: str) -> bool:
    old, new = schema.schema(node.op, domain, before), schema.schema(node.op, domain, after)
    if old is None or new is None or new.deprecated:
        return old is new
    step = node.op, max(before, after)
    if not domain and (step in CHANGED or (after < before and step in WIDENED)):
        return False
    return (
        _reads_alike(frozenset(written_names(node)), old, new)
        and _fit(node.inputs, new.inputs)
        and _fit(node.outputs, new.outputs)
    )


def _reads_alike(written: Collection[str], old: Operator, new: Operator) -> bool:
    """Whether attributes say the same in two versions: those that are written, and the defaults of the others."""
    for name, attribute in new.attributes.items():
        before = old.attributes.get(name)
        if name in written:
            if before is not None and before.kind != attribute.kind:
                return False
        elif attribute.required or (before is not None and before.default != attribute.default):
            return False
    return all(name in new.attributes for name in written)


def _fit(tensors: Sequence[gs.Tensor], formals: Sequence[Formal]) -> bool:
    """Whether operands, or results, are as many as a version has; what came to be optional or is left out counts."""
    used = max((i + 1 for i, tensor in enumerate(tensors) if tensor.name), default=0)
    if formals and formals[-1].variadic:
        formals = formals[:-1]
    elif used > len(formals):
        return False
    given = [i < used and bool(tensors[i].name) for i in range(len(formals))]
    return all(there or formal.optional for there, formal in zip(given, formals, strict=True))


def settled_attributes(node: gs.Node, before: int, after: int) -> dict[str, Any]:
    """Attributes of a node that is about to change its version, with their new values, None for those that go.

    A default that the other version does not have is written; an attribute that the older version lacks goes where it has the
    default with which it came, which is always what the operator did before.
    """
    old, new = schema.schema(node.op, "", before), schema.schema(node.op, "", after)
    if old is None or new is None:
        return {}
    settled: dict[str, Any] = {name: None for name in MEANINGLESS if name in node.attrs and name not in new.attributes}
    for name, attribute in old.attributes.items():
        there = new.attributes.get(name)
        default = DEFAULTS_BEFORE.get((node.op, name), attribute.default) if before < after else attribute.default
        if name in node.attrs:
            if there is None and before > after and _says_nothing(node, name, default):
                settled[name] = None
        elif default is not None and there is not None and there.default != default:
            settled[name] = default
    return settled


def _says_nothing(node: gs.Node, name: str, default: Any) -> bool:
    """Whether an attribute has its default, be it one that the specification tells in words."""
    value = node.attrs[name]
    if default is None and isinstance(value, list) and schema.computed_default(node.op, "", name) == "ones":
        return all(item == 1 for item in value)
    return bool(value == default)
