"""A model as far as its census describes it, for evaluating rule conditions before any graph is built.

The forecast asks it which rules can fire: values of which little is known, faults that a census rules out, and the element
types and ranks that operands of a kind of node can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rewriter.core.language import ast, schema
from rewriter.core.language.cache.operator_table import ANY, Table, begun, union
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.operator_traits import OLD_KERNELS, SETTLED
from rewriter.core.onnxfile.census import OPAQUE, Body, Census, NodeKind
from rewriter.core.record import record

# Values of expressions of which little is known, without numpy: what a forecast reckons with.
#
# Numbers, texts and lists are themselves, tuples are arrays.

UNDECIDED = object()
"""What the census does not tell. The engine may know it, so that `maybe(UNKNOWN)` is unknown here, too."""

NOT_WRITTEN = object()
"""An attribute that is not written and has no default."""


@record(frozen=True, slots=True)
class TypeSet:
    """One of these element types, as bits."""

    bits: int


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_STEPS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
}  # fmt: skip
_INT64, _LARGEST = 7, 2**63


def partial_truth(value: Any) -> Any:
    """True, False or UNKNOWN."""
    return bool(value) if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)) else UNDECIDED


def of_types(bits: int, wanted: int, *, positive: bool) -> Any:
    """Whether one of these types is among the wanted ones, or, not `positive`, is none of them."""
    if bits == ANY:
        return UNDECIDED
    if not bits & wanted:
        return not positive
    return positive if bits.bit_count() == 1 else UNDECIDED


def compared(op: str, left: Any, right: Any) -> Any:
    if any(isinstance(side, TypeSet | str) or side is NOT_WRITTEN for side in (left, right)) or (
        type(left) is type(right) is list
    ):
        equal = same(left, right) if op in ("==", "!=") else UNDECIDED
        return equal if equal is UNDECIDED or op == "==" else not equal
    try:
        return each(left, right, _ORDERS[op])
    except (ArithmeticError, TypeError, ValueError):
        return UNDECIDED


def contained(item: Any, items: Any, *, positive: bool) -> Any:
    """Whether an item is in a list, or, not `positive`, is not."""
    if item is UNDECIDED or not isinstance(items, list):
        return UNDECIDED
    answers = [same(item, element) for element in items]
    return positive if True in answers else UNDECIDED if UNDECIDED in answers else not positive


def partial_arithmetic(op: str, left: Any, right: Any) -> Any:
    """Whole numbers, and arrays of them; nothing else is asked for often enough."""
    step = _STEPS.get(op)
    if step is None or list in (type(left), type(right)):
        return UNDECIDED
    try:
        return _bounded(each(left, right, step))
    except (ArithmeticError, TypeError, ValueError):
        return UNDECIDED


def _bounded(value: Any) -> Any:
    """UNKNOWN where the engine objects: its integers have 64 bits."""
    if isinstance(value, tuple):
        return UNDECIDED if any(_bounded(item) is UNDECIDED for item in value) else value
    return UNDECIDED if isinstance(value, int) and not -_LARGEST <= value < _LARGEST else value


def element(base: Any, at: Any, stop: Any = None) -> Any:
    """`base[at]`, or `base[at..stop]`, where there is such an element."""
    if not isinstance(base, list | tuple | str) or not isinstance(at, int):
        return UNDECIDED
    try:
        if stop is None:
            return base[at]
        return base[at : None if stop == -1 else stop + 1] if isinstance(stop, int) else UNDECIDED
    except LookupError:
        return UNDECIDED


def decided(found: Any, *, decisive: bool) -> Any:
    """`any` of them, or `all` of them."""
    if isinstance(found, bool):
        return found
    if not isinstance(found, list | tuple) or not all(isinstance(item, bool | int) for item in found):
        return UNDECIDED
    return any(found) if decisive else all(found)


def partial_cast(found: Any, wanted: Any) -> Any:
    """Whole numbers stay what they are as int64."""
    if wanted != TypeSet(1 << _INT64):
        return UNDECIDED
    whole = isinstance(found, list | tuple) and all(isinstance(item, int) for item in found)
    return tuple(found) if whole else found if isinstance(found, int) else UNDECIDED


def each(left: Any, right: Any, step: Callable[[Any, Any], Any]) -> Any:
    """A step between numbers, or item by item where a list or array meets a number or an array another of its length."""
    if left is UNDECIDED or right is UNDECIDED:
        return UNDECIDED
    sides = [side for side in (left, right) if isinstance(side, list | tuple)]
    if len(sides) == 2:
        if len(left) != len(right) or list in (type(left), type(right)):
            return UNDECIDED
        pairs = zip(left, right, strict=True)
        return tuple([each(one, other, step) for one, other in pairs])
    if sides:
        return type(sides[0])([each(item, right, step) if left is sides[0] else each(left, item, step) for item in sides[0]])
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return step(left, right) if numbers else UNDECIDED


def same(one: Any, other: Any) -> Any:
    """Whether two values are equal; lists and tuples are both lists in attributes."""
    if one is UNDECIDED or other is UNDECIDED:
        return UNDECIDED
    if one is NOT_WRITTEN or other is NOT_WRITTEN:
        return one is other
    if isinstance(one, TypeSet) is not isinstance(other, TypeSet):
        one, other = _as_types(one), _as_types(other)  # an attribute may hold an element type, as `to` of Cast
    if isinstance(one, TypeSet) and isinstance(other, TypeSet):
        if not one.bits & other.bits:
            return False
        return True if one.bits == other.bits and one.bits.bit_count() == 1 and one.bits > 0 else UNDECIDED
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        answers = [same(a, b) for a, b in zip(one, other, strict=True)]
        return False if False in answers else UNDECIDED if UNDECIDED in answers else True
    plain = (bool, int, float, str)
    return one == other if isinstance(one, plain) and isinstance(other, plain) else UNDECIDED


def _as_types(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return TypeSet(1 << value if 0 <= value < 64 else 0)


# Faults of a model as a whole that a census can rule out; the names are those of `core/language/functions.py`.
#
# Each answer is "surely none" or "maybe": where a name occurs in several bodies, the ordinary way has to look who sees whom.

LATE = 16
"""The first element type that operators were given later than the others: bfloat16."""


def no_repeated_nodes(census: Census, table: Table) -> bool:
    """No two nodes of one graph have one name."""
    return all(body.distinct or _are_distinct(body) for body in census.bodies)


def no_repeated_tensors(census: Census, table: Table) -> bool:
    """No name is defined twice, be it in different graphs."""
    return all(_settled(root) or not _repeats(root) for root in _roots(census))


def no_unsorted_nodes(census: Census, table: Table) -> bool:
    """No node reads what is defined further on; asked of names only, so that repeated ones make it doubtful."""
    return all(_settled(root) or (not _repeats(root) and _is_sorted(root)) for root in _roots(census))


def no_missing_imports(census: Census, table: Table) -> bool:
    """Every operator's domain is imported."""
    main = census.imports or {"": 1}
    domains = {kind.domain for kind in census.kinds}
    if domains <= main.keys() and not any(body.imports for body in census.functions.values()):
        return True
    if not all(_imported(census.graph, main)):
        return False
    return all(imported for body in census.functions.values() for imported in _imported(body, body.imports or main))


