"""`rewriter opset`: another version of ONNX's operators, where no node means something else in it."""

from __future__ import annotations

from rewriter.errors import RewriterError
from rewriter.graph.imports import newest_import
from rewriter.graph.scopes import opset_versions
from rewriter.surgery.command_text import command_text
from rewriter.surgery.cut.extraction import same_as_whole
from rewriter.surgery.finish import Checks, Surgery, finish
from rewriter.surgery.merge.join_versions import changes, set_versions
from rewriter.surgery.opened import Opened

_MOST_IR = 13
_SHOWN = 8  # nodes that an error names


def restamped(source: Opened, version: int, ir_version: int | None = None, checks: Checks | None = None) -> Surgery:
    """A model that says it is of another version of the operators, and of another IR version where that is told or needed.

    Raises:
        RewriterError: a node would mean something else, or there is no such version.
    """
    model = source.read()
    before = opset_versions(model.graph).get("", 1)
    newest = newest_import("", _MOST_IR)
    if not 1 <= version <= newest:
        raise RewriterError(f"there is no version {version} of ONNX's operators; the newest here is {newest}")
    nodes = list(changes(model, "", before, version))
    if nodes:
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        raise RewriterError(f"{'; '.join(nodes[:_SHOWN])}{more}. Only what means the same can be given another version")
    functions = [f"{f.domain}::{f.name}" for f in model.graph.functions if opset_versions(f).get("", version) != version]
    notes = [f"{', '.join(functions[:3])}: functions keep the versions that they import"] if functions else []
    old_ir = int(model.graph.ir_version or 0)
    least = next(ir for ir in range(1, _MOST_IR + 1) if newest_import("", ir) >= version)
    wanted = max(old_ir, least) if ir_version is None else ir_version
    if not least <= wanted <= _MOST_IR:
        raise RewriterError(f"--ir {wanted}: version {version} of the operators needs an IR version from {least} to {_MOST_IR}")
    set_versions(model, {"": version}, wanted)
    did = [f"opset  {before} -> {version}", *([f"IR  {old_ir} -> {wanted}"] if wanted != old_ir else [])]
    inputs, outputs = ([tensor.name for tensor in ports] for ports in (model.graph.inputs, model.graph.outputs))
    command = command_text("opset", [("--to", [str(version)]), ("--ir", [str(ir_version)] if ir_version else [])])
    compared = lambda candidate, most: same_as_whole(source, [candidate], inputs, outputs, most)  # noqa: E731
    return finish(model, [source], command, did, notes, checks or Checks(), compared)
