"""A counterexample on paper, like a proof obligation that cannot be met: models, inputs, and where the two sides part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import printer

from rewriter.language.rule import Rule
from rewriter.proof.instances.instance import Array
from rewriter.proof.models.inner_tensors import values_of
from rewriter.proof.oracles import ORACLES, Refusal
from rewriter.proof.rules.refused import RunningInstance
from rewriter.proof.rules.trial import Trial

_MOST_ELEMENTS = 24


def obligation(rule: Rule, trial: Trial) -> str:
    """The text of a counterexample."""
    return "\n".join(_lines(rule, trial))


def running(rule: Rule, found: RunningInstance) -> str:
    """The text of a model that `evidence: refused` says is refused, and what it computes."""
    return "\n".join(_running(rule, found))


def _running(rule: Rule, found: RunningInstance) -> Iterator[str]:
    instance = found.instance
    yield f"{rule.code} {rule.slug} claims that such a model is refused"
    yield f"opset {instance.opset}, instance from: {instance.origin}"
    yield from _model(instance.model)
    if instance.source is not None:
        yield f"source: {instance.source}"
    yield "inputs:"
    yield from (f"  {name} = {show(array)}" for name, array in found.inputs.items())
    computed = values_of(instance.model, found.inputs, ORACLES[0].name)
    if not isinstance(computed, Refusal):
        yield "computed:"
        yield from (f"  {name} = {show(array)}" for name, array in computed.items())


def _lines(rule: Rule, trial: Trial) -> Iterator[str]:
    promise = rule.kind.name + (f"(rtol={rule.kind.rtol:g}, atol={rule.kind.atol:g})" if rule.kind.name == "approx" else "")
    yield f"{rule.code} {rule.slug} promises: {promise}"
    yield f"opset {trial.instance.opset}, instance from: {trial.instance.origin}"
    yield f"but {trial.why}" + (f" ({trial.oracle})" if trial.oracle else "")
    yield "before:"
    yield from _model(trial.instance.model)
    if trial.after is None:
        return
    yield "after:"
    yield from _model(trial.after)
    if trial.instance.source is not None:
        yield f"source: {trial.instance.source}"
    for title, values in (("inputs", trial.inputs), ("constants", _constants(trial.instance.model))):
        if values:
            yield f"{title}:"
            yield from (f"  {name} = {show(array)}" for name, array in values.items())
    oracle = next((o for o in ORACLES if o.name == trial.oracle), None)
    if oracle is not None:
        sides = [values_of(model, trial.inputs, oracle.name) for model in (trial.instance.model, trial.after)]
        yield from _sides(*sides)


def _model(model: onnx.ModelProto) -> Iterator[str]:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.metadata_props[:]
    yield from (f"  {line}" for line in printer.to_text(copy).splitlines())


def _constants(model: onnx.ModelProto) -> dict[str, Array]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _sides(before: Mapping[str, Array] | Refusal, after: Mapping[str, Array] | Refusal) -> Iterator[str]:
    for title, values in (("computed before", before), ("computed after", after)):
        yield f"{title}:"
        if isinstance(values, Refusal):
            yield f"  {values.reason}"
        else:
            yield from (f"  {name} = {show(array)}" for name, array in values.items())
    if isinstance(before, Refusal) or isinstance(after, Refusal):
        return
    parted = next((n for n, a in before.items() if n in after and not _alike(a, after[n])), None)
    if parted is not None:
        yield f"they part at: {parted}"


def _alike(one: Array, other: Array) -> bool:
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    )


def show(array: Array) -> str:
    """A tensor as type, shape and its first elements."""
    flat = np.asarray(array).ravel()
    items = ", ".join(str(item) for item in flat[:_MOST_ELEMENTS].tolist())
    more = ", ..." if flat.size > _MOST_ELEMENTS else ""
    return f"{flat.dtype}{list(np.shape(array))} {{{items}{more}}}"
