"""Operator sets of models that become one: nodes of all of them must mean what they meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.graph.scopes import opset_versions
from rewriter.workbench.surgery.keep import called, key_of, with_inner
from rewriter.workbench.surgery.versions.opset_steps import keeps


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
    functions = {key_of(function) for function in model.graph.functions}
    for node in with_inner(model.graph.nodes):
        own = node.domain or ""
        if ("" if own == "ai.onnx" else own) != domain or called(node) in functions:
            continue
        if not keeps(node, before, after, domain):
            what = f"{node.op} {node.name!r}" if node.name else node.op
            yield f"{what} is another operator in version {after} of {domain or 'ai.onnx'} than in {before}"


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
