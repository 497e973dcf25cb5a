"""What ONNX itself says of its operators and element types: names and numbers of types, and schemas.

The checks need attributes, operand counts and defaults of every operator for every opset that a rule claims, and the engine
needs defaults while matching. `onnx.defs` returns freshly converted C++ objects each time, so this module keeps plain records.

The records come from the cache, so that neither compiling rules nor the look at a census imports `onnx`, which takes longer
than thirty rules. Each is made when it is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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

DEFAULTS_PER_AXIS = MappingProxyType({"pads": (0, 2), "strides": (1, 1), "dilations": (1, 1)})
"""Defaults in words that depend on the number of spatial axes: the item, and how many an axis."""

COMPUTED_FROM_OPERANDS = frozenset((*DEFAULTS_PER_AXIS, "perm", "kernel_shape"))
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
    """An input or output as the specification declares it.

    Attributes:
        optional: whether it can be left out.
        variadic: whether it can be any number of tensors; it is the last one.
        mixed: whether the tensors of a variadic one may be of different types.
        kind: its type variable, which others may share, or its only type ("tensor(int64)").
    """

    name: str
    optional: bool
    variadic: bool
    mixed: bool
    kind: str


Types = tuple[int, tuple[str, ...]]
"""Types that a tensor may have: element types as bits, and the types of sequences, optionals and maps by name."""


@record(frozen=True, slots=True)
class Attribute:
    """`kind` is int, float, string, ints, floats, strings, tensor, graph, type ...; `default` None: none is declared."""

    name: str
    kind: str
    required: bool
    default: Value


@record(frozen=True, slots=True)
class Operator:
    """One version of one operator.

    Attributes:
        max_inputs, max_outputs: None for any number.
        types: by `kind` of its inputs and outputs, the types that are allowed.
    """

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
    types: Mapping[str, Types]

    def allows(self, count: int) -> bool:
        """Whether a node may have so many operands."""
        return self.min_inputs <= count and (self.max_inputs is None or count <= self.max_inputs)

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
def _schemas() -> tuple[Any, Sequence[str]]:
    """What all operators share, and a line for each operator, of which few are ever read."""
    shared, *lines = read_or_make("schemas", _make).split("\n")
    return json.loads(shared), lines


def _make() -> str:
    from onnx import defs

    latest: dict[str, int] = {}
    numbers: dict[str, dict[str, int]] = {}
    types: dict[str, int] = {}
    lines: list[Any] = []
    for (domain, name), group in _registry().items():
        latest[domain] = max(latest.get(domain, 1), group[-1].since_version)
        numbers.setdefault(domain, {})[name] = len(lines)
        lines.append([_plain(schema, types) for schema in group])
    latest[""] = defs.onnx_opset_version()
    shared = {"latest": latest, "operators": numbers, "types": list(map(json.loads, types))}
    return "\n".join([json.dumps(line, separators=(",", ":")) for line in (shared, *lines)])


_OPTIONAL, _VARIADIC, _MIXED = 1, 2, 4


def _plain(schema: OpSchema, types: dict[str, int]) -> list[Any]:
    """The plain data from which `_operator` makes a record. `types` numbers the sets of types, which many operators share."""
    counts = schema.min_input, _bounded(schema.max_input), schema.min_output, _bounded(schema.max_output)
    attributes = {
        name: (_KINDS.get(str(found.type).rpartition(".")[2], "unknown"), found.required, value_of(found.default_value))
        for name, found in schema.attributes.items()
    }
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    kinds = dict.fromkeys([formal.type_str for formal in (*schema.inputs, *schema.outputs)])
    sets = {kind: types.setdefault(json.dumps(_types(allowed.get(kind, [kind]))), len(types)) for kind in kinds}
    formals = _formals(schema.inputs), _formals(schema.outputs)
    return [schema.since_version, schema.deprecated, *formals, *counts, attributes, sets]


def _formals(parameters: Iterable[Any]) -> list[tuple[str, int, str]]:
    marks = {"Optional": _OPTIONAL, "Variadic": _VARIADIC}
    return [
        (formal.name, marks.get(formal.option.name, 0) | _MIXED * (not formal.is_homogeneous), formal.type_str)
        for formal in parameters
    ]


def _types(names: Iterable[str]) -> Types:
    bits, others = 0, list[str]()
    for name in names:
        dtype = DTYPES.get(name.removeprefix("tensor(").removesuffix(")"))
        if dtype is None:
            others.append(name)
        else:
            bits |= 1 << dtype
    return bits, tuple(others)


def _bounded(count: int) -> int | None:
    return None if count > _UNBOUNDED else count


def _operator(op: str, domain: str, plain: list[Any]) -> Operator:
    since, deprecated, inputs, outputs, low, high, few, many, attributes, sets = plain
    known = {name: Attribute(name, *found) for name, found in attributes.items()}
    input_formals, output_formals = (
        tuple([Formal(name, bool(m & _OPTIONAL), bool(m & _VARIADIC), bool(m & _MIXED), kind) for name, m, kind in found])
        for found in (inputs, outputs)
    )
    listed = _schemas()[0]["types"]
    types = {kind: (listed[number][0], tuple(listed[number][1])) for kind, number in sets.items()}
    tables = MappingProxyType(known), MappingProxyType(types)
    return Operator(op, domain, since, deprecated, input_formals, output_formals, low, high, few, many, *tables)


@cache
def history(op: str, domain: str = "") -> tuple[Operator, ...]:
    """Every version of an operator, oldest first; empty when ONNX does not know it."""
    domain = normal(domain)
    number = _names().get(domain, {}).get(op)
    return () if number is None else tuple([_operator(op, domain, plain) for plain in json.loads(_schemas()[1][number])])


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
    latest: dict[str, int] = _schemas()[0]["latest"]
    return latest


def _names() -> Mapping[str, Mapping[str, int]]:
    """The operators that each domain has or had, with the numbers of their lines."""
    names: dict[str, dict[str, int]] = _schemas()[0]["operators"]
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


def dtypes_of(bits: int) -> list[int]:
    """The element types of a set."""
    return [dtype for dtype in range(bits.bit_length()) if bits >> dtype & 1]


Output = tuple[int, tuple[int, ...]]
"""The possible types of an output: a set of element types as bits (-1: any), and the operands whose type it may have. A
negative position -1-i means operand i and all operands behind it.
"""


@cache
def possible_outputs(op: str) -> tuple[tuple[Output, ...], bool]:
    """The outputs of an operator of ONNX's own domain, in any of its versions, and whether the last one repeats."""
    versions = [found for found in history(op) if not found.deprecated]
    count = max((len(found.outputs) for found in versions), default=0)
    repeats = any(found.outputs and found.outputs[-1].variadic for found in versions)
    return tuple(_output([found for found in versions if i < len(found.outputs)], i) for i in range(count)), repeats


def _output(versions: list[Operator], i: int) -> Output:
    """The possible types of output i in any of these versions."""
    bits, operands = 0, set[int]()
    for found in versions:
        formal = found.outputs[i]
        same = [n for n, one in enumerate(found.inputs) if one.kind == formal.kind]
        if formal.mixed or any(found.inputs[n].mixed for n in same):
            return ANY, ()
        operands |= {-1 - n if found.inputs[n].variadic else n for n in same}
        if not same:
            allowed, others = found.types[formal.kind]
            if others:
                return ANY, ()
            bits |= allowed
    return bits, tuple(sorted(operands))
