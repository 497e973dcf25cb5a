"""Whether a model whose batch got a name computes for each half of a batch the same outputs as for that half alone.

Shapes show that a dimension flows through a graph, but they do not show everything: a normalisation over the batch keeps its
shape. So the model before the change runs on two feeds, the model after it runs on both at once, and the outputs are compared.
If the dimension is not the first one, or the model before does not run, there is nothing to compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.log import Verification
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import replace
from rewriter.trust.proof.guard import Culprit, Replay, ReplayedRun, Variation, Verify, state_after, stretches
from rewriter.trust.proof.model_inputs import Feed, random_feeds
from rewriter.trust.proof.output_agreement import Bound, coarsest_eps, compare
from rewriter.trust.proof.validity import Candidate, CannotRun, ModelRun, Outputs, runtimes

BOUND = Bound(ulps=64, rtol=1e-4, atol=1e-6)
"""Kernels add up in another order for another batch."""


class BatchCheck:
    """Checks rules that named a batch, and then runs another check.

    Args:
        replay: runs the rules anew.
        further: the other verification; None for none.
    """

    def __init__(self, replay: Replay, further: Verify | None) -> None:
        self._replay = replay
        self._further = further

    def __call__(self, attempt: ReplayedRun, plan: Variation) -> Verification | Culprit | None:
        """The rule that named a batch which does not flow, or the result of the other check."""
        for start, end in stretches(attempt.log.firings, lambda firing: firing.kind == "interface" and firing.rule):
            reason = self._differs(attempt, plan, start, end)
            if reason:
                return Culprit(attempt.log.firings[end - 1], reason, everywhere=True)
        return None if self._further is None else self._further(attempt, plan)

    def _differs(self, attempt: ReplayedRun, plan: Variation, start: int, end: int) -> str:
        try:
            before, after = (state_after(number, attempt, plan, self._replay) for number in (start, end))
            return batch_difference(before, after) or ""
        except RewriterError:
            return ""  # there is nothing to compare with


def _named(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str] | None:
    """Inputs whose first dimension was a number and has one and the same name now; None when that is not all that changed."""
    now = {info.name: info.type.tensor_type.shape.dim for info in free_inputs(after.graph)}
    found, names = set(), set()
    for info in free_inputs(before.graph):
        old, new = info.type.tensor_type.shape.dim, now.get(info.name)
        if new is None or len(old) != len(new):
            return None
        for axis, (one, other) in enumerate(zip(old, new, strict=True)):
            if one.HasField("dim_value") and other.dim_param:
                if axis:
                    return None
                found.add(info.name)
                names.add(other.dim_param)
    return frozenset(found) if found and len(names) == 1 else None


def batch_difference(before: Candidate, after: Candidate) -> str | None:
    """The difference between a batch of two halves and the halves, if two models differ in the name of their batch.

    Returns:
        "" if there is none; None if no batch was named.

    Raises:
        RewriterError: the model before does not run or draws random numbers, or no inputs can be made up.
    """
    named = _named(before.proto, after.proto)
    if named is None:
        return None
    runtime = runtimes()[0]
    run = ModelRun(before, runtime)
    feeds = next(random_feeds(before.proto))
    halves = [run(feed) for feed in feeds[:2]]
    if compare(halves[0], run(feeds[0]), BOUND)[0] is not None:
        raise RewriterError("the outputs of the original differ from run to run")
    eps = max(coarsest_eps(before.proto), coarsest_eps(after.proto))
    bound = replace(BOUND, eps=eps)
    try:
        whole = ModelRun(after, runtime)(_stacked(feeds, named))
    except CannotRun as error:
        return f"with twice the batch it does not run: {error}"
    for name in halves[0]:
        if name in whole and (reason := _output(name, halves, whole, bound)):
            return f"with twice the batch output {name!r} {reason}"
    return ""


def _stacked(feeds: list[Feed], named: frozenset[str]) -> Feed:
    """Both feeds in one. Inputs without a batch must be equal in both feeds; the result has the inputs of the first."""
    first, second = feeds[0], feeds[1]
    return {name: np.concatenate([first[name], second[name]]) if name in named else first[name] for name in first}


def _output(name: str, halves: list[Outputs], whole: Outputs, bound: Bound) -> str:
    one, other, both = (np.asarray(outputs[name]) for outputs in (*halves, whole))
    axes = [axis for axis in range(one.ndim) if both.ndim == one.ndim and _doubled(one.shape, both.shape, axis)]
    if not axes:
        same = one.shape == both.shape
        return _first(name, one, both, bound) if same else f"has shape {list(both.shape)}, and {list(one.shape)} for each half"
    return _first(name, np.concatenate([one, other], axes[0]), both, bound)


def _doubled(half: tuple[int, ...], whole: tuple[int, ...], axis: int) -> bool:
    return all(2 * a == b if i == axis else a == b for i, (a, b) in enumerate(zip(half, whole, strict=True)))


def _first(name: str, wanted: Any, found: Any, bound: Bound) -> str:
    off, _ = compare({name: wanted}, {name: found}, bound)
    return off.message if off else ""
