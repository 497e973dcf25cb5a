"""One random model under one rule: the engine rewrites it, and the models before and after are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy

import numpy as np
import onnx

from rewriter.core.conditions.recorded_graph import HasKernel, Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.language import ast
from rewriter.core.language.ast import walk
from rewriter.core.language.operator_traits import DRAWS
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.language.schema import DTYPES
from rewriter.core.log import Log
from rewriter.core.record import field, record
from rewriter.trust.proof import judges
from rewriter.trust.proof.instances.instance import Array, Instance
from rewriter.trust.proof.instances.random_arrays import EDGES, LARGE, STYLES, NoInputs, feed
from rewriter.trust.proof.oracles import ORACLES, Answer, Loaded, Refusal, answer
from rewriter.trust.proof.output_agreement import ULPS, Bound, compare
from rewriter.trust.proof.validity import values_of
from rewriter.trust.rule_tests import companions
from rewriter.trust.source.find import parse_source

# Declarations that a rule on the interface changed: such inputs cannot be fed as before, such outputs differ on purpose.

Dimension = int | str | None
Infos = Sequence[onnx.ValueInfoProto]


class Interface:
    """The inputs and outputs of a result under their names before; `kept` are the outputs that must not change."""

    def __init__(self, rule: Rule, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
        self._inputs = names_now(before.graph.input, after.graph.input)
        self._outputs = names_now(before.graph.output, after.graph.output)
        drops = any(isinstance(part, ast.Delete) and part.place.field is None for part in walk(rule.ast.rewrites))
        kept = outputs_as_before(before, after)
        self.kept = kept & self._outputs.keys() if drops else kept

    def fed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {self._inputs[name]: array for name, array in inputs.items() if name in self._inputs}

    def read(self, answer: Answer) -> Answer:
        if isinstance(answer, Refusal):
            return answer
        return {name: answer[now] for name, now in self._outputs.items() if now in answer}


def names_now(before: Infos, after: Infos) -> dict[str, str]:
    """The new names of inputs, or outputs, by their names before; a missing one has another name in its place."""
    known, now = {info.name for info in before}, {info.name for info in after}
    found = {name: name for name in known & now}
    if len(after) >= len(before):
        new = {old.name: info.name for old, info in zip(before, after, strict=False) if info.name not in known}
        found |= {old: name for old, name in new.items() if old not in now}
    return found


def asks_otherwise(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Whether a remaining input requires another element type, rank or length than before.

    If a fixed length became a name, the input still allows the old length.
    """
    now = {info.name: info.type for info in after.graph.input}
    names = names_now(before.graph.input, after.graph.input)
    return any(info.name in names and not _takes(info.type, now[names[info.name]]) for info in before.graph.input)


def outputs_as_before(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str]:
    """Names of the outputs of `before` whose type stayed, or changed by lengths that became names, or that went."""
    now = {info.name: info.type for info in after.graph.output}
    names = names_now(before.graph.output, after.graph.output)
    return frozenset(
        info.name for info in before.graph.output if info.name not in names or _takes(info.type, now[names[info.name]])
    )


def _takes(old: onnx.TypeProto, new: onnx.TypeProto) -> bool:
    if old.WhichOneof("value") != "tensor_type" or new.WhichOneof("value") != "tensor_type":
        return old == new
    if old.tensor_type.elem_type != new.tensor_type.elem_type:
        return False
    if not old.tensor_type.HasField("shape") or not new.tensor_type.HasField("shape"):
        return not new.tensor_type.HasField("shape")
    was, now = list(_dims(old.tensor_type.shape.dim)), list(_dims(new.tensor_type.shape.dim))
    return len(was) == len(now) and all(
        b == a or (isinstance(a, int) and isinstance(b, str)) for a, b in zip(was, now, strict=True)
    )


