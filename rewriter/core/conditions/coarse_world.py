"""A model as far as its census describes it: the world of conditions before any graph is built (see `evaluate`).

A node is known by its kind, a tensor by the set of element types and by the rank that it can have. If a condition needs types
or ranks that have not been followed yet, this is noted: only then is it worth the time to follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from rewriter.core.conditions.evaluate import BODIES, Bindings, Implementation, evaluate, holds, prepared
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, DType, Failure, OneOf, Stranger
from rewriter.core.language import ast, schema
from rewriter.core.language.functions import FUNCTIONS as DECLARED
from rewriter.core.language.operator_traits import BROADCAST_ALL, BROADCAST_LAST, OLD_KERNELS, SETTLED
from rewriter.core.language.schema import ANY, DTYPES, union
from rewriter.core.onnxfile.census import OPAQUE, VECTOR, Body, Census, NodeKind
from rewriter.core.record import field, record

# Faults of a whole model that a census can rule out, by their names in `language.functions`.
#
# Each answer is "surely none" or "maybe": if a name occurs in several bodies, only the search in the graph finds which of them
# see each other.

LATE = 16
"""The first element type that operators got later than the others: bfloat16."""


def no_repeated_nodes(census: Census) -> bool:
    """No two nodes of one graph have one name."""
    return all(body.distinct or _are_distinct(body) for body in census.bodies)


def no_repeated_tensors(census: Census) -> bool:
    """No name is defined twice, be it in different graphs."""
    return all(_settled(root) or not _repeats(root) for root in _roots(census))


def no_unsorted_nodes(census: Census) -> bool:
    """Whether no node reads a tensor that is defined later. Only names are compared, so repeated names make it doubtful."""
    return all(_settled(root) or (not _repeats(root) and _is_sorted(root)) for root in _roots(census))


def no_missing_imports(census: Census) -> bool:
    """Every operator's domain is imported."""
    main = census.imports or {"": 1}
    domains = {kind.domain for kind in census.kinds}
    if domains <= main.keys() and not any(body.imports for body in census.functions.values()):
        return True
    if not all(_imported(census.graph, main)):
        return False
    return all(imported for body in census.functions.values() for imported in _imported(body, body.imports or main))


def no_early_nodes(census: Census) -> bool:
    """Whether the opset already has all the model's operators of ONNX's own, and no element type of the model came later."""
    version = (census.imports or {"": 1}).get("")
    if version is None:
        return True
    if census.latest_type >= LATE:
        return False
    for kind in census.kinds:
        to = kind.attrs.get("to")
        if to is not None and (to is OPAQUE or (isinstance(to, int) and to >= LATE)):
            return False
        if not kind.domain and schema.history(kind.op) and schema.schema(kind.op, "", version) is None:
            return False
    return True


def no_early_forms(census: Census) -> bool:
    """Whether the opset has every operator with the attributes and the operands of the model's nodes."""
    version = (census.imports or {"": 1}).get("")
    if version is None:
        return True
    forms = {
        kind.op: form
        for kind in census.kinds
        if not kind.domain and (form := schema.schema(kind.op, "", version)) is not None and not form.deprecated
    }
    if not all(_has_form(kind, forms[kind.op]) for kind in census.kinds if not kind.domain and kind.op in forms):
        return False
    if version < BROADCAST_ALL and not BROADCAST_LAST.isdisjoint(forms):
        return False
    needed = {
        op: form.min_inputs
        for op, form in forms.items()
        if any(one.min_inputs < form.min_inputs for one in schema.history(op) if not one.deprecated)
    }
    nodes = (node for body in census.bodies for node in body.nodes) if needed else ()
    return all(kind.domain or kind.op not in needed or all(operands[: needed[kind.op]]) for kind, operands, _ in nodes)


def _has_form(kind: NodeKind, form: schema.Operator) -> bool:
    required = {name for name, attribute in form.attributes.items() if attribute.required}
    return required <= kind.attrs.keys() <= form.attributes.keys() and all(form.allows(used) for _, used in kind.arities)


def no_old_nodes(census: Census) -> bool:
    """The opset is none of the old ones, or ONNX Runtime has its form of every operator."""
    version = (census.imports or {"": 1}).get("", SETTLED)
    return version >= SETTLED or not any(_may_lack_kernel(kind, version) for kind in census.kinds if not kind.domain)


def _may_lack_kernel(kind: NodeKind, version: int) -> bool:
    if kind.op in OLD_KERNELS:
        return False
    sinces = [since for since in schema.versions(kind.op) if since <= SETTLED]
    return max((since for since in sinces if since <= version), default=SETTLED) < max(sinces, default=0)


