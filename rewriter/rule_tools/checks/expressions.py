"""The static types of expressions: errors that can be found before a model is seen.

Types are inferred from the pattern (captures, attributes by their schema) and from the table of functions. The checker reports
no error about unknown types (`any`), so every error that it reports is certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import canonical, pattern_nodes
from rewriter.core.language.functions import FAULTS, FUNCTIONS, MODEL_FACTS
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import record
from rewriter.rule_tools.checks.context import Binding, CheckContext, NameScope, did_you_mean

# Static types of expressions, as words, and which type is allowed in place of which.
#
#     bool int float number string list ints floats strings dtype none any
#     flag      an integer attribute: a number that also counts as true or false, like `transB`
#     dim       a dimension: a number or a symbolic name
#     op        a parameter that names an operator
#     array     a constant that the rule computes
#     tensor    a value of the graph, known at run time only
#     const     a tensor that the pattern requires to be constant: allowed in place of a tensor and of an array
#     tensors   `*parts`, `n.inputs`
#     node      a label; `graph` a subgraph attribute; `model` the model; `range` a range of positions
#
# `any` is an unknown type; it is allowed everywhere and never causes a message.

WORDS = {
    "any": "anything", "bool": "true or false", "int": "an integer", "float": "a number", "number": "a number",
    "string": "a text", "list": "a list", "ints": "a list of integers", "floats": "a list of numbers",
    "strings": "a list of texts", "dtype": "an element type", "none": "nothing", "flag": "an integer", "dim": "a dimension",
    "op": "an operator", "array": "a constant array", "tensor": "a tensor", "const": "a constant tensor",
    "tensors": "a list of tensors", "node": "a node", "graph": "a subgraph", "model": "the model",
    "range": "a range of positions",
}  # fmt: skip

NUMBERS = frozenset({"int", "float", "number", "flag", "dim"})
LISTS = frozenset({"list", "ints", "floats", "strings"})
ARRAYS = frozenset({"array", "const"})

_FITS: dict[str, frozenset[str]] = {
    "bool": frozenset({"bool", "flag"}),
    "int": frozenset({"int", "flag", "dim", "number"}),
    "float": NUMBERS,
    "number": NUMBERS,
    "string": frozenset({"string", "op", "dim"}),
    "list": LISTS,
    "ints": frozenset({"ints", "list"}),
    "floats": frozenset({"ints", "floats", "list"}),
    "strings": frozenset({"strings", "list"}),
    "array": ARRAYS,
    "tensor": frozenset({"tensor", "const"}),
    "tensors": frozenset({"tensors"}),
    "dtype": frozenset({"dtype"}),
    "node": frozenset({"node"}),
    "range": frozenset({"range"}),
    "dim": frozenset({"dim", "int", "string", "flag"}),
}

_ATTRIBUTES: dict[str, frozenset[str]] = {
    "int": frozenset({"int", "flag", "dim", "bool", "dtype", "number"}),
    "float": NUMBERS,
    "string": frozenset({"string", "op"}),
    "ints": frozenset({"ints", "list", "array", "const"}),
    "floats": frozenset({"ints", "floats", "list", "array", "const"}),
    "strings": frozenset({"strings", "list"}),
    "tensor": frozenset({"array", "const", "bool", *NUMBERS, *LISTS}),
}


def fits(actual: str, wanted: str) -> bool:
    """True if an expression of one type is allowed in place of another (`a|b`: one of several)."""
    if actual == "any" or wanted == "any":
        return True
    return any(word == "any" or actual in _FITS.get(word, (word,)) for word in wanted.split("|"))


def fits_attribute(actual: str, kinds: Iterable[str]) -> bool:
    """True if a value of that type can be an attribute of one of the kinds (`schema.Attribute.kind`)."""
    return actual == "any" or any(actual in _ATTRIBUTES.get(kind, ()) for kind in kinds)


def of_attribute(kinds: Iterable[str]) -> str:
    """The type of a captured attribute of one of these kinds."""
    words = {{"int": "flag", "tensor": "array", "tensors": "any"}.get(kind, kind) for kind in kinds}
    word = words.pop() if len(words) == 1 else "any"
    return word if word in WORDS else "any"


def join(types: Iterable[str]) -> str:
    """The narrowest type that covers all of them."""
    words = set(types)
    if len(words) == 1:
        return words.pop()
    if words and words <= NUMBERS:
        return "number"
    if words and words <= LISTS:
        return "list"
    return "any"


def describe(word: str) -> str:
    """`int|ints` → "an integer or a list of integers"."""
    return " or ".join(dict.fromkeys(WORDS.get(part, part) for part in word.split("|")))


NODE_FIELDS = {"inputs": "tensors", "outputs": "tensors", "op": "string", "doc_string": "string"}
TENSOR_FIELDS = {"shape": "list", "dtype": "dtype", "name": "string"}
MODEL_FIELDS = {
    "ir_version": "int", "opset": "int", "producer_name": "string", "producer_version": "string", "name": "string",
    "doc_string": "string", "outputs": "list",
}  # fmt: skip
_MODEL_READS = {**MODEL_FIELDS, **dict.fromkeys(FAULTS, "list"), **dict.fromkeys(MODEL_FACTS, "int")}


@record
class Types:
    """Infers and checks the expressions of one scope."""

    context: CheckContext
    scope: NameScope

    def of(self, expr: ast.Expr) -> str:
        """The type of an expression; errors inside it are reported, and count as `any` from there on."""
        match expr:
            case ast.Literal():
                return _literal(expr.value)
            case ast.Name():
                return self._name(expr)
            case ast.Field():
                return self._field(expr)
            case ast.Range():
                for end in (expr.start, expr.stop):
                    if end is not None:
                        self.want(end, "int", "the end of a range")
                return "range"
            case ast.Index():
                return self._index(expr)
            case ast.ListOf():
                return self._list(expr)
            case ast.Call():
                return self._call(expr)
            case ast.Unary():
                return self._unary(expr)
            case ast.Binary():
                return self._binary(expr)
            case ast.Compare():
                return self._compare(expr)
            case ast.Logic():
                for operand in expr.operands:
                    self.truth(operand, f"an operand of `{expr.op}`")
                return "bool"
            case ast.Choice():
                self.truth(expr.test, "the test of `if`")
                return join((self.of(expr.then), self.of(expr.other)))
            case ast.Quantified():
                return self._quantified(expr)

    def want(self, expr: ast.Expr, wanted: str, role: str) -> str:
        """Checks that an expression has the wanted type; returns its type."""
        actual = self.of(expr)
        if not fits(actual, wanted):
            self.mismatch(expr, actual, f"{role} must be {describe(wanted)}", wanted)
        return actual

    def truth(self, expr: ast.Expr, role: str) -> None:
        """Checks that an expression is a condition."""
        actual = self.of(expr)
        if actual in ARRAYS:
            self.context.report(
                "E206",
                f"{role} must be true or false, this compares element by element",
                expr.span,
                "one truth value for each element",
                helps=("write all(...) or any(...)",),
            )
        elif actual == "tensor":
            self.runtime(expr)
        elif not fits(actual, "bool"):
            self.mismatch(expr, actual, f"{role} must be true or false", "bool")

    def mismatch(self, expr: ast.Expr, actual: str, message: str, wanted: str) -> None:
        """Reports a type error, or, for a tensor of the graph in place of a constant, how to make it a constant."""
        constants = ARRAYS | LISTS | NUMBERS | {"bool", "string"}
        if actual == "tensor" and set(wanted.split("|")) & constants:
            self.runtime(expr)
        else:
            named = actual == "string" and {"tensor", "node"} & set(wanted.split("|"))
            helps = ("write names of the pattern without quotes",) if named else ()
            self.context.report("E206", message, expr.span, f"this is {describe(actual)}", helps=helps)

    def runtime(self, expr: ast.Expr) -> None:
        """Reports the use of a tensor's value that only running the model would give."""
        name = expr.id if isinstance(expr, ast.Name) else None
        what = f"`{name}`" if name else "this tensor"
        binding = self.scope.names.get(name) if name else None
        helps = ["ask for a fact instead: rank, shape, dim, dtype, value, ..."]
        if binding is not None and binding.kind == "tensor" and not binding.output:
            helps.insert(0, f"write `const {name}` in the pattern to match constants only")
        message = f"the elements of {what} are not known while rewriting"
        self.context.report("E205", message, expr.span, "a run-time value", helps=helps)

    def nothing_is_nan(self, span: ast.Span) -> None:
        """Reports a comparison that is never true."""
        message, helps = "no value equals `nan`, or is less or greater", ("write isnan(x), or any(isnan(x))",)
        self.context.report("E206", message, span, "never true", helps=helps)

    def op_param(self, op: ast.Op, accepted: tuple[str, ...] = ("op",)) -> None:
        """Reports `@name` as an operator if the name is no parameter for one."""
        found = self.scope.use(op.name, op.span)
        if found is not None and found.type not in accepted:
            message = f"`{op.name}` is not a parameter of type `op`"
            helps = (f"declare it so: param {op.name}: op",)
            self.context.report("E213", message, op.span, f"this is {describe(found.type)}", helps=helps)

    # --- Names and fields ------------------------------------------------------------------------------------------------

    def _name(self, expr: ast.Name) -> str:
        if expr.id in DTYPES and expr.id not in self.scope.names:
            return "dtype"
        if expr.id == "model":
            return "model"
        found = self.scope.use(expr.id, expr.span)
        return found.type if found else "any"

    def _field(self, expr: ast.Field) -> str:
        base = self.of(expr.value)
        if base == "node" and isinstance(expr.value, ast.Name):
            return self._node_field(expr, expr.value.id)
        fields = {"tensor": TENSOR_FIELDS, "const": TENSOR_FIELDS, "model": _MODEL_READS}.get(base)
        if fields is not None:
            if expr.name in fields:
                return fields[expr.name]
            self._no_field(expr, describe(base), tuple(fields))
        elif base not in ("any", "node"):
            self.context.report(
                "E209",
                f"{describe(base)} has no fields",
                expr.span,
                helps=("only nodes, tensors and the model have fields",),
            )
        return "any"

    def _node_field(self, expr: ast.Field, label: str) -> str:
        if expr.name in NODE_FIELDS:
            return NODE_FIELDS[expr.name]
        return self.attribute_of(label, expr.name, expr.span)

    def attribute_of(self, label: str, name: str, span: ast.Span) -> str:
        """The type of an attribute of a labelled node; reported if none of its operators ever had the attribute."""
        found = self.scope.names.get(label)
        ops = found.ops if found else ()
        kinds: set[str] = set()
        for op in ops:
            if op.param or not schema.history(op.name, op.domain):
                return "any"
            kinds |= schema.attribute_kinds(op.name, op.domain, name)
        if kinds or not ops:
            return of_attribute(kinds)
        names = sorted({attr for op in ops for attr in schema.all_attributes(op.name, op.domain)})
        self.context.report(
            "E102",
            f"`{ops[0].name}` has no attribute `{name}` in any opset",
            span,
            "unknown attribute",
            notes=(f"its attributes: {', '.join(names)}" if names else "it has no attributes",),
            helps=did_you_mean(name, [*names, *NODE_FIELDS]),
        )
        return "any"

    def _no_field(self, expr: ast.Field, what: str, fields: tuple[str, ...]) -> None:
        helps = did_you_mean(expr.name, fields)
        if expr.name in FUNCTIONS and isinstance(expr.value, ast.Name):
            helps = (f"write {expr.name}({expr.value.id})",)
        tensor = expr.value.id if isinstance(expr.value, ast.Name) else ""
        for node in pattern_nodes(self.context.rule.match):
            made = any(output.name == tensor for output in node.outputs)
            if made and any(expr.name in schema.all_attributes(op.name, op.domain) for op in node.ops):
                line = f"label its node, [n] {tensor} = {node.ops[0].name}(...), and " if node.label is None else ""
                helps = (f"`{expr.name}` is an attribute: {line}write {node.label or 'n'}.{expr.name}",)
        self.context.report(
            "E209", f"{what} has no field `{expr.name}`", expr.span, notes=(f"its fields: {', '.join(fields)}",), helps=helps
        )

    def _index(self, expr: ast.Index) -> str:
        base = self.of(expr.value)
        index = self.want(expr.index, "int|range", "a position")
        if isinstance(expr.index, ast.Range) and (end := _counted(expr.value, expr.index.stop)):
            helps = (f"write ..{end} - 1, or no end",)
            message = "this range ends one item too late: both ends are included"
            self.context.report("E206", message, expr.index.span, "off by one", helps=helps)
        if base == "tensor":
            self.runtime(expr.value)
            return "any"
        if base in LISTS or base in ARRAYS or base in ("string", "tensors"):
            return base if index == "range" else _ITEM.get(base, "any")
        if base != "any":
            self.context.report("E206", f"{describe(base)} has no items", expr.span, "cannot be indexed")
        return "any"

    def _list(self, expr: ast.ListOf) -> str:
        items = {self.of(item) for item in expr.items}
        for word, listed in (("int", "ints"), ("float", "floats"), ("string", "strings")):
            if items == {word}:
                return listed
        return "floats" if items == {"int", "float"} else "list"

    def _quantified(self, expr: ast.Quantified) -> str:
        over = self.want(expr.over, "tensors|list", f"what `{expr.quantifier} {expr.name} in` goes through")
        item = "tensor" if over == "tensors" else _ITEM.get(over, "any")
        with self.scope.item(Binding(expr.name, "item", item, expr.name_span)):
            self.truth(expr.condition, f"the condition of `{expr.quantifier}`")
        return "int" if expr.quantifier == "count" else "bool"

    # --- Calls -----------------------------------------------------------------------------------------------------------

    def _call(self, expr: ast.Call) -> str:
        function = FUNCTIONS.get(expr.function)
        if function is None:
            for arg in expr.args:
                self.of(arg)
            self._unknown_function(expr)
            return "any"
        count = len(expr.args)
        if count < function.minimum or (function.maximum is not None and count > function.maximum):
            few = "few" if count < function.minimum else "many"
            message = f"too {few} arguments for `{function.name}`: {count}"
            self.context.report("E208", message, expr.span, notes=(f"{function.signature}: {function.doc}",))
            return "any"
        actual = [
            self.want(arg, function.argument(i), f"argument {i + 1} of `{function.name}`") for i, arg in enumerate(expr.args)
        ]
        if function.name == "has":
            self._has(expr)
        return _result(function.result, actual)

    def _has(self, expr: ast.Call) -> None:
        node, attr = expr.args[0], expr.args[1]
        if isinstance(node, ast.Name) and isinstance(attr, ast.Literal) and isinstance(attr.value, str):
            self.attribute_of(node.id, attr.value, attr.span)

    def _unknown_function(self, expr: ast.Call) -> None:
        span = expr.name_span if expr.name_span != ast.NOWHERE else expr.span
        define = self.context.defines.get(expr.function)
        if define is not None:
            if len(define.params) == len(expr.args):
                return  # in the body of another one
            few = "few" if len(expr.args) < len(define.params) else "many"
            message = f"too {few} arguments for `{define.name}`: {len(expr.args)}"
            self.context.report("E208", message, expr.span, notes=(define.text,))
            return
        helps = did_you_mean(expr.function, [*FUNCTIONS, *self.context.defines])
        if expr.function in DTYPES:
            helps = (f"write cast(x, {expr.function}) for a constant of this element type",)
        notes: tuple[str, ...] = ()
        if schema.history(expr.function, ""):
            notes = (f"`{expr.function}` is an operator: new nodes are made by lines of `rewrite`, not inside expressions",)
        elif not helps:
            notes = ("`rewriter explain functions` lists all functions",)
        self.context.report("E207", f"there is no function `{expr.function}`", span, "unknown function", notes, helps)

    # --- Operators -------------------------------------------------------------------------------------------------------

    def _unary(self, expr: ast.Unary) -> str:
        if expr.op == "not":
            self.truth(expr.operand, "the operand of `not`")
            return "bool"
        actual = self.want(expr.operand, "number|array|list", "the operand of `-`")
        return "array" if actual in ARRAYS else "int" if actual in ("flag", "dim") else actual

    def _binary(self, expr: ast.Binary) -> str:
        left, right = self.of(expr.left), self.of(expr.right)
        if "any" in (left, right):
            return "any"
        for side, actual in ((expr.left, left), (expr.right, right)):
            if actual == "tensor":
                self.runtime(side)
                return "any"
        result = _arithmetic(expr.op, left, right)
        if result is None:
            self.context.report(
                "E206",
                f"`{expr.op}` does not work on {describe(left)} and {describe(right)}",
                expr.span,
                "cannot be computed",
            )
        return result or "any"

    def _compare(self, expr: ast.Compare) -> str:
        left, right = self.of(expr.left), self.of(expr.right)
        if any(map(is_nan, (expr.left, expr.right))):
            self.nothing_is_nan(expr.span)
            return "bool"
        if expr.op in ("in", "not in"):
            if not fits(right, "list|array|string|tensors"):
                self.mismatch(expr.right, right, f"the right side of `{expr.op}` must be a list or a text", "list|array|string")
            return "bool"
        if left in _TENSORS and right in _TENSORS and expr.op in ("==", "!="):
            return "bool"  # the same tensor
        for side, actual in ((expr.left, left), (expr.right, right)):
            if actual == "tensor":
                self.runtime(side)
                return "any"
        result = _comparison(expr.op, left, right)
        if result is None:
            self.context.report(
                "E206",
                f"`{expr.op}` cannot compare {describe(left)} with {describe(right)}",
                expr.span,
                "never comparable",
                helps=(type_in_quotes(expr.left) or type_in_quotes(expr.right)) if "dtype" in (left, right) else (),
            )
        return result or "bool"


