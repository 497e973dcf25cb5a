"""`rewriter extract`: a part of a model, checked against the whole."""

from __future__ import annotations

from collections.abc import Sequence

from rewriter.graph.values import new_variable
from rewriter.proof.models.output_agreement import Bound
from rewriter.proof.models.validity import Candidate
from rewriter.report.style import counted
from rewriter.surgery.command_text import command_text
from rewriter.surgery.cut.extract import Extracted, extract
from rewriter.surgery.finish import Checks, Surgery, finish
from rewriter.surgery.opened import Opened
from rewriter.surgery.ports import parsed_types, shown
from rewriter.surgery.same_numbers import Agreement, Step, agreement


def extracted(
    source: Opened,
    to: Sequence[str] = (),
    start: Sequence[str] | None = None,
    types: Sequence[str] = (),
    *,
    auto_inputs: bool = False,
    checks: Checks | None = None,
) -> Surgery:
    """The part of a model that leads to some tensors, as `extract` cuts it, checked and recorded.

    Raises:
        RewriterError: there is no such part, or it does not compute what the whole does.
    """
    model = source.read()
    cut = extract(model, to, start, types=parsed_types(types), auto_inputs=auto_inputs)
    did = [
        f"{counted(cut.nodes, 'node')} of {cut.of:,}",
        *(f"input   {shown(tensor)}" for tensor in cut.inputs),
        *(f"output  {shown(tensor)}" for tensor in cut.outputs),
    ]
    command = command_text("extract", [("--from", start or ()), ("--to", to), ("--type", types)], auto_inputs=auto_inputs)
    return finish(
        model, [source], command, did, cut.notes, checks or Checks(), lambda c, most: _agreement(source, cut, c, most)
    )


def _agreement(source: Opened, cut: Extracted, part: Candidate, most: int) -> Agreement:
    return same_as_whole(source, [part], [t.name for t in cut.inputs], [t.name for t in cut.outputs], most)


def same_as_whole(
    source: Opened,
    parts: Sequence[Candidate],
    given: Sequence[str],
    wanted: Sequence[str],
    most: int,
    bound: Bound | None = None,
) -> Agreement:
    """Whether parts that run one after the other give what the whole model gives: what is `given` is taken from it. `bound`
    as for `agreement`.
    """
    whole = source.read()
    own = {tensor.name for tensor in whole.graph.inputs}
    made = {tensor.name: tensor for node in whole.graph.nodes for tensor in node.outputs if tensor.name}
    asked = [name for name in dict.fromkeys((*given, *wanted)) if name in made]
    inputs = [tensor for tensor in whole.graph.inputs if tensor.name in given]
    if any(name not in made and name not in own for name in given):
        return Agreement(False, reason="an initializer of the whole is an input now")
    whole.graph.outputs = [made[name] for name in asked] or [new_variable(tensor.name) for tensor in inputs]
    candidate = Candidate(whole)
    steps = [Step(part) for part in parts]
    return agreement(candidate, [Step(candidate)], steps, [n for n in wanted if n in made], given=given, most=most, bound=bound)
