"""`rewriter convert --layout`: images as inputs and outputs with their channels last, or first.

Only inputs and outputs have a choice of layout: ONNX's Conv, pooling and normalizations know only channels first. A Transpose
is put at each, and removed if the model undoes it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.graph.values import Variable
from rewriter.core.onnxfile.tensors import clean
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery.edit_inputs import put_between, shown_dim
from rewriter.workbench.surgery.editing import Editing
from rewriter.workbench.surgery.extract import as_in
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import names_in

LAYOUTS = ("nhwc", "nchw")
_IMAGES = 4
_RANKS = range(3, 6)
_RULES = ("OPT003", "OPT005", "GEN030")
"""Rules for consecutive transpositions, transpositions that change nothing, and transpositions of constants."""


def in_layout(source: Opened, layout: str, ports: Sequence[str] = (), checks: Checks | None = None) -> Surgery:
    """A model whose inputs and outputs have another layout, checked by running it and the original model.

    Args:
        layout: their new layout, one of `LAYOUTS`; the model is assumed to have the other.
        ports: names or patterns of inputs and outputs; if empty, all with four dimensions.

    Raises:
        RewriterError: there is no such layout or port, or the result computes something else.
    """
    if layout not in LAYOUTS:
        raise RewriterError(f"the layout is one of {', '.join(LAYOUTS)}")
    model = source.read()
    changed = _chosen(model, ports)
    before = _transpositions(model)
    did = _put(model, layout, changed)
    log = run(model.graph, load_rules().select(_RULES), Knowledge(overridable=model.overridable))
    more = _transpositions(model) - before
    did.append(
        f"Transpose  {abs(more)} {'more' if more >= 0 else 'fewer'}" + (f", {len(log.firings)} rewrites" if log.firings else "")
    )
    command = command_text("convert", [("--layout", [layout]), ("--ports", ports)])
    as_before = as_in(source, model)
    return finish(model, [source], command, did, [], checks, lambda _, most: as_before(_back(model, layout, changed), most))


def _chosen(model: Model, texts: Sequence[str]) -> list[str]:
    """The names of the inputs and outputs that change. Raises RewriterError for ports that cannot change."""
    ports = {tensor.name: tensor for tensor in (*model.graph.inputs, *model.graph.outputs)}
    names: list[str] = []
    for text in names_in(texts, ports.__contains__):
        found = [name for name in ports if name == text] or [name for name in ports if fnmatchcase(name, text)]
        if not found:
            raise RewriterError(f"there is no input or output {text!r}; there is {', '.join(ports)}")
        names += found
    for name in names:
        shape = clean(ports[name].shape)
        if not isinstance(ports[name], Variable) or shape is None or len(shape) not in _RANKS:
            raise RewriterError(f"{name!r} has no layout: it has to declare three to five dimensions")
    images = [name for name, port in ports.items() if isinstance(port, Variable) and len(clean(port.shape) or ()) == _IMAGES]
    if not texts and not images:
        raise RewriterError("no input or output declares four dimensions; name the images with --ports")
    return list(dict.fromkeys(names)) if texts else images


def _put(model: Model, layout: str, names: Sequence[str]) -> list[str]:
    """Gives ports another layout; returns what was done, a line each."""
    editing = Editing(model)
    outputs = set(map(id, model.graph.outputs))
    did = []
    for name in names:
        port = next(tensor for tensor in (*model.graph.inputs, *model.graph.outputs) if tensor.name == name)
        assert isinstance(port, Variable)
        shape = clean(port.shape)
        assert shape is not None
        out = _order(layout, len(shape))
        perm = out if _is_made(editing, port) else [out.index(axis) for axis in range(len(out))]
        if _is_made(editing, port) or editing.index.uses(port):
            put_between(editing, port, "Transpose", {"perm": perm})
        port.shape = [shape[axis] for axis in out]
        kind = "output" if id(port) in outputs else "input"
        did.append(f"{kind}  {name} [{','.join(map(shown_dim, port.shape))}]")
        editing.settle()
    return did


def _back(model: Model, layout: str, names: Sequence[str]) -> Candidate:
    """The result with its former ports, to be compared with the original model."""
    again = Model.from_proto(model.to_proto(), model.folder)
    _put(again, next(other for other in LAYOUTS if other != layout), names)
    return Candidate(again)


def _is_made(editing: Editing, port: gs.Tensor) -> bool:
    return editing.index.producer(port) is not None


def _order(layout: str, rank: int) -> list[int]:
    """The axes of a tensor in the other layout, in their order in this one."""
    return [0, *range(2, rank), 1] if layout == "nhwc" else [0, rank - 1, *range(1, rank - 1)]


def _transpositions(model: Model) -> int:
    return sum(node.op == "Transpose" for node in model.graph.nodes)