def no_lost_opset(census: Census) -> bool:
    """The model imports something."""
    return bool(census.imports)


def no_branch_inputs(census: Census) -> bool:
    """No node is an If whose branch has inputs."""
    return not any(kind.op == "If" and any(inner.inputs for inner in kind.bodies.values()) for kind in census.kinds)


def no_misdeclared_maps(census: Census) -> bool:
    """No node is a ZipMap, or no input of the model has double precision."""
    if not any(kind.op == "ZipMap" for kind in census.kinds):
        return True
    return not any(dtype == DTYPES["double"] for _, dtype in census.graph.inputs)


def no_misdeclared_tensors(census: Census) -> bool:
    """Only outputs are declared."""
    return all({name for name, _ in body.infos} <= {name for name, _ in body.outputs} for body in census.bodies)


def no_mistyped_initializers(census: Census) -> bool:
    """No input has the name of an initializer of another type."""
    types = dict(census.graph.inputs)
    return all(types.get(name, dtype) == dtype for name, dtype in census.graph.constants)


FAULT_IS_RULED_OUT: Mapping[str, Callable[[Census], bool]] = {
    "repeated_nodes": no_repeated_nodes,
    "repeated_tensors": no_repeated_tensors,
    "unsorted_nodes": no_unsorted_nodes,
    "missing_imports": no_missing_imports,
    "early_nodes": no_early_nodes,
    "early_forms": no_early_forms,
    "branch_inputs": no_branch_inputs,
    "old_nodes": no_old_nodes,
    "lost_opset": no_lost_opset,
    "misdeclared_maps": no_misdeclared_maps,
    "misdeclared_tensors": no_misdeclared_tensors,
    "mistyped_initializers": no_mistyped_initializers,
}
"""For the name of a fault, whether the model surely does not have it. Faults that are missing here may always occur."""


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


# The model, and one node of it.

MAX_ANSWERS_PER_CACHE = 1 << 16
MAX_CACHES = 64
AnswerCache = dict[tuple[Any, ...], int]
_caches: dict[tuple[object, ...], AnswerCache] = {}


class CensusModel:
    """A model as its census describes it.

    Attributes:
        answers: results of conditions by all that they depend on; shared with other models of these versions.
    """

    def __init__(self, census: Census) -> None:
        self.census = census
        self.kinds_by_operator: dict[tuple[str, str], list[NodeKind]] = {}
        for kind in census.kinds:
            self.kinds_by_operator.setdefault((kind.domain, kind.op), []).append(kind)
        self.operators = frozenset(self.kinds_by_operator)
        self.versions = census.versions
        self.answers = self._shared_answers()
        self._attribute_values: dict[tuple[NodeKind, str], Any] = {}
        self._fault_lists: dict[str, Any] = {}

    def _shared_answers(self) -> AnswerCache:
        key = self.census.ir_version, frozenset(self.versions), bool(self.census.functions)
        found = _caches.get(key)
        if found is None:
            if len(_caches) >= MAX_CACHES:
                _caches.clear()
            found = _caches[key] = {}
        elif len(found) >= MAX_ANSWERS_PER_CACHE:
            found.clear()
        return found

    @cached_property
    def declared_types(self) -> frozenset[int]:
        """Element types that the model writes down of inputs, outputs and other tensors."""
        bodies = self.census.bodies
        return frozenset([dtype for body in bodies for part in (body.inputs, body.outputs, body.infos) for _, dtype in part])

    def declarations(self, kind: NodeKind) -> Hashable:
        """All that a condition on a node of this kind can learn from declarations; to be called once types are followed."""
        return self.declared_types, frozenset(kind.declared_outputs.items())

    def effective_attribute(self, kind: NodeKind, name: str) -> Any:
        """The value that an attribute has on nodes of this kind, explicitly or by default; `UNKNOWN` if that is unknown."""
        found = self._attribute_values.get((kind, name))
        if found is None:
            found = self._attribute_values[kind, name] = self._compute_attribute(kind, name)
        return found

    def _compute_attribute(self, kind: NodeKind, name: str) -> Any:
        found = kind.attrs.get(name)
        if found is not None:
            return UNKNOWN if found is OPAQUE else found
        if kind.domain or not schema.history(kind.op):
            return UNKNOWN
        defaults = [schema.effective_default(kind.op, "", version, name) for version in self.versions]
        if not defaults or any(default != defaults[0] for default in defaults):
            return UNKNOWN
        if defaults[0] is not None:
            return defaults[0]
        if name not in schema.COMPUTED_FROM_OPERANDS or schema.computed_default(kind.op, "", name) is None:
            return ABSENT
        item, times = schema.DEFAULTS_PER_AXIS.get(name, (0, 0))
        axes = kind.attrs.get("kernel_shape")
        padded = kind.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", "")
        return UNKNOWN if not times or not isinstance(axes, list) or (padded and not item) else [item] * (len(axes) * times)

    def model_field(self, name: str) -> Any:
        """The value of `model.NAME` in a condition: the ir_version, the outputs, or the list of one of the model's faults.

        The list of a fault is empty if the census rules the fault out, otherwise `UNKNOWN`. Only the number of
        outputs is known.
        """
        if name == "ir_version":
            return self.census.ir_version or UNKNOWN
        if name == "outputs":
            return [UNKNOWN] * len(self.census.graph.outputs)
        if name not in FAULT_IS_RULED_OUT:
            return UNKNOWN
        if name not in self._fault_lists:
            self._fault_lists[name] = [] if FAULT_IS_RULED_OUT[name](self.census) else UNKNOWN
        return self._fault_lists[name]