_TENSORS = ("tensor", "const")
NUMPY_NAMES = {"float32": "float", "float64": "double", "bool_": "bool", "str": "string"}
"""Element types that have another name in ONNX text."""
_ITEM = {"ints": "int", "floats": "number", "strings": "string", "string": "string", "tensors": "tensor"}


def _counted(items: ast.Expr, end: ast.Expr | None) -> str:
    """`rank(x)` of `shape(x)`, or `len(p)` of `p`, if that is the end."""
    if not isinstance(end, ast.Call) or len(end.args) != 1 or end.function not in ("rank", "len"):
        return ""
    of = items.args[0] if end.function == "rank" and isinstance(items, ast.Call) and items.function == "shape" else items
    same = (end.function == "len" or of is not items) and canonical(of) == canonical(end.args[0])
    return f"{end.function}(...)" if same else ""


def is_nan(expr: object) -> bool:
    return isinstance(expr, ast.Literal) and isinstance(expr.value, float) and isnan(expr.value)


def type_in_quotes(expr: ast.Expr) -> tuple[str, ...]:
    """The help line for an element type in quotes."""
    if not isinstance(expr, ast.Literal) or not isinstance(expr.value, str):
        return ()
    name = NUMPY_NAMES.get(expr.value, expr.value)
    return (f"element types are written without quotes: {name}",) if name in DTYPES else ()


