"""No result of a surgery is less valid than what it was made of, as far as the judges of `fix` tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.proof.models.validity import JUDGES, RUNTIME, Candidate


def judge(result: Model, before: Callable[[], Sequence[Model]], *, runtime: bool = True) -> tuple[Candidate, list[str]]:
    """Puts a result before the judges.

    Args:
        result: the model.
        before: reads what it was made of, which is judged only where the result is refused.
        runtime: whether ONNX Runtime is asked as well.

    Returns:
        What was judged, and notes: who refuses the result as it refused what it was made of, and who did not say.

    Raises:
        RewriterError: somebody refuses the result who takes all that it was made of.
    """
    candidate = Candidate(result)
    judges = [name for name in JUDGES if runtime or name not in RUNTIME]
    notes = []
    if candidate.first_refusal(judges) is not None:
        others = [Candidate(model) for model in before()]
        for name in judges:
            reason = candidate.refusal(name)
            if not reason:
                continue
            if all(other.refusal(name) == "" for other in others):
                raise RewriterError(f"the result would be refused by {name}, so nothing is written: {reason}")
            notes.append(f"still refused by {name}: {reason}")
    notes += candidate.unanswered.values()
    return candidate, notes
