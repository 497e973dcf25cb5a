"""`rewriter opset`: another version of ONNX's operators."""

from __future__ import annotations

import onnx

from rewriter.conditions.context import Context, Knowledge
from rewriter.conditions.format_versions import least_ir_version
from rewriter.errors import RewriterError
from rewriter.graph.imports import newest_import
from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.graph.scopes import opset_versions
from rewriter.surgery.command_text import command_text
from rewriter.surgery.cut.extraction import same_as_whole
from rewriter.surgery.finish import Checks, Surgery, finish
from rewriter.surgery.merge.join_versions import changes, set_versions
from rewriter.surgery.opened import Opened
from rewriter.surgery.versions.opset_conversion import convert_opset

_MOST_IR = int(onnx.IR_VERSION)
_SHOWN = 8  # nodes that an error names


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
