"""Operator sets of models that become one: nodes of all of them must mean what they meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.graph.objects import written_names
from rewriter.graph.scopes import opset_versions
from rewriter.surgery.keep import key_of, with_inner

Schema = Any
Formal = Any

_CHANGED_SILENTLY = frozenset({"GroupNormalization"})
"""Operators that compute something else in a later version, with the operands and attributes that they had."""


def align(models: Sequence[Model], names: Sequence[str]) -> dict[str, int]:
    """The version of each operator domain that all models can have, without one of their nodes meaning something else.

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
                    if domain in versions and (why := changed(model, domain, versions[domain], version))
                ),
                "",
            )
            if not reason:
                found[domain] = version
                break
            reasons.append(reason)
        else:
            raise RewriterError(f"the models are of different operator sets, and cannot be of one: {reasons[0]}")
    return found


def changed(model: Model, domain: str, before: int, after: int) -> str:
    """Which node would mean something else in another version of its domain; "" when none would."""
    return next(changes(model, domain, before, after), "")


def changes(model: Model, domain: str, before: int, after: int) -> Iterator[str]:
    """The nodes that would mean something else in another version of their domain, a sentence each."""
    if before == after:
        return
    functions = {key_of(function)[:2] for function in model.graph.functions}
    for node in with_inner(model.graph.nodes):
        own = node.domain or ""
        if ("" if own == "ai.onnx" else own) != domain or (own, node.op) in functions:
            continue
        if not _means_the_same(node, _schema(node, domain, before), _schema(node, domain, after)):
            what = f"{node.op} {node.name!r}" if node.name else node.op
            yield f"{what} is another operator in version {after} of {domain or 'ai.onnx'} than in {before}"


def _schema(node: gs.Node, domain: str, version: int) -> Schema | None:
    try:
        return onnx.defs.get_schema(node.op, version, domain)
    except onnx.defs.SchemaError:
        return None


def _means_the_same(node: gs.Node, before: Schema | None, after: Schema | None) -> bool:
    """Whether a node reads alike in two versions of its operator: what it has written, and the defaults of what it has not.

    The element types that a version allows are looked at by those who judge the result.
    """
    if before is None or after is None:
        return before is after
    if before.since_version == after.since_version:
        return True
    if after.deprecated or node.op in _CHANGED_SILENTLY:
        return False
    written = set(written_names(node))
    for name in {*before.attributes, *after.attributes}:
        one, other = before.attributes.get(name), after.attributes.get(name)
        if one is None or other is None:
            if name in written or (other is not None and other.required):
                return False
        elif (one.type, one.default_value) != (other.type, other.default_value):
            return False
    ports = (node.inputs, before.inputs, after.inputs), (node.outputs, before.outputs, after.outputs)
    return all(_fit(*port) for port in ports)


def _fit(tensors: Sequence[gs.Tensor], before: Sequence[Formal], after: Sequence[Formal]) -> bool:
    """Whether operands, or results, stand for the same in two versions."""
    used = max((i + 1 for i, tensor in enumerate(tensors) if tensor.name), default=0)
    names = [[formal.name for formal in side[:used]] for side in (before, after)]
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    return names[0] == names[1] and not any(formal.option == single for formal in after[used:])


def set_versions(model: Model, versions: dict[str, int], ir_version: int | None) -> None:
    """Has a model import these versions, and those domains besides that it does not have yet."""
    graph = model.graph
    imports = []
    for entry in graph.import_domains:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if domain in versions:
            imports.append(onnx.OperatorSetIdProto(domain=entry.domain, version=versions[domain]))
        else:
            imports.append(entry)
    known = {"" if entry.domain == "ai.onnx" else entry.domain for entry in imports}
    imports += [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions.items() if d not in known]
    if [(e.domain, e.version) for e in imports] != [(e.domain, e.version) for e in graph.import_domains]:
        graph.import_domains = imports
    if "" in versions:
        graph.opset = versions[""]
    graph.ir_version = ir_version
