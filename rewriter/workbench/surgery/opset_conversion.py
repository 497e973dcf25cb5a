"""Models in another version of ONNX's operators: `rewriter opset`.

Each opset is one step. The step follows `language.meaning`, and the rules in `conversions/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context, node_keeps_meaning
from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.conditions.recorded_graph import Knowledge, least_ir_version
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError, listed
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Scope, callee, key_of, operator_key, opset_versions, with_inner
from rewriter.core.graph.save import newest_import, oldest_ir
from rewriter.core.language import schema
from rewriter.core.language.meaning import CHANGES, takes
from rewriter.core.language.rules import RuleSet
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.log import Log
from rewriter.core.onnxfile.tensors import TensorType, encode
from rewriter.core.resources import resource
from rewriter.core.rewriting.inline import inline_function
from rewriter.core.rewriting.transaction import Rewriting
from rewriter.rule_tools.load_rules import load_rules
from rewriter.workbench.surgery.extract import as_in
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened

# Operators that an older version lacks are replaced by the bodies by which ONNX defines them.


def _body(node: gs.Node, version: int, facts: Facts) -> gs.Function | None:
    """The body of a node as a local function; None if the known facts about the operands give none, and for subgraphs."""
    schema: Any = onnx.defs.get_schema(node.op, version, "")
    if any(isinstance(value, gs.Node.AttributeRef | gs.Graph) for value in node.attrs.values()):
        return None
    of = schema.function_opset_versions if schema.has_function else schema.context_dependent_function_opset_versions
    fitting = max((one for one in of if one <= version), default=None)
    if fitting is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(fitting)
    else:
        types = [encode(facts.fact(tensor).type) for tensor in node.inputs]
        if any(tensor.name and not known for tensor, known in zip(node.inputs, types, strict=True)):
            return None
        inputs, outputs = ([tensor.name for tensor in side] for side in (node.inputs, node.outputs))
        message = onnx.helper.make_node(node.op, inputs, outputs, **node.attrs)
        data = schema.get_context_dependent_function_with_opset_version(fitting, message.SerializeToString(), types)
    function = onnx.FunctionProto.FromString(data)
    attributes = [attribute for inner in function.node for attribute in inner.attribute]
    if not function.node or any(attribute.type == onnx.AttributeProto.GRAPH for attribute in attributes):
        return None
    for attribute in attributes:
        if attribute.ref_attr_name and not attribute.type:  # some bodies omit the type
            attribute.type = int(schema.attributes[attribute.ref_attr_name].type)
    function.attribute_proto.extend(a.default_value for a in schema.attributes.values() if a.default_value.name)
    found: gs.Function = Model.from_proto(onnx.ModelProto(ir_version=10, functions=[function])).graph.functions[0]
    return found


OLDER = "older"
NEWER = "newer"
"""Domains of nodes that wait for a rule during a step: their meaning is the meaning in the version before, or after it."""

DEFAULTS_BEFORE: Mapping[tuple[str, str], Any] = MappingProxyType({("Concat", "axis"): 1})
"""The meaning of a missing attribute before it became required."""


MEANINGLESS = ("consumed_inputs",)
"""Attributes without influence on the outputs."""


@cache
def _stepped(version: int) -> frozenset[str]:
    """The operators that are new in a version, or differ from the version before."""
    return frozenset(op for op in schema.operators() if version in schema.versions(op))


def settled_attributes(node: gs.Node, before: int, after: int) -> dict[str, Any]:
    """Attributes of a node that is about to change its version, with their new values, None if they are removed.

    A default that the other version lacks is written. An attribute that the older version lacks is removed if it has its first
    default, which is always the former behaviour of the operator.
    """
    old, new = schema.schema(node.op, "", before), schema.schema(node.op, "", after)
    if old is None or new is None:
        return {}
    settled: dict[str, Any] = {name: None for name in MEANINGLESS if name in node.attrs and name not in new.attributes}
    for name, attribute in old.attributes.items():
        there = new.attributes.get(name)
        default = DEFAULTS_BEFORE.get((node.op, name), attribute.default) if before < after else attribute.default
        if name in node.attrs:
            if there is None and before > after and _says_nothing(node, name, default):
                settled[name] = None
        elif default is not None and there is not None and there.default != default:
            settled[name] = default
    return settled


def _says_nothing(node: gs.Node, name: str, default: Any) -> bool:
    """Whether an attribute has its default, including defaults that the specification gives only in words."""
    value = node.attrs[name]
    if default is None and isinstance(value, list) and schema.computed_default(node.op, "", name) == "ones":
        return all(item == 1 for item in value)
    return bool(value == default)


def align(models: Sequence[Model], names: Sequence[str]) -> dict[str, int]:
    """The version of each operator domain that all models can have without a change of meaning of a node.

    Raises:
        RewriterError: an operator changed between the versions of two models.
    """
    found: dict[str, int] = {}
    imports = [opset_versions(model.graph) for model in models]
    for domain in dict.fromkeys(domain for versions in imports for domain in versions):
        had = sorted({versions[domain] for versions in imports if domain in versions}, reverse=True)
        reasons = []
        for version in had:
            reason = next(
                (
                    f"{name}: {why}"
                    for model, versions, name in zip(models, imports, names, strict=True)
                    if domain in versions and (why := next(changes(model, domain, versions[domain], version), ""))
                ),
                "",
            )
            if not reason:
                found[domain] = version
                break
            reasons.append(reason)
        else:
            raise RewriterError(f"the models have different opsets, and no opset suits all of them: {reasons[0]}")
    return found


def changes(model: Model, domain: str, before: int, after: int) -> Iterator[str]:
    """The nodes that would mean something else in another version of their domain, a sentence each."""
    if before == after:
        return
    functions = {key_of(function) for function in model.graph.functions}
    for node in with_inner(model.graph.nodes):
        if schema.normal(node.domain or "") != domain or callee(node) in functions:
            continue
        if not node_keeps_meaning(node, domain, before, after, doubtful=True):
            what = f"{node.op} {node.name!r}" if node.name else node.op
            yield f"{what} is another operator in version {after} of {domain or 'ai.onnx'} than in {before}"


def set_versions(model: Model, versions: dict[str, int], ir_version: int | None) -> None:
    """Makes a model import these versions, and adds the domains that it does not import yet."""
    _import(model.graph, versions)
    model.graph.ir_version = ir_version


def _import(graph: gs.Graph, versions: dict[str, int]) -> None:
    imports = []
    for entry in graph.import_domains:
        version = versions.get(schema.normal(entry.domain), entry.version)
        same = version == entry.version
        imports.append(entry if same else onnx.OperatorSetIdProto(domain=entry.domain, version=version))
    known = {schema.normal(entry.domain) for entry in imports}
    imports += [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions.items() if d not in known]
    graph.import_domains = imports
    if "" in versions:
        graph.opset = versions[""]


# A model in another version of ONNX's operators, step by step from one version to the next.
#
# In each step the nodes that would change their meaning are put into a domain of their own, `older` or `newer`; the rules in
# `conversions/` express each of them in the version after the step. Nodes without a rule are rejected by name.

_SHOWN = 8  # nodes that an error names


@cache
def conversions() -> RuleSet:
    """The rules that convert nodes in one step."""
    return load_rules([resource("conversions")]).select(["ALL"])


def convert_opset(model: Model, version: int) -> Counter[str]:
    """Changes a model, and its functions, to another version of ONNX's operators; returns counts of converted operators.

    Raises:
        RewriterError: some nodes cannot be expressed in that version; the text names them. The model may be half converted.
    """
    done: Counter[str] = Counter()
    versions = [opset_versions(graph)[""] for graph in (model.graph, *model.graph.functions) if "" in opset_versions(graph)]
    if not versions:
        return done
    for node in GraphIndex(model.graph).all_nodes():
        if node.domain in (OLDER, NEWER):
            raise RewriterError(f"{_shown(node)}: the domain {node.domain!r} is used while a model is converted; it cannot be")
    for before in range(min(versions), version):
        _step(model, before, before + 1, done)
    for before in range(max(versions), version, -1):
        _step(model, before, before - 1, done)
    _refuse(_untyped(model, version))
    return done


def _step(model: Model, before: int, after: int, done: Counter[str]) -> None:
    """One version up or down, for the graph or for the functions of the version before."""
    noticed = _stepped(max(before, after))
    if after < before:
        _write_out(model, before, after, noticed, done)
    index = GraphIndex(model.graph)
    edits = Edits(index)
    marked: list[gs.Node] = []
    for node in _nodes(index, before, noticed):
        for name, value in settled_attributes(node, before, after).items():
            edits.set_attribute(node, name, value)
        if not node_keeps_meaning(node, "", before, after, doubtful=True):
            done[node.op] += 1
            edits.set_op(node, node.op, OLDER if before < after else NEWER)
            marked.append(node)
    index.finish()
    for graph in (model.graph, *model.graph.functions):
        if opset_versions(graph).get("") == before:
            _import(graph, {"": after})
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
    """Replaces nodes whose operators the version below lacks by their bodies; nodes without a body stay."""
    index = GraphIndex(model.graph)
    gone = [node for node in _nodes(index, before, noticed) if not schema.exists(node.op, "", after)]
    if not gone:
        return
    facts, edits = Facts(index, model.overridable), Edits(index)
    context = Context(index, facts=facts)
    for node in gone:
        function = _body(node, before, facts)
        if function is not None:
            done[node.op] += 1
            inline_function(Rewriting(context, edits, Bindings({}, {}), node, {}, index.scope(node)), node, function)
    edits.sweep(list(edits.added.values()))  # bodies compute results that no node reads
    index.finish()


def _nodes(index: GraphIndex, version: int, ops: frozenset[str]) -> Iterator[gs.Node]:
    """The nodes of these operators of ONNX in graphs and functions of a version."""
    own = {key_of(function) for function in index.graph.functions}
    for scope in index.scopes:
        if scope.opsets.get("") == version:
            for node in index.members(scope):
                domain, op = operator_key(node)
                if not domain and op in ops and (domain, op, callee(node)[2]) not in own:
                    yield node


def _reason(node: gs.Node, before: int, after: int, log: Log) -> str:
    """Why no rule has converted a node."""
    for blocked in log.blocked:
        if blocked.root == node_name(node):
            return blocked.reason
    if schema.schema(node.op, "", after) is None:
        return f"opset {after} has no {node.op}"
    change = CHANGES.get((node.op, max(before, after)))
    if change is not None:
        return f"opset {max(before, after)} changed {change.words}; opset {after} cannot express this node"
    return f"opset {after} cannot express these attributes and operands of opset {before}"


def _untyped(model: Model, version: int) -> list[str]:
    """The nodes whose operator no longer allows their element types, but did so before."""
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
    """An element type, or a type of no tensor, that a node has and that only later versions of its operator allow."""
    if operator_key(node)[0] or schema.schema(node.op, "", version) is None:
        return None
    for is_output, tensors in ((False, node.inputs), (True, node.outputs)):
        for place, tensor in enumerate(tensors):
            kind = _kind(facts.fact(tensor).type) if tensor.name else None
            if kind is not None and not takes(node.op, "", version, is_output, place, kind):
                return kind if takes(node.op, "", schema.latest_opset(), is_output, place, kind) else None
    return None


def _kind(known: TensorType) -> int | str | None:
    return _word(onnx.TypeProto.FromString(known.other)) if known.other else known.dtype


def _word(kind: onnx.TypeProto) -> str:
    """A type's name in schemas: `seq(tensor(float))`."""
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
        raise RewriterError(listed(reasons, _SHOWN, "; "))


