"""Instances made from models on which a rule fires: they get other lengths, contents, attributes and types.

Repairs need them above all: the models that they are for are ones that no schema would let a generator make. The models are the
rule's positive tests. A rule whose case cannot be written as a test, such as a note at a node, has recorded exports instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from rewriter.core.engine.compile import default_value
from rewriter.core.language import ast, schema
from rewriter.core.language.operator_traits import traits
from rewriter.core.language.rules import Rule
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import replace
from rewriter.trust.proof.instances.draft import Dims
from rewriter.trust.proof.instances.instance import MOST_ELEMENTS, Array, Instance, ir_version
from rewriter.trust.proof.instances.random_arrays import ANY, ROUGH, TAME, random_array
from rewriter.trust.rule_tests import read_model
from rewriter.trust.source.find import find

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_SHAPE_ATTRIBUTES = ("split", "shape", "kernel_shape")
_LENGTHS = (1, 2, 2, 3, 3, 4, 5, 6)


def tests_of(rule: Rule, *, positive: bool) -> list[ast.Test]:
    """The inline tests in which the rule fires, or those in which it must not."""
    return [test for test in rule.ast.tests if (test.after is not None) is positive]


def written_instance(rule: Rule, test: ast.Test) -> Instance:
    """The model of a test, exactly as written."""
    settings = {(rule.code, name): default_value(value) for name, value in test.settings}
    model = deepcopy(_read(test.before))
    return Instance(model, test.title, test.source, settings)


_read = lru_cache(maxsize=32)(read_model)  # tests of a rule are varied hundreds of times


def recorded_instance(path: Path) -> Instance:
    """The model of a recorded export, with the framework's own file next to it."""
    source = find(path)
    return Instance(onnx.load(path), str(path), None if source is None else source.read_text(encoding="utf-8"))


def seeded_instance(rule: Rule, seed: Instance, opsets: Iterable[int], dims: Dims) -> Instance:
    """A model, varied. Half of them keep operators, attributes and element types as they were."""
    model = deepcopy(seed.model)
    plain = dims.chance(0.5)
    lengths = _lengths(model.graph, dims)
    whole = dims.chance(0.4)  # lengths that belong together stay so: a kernel and its attribute, two shapes of one size
    resize(model.graph, lengths, (lambda likely: True) if whole else dims.chance)
    if not plain:
        if dims.chance(0.4):
            _retype(model.graph, dims)
        if dims.chance(0.5):
            _perturb(model.graph, dims)
    _contents(model.graph, dims)
    _move(model, sorted(opsets), dims)
    if rule.kind.name not in ("repair", "interface") or dims.chance(0.2):
        forget_output_shapes(model.graph)
    dimensions = (d for info in free_inputs(model.graph) for d in info.type.tensor_type.shape.dim)
    sizes = {d.dim_param: _LENGTHS[dims.below(len(_LENGTHS))] for d in dimensions if d.dim_param}
    return replace(seed, model=model, sizes=sizes, plain=plain)


# --- lengths -----------------------------------------------------------------------------------------------------------


def _infos(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """All declarations of tensors."""
    return [i for i in (*graph.input, *graph.output, *graph.value_info) if i.type.WhichOneof("value") == "tensor_type"]


def shapes(graph: onnx.GraphProto) -> list[list[int]]:
    """All declared shapes, and the shapes of initializers."""
    declared = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in _infos(graph)]
    return [*declared, *(list(t.dims) for t in graph.initializer)]


def _lengths(graph: onnx.GraphProto, dims: Dims) -> dict[int, int]:
    """Old length → new length. A length that is the product of others follows them, as a flattened size does."""
    known = shapes(graph)
    old = sorted({d for shape in known for d in shape if d > 0})
    new: dict[int, int] = {}
    for length in old:
        if length == 1:
            new[1] = 1 if dims.chance(0.93) else dims.draw(1)
        elif dims.chance(0.5):
            new[length] = _LENGTHS[dims.below(len(_LENGTHS))]
        else:
            new[length] = length
    for length in old:
        tails = [shape[k:] for shape in known for k in range(len(shape) - 1) if prod(shape[k:]) == length]
        factors = next((tail for tail in tails if all(0 < d < length for d in tail)), None)
        if factors is None and dims.chance(0.6):
            factors = _factors(length, [d for d in reversed(old) if 1 < d < length])
        if factors and dims.chance(0.85):
            new[length] = prod(new[d] for d in factors)
    return new


