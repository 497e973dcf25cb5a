"""The written form of a counterexample: as small as possible, with the condition that the rule lacks.

`verify_rule` finds it; the text lets its reader run it without `rewriter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice

import numpy as np
import onnx
from onnx import printer

from rewriter.core.language import ast
from rewriter.core.language.rules import Rule
from rewriter.core.onnxfile.part import Whole
from rewriter.core.record import replace
from rewriter.trust.proof.instances.instance import Array, Instance
from rewriter.trust.proof.instances.random_arrays import STYLES
from rewriter.trust.proof.instances.sampling import Stream
from rewriter.trust.proof.instances.seeded_instances import forget_output_shapes, resize, shapes
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.proof.output_agreement import Bound, compare
from rewriter.trust.proof.rules.refused import RunningInstance
from rewriter.trust.proof.rules.trial import CHANGED, NOT_FIRED, REPAIRED, SAME, STILL, VOID, WRONG, Trial, attempt, run_on
from rewriter.trust.proof.rules.verdict import Unneeded
from rewriter.trust.proof.validity import values_of
from rewriter.trust.rule_tests import run_test

# Makes a counterexample as small as it stays one: fewer outputs, shorter dimensions, plainer values.

ATTEMPTS = 120
SHRINK_SECONDS = 3.0


def shrink(rule: Rule, trial: Trial, wrong: Callable[[Trial], bool]) -> Trial:
    """The smallest counterexample that a short search finds.

    Args:
        rule: the rule.
        trial: a trial that is `wrong`.
        wrong: whether a trial still shows the same thing.
    """
    best, left, stop = trial, ATTEMPTS, time.process_time() + SHRINK_SECONDS
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(best.instance):
            left -= 1
            if left < 0 or time.process_time() > stop:
                return best
            found = attempt(rule, smaller, np.random.default_rng(0), STYLES)
            if wrong(found):
                best, progress = found, True
                break
    return best


def _smaller(instance: Instance) -> Iterator[Instance]:
    yield from (replace(instance, model=model) for model in _fewer_outputs(instance.model))
    lengths = sorted({d for shape in shapes(instance.model.graph) for d in shape if d > 1}, reverse=True)
    for length in lengths:
        for shorter in (1, 2, length - 1):
            if shorter < length and not (shorter == 2 and length == 3):
                yield _shorter(instance, length, shorter)


def _fewer_outputs(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The graph without one of the outputs and the nodes that only it needs."""
    whole = Whole(model)
    for position in range(len(model.graph.output) if len(model.graph.output) > 1 else 0):
        copy = deepcopy(model)
        del copy.graph.output[position], copy.graph.node[:]
        copy.graph.node.extend(whole.nodes[place] for place in whole.before(info.name for info in copy.graph.output))
        yield copy


def _shorter(instance: Instance, old: int, new: int) -> Instance:
    """The instance with one length replaced everywhere."""
    copy = deepcopy(instance.model)
    resize(copy.graph, {old: new}, lambda likely: likely > 0.5)
    forget_output_shapes(copy.graph)
    return replace(instance, model=copy)


# Conditions that matter: without a `where` line something must go wrong, or the purpose of the line is unknown.

INSTANCES = 60
NEGATIVE_SECONDS = 1.5


def unneeded(rule: Rule, rejected: Sequence[Instance], seed: int) -> tuple[Unneeded, ...]:
    """The conditions that can be left out without a fault.

    Args:
        rule: the rule.
        rejected: instances on which it did not fire.
        seed: of further instances.
    """
    found = []
    for weaker, span in weakened(rule):
        broke = _broke(rule, weaker, rejected, seed)
        if broke:
            line = rule.source.line_col(span.start)[0]
            found.append(Unneeded(line, rule.words(span), broke))
    return tuple(found)


def weakened(rule: Rule) -> Iterator[tuple[Rule, ast.Span]]:
    """The rule without each of its conditions, and the place of that condition."""
    forms = (rule.ast, *rule.ast.variants)
    parts = dict.fromkeys(part.span for one in forms for part in one.wheres)
    parts |= dict.fromkeys(part.span for one in forms for part in one.privates)
    for span in parts:
        weaker, *variants = (_without(one, span) for one in forms)
        yield Rule(replace(weaker, variants=tuple(variants)), rule.path, rule.source), span


def _without(rule: ast.Rule, span: ast.Span) -> ast.Rule:
    """A rule without the text in one place."""
    wheres = tuple(where for where in rule.wheres if where.span != span)
    return replace(rule, wheres=wheres, privates=tuple(private for private in rule.privates if private.span != span))


