"""The operators, attributes and element types that a model must have for a rule to fire. A rule whose needs are not met is not
tried anywhere.

Most rules of a large set are about something that a model does not have. Checking this once for the model costs much less than
checking it at each node. `rewriter.core.matching` lists the questions before and after this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Function, Graph, Node, NodesByOperator
from rewriter.core.graph.values import Variable, elem_type
from rewriter.core.language import ast
from rewriter.core.language.ast import pattern_nodes, walk
from rewriter.core.language.claims import TRUE, Branch, Claim, Term, TermNames, claims_of, name_of, normal
from rewriter.core.language.operator_traits import FLOAT_WITHOUT, TYPED, of_type, traits
from rewriter.core.language.pattern import ANY_OPERATOR, Pattern, operator_names
from rewriter.core.language.schema import DTYPES, dtypes_of, has_default, history, latest_opset, schema
from rewriter.core.record import record

OpKey = tuple[str, str]

_PLAIN = {DTYPES[name] for name in ("float", "int64", "bool", "string")}  # the possible types of an untyped number or text
_TYPED_BY_ATTRIBUTE = of_type("value", *TYPED) | {"Constant"}


DtypeNeeds = tuple[tuple[frozenset[int], ...], ...]
"""The alternatives of a condition. Of each set of an alternative, the model must have an element type."""

LARGEST_SEARCHED = 1 << 12
"""Bytes of a node up to which they are searched for the name of an attribute. Of larger nodes the attributes are read."""


class WrittenAttributes:
    """The attributes that the nodes of an operator have. Each operator is looked at when it is first asked about."""

    def __init__(self, nodes: NodesByOperator) -> None:
        self._nodes = nodes
        self._known: dict[OpKey, tuple[bytes, frozenset[str]]] = {}

    def has(self, ops: frozenset[OpKey], name: str) -> bool:
        """Whether a node of one of these operators may have the attribute."""
        written = name.encode()
        known = map(self._of, self._nodes.keys if ops is ANY_OPERATOR else ops & self._nodes.keys)
        return any(written in unread or name in names for unread, names in known)

    def _of(self, op: OpKey) -> tuple[bytes, frozenset[str]]:
        """The bytes of the nodes whose attributes were not read, which would take longer, and the attributes of the others."""
        found = self._known.get(op)
        if found is None:
            nodes = self._nodes.of(op)
            unread = [node.data for node in nodes if _is_searched(node)]
            names = frozenset(name for node in nodes if not _is_searched(node) for name in node.attrs)
            found = self._known[op] = b"".join(filter(None, unread)), names
        return found


def _is_searched(node: gs.Node) -> bool:
    return isinstance(node, Node) and node.is_unread and len(node.data or b"") <= LARGEST_SEARCHED


@record(frozen=True, slots=True)
class Inventory:
    """The contents of a model.

    Attributes:
        ops: operators by (domain, name).
        dtypes: element types that its tensors can have; None if they cannot be determined.
        attributes: of its nodes.
        made_attributes: names of attributes that rules may add.
        moves_attributes: whether rules may give the attributes of one node to another one.
    """

    ops: frozenset[OpKey]
    dtypes: frozenset[int] | None
    attributes: WrittenAttributes
    made_attributes: frozenset[str] = frozenset()
    moves_attributes: bool = False


def take_inventory(index: GraphIndex) -> Inventory:
    """The operators, and every element type that is declared somewhere or that an operator makes by itself."""
    versions: dict[str, int] = {}
    for scope in index.scopes:
        for domain, version in scope.opsets.items():
            versions[domain] = max(version, versions.get(domain, 1))
    return Inventory(frozenset(index.by_operator.keys), _dtypes(index, versions), WrittenAttributes(index.by_operator))


def _dtypes(index: GraphIndex, versions: Mapping[str, int]) -> frozenset[int] | None:
    functions = {(f.domain, f.name) for f in index.graph.functions}
    found: set[int] = set()
    for domain, op in index.by_operator.keys - functions:
        if op in _TYPED_BY_ATTRIBUTE and not domain:
            continue
        output_dtypes = _made_types(op, domain, versions.get(domain, latest_opset(domain)))
        if output_dtypes is None:
            return None
        found |= output_dtypes
    for key in index.by_operator.keys:
        for node in index.by_operator.of(key) if key[1] in _TYPED_BY_ATTRIBUTE else ():
            dtype = _attribute_type(node)
            if dtype is None:
                return None
            found.add(dtype)
    for scope in index.scopes:
        if isinstance(scope.graph, Graph | Function):
            found.update(info.type.tensor_type.elem_type for info in scope.graph.origin.proto.value_info)
    found.update(elem_type(tensor) or 0 for tensor in _declared(index))
    return frozenset(found - {0})


def _declared(index: GraphIndex) -> Iterator[gs.Tensor]:
    """Tensors that may declare an element type: inputs, outputs and constants of all scopes, and tensors of value_info that
    are not plain tensors, or whose type has changed since.
    """
    yield from index.by_operator.constants(index.novelty)
    for scope in index.scopes:
        yield from scope.graph.inputs
        yield from scope.graph.outputs
        if isinstance(scope.graph, Graph | Function):
            origin = scope.graph.origin
            for tensor, info in zip(origin.infos, origin.proto.value_info, strict=True):
                if tensor is not None and (
                    (isinstance(tensor, Variable) and tensor.typed) or not info.type.HasField("tensor_type")
                ):
                    yield tensor
        else:
            yield from (tensor for node in index.nodes_of(scope) for tensor in node.outputs)


@cache
def _made_types(op: str, domain: str, version: int) -> frozenset[int] | None:
    """Element types that an operator's outputs may have for any inputs; None for an operator without a schema."""
    found = schema(op, domain, version)
    if found is None:
        return None
    own = [found.types[kind] for kind in {one.kind for one in found.outputs} - {one.kind for one in found.inputs}]
    inside = (DTYPES.get(name.rpartition("tensor(")[2].rstrip(")"), 0) for _, others in own for name in others)
    return frozenset(inside).union(*(dtypes_of(bits) for bits, _ in own))


