"""Which versions of which operator domains a model imports."""

from __future__ import annotations

import onnx

from rewriter.graph.edits import Edits
from rewriter.graph.index import GraphIndex
from rewriter.graph.scopes import Scope
from rewriter.language import schema


def set_opset(index: GraphIndex, edits: Edits, scope: Scope, domain: str, version: int) -> None:
    """Sets or adds the import of a domain for the graph or function that a scope belongs to, with all inside of it."""
    while scope.parent is not None:
        scope = scope.parent
    graph = scope.graph if scope.opsets is not index.scopes[0].opsets else index.graph
    if scope.opsets.get(domain) == version:
        return
    edits.declare("opset", domain or "ai.onnx", scope.opsets.get(domain), version)
    before = list(graph.import_domains or ())
    same = [entry for entry in before if ("" if entry.domain == "ai.onnx" else entry.domain) != domain]
    imports = [*same, onnx.OperatorSetIdProto(domain=domain, version=version)]
    edits.later(setattr, graph, "import_domains", graph.import_domains)
    graph.import_domains = imports
    if domain == "":
        edits.later(setattr, graph, "opset", graph.opset)
        graph.opset = version
    edits.later(_set_version, scope.opsets, domain, scope.opsets.get(domain))
    scope.opsets[domain] = version  # the scopes inside share this table


def _set_version(versions: dict[str, int], domain: str, version: int | None) -> None:
    if version is None:
        versions.pop(domain, None)
    else:
        versions[domain] = version


def import_domain(index: GraphIndex, edits: Edits, scope: Scope, domain: str) -> None:
    """Adds the import that a new operator needs: the newest known version of its domain, 1 for unknown domains."""
    set_opset(index, edits, scope, domain, schema.latest_opset(domain))