def _literal(value: object) -> str:
    if value is None:
        return "any"
    return {bool: "bool", int: "int", float: "float", str: "string"}[type(value)]


def _result(word: str, actual: list[str]) -> str:
    """The type of a call: see `functions` for the words that depend on the arguments."""
    if word == "same":
        return "array" if actual[0] == "const" else actual[0]
    scalar = all(kind in NUMBERS for kind in actual)
    if word == "reduced":
        return "number" if scalar or len(actual) == 1 else "any"
    if word in ("numeric", "truths"):
        if "any" in actual:
            return "any"
        return "array" if not scalar else "number" if word == "numeric" else "bool"
    return word


def _arithmetic(op: str, left: str, right: str) -> str | None:
    both = {left, right}
    if both <= NUMBERS:
        if op == "/" or "float" in both:
            return "float"
        if "number" in both:
            return "number"
        return "int"
    if both & ARRAYS:
        return "array" if both <= ARRAYS | NUMBERS | LISTS | {"bool"} else None
    if both & LISTS:
        if op == "+" and both <= LISTS:
            return join(both)
        if op == "*" and both & NUMBERS:
            return left if left in LISTS else right
        return "list" if both <= LISTS | NUMBERS else None
    if op == "+" and both <= {"string", "dim"}:
        return "string"
    return "string" if op == "*" and "string" in both and both & {"int", "flag"} else None


def _comparison(op: str, left: str, right: str) -> str | None:
    """The type of a comparison, or None if it is not allowed. A list against a number compares element by element."""
    both = {left, right}
    if "any" in both:
        return "any"
    if both <= NUMBERS:
        return "bool"
    if "bool" in both and both <= {"bool", "flag"}:
        return "bool" if op in ("==", "!=") else None
    if both <= {"string", "dim", "op"}:
        return "bool"
    if both & ARRAYS:
        return "array" if both <= ARRAYS | NUMBERS | LISTS | {"bool", "string"} else None
    if both <= LISTS:
        return "bool" if op in ("==", "!=") else None
    if both & LISTS:
        return "array" if both & NUMBERS or "string" in both else None
    if left == right and left in ("dtype", "node", "tensors"):
        return "bool" if op in ("==", "!=") else None
    return None