def _broke(rule: Rule, weaker: Rule, rejected: Sequence[Instance], seed: int) -> int:
    """How many drafts violated the condition and stayed correct; 0 if one became wrong, or if none violated it."""
    broke = 0
    if any(not run_test(weaker, test).ok for test in rule.ast.tests if test.after is None):
        return 0
    stop = time.process_time() + NEGATIVE_SECONDS
    stream = Stream(weaker, seed)
    fresh = (instance for _, instance in islice(stream, INSTANCES) if instance is not None)
    for number, instance in enumerate((*rejected, *fresh)):
        if time.process_time() > stop:
            break
        if number >= len(rejected) and not _leaves(rule, instance):
            continue
        trial = attempt(weaker, instance, stream.generator(number))
        if trial.status == NOT_FIRED:
            if trial.why:
                return 0  # the line kept a later one from raising
            continue
        if trial.status == VOID:
            continue
        broke += 1
        if trial.status in (WRONG, STILL, CHANGED):
            return 0
        if rule.kind.name == "repair" and (trial.status == SAME or (trial.status == REPAIRED and trial.agreed is False)):
            return 0  # a repair of a correct model
    return broke


def _leaves(rule: Rule, instance: Instance) -> bool:
    """Whether the engine does not fire the rule on an instance."""
    try:
        log = run_on(rule, instance)[1]
    except Exception:  # `attempt` reports it
        return False
    return not log.changed and not log.stops


_MOST_ELEMENTS = 24
_MOST_CHARACTERS = 4096


def obligation(rule: Rule, trial: Trial) -> str:
    """The text of a counterexample."""
    return "\n".join(_lines(rule, trial))


def running(rule: Rule, found: RunningInstance) -> str:
    """The text of a model that runs although `evidence: refused` claims that it is rejected, and the outputs of the model."""
    return "\n".join(_running(rule, found))


def _running(rule: Rule, found: RunningInstance) -> Iterator[str]:
    instance = found.instance
    yield f"{rule.code} {rule.slug} claims that such a model is rejected"
    yield f"opset {instance.opset}, model from: {instance.origin}"
    yield from _model(instance.model)
    if instance.source is not None:
        yield f"source: {instance.source}"
    yield from _arrays("inputs", found.inputs)
    computed = values_of(instance.model, found.inputs, ORACLES[0].name)
    if not isinstance(computed, Refusal):
        yield from _arrays("computed", computed)


def _lines(rule: Rule, trial: Trial) -> Iterator[str]:
    promise = rule.kind.name + (f"(rtol={rule.kind.rtol:g}, atol={rule.kind.atol:g})" if rule.kind.name == "approx" else "")
    yield f"{rule.code} {rule.slug} promises: {promise}"
    yield f"opset {trial.instance.opset}, model from: {trial.instance.origin}"
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
            yield from _arrays(title, values)
    oracle = next((o for o in ORACLES if o.name == trial.oracle), None)
    if oracle is not None:
        sides = [values_of(model, trial.inputs, oracle.name) for model in (trial.instance.model, trial.after)]
        yield from _sides(*sides)


def _model(model: onnx.ModelProto) -> Iterator[str]:
    copy = deepcopy(model)
    del copy.metadata_props[:]
    for line in printer.to_text(copy).splitlines():
        yield f"  {line}" if len(line) <= _MOST_CHARACTERS else f"  {line[:_MOST_CHARACTERS]} ..."


def _constants(model: onnx.ModelProto) -> dict[str, Array]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _sides(before: Mapping[str, Array] | Refusal, after: Mapping[str, Array] | Refusal) -> Iterator[str]:
    for title, values in (("computed before", before), ("computed after", after)):
        yield from (f"{title}:", f"  {values.reason}") if isinstance(values, Refusal) else _arrays(title, values)
    if not isinstance(before, Refusal) and not isinstance(after, Refusal):
        common = {name: array for name, array in before.items() if name in after}
        parted, _ = compare(common, after, Bound(each=True))
        if parted is not None:
            yield f"they part at: {parted.output}"


def _arrays(title: str, values: Mapping[str, Array]) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"  {name} = {show(array)}" for name, array in values.items())


def show(array: Array) -> str:
    """A tensor as type, shape and its first elements."""
    flat = np.asarray(array).ravel()
    items = ", ".join(str(item) for item in flat[:_MOST_ELEMENTS].tolist())
    more = ", ..." if flat.size > _MOST_ELEMENTS else ""
    return f"{flat.dtype}{list(np.shape(array))} {{{items}{more}}}"
