"""What ONNX itself says of its operators and element types: names and numbers of types, schemas, and a table of defaults and
types.

The checks need attributes, operand counts and defaults of every operator for every opset that a rule claims, and the engine
needs defaults while matching. `onnx.defs` returns freshly converted C++ objects each time, so this module keeps plain records.

The records and the table come from the cache, so that neither compiling rules nor the look at a census imports `onnx`, which
takes longer than thirty rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rewriter.core.language.operator_traits import COMMUTATIVE, traits
from rewriter.core.record import record
from rewriter.core.resources import read_or_make

if TYPE_CHECKING:
    from onnx.defs import OpSchema


_NAMES = (
    "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64",
    "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
    "float4e2m1", "float8e8m0", "uint2", "int2",
)  # fmt: skip

DTYPES: Mapping[str, int] = MappingProxyType({name: number for number, name in enumerate(_NAMES, 1)})
DTYPE_NAMES: Mapping[int, str] = MappingProxyType({number: name for name, number in DTYPES.items()})
FLOATS = frozenset(DTYPES[name] for name in ("float", "double", "float16", "bfloat16"))
"""The element types of floating-point numbers of more than one byte."""


Value = bool | int | float | str | list[int] | list[float] | list[str] | None

OLDEST_OPSET = 7
"""The first opset of a rule that does not declare one: older operators broadcast by attributes, and few models use them."""

COMPUTED_FROM_OPERANDS = frozenset(("pads", "strides", "dilations", "perm", "kernel_shape"))
"""Attributes whose default in words is worked out for a node; of the others it stays words, and they are absent."""

_BEFORE: Mapping[tuple[str, str], Value] = MappingProxyType(
    {
        ("Resize", "coordinate_transformation_mode"): "asymmetric",
        ("Resize", "nearest_mode"): None,
        ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    }
)
"""Attributes whose default differs from the operator's behaviour before they existed (None: unspecified)."""

_KINDS = {
    "INT": "int", "INTS": "ints", "FLOAT": "float", "FLOATS": "floats", "STRING": "string", "STRINGS": "strings",
    "TENSOR": "tensor", "TENSORS": "tensors", "GRAPH": "graph", "GRAPHS": "graphs", "SPARSE_TENSOR": "sparse tensor",
    "SPARSE_TENSORS": "sparse tensors", "TYPE_PROTO": "type", "TYPE_PROTOS": "types",
}  # fmt: skip

_UNBOUNDED = 1_000_000  # onnx.defs writes 2**31 - 1 for "any number"


@record(frozen=True, slots=True)
class Formal:
    """An input or output as the specification declares it. A `variadic` one is the last and can be any number of tensors."""

    name: str
    optional: bool
    variadic: bool


@record(frozen=True, slots=True)
class Attribute:
    """`kind` is int, float, string, ints, floats, strings, tensor, graph, type ...; `default` None: none is declared."""

    name: str
    kind: str
    required: bool
    default: Value


@record(frozen=True, slots=True)
class Operator:
    """One version of one operator. `max_inputs` and `max_outputs` None: any number."""

    name: str
    domain: str
    since: int
    deprecated: bool
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    min_inputs: int
    max_inputs: int | None
    min_outputs: int
    max_outputs: int | None
    attributes: Mapping[str, Attribute]

    @property
    def signature(self) -> str:
        """`Gemm(A, B, C?)`."""
        marks = ((formal.name, "..." if formal.variadic else "?" if formal.optional else "") for formal in self.inputs)
        return f"{self.name}({', '.join(name + mark for name, mark in marks)})"


def normal(domain: str) -> str:
    """The default domain has two names; everywhere else in this program it is the empty one."""
    return "" if domain == "ai.onnx" else domain


def qualified(op: str, domain: str) -> str:
    """The operator as rules and models print it: `Gemm`, `ai.onnx.ml.Scaler`."""
    return f"{domain}.{op}" if normal(domain) else op


