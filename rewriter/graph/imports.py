"""Operator set imports of a model or function that is written: those it had, as edited, and those that new nodes need."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_graphsurgeon as gs

from rewriter.graph.objects import Origin


def written_imports(
    graph: gs.Graph, origin: Origin, new_domains: Iterable[str], ir_version: int
) -> list[onnx.OperatorSetIdProto] | None:
    """Operator set imports of a model or function, None when they are as loaded. Domains of new nodes are added."""
    imports: list[onnx.OperatorSetIdProto] = []
    for entry in graph.import_domains or ():
        imports.append(onnx.OperatorSetIdProto())
        imports[-1].CopyFrom(entry)
    if graph.opset is not None and graph.opset != origin.opset:
        own = [entry for entry in imports if entry.domain in ("", "ai.onnx")]
        for entry in own:
            entry.version = graph.opset
        if not own:
            imports.append(onnx.OperatorSetIdProto(domain="", version=graph.opset))
    known = {"" if entry.domain == "ai.onnx" else entry.domain for entry in imports}
    for domain in new_domains:
        domain = "" if domain == "ai.onnx" else domain
        if domain not in known and (domain or origin.imports):
            known.add(domain)
            imports.append(onnx.OperatorSetIdProto(domain=domain, version=newest_import(domain, ir_version)))
    return None if imports == origin.imports else imports


def newest_import(domain: str, ir_version: int) -> int:
    """Version under which to import a domain that nobody imported yet: the newest that goes with the model's ir_version."""
    column = {"": 2, "ai.onnx.ml": 3}.get(domain)
    if column is None:
        return 1
    return max((int(row[column]) for row in onnx.helper.VERSION_TABLE if int(row[1]) <= ir_version), default=1)
