"""Operator domains that a model uses and does not import, or imports and does not use."""

from __future__ import annotations

from typing import Any

from rewriter.conditions.context import Context
from rewriter.graph.imports import newest_import
from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.scopes import Scope
from rewriter.graph.tidy import unused_domains
from rewriter.language import schema
from rewriter.rewriting.opset_edits import set_opset
from rewriter.rewriting.transaction import Rewriting


def missing_imports(context: Context) -> list[str]:
    return sorted({domain for _, domain in _missing(context.index)})


def add_imports(rewriting: Rewriting) -> None:
    for scope, domain in _missing(rewriting.index):
        version = newest_import(domain, int(getattr(rewriting.index.graph, "ir_version", None) or 0))
        set_opset(rewriting.index, rewriting.edits, scope, domain, version)


def _missing(index: GraphIndex) -> list[tuple[Scope, str]]:
    """Domains by the main graph or function that needs them, where it cannot matter which version is meant."""
    domains = {domain for domain, _ in index.by_operator.keys}
    if all(domains <= scope.opsets.keys() for scope in index.scopes):
        return []
    wanted: dict[tuple[int, str], Scope] = {}
    doubtful: set[tuple[int, str]] = set()
    for scope in index.scopes:
        for node in index.nodes_of(scope):
            domain, op = operator_key(node)
            if domain in scope.opsets:
                continue
            root = scope
            while root.parent is not None:
                root = root.parent
            wanted.setdefault((root.number, domain), root)
            if not domain or len(schema.history(op, domain)) > 1:
                doubtful.add((root.number, domain))
    return [(root, domain) for (number, domain), root in wanted.items() if (number, domain) not in doubtful]


def unused_imports(context: Context) -> list[str]:
    return unused_domains(context.index)


def drop_imports(rewriting: Rewriting) -> None:
    graph, gone = rewriting.index.graph, unused_domains(rewriting.index)
    before: Any = graph.import_domains
    rewriting.edits.later(setattr, graph, "import_domains", before)
    graph.import_domains = [entry for entry in before if entry.domain not in gone]
    for entry in before:
        if entry.domain in gone:
            rewriting.edits.declare("opset", entry.domain, entry.version, None)