def _attribute_type(node: gs.Node) -> int | None:
    """The element type that a node's attribute chooses; None if it cannot be determined."""
    if node.op == "Constant":
        return _constant_type(node.attrs)
    value = node.attrs.get(traits(node.op).dtype)
    if isinstance(value, int):
        return value
    if isinstance(value, gs.Tensor):
        return elem_type(value)
    return DTYPES["float"] if node.op in FLOAT_WITHOUT and value is None else None


def _constant_type(attributes: Mapping[str, Any]) -> int | None:
    for name, value in attributes.items():
        if name == "value" and isinstance(value, gs.Tensor):
            return elem_type(value)
        for kind, dtype in (("float", "float"), ("int", "int64"), ("string", "string")):
            if name in (f"value_{kind}", f"value_{kind}s"):
                return DTYPES[dtype]
    return None


def needed_dtypes(rule: ast.Rule) -> list[DtypeNeeds]:
    """The element types that a model must have for the rule to fire anywhere, by condition."""
    found: list[DtypeNeeds] = []
    for part in walk(rule.match):
        if isinstance(part, ast.TypePattern) and part.dtype is not None:
            found.append(((frozenset({DTYPES[part.dtype]}),),))
    names = TermNames("", lets={let.name: let.value for let in rule.lets})
    runs = frozenset(_filled_runs(rule.match))
    for where in rule.wheres:
        found += _of_branches(claims_of(names.term(where.condition)), runs)
    return found


def _filled_runs(match: ast.Match) -> Iterator[str]:
    """Names of runs that have an operand at least: all operands of an operator that needs one in each of its versions."""
    for node in pattern_nodes(match):
        run = node.inputs[0] if len(node.inputs) == 1 and not node.more_inputs else None
        versions = [version for op in node.ops for version in history(op.name, op.domain) or (None,)]
        if isinstance(run, ast.Variadic) and run.name and all(one is not None and one.min_inputs for one in versions):
            yield run.name


def _of_branches(branches: list[Branch], runs: frozenset[str]) -> list[DtypeNeeds]:
    """The needs of a condition; none if one of its alternatives has none. `runs`: names of lists that are not empty."""
    each = tuple(tuple(types for claim in branch for types in _types(claim, runs)) for branch in branches)
    return [each] if all(each) else []


def _types(claim: Claim, runs: frozenset[str]) -> list[frozenset[int]]:
    """The element types that `dtype(x) == t`, `dtype(x) in [t, u]`, `is_declared(x, t)`, or one of these of any item, leaves;
    none for all else.
    """
    if claim.maybe:
        return []
    head = claim.term[0] if isinstance(claim.term, tuple) else ""
    if claim.domain == TRUE and (head == "any in" or (head == "all in" and name_of(claim.term[1]) in runs)):
        each = _of_branches(claims_of(claim.term[2]), runs)
        return [frozenset().union(*(min(types, key=len) for types in need)) for need in each]
    if head == "is_declared" and claim.domain == TRUE:
        return _elements(claim.term[2:])
    found = normal(claim)
    if isinstance(found, bool) or found.domain.only is None or not isinstance(found.term, tuple):
        return []
    return _elements(found.domain.only) if found.term[0] in ("dtype", "declared_dtype") else []


def _elements(values: Collection[Term]) -> list[frozenset[int]]:
    """The set of these element types; none if one of the values is something else."""
    names = [value[1] for value in values if isinstance(value, tuple) and value[0] == "element"]
    return [frozenset(map(DTYPES.__getitem__, names))] if len(names) == len(values) else []


