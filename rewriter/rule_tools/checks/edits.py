"""Statements that change matched nodes and tensors in place: edits, deletions, `inline`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewriter.core.language import ast, schema
from rewriter.core.language.functions import FAULTS, MODEL_FACTS
from rewriter.core.record import record
from rewriter.rule_tools.checks.context import KIND_WORDS, Binding, CheckContext, NameScope, did_you_mean
from rewriter.rule_tools.checks.expressions import MODEL_FIELDS, Types
from rewriter.rule_tools.checks.operators import check_operator, check_value, check_written

_MODEL_EDITS = {**MODEL_FIELDS, "metadata_props": "string"}
_TENSOR_EDITS = {"shape": "list", "dtype": "dtype", "name": "string"}
Value = ast.Expr | ast.Constant | ast.Absent | ast.Build


@record
class EditCheck:
    """Checks the in-place statements of one rewrite block; `operand` checks a tensor that an edited input reads."""

    context: CheckContext
    scope: NameScope
    types: Types
    opsets: Sequence[int]
    operand: Callable[[ast.NewOperand], None]

    def edit(self, edit: ast.Edit, statements: Sequence[ast.Statement]) -> None:
        """`place = value`. An edit of the operator in any of the statements decides which attributes the node has."""
        place = edit.place
        if place.base == "model" and place.base not in self.scope.names:
            self._model(place, edit.value)
            return
        found = self._base(place)
        if found is None:
            self._value(edit.value, "any", "the value")
        elif found.kind == "node":
            self._node(place, edit.value, self._operators(found, statements))
        elif found.kind == "tensor":
            self._tensor(place, found, edit.value)

    def delete(self, delete: ast.Delete) -> None:
        """`del n`, `del n.attr`, and in rules of kind `interface` `del x`."""
        place = delete.place
        if place.base == "model" and place.base not in self.scope.names:
            self.context.report("E210", "no part of the model can be deleted", place.span, "cannot be deleted")
            return
        found = self._base(place)
        if found is None:
            return
        if found.kind == "tensor" and place.field is None:
            self._delete_tensor(place, found)
        elif found.kind == "tensor":
            self.context.report("E210", f"`{place.field}` of a tensor cannot be deleted", place.span, "cannot be deleted")
        elif place.field in ("inputs", "outputs"):
            self._position(place, found.ops)
        elif place.field is not None:
            self._deleted_attribute(place, found)

    def inline(self, inline: ast.Inline) -> None:
        """`inline n.then_branch` or `inline n`."""
        found = self.scope.use(inline.label, inline.span)
        if found is None:
            return
        if found.kind != "node":
            message = f"`{inline.label}` is {KIND_WORDS[found.kind]}, not a matched node"
            self.context.report("E210", message, inline.span, "nothing to inline")
            return
        op = found.ops[0] if found.ops else None
        if op is None or op.param or not schema.history(op.name, op.domain):
            return
        graphs = schema.subgraphs(op.name, op.domain)
        if inline.attr not in graphs:
            what = f"subgraph `{inline.attr}`" if inline.attr else "body"
            notes = (
                f"its subgraphs: {', '.join(graphs)}" if graphs else "it is an operator of ONNX, not a call of a function",
            )
            self.context.report("E210", f"`{op.name}` has no {what} to inline", inline.span, "nothing to inline", notes)

    def mend(self, mend: ast.Mend) -> None:
        """`mend model.unsorted_nodes`."""
        fault = FAULTS.get(mend.fault) if mend.base == "model" else None
        if fault is None:
            notes = (f"faults that can be repaired: {', '.join(FAULTS)}",)
            known = [f"write model.{mend.fault}"] if mend.fault in FAULTS else []
            helps = tuple(known) or did_you_mean(mend.fault, FAULTS)
            message = f"`{mend.base}.{mend.fault}` is no kind of fault"
            self.context.report("E210", message, mend.span, "nothing to repair", notes, helps)
            return
        self._whole_model(mend.span)
        if fault.interface and not self.context.is_interface:
            self.interface_only(f"model.{fault.name}, which belong to what callers see,", mend.span)

    # --- Places ----------------------------------------------------------------------------------------------------------

    def _base(self, place: ast.Place) -> Binding | None:
        found = self.scope.use(place.base, place.span)
        if found is not None and found.kind not in ("node", "tensor"):
            message = f"`{place.base}` is {KIND_WORDS[found.kind]}: only matched nodes and tensors can be changed"
            self.context.report("E210", message, place.span, "not a part of the match")
            return None
        return found

    def _operators(self, found: Binding, statements: Sequence[ast.Statement]) -> tuple[ast.Op, ...]:
        """The operators that the node may have in the end."""
        for other in statements:
            if isinstance(other, ast.Edit) and other.place.base == found.name and other.place.field == "op":
                if isinstance(other.value, ast.Literal) and isinstance(other.value.value, str):
                    return (operator_named(other.value.value, other.value.span),)
                return ()
        return found.ops

    def _node(self, place: ast.Place, value: Value, ops: tuple[ast.Op, ...]) -> None:
        field = place.field
        if field == "inputs":
            self._position(place, ops)
            self._new_input(value)
        elif field == "metadata_props":
            self._entry(place)
            self._value(value, "string", "an entry of metadata_props")
        elif field == "doc_string":
            self._value(value, "string", "`doc_string`")
        elif field == "outputs" or field is None or (place.index is not None):
            what = "outputs of a matched node" if field == "outputs" else "this"
            helps = ("to replace an output, write `y = ...`",) if field == "outputs" else ()
            self.context.report("E210", f"{what} cannot be assigned", place.span, "not a place", helps=helps)
        elif field == "op":
            self._value(value, "string", "the operator")
            if isinstance(value, ast.Literal) and isinstance(value.value, str):
                check_operator(self.context, operator_named(value.value, value.span), in_pattern=False)
        else:
            actual = self._value(value, "any", "the value")
            for op in ops:
                if op.param or not schema.history(op.name, op.domain):
                    continue
                there = [v for v in self.opsets if schema.schema(op.name, op.domain, v) is not None]
                check_written(self.context, op, field, place.span, there)
                if not isinstance(value, (ast.Constant, ast.Absent, ast.Build)):
                    check_value(self.context, op, field, value, actual)

    def _new_input(self, value: Value) -> None:
        if isinstance(value, ast.Name):
            self.operand(ast.Ref(value.id, span=value.span))
        elif isinstance(value, (ast.Constant, ast.Absent, ast.Build)):
            self.operand(value)
        else:
            self.types.of(value)
            helps = ("write the name of a tensor, a constant {...}, a new node Op(...), or _ for none",)
            self.context.report("E210", "an input cannot be computed like this", value.span, "not an operand", helps=helps)

    def _position(self, place: ast.Place, ops: tuple[ast.Op, ...]) -> None:
        if place.index is None:
            message = f"{place.field} are changed one by one"
            self.context.report("E210", message, place.span, "which one?", helps=(f"write {place.base}.{place.field}[0]",))
            return
        self.types.want(place.index, "int", "a position")
        if not isinstance(place.index, ast.Literal) or not isinstance(place.index.value, int):
            return
        for op in ops:
            history = schema.history(op.name, op.domain) if not op.param else ()
            limits = [o.max_inputs if place.field == "inputs" else o.max_outputs for o in history]
            if history and all(limit is not None and place.index.value >= limit for limit in limits):
                message = f"`{op.name}` has no {(place.field or '')[:-1]} {place.index.value}"
                self.context.report("E104", message, place.span, "counted from 0", (f"it is {history[-1].signature}",))

    def _entry(self, place: ast.Place) -> None:
        """`metadata_props["key"]`."""
        if place.index is None:
            helps = (f'write {place.base}.metadata_props["key"]',)
            self.context.report("E210", "entries of metadata_props are set one by one", place.span, "which one?", helps=helps)
        else:
            self.types.want(place.index, "string", "a key of metadata_props")

    def _tensor(self, place: ast.Place, found: Binding, value: Value) -> None:
        field = place.field
        if field not in _TENSOR_EDITS:
            message = f"a tensor has no part `{field}` that could be changed" if field else "this cannot be assigned"
            notes = (f"its parts: {', '.join(_TENSOR_EDITS)}",)
            self.context.report("E210", message, place.span, "not a place", notes)
            return
        if (self.context.rule.match.graph or field == "name") and not self.context.is_interface:
            self.interface_only(f"the {field} of a model's input or output", place.span)
        if field == "shape" and place.index is not None:
            self.types.want(place.index, "int", "a position")
            self._value(value, "int|dim|string", "a dimension")
        else:
            self._value(value, _TENSOR_EDITS[field], f"`{field}`")

    def _delete_tensor(self, place: ast.Place, found: Binding) -> None:
        if not self.context.rule.match.graph:
            message = f"`{place.base}` is a tensor: only nodes and attributes can be deleted"
            helps = ("label the node that makes it, `[n] ... = ...`, and write `del n`",)
            self.context.report("E210", message, place.span, "a tensor", helps=helps)
        elif not self.context.is_interface:
            self.interface_only("an input or output of the model", place.span)

    def _deleted_attribute(self, place: ast.Place, found: Binding) -> None:
        assert place.field is not None
        self.types.attribute_of(place.base, place.field, place.span)

    def interface_only(self, what: str, span: ast.Span) -> None:
        """Reports a change that callers of the model see, in a rule of another kind."""
        self.context.report(
            "E212",
            f"{what} changes only in rules of kind `interface`",
            span,
            f"this rule is of kind `{self.context.header.kind.name}`",
            ("callers of the model rely on its names, types and shapes",),
            ("write `kind: interface` in the header",),
        )

    def _model(self, place: ast.Place, value: Value) -> None:
        if place.field in FAULTS or place.field in MODEL_FACTS:
            mends = (f"write `mend model.{place.field}`",) if place.field in FAULTS else ()
            self.context.report("E210", f"model.{place.field} is found, not set", place.span, "not a place", helps=mends)
            return
        actual_type = _MODEL_EDITS.get(place.field or "")
        if actual_type is None:
            notes = (f"its parts: {', '.join(_MODEL_EDITS)}",)
            message = f"the model has no part `{place.field}`" if place.field else "the model cannot be assigned"
            helps = did_you_mean(place.field or "", _MODEL_EDITS)
            self.context.report("E210", message, place.span, "not a place", notes, helps)
            return
        if place.field != "opset":
            self._whole_model(place.span)
        informed = self.context.is_repair and self.context.header.needs_source
        if place.field == "outputs" and not (self.context.is_interface or informed):
            self.interface_only("which tensors the model gives out", place.span)
        if place.field == "metadata_props":
            self._entry(place)
        elif place.index is not None and place.field == "opset":
            self.types.want(place.index, "string", "a domain")
        elif place.index is not None:
            self.context.report("E210", f"model.{place.field} has no items", place.span, "not a place")
        self._value(value, actual_type, f"model.{place.field}")

    def _whole_model(self, span: ast.Span) -> None:
        if not self.context.rule.match.graph:
            message = "a rule that changes the model as a whole must match it as a whole"
            self.context.report("E210", message, span, "not matched", helps=("write `match graph { }`",))

    def _value(self, value: Value, wanted: str, role: str) -> str:
        if isinstance(value, ast.Constant):
            self.operand(value)
            return "array"
        if isinstance(value, (ast.Absent, ast.Build)):
            self.context.report("E210", f"{role} cannot be a node or nothing", value.span, "not a value")
            return "any"
        return self.types.want(value, wanted, role)


def operator_named(text: str, span: ast.Span) -> ast.Op:
    """The operator that a text names: "Relu", "com.acme.Foo" or "com.acme::Foo"."""
    domain, _, name = text.replace("::", ".").rpartition(".")
    return ast.Op(name, domain, span=span)
