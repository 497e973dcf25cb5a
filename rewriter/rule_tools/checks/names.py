"""The names that a pattern binds, in the order of its text, and whether its nodes are connected."""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast, schema
from rewriter.core.language.ast import pattern_nodes, walk
from rewriter.core.language.pattern import NotConnected, compile_pattern
from rewriter.core.language.schema import DTYPES
from rewriter.rule_tools.checks import expressions as types
from rewriter.rule_tools.checks.context import Binding, CheckContext, NameScope, did_you_mean
from rewriter.rule_tools.checks.expressions import Types, is_nan
from rewriter.rule_tools.checks.operators import check_operator, check_value

PARAM_TYPES = ("op", "dim", "int", "float", "bool", "string", "dtype", "ints")


class Pattern:
    """Binds the names of one match block."""

    def __init__(self, context: CheckContext, scope: NameScope) -> None:
        self.context = context
        self.scope = scope
        self.types = Types(context, scope)

    def bind(self, match: ast.Match) -> None:
        """Defines every name of the pattern in the scope and checks the expressions inside it."""
        if match.inside is not None:
            span = match.inside.span
            self.scope.define(Binding("outer", "node", "node", span, (match.inside.op,), uses=1))
            self._inside(match.inside)
        for item in match.items:
            self._tensor(item.name, item.span, "tensor", output=item.side == "output")
            if item.type is not None:
                self._type(item.type)
        output_spans = self._output_spans(match)
        for node in match.nodes:
            self._node(node, output_spans)

    def _inside(self, inside: ast.Inside) -> None:
        op = inside.op
        if op.is_any or not check_operator(self.context, op, in_pattern=False):
            return
        graphs = schema.subgraphs(op.name, op.domain)
        if inside.attr not in graphs:
            notes = (f"its subgraphs: {', '.join(graphs)}" if graphs else "it has no subgraph",)
            message = f"`{op.name}` has no subgraph `{inside.attr}`"
            self.context.report("E102", message, inside.span, "unknown subgraph", notes)

    def _output_spans(self, match: ast.Match) -> dict[str, ast.Span]:
        """The tensors that a matched node makes; two nodes cannot make the same one."""
        output_spans: dict[str, ast.Span] = {}
        for node in pattern_nodes(match):
            for output in node.outputs:
                if output.name is None:
                    continue
                if output.name in output_spans:
                    message = f"two outputs of the pattern are named `{output.name}`"
                    self.context.report("E202", message, output.span, "a tensor has one producer")
                output_spans[output.name] = output.span
        return output_spans

    def _node(self, node: ast.NodePattern, output_spans: dict[str, ast.Span]) -> None:
        if node.label is not None:
            self.scope.define(Binding(node.label, "node", "node", node.span, _named(node)))
        for output in node.outputs:
            if output.name is not None:
                self._tensor(output.name, output.span, "tensors" if output.variadic else "tensor", output=True)
        for op in node.ops:
            if op.param:
                self.types.op_param(op)
        for attr in node.attrs:
            self._attribute(node, attr)
        for operand in node.inputs:
            self._operand(operand, output_spans)

    def _operand(self, operand: ast.Operand, output_spans: dict[str, ast.Span]) -> None:
        match operand:
            case ast.Capture():
                self._capture(operand, output_spans)
            case ast.Variadic():
                self._tensor(operand.name, operand.span, "tensors", output=operand.name in output_spans)
            case ast.ConstPattern():
                if is_nan(operand.value):
                    self.types.nothing_is_nan(operand.span)
                self.types.want(operand.value, "array|list|number|bool|string", "a constant of the pattern")
                self._dtype(operand.dtype, operand.span)
            case ast.NodePattern():
                self._node(operand, output_spans)
            case ast.Wildcard():
                pass

    def _capture(self, operand: ast.Capture, output_spans: dict[str, ast.Span]) -> None:
        output = operand.name in output_spans
        if output and operand.optional:
            message = f"`{operand.name}` is made by a matched node, it cannot be optional"
            self.context.report("E215", message, operand.span, "always there")
        self._tensor(operand.name, operand.span, "const" if operand.const else "tensor", output)
        if operand.type is not None:
            self._type(operand.type)

    def _tensor(self, name: str, span: ast.Span, kind: str, output: bool) -> None:
        old = self.scope.names.get(name)
        if old is not None and old.kind in ("tensor", "variadic") and (old.type == "tensors") == (kind == "tensors"):
            old.uses += 1
            old.output |= output
            if kind == "const":
                old.type = "const"
            return
        word = "variadic" if kind == "tensors" else "tensor"
        self.scope.define(Binding(name, word, kind, span, output=output))

    def _type(self, pattern: ast.TypePattern) -> None:
        self._dtype(pattern.dtype, pattern.span)
        for dim in pattern.dims or ():
            if not isinstance(dim, str):
                continue
            old = self.scope.names.get(dim)
            if old is None:
                self.scope.define(Binding(dim, "dim", "dim", pattern.span, uses=1))
            elif not types.fits(old.type, "dim"):
                message = f"the dimension `{dim}` is {types.describe(old.type)} elsewhere"
                self.context.report("E202", message, pattern.span, "not a dimension")
            else:
                old.uses += 1

    def _dtype(self, dtype: str | None, span: ast.Span) -> None:
        if dtype is not None and dtype not in DTYPES:
            message = f"there is no element type `{dtype}`"
            self.context.report("E206", message, span, "unknown element type", helps=did_you_mean(dtype, DTYPES))

    def _attribute(self, node: ast.NodePattern, attr: ast.AttrPattern) -> None:
        value = attr.value
        if value is None:
            return
        if isinstance(value, ast.Name) and value.id not in self.scope.names and value.id not in DTYPES:
            kinds = [_attribute_type(op, attr.name) for op in node.ops]
            if types.join(kinds) == "any" and "any" not in kinds:
                message = f"`{value.id}` would be {' or '.join(types.describe(kind) for kind in dict.fromkeys(kinds))}"
                self.context.report("E203", message, attr.span, "the alternatives disagree")
            self.scope.define(Binding(value.id, "attribute", types.join(kinds), value.span))
            return
        if is_nan(value):
            self.types.nothing_is_nan(attr.span)
        actual = self.types.of(value)
        for op in node.ops:
            check_value(self.context, op, attr.name, value, actual)