@cache
def _registry() -> Mapping[tuple[str, str], tuple[OpSchema, ...]]:
    from onnx import defs

    found: dict[tuple[str, str], list[OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return {key: tuple(sorted(group, key=lambda s: s.since_version)) for key, group in found.items()}


def registered(op: str, domain: str = "") -> tuple[OpSchema, ...]:
    """Every version of an operator as `onnx.defs` has it, oldest first."""
    return _registry().get((normal(domain), op), ())


@cache
def registered_at(op: str, domain: str, version: int) -> OpSchema | None:
    """The schema as `onnx` itself has it, deprecated or not, for the parts that `Operator` leaves out; None if it is missing.

    The version comes from a model, so it may be any integer.
    """
    from onnx import defs

    try:
        return defs.get_schema(op, version, normal(domain))
    except (defs.SchemaError, TypeError):  # no such version, or none of 32 bits
        return None


@cache
def _schemas() -> Any:
    return json.loads(read_or_make("schemas", _make))


def _make() -> str:
    from onnx import defs

    latest: dict[str, int] = {}
    versions: dict[str, dict[str, list[Any]]] = {}
    for (domain, name), group in _registry().items():
        latest[domain] = max(latest.get(domain, 1), group[-1].since_version)
        versions.setdefault(domain, {})[name] = [_plain(schema) for schema in group]
    return json.dumps({"latest": {**latest, "": defs.onnx_opset_version()}, "operators": versions})


def _plain(schema: OpSchema) -> list[Any]:
    """The plain data from which `_operator` makes a record."""
    counts = schema.min_input, _bounded(schema.max_input), schema.min_output, _bounded(schema.max_output)
    attributes = {
        name: (_KINDS.get(str(found.type).rpartition(".")[2], "unknown"), found.required, value_of(found.default_value))
        for name, found in schema.attributes.items()
    }
    return [schema.since_version, schema.deprecated, _formals(schema.inputs), _formals(schema.outputs), *counts, attributes]


def _formals(parameters: Iterable[Any]) -> list[tuple[str, bool, bool]]:
    return [(formal.name, formal.option.name == "Optional", formal.option.name == "Variadic") for formal in parameters]


def _bounded(count: int) -> int | None:
    return None if count > _UNBOUNDED else count


def _operator(op: str, domain: str, plain: list[Any]) -> Operator:
    since, deprecated, inputs, outputs, low, high, few, many, attributes = plain
    known = {name: Attribute(name, *found) for name, found in attributes.items()}
    input_formals, output_formals = (tuple([Formal(*one) for one in found]) for found in (inputs, outputs))
    return Operator(op, domain, since, deprecated, input_formals, output_formals, low, high, few, many, MappingProxyType(known))


@cache
def history(op: str, domain: str = "") -> tuple[Operator, ...]:
    """Every version of an operator, oldest first; empty when ONNX does not know it."""
    domain = normal(domain)
    return tuple([_operator(op, domain, plain) for plain in _names().get(domain, {}).get(op, ())])


@cache
def schema(op: str, domain: str, version: int) -> Operator | None:
    """The operator as opset `version` of its domain defines it, deprecated or not; None if there is none (yet)."""
    found = None
    for operator in history(op, domain):
        if operator.since > version:
            break
        found = operator
    return found


def versions(op: str, domain: str = "") -> tuple[int, ...]:
    """The opsets in which the operator was introduced or changed, ascending."""
    return tuple(operator.since for operator in history(op, domain))


def exists(op: str, domain: str, version: int) -> bool:
    """True when a model of that opset may use the operator."""
    found = schema(op, domain, version)
    return found is not None and not found.deprecated


def deprecated_since(op: str, domain: str = "") -> int | None:
    """The opset from which on the operator must not be used, or None."""
    return next((operator.since for operator in history(op, domain) if operator.deprecated), None)


def is_known_domain(domain: str) -> bool:
    """True for the domains whose operators have schemas here."""
    return normal(domain) in _domains()


def _domains() -> Mapping[str, int]:
    latest: dict[str, int] = _schemas()["latest"]
    return latest


def _names() -> Mapping[str, Mapping[str, Any]]:
    """The operators that each domain has or had."""
    names: dict[str, dict[str, Any]] = _schemas()["operators"]
    return names


def latest_opset(domain: str = "") -> int:
    """The newest version of a known domain; 1 for all others."""
    return _domains().get(normal(domain), 1)


def domains() -> tuple[str, ...]:
    """The domains whose operators have schemas here."""
    return tuple(_domains())


def operators(domain: str = "") -> tuple[str, ...]:
    """All operators that a domain has or had, sorted; material for "did you mean"."""
    return tuple(sorted(_names().get(normal(domain), ())))


def domains_of(op: str) -> tuple[str, ...]:
    """The known domains that have an operator of this name."""
    return tuple(sorted(domain for domain, names in _names().items() if op in names))


def attributes(op: str, domain: str, within: Iterable[int]) -> Mapping[str, tuple[int, ...]]:
    """Attribute → those opsets of `within` that have it, for all attributes that any of them has."""
    found: dict[str, list[int]] = {}
    for version in within:
        operator = schema(op, domain, version)
        for name in operator.attributes if operator else ():
            found.setdefault(name, []).append(version)
    return {name: tuple(having) for name, having in found.items()}


def all_attributes(op: str, domain: str = "") -> frozenset[str]:
    """The attributes that any version of the operator has."""
    return frozenset(name for operator in history(op, domain) for name in operator.attributes)


def attribute(op: str, domain: str, version: int, name: str) -> Attribute | None:
    """The attribute in that opset; None if the operator or the attribute does not exist there."""
    operator = schema(op, domain, version)
    return operator.attributes.get(name) if operator else None


def attribute_kinds(op: str, domain: str, name: str) -> frozenset[str]:
    """The types that an attribute has or had; more than one if a version changed it, as with `Cast.to`."""
    return frozenset(operator.attributes[name].kind for operator in history(op, domain) if name in operator.attributes)


def subgraphs(op: str, domain: str) -> tuple[str, ...]:
    """The attributes of an operator that hold a graph, sorted."""
    return tuple(sorted(a for a in all_attributes(op, domain) if "graph" in attribute_kinds(op, domain, a)))


@cache
def effective_default(op: str, domain: str, version: int, name: str) -> Value:
    """The value that an operator of that opset uses if the attribute is not written.

    That is the declared default or, in an opset before the attribute was introduced, the default that it was introduced with.
    The operator always behaved like this before, except for the attributes in a small table here. The value is None if no
    default is declared; `computed_default` then returns whether the specification describes a default in prose.
    """
    found = attribute(op, domain, version, name)
    if found is not None:
        return found.default
    if schema(op, domain, version) is None:
        return None
    if any(name in operator.attributes for operator in history(op, domain) if operator.since <= version):
        return None  # it existed and was removed, so it has no meaning in this version
    if (op, name) in _BEFORE and not normal(domain):
        return _BEFORE[op, name]
    later = (operator.attributes.get(name) for operator in history(op, domain) if operator.since > version)
    return next((attr.default for attr in later if attr is not None), None)


def computed_default(op: str, domain: str, name: str) -> str | None:
    """In words, the default that the specification describes in prose ("zeros", "axes reversed"), or None."""
    return traits(op).prose.get(name) if not normal(domain) else None


@cache
def has_default(op: str, domain: str, name: str) -> bool:
    """Whether any version of an operator has a value for an attribute that is not written."""
    if computed_default(op, domain, name) is not None or ((op, name) in _BEFORE and not normal(domain)):
        return True
    return any(name in one.attributes and one.attributes[name].default is not None for one in history(op, domain))


def is_commutative(op: str, domain: str = "") -> bool:
    """Whether an operator's operands are tried in every order."""
    return op in COMMUTATIVE and not normal(domain)


def value_of(proto: Any) -> Value:
    """The value of an `AttributeProto` as plain data; None for graphs, tensors and types."""
    from onnx import helper

    if not proto.type:
        return None
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value if isinstance(value, (int, float, str)) else None


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
    return {op: _table_entry(*parts) for op, parts in json.loads(read_or_make("operators", _make_table)).items()}


def _table_entry(defaults: Any, outputs: Any, repeats: Any, forms: Any, life: Any) -> Entry:
    """As it was before it became JSON: attributes are looked up in sets, and lists of integers are tuples."""
    values = {
        name: tuple([(since, tuple(value) if type(value) is list else value) for since, value in found])
        for name, found in defaults.items()
    }
    known = tuple([(least, most, frozenset(names), frozenset(required)) for least, most, names, required in forms])
    return values, outputs, repeats, known, life


def _make_table() -> str:
    return json.dumps({op: (_defaults(op), *_outputs(op), _forms(op), _life(op)) for op in operators("")})


def _defaults(op: str) -> dict[str, tuple[tuple[int, Any], ...]]:
    found = {}
    for name in all_attributes(op):
        values = tuple((since, effective_default(op, "", since, name)) for since in versions(op))
        if any(value is not None for _, value in values):
            found[name] = values
    return found


def _forms(op: str) -> list[tuple[int, int, list[str], list[str]]]:
    versions = [found for found in registered(op, "") if not found.deprecated]
    required = ([name for name, one in found.attributes.items() if one.required] for found in versions)
    pairs = zip(versions, required, strict=True)
    return [(found.min_input, found.max_input, sorted(found.attributes), sorted(names)) for found, names in pairs]


def _life(op: str) -> tuple[tuple[int, bool], ...]:
    return tuple((found.since_version, not found.deprecated) for found in registered(op, ""))


def begun(entry: Entry, version: int) -> bool:
    """Whether ONNX has the operator at that opset, be it deprecated there."""
    return entry[4][0][0] <= version or any(since <= version for since, _ in entry[4])


def form_at(entry: Entry, version: int) -> Form | None:
    """The operator's form at that opset; None if ONNX does not have the operator yet, or no more."""
    usable = [is_usable for since, is_usable in entry[4] if since <= version]
    return entry[3][sum(usable) - 1] if usable and usable[-1] else None


def _outputs(op: str) -> tuple[tuple[Output, ...], bool]:
    versions = [found for found in registered(op, "") if not found.deprecated]
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