def no_early_nodes(census: Census, table: Table) -> bool:
    """The opset has every operator of ONNX's own that it will ever have, and no element type stands there that came later."""
    version = (census.imports or {"": 1}).get("")
    if version is None:
        return True
    if census.latest_type >= LATE:
        return False
    for kind in census.kinds:
        to = kind.attrs.get("to")
        if to is not None and (to is OPAQUE or (isinstance(to, int) and to >= LATE)):
            return False
        if not kind.domain and kind.op in table and not begun(table[kind.op], version):
            return False
    return True


def no_old_nodes(census: Census, table: Table) -> bool:
    """The opset is none of the old ones, or ONNX Runtime has its form of every operator."""
    version = (census.imports or {"": 1}).get("", SETTLED)
    return version >= SETTLED or not any(_may_lack_kernel(kind, version, table) for kind in census.kinds if not kind.domain)


def _may_lack_kernel(kind: NodeKind, version: int, table: Table) -> bool:
    if kind.op not in table or kind.op in OLD_KERNELS:
        return False
    sinces = [since for since, _ in table[kind.op][4] if since <= SETTLED]
    return max((since for since in sinces if since <= version), default=SETTLED) < max(sinces, default=0)


def no_lost_opset(census: Census, table: Table) -> bool:
    """The model imports something."""
    return bool(census.imports)


