"""One instance under one rule: the engine rewrites it, and the models before and after are put before the oracles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from rewriter.conditions.context import HasKernel, Knowledge
from rewriter.engine.limits import Limits
from rewriter.engine.run import run
from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.language.dtypes import DTYPES
from rewriter.language.rule import Rule
from rewriter.language.rules import RuleSet
from rewriter.log.records import Log
from rewriter.proof import onnx_runtime
from rewriter.proof.instances.feed import NoInputs, feed
from rewriter.proof.instances.instance import Array, Instance
from rewriter.proof.instances.random_arrays import EDGES, LARGE, STYLES
from rewriter.proof.models.run_agreement import RunBound, RunDifference, compare
from rewriter.proof.oracles import ORACLES, Answer, Loaded, Refusal
from rewriter.proof.rules.declared import Interface, asks_otherwise
from rewriter.proof.rules.doubt import (
    DISAGREE,
    ORACLES_AGREE,
    RANDOM,
    computes_in_half,
    doubt,
    draws,
    overflow,
    overflows_inside,
)
from rewriter.record import field, record
from rewriter.source.find import parse_source

REPAIR_BOUND = RunBound(rtol=1e-4, atol=1e-5, scale=True)
COARSE_BOUND = RunBound(rtol=2e-2, atol=1e-2, scale=True)
_COARSE = frozenset({DTYPES["float16"], DTYPES["bfloat16"]})
_SECONDS = 5.0
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\d+")

SAME, NOT_FIRED, VOID, REPAIRED, CHANGED, STILL, WRONG = (
    "same",
    "not fired",
    "void",
    "repaired",
    "changed",
    "still refused",
    "wrong",
)


@record(frozen=True)
class Trial:
    """What came of an instance.

    Attributes:
        status: SAME: before and after agree. NOT_FIRED. VOID: nothing can be said. For repairs also REPAIRED: the before is
            refused, the after is accepted. CHANGED: both run and differ. STILL: the after is refused, too. WRONG: a
            counterexample.
        why: in words.
        after: the rewritten model, where the rule fired.
        inputs: with which it shows.
        oracle: the oracle that says so.
        error: the largest error within the bound.
        agreed: for repairs, whether a lenient oracle that runs the refused before finds the numbers of the after; None: it does
            not run.
        quarantined: models that the oracles disagree on.
    """

    status: str
    instance: Instance
    why: str = ""
    after: onnx.ModelProto | None = None
    inputs: Mapping[str, Array] = field(default_factory=dict)
    oracle: str = ""
    error: float = 0.0
    agreed: bool | None = None
    quarantined: bool = False


def attempt(rule: Rule, instance: Instance, rng: np.random.Generator, styles: Sequence[str] = STYLES) -> Trial:
    """Rewrites an instance by the rule alone and judges the result."""
    try:
        model, log = run_on(rule, instance)
        if not log.changed and not log.stops:
            return Trial(NOT_FIRED, instance, next((b.reason for b in log.blocked if b.error), ""))
        after = model.to_proto()
    except RewriterError as error:
        return Trial(VOID, instance, str(error))
    except Exception as error:  # a fault of the engine, which the rule has brought to light
        return Trial(WRONG, instance, f"the engine raised {type(error).__name__}: {error}")
    if log.stops:
        return Trial(WRONG, instance, f"rewriting does not come to an end: {log.stops[0].message}", after)
    kind = rule.kind.name
    try:
        feeds = [(style, feed(instance, rng, style)) for style in _suited(kind, styles, instance)]
    except NoInputs:
        feeds = []
    if kind == "lossy":
        return _lossy(instance, after)
    if kind == "repair":
        return _Repair(instance, after, feeds).judged()
    bound = RunBound(rtol=rule.kind.rtol, atol=rule.kind.atol, scale=True) if kind == "approx" else RunBound()
    return _equal(instance, after, feeds, bound, Interface(rule, instance.model, after) if kind == "interface" else None)


def _suited(kind: str, styles: Sequence[str], instance: Instance) -> list[str]:
    """A bound says nothing about infinities and NaN; numbers near the limits of half precision stand in their place."""
    if kind != "approx":
        return list(styles)
    return [*(style for style in styles if style != EDGES), *([LARGE] if computes_in_half(instance.model) else [])]


def run_on(rule: Rule, instance: Instance, has_kernel: HasKernel | None = None) -> tuple[Model, Log]:
    """The model after the engine has run with this rule only; `has_kernel` as `run` takes it. Raises RewriterError."""
    model = Model.from_proto(instance.model)
    source = None if instance.source is None else parse_source(instance.source, "source of the instance")
    log = run(
        model.graph,
        RuleSet((rule,)),
        Knowledge(source, instance.settings, model.overridable, has_kernel=has_kernel),
        limits=Limits(seconds=_SECONDS),
        detail=False,
    )
    return model, log


def checked(model: onnx.ModelProto, *, full: bool = True) -> str:
    """Why the checker of onnx refuses a model, "" when it does not."""
    try:
        onnx.checker.check_model(model, full_check=full)
    except Exception as error:  # the checker raises what its C++ side threw
        return onnx_runtime.one_line(str(error))
    return ""


def undeclared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its outputs declared as they are inferred."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = [info.name for info in copy.graph.output]
    del copy.graph.output[:], copy.graph.value_info[:]
    try:
        inferred = onnx.shape_inference.infer_shapes(copy).graph.value_info
    except Exception:  # onnx raises what its C++ side threw
        return model
    known = {info.name: info for info in (*inferred, *copy.graph.input)}
    copy.graph.output.extend(known.get(name) or info for name, info in zip(names, model.graph.output, strict=True))
    return copy


# --- kinds that keep the numbers ---------------------------------------------------------------------------------------------


def _equal(
    instance: Instance,
    after: onnx.ModelProto,
    feeds: Sequence[tuple[str, Mapping[str, Array]]],
    bound: RunBound,
    interface: Interface | None,
) -> Trial:
    if interface and asks_otherwise(instance.model, after):
        return _lossy(instance, after)
    found: list[Trial] = []
    answers: dict[tuple[str, str], tuple[Answer, Answer]] = {}
    if draws(instance.model):
        return Trial(VOID, instance, RANDOM, after)
    refusal = ""
    for oracle in ORACLES:
        before = oracle.load(instance.model)
        if isinstance(before, Refusal):
            continue
        asked = not found or computes_in_half(instance.model)  # else all that counts is whether the oracles agree before
        changed = oracle.load(after) if asked else Refusal("load", "ONNX Runtime has decided")
        for style, inputs in feeds:
            if not asked and style == EDGES:
                continue  # where nobody asks whether they agree
            wanted = before(inputs)
            if isinstance(wanted, Refusal):
                refusal = refusal or ("" if wanted.no_kernel else wanted.reason)
                continue
            if interface:
                wanted = {name: array for name, array in wanted.items() if name in interface.kept}
            result: Answer
            if isinstance(changed, Refusal):
                result = changed
            else:
                result = interface.read(changed(interface.fed(inputs))) if interface else changed(inputs)
            answers[oracle.name, style] = wanted, result
            if isinstance(result, Refusal) and oracle is not ORACLES[0]:
                continue  # the reference lacks much; that it refuses what ONNX Runtime does not run says nothing
            found.append(_verdict(instance, after, inputs, oracle.name, wanted, result, bound, before))
        if oracle is ORACLES[0] and not found and refusal:
            return Trial(VOID, instance, refusal, after)  # it does not run as it is; onnx.reference is more lenient
        if found and oracle is ORACLES[0] and found[-1].status == WRONG:
            break
    if not found:
        return Trial(VOID, instance, "no oracle runs the model", after)
    if not checked(instance.model) and (refusal := checked(after)):
        return Trial(
            WRONG, instance, f"the checker refuses the result: {refusal}", after, feeds[0][1] if feeds else {}, "onnx.checker"
        )
    decided = [trial for trial in found if trial.oracle == ORACLES[0].name] or found
    wrong = next((trial for trial in decided if trial.status == WRONG), None)
    if wrong is not None:
        return wrong
    if (lost := _overflow(instance, after, feeds, answers)) is not None:
        return lost
    vague = next((trial for trial in decided if trial.status == VOID), None)
    if vague is not None:
        return vague
    worst = max(trial.error for trial in decided)
    return Trial(SAME, instance, "", after, error=worst, quarantined=_disagree(answers))


def _overflow(
    instance: Instance,
    after: onnx.ModelProto,
    feeds: Sequence[tuple[str, Mapping[str, Array]]],
    answers: Mapping[tuple[str, str], tuple[Answer, Answer]],
) -> Trial | None:
    if not computes_in_half(instance.model):
        return None
    runtime, lenient = (oracle.name for oracle in ORACLES)
    for style, inputs in feeds:
        mine, other = answers.get((runtime, style)), answers.get((lenient, style))
        if mine is not None and other is not None and (why := overflow(mine[0], *other)):
            if overflows_inside(instance.model, inputs) or not overflows_inside(after, inputs):
                continue
            return Trial(WRONG, instance, why, after, inputs, lenient)
    return None


def _verdict(
    instance: Instance,
    after: onnx.ModelProto,
    inputs: Mapping[str, Array],
    oracle: str,
    wanted: Mapping[str, Array],
    result: Answer,
    bound: RunBound,
    before: Loaded,
) -> Trial:
    if isinstance(result, Refusal):
        return Trial(WRONG, instance, f"the result is refused: {result.reason}", after, inputs, oracle)
    off, error = compare(wanted, result, bound)
    if off is None:
        return Trial(SAME, instance, "", after, inputs, oracle, error)
    if vague := doubt(instance.model, before, inputs, off.output, wanted, oracle):
        return Trial(VOID, instance, vague, after, inputs, oracle, quarantined=vague == DISAGREE)
    return Trial(WRONG, instance, _told(off), after, inputs, oracle)


def _disagree(answers: Mapping[tuple[str, str], tuple[Answer, Answer]]) -> bool:
    """Whether the oracles compute different numbers of the untouched model, apart from the edges of element types."""
    for (oracle, style), (wanted, _) in answers.items():
        other = answers.get((ORACLES[1].name, style))
        if oracle != ORACLES[0].name or other is None or style == EDGES:
            continue
        if (
            not isinstance(wanted, Refusal)
            and not isinstance(other[0], Refusal)
            and compare(wanted, other[0], ORACLES_AGREE)[0]
        ):
            return True
    return False


# --- lossy -------------------------------------------------------------------------------------------------------------------


def _lossy(instance: Instance, after: onnx.ModelProto) -> Trial:
    """Something is lost on purpose; what is left must be a model."""
    refusal = checked(after, full=not checked(instance.model))
    if refusal and not checked(instance.model, full=False):
        return Trial(WRONG, instance, f"the checker refuses the result: {refusal}", after, oracle="onnx.checker")
    loaded = ORACLES[0].load(after)
    if isinstance(loaded, Refusal):
        if isinstance(ORACLES[0].load(instance.model), Refusal):
            return Trial(VOID, instance, loaded.reason, after)
        return Trial(WRONG, instance, f"the result is refused: {loaded.reason}", after, oracle=ORACLES[0].name)
    return Trial(SAME, instance, "", after)


# --- repairs -----------------------------------------------------------------------------------------------------------------


class _Repair:
    """The before is refused by a gate, or its numbers are not the framework's; the after is accepted."""

    def __init__(self, instance: Instance, after: onnx.ModelProto, feeds: Sequence[tuple[str, Mapping[str, Array]]]) -> None:
        self.instance = instance
        self.after = after
        kinds = {info.type.tensor_type.elem_type for g in (instance.model.graph,) for info in (*g.input, *g.output)}
        self.bound = COARSE_BOUND if kinds & _COARSE else REPAIR_BOUND
        # A detour over another precision ends at the edges of types; truth values about floats (of NaN, too) must not suffer.
        outputs = {info.type.tensor_type.elem_type for info in after.graph.output}
        inputs = {info.type.tensor_type.elem_type for info in after.graph.input}
        edges = outputs <= {DTYPES["bool"]} and inputs <= {DTYPES["float"], DTYPES["double"], DTYPES["bool"], *_COARSE}
        self.feeds = [pair for pair in feeds if edges or pair[0] != EDGES]
        self._loaded: dict[int, Loaded | Refusal] = {}

    def judged(self) -> Trial:
        """The trial."""
        runtime = ORACLES[0]
        before, after = runtime.load(self.instance.model), runtime.load(self.after)
        refused = str(before) if isinstance(before, Refusal) else checked(self.instance.model)
        first: Trial | None = None
        for _, inputs in self.feeds:
            trial = self._one(before, after, refused, inputs, runtime.name)
            if trial.status == REPAIRED and trial.agreed is None:
                trial = self._compared(trial, self._lenient(self.instance.model), inputs, after)
            if trial.status in (WRONG, STILL, CHANGED) or trial.agreed is False:
                return trial
            first = first or trial
        if first is None:
            status = REPAIRED if refused and not isinstance(after, Refusal) else VOID
            return Trial(status, self.instance, refused, self.after)
        return first

    def _one(
        self, before: Loaded | Refusal, after: Loaded | Refusal, refused: str, inputs: Mapping[str, Array], oracle: str
    ) -> Trial:
        wanted: Answer = before if isinstance(before, Refusal) else before(inputs)
        found: Answer = after if isinstance(after, Refusal) else after(inputs)
        refusal = refused or (str(wanted) if isinstance(wanted, Refusal) else "")
        if isinstance(found, Refusal):
            if isinstance(wanted, Refusal):
                status = VOID if found.no_kernel and _alike(str(found), str(wanted)) else STILL
                return Trial(status, self.instance, found.reason, self.after, inputs, oracle)
            status = CHANGED if self._only_declared(inputs) else WRONG if self.instance.plain else VOID
            return Trial(status, self.instance, f"the result is refused: {found.reason}", self.after, inputs, oracle)
        if not refused and (worse := checked(self.after)) and not isinstance(wanted, Refusal):
            if not checked(undeclared(self.after)):
                return Trial(CHANGED, self.instance, worse, self.after, inputs, oracle)
            return Trial(WRONG, self.instance, f"the checker refuses the result: {worse}", self.after, inputs, "onnx.checker")
        if isinstance(wanted, Refusal):
            return Trial(REPAIRED, self.instance, refusal, self.after, inputs, oracle)
        off, error = compare(wanted, found, self.bound)
        if off is None:
            return Trial(REPAIRED if refused else SAME, self.instance, refusal, self.after, inputs, oracle, error, True)
        if refused:
            return Trial(REPAIRED, self.instance, _told(off), self.after, inputs, oracle, agreed=False)
        if not isinstance(before, Refusal) and doubt(self.instance.model, before, inputs, off.output, wanted, "") == RANDOM:
            return Trial(VOID, self.instance, RANDOM, self.after, inputs, oracle)
        return Trial(CHANGED, self.instance, _told(off), self.after, inputs, oracle)

    def _only_declared(self, inputs: Mapping[str, Array]) -> bool:
        """Whether the after is refused only since its outputs have not the types that the before declared.

        Exporters declare what the framework computes, but an instance of the pattern declares what the before computes.
        """
        loaded = ORACLES[0].load(undeclared(self.after))
        return not isinstance(loaded, Refusal) and not isinstance(loaded(inputs), Refusal)

    def _lenient(self, model: onnx.ModelProto) -> Loaded | Refusal:
        """One of the two models in the lenient oracle, for inputs of every style."""
        return self._loaded.get(id(model)) or self._loaded.setdefault(id(model), ORACLES[1].load(model))

    def _compared(self, trial: Trial, before: Loaded | Refusal, inputs: Mapping[str, Array], after: Loaded | Refusal) -> Trial:
        """A refused before may still run in the lenient oracle, which does not look at types."""
        wanted = before if isinstance(before, Refusal) else before(inputs)
        found = after if isinstance(after, Refusal) else after(inputs)
        if isinstance(wanted, Refusal) or isinstance(found, Refusal):
            return trial
        off, error = compare(wanted, found, self.bound)
        if off is not None:  # the oracles may differ in what the after computes
            again = self._lenient(self.after)
            mine = again if isinstance(again, Refusal) else again(inputs)
            if isinstance(mine, Refusal) or compare(wanted, mine, self.bound)[0] is None:
                return trial
        why = trial.why if off is None else _told(off)
        name = ORACLES[1].name
        return Trial(REPAIRED, self.instance, why, self.after, inputs, name, error, off is None)


def _told(off: RunDifference) -> str:
    return f"output `{off.output}` {off.text}"


def _alike(one: str, other: str) -> bool:
    """Whether two refusals are the same but for names and numbers."""
    return _NAMES.sub("", one) == _NAMES.sub("", other)
