"""Recorded exports: models as exporters wrote them, with the numbers that the framework itself computed.

They are the reference for repairs that change numbers. A folder of them holds NAME.onnx with NAME.npz and, where the framework
wrote one, NAME-symbol.json; or one folder a model with model.onnx, data.npz and symbol.json. Arrays are called in_<input name>,
out_0, out_1...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import onnx

from rewriter.core.conditions.context import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model, load
from rewriter.core.language.rules import RuleSet
from rewriter.core.record import field, record
from rewriter.trust.proof.instances.instance import Array
from rewriter.trust.proof.models.output_agreement import RunBound, difference
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.source.acceptance import objection
from rewriter.trust.source.find import find, load_source

BOUND = RunBound(rtol=2e-3, atol=1e-4, scale=True)
_SECONDS = 30.0


@record
class Recorded:
    """What recorded exports say: rule → names of exports that it repairs, and rule → why it harms one."""

    repairs: dict[str, list[str]] = field(default_factory=dict)
    harms: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Export:
    """One recorded export."""

    name: str
    path: Path
    inputs: dict[str, Array]
    outputs: list[Array]


def exports(folder: Path) -> Iterator[Export]:
    """The recorded exports of a folder, by name; models without recorded numbers are left out."""
    for path in sorted(folder.rglob("*.onnx")):
        data = next((p for p in (path.with_suffix(".npz"), path.with_name("data.npz")) if p.is_file()), None)
        if data is None:
            continue
        with np.load(data, allow_pickle=False) as arrays:
            inputs = {key[3:]: arrays[key] for key in arrays.files if key.startswith("in_")}
            outputs = [arrays[f"out_{n}"] for n in range(sum(key.startswith("out_") for key in arrays.files))]
        name = path.parent.name if path.stem == "model" else path.stem
        if outputs:
            yield Export(name, path, inputs, outputs)


def examine(rules: RuleSet, folder: Path, codes: Collection[str]) -> Recorded:
    """Runs the rules on all recorded exports: what runs unasked together, and every other repair of `codes` in addition."""
    usual = RuleSet(tuple(rule for rule in rules if rule.default and rule.kind.name in ("repair", "exact")))
    asked = [rule for rule in rules if rule.code in codes and not rule.default and rule.kind.name == "repair"]
    found, known = Recorded(), [(export, _off(export, onnx.load(export.path))) for export in exports(folder)]
    sets = [(usual, set(codes))]
    sets += [(RuleSet((*usual.rules, rule), by_id=frozenset({rule.code})), {rule.code}) for rule in asked]
    for together, only in sets:  # one after the other, since few sets are kept ready
        for export, before in known:
            _book(export, before, together, found, only)
    return found


def _book(export: Export, before: str, rules: RuleSet, found: Recorded, only: Collection[str]) -> None:
    try:
        after, fired = _repaired(export, rules)
    except RewriterError:
        return
    wanted = fired & set(only)
    if not wanted:
        return
    off = _off(export, after)
    if before and not off:
        for code in sorted(wanted):
            found.repairs.setdefault(code, []).append(export.name)
    elif off and not before:
        for code in sorted(wanted):
            rule = rules.get(code)
            if rule is not None and _off(export, _repaired(export, RuleSet((rule,), by_id=frozenset({code})))[0]):
                found.harms.setdefault(code, f"it harms the recorded export {export.name}: {off}")


def _repaired(export: Export, rules: RuleSet) -> tuple[onnx.ModelProto, set[str]]:
    model: Model = load(export.path)
    beside = find(export.path)
    source = None if beside is None else load_source(beside)
    log = run(
        model.graph,
        rules,
        Knowledge(None if source is None or objection(source, model.graph) else source, overridable=model.overridable),
        limits=Limits(seconds=_SECONDS),
        detail=False,
    )
    return model.to_proto(), set(log.counts)


def _off(export: Export, model: onnx.ModelProto) -> str:
    """How the model's results differ from the recorded ones, "" where they do not."""
    loaded = ORACLES[0].load(model)
    answer = loaded if isinstance(loaded, Refusal) else loaded(export.inputs)
    if isinstance(answer, Refusal):
        return f"refused: {answer.reason}"
    found = list(answer.values())
    if len(found) < len(export.outputs):
        return f"{len(found)} outputs instead of {len(export.outputs)}"
    for number, (wanted, got) in enumerate(zip(export.outputs, found, strict=False)):
        text, _ = difference(wanted, got.astype(wanted.dtype) if got.dtype != wanted.dtype else got, BOUND)
        if text:
            return f"output {number} {text}"
    return ""
