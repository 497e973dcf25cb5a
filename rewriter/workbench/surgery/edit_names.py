"""Edits of names, of outputs, and of everything in a model that is not its graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError, counted
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph
from rewriter.workbench.surgery.editing import Editing, pair
from rewriter.workbench.surgery.opened import clear, messages
from rewriter.workbench.surgery.ports import Ports, shown, tensors_of

_MOST = 3  # renamings that are shown


def rename(editing: Editing, text: str) -> None:
    """`OLD=NEW`, or `/PATTERN/REPLACEMENT/` for all names in which a regular expression matches. OLD may begin with a slash.

    Raises:
        RewriterError: there is no such name, or two things would have one name.
    """
    known = {part.name for parts in (tensors_of(editing.index), _nodes(editing)) for part in parts}
    # PyTorch's names begin with a slash; such a name comes before a pattern
    is_name = any(letter == "=" and text[:place] in known for place, letter in enumerate(text))
    if text.startswith("/") and not is_name:
        pattern, new = _substitution(text)
        tensors = _mapped({t.name for t in tensors_of(editing.index)}, pattern, new, text)
        nodes = _mapped({n.name for n in _nodes(editing)}, pattern, new, text)
    else:
        old, new = pair(text, "OLD=NEW or /PATTERN/REPLACEMENT/", known.__contains__)
        if not new:
            raise RewriterError(f"{text!r}: the new name is empty")
        if old not in known:
            raise editing.parts.missing(old, "tensor or node", known)
        tensors = {old: new} if any(tensor.name == old for tensor in tensors_of(editing.index)) else {}
        nodes = {old: new} if any(node.name == old for node in _nodes(editing)) else {}
    if not tensors and not nodes:
        raise RewriterError(f"{text!r} matches no name, or changes no name that it matches")
    _collide("tensor", tensors, {tensor.name for tensor in tensors_of(editing.index)})
    _collide("node", nodes, {node.name for node in _nodes(editing) if node.name})
    for tensor in _interface(editing):
        if tensor.name in tensors:
            editing.renamed[tensors[tensor.name]] = editing.renamed.pop(tensor.name, tensor.name)
    for tensor in list(tensors_of(editing.index)):
        tensor.name = tensors.get(tensor.name, tensor.name)
    for node in _nodes(editing):
        node.name = nodes.get(node.name, node.name)
    shown = [f"{old} -> {now}" for old, now in list({**nodes, **tensors}.items())[:_MOST]]
    more = ", ..." if len({**nodes, **tensors}) > _MOST else ""
    editing.did.append(f"rename  {counted(len(tensors), 'tensor')}, {counted(len(nodes), 'node')}: {', '.join(shown)}{more}")


def _substitution(text: str) -> tuple[re.Pattern[str], str]:
    parts = re.split(r"(?<!\\)/", text)
    if len(parts) != 4 or parts[3] or not parts[1]:
        name = text.partition("=")[0]
        raise RewriterError(
            f"no tensor or node is named {name!r}, and {text!r} is not /PATTERN/REPLACEMENT/, with \\/ for a slash in it"
        )
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
        raise RewriterError(f"{text!r} makes the name {empty!r} empty")
    return {name: now for name, now in found.items() if name != now}


def _substituted(pattern: re.Pattern[str], new: str, name: str) -> str:
    """Substitutes as sed does: no match begins where the last match ended, so that `.*` matches a name once, and not a second
    time at its end.
    """
    end = -1

    def put(match: re.Match[str]) -> str:
        nonlocal end
        if match.span() == (end, end):
            return ""
        end = match.end()
        return match.expand(new)

    return pattern.sub(put, name)


def _collide(what: str, mapping: dict[str, str], names: set[str]) -> None:
    taken: dict[str, str] = {name: name for name in names if name not in mapping}
    for old, new in mapping.items():
        other = taken.setdefault(new, old)
        if other != old:
            raise RewriterError(f"{what} {old!r} cannot be named {new!r}: {what} {other!r} has this name, or gets it")


def _interface(editing: Editing) -> list[gs.Tensor]:
    return list({id(tensor): tensor for tensor in (*editing.graph.inputs, *editing.graph.outputs)}.values())


def _nodes(editing: Editing) -> Iterator[gs.Node]:
    for scope in editing.index.scopes:
        if not scope.is_function:
            yield from scope.graph.nodes


# Edits of a model's outputs.


def add_output(editing: Editing, text: str) -> None:
    """Turns tensors into outputs: named ones, all outputs of nodes, or all outputs of an operator's nodes (`op:Conv`).

    Raises:
        RewriterError: there is no such tensor, or its type is not known.
    """
    graph = editing.graph
    known = set(map(id, graph.outputs))
    new = [tensor for tensor in editing.parts.outputs_of([text]) if id(tensor) not in known]
    if not new:
        raise RewriterError(f"{text!r} is an output already")
    Ports(editing.facts, editing.types).declare(new, "output")
    graph.outputs = [*graph.outputs, *new]
    editing.new_outputs.update(tensor.name for tensor in new)
    editing.did += [f"output  {shown(tensor)}" for tensor in new]


def drop_output(editing: Editing, text: str) -> None:
    """Removes outputs, and the nodes that no remaining output needs.

    Raises:
        RewriterError: there is no such output, or none would be left.
    """
    graph, index = editing.graph, editing.index
    gone = {id(tensor): tensor for tensor in editing.parts.outputs_of([text])}
    dropped = [tensor for tensor in graph.outputs if id(tensor) in gone]
    if not dropped:
        raise RewriterError(f"{text!r} is no output; there is {', '.join(repr(tensor.name) for tensor in graph.outputs)}")
    left = [tensor for tensor in graph.outputs if id(tensor) not in gone]
    if not left:
        raise RewriterError(f"without {text!r} the model has no output left")
    graph.outputs = left
    before = len(graph.nodes)
    for tensor in dropped:
        index.unlist_output(tensor)
        editing.edits.released[id(tensor)] = tensor
    names = ", ".join(tensor.name for tensor in dropped)
    editing.settle()
    editing.did.append(f"dropped output {names}, and {counted(before - len(graph.nodes), 'node')} that only it needed")


# Edits outside of the graph: documentation, metadata, declarations of inner tensors, names.

KINDS = ("doc", "metadata", "value_info", "names")
_FIELDS = {"doc": "doc_string", "metadata": "metadata_props", "value_info": "value_info"}


def doc(editing: Editing, text: str) -> None:
    """Sets the model's doc string."""
    assert isinstance(editing.graph, Graph)
    editing.graph.model_doc_string = text
    editing.did.append("doc")