def no_branch_inputs(census: Census, table: Table) -> bool:
    """No node is an If whose branch has inputs."""
    return not any(kind.op == "If" and any(inner.inputs for inner in kind.bodies.values()) for kind in census.kinds)


FAULT_IS_RULED_OUT: Mapping[str, Callable[[Census, Table], bool]] = {
    "repeated_nodes": no_repeated_nodes,
    "repeated_tensors": no_repeated_tensors,
    "unsorted_nodes": no_unsorted_nodes,
    "missing_imports": no_missing_imports,
    "early_nodes": no_early_nodes,
    "branch_inputs": no_branch_inputs,
    "old_nodes": no_old_nodes,
    "lost_opset": no_lost_opset,
}
"""By the name of a fault: whether there surely is none. Of faults that are missing here nothing is known."""


def _roots(census: Census) -> list[Body]:
    return [census.graph, *census.functions.values()]


def _bodies(root: Body) -> Iterator[Body]:
    waiting = [root]
    while waiting:
        body = waiting.pop()
        yield body
        waiting.extend(body.inner)


def _are_distinct(body: Body) -> bool:
    return body.columns is None and len(set(body.names)) == len(body.names)


def _settled(root: Body) -> bool:
    """Whether each name of a graph without bodies is known to be defined once, before it is read."""
    constants, inputs = ({name for name, _ in part if name} for part in (root.constants, root.inputs))
    if root.inner or len(constants) < len(root.constants) or len(inputs) < len(root.inputs):
        return False
    if not root.orderly and root.columns is None:
        root.orderly = _is_orderly(root, {b"", *constants, *inputs})
    return root.orderly


def _is_orderly(root: Body, defined: set[bytes]) -> bool:
    for _, inputs, outputs in root.listed:
        if not defined.issuperset(inputs):
            return False
        for name in outputs:
            if name in defined and name:
                return False
            defined.add(name)
    return True


def _repeats(root: Body) -> bool:
    seen: set[bytes] = set()
    count = 0
    for body in _bodies(root):
        constants = [name for name, _ in body.constants if name]
        inputs = [name for name, _ in body.inputs if name]
        if len(set(constants)) < len(constants) or len(set(inputs)) < len(inputs):
            return True
        if body.orderly and root is body:
            continue
        names = [name for _, _, outputs in body.nodes for name in outputs if name]
        names += {*constants, *inputs}
        seen.update(names)
        count += len(names)
    return len(seen) < count


def _is_sorted(root: Body) -> bool:
    if root.orderly:
        return True
    defined: set[bytes] = {b""}
    early: set[bytes] = set()
    _read(root, defined, early)
    return not early & defined


def _read(body: Body, defined: set[bytes], early: set[bytes]) -> None:
    """Goes through the nodes in their order; `early` are names that were read before they were defined."""
    defined.update(name for name, _ in body.constants)
    defined.update(name for name, _ in body.inputs)
    for kind, inputs, outputs in body.nodes:
        if not defined.issuperset(inputs):
            early.update(name for name in inputs if name not in defined)
        for inner in kind.bodies.values():
            _read(inner, defined, early)
        defined.update(outputs)
    early.update(name for name, _ in body.outputs if name not in defined)


def _imported(root: Body, imports: Mapping[str, int]) -> Iterator[bool]:
    for body in _bodies(root):
        for domain in {kind.domain for kind in body.kinds}:
            yield domain in imports


# The model that a forecast puts its questions to, and the single cases of them, with what was found before.

_DEFAULTS_PER_AXIS = {"pads": (0, 2), "strides": (1, 1), "dilations": (1, 1)}
"""Defaults that depend on the number of spatial axes: the item, and how many an axis."""


MAX_ANSWERS_PER_CACHE = 1 << 16
MAX_CACHES = 64
AnswerCache = dict[tuple[Any, ...], bool]
_caches: dict[tuple[object, ...], tuple[Table, AnswerCache]] = {}