@record(frozen=True, slots=True)
class Needs:
    """The needs of one rule, and what it may add to a model.

    Attributes:
        ops: of each set, the model must have an operator.
        attributes: attributes that a node of one of the operators must have.
        dtypes: by condition.
        made_ops, made_attributes, made_dtypes: what its rewrites may add; None for element types that are not known.
        moves_attributes: whether a node may get the attributes of another one, or another operator.
    """

    ops: tuple[frozenset[OpKey], ...]
    attributes: tuple[tuple[frozenset[OpKey], str], ...]
    dtypes: tuple[DtypeNeeds, ...]
    made_ops: frozenset[OpKey]
    made_attributes: frozenset[str]
    made_dtypes: frozenset[int] | None
    moves_attributes: bool

    def are_fulfilled_in(self, inventory: Inventory) -> bool:
        if any(map(inventory.ops.isdisjoint, self.ops)):
            return False
        known = inventory.dtypes
        if known is not None and not all(
            any(not any(map(known.isdisjoint, alternative)) for alternative in need) for need in self.dtypes
        ):
            return False
        made, written, free = inventory.made_attributes, inventory.attributes, inventory.moves_attributes
        return all(name in made or written.has(ANY_OPERATOR if free else ops, name) for ops, name in self.attributes)

    def added(self, inventory: Inventory) -> Inventory:
        """The inventory of a model in which the rule has fired; the same one if it adds nothing."""
        ops, dtypes = inventory.ops | self.made_ops, inventory.dtypes
        attributes = inventory.made_attributes | self.made_attributes
        if dtypes is not None:
            dtypes = None if self.made_dtypes is None else dtypes | self.made_dtypes
        moves = inventory.moves_attributes or self.moves_attributes
        grown = Inventory(ops, dtypes, inventory.attributes, attributes, moves)
        return inventory if grown == inventory else grown


def needs(rule: ast.Rule, pattern: Pattern | None, parameter_values: Mapping[str, Any]) -> Needs:
    """The needs and products of a compiled rule. `parameter_values` are the values of its parameters."""
    ops: set[OpKey] = set()
    dtypes: set[int] | None = set()
    attributes: set[str] = set()
    moves_attributes = False
    lets = {let.name: let.value for let in rule.lets}
    for part in walk(rule.rewrites):
        new_dtypes: frozenset[int] | None = frozenset()
        if isinstance(part, ast.Build):
            domain, op = operator_names(part.op, parameter_values)
            ops.add((domain, op))
            attributes.update(item.name for item in part.attrs if isinstance(item, ast.AttrSet))
            moves_attributes = moves_attributes or any(isinstance(item, ast.AttrCopy) for item in part.attrs)
            new_dtypes = _built_types(op, domain, part, lets)
        elif isinstance(part, ast.Constant):
            new_dtypes = frozenset({DTYPES[part.dtype]} if part.dtype else _PLAIN)
        elif isinstance(part, ast.Edit):
            attributes.add(part.place.field or "")
            moves_attributes = moves_attributes or part.place.field == "op"
            new_dtypes = _edited(part, ops, lets)
        dtypes = None if dtypes is None or new_dtypes is None else dtypes | new_dtypes
    nodes = () if pattern is None else pattern.nodes
    return Needs(
        tuple(node.ops for node in nodes if node.ops is not ANY_OPERATOR),
        tuple((node.ops, attr.name) for node in nodes for attr in node.source.attrs if _has_to_be_written(attr, node.ops)),
        tuple(needed_dtypes(rule)),
        frozenset(ops),
        frozenset(attributes),
        None if dtypes is None else frozenset(dtypes),
        moves_attributes,
    )


def _has_to_be_written(attr: ast.AttrPattern, ops: frozenset[OpKey]) -> bool:
    """Whether a node of these operators matches only if it has the attribute: no version has a default for it."""
    if attr.mode == "equals":
        return ops is not ANY_OPERATOR and not any(has_default(op, domain, attr.name) for domain, op in ops)
    return attr.mode == "present"


def _built_types(op: str, domain: str, build: ast.Build, lets: Mapping[str, ast.Expr]) -> frozenset[int] | None:
    """Element types that a new node may introduce."""
    if op not in _TYPED_BY_ATTRIBUTE or domain:
        return _made_types(op, domain, latest_opset(domain))
    values = [item.value for item in build.attrs if isinstance(item, ast.AttrSet) and item.name == traits(op).dtype]
    return _named_type(values[0], lets) if len(values) == 1 and len(build.attrs) == 1 else None


def _named_type(value: Any, lets: Mapping[str, ast.Expr]) -> frozenset[int] | None:
    """The type of `to=float`; an empty set for the type of a tensor; None for a type that is only known while rewriting."""
    if isinstance(value, ast.Name):
        return frozenset({DTYPES[value.id]}) if value.id in DTYPES else _named_type(lets.get(value.id), {})
    if isinstance(value, ast.Literal) and isinstance(value.value, int):
        return frozenset({value.value})
    return frozenset() if isinstance(value, ast.Call) and value.function in ("dtype", "declared_dtype") else None


def _edited(edit: ast.Edit, ops: set[OpKey], lets: Mapping[str, ast.Expr]) -> frozenset[int] | None:
    """Notes the operator that `n.op = "..."` makes; the element types that an edit may introduce."""
    if edit.place.field == "op":
        if not isinstance(edit.value, ast.Literal):
            return None
        domain, _, op = str(edit.value.value).replace("::", ".").rpartition(".")
        ops.add((domain, op))
        return _made_types(op, domain, latest_opset(domain))
    return _named_type(edit.value, lets) if edit.place.field in ("to", "dtype") else frozenset()
