"""Whether the claim of a rule with `evidence: refused` is true: no model on which it fires may load and run.

The claim is about every model of the pattern under its conditions, at every opset. So one model that the checker passes and
that ONNX Runtime loads and runs refutes it. A model that loads and fails on some inputs runs on others: it counts as rejected
only if it fails on every input that was drawn. A rule about one runtime's missing kernel, `refused(onnxruntime)`, has that
runtime check each node before it fires, and does so here; then only the runtime checks the model, not the checker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path

import numpy as np

from rewriter.core.conditions.recorded_graph import HasKernel
from rewriter.core.errors import RewriterError
from rewriter.core.language.ast import Evidence
from rewriter.core.language.rules import Rule
from rewriter.core.record import record, replace
from rewriter.trust.proof.instances.instance import Array, Instance, ir_version
from rewriter.trust.proof.instances.random_arrays import STYLES, NoInputs, feed
from rewriter.trust.proof.instances.sampling import Stream, all_opsets
from rewriter.trust.proof.instances.seeded_instances import tests_of, written_instance
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.proof.rules.trial import checked, run_on, undeclared

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
    exports: Sequence[Path] = (),
    skip: Collection[int] = (),
    at: Callable[[int], object] = lambda number: None,
) -> RunningInstance | None:
    """A model on which a rule fires and which runs before the rewrite; None if a short search finds none.

    Args:
        rule: the rule.
        evidence: the claim of the rule; the header of the rule is not read.
        seed: of the models.
        exports: recorded exports that the rule repairs.
        skip: numbers of models not to run, since they take the process down.
        at: is called with the number of each model before it runs.
    """
    fired, end = 0, time.process_time() + SECONDS
    for number, instance in islice(enumerate(_instances(rule, seed, exports), FIRST), MOST_TRIED):
        if fired >= ENOUGH or time.process_time() > end:
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


def _instances(rule: Rule, seed: int, exports: Sequence[Path]) -> Iterator[Instance | None]:
    """The rule's tests as written and in every opset of its range, then the instances of verification; None for a draft that
    could not be completed.
    """
    opsets = all_opsets(rule)
    for test in tests_of(rule, positive=True):
        written = written_instance(rule, test)
        yield written
        yield from (_moved(written, opset) for opset in opsets if opset != written.opset)
    stream = Stream(rule, seed, exports)
    stream.forms = [] if rule.ast.match.graph else opsets
    yield from (instance for _, instance in stream)


def _moved(instance: Instance, opset: int) -> Instance:
    model = deepcopy(instance.model)
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