def _factors(length: int, known: Sequence[int]) -> list[int]:
    """Known lengths whose product is the length, preferably large ones; empty if there are none."""
    for at, factor in enumerate(known):
        if length == factor:
            return [factor]
        if length % factor == 0 and (others := _factors(length // factor, known[at:])):
            return [factor, *others]
    return []


def resize(graph: onnx.GraphProto, lengths: Mapping[int, int], chance: Callable[[float], bool]) -> None:
    """Replaces lengths in shapes, and in contents and attributes that may be shapes; `chance` decides with a probability."""
    if all(old == new for old, new in lengths.items()):
        return
    for info in _infos(graph):
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                dim.dim_value = lengths.get(dim.dim_value, dim.dim_value)
    for tensor in _constants(graph):
        array = onnx.numpy_helper.to_array(tensor)
        shape = tuple(lengths.get(d, d) for d in array.shape) if tensor.name else array.shape
        if prod(shape) > MOST_ELEMENTS:
            continue
        changed = np.resize(array, shape) if array.size else array
        if array.dtype == np.int64 and array.ndim <= 1 and chance(0.7):
            changed = np.vectorize(lambda v: lengths.get(int(v), v), otypes=[np.int64])(changed) if changed.size else changed
        _replace(tensor, np.asarray(changed, dtype=array.dtype))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _SHAPE_ATTRIBUTES and chance(0.7 if attribute.name != "kernel_shape" else 0.1):
                attribute.ints[:] = [lengths.get(v, v) for v in attribute.ints]


def _constants(graph: onnx.GraphProto) -> list[TensorProto]:
    inside = [a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute if a.name == "value"]
    return [*graph.initializer, *inside]


def _replace(tensor: TensorProto, array: Array) -> None:
    if tensor.data_type == TensorProto.STRING:
        return
    name = tensor.name
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))


# --- element types, attributes, contents -------------------------------------------------------------------------------


def _retype(graph: onnx.GraphProto, dims: Dims) -> None:
    """Another floating-point type, or another width of integers, everywhere."""
    new: dict[int, int] = {int(t): int(str(dims.pick(_FLOATS))) for t in _FLOATS}
    if dims.chance(0.3):
        new = {int(TensorProto.INT64): int(TensorProto.INT32), int(TensorProto.INT32): int(TensorProto.INT64)}
    for info in _infos(graph):
        kind = info.type.tensor_type
        kind.elem_type = new.get(kind.elem_type, kind.elem_type)
    for tensor in _constants(graph):
        if tensor.data_type in new and dims.chance(0.8):
            array = onnx.numpy_helper.to_array(tensor)
            with np.errstate(over="ignore", invalid="ignore"):  # a number that is too large for the other type is infinite
                _replace(tensor, array.astype(helper.tensor_dtype_to_np_dtype(new[tensor.data_type])))


def _perturb(graph: onnx.GraphProto, dims: Dims) -> None:
    """Another value for one attribute, or one attribute less."""
    places = [
        (node, a) for node in graph.node for a in node.attribute if a.type not in (AttributeProto.GRAPH, AttributeProto.TENSOR)
    ]
    if not places:
        return
    node, attribute = places[dims.below(len(places))]
    if dims.chance(0.25):
        node.attribute.remove(attribute)
    elif attribute.type == AttributeProto.INT:
        attribute.i = (
            attribute.i + int(dims.rng.integers(-2, 3)) if attribute.i not in (0, 1) or dims.chance(0.4) else 1 - attribute.i
        )
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        at = dims.below(len(attribute.ints))
        attribute.ints[at] = attribute.ints[at] + int(dims.rng.integers(-1, 3))
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = float(dims.rng.choice([0.0, 0.5, 1.0, 2.0, -1.0, attribute.f]))


def _contents(graph: onnx.GraphProto, dims: Dims) -> None:
    """Other weights, mostly; integers, single numbers and the scales of a Resize often decide shapes and stay more often than
    not. Equal weights stay equal, mostly.
    """
    drawn: dict[tuple[int, tuple[int, ...], bytes], Array] = {}
    deciding = {node.input[at] for node in graph.node for at in traits(node.op_type).deciding if at < len(node.input)}
    for tensor in _constants(graph):
        array = onnx.numpy_helper.to_array(tensor)
        often = 0.7 if array.size > 1 and tensor.name not in deciding else 0.2
        if tensor.data_type in _FLOATS and dims.chance(often) and not _is_special(array, dims):
            style = ROUGH if dims.chance(0.5) else TAME
            changed = random_array(dims.rng, tensor.data_type, array.shape, ANY, style)
            positive = array.size and bool(np.all(array >= 0))
            changed = np.abs(changed) + changed.dtype.type(0.25) if positive else changed
            equal = drawn.setdefault((tensor.data_type, array.shape, array.tobytes()), changed)
            _replace(tensor, equal if dims.chance(0.8) else changed)


def _is_special(array: Array, dims: Dims) -> bool:
    """All elements alike, as rules often ask: kept in most instances."""
    return bool(array.size) and bool(np.all(array == array.flat[0])) and dims.chance(0.6)


def _move(model: onnx.ModelProto, opsets: list[int], dims: Dims) -> None:
    """Another opset in which every operator is the same version of itself."""
    found = next((o for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if found is None or not opsets or dims.chance(0.5):
        return
    target = opsets[dims.below(len(opsets))]
    names = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
    for name in names:
        here, there = schema.schema(name, "", found.version), schema.schema(name, "", target)
        if (here and here.since) != (there and there.since):
            return
    found.version = target
    if model.ir_version >= 4:
        model.ir_version = max(model.ir_version, ir_version(target))


def forget_output_shapes(graph: onnx.GraphProto) -> None:
    """Leaves the shapes of the outputs to inference."""
    for info in graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
