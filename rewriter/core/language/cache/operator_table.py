"""The defaults and element types of ONNX's operators.

The table is made once for a version of ONNX, and then read from the cache, so that ONNX need not be imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from rewriter.core.language.cache.store import read_or_make
from rewriter.core.language.dtypes import DTYPES

Output = tuple[int, tuple[int, ...]]
"""The possible types of an output: a set of element types as bits (-1: any), and the operands whose type it may have. A
negative position -1-i means operand i and all operands behind it.
"""

Form = tuple[int, int, frozenset[str], frozenset[str]]
"""One version of an operator: least and most operands, the attributes that it has, and those of them that it requires."""

Entry = tuple[
    Mapping[str, tuple[tuple[int, Any], ...]], tuple[Output, ...], bool, tuple[Form, ...], tuple[tuple[int, bool], ...]
]
"""Of an operator of ONNX's own domain: attribute to default by version; the outputs; whether the last output repeats; all
forms that the operator ever had; the versions in which it changed, and whether it may be used from there on.
"""

Table = Mapping[str, Entry]

ANY = -1
"""The set of all element types. Sets are numbers, a bit for each type."""


def bits_of(dtype: int) -> int:
    """The set of types, as bits, for a declared type."""
    return 1 << dtype if 0 < dtype < 64 else ANY


def union(types: Iterable[int]) -> int:
    """All of these sets of types together; one that is left out may be anything."""
    bits = 0
    for one in types:
        bits |= one or ANY
    return bits


@cache
def operator_table() -> Table:
    """The table of the ONNX that is installed."""
    return {op: _entry(*parts) for op, parts in json.loads(read_or_make("operators", _make)).items()}


def _entry(defaults: Any, outputs: Any, repeats: Any, forms: Any, life: Any) -> Entry:
    """As it was before it became JSON: attributes are looked up in sets, and lists of integers are tuples."""
    values = {
        name: tuple([(since, tuple(value) if type(value) is list else value) for since, value in found])
        for name, found in defaults.items()
    }
    known = tuple([(least, most, frozenset(names), frozenset(required)) for least, most, names, required in forms])
    return values, outputs, repeats, known, life


def _make() -> str:
    from rewriter.core.language import schema

    return json.dumps({op: (_defaults(op), *_outputs(op), _forms(op), _life(op)) for op in schema.operators("")})


def _defaults(op: str) -> dict[str, tuple[tuple[int, Any], ...]]:
    from rewriter.core.language import schema

    found = {}
    for name in schema.all_attributes(op):
        values = tuple((since, schema.effective_default(op, "", since, name)) for since in schema.versions(op))
        if any(value is not None for _, value in values):
            found[name] = values
    return found


def _forms(op: str) -> list[tuple[int, int, list[str], list[str]]]:
    from rewriter.core.language import schema

    versions = [found for found in schema.registered(op, "") if not found.deprecated]
    required = ([name for name, one in found.attributes.items() if one.required] for found in versions)
    pairs = zip(versions, required, strict=True)
    return [(found.min_input, found.max_input, sorted(found.attributes), sorted(names)) for found, names in pairs]


def _life(op: str) -> tuple[tuple[int, bool], ...]:
    from rewriter.core.language import schema

    return tuple((found.since_version, not found.deprecated) for found in schema.registered(op, ""))


def begun(entry: Entry, version: int) -> bool:
    """Whether ONNX has the operator at that opset, be it deprecated there."""
    return entry[4][0][0] <= version or any(since <= version for since, _ in entry[4])


def form_at(entry: Entry, version: int) -> Form | None:
    """The operator's form at that opset; None if ONNX does not have the operator yet, or no more."""
    usable = [is_usable for since, is_usable in entry[4] if since <= version]
    return entry[3][sum(usable) - 1] if usable and usable[-1] else None


def _outputs(op: str) -> tuple[tuple[Output, ...], bool]:
    from rewriter.core.language import schema

    versions = [found for found in schema.registered(op, "") if not found.deprecated]
    count = max((len(found.outputs) for found in versions), default=0)
    repeats = any(found.outputs and _repeats(found.outputs[-1]) for found in versions)
    return tuple(_output([found for found in versions if i < len(found.outputs)], i) for i in range(count)), repeats


def _repeats(formal: Any) -> bool:
    return bool(formal.option.name == "Variadic")


def _output(versions: list[Any], i: int) -> Output:
    """The possible types of output i in any of these versions."""
    bits, operands = 0, set[int]()
    for found in versions:
        kind = found.outputs[i].type_str
        same = [n for n, formal in enumerate(found.inputs) if formal.type_str == kind]
        if not found.outputs[i].is_homogeneous or any(not found.inputs[n].is_homogeneous for n in same):
            return ANY, ()
        operands |= {-1 - n if _repeats(found.inputs[n]) else n for n in same}
        if not same:
            allowed = {one.type_param_str: one.allowed_type_strs for one in found.type_constraints}.get(kind, [kind])
            for text in allowed:
                dtype = DTYPES.get(text.removeprefix("tensor(").removesuffix(")"))
                if dtype is None:
                    return ANY, ()
                bits |= 1 << dtype
    return bits, tuple(sorted(operands))
