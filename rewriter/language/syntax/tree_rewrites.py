"""From lark's tree to the statements of `rewrite` blocks."""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.syntax.tree_expressions import Part
from rewriter.language.syntax.tree_patterns import PatternBuilder
from rewriter.record import replace


class RewriteBuilder(PatternBuilder):
    """Converts `rewrite` blocks."""

    def rewrite(self, tree: Part) -> ast.Rewrite:
        opset, *statements = tree.children
        versions = None if opset is None else self.range(opset)
        return ast.Rewrite(tuple(self._statement(part) for part in statements), versions, self.span(tree))

    def range(self, tree: Part) -> ast.OpsetRange:
        numbers = [self.integer(token) for token in tree.children]
        first = None if tree.data == "range_to" else numbers[0]
        last = None if tree.data == "range_from" else numbers[-1]
        return ast.OpsetRange(first, last, self.span(tree))

    def _statement(self, tree: Part) -> ast.Statement:
        if tree.data == "assign":
            return self._assign(tree)
        if tree.data == "outline":
            _, left, call = tree.children
            return replace(self._build(call, None, self.outputs(left)[0], self.span(tree)), outlined=True)
        if tree.data == "edit":
            place, value = tree.children
            return ast.Edit(self._place(place), self._edit_value(place, value), self.span(tree))
        if tree.data == "delete":
            return ast.Delete(self._place(tree.children[0]), self.span(tree))
        if tree.data == "mend":
            base, fault = tree.children
            return ast.Mend(str(base), str(fault), self.span(tree))
        if tree.data == "add_output":
            return ast.AddOutput(str(tree.children[-1]), self.span(tree))
        if tree.data == "each":
            return self._each(tree)
        label, attr = tree.children
        return ast.Inline(str(label), None if attr is None else str(attr), self.span(tree))

    def _each(self, tree: Part) -> ast.Each:
        _, name, base, inputs, test, body = tree.children
        made = self._assign(body)
        one = isinstance(made, ast.Build) and [output.name for output in made.outputs] == [str(name)]
        if not isinstance(made, ast.Build) or not one or made.outputs[0].variadic:
            helps = (f"write {{ {name} = Cast<to=float>({name}) }}",)
            self.problem("E012", f"`each` makes one node in the place of `{name}`", self.span(body), "another form", helps)
            made = ast.Build((), ast.Op("Identity"), (), ())
        condition = None if test is None else self.expr(test)
        place = self.new_name(name), str(base), inputs is not None
        return ast.Each(*place, condition, replace(made, outputs=()), self.span(tree), self.span(name))

    def _assign(self, tree: Part) -> ast.Build | ast.Redirect:
        """`y = Op(x)` makes a node; `y = x` and `y = {expr}` redirect one named output and have no label."""
        label, left, right = tree.children
        span = self.span(tree)
        outputs, more = self.outputs(left)
        if more:
            self.problem("E012", "a new node has just the outputs that are named", self.span(left), "no `...` here")
        if right.data in ("build", "column_node"):
            return self._build(right, self.label(label), outputs, span)
        if label is not None:
            self.problem("E012", "a label names a node, and this line makes none", self.span(label), "no node here")
        target = ast.Ref(str(right.children[0]), span=self.span(right)) if right.data == "ref" else self._constant(right)
        if len(outputs) != 1 or outputs[0].name is None or outputs[0].variadic:
            helps = ("write one line for each: y = x",)
            self.problem("E012", "one output takes the place of one tensor", self.span(left), "one name is needed", helps)
        return ast.Redirect(outputs[0].name or "_" if outputs else "_", target, span)

    def _place(self, tree: Part) -> ast.Place:
        span = self.span(tree)
        if tree.data == "ref":
            return ast.Place(str(tree.children[0]), span=span)
        base, field, index = tree.children
        return ast.Place(str(base), str(field), None if index is None else self.expr(index), span)

    def _edit_value(self, place: Part, value: Part) -> ast.Expr | ast.Constant | ast.Absent | ast.Build:
        """Inputs take an operand, where a tensor is a `Name`; attributes and the rest take an expression."""
        if place.data != "slot":
            return self._constant(value) if value.data.endswith("constant") else self.expr(value)
        operand = self._operand_of_new(value)
        if isinstance(operand, ast.Ref):
            if operand.spread:
                self.problem("E012", "one input takes one tensor", operand.span, "a run of tensors")
            return ast.Name(operand.name, operand.span)
        return operand

    def _build(self, tree: Part, label: str | None, outputs: tuple[ast.Output, ...], span: ast.Span) -> ast.Build:
        if tree.data == "column_node":  # what stands there is told by the rows
            return ast.Build(outputs, ast.Op(str(tree.children[0])[1:], "", True, span), (), (), label, span)
        op, attrs, *operands = tree.children
        return ast.Build(
            outputs=outputs,
            op=self.op(op),
            attrs=tuple(self._set_attr(attr) for attr in attrs.children if attr is not None) if attrs is not None else (),
            inputs=tuple(self._operand_of_new(operand) for operand in operands if operand is not None),
            label=label,
            span=span,
        )

    def _set_attr(self, tree: Part) -> ast.AttrSet | ast.AttrCopy:
        name = tree.children[0]
        if tree.data == "attr_copy":
            return ast.AttrCopy(str(name), self.span(tree))
        either = tree.data == "attr_set_either"
        self.choices = self.choices or either
        return ast.AttrSet(str(name), self.expr(tree.children[1]), self.span(tree), self.span(name), either)

    def _operand_of_new(self, tree: Part) -> ast.NewOperand:
        span = self.span(tree)
        if not hasattr(tree, "children"):
            return ast.Absent(span)
        if tree.data in ("ref", "spread"):
            return ast.Ref(str(tree.children[0]), tree.data == "spread", span)
        if tree.data == "labelled":
            label, build = tree.children
            return self._build(build, self.label(label), (), span)
        return self._constant(tree)

    def _constant(self, tree: Part) -> ast.Constant:
        span = self.span(tree)
        if tree.data == "constant":
            dtype, value = tree.children
            return ast.Constant(self.expr(value), None if dtype is None else str(dtype), span=span)
        dtype, extent, *values = tree.children
        dims = tuple(self.integer(dim) for dim in extent.children if dim is not None)
        items = self.exprs(values)
        around = ast.Span(items[0].span.start, items[-1].span.end) if items else span
        return ast.Constant(ast.ListOf(items, around), str(dtype), dims, span)