def check_shape_of_pattern(context: CheckContext) -> None:
    """The pattern is one connected graph without cycles; `*parts` and alternatives are well formed."""
    match = context.rule.match
    for node in pattern_nodes(match):
        _operand_list(context, node)
        _alternatives(context, node)
    if _acyclic(context, match.nodes) and len(match.nodes) > 1:
        _connected(context, match)


def _operand_list(context: CheckContext, node: ast.NodePattern) -> None:
    before: ast.Operand | None = None
    behind = ""
    for operand in node.inputs:
        if isinstance(operand, ast.Variadic):
            if isinstance(before, ast.Variadic):
                helps = ("name an operand between them, or leave one out",)
                message = f"`*{before.name}` and `*{operand.name}` without an operand between them"
                context.report("E215", message, operand.span, "where would it begin?", helps=helps)
            behind = operand.name
        elif behind and isinstance(operand, ast.Capture) and operand.optional:
            message = f"`{operand.name}?` after `*{behind}`: the run could match it"
            context.report("E215", message, operand.span, "ambiguous", helps=(f"write `{operand.name}`",))
        before = operand
    if isinstance(before, ast.Variadic) and node.more_inputs:
        message = f"`*{before.name}` next to `...`: either could match the rest"
        context.report("E215", message, before.span, "ambiguous", helps=("leave out `...`",))
    if node.ordered and not any(schema.is_commutative(op.name, op.domain) or op.param or op.is_any for op in node.ops):
        message = f"`ordered` has no effect for `{node.ops[0].name}`"
        context.report(
            "E215", message, node.ops_span, "not commutative", ("its operands are never swapped",), ("leave it out",)
        )


def _named(node: ast.NodePattern) -> tuple[ast.Op, ...]:
    """The operators that a node may have; empty if it may have any."""
    return () if any(op.is_any for op in node.ops) else node.ops


def _alternatives(context: CheckContext, node: ast.NodePattern) -> None:
    seen: set[tuple[str, str, bool]] = set()
    if len(node.ops) > 1 and not _named(node):
        context.report("E203", "`_` among other operators: it already matches all of them", node.ops_span, "one too many")
    for op in node.ops:
        key = (op.name, schema.normal(op.domain), op.param)
        if key in seen:
            context.report("E203", f"`{op.name}` is twice among the alternatives", op.span, "again")
        seen.add(key)


def _tensors(node: ast.NodePattern) -> tuple[set[str], set[str]]:
    """The names that a pattern line reads and makes, nested operands included."""
    reads: set[str] = set()
    makes: set[str] = set()
    for record in walk(node):
        if isinstance(record, (ast.Capture, ast.Variadic)):
            reads.add(record.name)
        elif isinstance(record, ast.Output) and record.name is not None:
            makes.add(record.name)
    return reads, makes


def _connected(context: CheckContext, match: ast.Match) -> None:
    """Whether the engine finds a way from node to node: over tensors that have a name in two lines."""
    try:
        compile_pattern(match, {param.name: param.name for param in context.rule.params})
    except NotConnected as error:
        part = _written(context, error.node)
        notes, helps = "a pattern is one connected piece of a graph", "name a tensor of it in another line, or write two rules"
        if error.inner is not None:
            inner = _written(context, error.inner)
            notes, helps = f"only {inner}, which has no name, leads to it", f"give {inner} a line and a name of its own"
        span = error.node.ops_span if error.node.ops_span != ast.NOWHERE else error.node.span
        message = f"{part} is not connected to the rest of the pattern"
        context.report("E204", message, span, "hangs loose", (notes,), (helps,))
    except RewriterError:
        pass  # too large: reported by another check


def _written(context: CheckContext, node: ast.NodePattern) -> str:
    return f"`{' '.join(context.text[node.span.start : node.span.end].split())}`"


def _acyclic(context: CheckContext, nodes: tuple[ast.NodePattern, ...]) -> bool:
    edges = [_tensors(node) for node in nodes]
    done: set[int] = set()
    while True:
        made_by_rest = set().union(*(edges[i][1] for i in range(len(nodes)) if i not in done), set())
        free = [i for i in range(len(nodes)) if i not in done and not edges[i][0] & made_by_rest]
        if not free:
            break
        done.update(free)
    left = [i for i in range(len(nodes)) if i not in done]
    if left:
        own = [i for i in left if edges[i][0] & edges[i][1]]
        message = "this node reads what it makes" if own else "the nodes of this pattern feed each other in a circle"
        context.report("E204", message, nodes[(own or left)[0]].span, notes=("no ONNX graph has a cycle",))
    return not left


def _attribute_type(op: ast.Op, name: str) -> str:
    if op.param or not schema.history(op.name, op.domain):
        return "any"
    kinds = schema.attribute_kinds(op.name, op.domain, name)
    return types.of_attribute(kinds) if kinds else "any"


def unused(context: CheckContext, scope: NameScope) -> Iterator[Binding]:
    """Bindings that are never read although reading is their only purpose: labels, attribute values, lets, parameters."""
    for binding in scope.names.values():
        if binding.uses == 0 and binding.kind in ("node", "attribute", "let", "param") and not binding.name.startswith("_"):
            yield binding
