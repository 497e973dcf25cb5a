"""Whether a node means the same at another version of its operator domain.

Nearly every operator has a new version every few opsets, mostly since more element types are allowed. If the schemas of two
versions show no other difference that affects a node, and the table below lists none that schemas do not show, the node means
the same. Repairs and `rewriter opset` ask this one function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from rewriter.core.language import schema
from rewriter.core.language.operator_traits import BROADCAST_ALL, BROADCAST_LAST, SETTLED, having, of_form

REVIEWED: Mapping[str, int] = MappingProxyType({"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1})
"""The newest version of each domain whose new attributes were compared with the behaviour before them."""


class Form(NamedTuple):
    """How a node is written: the names of its attributes; for each operand, whether it is there; the number of outputs.
    Omitted operands and outputs at the end do not count.
    """

    attributes: frozenset[str]
    inputs: tuple[bool, ...]
    outputs: int


Values = Callable[[str], Any]
"""Returns the value of an attribute of a node, None if the node does not have it."""


class Change(NamedTuple):
    """What a version of an operator changed. A schema does not show it.

    Attributes:
        words: what changed, as messages call it.
        affects: whether a node of this form is affected.
        widened: whether the operator only can express more: a node keeps its meaning on the way up, and may lose it on the way
            down.
    """

    words: str
    affects: Callable[[Form, Values], bool] = lambda form, value: True
    widened: bool = False


def _writes(*names: str) -> Callable[[Form, Values], bool]:
    return lambda form, value: not form.attributes.isdisjoint(names)


def _writes_one_of(name: str, *values: str) -> Callable[[Form, Values], bool]:
    """Whether an attribute has one of these values, or one that a caller of the function decides."""
    return lambda form, value: name in form.attributes and (not isinstance(value(name), str) or value(name) in values)


def _several_outputs(form: Form, value: Values) -> bool:
    return form.outputs > 1


def _counts_from_the_end(form: Form, value: Values) -> bool:
    """Whether an axis is negative, or is decided by a caller of the function."""
    written = [value(name) for name in ("axis", "axes") if name in form.attributes]
    axes = [axis for one in written for axis in (one if isinstance(one, list | tuple) else [one])]
    return any(not isinstance(axis, int) or axis < 0 for axis in axes)


_NEGATIVE_AXES = Change("the axes, which may be negative", _counts_from_the_end, widened=True)
_AXES = of_form("arg", "reduction", "concat", "flatten", "split", "squeeze", "unsqueeze") | having("flattens") | {"Compress"}
_BROADCAST = Change("the operands, which broadcast", widened=True)
_LISTS = Change("scale and zero point, which may be lists along an axis", widened=True)
_FURTHER = Change("the reductions, by max and min", _writes_one_of("reduction", "max", "min"), widened=True)
_ALL_STEPS = Change("the outputs, which may be all steps", widened=True)
_ONE_AXIS = Change(
    "the axes: one axis, and all axes from it on before",
    lambda form, value: value("axis") != -1,  # the last axis alone, in all versions
)

CHANGES: Mapping[tuple[str, int], Change] = MappingProxyType(
    {
        **{(op, SETTLED): _BROADCAST for op in of_form("broadcast") - BROADCAST_LAST if SETTLED in schema.versions(op)},
        **{(op, BROADCAST_ALL): _BROADCAST for op in BROADCAST_LAST},
        **{(op, 11): _NEGATIVE_AXES for op in _AXES},
        **{(op, 13): _ONE_AXIS for op in having("flattens")},
        **{(op, 13): _LISTS for op in ("QuantizeLinear", "DequantizeLinear")},
        **{(op, 18): _FURTHER for op in ("ScatterElements", "ScatterND")},
        **{(op, 7): _ALL_STEPS for op in ("GRU", "LSTM", "RNN")},
        ("AveragePool", 19): Change(
            "the place of the last window when the size is rounded up", _writes("ceil_mode", "auto_pad")
        ),
        ("BatchNormalization", 7): Change("the mark of training"),
        ("BatchNormalization", 14): Change("its further outputs", _several_outputs),
        ("Clip", 11): Change("the bounds that are not set"),
        ("Constant", 9): Change("the types, which need not be floating-point", widened=True),
        ("ConvTranspose", 11): Change("the side on which auto_pad puts an odd row", _writes("auto_pad", "output_shape")),
        ("DFT", 20): Change("the default axis"),
        ("Dropout", 7): Change("the mark of training"),
        ("Dropout", 10): Change("the element type of its mask", _several_outputs),
        ("Dropout", 12): Change("the mask at inference", _several_outputs, widened=True),
        ("GRU", 3): Change("the name of one direction"),
        ("Gather", 11): Change("axis and indices, which may be negative", widened=True),
        ("Gemm", 7): Change("the bias, which broadcasts", widened=True),
        ("GridSample", 20): Change("the names of the modes"),
        ("GroupNormalization", 21): Change("scale and bias: one for each channel, and one for each group before"),
        ("Mod", 28): Change("the types with fmod=0, by floating-point numbers", widened=True),
        ("OneHot", 11): Change("negative indices: they count from the end, and matched no class before"),
        ("PRelu", 7): Change("the axes of the slopes"),
        ("Pad", 19): Change("the modes, by wrap", _writes_one_of("mode", "wrap"), widened=True),
        ("Resize", 11): Change("the coordinates and their attributes"),
        ("Resize", 13): Change(
            "the coordinates: tf_half_pixel_for_nn is gone; and the region, which may be left out",
            _writes_one_of("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
        ),
        ("Resize", 19): Change(
            "the coordinates, by half_pixel_symmetric",
            _writes_one_of("coordinate_transformation_mode", "half_pixel_symmetric"),
            widened=True,
        ),
        ("RoiAlign", 16): Change("the places of pixels"),
        ("Scan", 9): Change("the batch dimension"),
        ("Slice", 11): Change(_NEGATIVE_AXES.words, lambda form, value: any(form.inputs[3:]), widened=True),
        ("Split", 18): Change(
            "the parts: their number or their sizes are required", lambda form, value: not any(form.inputs[1:])
        ),
        ("ai.onnx.ml.LabelEncoder", 2): Change("the labels: keys with their values, and a list of classes before"),
    }
)
"""By operator and the version that begins with the change."""


def keeps_meaning(op: str, domain: str, form: Form, value: Values, first: int, then: int, *, doubtful: bool) -> bool:
    """Whether a node, as it is written, means the same in two versions of its domain. Element types are not compared.

    Args:
        op, domain: the operator; one without a schema counts as the same in all versions.
        form, value: of the node.
        first, then: the version for which the node is written, and the other one.
        doubtful: the answer in cases of doubt: `first` does not have the operator in this form; a step leads to a version up to
            opset 7, which no runtime can compare with the one before; or a version that was not reviewed has new attributes.
    """
    history = schema.history(op, domain)
    if not history or first == then:
        return True
    steps = [one.since for one in history if min(first, then) < one.since <= max(first, then)]
    if not steps:
        return doubtful or schema.schema(op, domain, first) is not None
    if not doubtful and (not fits(op, domain, first, form) or not _doubtful_steps(op, domain).isdisjoint(steps)):
        return False
    pairs = [(since - 1, since) for since in steps] if first < then else [(since, since - 1) for since in reversed(steps)]
    return all(
        not _is_changed(op, domain, form, value, before, after) and _reads_alike(op, domain, form, before, after)
        for before, after in pairs
    )


@cache
def _doubtful_steps(op: str, domain: str) -> frozenset[int]:
    """The versions of an operator of which it is not known whether they changed more than their schemas show."""
    history = schema.history(op, domain)
    reviewed = REVIEWED.get(schema.normal(domain), 0)
    new = {new.since for old, new in itertools.pairwise(history) if new.attributes.keys() - old.attributes.keys()}
    old = {one.since for one in history if not schema.normal(domain) and one.since <= SETTLED}
    return frozenset(old | {since for since in new if since > reviewed})


def _is_changed(op: str, domain: str, form: Form, value: Values, before: int, after: int) -> bool:
    change = CHANGES.get((schema.qualified(op, domain), max(before, after)))
    return change is not None and (after < before or not change.widened) and change.affects(form, value)


@lru_cache(maxsize=1 << 12)
def _reads_alike(op: str, domain: str, form: Form, before: int, after: int) -> bool:
    """Whether a version has a form of the version before it or after it, and reads its attributes alike: the written ones, and
    the defaults of the others.
    """
    old, new = schema.schema(op, domain, before), schema.schema(op, domain, after)
    if old is None or new is None or not fits(op, domain, after, form):
        return False
    common = ((name, old.attributes[name], new.attributes[name]) for name in old.attributes if name in new.attributes)
    return all(was.kind == now.kind if name in form.attributes else was.default == now.default for name, was, now in common)


@lru_cache(maxsize=1 << 12)
def fits(op: str, domain: str, version: int, form: Form) -> bool:
    """Whether a version has the operator in this form; element types are not compared."""
    found = schema.schema(op, domain, version)
    if found is None or found.deprecated or any(name not in found.attributes for name in form.attributes):
        return False
    if any(attribute.required and name not in form.attributes for name, attribute in found.attributes.items()):
        return False
    used, most, widest = len(form.inputs), found.max_inputs, found.max_outputs
    if (most is not None and used > most) or (widest is not None and form.outputs > widest):
        return False
    single = [position for position, formal in enumerate(found.inputs) if not formal.optional and not formal.variadic]
    repeated = bool(found.inputs) and found.inputs[-1].variadic and found.min_inputs >= len(found.inputs)
    return all(position < used and form.inputs[position] for position in single) and (not repeated or used >= found.min_inputs)


@cache
def has_later_form(op: str, version: int) -> bool:
    """Whether a later version of one of ONNX's own operators has other attributes, or another number of operands or outputs."""
    now = schema.schema(op, "", version)
    versions = [one for one in schema.history(op, "") if not one.deprecated and (one is now or one.since > version)]
    attributes = ({(name, attribute.required) for name, attribute in one.attributes.items()} for one in versions)
    numbers = ((one.min_inputs, one.max_inputs, one.max_outputs) for one in versions)
    return len(set(zip(map(frozenset, attributes), numbers, strict=True))) > 1


def type_variables(op: str, domain: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For operands and for results, the type variable that each place shares with others, "" for none; None for an operator
    without a schema.
    """
    found = schema.schema(op, domain, version)
    if found is None:
        return None
    mixed = {formal.kind for formal in (*found.inputs, *found.outputs) if formal.mixed}
    inputs, outputs = (
        tuple("" if formal.kind in mixed or "(" in formal.kind else formal.kind for formal in side)
        for side in (found.inputs, found.outputs)
    )
    return inputs, outputs


def takes(op: str, domain: str, version: int, outputs: bool, position: int, kind: int | str) -> bool:
    """Whether an operator allows tensors of an element type as input (or, with `outputs`, as output) at a position. `kind` can
    also be a type such as `seq(tensor(float))`.
    """
    found = schema.schema(op, domain, version)
    formals = () if found is None else found.outputs if outputs else found.inputs
    if found is None or not formals:
        return False
    bits, others = found.types[formals[min(position, len(formals) - 1)].kind]
    return kind in others if isinstance(kind, str) else bool(bits >> kind & 1)
