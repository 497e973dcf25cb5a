"""More of what other tools do to a model that keeps its numbers: they read it and write it their way.

The transforms join those of transforms.py. Simplifiers that are not installed do not apply.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import random
import tempfile

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime
from edits import all_nodes, has_subgraphs, inner_tensors, insert_after
from onnx import helper, numpy_helper, version_converter
from transforms import transform, written_by_onnxruntime

import rewriter
from rewriter.core.errors import RewriterError
from rewriter.workbench.surgery.opset_conversion import convert_opset

SECONDS = 60.0


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _by_tool(model: onnx.ModelProto, module: str, function: str) -> bool:
    """What a simplifier makes of it; False where it is not installed or fails. It has a process of its own: some crash."""
    if importlib.util.find_spec(module) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "model.onnx")
        child = multiprocessing.get_context("fork").Process(target=_simplify, args=(model, module, function, target))
        child.start()
        child.join(SECONDS)
        if child.is_alive():
            child.kill()
            child.join()
        if child.exitcode:
            return False
        model.CopyFrom(onnx.load(target))
    return True


def _simplify(model: onnx.ModelProto, module: str, function: str, target: str) -> None:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    made = getattr(importlib.import_module(module), function)(model)
    onnx.save(made[0] if isinstance(made, tuple) else made, target)


@transform
def onnxsim(model: onnx.ModelProto, rng: random.Random) -> bool:
    """onnxsim folds, fuses and drops what is dead."""
    return _by_tool(model, "onnxsim", "simplify")


@transform
def onnxslim(model: onnx.ModelProto, rng: random.Random) -> bool:
    """OnnxSlim folds, fuses and drops what is dead."""
    return _by_tool(model, "onnxslim", "slim")


@transform
def onnxoptimizer(model: onnx.ModelProto, rng: random.Random) -> bool:
    """onnxoptimizer's default passes."""
    return _by_tool(model, "onnxoptimizer", "optimize")


@transform
def onnxruntime_extended(model: onnx.ModelProto, rng: random.Random) -> bool:
    """What ONNX Runtime writes after its extended optimizations, with operators of its own."""
    return written_by_onnxruntime(model, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


@transform
def graphsurgeon(model: onnx.ModelProto, rng: random.Random) -> bool:
    """graphsurgeon reads it, cleans it up, sorts it and writes it."""
    try:
        model.CopyFrom(gs.export_onnx(gs.import_onnx(model).cleanup().toposort()))
    except Exception:
        return False
    return True


@transform
def optimized(model: onnx.ModelProto, rng: random.Random) -> bool:
    """`rewriter optimize` has been there."""
    made = rewriter.Model.from_proto(model)
    rewriter.rewrite(made.graph, rewriter.load_rules().select(["OPTIMIZE"]))
    model.CopyFrom(made.to_proto())
    return True


@transform
def opset_converted(model: onnx.ModelProto, rng: random.Random) -> bool:
    """`rewriter opset` has been there, up or down."""
    made = rewriter.Model.from_proto(model)
    try:
        convert_opset(made, rng.choice([number for number in (9, 10, 11, 12, 13, 16, 18, 21) if number != _opset(model)]))
    except RewriterError:
        return False
    model.CopyFrom(made.to_proto())
    return True


@transform
def opset_lowered(model: onnx.ModelProto, rng: random.Random) -> bool:
    """What onnx's version converter makes of it at an earlier opset."""
    earlier = [number for number in (9, 10, 11, 12, 13, 15, 17) if number < _opset(model)]
    if not earlier:
        return False
    try:
        model.CopyFrom(version_converter.convert_version(model, rng.choice(earlier)))
    except Exception:
        return False
    return True


@transform
def ir_version_raised(model: onnx.ModelProto, rng: random.Random) -> bool:
    """A later IR version is stamped."""
    model.ir_version = max(model.ir_version + 1, rng.choice([8, 9, 10]))
    return True


@transform
def texts_stripped(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Declared inner types, descriptions and metadata are gone; the signature stays."""
    del model.graph.value_info[:], model.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    for node in all_nodes(model.graph):
        node.doc_string = ""
        del node.metadata_props[:]
    return True


@transform
def prefixed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """onnx.compose puts a prefix before each inner name, as it does before it merges."""
    ends = {info.name for info in (*model.graph.input, *model.graph.output)}
    try:
        made = onnx.compose.add_prefix(model, "a/", rename_inputs=False, rename_outputs=False)
    except Exception:
        return False
    if ends != {info.name for info in (*made.graph.input, *made.graph.output)}:
        return False
    model.CopyFrom(made)
    return True


@transform
def identities_inside(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An unnamed Identity stands behind every third inner tensor."""
    inner = inner_tensors(model.graph)
    for name in rng.sample(inner, (len(inner) + 2) // 3):
        insert_after(model.graph, name, "Identity")
    return bool(inner)


@transform
def defaults_written(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Attributes that a node leaves to the operator's default are written down."""
    written = 0
    for node in all_nodes(model.graph):
        if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
            continue
        try:
            schema = onnx.defs.get_schema(node.op_type, _opset(model))
        except onnx.defs.SchemaError:
            continue
        known = {attribute.name for attribute in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in known and attribute.default_value.name and attribute.default_value.type:
                node.attribute.append(attribute.default_value)
                written += 1
    return written > 0


@transform
def defaults_dropped(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Attributes that say what the operator's default says are left out."""
    dropped = 0
    for node in all_nodes(model.graph):
        try:
            schema = onnx.defs.get_schema(node.op_type, _opset(model), node.domain)
        except onnx.defs.SchemaError:
            continue
        for attribute in list(node.attribute):
            known = schema.attributes.get(attribute.name)
            zeros = attribute.name == "pads" and not any(attribute.ints)
            ones = attribute.name in ("dilations", "strides") and all(one == 1 for one in attribute.ints)
            default = known is not None and known.default_value.type and known.default_value == attribute
            if zeros or ones or default:
                node.attribute.remove(attribute)
                dropped += 1
    return dropped > 0


@transform
def inlined(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Local functions are put in place."""
    if not model.functions:
        return False
    model.CopyFrom(onnx.inliner.inline_local_functions(model))
    return True


@transform
def initializers_shared(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Equal weights are one."""
    if has_subgraphs(model.graph):
        return False
    outputs = {info.name for info in model.graph.output}
    first: dict[bytes, str] = {}
    same: dict[str, str] = {}
    for init in list(model.graph.initializer):
        value = numpy_helper.to_array(init)
        key = f"{init.data_type} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes()
        if init.name not in outputs and first.setdefault(key, init.name) != init.name:
            same[init.name] = first[key]
            model.graph.initializer.remove(init)
    listed = [info for info in model.graph.input if info.name not in same]
    del model.graph.input[:]
    model.graph.input.extend(listed)
    for node in model.graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
    return bool(same)


def merged(model: onnx.ModelProto, other: onnx.ModelProto) -> bool:
    """Another model stands beside this one, which keeps its signature. False where opsets differ."""
    domains = {entry.domain: entry.version for entry in model.opset_import}
    if any(domains.setdefault(entry.domain, entry.version) != entry.version for entry in other.opset_import):
        return False
    part = onnx.compose.add_prefix(other, "beside/")
    for name in ("node", "initializer", "sparse_initializer", "value_info", "input", "output"):
        getattr(model.graph, name).extend(getattr(part.graph, name))
    model.functions.extend(part.functions)
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*pair) for pair in domains.items())
    model.ir_version = max(model.ir_version, other.ir_version)
    return True
