"""What other tools and hands do to a right model, which leaves its numbers alone and takes away what a rule might rest on.

`apply` makes a `Variant` of a case, or None where the transform does not apply. A variant's model computes the outputs that
`outputs` lists: positions among the recorded ones, None for a tensor without recorded truth. Without `outputs` they are as
recorded.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import onnx
import onnxruntime
from cases import Case
from edits import (
    all_names,
    data_inputs,
    fresh_name,
    has_subgraphs,
    inner_info,
    inner_tensors,
    insert_after,
    insert_before_output,
    rename,
    shapeless,
    unlist,
)
from onnx import helper, numpy_helper, shape_inference, version_converter


@dataclass(frozen=True)
class Variant:
    """A changed model; `symbol` is the source file that goes with it."""

    model: onnx.ModelProto
    outputs: Sequence[int | None] | None
    symbol: str | None = None

    def unknown(self, reason: str) -> bool:
        """Whether this is about the values of an output without recorded truth: "output 1: differs by 0.5"."""
        found = re.match(r"output (\d+): (differs|NaN)", reason)
        return bool(found and self.outputs is not None and self.outputs[int(found.group(1))] is None)


Transform = Callable[[onnx.ModelProto, random.Random], "Sequence[int | None] | bool | None"]
"""Edits the model in place. True: done, outputs as before; a list: done, with these outputs; None or False: does not apply."""

TRANSFORMS: dict[str, Transform] = {}


def transform(function: Transform) -> Transform:
    TRANSFORMS[function.__name__.replace("_", "-")] = function
    return function


def apply(name: str, case: Case) -> Variant | None:
    """The case under the transform of this name."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    rng = random.Random(f"{name} {case.where}")
    outcome = TRANSFORMS[name](model, rng)
    if outcome is None or outcome is False:
        return None
    return Variant(model, None if outcome is True else outcome, case.symbol)


# names


