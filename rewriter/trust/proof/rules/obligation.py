"""The written form of a counterexample: as small as possible, with the condition that the rule lacks.

`verify_rule` finds it; the text lets its reader run it without `rewriter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import onnx
from onnx import printer

from rewriter.core.conditions.recorded_graph import HasKernel
from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.ast import Evidence
from rewriter.core.language.rule import Rule
from rewriter.core.onnxfile.part import Whole
from rewriter.core.record import record, replace
from rewriter.trust.proof.instances.instance import Array, Instance, ir_version
from rewriter.trust.proof.instances.random_arrays import STYLES, NoInputs, feed
from rewriter.trust.proof.instances.sampling import (
    Stream,
    all_opsets,
    forget_output_shapes,
    resize,
    shapes,
    tests_of,
    written_instance,
)
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.proof.models.model_runs import values_of
from rewriter.trust.proof.models.output_agreement import RunBound, compare
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.proof.rules.trial import (
    CHANGED,
    NOT_FIRED,
    REPAIRED,
    SAME,
    STILL,
    VOID,
    WRONG,
    Trial,
    attempt,
    checked,
    run_on,
    undeclared,
)
from rewriter.trust.proof.rules.verdict import Unneeded
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
    best, left, stop = trial, ATTEMPTS, time.monotonic() + SHRINK_SECONDS
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(best.instance):
            left -= 1
            if left < 0 or time.monotonic() > stop:
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
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.output[position], copy.graph.node[:]
        copy.graph.node.extend(whole.nodes[place] for place in whole.before(info.name for info in copy.graph.output))
        yield copy


def _shorter(instance: Instance, old: int, new: int) -> Instance:
    """The instance with one length replaced everywhere."""
    copy = onnx.ModelProto()
    copy.CopyFrom(instance.model)
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
    stop = time.monotonic() + NEGATIVE_SECONDS
    stream = Stream(weaker, seed)
    fresh = (instance for _, instance in islice(stream, INSTANCES) if instance is not None)
    for number, instance in enumerate((*rejected, *fresh)):
        if time.monotonic() > stop:
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


def obligation(rule: Rule, trial: Trial) -> str:
    """The text of a counterexample."""
    return "\n".join(_lines(rule, trial))


def running(rule: Rule, found: RunningInstance) -> str:
    """The text of a model that runs although `evidence: refused` claims that it is rejected, and the outputs of the model."""
    return "\n".join(_running(rule, found))


def _running(rule: Rule, found: RunningInstance) -> Iterator[str]:
    instance = found.instance
    yield f"{rule.code} {rule.slug} claims that such a model is rejected"
    yield f"opset {instance.opset}, instance from: {instance.origin}"
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
            yield from _arrays(title, values)
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
        yield from (f"{title}:", f"  {values.reason}") if isinstance(values, Refusal) else _arrays(title, values)
    if not isinstance(before, Refusal) and not isinstance(after, Refusal):
        common = {name: array for name, array in before.items() if name in after}
        parted, _ = compare(common, after, RunBound(ulps=0))
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


# Whether the claim of a rule with `evidence: refused` is true: no model on which it fires may load and run.
#
# The claim is about every model of the pattern under its conditions, at every opset. So one model that the checker passes and
# that ONNX Runtime loads and runs refutes it. A model that loads and fails on some inputs runs on others: it counts as rejected
# only if it fails on every input that was drawn. A rule about one runtime's missing kernel, `refused(onnxruntime)`, has that
# runtime check each node before it fires, and does so here; then only the runtime checks the model, not the checker.

REFUSED = "refused"
FIRST = 1 << 20
"""The number of the first model, so that none has the number of an instance of `verify`."""

ENOUGH = 60
"""Models on which the rule fires, after which its claim counts as true."""
MOST_TRIED = 600
SECONDS = 2.0


@record(frozen=True)
class RunningInstance:
    """A model that no gate rejects, and the inputs with which it runs."""

    instance: Instance
    inputs: Mapping[str, Array]


def running_instance(
    rule: Rule,
    evidence: Evidence,
    seed: int,
    *,
    skip: Collection[int] = (),
    at: Callable[[int], object] = lambda number: None,
) -> RunningInstance | None:
    """A model on which a rule fires and which runs before the rewrite; None if a short search finds none.

    Args:
        rule: the rule.
        evidence: the claim of the rule; the header of the rule is not read.
        seed: of the models.
        skip: numbers of models not to run, since they take the process down.
        at: is called with the number of each model before it runs.
    """
    fired, end = 0, time.monotonic() + SECONDS
    for number, instance in islice(enumerate(_instances(rule, seed), FIRST), MOST_TRIED):
        if fired >= ENOUGH or time.monotonic() > end:
            return None
        if instance is None or number in skip:
            continue
        at(number)
        for variant in _variants(instance):
            if _fires(rule, variant, has_kernel if evidence.runtime else None):
                fired += 1
                inputs = _runs_with(variant, evidence, np.random.default_rng([seed, number]))
                if inputs is not None:
                    return RunningInstance(variant, inputs)
    return None


def refuted(evidence: Evidence) -> str:
    """The message that a model runs although the rule claims the opposite."""
    how = "ONNX Runtime runs" if evidence.runtime else "the checker passes and ONNX Runtime runs"
    runtime = f"({evidence.runtime})" if evidence.runtime else ""
    return f"`evidence: {evidence.name}{runtime}`, but it fires on a model that {how}"


def _instances(rule: Rule, seed: int) -> Iterator[Instance | None]:
    """The rule's tests as written and in every opset of its range, then the instances of verification; None for a draft that
    could not be completed.
    """
    opsets = all_opsets(rule)
    for test in tests_of(rule, positive=True):
        written = written_instance(rule, test)
        yield written
        yield from (_moved(written, opset) for opset in opsets if opset != written.opset)
    stream = Stream(rule, seed)
    stream.forms = [] if rule.ast.match.graph else opsets
    yield from (instance for _, instance in stream)


def _moved(instance: Instance, opset: int) -> Instance:
    model = onnx.ModelProto()
    model.CopyFrom(instance.model)
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = opset
            model.ir_version = max(model.ir_version, ir_version(opset))
    return replace(instance, model=model)


def _variants(instance: Instance) -> Iterator[Instance]:
    """The instance, and the same with its outputs declared as inferred: that a declaration is wrong is no merit of the rule."""
    yield instance
    other = undeclared(instance.model)
    if other != instance.model:
        yield replace(instance, model=other)


def _fires(rule: Rule, instance: Instance, has_kernel: HasKernel | None) -> bool:
    try:
        return run_on(rule, instance, has_kernel)[1].changed
    except RewriterError:
        return False


def _runs_with(instance: Instance, evidence: Evidence, rng: np.random.Generator) -> Mapping[str, Array] | None:
    """Inputs with which a model runs that neither the checker nor the runtime rejects; None if there are none."""
    if not evidence.runtime and checked(instance.model):
        return None
    loaded = ORACLES[0].load(instance.model)
    if isinstance(loaded, Refusal):
        return None
    return next((inputs for inputs in _feeds(instance, rng) if not isinstance(loaded(inputs), Refusal)), None)


def _feeds(instance: Instance, rng: np.random.Generator) -> Iterator[Mapping[str, Array]]:
    """Inputs of every style; also with length 1 for every dimension that has only a name."""
    sizes: Sequence[Mapping[str, int]] = (instance.sizes, dict.fromkeys(instance.sizes, 1)) if instance.sizes else ({},)
    for lengths in sizes:
        for style in STYLES:
            try:
                drawn = feed(replace(instance, sizes=lengths), rng, style)
            except NoInputs:
                return
            yield drawn
        yield {name: np.zeros_like(array) for name, array in drawn.items()}