def meta(editing: Editing, text: str) -> None:
    """`KEY=VALUE` in the model's metadata; an empty value removes the key. Raises RewriterError."""
    key, value = pair(text, "KEY=VALUE")
    if key == HISTORY:
        raise RewriterError(f"{HISTORY} is the record of what was done to the model; --strip metadata removes it")
    if value:
        editing.model.metadata[key] = value
    elif editing.model.metadata.pop(key, None) is None:
        raise RewriterError(f"there is no metadata entry {key!r}")
    editing.did.append(f"metadata  {key}")


def strip(editing: Editing, text: str) -> None:
    """Removes doc strings, metadata, declarations of inner tensors, or the names of nodes: a list of these words.

    Raises:
        RewriterError: the list contains another word.
    """
    kinds = [word.strip() for word in text.split(",") if word.strip()]
    if not kinds or (unknown := [word for word in kinds if word not in KINDS]):
        raise RewriterError(f"{(unknown if kinds else [text])[0]!r} cannot be stripped; there is {', '.join(KINDS)}")
    editing.settle()
    model = editing.model.sketch()
    before = model.ByteSize()
    clear(model, [field for kind, field in _FIELDS.items() if kind in kinds])
    if "names" in kinds:
        for message in messages(model):
            if isinstance(message, onnx.NodeProto):
                message.ClearField("name")
    stripped = Model.from_proto(model, editing.model.folder)
    stripped.constant_inputs = editing.model.constant_inputs
    editing.replace(stripped)
    editing.did.append(f"stripped  {', '.join(kinds)}: {before - model.ByteSize():,} bytes")
