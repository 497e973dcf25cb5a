"""A model in another version of ONNX's operators, step by step from one version to the next.

In each step the nodes that would mean something else are put into a domain of their own, `older` or `newer`; the rules in
`conversions/` say what each of them is in the version that the step leads to. What none of them knows is refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context, Knowledge
from rewriter.core.conditions.model_fields import least_ir_version
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.node_text import node_name
from rewriter.core.graph.save import newest_import
from rewriter.core.graph.scopes import Scope, operator_key, opset_versions
from rewriter.core.language import schema
from rewriter.core.language.dtypes import DTYPE_NAMES
from rewriter.core.language.meaning import takes
from rewriter.core.language.rules import RuleSet
from rewriter.core.log.records import Log
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.core.resources import resource
from rewriter.rule_tools.load_rules import load_rules
from rewriter.workbench.surgery.cut.extract import same_as_whole
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.keep import called, key_of
from rewriter.workbench.surgery.merge.join_versions import changes, set_versions
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.versions.opset_steps import (
    CHANGED,
    NEWER,
    OLDER,
    WIDENED,
    has_body,
    keeps,
    settled_attributes,
    stepped,
    write_out,
)

_SHOWN = 8  # nodes that an error names


@cache
def conversions() -> RuleSet:
    """The rules that convert nodes in one step."""
    return load_rules([resource("conversions")]).select(["ALL"])


def convert_opset(model: Model, version: int) -> Counter[str]:
    """Changes a model, and its functions, to another version of ONNX's operators; how many nodes of each operator it converted.

    Raises:
        RewriterError: some nodes cannot be said in that version; the text names them. The model may be half converted then.
    """
    done: Counter[str] = Counter()
    held = [opset_versions(graph)[""] for graph in (model.graph, *model.graph.functions) if "" in opset_versions(graph)]
    if not held:
        return done
    for node in GraphIndex(model.graph).all_nodes():
        if node.domain in (OLDER, NEWER):
            raise RewriterError(f"{_shown(node)}: the domain {node.domain!r} is used while a model is converted; it cannot be")
    for before in range(min(held), version):
        _step(model, before, before + 1, done)
    for before in range(max(held), version, -1):
        _step(model, before, before - 1, done)
    _refuse(_untyped(model, version))
    return done


def _step(model: Model, before: int, after: int, done: Counter[str]) -> None:
    """One version up or down, for the graph or those functions that are of the version before."""
    noticed = stepped(before, after)
    if after < before:
        _write_out(model, before, after, noticed, done)
    index = GraphIndex(model.graph)
    edits = Edits(index)
    marked: list[gs.Node] = []
    for node in _nodes(index, before, noticed):
        for name, value in settled_attributes(node, before, after).items():
            edits.set_attribute(node, name, value)
        if not keeps(node, before, after):
            done[node.op] += 1
            edits.set_op(node, node.op, OLDER if before < after else NEWER)
            marked.append(node)
    index.finish()
    for graph in (model.graph, *model.graph.functions):
        if opset_versions(graph).get("") == before:
            _stamp(graph, after)
    if not marked:
        return
    log = run(model.graph, conversions(), Knowledge(overridable=model.overridable))
    index = GraphIndex(model.graph)
    edits = Edits(index)
    for node in marked:
        if node in index and node.domain == "ai.onnx":
            edits.set_op(node, node.op, "")
    left = [node for node in marked if node in index and node.domain in (OLDER, NEWER)]
    index.finish()
    _refuse([f"{_shown(node)}: {_reason(node, before, after, log)}" for node in left])


def _write_out(model: Model, before: int, after: int, noticed: frozenset[str], done: Counter[str]) -> None:
    """Writes out those nodes whose operators the version below lacks."""
    index = GraphIndex(model.graph)
    gone = [node for node in _nodes(index, before, noticed) if not schema.exists(node.op, "", after)]
    gone = [node for node in gone if has_body(node.op, before)]
    if gone:
        ops = [node.op for node in gone]
        done.update(ops)
        done.subtract(Counter(node.op for node in write_out(index, model.overridable, gone, before)))


def _nodes(index: GraphIndex, version: int, ops: frozenset[str]) -> Iterator[gs.Node]:
    """The nodes of these operators of ONNX in graphs and functions of a version."""
    own = {key_of(function) for function in index.graph.functions}
    for scope in index.scopes:
        if scope.opsets.get("") == version:
            for node in index.members(scope):
                domain, op = operator_key(node)
                if not domain and op in ops and (domain, op, called(node)[2]) not in own:
                    yield node


def _stamp(graph: gs.Graph, version: int) -> None:
    own = ("", "ai.onnx")
    graph.import_domains = [
        onnx.OperatorSetIdProto(domain=entry.domain, version=version) if entry.domain in own else entry
        for entry in graph.import_domains
    ]
    graph.opset = version


def _reason(node: gs.Node, before: int, after: int, log: Log) -> str:
    """Why no rule has converted a node."""
    for blocked in log.blocked:
        if blocked.root == node_name(node):
            return blocked.reason
    if schema.schema(node.op, "", after) is None:
        return f"opset {after} has no {node.op}"
    step = node.op, max(before, after)
    changed = CHANGED.get(step) or WIDENED.get(step)
    if changed:
        return f"what opset {max(before, after)} changed is {changed}; this node cannot be said in opset {after}"
    return f"opset {after} cannot say what it does with these attributes and operands in opset {before}"


def _untyped(model: Model, version: int) -> list[str]:
    """The nodes that are not for the element types that they have, where their operator was for them before."""
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    found = []
    for scope in index.scopes:
        for node in index.members(scope) if scope.opsets.get("") == version else ():
            kind = _wrong_type(node, version, facts)
            if kind is not None:
                name = kind if isinstance(kind, str) else DTYPE_NAMES[kind]
                found.append(f"{_shown(node)}: opset {version} has it not for {name}")
    return found


def _wrong_type(node: gs.Node, version: int, facts: Facts) -> int | str | None:
    """An element type, or a type of no tensor, that a node has and that only later versions of its operator are for."""
    if operator_key(node)[0] or schema.schema(node.op, "", version) is None:
        return None
    for made, tensors in ((False, node.inputs), (True, node.outputs)):
        for place, tensor in enumerate(tensors):
            kind = _kind(facts.fact(tensor).type) if tensor.name else None
            if kind is not None and not takes(node.op, "", version, made, place, kind):
                return kind if takes(node.op, "", schema.latest_opset(), made, place, kind) else None
    return None


def _kind(known: TensorType) -> int | str | None:
    return _word(onnx.TypeProto.FromString(known.other)) if known.other else known.dtype


def _word(kind: onnx.TypeProto) -> str:
    """What schemas call a type: `seq(tensor(float))`."""
    if kind.HasField("sequence_type"):
        return f"seq({_word(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({_word(kind.optional_type.elem_type)})"
    return f"tensor({DTYPE_NAMES.get(kind.tensor_type.elem_type)})"


def _shown(node: gs.Node) -> str:
    scope: Scope | None = getattr(node, "_scope", None)
    inside = f" in {scope.path}" if scope is not None and (scope.parent is not None or scope.is_function) else ""
    return f"{node.op} {node_name(node)!r}{inside}"


def _refuse(reasons: list[str]) -> None:
    if reasons:
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        raise RewriterError("; ".join(reasons[:_SHOWN]) + more)


# `rewriter opset`: another version of ONNX's operators.

_MOST_IR = int(onnx.IR_VERSION)


def reversioned(
    source: Opened, version: int, ir_version: int | None = None, *, restamp: bool = False, checks: Checks | None = None
) -> Surgery:
    """A model in another version of the operators, and of another IR version where that is told or needed.

    Args:
        restamp: only say so, and convert nothing.

    Raises:
        RewriterError: a node cannot be said in that version, or there is no such version.
    """
    model = source.read()
    before = opset_versions(model.graph).get("", 1)
    newest = newest_import("", _MOST_IR)
    if not 1 <= version <= newest:
        raise RewriterError(f"there is no version {version} of ONNX's operators; the newest here is {newest}")
    for held in sorted({opset_versions(graph).get("", 1) for graph in (model.graph, *model.graph.functions)}):
        if not 1 <= held <= newest:
            raise RewriterError(f"the model says version {held} of ONNX's operators, and the newest known here is {newest}")
    did = [f"opset  {before} -> {version}"]
    notes: list[str] = []
    if restamp:
        notes += _restamp(model, before, version)
    else:
        found = convert_opset(model, version)
        nodes = [f"{count:,} {op}" for op, count in sorted(found.items()) if count > 0]
        did += [f"converted  {', '.join(nodes)}"] if nodes else []
    old_ir = int(model.graph.ir_version or 0)
    wanted = _ir_version(model, version, ir_version)
    set_versions(model, {"": version}, wanted)
    if wanted != old_ir:
        did.append(f"IR  {old_ir} -> {wanted}")
    inputs, outputs = ([tensor.name for tensor in ports] for ports in (model.graph.inputs, model.graph.outputs))
    options = [("--ir", [str(ir_version)] if ir_version else [])]
    compared = lambda candidate, most: same_as_whole(source, [candidate], inputs, outputs, most)  # noqa: E731
    command = command_text(f"opset {version}", options, restamp=restamp)
    return finish(model, [source], command, did, notes, checks or Checks(), compared)


def _restamp(model: Model, before: int, version: int) -> list[str]:
    """Raises RewriterError where a node would mean something else; what is to be said besides."""
    nodes = list(changes(model, "", before, version))
    if nodes:
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        raise RewriterError(f"{'; '.join(nodes[:_SHOWN])}{more}. Without --restamp such nodes are converted")
    functions = [f"{f.domain}::{f.name}" for f in model.graph.functions if opset_versions(f).get("", version) != version]
    return [f"{', '.join(functions[:3])}: functions keep the versions that they import"] if functions else []


def _ir_version(model: Model, version: int, told: int | None) -> int:
    """The IR version of the result. Raises RewriterError for one that lacks something."""
    old = int(model.graph.ir_version or 0)
    least = next(ir for ir in range(1, _MOST_IR + 1) if newest_import("", ir) >= version)
    if told is None:
        return max(old, least)
    if told < old:
        least = max(least, least_ir_version(Context(GraphIndex(model.graph), Knowledge(overridable=model.overridable))))
    if not least <= told <= _MOST_IR:
        raise RewriterError(
            f"--ir {told}: what the model has at opset {version} needs an IR version from {least} to {_MOST_IR}"
        )
    return told
