"""Instances made from a rule's pattern alone: they contain cases that the author did not think of.

Leaves become inputs or initializers, interiors get their types by shape inference, optional operands come and go, operands of
commutative operators change places, and inner tensors also have other readers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import TensorProto, helper

from rewriter.core.engine.compile import parameters
from rewriter.core.errors import RewriterError
from rewriter.core.facts.infer import output_types
from rewriter.core.facts.shape_rules import NodeFacts, of_array
from rewriter.core.language import ast, schema
from rewriter.core.language.operator_traits import traits
from rewriter.core.language.pattern import ANY_OPERATOR, Made, Pattern, PatternNode, compile_pattern
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPES
from rewriter.core.onnxfile.tensors import TensorType
from rewriter.trust.proof.instances import contrib_operators
from rewriter.trust.proof.instances.draft import Dims, Draft, Rejected, Term
from rewriter.trust.proof.instances.element_types import (
    Hints,
    Unsettled,
    any_operators,
    assign,
    constant,
    hints,
    near_ends,
    numbers_of,
    source_questions,
)
from rewriter.trust.proof.instances.instance import MOST_ELEMENTS, Array, Instance, ir_version
from rewriter.trust.proof.instances.random_arrays import ANY, EDGES, LARGE, TAME, random_array
from rewriter.trust.proof.instances.recipes import disturb, settle

_VERSIONS = ("1.3.1", "1.9.1", "2.0.0", "")
_GRAPH_NAMES = {"mxnet": "mxnet_converted_model"}
_INSIDE_USED = 0.2
_ROOT_INSIDE = 0.3
_NEAR_LIMITS = 0.12  # of instances have weights near the limits of their types
_RUN = 3  # operands of a run, at most
_WEIGHT = 0.15  # of operands that need not be constant and are


def pattern_instance(rule: Rule, opset: int, dims: Dims) -> Instance:
    """An instance of the rule's pattern in an opset.

    Raises:
        Rejected: the choices contradict each other.
    """
    try:
        parameter_values = parameters(rule, {})
        pattern = compile_pattern(rule.ast.match, parameter_values)
    except RewriterError as error:
        raise Rejected(str(error)) from error
    return _InstanceBuilder(rule, pattern, opset, dims, parameter_values).build()


class _InstanceBuilder:
    def __init__(self, rule: Rule, pattern: Pattern, opset: int, dims: Dims, parameter_values: Mapping[str, Any]) -> None:
        self.rule = rule
        self.pattern = pattern
        self.opset = opset
        self.dims = dims
        self.hints: Hints = hints(rule, dims)
        self.bound: dict[str, Any] = dict(parameter_values)
        self.terms: dict[str, Term] = {}
        self.drafts: dict[int, Draft] = {}
        self.absent: set[str] = set()
        self.element_types: dict[int, frozenset[int]] = {}
        self.fresh = 0
        self.style = self._style()

    def _style(self) -> str:
        """How weights are drawn; instances of one form and other lengths have styles of their own."""
        half = any(DTYPES["float16"] in kinds for kinds in self.hints.dtypes.values())
        if self.dims.again().random() > (3 * _NEAR_LIMITS if half else _NEAR_LIMITS) or self.rule.kind.name == "repair":
            return TAME
        return LARGE if self.rule.kind.name == "approx" else EDGES

    def build(self) -> Instance:
        for number in self._order():
            self._declare(self.pattern.nodes[number])
        assign(self.drafts.values(), self.element_types, self.dims, override=self.rule.kind.name == "repair")
        for number, draft in self.drafts.items():
            if traits(draft.op).rule == "cast":
                draft.attrs.setdefault("to", draft.outputs[0].dtype)
            self._relate(draft)
            settle(draft)
            disturb(draft)
            self._infer(draft, self.pattern.nodes[number])
        return self._assemble()

    def _order(self) -> list[int]:
        """Pattern nodes, makers before readers."""
        found: list[int] = []

        def visit(number: int) -> None:
            if number not in found:
                for operand in self.pattern.nodes[number].inputs:
                    if isinstance(operand, Made):
                        visit(operand.node)
                found.append(number)

        for node in self.pattern.nodes:
            visit(node.number)
        return found

    # --- nodes -------------------------------------------------------------------------------------------------------------

    def _declare(self, node: PatternNode) -> None:
        source = node.source
        ops = [op for op in sorted(node.ops) if schema.exists(op[1], op[0], self.opset)] or sorted(node.ops)
        if node.ops is ANY_OPERATOR:
            ops = any_operators(self.rule.ast, node.fixed, self.opset)
        domain, op = ops[self.dims.below(len(ops))]
        version = self.opset if domain == "" else schema.latest_opset(domain)
        draft = Draft(op, domain, version, self.dims, [], [])
        self.drafts[node.number] = draft
        draft.outputs = self._outputs(node, draft)
        draft.inputs = self._operands(node, draft)
        self._attributes(source.attrs, draft)
        if (
            not source.ordered
            and not node.split
            and len(draft.inputs) == 2
            and schema.is_commutative(op, domain)
            and self.dims.chance(0.5)
        ):
            draft.inputs.reverse()

    def _outputs(self, node: PatternNode, draft: Draft) -> list[Term]:
        found: list[Term] = []
        for output in node.source.outputs:
            count = 1 + self.dims.below(3) if output.variadic else 1
            names = [f"{output.name}{i}" if output.variadic else output.name or self._name() for i in range(count)]
            found += [self._term(name, is_output=True) for name in names]
        if not found:
            found = [self._term(self._name(), is_output=True)]
        operator = schema.schema(draft.op, draft.domain, draft.version)
        while operator is not None and len(found) < operator.min_outputs:
            found.append(self._term(self._name(), is_output=True))
        return found

    def _operands(self, node: PatternNode, draft: Draft) -> list[Term | None]:
        found: list[Term | None] = []
        operator = schema.schema(draft.op, draft.domain, draft.version)
        room = 2 * _RUN if operator is None or operator.max_inputs is None else max(0, operator.max_inputs - node.fixed)
        for operand in node.inputs:
            if isinstance(operand, Made):
                outputs = self.drafts[operand.node].outputs
                found += outputs if operand.run else [outputs[operand.output]]
            elif isinstance(operand, ast.Variadic):
                least = 0 if node.split else 1 if operator is None else max(1, operator.min_inputs - node.fixed)
                count = min(max(room, least), least + self.dims.below(_RUN))
                room -= count
                found += [self._leaf(f"{operand.name}{i}") for i in range(count)]
            elif isinstance(operand, ast.ConstPattern):
                found.append(self._constant(operand))
            elif isinstance(operand, ast.Capture):
                found.append(self._capture(operand))
            else:
                found.append(self._leaf(self._name()))
        if operator is not None and node.source.more_inputs:
            most = operator.max_inputs if operator.max_inputs is not None else len(found) + 2
            while len(found) < operator.min_inputs or (len(found) < most and self.dims.chance(0.6)):
                found.append(self._leaf(self._name()))
        while found and found[-1] is None:
            found.pop()
        return found

    def _capture(self, capture: ast.Capture) -> Term | None:
        if capture.optional and capture.name not in self.terms and (capture.name in self.absent or self.dims.chance(0.5)):
            self.absent.add(capture.name)
            return None
        term = self._leaf(capture.name, constant=capture.const)
        if capture.type is not None:
            if capture.type.dtype is not None:
                self.element_types[id(term)] = frozenset({DTYPES[capture.type.dtype]})
            if capture.type.dims is not None:
                term.dims = capture.type.dims
        return term

    def _constant(self, operand: ast.ConstPattern) -> Term:
        term = self._leaf(self._name(), constant=True)
        try:
            value = np.asarray(constant(operand.value, self.bound))
        except Unsettled:
            return term
        if operand.dtype is not None:
            value = value.astype(helper.tensor_dtype_to_np_dtype(DTYPES[operand.dtype]))
            term.shape = self._literal_shape(list(value.shape))
            term.value = value.reshape(term.shape)
        else:
            term.role = ("exactly", 0)
            term.shape = self._literal_shape(list(value.shape))
            term.dims = [value]
        return term

    def _literal_shape(self, shape: list[int]) -> list[int]:
        """A literal of one element matches one element of any rank."""
        if math.prod(shape) != 1 or not self.dims.chance(0.2 if shape else 0.35):
            return shape
        return [1] * [0, 1, 1, 2, 3][self.dims.below(5)]

    def _leaf(self, name: str, *, constant: bool = False) -> Term:
        if name in self.terms:
            return self.terms[name]
        term = self._term(name, is_output=False)
        term.constant = constant or self.dims.chance(_WEIGHT)
        return term

    def _term(self, name: str, *, is_output: bool) -> Term:
        if name in self.terms:
            return self.terms[name]
        term = Term(name, is_output=is_output, ranks=self.hints.ranks.get(name), lengths=self.hints.lengths.get(name, {}))
        self.terms[name] = term
        if name in self.hints.dtypes:
            self.element_types[id(term)] = self.hints.dtypes[name]
        return term

    def _name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def _attributes(self, attrs: Sequence[ast.AttrPattern], draft: Draft) -> None:
        closed = {attr.name for attr in attrs if attr.mode == "absent"}
        for attr in attrs:
            if attr.mode != "equals" or attr.value is None:
                continue
            found = schema.attribute(draft.op, draft.domain, draft.version, attr.name)
            try:
                value = self._settled(attr.value, None if found is None else found.default)
            except Unsettled:
                continue
            if found is None and self.rule.kind.name != "repair":
                continue  # tested for the default that it was later introduced with
            if found is None or found.default != value or self.dims.chance(0.5):
                draft.attrs[attr.name] = float(value) if found is not None and found.kind == "float" else value
            else:
                closed.add(attr.name)
        draft.closed = frozenset(closed)

    def _settled(self, expr: ast.Expr, default: Any) -> Any:
        """The value that the pattern or the conditions ask of an attribute. Raises Unsettled when any will do."""
        if isinstance(expr, ast.Name) and expr.id not in self.bound and expr.id not in DTYPES:
            same = self.hints.equal.get(expr.id)
            near = near_ends(self.hints.bounds.get(expr.id), default)
            if near:
                self.bound[expr.id] = self.dims.pick(near)
            elif expr.id in self.hints.values:
                self.bound[expr.id] = self.dims.pick(self.hints.values[expr.id])
            elif same in self.bound and self.dims.chance(0.8):
                self.bound[expr.id] = self.bound[same]
            else:
                raise Unsettled
        return constant(expr, self.bound)

    def _relate(self, draft: Draft) -> None:
        """Operands that the conditions want to be as others are: with the same contents, or of the same shape."""
        for term in draft.inputs:
            if term is None or term.is_output or term.shape is not None:
                continue
            same, alike = (self.terms.get(names.get(term.name, "")) for names in (self.hints.same, self.hints.alike))
            if same is not None and same.value is not None and self.dims.chance(0.85):
                term.value = same.value.copy()
                if same.value.size == 1 and self.dims.chance(0.3):
                    term.value = term.value.reshape([1] * self.dims.below(3))
                term.shape, term.constant = list(term.value.shape), term.constant or same.constant
            elif alike is not None and alike.shape is not None and self.dims.chance(0.7):
                term.shape = list(alike.shape)

    def _infer(self, draft: Draft, node: PatternNode) -> None:
        for term in draft.inputs:
            if term is not None and not term.is_output and term.value is None and (term.constant or term.role[0] == "exactly"):
                self._fill(term)
        for attr in node.source.attrs:
            if attr.mode == "equals" and isinstance(attr.value, ast.Name) and attr.name in draft.attrs:
                self.bound.setdefault(attr.value.id, draft.attrs[attr.name])
        if any(value == [] for value in draft.attrs.values()):
            raise Rejected("an empty list is of no type")
        for term, found in zip(draft.outputs, self._output_types(draft), strict=False):
            sizes = [dim for dim in found.shape or () if isinstance(dim, int)]
            term.shape = sizes if found.shape is not None and len(sizes) == len(found.shape) else None
            term.dtype = found.dtype or term.dtype
        if any(output.shape is None for output in draft.outputs) and draft is not list(self.drafts.values())[-1]:
            raise Rejected(f"the shape of {draft.op} is not known")

    def _output_types(self, draft: Draft) -> list[TensorType]:
        if contrib_operators.known(draft.op, draft.domain):
            shape = contrib_operators.output_shape(draft)
            return [TensorType(shape=None if shape is None else tuple(shape))]
        arrays = {position: term.value for position, term in enumerate(draft.inputs) if term is not None}
        facts = NodeFacts(
            draft.op,
            draft.domain,
            draft.version,
            gs.Node(draft.op, attrs=draft.attrs, domain=draft.domain),
            [None if term is None else TensorType(term.dtype, tuple(term.shape or ())) for term in draft.inputs],
            [None if term is None or term.value is None else of_array(term.value) for term in draft.inputs],
            (True,) * len(draft.outputs),
            arrays.get,
        )
        return output_types(facts, {"": self.opset, draft.domain: draft.version})

    def _fill(self, term: Term) -> None:
        shape = tuple(term.shape or ())
        kind = helper.tensor_dtype_to_np_dtype(term.dtype)
        if term.role[0] == "exactly":
            assert term.dims is not None
            term.value = np.asarray(term.dims[0]).astype(kind).reshape(shape)
        elif (known := self._known_contents(term.name)) is not None and self.dims.chance(0.7):
            term.value = np.full(shape, known).astype(kind)
        else:
            if min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS:
                raise Rejected("no such shape")
            term.value = self._contents(term, shape)
        term.constant = True

    def _known_contents(self, name: str) -> Any:
        """What the conditions say that a constant holds: a number of the rule, or an attribute that has its value by now."""
        other = self.bound.get(self.hints.same.get(name, ""))
        return self.hints.contents.get(name, other if isinstance(other, int | float) else None)

    def _contents(self, term: Term, shape: tuple[int, ...]) -> Array:
        """Mostly tame numbers; some are numbers from the rule, or lie near the limits of the type."""
        if term.role == ANY and term.dtype not in (TensorProto.BOOL, TensorProto.STRING):
            kind = helper.tensor_dtype_to_np_dtype(term.dtype)
            if self.dims.chance(0.2):
                numbers = np.array(numbers_of(self.rule))
                with np.errstate(all="ignore"):
                    return np.asarray(np.full(shape, self.dims.rng.choice(numbers)), dtype=kind)
        return random_array(self.dims.rng, term.dtype, shape, term.role, self.style)

    # --- the model ---------------------------------------------------------------------------------------------------------

    def _assemble(self) -> Instance:
        nodes, outputs, fixed = [], [], {}
        initializers, inputs = [], []
        labels: dict[str, str] = {}
        for term in self.terms.values():
            if term.is_output or term.shape is None:
                continue
            if term.constant and term.value is not None:
                tensor = _tensor(term.value, term.name, term.dtype)
                if self.dims.chance(0.12):
                    nodes.append(helper.make_node("Constant", [], [term.name], value=tensor))
                else:
                    initializers.append(tensor)
            else:
                inputs.append(helper.make_tensor_value_info(term.name, term.dtype, term.shape))
                if term.value is not None:
                    fixed[term.name] = term.value
        for position, (number, draft) in enumerate(self.drafts.items()):
            operands = [term.name if term is not None else "" for term in draft.inputs]
            results = [term.name for term in draft.outputs]
            name = f"node{position}"
            labels[self.pattern.nodes[number].source.label or name] = name
            nodes.append(helper.make_node(draft.op, operands, results, name, domain=draft.domain, **draft.attrs))
        used = {name for node in nodes for name in node.input}
        for draft in self.drafts.values():
            for term in draft.outputs:
                if term.name not in used and self.dims.chance(_ROOT_INSIDE):
                    nodes.append(helper.make_node("Identity", [term.name], [f"{term.name}_out"], f"after_{term.name}"))
                    outputs.append(_info(f"{term.name}_out", term))
                elif term.name not in used or self.dims.chance(_INSIDE_USED):
                    outputs.append(_info(term.name, term))
        graph = helper.make_graph(nodes, self._graph_name(), inputs, outputs, initializers)
        domains = {node.domain for node in nodes} - {"", "ai.onnx"}
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(d, schema.latest_opset(d)) for d in sorted(domains)),
        ]
        model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version(self.opset))
        model.producer_name = self.rule.exporters[0] if self.rule.exporters else ""
        model.producer_version = str(self.dims.pick(_VERSIONS)) if self.rule.versions else ""
        return Instance(model, "pattern", self._source(labels), fixed=fixed)

    def _graph_name(self) -> str:
        return next((_GRAPH_NAMES[name] for name in self.rule.exporters if name in _GRAPH_NAMES), "g")

    def _source(self, labels: Mapping[str, str]) -> str | None:
        table: dict[str, dict[str, Any]] = {}
        for label, key, values in source_questions(self.rule):
            if label in labels:
                entry = table.setdefault(labels[label], {})
                if self.dims.chance(0.8):
                    entry[key] = values[self.dims.below(len(values))]
        wanted = self.rule.needs_source or (table and self.dims.chance(0.5))
        return json.dumps(table, sort_keys=True) if wanted else None


def _info(name: str, term: Term) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, term.dtype, term.shape)


def _tensor(value: Array, name: str, dtype: int) -> TensorProto:
    if dtype == TensorProto.STRING:
        texts: list[Any] = [str(text).encode() for text in value.ravel()]
        return helper.make_tensor(name, dtype, value.shape, texts)
    return onnx.numpy_helper.from_array(np.asarray(value), name)
