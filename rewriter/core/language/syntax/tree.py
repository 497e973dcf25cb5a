"""From lark's tree of one rule to `ast.Rule`: its header and its parts.

The grammar is looser than the language if one token of look-ahead is not enough. This module, `tree_patterns`,
`tree_rewrites` and `tree_expressions` reject the rest, with the place and the reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from types import EllipsisType
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.ast import Expr, Span
from rewriter.core.language.code_table import as_table
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.syntax.words import MAX_INT, MAX_STRING_LENGTH, MIN_INT, NUMBERS, reserved
from rewriter.core.record import replace

# From lark's tree to the expressions of `ast`: the half of the conversion that `where`, `let`, attributes and constants share.
#
# The tree is known to be at most `MAX_DEPTH` levels deep when it comes here, so plain recursion is safe. A bad rule raises no
# exception: text that the grammar accepts and the language does not becomes a diagnostic, and the conversion goes on.

Part = Any
"""A `Node` or token, or None for an optional part that is missing; only the grammar knows which child is which."""

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/"}
_MAX_DIGITS = 20


class ExpressionBuilder:
    """Converts the expressions of one rule; `base` is the offset of the rule's text in its file.

    `place` maps places of the text of a row back to the file. `calls` are the functions that it calls.
    """

    def __init__(self, base: int, path: str, place: Callable[[Span], Span] | None = None) -> None:
        self.base = base
        self.path = path
        self.place = place
        self.problems: list[Diagnostic] = []
        self.calls: set[str] = set()
        self._expressions: dict[str, Callable[[Part], Expr]] = {
            "name": self._name,
            "dtype": lambda t: ast.Name(str(t.children[0]), self.span(t)),
            "column": lambda t: ast.Name(str(t.children[0]), self.span(t)),
            "integer": self._integer,
            "real": self._real,
            "string": lambda t: ast.Literal(self.string(t.children[0]), self.span(t)),
            "true": lambda t: ast.Literal(True, self.span(t)),
            "false": lambda t: ast.Literal(False, self.span(t)),
            "none": lambda t: ast.Literal(None, self.span(t)),
            "list": lambda t: ast.ListOf(self.exprs(t.children), self.span(t)),
            "call": self._call,
            "get_field": lambda t: ast.Field(self.expr(t.children[0]), str(t.children[1]), self.span(t)),
            "get_index": lambda t: ast.Index(self.expr(t.children[0]), self.expr(t.children[1]), self.span(t)),
            "slice_from": lambda t: ast.Range(self.expr(t.children[0]), None, self.span(t)),
            "slice_to": lambda t: ast.Range(None, self.expr(t.children[0]), self.span(t)),
            "slice_both": lambda t: ast.Range(self.expr(t.children[0]), self.expr(t.children[1]), self.span(t)),
            "binary": self._binary,
            "negative": self._negative,
            "comparison": lambda t: self._compare(t, str(t.children[1]), 2),
            "contained": lambda t: self._compare(t, "in", 1),
            "not_contained": lambda t: self._compare(t, "not in", 1),
            "less": lambda t: self._compare(t, "<", 1),
            "greater": lambda t: self._compare(t, ">", 1),
            "negation": lambda t: ast.Unary("not", self.expr(t.children[0]), self.span(t)),
            "conjunction": lambda t: ast.Logic("and", self.exprs(t.children), self.span(t)),
            "disjunction": lambda t: ast.Logic("or", self.exprs(t.children), self.span(t)),
            "choice": self._choice,
            "quantified": self._quantified,
        }

    def problem(self, code: str, message: str, span: Span, label: str = "", helps: tuple[str, ...] = ()) -> None:
        self.problems.append(Diagnostic(code, message, span, label, (), helps, self.path))

    def span(self, part: Part) -> Span:
        """The place of a tree or token in the file."""
        span = Span(self.base + part.start_pos, self.base + part.end_pos)
        return span if self.place is None else self.place(span)

    def new_name(self, token: Part) -> str:
        """A name that the rule defines. Words of the language are rejected."""
        why = reserved(token)
        if why:
            helps = (f"choose another name, for instance `{token}_`",) if token != "_" else ()
            self.problem("E008", f"`{token}` {why} and cannot be used as a name", self.span(token), "not a name", helps)
        return str(token)

    def expr(self, tree: Part) -> Expr:
        return self._expressions[tree.data](tree)

    def exprs(self, trees: Iterable[Part]) -> tuple[Expr, ...]:
        return tuple(self.expr(tree) for tree in trees if tree is not None)

    def integer(self, token: Part) -> int:
        """An integer without its sign. A number that is too large is reported and read as 0."""
        if token.type == "COLUMN":
            return 0  # each row has its own
        value = int(token) if len(token) <= _MAX_DIGITS else MAX_INT + 1
        if value > MAX_INT:
            self.problem("E010", "this number does not fit in 64 bits", self.span(token), f"at most {MAX_INT}")
            return 0
        return value

    def real(self, token: Part) -> float:
        value = float(token)
        if math.isinf(value):
            self.problem("E010", "this number is too large for a float", self.span(token))
            return 0.0
        return value

    def string(self, token: Part) -> str:
        """The text of a string literal, without quotes and escapes."""
        if len(token) > MAX_STRING_LENGTH:
            self.problem("E003", f"this string is longer than {MAX_STRING_LENGTH:,} characters", self.span(token))
            return ""
        text = str(token[1:-1])
        return _ESCAPE.sub(lambda m: self._escape(token, m), text) if "\\" in text else text

    def _escape(self, token: Part, escape: re.Match[str]) -> str:
        letter = escape[1]
        if len(letter) > 1 and not 0xD800 <= int(letter[1:], 16) <= 0xDFFF:
            return chr(int(letter[1:], 16))
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        start = self.span(token).start + 1 + escape.start()
        where = Span(start, start + len(escape[0]))
        helps = (r"known are \n, \t, \r, \", \\ and \uXXXX; write `\\` for a backslash",)
        self.problem("E010", f"`{escape[0]}` is no escape sequence", where, "in this string", helps)
        return ""

    def _name(self, tree: Part) -> Expr:
        word = str(tree.children[0])
        return ast.Literal(NUMBERS[word], self.span(tree)) if word in NUMBERS else ast.Name(word, self.span(tree))

    def _integer(self, tree: Part) -> Expr:
        return ast.Literal(self.integer(tree.children[0]), self.span(tree))

    def _real(self, tree: Part) -> Expr:
        return ast.Literal(self.real(tree.children[0]), self.span(tree))

    def _negative(self, tree: Part) -> Expr:
        """`-1` is a literal; every other minus is an operation."""
        span = self.span(tree)
        operand = self.expr(tree.children[0])
        if not isinstance(operand, ast.Literal) or isinstance(operand.value, (bool, str, type(None))):
            return ast.Unary("-", operand, span)
        if isinstance(operand.value, int) and -operand.value < MIN_INT:
            self.problem("E010", "this number does not fit in 64 bits", span, f"at least {MIN_INT}")
            return ast.Literal(0, span)
        return ast.Literal(-operand.value, span)

    def _binary(self, tree: Part) -> Expr:
        left, op, right = tree.children
        sign: Any = str(op)
        return ast.Binary(sign, self.expr(left), self.expr(right), self.span(tree))

    def _compare(self, tree: Part, op: Any, right: int) -> Expr:
        return ast.Compare(op, self.expr(tree.children[0]), self.expr(tree.children[right]), self.span(tree))

    def _choice(self, tree: Part) -> Expr:
        then, test, other = self.exprs(tree.children)
        return ast.Choice(then, test, other, self.span(tree))

    def _quantified(self, tree: Part) -> Expr:
        word, name, over, condition = tree.children
        quantifier: Any = str(word)
        items, test = self.expr(over), self.expr(condition)
        return ast.Quantified(quantifier, self.new_name(name), items, test, self.span(tree), self.span(name))

    def _call(self, tree: Part) -> Expr:
        name = tree.children[0]
        self.calls.add(str(name))
        return ast.Call(str(name), self.exprs(tree.children[1:]), self.span(tree), self.span(name))


# From lark's tree to patterns: nodes, operands, attributes and types of a `match` block.


class PatternBuilder(ExpressionBuilder):
    """Converts `match` blocks, and the parts that rewrites share with them: labels, outputs, operators.

    `operators` are the places where `@name` is an operator. `choices` is true if the pattern or a rewrite has a form that
    becomes several.
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
            self.problem("E004", "this `match` has no pattern", self.span(tree), "nothing to look for", helps)
        nodes = tuple(self._pattern(line) for line in lines)
        return ast.Match(nodes=nodes, inside=None if inside is None else self._inside(inside), span=self.span(tree))

    def _inside(self, place: Part) -> ast.Inside:
        words = [str(word) for word in place.children]
        span = self.span(place)
        if len(words) < 2:
            helps = ("name the attribute that holds the subgraph: inside Loop.body, inside If.then_branch",)
            self.problem("E012", f"`inside {words[0]}` does not name a subgraph", span, "which attribute?", helps)
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
        pattern_node = self._node(node, self.label(own if label is None else label), names, more, self.span(tree))
        if not others:
            if own is not None:
                helps = ("write a label at the beginning of the line: [n] y = Relu(x)",)
                self.problem("E012", "only one of several alternatives has its label here", self.span(own), "not here", helps)
            return pattern_node
        self.choices = True
        return replace(pattern_node, others=tuple(self._alternative(other, label, names, more) for other in others))

    def _alternative(self, tree: Part, label: Part, names: tuple[ast.Output, ...], more: bool) -> ast.NodePattern:
        """An alternative node of a line. The label of the line names the alternative that matched."""
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
        """The parts that are present, and whether `...` is at their end. At any other position `...` is rejected."""
        present = [part for part in parts if part is not None]
        named = [part for part in present if getattr(part, "type", "") != "MORE"]
        for at, part in enumerate(present[:-1]):
            if getattr(part, "type", "") == "MORE":
                self.problem("E012", "write `...` once, at the end", self.span(present[at]), "not here")
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
            self.problem("E012", "write `...` once in a shape", self.span(dims), "which dimensions are which?")
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


