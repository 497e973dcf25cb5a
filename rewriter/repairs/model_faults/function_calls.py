"""Calls of local functions, whose bodies can stand in place of the calls.

A function is left as it is when it calls itself, holds subgraphs, or calls such a one, and when its nodes would mean something
else under the opsets that the model imports.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.graph_functions import node_keeps_meaning
from rewriter.core.graph.index import GraphIndex, operator_key
from rewriter.core.graph.message_text import node_name
from rewriter.core.graph.scopes import bodies, opset_versions
from rewriter.core.language.schema import history
from rewriter.core.rewriting.model_edits import set_opset
from rewriter.core.rewriting.transaction import Refused, Rewriting

Key = tuple[str, str, str]

MOST = 100_000
"""Nodes that take the places of calls; functions that call others twice each can stand for more than fit into memory."""


def function_calls(context: Context) -> list[str]:
    return [node_name(node) for node in _calls(context.index, _plain(context.index))]


def inline_calls(rewriting: Rewriting) -> None:
    """Raises Refused when the bodies would be more than `MOST` nodes."""
    index, plain = rewriting.index, _plain(rewriting.index)
    sizes = _sizes(plain)
    if sum(sizes[_key(call)] for call in _calls(index, plain)) > MOST:
        raise Refused(f"the bodies of the functions would be more than {MOST} nodes")
    from rewriter.core.rewriting.inline import inline_function

    while calls := _calls(index, plain):
        for call in calls:
            function = plain[_key(call)]
            root = index.scopes[0]
            for domain, version in _needed_imports(function).items():
                if domain not in root.opsets:
                    set_opset(index, rewriting.edits, root, domain, version)
            inline_function(rewriting, call, function)
    _drop_uncalled(rewriting)


def _drop_uncalled(rewriting: Rewriting) -> None:
    """Functions that nobody calls any more go, with what only they needed the model to import."""
    from rewriter.core.graph.tidy import unused_domains

    index, edits = rewriting.index, rewriting.edits
    graph = index.graph
    before = list(graph.functions)
    called = {_key(node) for scope in index.scopes if not scope.is_function for node in index.nodes_of(scope)}
    by_key = {_own_key(function): function for function in before}
    waiting = [key for key in called if key in by_key]
    kept = set(waiting)
    while waiting:
        for node in _nodes(by_key[waiting.pop()]):
            if _key(node) in by_key and _key(node) not in kept:
                kept.add(_key(node))
                waiting.append(_key(node))
    gone = [function for function in before if _own_key(function) not in kept]
    for scope in index.scopes:
        if scope.is_function and any(scope.graph is function for function in gone):
            for node in list(index.nodes_of(scope)):
                edits.remove(node)
    for function in gone:
        edits.declare("function", f"{function.domain}.{function.name}", f"{function.domain}.{function.name}", None)
    edits.later(setattr, graph, "functions", before)
    graph.functions = [function for function in before if _own_key(function) in kept]
    unused = set(unused_domains(index)) & {function.domain for function in gone}
    imports: Any = graph.import_domains
    edits.later(setattr, graph, "import_domains", imports)
    graph.import_domains = [entry for entry in imports if entry.domain not in unused]


def _calls(index: GraphIndex, plain: Mapping[Key, gs.Function]) -> list[gs.Node]:
    """Calls of such functions outside of functions, in execution order."""
    if not plain:
        return []
    return [node for scope in index.scopes if not scope.is_function for node in index.members(scope) if _key(node) in plain]


def _plain(index: GraphIndex) -> dict[Key, gs.Function]:
    """The functions whose bodies can stand in the main graph, together: of a domain that the model does not import, the first
    one says the version.
    """
    imported = dict(index.scopes[0].opsets)
    functions = {_own_key(function): function for function in getattr(index.graph, "functions", ())}
    good = set()
    for key, function in functions.items():
        if _can_stand(function, imported, functions):
            good.add(key)
            imported = {**_needed_imports(function), **imported}
    reach = {key: {_key(node) for node in function.nodes} & functions.keys() for key, function in functions.items()}
    done: dict[Key, gs.Function] = {}
    growing = True
    while growing:  # from functions that call none to those that call only such: what is in a circle is never reached
        more = {key: functions[key] for key in functions if key in good and key not in done and reach[key] <= done.keys()}
        done |= more
        growing = bool(more)
    return done


def _sizes(plain: Mapping[Key, gs.Function]) -> dict[Key, int]:
    """For how many nodes each function stands in the end; `plain` has a function behind those that it calls."""
    sizes: dict[Key, int] = {}
    for key, function in plain.items():
        sizes[key] = sum(sizes.get(_key(node), 1) for node in function.nodes)
    return sizes


def _can_stand(function: gs.Function, imported: Mapping[str, int], local: Container[Key]) -> bool:
    versions = opset_versions(function)
    for node in function.nodes:
        domain, op = operator_key(node)
        own, outer = versions.get(domain, imported.get(domain)), imported.get(domain)
        if any(True for _ in bodies(node)):
            return False
        if own is None or outer is None or own == outer or _key(node) in local:
            continue
        known = history(op, domain)  # of a custom operator nothing says what its versions change
        if not known or not node_keeps_meaning(node, domain, own, outer):
            return False
    return True


def _needed_imports(function: gs.Function) -> dict[str, int]:
    """The version of each domain of which the function has a node."""
    needed = {operator_key(node)[0] for node in function.nodes}
    return {domain: version for domain, version in opset_versions(function).items() if domain in needed}


def _nodes(function: gs.Function) -> list[gs.Node]:
    """The nodes of a function, those in its subgraphs included."""
    found = list(function.nodes)
    for node in found:
        for _, graph in bodies(node):
            found.extend(graph.nodes)
    return found


def _own_key(function: gs.Function) -> Key:
    return function.domain, function.name, getattr(function, "overload", "")


def _key(node: gs.Node) -> Key:
    return node.domain or "", node.op, getattr(node, "overload", "")