@transform
def nodes_named(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Every node without a name gets one, as simplifiers and editors give it."""
    nameless = [node for node in model.graph.node if not node.name]
    taken = {node.name for node in model.graph.node}
    for k, node in enumerate(nameless):
        node.name = fresh_name(f"{node.op_type}_{k}", taken)
    return bool(nameless)


@transform
def nodes_unnamed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """No node has a name."""
    for node in model.graph.node:
        node.name = ""
    return True


@transform
def nodes_renamed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Every node is named after its operator and position."""
    for k, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{k}"
    return True


@transform
def tensors_renamed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Inner tensors, weights included, have numbers for names."""
    if has_subgraphs(model.graph):
        return False
    kept = {info.name for info in model.graph.input} - {init.name for init in model.graph.initializer}
    kept |= {info.name for info in model.graph.output} | {""}
    names = {name for node in model.graph.node for name in (*node.input, *node.output)} | {
        i.name for i in model.graph.initializer
    }
    numbers = (f"{k}" for k in count() if f"{k}" not in kept)
    rename(model.graph, {name: next(numbers) for name in sorted(names - kept)})
    return True


# nodes


@transform
def identity_first(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Identity reads the first input."""
    data = data_inputs(model.graph)
    return bool(data) and insert_after(model.graph, data[0], "Identity")


@transform
def identity_inside(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Identity stands between two nodes."""
    inner = inner_tensors(model.graph)
    return bool(inner) and insert_after(model.graph, rng.choice(inner), "Identity")


@transform
def identity_last(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Identity gives the first output."""
    return insert_before_output(model.graph, "Identity")


@transform
def flatten_last(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Flatten, of a matrix, gives the first output."""
    output = model.graph.output[0].type.tensor_type
    return (
        len(output.shape.dim) == 2
        and output.elem_type == onnx.TensorProto.FLOAT
        and insert_before_output(model.graph, "Flatten")
    )


@transform
def flatten_first(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Flatten reads an input that is a matrix."""
    shapes = {info.name: info.type.tensor_type for info in model.graph.input}
    for name in data_inputs(model.graph):
        if len(shapes[name].shape.dim) == 2 and shapes[name].elem_type == onnx.TensorProto.FLOAT:
            return insert_after(model.graph, name, "Flatten")
    return False


@transform
def scale_folded(model: onnx.ModelProto, rng: random.Random) -> bool:
    """The scale of a BatchNormalization takes in a factor that a Mul behind it takes out."""
    values = {init.name: init for init in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == "BatchNormalization" and len(node.output) == 1]
    nodes = [node for node in nodes if all(name in values for name in node.input[1:3])]
    if not nodes:
        return False
    taken = all_names(model.graph)
    for node in nodes:
        for place in (1, 2):
            value = numpy_helper.to_array(values[node.input[place]])
            name = fresh_name("folded", taken)
            model.graph.initializer.append(numpy_helper.from_array((value * 2).astype(value.dtype), name))
            node.input[place] = name
        half = fresh_name("half", taken)
        model.graph.initializer.append(numpy_helper.from_array(np.array([0.5], value.dtype), half))
        inner, node.output[0] = node.output[0], fresh_name("scaled", taken)
        place = list(model.graph.node).index(node)
        model.graph.node.insert(place + 1, helper.make_node("Mul", [node.output[0], half], [inner]))
    return True


@transform
def constants_as_nodes(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Initializers become unnamed Constant nodes."""
    if not model.graph.initializer:
        return False
    nodes = [helper.make_node("Constant", [], [init.name], value=init) for init in model.graph.initializer]
    names = {init.name for init in model.graph.initializer} & {info.name for info in model.graph.output}
    if names:
        return False
    unlist(model)
    rest = list(model.graph.node)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend([*nodes, *rest])
    return True


@transform
def weights_unlisted(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Weights are no inputs any more."""
    before = len(model.graph.input)
    unlist(model)
    return len(model.graph.input) < before


@transform
def onnxruntime_basic(model: onnx.ModelProto, rng: random.Random) -> bool:
    """What ONNX Runtime writes after its basic optimizations."""
    return written_by_onnxruntime(model, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)


def written_by_onnxruntime(model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel) -> bool:
    """Replace the model by what ONNX Runtime writes after its optimizations; False where it refuses the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = level
        options.optimized_model_filepath = path
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:
            return False
        model.CopyFrom(onnx.load(path))
    return True


@transform
def opset_raised(model: onnx.ModelProto, rng: random.Random) -> bool:
    """What onnx's version converter makes of it at a later opset."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    later = [number for number in (9, 11, 13, 15, 17, 18, 21) if number > opset]
    if not later or opset < 7:
        return False
    try:
        model.CopyFrom(version_converter.convert_version(model, rng.choice(later)))
    except Exception:
        return False
    return True


@transform
def opset_stamped(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Another opset is imported and no node changed, as by hand; it counts where the model still computes the same."""
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            others = [number for number in (7, 9, 10, 11, 13, 15, 17, 18, 21) if number != entry.version]
            entry.version = rng.choice(others)
            return True
    return False


@transform
def weights_listed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Weights are inputs as well, as up to IR version 3."""
    known = {info.name for info in model.graph.input}
    unlisted = [init for init in model.graph.initializer if init.name not in known]
    for init in unlisted:
        model.graph.input.append(helper.make_tensor_value_info(init.name, init.data_type, list(init.dims)))
    return bool(unlisted)


# what is declared


@transform
def inner_undeclared(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Inner tensors and outputs have no shapes."""
    del model.graph.value_info[:]
    for info in model.graph.output:
        shapeless(info)
    return True


@transform
def inputs_undeclared(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Nothing has a shape but the weights."""
    weights = {init.name for init in model.graph.initializer}
    for info in model.graph.input:
        if info.name not in weights:
            shapeless(info)
    return inner_undeclared(model, rng) is True


@transform
def dimensions_named(model: onnx.ModelProto, rng: random.Random) -> bool:
    """The inputs' dimensions are names, as in an export with dynamic shapes."""
    weights, numbers = {init.name for init in model.graph.initializer}, count()
    for info in model.graph.input:
        if info.name not in weights:
            for dim in info.type.tensor_type.shape.dim:
                dim.dim_param = f"d{next(numbers)}"
    return inner_undeclared(model, rng) is True


@transform
def shapes_inferred(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Every shape that onnx can infer is declared."""
    try:
        model.CopyFrom(shape_inference.infer_shapes(model))
    except Exception:
        return False
    return True


@transform
def unsigned(model: onnx.ModelProto, rng: random.Random) -> bool:
    """No tool's name stands in it."""
    model.producer_name = model.producer_version = model.domain = model.doc_string = ""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    del model.metadata_props[:]
    return True


@transform
def graph_renamed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """The graph has another name."""
    model.graph.name = rng.choice(["graph", "net", "main_graph", "torch_jit", "model"])
    return True


@transform
def signed_over(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Another tool has signed it."""
    model.producer_name = rng.choice(["onnx-simplifier", "onnxruntime.transformers", "onnx.quantize", "onnx.compose", "custom"])
    model.producer_version = "1.0"
    return True


@transform
def unknown_origin(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Neither a tool's name nor its graph's name nor its nodes' names are left."""
    return bool(unsigned(model, rng) and graph_renamed(model, rng) and nodes_unnamed(model, rng))


# outputs


@transform
def output_added(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """An inner tensor is an output besides."""
    info = inner_info(model, rng)
    if info is None:
        return None
    known = len(model.graph.output)
    model.graph.output.append(info)
    return [*range(known), None]


@transform
def output_added_first(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """An inner tensor is the first output."""
    info = inner_info(model, rng)
    if info is None:
        return None
    known = list(model.graph.output)
    del model.graph.output[:]
    model.graph.output.extend([info, *known])
    return [None, *range(len(known))]


@transform
def output_inside(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """The model ends at an inner tensor; later nodes stay."""
    info = inner_info(model, rng)
    if info is None:
        return None
    del model.graph.output[:]
    model.graph.output.append(info)
    return [None]


@transform
def cut_inside(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """The model ends at an inner tensor, and what it does not need is gone."""
    if output_inside(model, rng) is None or has_subgraphs(model.graph):
        return None
    needed, kept = {model.graph.output[0].name}, []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    weights = [init for init in model.graph.initializer if init.name in needed]
    names = {init.name for init in model.graph.initializer}
    listed = [info for info in model.graph.input if info.name in needed or info.name not in names]
    kept.reverse()
    del model.graph.node[:], model.graph.initializer[:], model.graph.input[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(weights)
    model.graph.input.extend(listed)
    return [None]


@transform
def outputs_reversed(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """The outputs stand in the other order."""
    known = list(model.graph.output)
    if len(known) < 2:
        return None
    del model.graph.output[:]
    model.graph.output.extend(reversed(known))
    return list(range(len(known)))[::-1]


@transform
def output_dropped(model: onnx.ModelProto, rng: random.Random) -> Sequence[int | None] | None:
    """One of several outputs is left."""
    known = list(model.graph.output)
    if len(known) < 2:
        return None
    chosen = rng.randrange(len(known))
    del model.graph.output[:]
    model.graph.output.append(known[chosen])
    return [chosen]
