"""Edits of names: of tensors and nodes, wherever they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.objects import Graph
from rewriter.report.style import counted
from rewriter.surgery.edit.editing import Editing, pair

_MOST = 3  # renamings that are shown


def rename(editing: Editing, text: str) -> None:
    """`OLD=NEW`, or `/PATTERN/REPLACEMENT/` for all names that a regular expression is found in.

    Raises:
        RewriterError: there is no such name, or two things would have one name.
    """
    if text.startswith("/"):
        pattern, new = _substitution(text)
        tensors = _mapped({t.name for t in _tensors(editing)}, pattern, new, text)
        nodes = _mapped({n.name for n in _nodes(editing)}, pattern, new, text)
    else:
        known = {part.name for parts in (_tensors(editing), _nodes(editing)) for part in parts}
        old, new = pair(text, "OLD=NEW or /PATTERN/REPLACEMENT/", known.__contains__)
        if not new:
            raise RewriterError(f"{text!r}: the new name is empty")
        if old not in known:
            raise editing.parts._missing(old, "tensor or node", known)
        tensors = {old: new} if any(tensor.name == old for tensor in _tensors(editing)) else {}
        nodes = {old: new} if any(node.name == old for node in _nodes(editing)) else {}
    if not tensors and not nodes:
        raise RewriterError(f"{text!r} fits no name, or leaves all as they are")
    _collide("tensor", tensors, {tensor.name for tensor in _tensors(editing)})
    _collide("node", nodes, {node.name for node in _nodes(editing) if node.name})
    for tensor in _interface(editing):
        if tensor.name in tensors:
            editing.renamed[tensors[tensor.name]] = editing.renamed.pop(tensor.name, tensor.name)
    for tensor in list(_tensors(editing)):
        tensor.name = tensors.get(tensor.name, tensor.name)
    for node in _nodes(editing):
        node.name = nodes.get(node.name, node.name)
    shown = [f"{old} -> {now}" for old, now in list({**nodes, **tensors}.items())[:_MOST]]
    more = ", ..." if len({**nodes, **tensors}) > _MOST else ""
    editing.did.append(f"rename  {counted(len(tensors), 'tensor')}, {counted(len(nodes), 'node')}: {', '.join(shown)}{more}")


def _substitution(text: str) -> tuple[re.Pattern[str], str]:
    parts = re.split(r"(?<!\\)/", text)
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3]) or not parts[1]:
        raise RewriterError(f"{text!r} is not /PATTERN/REPLACEMENT/; write a slash in it as \\/")
    try:
        return re.compile(parts[1].replace("\\/", "/")), parts[2].replace("\\/", "/")
    except re.error as error:
        raise RewriterError(f"{text!r}: {error}") from None


def _mapped(names: set[str], pattern: re.Pattern[str], new: str, text: str) -> dict[str, str]:
    try:
        found = {name: _substituted(pattern, new, name) for name in sorted(names) if name}
    except (re.error, IndexError) as error:
        raise RewriterError(f"{text!r}: {error}") from None
    empty = next((name for name, now in found.items() if not now), None)
    if empty is not None:
        raise RewriterError(f"{text!r} leaves nothing of the name {empty!r}")
    return {name: now for name, now in found.items() if name != now}


def _substituted(pattern: re.Pattern[str], new: str, name: str) -> str:
    """As sed does it: nothing is found right behind what was found, so that `.*` stands once in a name, not a second time at
    its end.
    """
    end = -1

    def put(found: re.Match[str]) -> str:
        nonlocal end
        if found.span() == (end, end):
            return ""
        end = found.end()
        return found.expand(new)

    return pattern.sub(put, name)


def _collide(what: str, mapping: dict[str, str], names: set[str]) -> None:
    taken: dict[str, str] = {name: name for name in names if name not in mapping}
    for old, new in mapping.items():
        other = taken.setdefault(new, old)
        if other != old:
            raise RewriterError(f"{what} {old!r} cannot be named {new!r}: so is {other!r}")


def _interface(editing: Editing) -> list[gs.Tensor]:
    return list({id(tensor): tensor for tensor in (*editing.graph.inputs, *editing.graph.outputs)}.values())


def _nodes(editing: Editing) -> Iterator[gs.Node]:
    for scope in editing.index.scopes:
        if not scope.is_function:
            yield from scope.graph.nodes


def _tensors(editing: Editing) -> Iterator[gs.Tensor]:
    """The tensors of the main graph and of bodies, each at least once; those of functions are the functions' own."""
    for scope in editing.index.scopes:
        if scope.is_function:
            continue
        graph = scope.graph
        held = graph.initializers if isinstance(graph, Graph) else ()
        listed = graph.origin.inputs if isinstance(graph, Graph) else ()
        parts = (graph.inputs, graph.outputs, held, listed, *(n.inputs for n in graph.nodes), *(n.outputs for n in graph.nodes))
        yield from (tensor for part in parts for tensor in part if tensor.name)
