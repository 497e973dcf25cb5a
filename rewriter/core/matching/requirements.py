"""The operators and element types that a model must have for a rule to fire. A rule whose needs are not met is not tried
anywhere.

Most rules of a large set are about operators or element types that a model does not have. Checking this once for the model
costs much less than checking it at each node. `rewriter.core.matching` lists the questions before and after this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Function, Graph
from rewriter.core.graph.values import Variable, elem_type
from rewriter.core.language import ast
from rewriter.core.language.claims import TRUE, Branch, Claim, TermNames, claims_of, normal
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.operator_traits import FLOAT_WITHOUT, TYPED, of_type, traits
from rewriter.core.language.pattern import ANY_OPERATOR, Pattern, operator_names
from rewriter.core.language.schema import latest_opset, registered_at
from rewriter.core.language.walk import walk
from rewriter.core.record import record

OpKey = tuple[str, str]

_PLAIN = {DTYPES[name] for name in ("float", "int64", "bool", "string")}  # the possible types of an untyped number or text
_TYPED_BY_ATTRIBUTE = of_type("value", *TYPED) | {"Constant"}


@record(frozen=True, slots=True)
class Inventory:
    """The contents of a model.

    Attributes:
        ops: operators by (domain, name).
        dtypes: element types that its tensors can have; None if they cannot be determined.
    """

    ops: frozenset[OpKey]
    dtypes: frozenset[int] | None


def take_inventory(index: GraphIndex) -> Inventory:
    """The operators, and every element type that is declared somewhere or that an operator makes by itself."""
    versions: dict[str, int] = {}
    for scope in index.scopes:
        for domain, version in scope.opsets.items():
            versions[domain] = max(version, versions.get(domain, 1))
    return Inventory(frozenset(index.by_operator.keys), _dtypes(index, versions))


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
    found = registered_at(op, domain, version)
    if found is None:
        return None
    input_types = {formal.type_str for formal in found.inputs}
    own = {formal.type_str for formal in found.outputs} - input_types
    if not own:
        return frozenset()  # as mostly; asking a schema for its constraints takes long
    allowed = {one.type_param_str: one.allowed_type_strs for one in found.type_constraints if one.type_param_str in own}
    texts = (text for kind in own for text in allowed.get(kind, [kind]))
    return frozenset(DTYPES.get(text.rpartition("tensor(")[2].rstrip(")"), 0) for text in texts)


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


def needed_dtypes(rule: ast.Rule) -> list[frozenset[int]]:
    """Sets of element types. The model must have a type of each set for the rule to fire anywhere."""
    found: list[frozenset[int]] = []
    for part in walk(rule.match):
        if isinstance(part, ast.TypePattern) and part.dtype is not None:
            found.append(frozenset({DTYPES[part.dtype]}))
    names = TermNames("", lets={let.name: let.value for let in rule.lets})
    for where in rule.wheres:
        found += _of_branches(claims_of(names.term(where.condition)))
    return found


def _of_branches(branches: list[Branch]) -> list[frozenset[int]]:
    """Sets of element types. One type of each set is needed in every alternative."""
    each = [[types for claim in branch if (types := _types(claim))] for branch in branches]
    if len(each) == 1:
        return each[0]
    return [frozenset().union(*[min(types, key=len) for types in each])] if all(each) else []


def _types(claim: Claim) -> frozenset[int] | None:
    """The element types that `dtype(x) == t`, `dtype(x) in [t, u]`, or one of these of any item, leaves; None for all else."""
    if claim.maybe:
        return None
    if isinstance(claim.term, tuple) and claim.term[0] == "any in" and claim.domain == TRUE:
        return min(_of_branches(claims_of(claim.term[2])), key=len, default=None)
    found = normal(claim)
    if isinstance(found, bool) or found.domain.only is None or not isinstance(found.term, tuple) or found.term[0] != "dtype":
        return None
    elements = [value for value in found.domain.only if isinstance(value, tuple) and value[0] == "element"]
    return frozenset(DTYPES[name] for _, name in elements) if len(elements) == len(found.domain.only) else None


@record(frozen=True, slots=True)
class Needs:
    """The needs of one rule, and the operators and element types that it may add to a model."""

    ops: tuple[frozenset[OpKey], ...]
    dtypes: tuple[frozenset[int], ...]
    made_ops: frozenset[OpKey]
    made_dtypes: frozenset[int] | None

    def are_fulfilled_in(self, inventory: Inventory) -> bool:
        if any(map(inventory.ops.isdisjoint, self.ops)):
            return False
        return inventory.dtypes is None or all(types & inventory.dtypes for types in self.dtypes)

    def added(self, inventory: Inventory) -> Inventory:
        """The inventory of a model in which the rule has fired; the same one if it adds nothing."""
        ops, dtypes = inventory.ops | self.made_ops, inventory.dtypes
        if dtypes is not None:
            dtypes = None if self.made_dtypes is None else dtypes | self.made_dtypes
        return inventory if (ops, dtypes) == (inventory.ops, inventory.dtypes) else Inventory(ops, dtypes)


def needs(rule: ast.Rule, pattern: Pattern | None, parameter_values: Mapping[str, Any]) -> Needs:
    """The needs and products of a compiled rule. `parameter_values` are the values of its parameters."""
    ops: set[OpKey] = set()
    dtypes: set[int] | None = set()
    lets = {let.name: let.value for let in rule.lets}
    for part in walk(rule.rewrites):
        new_dtypes: frozenset[int] | None = frozenset()
        if isinstance(part, ast.Build):
            domain, op = operator_names(part.op, parameter_values)
            ops.add((domain, op))
            new_dtypes = _built_types(op, domain, part, lets)
        elif isinstance(part, ast.Constant):
            new_dtypes = frozenset({DTYPES[part.dtype]} if part.dtype else _PLAIN)
        elif isinstance(part, ast.Edit):
            new_dtypes = _edited(part, ops, lets)
        dtypes = None if dtypes is None or new_dtypes is None else dtypes | new_dtypes
    wanted = () if pattern is None else tuple(node.ops for node in pattern.nodes if node.ops is not ANY_OPERATOR)
    return Needs(
        wanted,
        tuple(needed_dtypes(rule)),
        frozenset(ops),
        None if dtypes is None else frozenset(dtypes),
    )


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