class CensusModel:
    """A model as its census describes it.

    Attributes:
        answers: results of conditions that depend on the form of a kind alone; shared with other models of these versions.
    """

    def __init__(self, census: Census, table: Table) -> None:
        self.census = census
        self.table = table
        self.kinds_by_operator: dict[tuple[str, str], list[NodeKind]] = {}
        for kind in census.kinds:
            self.kinds_by_operator.setdefault((kind.domain, kind.op), []).append(kind)
        self.versions = census.versions
        self.answers = self._shared_answers()
        self._attribute_values: dict[tuple[NodeKind, str], Any] = {}
        self._fault_lists: dict[str, Any] = {}

    def _shared_answers(self) -> AnswerCache:
        key = id(self.table), self.census.ir_version, frozenset(self.versions), bool(self.census.functions)
        found = _caches.get(key)
        if found is None:
            if len(_caches) >= MAX_CACHES:
                _caches.clear()
            found = _caches[key] = self.table, {}  # with the table, so that no other one gets its id()
        elif len(found[1]) >= MAX_ANSWERS_PER_CACHE:
            found[1].clear()
        return found[1]

    def effective_attribute(self, kind: NodeKind, name: str) -> Any:
        """The value that an attribute has on nodes of this kind, explicitly or by default; `UNDECIDED` if that is unknown."""
        found = self._attribute_values.get((kind, name))
        if found is None:
            found = self._attribute_values[kind, name] = self._compute_attribute(kind, name)
        return found

    def _compute_attribute(self, kind: NodeKind, name: str) -> Any:
        found = kind.attrs.get(name)
        if found is not None:
            return UNDECIDED if found is OPAQUE else found
        entry = None if kind.domain else self.table.get(kind.op)
        if entry is None:
            return UNDECIDED
        defaults = [_default_in_opset(entry[0].get(name, ()), version) for version in self.versions]
        if not defaults or any(default != defaults[0] for default in defaults):
            return UNDECIDED
        if defaults[0] is not None:
            return defaults[0]
        if name not in schema.COMPUTED_FROM_OPERANDS or schema.computed_default(kind.op, "", name) is None:
            return NOT_WRITTEN
        item, times = _DEFAULTS_PER_AXIS.get(name, (0, 0))
        axes = kind.attrs.get("kernel_shape")
        padded = kind.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", "")
        return UNDECIDED if not times or not isinstance(axes, list) or (padded and not item) else [item] * (len(axes) * times)

    def model_field(self, name: str) -> Any:
        """The value of `model.NAME` in a condition: the ir_version, or the list of one of the model's faults.

        The list is empty if the census rules the fault out, otherwise `UNDECIDED`.
        """
        if name == "ir_version":
            return self.census.ir_version or UNDECIDED
        if name not in self._fault_lists:
            self._fault_lists[name] = [] if FAULT_IS_RULED_OUT[name](self.census, self.table) else UNDECIDED
        return self._fault_lists[name]


class NodeCase:
    """One case in which a condition is evaluated: a kind of node, with possible types and ranks of its operands."""

    __slots__ = ("kind", "let_values", "model", "operand_ranks", "operand_types")

    def __init__(
        self,
        model: CensusModel,
        kind: NodeKind | None,
        operand_types: tuple[int, ...] | None = None,
        operand_ranks: tuple[int | None, ...] | None = None,
    ) -> None:
        self.model = model
        self.kind: Any = kind
        self.operand_types = operand_types
        self.operand_ranks = operand_ranks
        self.let_values: dict[str, Any] = {}


def _default_in_opset(values: Iterable[tuple[int, Any]], version: int) -> Any:
    """The default of an attribute in an opset; None if it has none."""
    found = None
    for since, value in values:
        if since <= version:
            found = value
    return found


Known = Callable[[NodeCase], Any]
"""The value of an expression in one case: that of the language where it is known (numbers, texts, lists; tuples for arrays),
`TypeSet` for an element type, UNKNOWN also where the engine would object.
"""