def _dims(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> Iterable[Dimension]:
    for dim in dims:
        yield dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


# When a difference is no counterexample, and when ONNX Runtime alone cannot show a counterexample.
#
# Two oracles that disagree on a model which no rule has touched prove nothing about the rule, and random numbers differ from
# themselves. ONNX Runtime computes half precision on the CPU in single precision, so an overflow shows in onnx.reference only.

EXACT = Bound(ULPS, each=True)
ORACLES_AGREE = Bound(rtol=1e-3, atol=1e-4, each=True)
RANDOM = "random outputs cannot be compared"
DISAGREE = "ONNX Runtime and onnx.reference disagree before the rewrite"


def doubt(
    model: onnx.ModelProto, before: Loaded, inputs: Mapping[str, Array], output: str, wanted: Mapping[str, Array], oracle: str
) -> str:
    """Why a difference in an output says nothing about a rule; "" if it does.

    Args:
        model: the model before the rewrite.
        before: the same model, loaded by the oracle that found the difference.
        inputs: with which the difference shows.
        output: the output that differs.
        wanted: the model's output before the rewrite.
        oracle: the name of the oracle.
    """
    expected_output = {output: wanted[output]}
    again = before(inputs)
    if isinstance(again, Refusal) or compare(expected_output, again, EXACT)[0] is not None:
        return RANDOM
    lenient = ORACLES[1]
    if oracle == lenient.name:
        return ""
    other = answer(model, inputs, lenient.name)
    if isinstance(other, Refusal) or output not in other:
        return ""
    return DISAGREE if _apart(np.asarray(wanted[output]), np.asarray(other[output])) else ""


def draws(model: onnx.ModelProto) -> bool:
    """Whether random numbers are drawn. A second run does not always show it: two draws of one element are often equal."""
    false = {tensor.name for tensor in model.graph.initializer if not onnx.numpy_helper.to_array(tensor).any()}
    return any(
        node.op_type in DRAWS or (node.op_type == "Dropout" and node.input[2:] and node.input[2] not in {"", *false})
        for node in model.graph.node
    )


def _apart(one: Array, other: Array) -> bool:
    """Whether two results differ, also at the edges of their type, to which a bound does not apply."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind not in "fV":
        return compare({"": one}, {"": other}, ORACLES_AGREE)[0] is not None
    first, second = one.astype(np.float64), other.astype(np.float64)
    tame = np.isfinite(first) & (np.abs(first) < 1e30)
    size = np.maximum(np.abs(first), np.max(np.abs(first[tame]), initial=0.0))
    with np.errstate(all="ignore"):
        near = np.abs(first - second) <= ORACLES_AGREE.atol + ORACLES_AGREE.rtol * size
    same = (first == second) | (np.isnan(first) & np.isnan(second)) | (np.isfinite(first) & np.isfinite(second) & near)
    return not bool(np.all(same))


def computes_in_half(model: onnx.ModelProto) -> bool:
    """Whether an input, an output or a weight is float16."""
    graph = model.graph
    declared = {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)}
    return DTYPES["float16"] in declared | {tensor.data_type for tensor in graph.initializer}


def overflows_inside(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> bool:
    """Whether ONNX Runtime computes an infinite value for a tensor that it stores in half precision.

    onnx.reference also adds up in half precision, which no tensor shows and which no runtime has to do.
    """
    values = values_of(model, inputs, ORACLES[0].name)
    if isinstance(values, Refusal):
        return False
    return any(array.dtype == np.float16 and bool(np.isinf(array).any()) for array in values.values())


def overflow(wanted: Answer, lenient: Answer, result: Answer) -> str:
    """The output that overflows in half precision and did not; "" for none.

    Args:
        wanted: of ONNX Runtime before the rewrite.
        lenient: of onnx.reference before.
        result: of onnx.reference after.
    """
    if isinstance(wanted, Refusal) or isinstance(lenient, Refusal) or isinstance(result, Refusal):
        return ""
    for name, array in wanted.items():
        mine, found = lenient.get(name), result.get(name)
        if mine is None or found is None or array.dtype.kind != "f" or not array.shape == mine.shape == found.shape:
            continue
        if compare({name: array}, {name: mine}, ORACLES_AGREE)[0] is None:
            lost = np.isfinite(array) & np.isfinite(mine) & ~np.isfinite(found)
            if np.any(lost):
                return f"output {name!r} overflows in half precision ({int(np.sum(lost))} of {lost.size} elements)"
    return ""


REPAIR_BOUND = Bound(rtol=1e-4, atol=1e-5, each=True)
COARSE_BOUND = Bound(rtol=2e-2, atol=1e-2, each=True)
_COARSE = frozenset({DTYPES["float16"], DTYPES["bfloat16"]})
_SECONDS = 5.0
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\d+")

SAME, NOT_FIRED, VOID, WRONG = "same", "not fired", "void", "wrong"
REPAIRED, CHANGED, STILL = "repaired", "changed", "still rejected"


@record(frozen=True)
class Trial:
    """The outcome for an instance.

    Attributes:
        status: SAME: before and after agree. NOT_FIRED. VOID: no conclusion. For repairs also REPAIRED: the before is
            rejected, the after is accepted. CHANGED: both run and differ. STILL: the after is also rejected. WRONG: a
            counterexample.
        why: in words.
        after: the rewritten model, if the rule fired.
        inputs: with which the outcome shows.
        oracle: the oracle that found it.
        error: the largest error within the bound.
        agreed: for repairs, whether a lenient oracle that runs the rejected before computes the outputs of the after; None: the
            oracle does not run it.
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
    """Rewrites an instance by the rule, with its `companions` only, and checks the result."""
    try:
        model, log = run_on(rule, instance, others=companions(rule))
        if rule.code not in log.counts and not log.stops:
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
        repaired = after if kind == "repair" else None
        feeds = [(style, feed(instance, rng, style, repaired)) for style in _suited(kind, styles, instance)]
    except NoInputs:
        feeds = []
    if kind == "lossy":
        return _lossy(instance, after)
    if kind == "repair":
        return _Repair(instance, after, feeds).judged()
    bound = Bound(rtol=rule.kind.rtol, atol=rule.kind.atol, each=True) if kind == "approx" else EXACT
    return _equal(instance, after, feeds, bound, Interface(rule, instance.model, after) if kind == "interface" else None)


def _suited(kind: str, styles: Sequence[str], instance: Instance) -> list[str]:
    """A bound does not apply to infinities and NaN; numbers near the limits of half precision replace them."""
    if kind != "approx":
        return list(styles)
    return [*(style for style in styles if style != EDGES), *([LARGE] if computes_in_half(instance.model) else [])]


def run_on(
    rule: Rule, instance: Instance, has_kernel: HasKernel | None = None, others: Sequence[Rule] = ()
) -> tuple[Model, Log]:
    """The model after the engine has run with this rule and `others`; `has_kernel` as `run` takes it. Raises RewriterError."""
    model = Model.from_proto(instance.model)
    source = None if instance.source is None else parse_source(instance.source, "source of the instance")
    log = run(
        model.graph,
        RuleSet((rule, *others)),
        Knowledge(source, instance.settings, model.overridable, has_kernel=has_kernel),
        limits=Limits(seconds=_SECONDS),
        detail=False,
    )
    return model, log


def checked(model: onnx.ModelProto, *, full: bool = True) -> str:
    """Why the checker of onnx rejects a model, "" if the model passes."""
    try:
        onnx.checker.check_model(model, full_check=full)
    except Exception as error:  # the checker raises the errors of its C++ side
        return judges.one_line(str(error))
    return ""


def undeclared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its outputs declared as they are inferred."""
    copy = deepcopy(model)
    names = [info.name for info in copy.graph.output]
    del copy.graph.output[:], copy.graph.value_info[:]
    try:
        inferred = onnx.shape_inference.infer_shapes(copy).graph.value_info
    except Exception:  # onnx raises the errors of its C++ side
        return model
    known = {info.name: info for info in (*inferred, *copy.graph.input)}
    copy.graph.output.extend(known.get(name) or info for name, info in zip(names, model.graph.output, strict=True))
    return copy


# --- kinds that keep the outputs ---------------------------------------------------------------------------------------------


def _equal(
    instance: Instance,
    after: onnx.ModelProto,
    feeds: Sequence[tuple[str, Mapping[str, Array]]],
    bound: Bound,
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
        needs_result = not found or computes_in_half(instance.model)  # else all that counts is whether the oracles agree before
        changed = oracle.load(after) if needs_result else Refusal("load", "ONNX Runtime has decided")
        for style, inputs in feeds:
            if not needs_result and style == EDGES:
                continue  # where agreement is not checked
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
                continue  # the reference lacks much; its rejection of a model that ONNX Runtime does not run means nothing
            found.append(_verdict(instance, after, inputs, oracle.name, wanted, result, bound, before))
        if oracle is ORACLES[0] and not found and refusal:
            return _failed_before(instance, after, feeds if interface is None else (), refusal)
        if found and oracle is ORACLES[0] and found[-1].status == WRONG:
            break
    if not found:
        return _rejected_before(instance, after, feeds if interface else ())
    if not checked(instance.model) and (refusal := checked(after)):
        return Trial(
            WRONG, instance, f"the checker rejects the result: {refusal}", after, feeds[0][1] if feeds else {}, "onnx.checker"
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


def _failed_before(
    instance: Instance, after: onnx.ModelProto, feeds: Sequence[tuple[str, Mapping[str, Array]]], refusal: str
) -> Trial:
    """A model that ONNX Runtime loads and fails to run before the rewrite, and that onnx.reference may run.

    Some rules are for such models: afterwards ONNX Runtime computes the outputs of onnx.reference. Other outputs are no
    counterexample, because onnx.reference is more lenient.
    """
    runtime, lenient = ORACLES
    tame = [inputs for style, inputs in feeds if style != EDGES]
    sides = (lenient.load(instance.model), runtime.load(after)) if tame else ()
    for inputs in tame:
        wanted, result = (side if isinstance(side, Refusal) else side(inputs) for side in sides)
        if isinstance(wanted, Refusal) or isinstance(result, Refusal) or compare(wanted, result, ORACLES_AGREE)[0]:
            return Trial(VOID, instance, refusal, after)
    return Trial(SAME if tame else VOID, instance, refusal, after, oracle=lenient.name)


def _rejected_before(instance: Instance, after: onnx.ModelProto, feeds: Sequence[tuple[str, Mapping[str, Array]]]) -> Trial:
    """A model that no oracle runs before a change of the interface; afterwards ONNX Runtime may load and run it."""
    before, loaded = (ORACLES[0].load(model) for model in (instance.model, after))
    runs = feeds and not isinstance(loaded, Refusal) and not any(isinstance(loaded(fed), Refusal) for _, fed in feeds)
    if runs and isinstance(before, Refusal):
        return Trial(REPAIRED, instance, str(before), after)
    return Trial(VOID, instance, "no runtime runs the model", after)


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
    bound: Bound,
    before: Loaded,
) -> Trial:
    if isinstance(result, Refusal):
        return Trial(WRONG, instance, f"the result is rejected: {result.reason}", after, inputs, oracle)
    off, error = compare(wanted, result, bound)
    if off is None:
        return Trial(SAME, instance, "", after, inputs, oracle, error)
    if vague := doubt(instance.model, before, inputs, off.output, wanted, oracle):
        return Trial(VOID, instance, vague, after, inputs, oracle, quarantined=vague == DISAGREE)
    return Trial(WRONG, instance, str(off), after, inputs, oracle)


def _disagree(answers: Mapping[tuple[str, str], tuple[Answer, Answer]]) -> bool:
    """Whether the oracles compute different outputs of the untouched model, apart from the edges of element types."""
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
    """Something is lost on purpose; the rest must be a model."""
    refusal = checked(after, full=not checked(instance.model))
    if refusal and not checked(instance.model, full=False):
        return Trial(WRONG, instance, f"the checker rejects the result: {refusal}", after, oracle="onnx.checker")
    loaded = ORACLES[0].load(after)
    if isinstance(loaded, Refusal):
        if isinstance(ORACLES[0].load(instance.model), Refusal):
            return Trial(VOID, instance, loaded.reason, after)
        return Trial(WRONG, instance, f"the result is rejected: {loaded.reason}", after, oracle=ORACLES[0].name)
    return Trial(SAME, instance, "", after)


# --- repairs -----------------------------------------------------------------------------------------------------------------


class _Repair:
    """The before is rejected by a gate, or its outputs differ from the framework's; the after is accepted."""

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
            return Trial(status, self.instance, f"the result is rejected: {found.reason}", self.after, inputs, oracle)
        if not refused and (worse := checked(self.after)) and not isinstance(wanted, Refusal):
            if not checked(undeclared(self.after)):
                return Trial(CHANGED, self.instance, worse, self.after, inputs, oracle)
            return Trial(WRONG, self.instance, f"the checker rejects the result: {worse}", self.after, inputs, "onnx.checker")
        if isinstance(wanted, Refusal):
            return Trial(REPAIRED, self.instance, refusal, self.after, inputs, oracle)
        off, error = compare(wanted, found, self.bound)
        if off is None:
            return Trial(REPAIRED if refused else SAME, self.instance, refusal, self.after, inputs, oracle, error, True)
        if refused:
            return Trial(REPAIRED, self.instance, str(off), self.after, inputs, oracle, agreed=False)
        if not isinstance(before, Refusal) and doubt(self.instance.model, before, inputs, off.output, wanted, "") == RANDOM:
            return Trial(VOID, self.instance, RANDOM, self.after, inputs, oracle)
        return Trial(CHANGED, self.instance, str(off), self.after, inputs, oracle)

    def _only_declared(self, inputs: Mapping[str, Array]) -> bool:
        """Whether the after is rejected only because its outputs do not have the types that the before declared.

        Exporters declare the types that the framework computes. An instance of the pattern declares the types of the before.
        """
        return not isinstance(answer(undeclared(self.after), inputs, ORACLES[0].name), Refusal)

    def _lenient(self, model: onnx.ModelProto) -> Loaded | Refusal:
        """One of the two models in the lenient oracle, for inputs of every style."""
        return self._loaded.get(id(model)) or self._loaded.setdefault(id(model), ORACLES[1].load(model))

    def _compared(self, trial: Trial, before: Loaded | Refusal, inputs: Mapping[str, Array], after: Loaded | Refusal) -> Trial:
        """A rejected before may still run in the lenient oracle, which does not check types."""
        wanted = before if isinstance(before, Refusal) else before(inputs)
        found = after if isinstance(after, Refusal) else after(inputs)
        if isinstance(wanted, Refusal) or isinstance(found, Refusal):
            return trial
        off, error = compare(wanted, found, self.bound)
        if off is not None:  # the oracles may differ in the outputs of the after
            again = self._lenient(self.after)
            mine = again if isinstance(again, Refusal) else again(inputs)
            if isinstance(mine, Refusal) or compare(wanted, mine, self.bound)[0] is None:
                return trial
        why = trial.why if off is None else str(off)
        name = ORACLES[1].name
        return Trial(REPAIRED, self.instance, why, self.after, inputs, name, error, off is None)


def _alike(one: str, other: str) -> bool:
    """Whether two rejections are the same except for names and numbers."""
    return _NAMES.sub("", one) == _NAMES.sub("", other)
