"""`why`, `diff` and `compare` from Python: their findings as objects, and as text like the commands print it. Pictures."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Generic, Literal, TypeVar

from rewriter.app.report.document import place_text
from rewriter.app.report.drawing import draw, pair
from rewriter.app.report.printout import Printout
from rewriter.app.report.svg import firing_picture, picture_text, view_picture
from rewriter.app.style import Style
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.firing_audit import SnapshotTaker, Weights
from rewriter.core.errors import RewriterError, counted, for_python
from rewriter.core.graph.any_model import AnyModel, StrPath, as_file
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model, load
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Log
from rewriter.rule_tools.explain.places import Explanation
from rewriter.rule_tools.explain.why_rules import explain, named
from rewriter.trust.difference import Difference, compare_files
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.proof.layer_comparison import Comparison, compare_models

Found = TypeVar("Found")
IN_MEMORY = "<model>"
MAX_ROWS = 20
"""Places that the text of an explanation lists."""


class Finding(Generic[Found]):
    """The findings of one command. `str()` returns the text that the command prints; a notebook shows the same text.

    Attributes:
        found: the findings as objects.
        data: the findings as `--format json` prints them.
    """

    def __init__(self, found: Found, printout: Printout) -> None:
        self.found = found
        self.data = printout.data()
        self._lines = printout.lines

    def __str__(self) -> str:
        return "\n".join(self._lines(Style()))

    def __repr__(self) -> str:
        return f"<Finding of {len(str(self).splitlines())} lines; print it>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@for_python
def why(
    rule: str,
    model: AnyModel,
    node: str | None = None,
    *,
    rules: RuleSet | StrPath | list[StrPath] | None = None,
    source: StrPath = "auto",
    constant_inputs: Literal["auto", "yes", "no"] = "auto",
) -> Finding[Explanation]:
    """Explains why a rule fires, or does not, at each place where its pattern could end, as `rewriter why` does.

    Args:
        rule: its code.
        model: as for `fix`.
        node: only places that this node is part of: its name, the name of one of its outputs, or a pattern such as "block1/*".
        rules, source, constant_inputs: as for `fix`.

    Raises:
        RewriterError: there is no such rule or node, or a file cannot be read.
    """
    from rewriter.app.chosen_rules import find_rule, loaded_rules
    from rewriter.app.report.why_lines import explanation

    known = loaded_rules(rules)
    chosen = find_rule(rule, list(known))
    selected = known.select(["DEFAULT", chosen.code])
    with as_file(model) as (path, is_temporary):
        found, exporter, notes = explained(Path(path), chosen.code, selected, node, str(source), constant_inputs)
    name = IN_MEMORY if is_temporary else path
    return Finding(found, explanation(found, str(name), exporter, notes, MAX_ROWS))


def explained(
    path: Path,
    code: str,
    rules: RuleSet,
    node: str | None,
    source: str,
    constant_inputs: Literal["auto", "yes", "no"],
) -> tuple[Explanation, str, list[str]]:
    """Explains one rule of a set on the model in a file.

    Returns:
        The explanation, the exporter of the model, and notes on the source file.
    """
    from rewriter.core.engine.run import run
    from rewriter.trust.source.find import source_of

    model = load(path)
    model.constant_inputs = constant_inputs
    origin, notes = source_of(model, str(path), source)
    known = Knowledge(origin, rules.settings, model.overridable, has_kernel=has_kernel)
    context = Context(GraphIndex(model.graph), known)

    def replay() -> Log:
        return run(model.graph, rules, known, keep=False, detail=False)

    rule = rules.get(code)
    assert rule is not None
    return explain(context, rule, node, replay), str(context.exporter), list(notes)


@for_python
def diff(before: AnyModel, after: AnyModel) -> Finding[list[Difference]]:
    """Compares the computation of two models, as `rewriter diff` does. `found` is empty if they are equal.

    Raises:
        RewriterError: an argument is no model, or it cannot be read.
    """
    from rewriter.app.report.comparison_lines import comparison

    with as_file(before) as (one, _), as_file(after) as (other, _):
        found = compare_files(Path(one), Path(other))
        names = _names(before, one, after, other)
    return Finding(found, comparison(*names, found))


@for_python
def compare(
    before: AnyModel,
    after: AnyModel,
    *,
    inputs: StrPath | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-6,
    memory: int = 256 << 20,
    layers: bool = False,
) -> Finding[Comparison]:
    """Runs two models on the same inputs and finds the first tensor that differs, as `rewriter compare` does. `found.same` is
    true if the outputs agree.

    Args:
        before, after: as for `fix`.
        inputs: an .npz file with inputs of `before`. With None, inputs are generated; they are always the same.
        rtol: tolerance relative to the largest magnitude of the tensor.
        atol: absolute tolerance.
        memory: bytes of tensors that are compared together.
        layers: compare all inner tensors that have a counterpart, even if the outputs agree.

    Raises:
        RewriterError: an argument is no model, it cannot be read, or the inputs do not match.
    """
    from rewriter.app.report.comparison_lines import layers as layers_printout

    if not (rtol >= 0 and atol >= 0 and memory > 0):  # NaN is no tolerance
        raise RewriterError("rtol and atol are 0 or more, and memory is more than 0")
    feed = None if inputs is None else str(inputs)
    with as_file(before) as (one, _), as_file(after) as (other, _):
        found = compare_models(Path(one), Path(other), inputs=feed, rtol=rtol, atol=atol, memory=memory, layers=layers)
        names = _names(before, one, after, other)
    return Finding(found, layers_printout(*names, found))


def _names(before: AnyModel, one: str, after: AnyModel, other: str) -> tuple[str, str]:
    """The names of the models in texts: their paths, or "before" and "after" if they have none."""
    return (str(one) if one == str(before) else "before"), (str(other) if other == str(after) else "after")


# Pictures of a part of a model, and of what one firing does to it; `rewriter picture` writes them to files.

ENDINGS = (".svg", ".dot", ".mmd")
AROUND = 80
"""Nodes that are drawn around one."""


def picture_of_firing(firing: Firing, ending: str) -> str:
    """The nodes around a firing with a snapshot, before and after it; `ending` is one of `ENDINGS`."""
    assert firing.snapshot is not None
    title, subtitle = f"{firing.rule} at {place_text(firing)}", firing.title
    if ending == ".svg":
        return firing_picture(firing.snapshot, title, subtitle)
    drawings = list(zip(("before", "after"), pair(firing.snapshot), strict=True))
    return picture_text(ending, drawings, f"{title}: {subtitle}")


def picture_of_part(model: Model, name: str, around: str | None, hops: int, ending: str, *, most: int) -> str:
    """The nodes at most `hops` steps away from one node, or a whole model with at most `most` nodes.

    Raises:
        RewriterError: there are more nodes, or no node has this name.
    """
    index = GraphIndex(model.graph)
    context = Context(index, Knowledge(overridable=model.overridable))
    taker = SnapshotTaker(context, Weights(index).words)
    if around is None:
        nodes = index.members(index.scopes[0])
        if len(nodes) > most:
            raise RewriterError(
                f"{name}: {len(nodes):,} nodes are too many for one picture; `rewriter view` shows a model of any size, "
                "--around NODE or --firing N draws a part"
            )
        part, subtitle = taker.view(nodes, index.scopes[0]), counted(len(nodes), "node")
    else:
        node = named(index, around)[0]
        nodes = taker.near(node, hops, AROUND)
        part = taker.view(nodes, index.scope(node), node)
        subtitle = f"{counted(len(nodes), 'node')} around {around}"
    if ending == ".svg":
        return view_picture(part, name, subtitle)
    return picture_text(ending, [(subtitle, draw(part))], name)
