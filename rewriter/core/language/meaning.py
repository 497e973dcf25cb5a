"""Whether a node means the same at another version of its operator domain.

Nearly every operator has a new version every few opsets, mostly since more element types are allowed. If the schemas of two
versions show no other difference that affects a node, and the tables below list none that schemas do not show, the node means
the same. In all doubtful cases the answer is no.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from rewriter.core.language import schema
from rewriter.core.language.dtypes import DTYPE_NAMES
from rewriter.core.language.operator_traits import SETTLED, traits

_AS_TENSOR = {"base_values_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor"}
_ADDED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "LabelEncoder": frozenset({"keys_tensor", "values_tensor", "default_tensor"}),
        "TreeEnsembleClassifier": frozenset(_AS_TENSOR | {"class_weights_as_tensor"}),
        "TreeEnsembleRegressor": frozenset(_AS_TENSOR | {"target_weights_as_tensor"}),
    }
)
"""Attributes of later versions of ONNX's operators. Without them the operator behaves as in the versions before."""

_CHANGED: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        "AveragePool": frozenset({19}),  # which padding the last window counts when the size is rounded up
        "ConvTranspose": frozenset({11}),  # where auto_pad puts an odd row
        "OneHot": frozenset({11}),  # a negative index was off, and counts from the end since
        "Resize": frozenset({11, 18, 19}),  # coordinates and interpolation
        "Split": frozenset({18}),  # without sizes, their number has to be written
        "Clip": frozenset({11}),  # the bounds that go without saying were the largest finite numbers
        "Dropout": frozenset({7, 10, 12}),  # when it trains, and what its mask is
    }
)
"""Versions that changed the meaning of nodes to which the schema shows no difference."""


def keeps_meaning(op: str, domain: str, written: Collection[str], inputs: int, outputs: int, first: int, then: int) -> bool:
    """Whether a node means the same in two versions of its domain, in either order. Element types are not looked at.

    Args:
        op, domain: the operator; one without a schema counts as the same in all versions.
        written: names of the attributes that the node has.
        inputs, outputs: how many it has, without omitted ones at the end.
        first, then: the versions.
    """
    low, high = sorted((first, then))
    history = schema.history(op, domain)
    if not history or low == high:
        return True
    if schema.schema(op, domain, low) == schema.schema(op, domain, high) is not None:
        return True
    if not schema.exists(op, domain, low) or not schema.exists(op, domain, high):
        return False
    steps = [operator for operator in history if operator.since <= high]
    steps = steps[max(i for i, operator in enumerate(steps) if operator.since <= low) :]
    if len(steps) > 1 and not schema.normal(domain) and low < SETTLED:
        return False
    pairs = itertools.pairwise(steps)
    return all(_same(op, domain, old.since, new.since, frozenset(written), inputs, outputs) for old, new in pairs)


@cache
def _same(op: str, domain: str, first: int, then: int, written: frozenset[str], inputs: int, outputs: int) -> bool:
    """Whether a node means the same in a version and the next one."""
    old, new = schema.schema(op, domain, first), schema.schema(op, domain, then)
    if old is None or new is None or new.since in _CHANGED.get(new.name, ()) or new.deprecated:
        return False
    before, after = old.attributes, new.attributes
    harmless = _ADDED.get(new.name) or traits(new.name).later.split()
    if any(name not in before and name not in harmless for name in after):
        return False
    common = [name for name in before if name in after]
    if any((before[name].kind, before[name].default) != (after[name].kind, after[name].default) for name in common):
        return False
    return all(fits(op, domain, version, written, inputs, outputs) for version in (first, then))


@lru_cache(maxsize=1 << 12)
def fits(op: str, domain: str, version: int, written: tuple[str, ...] | frozenset[str], inputs: int, outputs: int) -> bool:
    """Whether a version has the operator with these attributes and so many operands; element types are not looked at."""
    found = schema.schema(op, domain, version)
    if found is None or found.deprecated or any(name not in found.attributes for name in written):
        return False
    if any(attribute.required and name not in written for name, attribute in found.attributes.items()):
        return False
    most, widest = found.max_inputs, found.max_outputs
    return found.min_inputs <= inputs and (most is None or inputs <= most) and (widest is None or outputs <= widest)


@cache
def has_later_form(op: str, version: int) -> bool:
    """Whether a later version of one of ONNX's own operators has other attributes, or another number of operands or outputs."""
    now = schema.schema(op, "", version)
    versions = [one for one in schema.history(op, "") if not one.deprecated and (one is now or one.since > version)]
    attributes = ({(name, attribute.required) for name, attribute in one.attributes.items()} for one in versions)
    numbers = ((one.min_inputs, one.max_inputs, one.max_outputs) for one in versions)
    return len(set(zip(map(frozenset, attributes), numbers, strict=True))) > 1


@cache
def type_variables(op: str, domain: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For operands and for results, the type variable that each place shares with others, "" for none; None for an operator
    without a schema.
    """
    found = schema.registered_at(op, domain, version)
    if found is None:
        return None
    mixed = {f.type_str for f in (*found.inputs, *found.outputs) if not f.is_homogeneous}
    free = {one.type_param_str for one in found.type_constraints} - mixed
    inputs, outputs = (tuple(f.type_str if f.type_str in free else "" for f in side) for side in (found.inputs, found.outputs))
    return inputs, outputs


@cache
def takes(op: str, domain: str, version: int, outputs: bool, position: int, kind: int | str) -> bool:
    """Whether an operator allows tensors of an element type as input (or, with `outputs`, as output) at a position. `kind` can
    also be a type such as `seq(tensor(float))`.
    """
    found = schema.registered_at(op, domain, version)
    formals = () if found is None else found.outputs if outputs else found.inputs
    if found is None or not formals:
        return False
    formal = formals[min(position, len(formals) - 1)]
    allowed = next(
        (c.allowed_type_strs for c in found.type_constraints if c.type_param_str == formal.type_str), [formal.type_str]
    )
    return (kind if isinstance(kind, str) else f"tensor({DTYPE_NAMES.get(kind)})") in allowed
