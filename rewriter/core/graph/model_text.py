"""A model as text in which inner names do not matter: two models have the same text if they compute the same in the same way.

Inner tensors are named after their makers, initializers are shown by value at their uses, and the order of the nodes follows
from the graph's outputs alone.
"""

from __future__ import annotations

import hashlib

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import numpy_helper

from rewriter.core.graph.message_text import type_text, type_words
from rewriter.core.onnxfile.part import read_by

SHOWN = 16  # elements of a constant that are shown; larger ones by hash


def canonical_text(model: onnx.ModelProto) -> str:
    """Interface, imports and nodes of a model, one a line."""
    imports = ", ".join(f'"{entry.domain}": {entry.version}' for entry in sorted(model.opset_import, key=lambda e: e.domain))
    lines = [f"ir_version: {model.ir_version}, opset_import: [{imports}]"]
    lines += _graph(model.graph, {})
    for function in sorted(model.functions, key=lambda f: (f.domain, f.name, f.overload)):
        lines.append(
            f"function {function.domain}::{function.name}({', '.join(function.input)}) => ({', '.join(function.output)})"
        )
        lines += _nodes(function.node, {name: name for name in function.input}, list(function.output))
    return "\n".join(lines)


def _graph(graph: onnx.GraphProto, outer: dict[str, str]) -> list[str]:
    constants = {c.name: constant_text(c) for c in graph.initializer}
    listed = [info.name for info in graph.input if info.name in constants]
    names = {**outer, **constants, **{info.name: info.name for info in graph.input if info.name not in constants}}
    lines = [f"input {info.name}: {type_text(info.type)}" for info in graph.input if info.name not in constants]
    lines += [f"listed {constants[name]}" for name in listed]
    lines += [f"output {info.name}: {type_text(info.type)}" for info in graph.output]
    return lines + _nodes(graph.node, names, [info.name for info in graph.output])


def _nodes(nodes: list[onnx.NodeProto], names: dict[str, str], outputs: list[str]) -> list[str]:
    """Lines of nodes: first the nodes behind the outputs, in the order in which the outputs need them, then the others."""
    makers = {name: node for node in nodes for name in node.output if name}
    known = {**names, **{name: name for name in outputs if name in makers}}
    lines: list[str] = []
    done: set[int] = set()
    roots = [makers[name] for name in outputs if name in makers]
    left = [node for node in nodes if not any(name in _used(nodes) for name in node.output)]
    waiting = [*reversed([*roots, *sorted(left, key=lambda n: n.op_type)])]
    while waiting:
        node = waiting[-1]
        needed = [
            makers[name]
            for name in read_by(node)
            if name in makers and id(makers[name]) not in done and makers[name] is not node
        ]
        if needed and len(waiting) <= 4 * len(nodes) + 4:
            waiting.extend(reversed(needed))
            continue
        waiting.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        for position, name in enumerate(node.output):
            if name:
                known.setdefault(name, f"%{len(done)}" + (f".{position}" if position else ""))
        lines += _line(node, known)
    return lines


def _used(nodes: list[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in read_by(node)}


def _line(node: onnx.NodeProto, known: dict[str, str]) -> list[str]:
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    shown, bodies = [], []
    for attribute in sorted(node.attribute, key=lambda a: a.name):
        if attribute.type == onnx.AttributeProto.GRAPH:
            bodies += [f"  {attribute.name}:", *(f"    {line}" for line in _graph(attribute.g, known))]
        else:
            shown.append(_attribute(attribute))
    outputs = ", ".join(known.get(name, name) or '""' for name in node.output)
    inputs = ", ".join(known.get(name, name) or '""' for name in node.input)
    return [f"{outputs} = {domain}{node.op_type}{f'<{chr(44).join(shown)}>' if shown else ''}({inputs})", *bodies]


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"{attribute.name} = @{attribute.ref_attr_name}"
    if attribute.type == onnx.AttributeProto.TENSOR:
        return f"{attribute.name} = {constant_text(attribute.t)}"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, Message):
        value = " ".join(str(value).split())
    return f"{attribute.name} = {list(value) if not isinstance(value, int | float | str) else value}"


def constant_text(tensor: onnx.TensorProto) -> str:
    """`float[2]{1.0, 2.0}`; large ones as `float[64,64]#hash`."""
    head = type_words(tensor.data_type, tensor.dims, str(tensor.data_type))
    try:
        array = numpy_helper.to_array(tensor)
    except (TypeError, ValueError):  # less data than its dimensions say, or of no type
        return f"{head}#malformed {hashlib.sha256(tensor.SerializeToString(deterministic=True)).hexdigest()[:16]}"
    if array.size <= SHOWN:
        return head + "{" + ", ".join(map(str, array.ravel().tolist())) + "}"
    return f"{head}#{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