# `rewriter opset`: another version of ONNX's operators.

_MOST_IR = int(onnx.IR_VERSION)


def reversioned(
    source: Opened, version: int, ir_version: int | None = None, *, restamp: bool = False, checks: Checks | None = None
) -> Surgery:
    """A model in another version of the operators, and in another IR version if this is requested or needed.

    Args:
        restamp: change only the version number, and convert nothing.

    Raises:
        RewriterError: a node cannot be expressed in that version, or there is no such version.
    """
    model = source.read()
    before = opset_versions(model.graph).get("", 1)
    newest = newest_import("", _MOST_IR)
    if not 1 <= version <= newest:
        raise RewriterError(f"there is no version {version} of ONNX's operators; the newest here is {newest}")
    for imported_version in sorted({opset_versions(graph).get("", 1) for graph in (model.graph, *model.graph.functions)}):
        if not 1 <= imported_version <= newest:
            raise RewriterError(
                f"the model imports version {imported_version} of ONNX's operators, and the newest known version is {newest}"
            )
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
    options = [("--ir", [str(ir_version)] if ir_version else [])]
    command = command_text(f"opset {version}", options, restamp=restamp)
    return finish(model, [source], command, did, notes, checks, as_in(source, model))


def _restamp(model: Model, before: int, version: int) -> list[str]:
    """Raises RewriterError if a node would mean something else; returns notes."""
    nodes = list(changes(model, "", before, version))
    if nodes:
        raise RewriterError(f"{listed(nodes, _SHOWN, '; ')}. Without --restamp such nodes are converted")
    functions = [f"{f.domain}::{f.name}" for f in model.graph.functions if opset_versions(f).get("", version) != version]
    return [f"{', '.join(functions[:3])}: functions keep the versions that they import"] if functions else []


def _ir_version(model: Model, version: int, requested: int | None) -> int:
    """The IR version of the result. Raises RewriterError for a version that lacks a needed feature."""
    old = int(model.graph.ir_version or 0)
    least = oldest_ir(version)
    if requested is None:
        return max(old, least)
    if requested < old:
        least = max(least, least_ir_version(Context(GraphIndex(model.graph), Knowledge(overridable=model.overridable))))
    if not least <= requested <= _MOST_IR:
        raise RewriterError(f"--ir {requested}: at opset {version} this model needs an IR version from {least} to {_MOST_IR}")
    return requested
