"""From lark's tree to patterns: nodes, operands, attributes and types of a `match` block."""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

from rewriter.language import ast
from rewriter.language.syntax.tree_expressions import ExpressionBuilder, Part
from rewriter.record import replace


class PatternBuilder(ExpressionBuilder):
    """Converts `match` blocks, and what rewrites share with them: labels, outputs, operators.

    `operators` are the places where `@name` is an operator; `choices`, whether the pattern or a rewrite has a form that stands
    for several.
    """

    def __init__(self, base: int, path: str, place: Callable[[ast.Span], ast.Span] | None = None) -> None:
        super().__init__(base, path, place)
        self.operators: set[int] = set()
        self.choices = False

    def match(self, tree: Part) -> ast.Match:
        if tree.data == "match_graph":
            return ast.Match(graph=True, items=tuple(self._item(item) for item in tree.children), span=self.span(tree))
        inside, *lines = tree.children
        if not lines:
            helps = ("write a line such as `y = Relu(x)`; `match graph { }` matches once a model",)
            self.problem("E004", "this `match` holds no pattern", self.span(tree), "nothing to look for", helps)
        nodes = tuple(self._pattern(line) for line in lines)
        return ast.Match(nodes=nodes, inside=None if inside is None else self._inside(inside), span=self.span(tree))

    def _inside(self, place: Part) -> ast.Inside:
        words = [str(word) for word in place.children]
        span = self.span(place)
        if len(words) < 2:
            helps = ("name the attribute that holds the subgraph: inside Loop.body, inside If.then_branch",)
            self.problem("E012", f"`inside {words[0]}` does not say which subgraph", span, "which attribute?", helps)
        return ast.Inside(ast.Op(words[-2] if len(words) > 1 else "", ".".join(words[:-2]), span=span), words[-1], span)

    def _item(self, tree: Part) -> ast.GraphItem:
        word, kind, name = tree.children
        side: Any = str(word)
        return ast.GraphItem(side, self.new_name(name), self._type(kind), self.span(tree))

    def _pattern(self, tree: Part) -> ast.NodePattern:
        label, outputs, first, *others = tree.children
        names, more = self.outputs(outputs)
        own, node = first.children
        if own is not None and label is not None:
            helps = ("label the line, or each of its alternatives",)
            self.problem("E012", "this node has two labels", self.span(own), "the second", helps)
        made = self._node(node, self.label(own if label is None else label), names, more, self.span(tree))
        if not others:
            if own is not None:
                helps = ("a label stands at the beginning of the line: [n] y = Relu(x)",)
                self.problem("E012", "only one of several alternatives has its label here", self.span(own), "not here", helps)
            return made
        self.choices = True
        return replace(made, others=tuple(self._alternative(other, label, names, more) for other in others))

    def _alternative(self, tree: Part, label: Part, names: tuple[ast.Output, ...], more: bool) -> ast.NodePattern:
        """A further node that a line may be of; the label of the line is that of whichever is there."""
        own, node = tree.children
        if own is not None and label is not None:
            helps = ("label the line, or each of its alternatives",)
            self.problem("E012", "this node has two labels", self.span(own), "the second", helps)
        return self._node(node, self.label(label if own is None else own), names, more, self.span(tree))

    def label(self, tree: Part) -> str | None:
        return None if tree is None else self.new_name(tree.children[0])

    def outputs(self, tree: Part) -> tuple[tuple[ast.Output, ...], bool]:
        """Named outputs, and whether `...` ends them."""
        names, more = self._without_more(tree.children)
        return tuple(self._output(name) for name in names), more

    def _output(self, token: Part) -> ast.Output:
        span = self.span(token)
        if token.type == "ANY":
            return ast.Output(None, span=span)
        if token.type == "SPREAD":
            return ast.Output(token[1:].strip(), variadic=True, span=span)
        return ast.Output(self.new_name(token), span=span)

    def _without_more(self, parts: list[Part]) -> tuple[list[Part], bool]:
        """The parts that are there, and whether `...` stands at their end; anywhere else it is refused."""
        present = [part for part in parts if part is not None]
        named = [part for part in present if getattr(part, "type", "") != "MORE"]
        for at, part in enumerate(present[:-1]):
            if getattr(part, "type", "") == "MORE":
                self.problem("E012", "`...` stands once, at the end", self.span(present[at]), "not here")
        return named, len(named) < len(present)

    def _node(
        self, tree: Part, label: str | None, outputs: tuple[ast.Output, ...], more_outputs: bool, span: ast.Span
    ) -> ast.NodePattern:
        maybe, ordered, ops, chain, attrs, *rest = tree.children
        self.choices = self.choices or maybe is not None or chain is not None
        operands, more = self._without_more(rest)
        return ast.NodePattern(
            ops=tuple(self.op(op) for op in ops.children),
            inputs=tuple(self._operand(operand) for operand in operands),
            outputs=outputs,
            label=label,
            attrs=tuple(self._attr(attr) for attr in attrs.children if attr is not None) if attrs is not None else (),
            more_inputs=more,
            more_outputs=more_outputs,
            ordered=ordered is not None,
            span=span,
            ops_span=self.span(ops),
            maybe=maybe is not None,
            chain=chain is not None,
        )

    def op(self, tree: Part) -> ast.Op:
        name = tree.children[0]
        if tree.data == "any":
            return ast.Op("_", span=self.span(tree))
        words = [str(word) for word in name.children]
        if name.data == "param_op":
            if len(words) == 1:
                self.operators.add(self.span(name).start)
            return ast.Op(words[-1].removeprefix("@"), ".".join(words[:-1]), True, self.span(tree))
        return ast.Op(words[-1], ".".join(words[:-1]), False, self.span(tree))

    def _attr(self, tree: Part) -> ast.AttrPattern:
        name = tree.children[0]
        value = self.expr(tree.children[1]) if tree.data in ("attr_equals", "attr_either") else None
        self.choices = self.choices or tree.data == "attr_either"
        return ast.AttrPattern(str(name), tree.data[len("attr_") :], value, self.span(tree), self.span(name))

    def _operand(self, tree: Part) -> ast.Operand:
        span = self.span(tree)
        if not hasattr(tree, "children"):
            return ast.Wildcard(span)
        if tree.data == "variadic":
            return ast.Variadic(self.new_name(tree.children[0]), span)
        if tree.data == "const_pattern":
            dtype, value = tree.children
            return ast.ConstPattern(self.expr(value), None if dtype is None else str(dtype), span)
        if tree.data == "nested":
            label, node = tree.children
            return self._node(node, self.label(label), (), False, span)
        const, kind, name, optional = tree.children
        return ast.Capture(self.new_name(name), const is not None, optional is not None, self._type(kind), span)

    def _type(self, tree: Part) -> ast.TypePattern | None:
        """As in ONNX text: `float x` is a scalar, `float[] x` has any rank, like `float[...] x`."""
        if tree is None:
            return None
        name, dims = tree.children
        found = [] if dims is None else [self._dim(dim) for dim in dims.children if dim is not None]
        if found.count(...) > 1:
            self.problem("E012", "`...` stands once in a shape", self.span(dims), "which dimensions are which?")
        any_rank = dims is not None and found in ([], [...])
        dtype = None if name.type == "TENSOR" else str(name)
        return ast.TypePattern(dtype, None if any_rank else tuple(found), self.span(tree))

    def _dim(self, token: Part) -> int | str | EllipsisType | None:
        if token.type == "INT":
            return self.integer(token)
        if token.type == "MORE":
            return ...
        if token.type == "COLUMN":
            return str(token)
        return self.new_name(token) if token.type == "NAME" else None