class CoarseNode(Stranger):
    """The node in question."""

    __slots__ = ()


class CoarseTensor(Stranger):
    """A tensor at a node in question.

    Attributes:
        places: positions of the operand. It is at each of them, or, if `free`, anywhere.
        output: the number of the output, if the tensor is an output of the node.
    """

    __slots__ = ("free", "output", "places")

    def __init__(self, places: Sequence[int], *, free: bool = False, output: int | None = None) -> None:
        self.places = places
        self.free = free
        self.output = output


@record(frozen=True, slots=True)
class AttributeOf:
    """The value of an attribute, which depends on the node."""

    name: str

    def read(self, world: CoarseWorld) -> Any:
        return world.attribute(self.name)


@record(frozen=True, slots=True)
class RunOf:
    """The operands between the first and the last ones."""

    before: int
    behind: int

    def read(self, world: CoarseWorld) -> Any:
        types = world.operand_types
        world.wants_types = True
        if types is None:
            return UNKNOWN
        places = range(self.before, len(types) - self.behind)
        return [CoarseTensor((place,)) if types[place] else ABSENT for place in places]


@record(eq=False)
class CoarseWorld:
    """One case in which conditions are evaluated: a kind of node, with possible types and ranks of its operands.

    Attributes:
        kind: the kind of the node in question; None for a question about the whole model.
        operand_types: sets of types, as bits; None before types are followed.
        operand_ranks: the ranks, None before ranks are followed; an unknown rank is None.
        wants_types, wants_ranks: whether a condition needed types or ranks.
        asks_model: whether a condition needed a fault or the outputs of the model.
        asks_declarations: whether a condition needed a declaration.
        asked_outputs: positions of outputs for which a condition needed whether they are outputs of the graph, or their
            declarations.
        decided: an output, and whether it counts as an output of the graph; None if that differs from node to node.
    """

    model: CensusModel
    kind: Any
    operand_types: tuple[int, ...] | None = None
    operand_ranks: tuple[int | None, ...] | None = None
    decided: tuple[int, bool] | None = None
    asked_outputs: set[int] = field(default_factory=set)
    wants_types: bool = False
    wants_ranks: bool = False
    asks_model: bool = False
    asks_declarations: bool = False

    tensor_class = CoarseTensor
    node_class = CoarseNode
    is_coarse = True

    @property
    def functions(self) -> Mapping[str, Implementation]:
        return FUNCTIONS

    def without(self, function: str) -> Any:
        return UNKNOWN

    def attribute(self, name: str) -> Any:
        """As it is written or by default; ABSENT without either."""
        return self.model.effective_attribute(self.kind, name)

    def dtype(self, tensor: CoarseTensor) -> Any:
        self.wants_types = True
        return UNKNOWN if self.operand_types is None else _types(self._bits(tensor, self.operand_types))

    def _bits(self, tensor: CoarseTensor, types: tuple[int, ...]) -> int:
        if tensor.output is not None:
            outputs: tuple[int, ...] = self.kind.output_types[types]
            return outputs[tensor.output] if tensor.output < len(outputs) else ANY
        bits = ANY
        for place in tensor.places:
            bits &= (union(types) if tensor.free else types[place] if place < len(types) else ANY) or ANY
        return bits

    def shape(self, tensor: CoarseTensor) -> Any:
        """A list of unknown lengths, or UNKNOWN."""
        if tensor.output is not None:
            if tensor.output:
                return UNKNOWN
        elif tensor.free or not tensor.places:
            return UNKNOWN
        self.wants_ranks = True
        ranks = self.operand_ranks
        if ranks is None:
            return UNKNOWN
        if tensor.output is not None:
            rank = self.kind.ranks[ranks]
        else:
            rank = ranks[tensor.places[0]] if tensor.places[0] < len(ranks) else None
        if rank is None or rank < 0:
            return UNKNOWN
        return [UNKNOWN] * (1 if rank >= VECTOR else rank)

    def opset(self, node: Any, domain: str = "") -> Any:
        versions = self.model.versions
        return next(iter(versions)) if not domain and len(versions) == 1 else UNKNOWN

    def array(self, tensor: Any) -> Any:
        return UNKNOWN

    def use_count(self, tensor: Any, most: int) -> Any:
        return UNKNOWN

    def is_same(self, one: Any, other: Any) -> Any:
        return UNKNOWN

    def tensor_name(self, tensor: Any) -> Any:
        return UNKNOWN

    def node_field(self, node: Any, name: str) -> Any:
        if name == "inputs":
            return RunOf(0, 0).read(self)
        return UNKNOWN if name in ("outputs", "op", "doc_string") else self.attribute(name)

    def model_field(self, name: str) -> Any:
        self.asks_model = self.asks_model or name != "ir_version"
        return self.model.model_field(name)

    def is_declared(self, tensor: Any, dtype: int) -> Any:
        """False if no tensor of the model is declared so, else UNKNOWN."""
        self.asks_declarations = True
        return UNKNOWN if dtype in self.model.declared_types else False

    def is_graph_output(self, tensor: Any) -> Any:
        place = self._asked_output(tensor)
        if place is None or self.operand_types is None:
            return UNKNOWN
        if self.decided is not None and self.decided[0] == place:
            return self.decided[1]
        return UNKNOWN if place in self.kind.declared_outputs else False

    def declared_dtype(self, tensor: Any) -> Any:
        """Known for outputs of the graph only. The declarations of other tensors depend on the node."""
        place = self._asked_output(tensor)
        return (
            _types(self.kind.declared_outputs[place] or ANY) if place is not None and self.decided == (place, True) else UNKNOWN
        )

    def _asked_output(self, tensor: Any) -> int | None:
        """Which output a tensor is."""
        place = tensor.output if isinstance(tensor, CoarseTensor) else None
        if place is not None:
            self.wants_types = self.asks_declarations = True  # who makes outputs is found out together with types
            self.asked_outputs.add(place)
        return place

    def by_outputs(self) -> Iterator[CoarseWorld]:
        """The cases of nodes that make an output of the graph and of nodes that do not, if a condition needed it of one."""
        if len(self.asked_outputs) != 1 or self.operand_types is None:
            yield self
            return
        (place,) = self.asked_outputs
        for is_output in (False, True) if place in self.kind.declared_outputs else (False,):
            yield CoarseWorld(self.model, self.kind, self.operand_types, self.operand_ranks, decided=(place, is_output))