# From lark's tree to the statements of `rewrite` blocks.


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
        _, name, base, field, test, body = tree.children
        statement = self._assign(body)
        one = isinstance(statement, ast.Build) and [output.name for output in statement.outputs] == [str(name)]
        if not isinstance(statement, ast.Build) or not one or statement.outputs[0].variadic:
            helps = (f"write {{ {name} = Cast<to=float>({name}) }}",)
            self.problem("E012", f"`each` makes one node in the place of `{name}`", self.span(body), "another form", helps)
            statement = ast.Build((), ast.Op("Identity"), (), ())
        condition = None if test is None else self.expr(test)
        value = statement if field == "outputs" else replace(statement, outputs=())
        place = self.new_name(name), str(base), None if field is None else str(field)
        return ast.Each(*place, condition, value, self.span(tree), self.span(name))

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
            self.problem("E012", "one output replaces one tensor", self.span(left), "one name is needed", helps)
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
        if tree.data == "column_node":  # its content comes from the rows
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


_RANKS = {"match": 0, "match_graph": 0, "rewrite": 1, "test": 2}


class RuleBuilder(RewriteBuilder):
    """Converts one rule. Its errors are in `problems` afterwards. A rule with problems must not be used.

    Attributes:
        text: the text of the file; its lines separate the rows of a table.
        slug_span: the place of the rule's name.
        test_codes: the tests that name their row: its code, and the place of the test.
    """

    def __init__(self, text: str, base: int, path: str, place: Callable[[ast.Span], ast.Span] | None = None) -> None:
        super().__init__(base, path, place)
        self.text = text
        self.slug_span = ast.NOWHERE
        self.test_codes: list[tuple[ast.Cell, ast.Span]] = []

    def rule(self, tree: Part) -> ast.Rule:
        docs = [part for part in tree.children if getattr(part, "type", "") == "DOC"]
        code, slug, header, table, *parts = tree.children[len(docs) :]
        self.slug_span = self.span(slug)
        of = {kind: list(group) for kind, group in groupby(sorted(parts, key=_kind), key=_kind)}
        self._complete(parts, of, code)
        return ast.Rule(
            code=str(code),
            slug=str(slug),
            doc=tuple(doc[3:].removeprefix(" ").rstrip() for doc in docs),
            meta=tuple(self._meta(item) for item in header.children if item is not None) if header is not None else (),
            match=self.match(of["match"][0]) if "match" in of else ast.Match(),
            rewrites=tuple(self.rewrite(part) for part in of.get("rewrite", ())),
            params=tuple(self._param(part) for part in of.get("param", ())),
            privates=tuple(self._private(part) for part in of.get("private", ())),
            wheres=tuple(ast.Where(self.expr(part.children[0]), self.span(part)) for part in of.get("where", ())),
            lets=tuple(self._let(part) for part in of.get("let", ())),
            tests=tuple(self._test(part) for part in of.get("test", ())),
            span=self.span(tree),
            code_span=self.span(code),
            table=None if table is None else self._table(table),
        )

    def define(self, tree: Part) -> ast.Define:
        """`define name(a, b) = expression`."""
        docs = [part for part in tree.children if getattr(part, "type", "") == "DOC"]
        begin = self.text.find("define", self.span(docs[-1]).end if docs else self.span(tree).start)
        name, *params, body = (part for part in tree.children[len(docs) :] if part is not None)
        return ast.Define(
            self.new_name(name),
            tuple(self.new_name(param) for param in params),
            self.expr(body),
            tuple(doc[3:].removeprefix(" ").rstrip() for doc in docs),
            " ".join(self.text[begin : self.span(tree).end].split()),
            self.span(tree),
            self.span(name),
        )

    def _table(self, tree: Part) -> ast.Table:
        cells = [ast.Cell(str(cell), self.span(cell)) for cell in tree.children if cell.type != "DOC"]
        docs = tuple(ast.Cell(str(doc), self.span(doc)) for doc in tree.children if doc.type == "DOC")
        return replace(as_table(self.text, cells, self.span(tree)), docs=docs)

    def _complete(self, parts: list[Part], of: dict[str, list[Part]], code: Part) -> None:
        """One `match`, at least one `rewrite`, and everything in its order."""
        if "match" not in of:
            helps = ("add the pattern of the rule: match { y = Relu(x) }",)
            self.problem("E004", f"rule {code} has no `match`", self.span(code), "nothing to look for", helps)
        for again in of.get("match", [])[1:]:
            helps = ("a pattern may hold several connected nodes; for two patterns write two rules",)
            if {part.data for part in of["match"]} == {"match", "match_graph"}:
                helps = ("test whether a tensor is an input or output of the model: where is_input(x)",)
            self.problem("E005", f"rule {code} has two `match` blocks", self._first_word(again), "one too many", helps)
        if "rewrite" not in of:
            helps = ("add the result of the rule: rewrite { y = x }",)
            self.problem("E006", f"rule {code} has no `rewrite`", self.span(code), "nothing to do", helps)
        highest: Part = None
        for part in parts:
            if highest is None or _rank(part) > _rank(highest):
                highest = part
            elif _rank(part) < _rank(highest):
                helps = ("the order is: match, where, let, private and param; then rewrite; then test",)
                message = f"`{_kind(part)}` comes after `{_kind(highest)}`"
                self.problem("E007", message, self._first_word(part), "too late", helps)

    def _first_word(self, part: Part) -> ast.Span:
        start = self.span(part).start
        return ast.Span(start, start + len(_kind(part)))

    def _meta(self, tree: Part) -> ast.MetaItem:
        key, value = tree.children
        return ast.MetaItem(str(key), self._meta_value(str(key), value), self.span(tree), self.span(value))

    def _meta_value(self, key: str, value: Part) -> str | ast.OpsetRange | ast.Kind | ast.Evidence | tuple[str, ...]:
        if not hasattr(value, "children"):
            return str(value) if value.type == "COLUMN" else self.string(value)
        if value.data == "words":
            words = [word for word in value.children if word is not None]
            return tuple(self.string(word) if word.type == "STRING" else str(word) for word in words)
        if value.data != "word":
            return self.range(value)
        name, bounds = value.children
        if key == "kind":
            return self._kind_of_rule(value)
        if key == "evidence":
            return self._evidence(value)
        if bounds is not None:
            helps = (f"write just `{name}`",)
            message = f"only `kind` and `evidence` have something in parentheses, not `{key}`"
            self.problem("E011", message, self.span(bounds), "not here", helps)
        return str(name)

    def _evidence(self, tree: Part) -> ast.Evidence:
        name, inside = tree.children
        runtime = ""
        if inside is not None and inside.data == "runtime":
            runtime = str(inside.children[0])
        elif inside is not None:
            helps = ("write the name of a runtime: refused(onnxruntime)",)
            self.problem("E011", "evidence has no bounds", self.span(inside), "not here", helps)
        return ast.Evidence(str(name), runtime, self.span(tree))

    def _kind_of_rule(self, tree: Part) -> ast.Kind:
        name, bounds = tree.children
        values = {"rtol": 0.0, "atol": 0.0}
        if bounds is not None and bounds.data == "runtime":
            helps = ("write bounds with their names: approx(rtol=1e-4, atol=1e-6)",)
            self.problem("E011", "a kind has bounds in parentheses", self.span(bounds), "not a bound", helps)
            bounds = None
        tokens = [] if bounds is None else bounds.children
        for key, number in zip(tokens[::2], tokens[1::2], strict=True):
            if key in values:
                values[str(key)] = self.real(number)
            else:
                helps = ("known are rtol and atol: approx(rtol=1e-4, atol=1e-6)",)
                self.problem("E011", f"there is no bound `{key}`", self.span(key), "unknown", helps)
        return ast.Kind(str(name), values["rtol"], values["atol"], self.span(tree))

    def _param(self, tree: Part) -> ast.Param:
        name, kind, default = tree.children
        return ast.Param(self.new_name(name), str(kind), None if default is None else self.expr(default), self.span(tree))

    def _private(self, tree: Part) -> ast.Private:
        return ast.Private(tuple(str(name) for name in tree.children), self.span(tree))

    def _let(self, tree: Part) -> ast.Let:
        name, value = tree.children
        return ast.Let(self.new_name(name), self.expr(value), self.span(tree))

    def _test(self, tree: Part) -> ast.Test:
        code, title, beside, *rest = tree.children
        rest = [part for part in rest if part is not None]
        if code is not None:
            self.test_codes.append((ast.Cell(str(code), self.span(code)), self.span(tree)))
        texts = [self._fence(part) for part in rest if getattr(part, "type", "") == "FENCE"]
        after, after_span = texts[1] if len(texts) > 1 else (None, ast.NOWHERE)
        marks = [part for part in rest if getattr(part, "type", "") in ("BECOMES", "UNCHANGED", "TWIN")]
        if len(marks) != 1:
            helps = ("write `unchanged ~~~ model ~~~`, or `~~~ model ~~~ becomes ~~~ model ~~~`",)
            message = "this test has two results" if marks else "this test has no result: becomes, unchanged or twin"
            self.problem("E012", message, self.span(marks[-1] if marks else title), "in this test", helps)
        sources = [part for part in rest if getattr(part, "data", "") == "source"]
        for again in sources[1:]:
            self.problem("E012", "a test has one `source`", self.span(again), "the second")
        settings = [part.children for part in rest if getattr(part, "data", "") == "setting"]
        return ast.Test(
            title=self.string(title),
            before=texts[0][0],
            after=after,
            settings=tuple((str(name), self.expr(value)) for name, value in settings),
            source=self._fence(sources[0].children[0])[0] if sources else None,
            twin=any(mark.type == "TWIN" for mark in marks),
            span=self.span(tree),
            before_span=texts[0][1],
            after_span=after_span,
            beside=() if beside is None else tuple(map(str, beside.children)),
        )

    def _fence(self, token: Part) -> tuple[str, ast.Span]:
        """The text between two `~~~` without the blanks around it."""
        inner = token[3:-3]
        text = str(inner.strip())
        start = self.span(token).start + 3 + len(inner) - len(inner.lstrip())
        return text, ast.Span(start, start + len(text))


def _kind(part: Part) -> str:
    return str(part.data).removesuffix("_graph")


def _rank(part: Part) -> int:
    return _RANKS.get(part.data, 0)