class TypeCompiler:
    """Knows where the names of a pattern stand at the node in question, and makes questions about types and ranks of them.

    Attributes:
        asks_types, asks_ranks: whether a condition needs them.
        bound: values of labels and of attributes that the pattern binds.
        outputs: positions of outputs.
        operands: positions of operands; None for anywhere.
        runs: names that stand for any number of operands, with how many stand before and behind them; None for unknown.
        free: whether operands stand in any order.
        each: what an `any` or `all` goes through, with the position at which it is.
        lets: expressions that have a name.
    """

    def __init__(self, lets: Mapping[str, ast.Expr]) -> None:
        self.asks_types = self.asks_ranks = False
        self.bound: dict[str, Known] = {}
        self.operands: dict[str, list[int] | None] = {}
        self.outputs: dict[str, int] = {}
        self.runs: dict[str, tuple[int, int] | None] = {}
        self.free = False
        self.each: dict[str, list[int]] = {}
        self.lets = lets

    def operand(self, name: str, position: int | None) -> None:
        """Notes that a name of the pattern stands for the operand at a position, negative from the end; with None, at any."""
        places = self.operands.setdefault(name, [])
        if position is None or places is None:
            self.operands[name] = None
        else:
            places.append(position)

    def types(self, expr: ast.Expr) -> Callable[[NodeCase], int] | None:
        """For `dtype(x)`: the set of types that x may have, as bits."""
        tensor = expr.args[0] if isinstance(expr, ast.Call) and expr.function == "dtype" else None
        return self.types_of(tensor) if isinstance(tensor, ast.Name) else None

    def types_of(self, tensor: ast.Name) -> Callable[[NodeCase], int] | None:
        at, place, operand = self.each.get(tensor.id), self.outputs.get(tensor.id), self.operands.get(tensor.id)
        if at is None and place is None and operand is None:
            return None
        self.asks_types = True
        if at is not None:
            return lambda case: (ANY if case.operand_types is None else case.operand_types[at[0]]) or ANY
        if place is not None:

            def output_type(case: NodeCase) -> int:
                found = () if case.operand_types is None else case.kind.output_types[case.operand_types]
                return found[place] if place < len(found) else ANY

            return output_type
        assert operand is not None
        positions, free = tuple(operand), self.free

        def read(case: NodeCase) -> int:
            bits, types = ANY, case.operand_types
            if types is not None:
                for position in positions:
                    one = union(types) if free else types[position] if _within(position, types) else ANY
                    bits &= one or ANY
            return bits

        return read

    def named_types(self, expr: ast.Compare) -> int:
        """The types that `== float` or `in [float, double]` names, as bits; 0 for anything else."""
        several = isinstance(expr.right, ast.ListOf)
        items = expr.right.items if isinstance(expr.right, ast.ListOf) else (expr.right,)
        if expr.op not in (("in", "not in") if several else ("==", "!=")):
            return 0
        taken = {*self.bound, *self.lets, *self.operands}
        names = [item.id for item in items if isinstance(item, ast.Name) and item.id in DTYPES and item.id not in taken]
        return union(1 << DTYPES[name] for name in names) if len(names) == len(items) else 0

    def dtype(self, tensor: ast.Expr) -> Known | None:
        types = self.types_of(tensor) if isinstance(tensor, ast.Name) else None

        def value(case: NodeCase) -> Any:
            assert types is not None
            bits = types(case)
            return UNDECIDED if bits == ANY else TypeSet(bits)

        return None if types is None else value

    def rank(self, tensor: ast.Expr) -> Known | None:
        name = tensor.id if isinstance(tensor, ast.Name) else ""
        place, operand = self.outputs.get(name), self.operands.get(name)
        if place == 0:
            self.asks_ranks = True
            return lambda case: UNDECIDED if case.operand_ranks is None else _number(case.kind.ranks[case.operand_ranks])
        if operand is None or place is not None or self.free:
            return None
        self.asks_ranks = True
        at = operand[0]
        return lambda case: (
            UNDECIDED if not case.operand_ranks or not _within(at, case.operand_ranks) else _number(case.operand_ranks[at])
        )


def _within(position: int, operands: Sequence[int | None]) -> bool:
    return -len(operands) <= position < len(operands)


def _number(rank: int | None) -> Any:
    return UNDECIDED if rank is None or rank < 0 else rank
