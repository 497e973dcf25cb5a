"""`outline y = acme.Gelu(x)`: whether there are nodes for the body, and whether they read its operands alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rewriter.language import ast, schema
from rewriter.language.checks.context import CheckContext
from rewriter.language.checks.unregistered_operators import CONTRIB_DOMAIN
from rewriter.language.walk import pattern_nodes

Maker = ast.NodePattern | ast.Build


def check_outline(context: CheckContext, call: ast.Build, before: Sequence[ast.Statement]) -> bool:
    """Whether a call can stand for the nodes that make its outputs; `before` are the statements above it."""
    so_far = len(context.found)
    if context.rule.match.graph:
        helps = ("match the nodes of the body: match { y = Op(x) }",)
        context.report("E218", "a rule on the model as a whole has no nodes for a function", call.span, "no body", helps=helps)
        return False
    if not call.op.param and (call.op.domain == CONTRIB_DOMAIN or schema.is_known_domain(call.op.domain)):
        name = call.op.name if not call.op.domain else f"{call.op.domain}.{call.op.name}"
        helps = (f"write a domain of your own: acme.{call.op.name}",)
        message = f"`{name}` is in a domain that has operators, and cannot be defined in a model"
        context.report("E218", message, call.op.span, "not a local function", helps=helps)
    for attr in call.attrs:
        notes = ("the nodes of the body keep the attributes that they have",)
        message = "a function that is made of nodes has no attributes"
        context.report("E218", message, attr.span, "not here", notes, ("leave it out",))
    formals = _formals(context, call)
    if formals is not None:
        _check_body(context, call, formals, _makers(context, before))
    return len(context.found) == so_far


def _formals(context: CheckContext, call: ast.Build) -> set[str] | None:
    """The names of the operands; None where something else stands among them."""
    found: set[str] = set()
    for operand in call.inputs:
        if not isinstance(operand, ast.Ref) or operand.spread or operand.name in found:
            helps = ("constants that the nodes read go into the body; other operands are names, each of one tensor, once",)
            context.report("E218", "an operand of a function is the name of a tensor", operand.span, "not a name", helps=helps)
            return None
        found.add(operand.name)
    return found


def _makers(context: CheckContext, before: Sequence[ast.Statement]) -> dict[str, Maker]:
    """What makes each tensor that has a name: a node of the pattern, or of the block, which comes in its place."""
    makers: dict[str, Maker] = {}
    for node in pattern_nodes(context.rule.match):
        makers |= {output.name: node for output in node.outputs if output.name}
    for statement in before:
        if isinstance(statement, ast.Build):
            makers |= {output.name: statement for output in statement.outputs if output.name}
    return makers


def _check_body(context: CheckContext, call: ast.Build, formals: set[str], makers: Mapping[str, Maker]) -> None:
    done: set[str] = set()
    waiting = [output.name for output in call.outputs if output.name]
    for output in call.outputs:
        if output.variadic or output.name is None or output.name not in makers:
            name = output.name or "_"
            helps = ("an output is that of a node of the pattern, or of the block above this line",)
            context.report("E218", f"no node makes `{name}`", output.span, "nothing to move into the function", helps=helps)
            return
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        maker = makers[name]
        for read in _read(maker):
            if read in makers and read not in formals:
                waiting.append(read)
            elif read not in formals:
                what = f"`{read}`" if read else "operands without names"
                helps = (f"write it among the operands: {_shown(call, read)}",) if read else ("give them names in the pattern",)
                message = f"the body of `{call.op.name}` reads {what}"
                context.report("E218", message, call.span, "no operand of the function", helps=helps)
                return


def _shown(call: ast.Build, more: str) -> str:
    names = [operand.name for operand in call.inputs if isinstance(operand, ast.Ref)]
    return f"{call.op.name}({', '.join([*names, more])})"


def _read(maker: Maker) -> Iterator[str]:
    """The tensors that a node reads, and those nested in its operands; "" for some that have no name. Constants go along."""
    if isinstance(maker, ast.NodePattern) and maker.more_inputs:
        yield ""
    for operand in maker.inputs:
        if isinstance(operand, ast.NodePattern | ast.Build):
            yield from _read(operand)
        elif isinstance(operand, ast.Ref):
            yield "" if operand.spread else operand.name
        elif isinstance(operand, ast.Capture) and not operand.const:
            yield operand.name
        elif isinstance(operand, ast.Variadic | ast.Wildcard):
            yield ""
