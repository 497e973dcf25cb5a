"""Names that are not UTF-8: protobuf hands them out as bytes, and nothing could refer to them in writing."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from rewriter.core.errors import RewriterError


def check_text(name: str | bytes) -> None:
    """Raises RewriterError for a name that is not UTF-8."""
    if isinstance(name, bytes):
        raise RewriterError(f"the name {repr(name)[1:]:.80} in this model is not valid UTF-8")


def check_names(model: onnx.ModelProto) -> None:
    """Raises RewriterError where a node, a tensor or a function has such a name."""
    for name in _names(model):
        check_text(name)


def _names(model: onnx.ModelProto) -> Iterator[str | bytes]:
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph.name
        if isinstance(graph, onnx.FunctionProto):
            yield from (graph.domain, *graph.input, *graph.output, *graph.attribute)
        else:
            yield from (info.name for info in (*graph.input, *graph.output, *graph.value_info))
            yield from (tensor.name for tensor in graph.initializer)
            yield from (sparse.values.name for sparse in graph.sparse_initializer)
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            for attribute in node.attribute:
                yield from (attribute.name, attribute.ref_attr_name)
                waiting.extend(attribute.graphs)
                if attribute.HasField("g"):
                    waiting.append(attribute.g)
