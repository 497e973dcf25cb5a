"""Whether models that were cut, joined or edited compute the same as before, by running them if that is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.isolation import child
from rewriter.core.isolation.child import Crash, NoAnswer
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import field, record
from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import PLAIN, RefusedError
from rewriter.trust.proof.model_inputs import Feed
from rewriter.trust.proof.output_agreement import Bound, coarsest_eps, compare
from rewriter.trust.proof.validity import MOST_BYTES_TO_RUN, SECONDS, Candidate, small_feeds

ULPS = 64
"""A runtime may add up in another order in a part, and keep more digits between nodes than their type has."""

_LAST_OF_NUMPY = 15
"""Later element types (bfloat16, and types of at most eight bits) are not NumPy's, and ONNX Runtime returns no such arrays."""

Values = dict[str, Any]


@record(frozen=True, slots=True)
class Step:
    """A model in a sequence of models; its inputs and outputs may have other names in the sequence."""

    candidate: Candidate
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True, slots=True)
class Agreement:
    """The outcome of a comparison.

    Attributes:
        ran: whether both sides ran.
        difference: how the results differ, or why the later models do not run; "" if they agree.
        reason: why nothing was run.
        refused: whether the difference is that a runtime fails to run the later models.
    """

    ran: bool
    difference: str = ""
    reason: str = ""
    refused: bool = False


class _Failed(Exception):
    """A model does not run on these inputs."""


def agreement(
    drawn: Candidate,
    before: Sequence[Step],
    after: Sequence[Step],
    wanted: Sequence[str],
    *,
    boundary_names: Sequence[str] = (),
    most: int = MOST_BYTES_TO_RUN,
    bound: Bound | None = None,
) -> Agreement:
    """Runs models in sequence, and other models on the same inputs.

    Args:
        drawn: the model for whose inputs random values are drawn.
        before, after: the two sequences; each model reads the drawn inputs or outputs of earlier steps.
        wanted: tensors that both sequences have to return.
        boundary_names: tensors that the later steps read, with the values that the earlier ones computed.
        most: limit for the bytes of models that are run, and for the bytes of their inputs.
        bound: how far results may differ; None: as far as another order of the same computation allows.
    """
    if not (judges.installed() and child.possible()):
        return Agreement(False, reason="ONNX Runtime is not installed")
    why = ""
    try:
        eps = max((coarsest_eps(step.candidate.proto) for step in (*before, *after)), default=0.0)
        bound = bound or Bound(ulps=ULPS, eps=eps)
        if any(step.candidate.size() > most for step in (*before, *after)):
            return Agreement(False, reason=f"only models up to {most >> 20} MiB are run")
        for feed in small_feeds(drawn.proto, most):
            try:
                first = _run(before, feed)
            except _Failed as failed:
                why = why or f"the original does not run: {failed}"
                continue
            refused = False
            try:
                text = _difference(first, _run(after, {**feed, **_chosen(first, boundary_names)}), wanted, bound)
            except _Failed as failed:
                text = f"the result does not run: {failed}"
                refused = not isinstance(failed.__cause__, NoAnswer)
            if text and _difference(first, _run(before, feed), wanted, bound):
                return Agreement(False, reason="the outputs of the original differ from run to run")
            return Agreement(True, text, refused=refused)
    except (RewriterError, NoAnswer, _Failed) as error:
        why = why or str(error)
    return Agreement(False, reason=why or f"the inputs take more than {most >> 20} MiB")


def _run(steps: Sequence[Step], feed: Feed) -> Values:
    known: Values = dict(feed)
    for step in steps:
        own = {}
        for info in free_inputs(step.candidate.proto.graph):
            name = step.inputs.get(info.name, info.name)
            if info.type.tensor_type.elem_type > _LAST_OF_NUMPY:
                raise RewriterError(f"{name!r} has an element type that NumPy lacks")
            if name not in known:
                raise _Failed(f"nothing gives {name!r}")
            own[info.name] = known[name]
        outputs = step.candidate.proto.graph.output
        names = [output.name for output in outputs if output.type.tensor_type.elem_type <= _LAST_OF_NUMPY]
        if not names:
            raise RewriterError(
                f"{outputs[0].name!r} has an element type that NumPy lacks" if outputs else "there are no outputs"
            )
        try:
            found = step.candidate.session(PLAIN).run(names, own, seconds=SECONDS)
        except (RefusedError, Crash, NoAnswer) as error:
            raise _Failed(str(error)) from error
        known.update((step.outputs.get(name, name), value) for name, value in zip(names, found, strict=True))
    return known


def _chosen(values: Values, names: Sequence[str]) -> Values:
    return {name: values[name] for name in names if name in values}


def _difference(before: Values, after: Values, wanted: Sequence[str], bound: Bound) -> str:
    return str(compare(_chosen(before, [name for name in wanted if name in after]), after, bound)[0] or "")
