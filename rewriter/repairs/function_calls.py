"""Calls of local functions, whose bodies can replace the calls.

A function is left as it is if it calls itself, holds subgraphs, or calls such a function. It is also left as it is if its nodes
would mean something else under the opsets that the model imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import FunctionKey, bodies, callee, key_of, needed_functions
from rewriter.core.onnxfile.part import MOST, expanded
from rewriter.core.rewriting.inline import add_imports, body_keeps_meaning, inline_function, needed_imports
from rewriter.core.rewriting.transaction import Refused, Rewriting


def function_calls(context: Context) -> list[gs.Node]:
    return _calls(context.index, _plain(context.index))


def inline_calls(rewriting: Rewriting) -> None:
    """Raises Refused when the bodies would be more than `MOST` nodes."""
    index, plain = rewriting.index, _plain(rewriting.index)
    bodies_of = {key: list(map(callee, function.nodes)) for key, function in plain.items()}
    if expanded(bodies_of, map(callee, _calls(index, plain))) > MOST:
        raise Refused(f"the bodies of the functions would be more than {MOST} nodes")
    while calls := _calls(index, plain):
        for call in calls:
            function = plain[callee(call)]
            add_imports(rewriting, function, index.scopes[0])
            inline_function(rewriting, call, function)
    _drop_uncalled(rewriting)


def _drop_uncalled(rewriting: Rewriting) -> None:
    """Removes functions that are no longer called, and the imports that only they needed."""
    from rewriter.core.graph.tidy import unused_domains

    index, edits = rewriting.index, rewriting.edits
    graph = index.graph
    before = list(graph.functions)
    nodes = (node for scope in index.scopes if not scope.is_function for node in index.nodes_of(scope))
    kept = needed_functions(before, nodes)
    gone = [function for function in before if not any(function is one for one in kept)]
    for scope in index.scopes:
        if scope.is_function and any(scope.graph is function for function in gone):
            for node in list(index.nodes_of(scope)):
                edits.remove(node)
    for function in gone:
        edits.declare("function", f"{function.domain}.{function.name}", f"{function.domain}.{function.name}", None)
    edits.later(setattr, graph, "functions", before)
    graph.functions = kept
    unused = set(unused_domains(index)) & {function.domain for function in gone}
    imports: Any = graph.import_domains
    edits.later(setattr, graph, "import_domains", imports)
    graph.import_domains = [entry for entry in imports if entry.domain not in unused]


def _calls(index: GraphIndex, plain: Mapping[FunctionKey, gs.Function]) -> list[gs.Node]:
    """Calls of such functions outside of functions, in execution order."""
    if not plain:
        return []
    return [node for scope in index.scopes if not scope.is_function for node in index.members(scope) if callee(node) in plain]


def _plain(index: GraphIndex) -> dict[FunctionKey, gs.Function]:
    """The functions whose bodies can be put into the main graph, together: for a domain that the model does not import, the
    first function decides the version.
    """
    imported = dict(index.scopes[0].opsets)
    functions = {key_of(function): function for function in getattr(index.graph, "functions", ())}
    good = set()
    for key, function in functions.items():
        has_bodies = any(True for node in function.nodes for _ in bodies(node))
        if not has_bodies and body_keeps_meaning(function, imported, functions):
            good.add(key)
            imported = {**needed_imports(function), **imported}
    reach = {key: {callee(node) for node in function.nodes} & functions.keys() for key, function in functions.items()}
    done: dict[FunctionKey, gs.Function] = {}
    growing = True
    while growing:  # from functions that call none to functions that call only these; functions in a circle are never reached
        more = {key: functions[key] for key in functions if key in good and key not in done and reach[key] <= done.keys()}
        done |= more
        growing = bool(more)
    return done
