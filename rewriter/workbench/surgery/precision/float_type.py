"""`rewriter convert`: a model that computes in another floating-point type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_graphsurgeon as gs
from onnx import helper

from rewriter.core.conditions.context import Knowledge
from rewriter.core.engine.run import Hooks, run
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.facts.single_node import single_node
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.scopes import bodies
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.operator_traits import CASTS_BY_NUMBER, FLOAT_WITHOUT, TYPED
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.kernels import SAYS_AT_RUN, has_kernel
from rewriter.trust.proof.models.output_agreement import Bound
from rewriter.trust.proof.models.validity import Candidate
from rewriter.workbench.style import counted
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish, size_of_runs
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.parts import Parts, names_in
from rewriter.workbench.surgery.precision.float_change import FloatChange
from rewriter.workbench.surgery.precision.float_plan import CASTS, FLOATS, FloatPlan
from rewriter.workbench.surgery.same_numbers import Step, agreement

TYPES = ("float16", "bfloat16", "float32", "double")
IO = ("keep", "convert")
CLOSE = 1e-2
"""How far, relative and absolute, results may be from those before without a note."""

_MAY_LACK = ("bfloat16", "double")
"""Types for which ONNX Runtime lacks many kernels, and puts in no casts of its own; for float16 it does before nodes that read
floating-point numbers."""

_RANGE = ".."
_SHOWN = 8  # weights that are named
_INLINE = "HYG032"
_NEEDLESS = "GEN033"
"""Takes out casts to the type that is there already, which would otherwise tell a type that the others no longer have."""


def in_type(source: Opened, dtype: str, keep: Sequence[str] = (), io: str = "keep", checks: Checks | None = None) -> Surgery:
    """A model that computes in another floating-point type where it can, checked and recorded.

    Args:
        dtype: one of `TYPES`.
        keep: nodes that compute as before: names, patterns, `op:TYPE`, and `A..B` for all between two of them.
        io: "convert", to change the types of inputs and outputs, too.

    Raises:
        RewriterError: there is no such type or node, or the result is less valid than the model was.
    """
    if dtype not in TYPES or io not in IO:
        raise RewriterError(f"the element type is one of {', '.join(TYPES)}, and io one of {', '.join(IO)}")
    checks = checks or Checks()
    model = source.read()
    asks = checks.runtime != "no"
    did = _convert(model, dtype, keep, ports=io == "convert", asks=asks)
    options = [("--dtype", [dtype]), ("--keep", keep), ("--io", [io] if io != "keep" else [])]
    done = finish(model, [source], command_text("convert", options), did, [], checks)
    if asks and not done.notes:
        compared = model
        if io == "convert":
            compared = source.read()
            _convert(compared, dtype, keep, ports=False, asks=asks)
        _compare(source, Candidate(compared), done, size_of_runs(checks))
    return done


def _convert(model: Model, dtype: str, keep: Sequence[str], *, ports: bool, asks: bool) -> list[str]:
    """Changes a model; what was done, a line each. `asks`: nodes for which ONNX Runtime lacks a kernel stay."""
    target = DTYPES["float" if dtype == "float32" else dtype]
    did = []
    if model.graph.functions:
        before = len(model.graph.functions)
        run(model.graph, load_rules().select([_INLINE]), Knowledge(overridable=model.overridable))
        if len(model.graph.functions) < before:
            did.append(f"{counted(before - len(model.graph.functions), 'function')} written out where they are called")
    index = GraphIndex(model.graph)
    kept = set(map(id, _kept(index, keep)))
    if any(node.op in CASTS for node in index.all_nodes()):  # rules take time and memory to load
        only = Hooks(permit=lambda fired: id(fired.root) not in kept)
        log = run(model.graph, load_rules().select([_NEEDLESS]), Knowledge(overridable=model.overridable), hooks=only)
        if log.firings:
            did.append(f"{counted(len(log.firings), 'cast')} to the type that was there already taken out")
        index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    plan = FloatPlan(index, facts, target, kept, ports=ports)
    if asks and dtype != "float32":
        asked = [node for node in plan.nodes() if plan.changes(node) and _may_lack(node, dtype, plan)]
        lacking = [node for node in asked if _lacks_kernel(node, plan)]
        if lacking:
            plan = FloatPlan(index, facts, target, kept | set(map(id, lacking)), ports=ports)
            ops = ", ".join(sorted({node.op for node in lacking}))
            did.append(
                f"{counted(len(lacking), 'node')} as before: ONNX Runtime has no {dtype} for {ops} (--runtime no converts them)"
            )
    changing = [node for node in plan.nodes() if any(plan.is_float(t) for t in (*node.inputs, *node.outputs))]
    held = sum(not plan.changes(node) for node in changing)
    change = FloatChange(plan)
    change.carry_out()
    if change.casts and (version := model.graph.opset) < CASTS_BY_NUMBER:
        told = f"{counted(change.casts, 'cast')} would be needed, which opset {version} writes otherwise"
        raise RewriterError(f"{told}: convert the model to opset {CASTS_BY_NUMBER} or newer first, with `rewriter opset`")
    did.append(f"{counted(len(changing) - held, 'node')} in {dtype}, {held:,} as before, {counted(change.casts, 'cast')} more")
    if plan.counted:
        did.append(f"{counted(len(plan.counted), 'node')} of those as before: they compute from whole numbers alone")
    if change.listed and not ports:
        did.append(f"{counted(change.listed, 'weight')} listed among the inputs now {dtype} there, too")
    worst = sorted(change.losses, key=lambda loss: (-loss.overflowed, -loss.flushed / loss.values))
    did += [f"weight  {loss}" for loss in worst[:_SHOWN]]
    if len(change.losses) > _SHOWN:
        did.append(f"weight  and {counted(len(change.losses) - _SHOWN, 'other')} that lost something")
    return did


def _may_lack(node: gs.Node, dtype: str, plan: FloatPlan) -> bool:
    """Whether it is worth asking: casts that ONNX Runtime puts in do not help where the kernel is there and refuses to run."""
    return dtype in _MAY_LACK or node.op in SAYS_AT_RUN or not _reads_floats(node, plan)


def _reads_floats(node: gs.Node, plan: FloatPlan) -> bool:
    return any(plan.is_float(tensor) for tensor in node.inputs)


def _lacks_kernel(node: gs.Node, plan: FloatPlan) -> bool:
    """Whether the installed ONNX Runtime says that it has no kernel for a node in the type that it is to have."""
    model = single_node(node, plan.facts, plan.index.scope(node))
    if model is None or any(True for _ in bodies(node)):
        return False
    one = model.graph.node[0]
    places = {name: place for place, name in enumerate(one.input) if name}
    for info in model.graph.input:
        tensor = node.inputs[places[info.name]]
        if plan.is_float(tensor) and plan.wants(node, places[info.name]):
            info.type.tensor_type.elem_type = plan.target
    for attribute in one.attribute:
        if attribute.name in TYPED and attribute.i in FLOATS:
            attribute.i = plan.target
    telling = FLOAT_WITHOUT.get(node.op, "value")
    if telling != "value" and all(attribute.name != telling for attribute in one.attribute):
        one.attribute.append(helper.make_attribute(telling, plan.target))  # not written, it says float
    return has_kernel(model) is False


def _kept(index: GraphIndex, texts: Iterable[str]) -> list[gs.Node]:
    """The nodes that texts stand for, with all in their bodies. Raises RewriterError for what stands for none."""
    parts = Parts(index)
    found: dict[int, gs.Node] = {}
    for text in names_in(texts, lambda name: name in parts.nodes or name in parts.tensors):
        first, dots, last = text.partition(_RANGE)
        if not dots or text in parts.nodes or text in parts.tensors:
            nodes = parts.nodes_of([text])
        else:
            nodes = _between(index, parts.nodes_of([first]), parts.nodes_of([last]))
            if not nodes:
                raise RewriterError(f"--keep {text}: nothing leads from {first!r} to {last!r}")
        for node in nodes:
            found.update((id(inner), inner) for inner in (node, *index.inside(node)))
    return list(found.values())


def _between(index: GraphIndex, first: Sequence[gs.Node], last: Sequence[gs.Node]) -> list[gs.Node]:
    """The nodes on the ways from some nodes to others, these included."""
    behind = _reached(first, lambda node: index.followers(node))
    before = _reached(last, lambda node: index.before(node))
    return [node for number, node in behind.items() if number in before]


def _reached(start: Sequence[gs.Node], near: object) -> dict[int, gs.Node]:
    assert callable(near)
    found: dict[int, gs.Node] = {}
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += near(node)
    return found


def _compare(source: Opened, result: Candidate, done: Surgery, most: int) -> None:
    """Runs the model before and after, and tells how close the results are. Raises RewriterError when only the first runs."""
    before = Candidate(source.read())
    wanted = [output.name for output in before.proto.graph.output]
    bound = Bound(rtol=CLOSE, atol=CLOSE)
    found = agreement(before, [Step(before)], [Step(result)], wanted, most=most, bound=bound)
    if not found.ran:
        done.notes.append(f"the numbers were not compared: {found.reason}")
    elif found.refused:
        told = "--keep leaves nodes in the type that they have, --runtime no does not run it"
        raise RewriterError(f"nothing is written, since {found.difference}; {told}")
    elif found.difference:
        done.same = False
        done.notes.append(f"the numbers differ: {found.difference}. --keep leaves nodes in the type that they have")
    else:
        done.did.append(f"runs, and computes the same within {CLOSE}")