@cache
def _types(bits: int) -> Any:
    """A set of types as a value."""
    if bits == ANY:
        return UNKNOWN
    dtypes = schema.dtypes_of(bits)
    return DType(dtypes[0]) if len(dtypes) == 1 else OneOf(frozenset(dtypes))


def _has(world: CoarseWorld, node: Any, name: str) -> Any:
    return name in world.kind.attrs if isinstance(node, CoarseNode) else UNKNOWN


_BODIES: Mapping[str, Implementation] = {
    **BODIES,
    "has": _has,
    "is_declared": lambda world, tensor, dtype: world.is_declared(tensor, dtype),
    "declared_dtype": lambda world, tensor: world.declared_dtype(tensor),
    "is_output": lambda world, tensor: world.is_graph_output(tensor),
}


def _maybe(world: CoarseWorld, condition: Any) -> Any:
    """A graph may know more than a census. But at a node that is invalid, it does not know ranks that a census knows."""
    return UNKNOWN if condition is False and world.operand_ranks is not None else condition


FUNCTIONS: Mapping[str, Implementation] = {
    "maybe": _maybe,
    **{name: prepared(DECLARED[name], body) for name, body in _BODIES.items()},
}


class CoarseNames(Bindings):
    """The names of a rule at one kind of node."""

    def get(self, name: str, world: Any) -> Any:
        value = self.bound.get(name)
        if value is None:
            return super().get(name, world)
        return value.read(world) if isinstance(value, AttributeOf | RunOf) else value


def value_in(expr: ast.Expr, names: Bindings, world: CoarseWorld) -> Any:
    """The value of an expression; UNKNOWN also if the engine fails on it. The engine then reports the failure."""
    try:
        return evaluate(expr, names, world)
    except Failure:
        return UNKNOWN


def may_hold(condition: ast.Expr, names: Bindings, world: CoarseWorld) -> bool:
    """Whether a condition is not surely false."""
    try:
        return holds(condition, names, world) is not False
    except Failure:
        return True
