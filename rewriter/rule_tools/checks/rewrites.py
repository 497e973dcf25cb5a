"""The statements of `rewrite` blocks: their operands were matched, their nodes are legal, and each name is made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import pattern_nodes
from rewriter.core.language.schema import DTYPES
from rewriter.rule_tools.checks.context import KIND_WORDS, Binding, CheckContext, NameScope, did_you_mean
from rewriter.rule_tools.checks.edits import EditCheck
from rewriter.rule_tools.checks.expressions import Types
from rewriter.rule_tools.checks.operators import CONTRIB_DOMAIN, check_build, check_value

# Attributes that a rewrite would lose or bring along by mistake: the classic error of rebuilding a node.


def check_copies(
    context: CheckContext, build: ast.Build, copied: Mapping[str, tuple[ast.Op, ...]], opsets: Sequence[int]
) -> None:
    """A new node of a matched operator keeps the attributes (W301), and copies match the operator that they go to (W303)."""
    if build.op.param or not schema.history(build.op.name, build.op.domain):
        return
    if _wraps(build):
        return
    written = {attr.name for attr in build.attrs if isinstance(attr, ast.AttrSet)}
    if copied:
        _strange(context, build, copied, written, opsets)
    else:
        _lost(context, build, written, opsets)


def _wraps(build: ast.Build) -> bool:
    """`y = Cast<to=float>(y)`: the matched node stays as it is, and the new one takes its value."""
    output_names = {output.name for output in build.outputs}
    return any(isinstance(operand, ast.Ref) and operand.name in output_names for operand in build.inputs)


def _lost(context: CheckContext, build: ast.Build, written: set[str], opsets: Sequence[int]) -> None:
    op = build.op
    has = set(schema.attributes(op.name, op.domain, _versions(op, opsets)))
    for node in pattern_nodes(context.rule.match):
        if not any(other.name == op.name and schema.normal(other.domain) == schema.normal(op.domain) for other in node.ops):
            continue
        if {output.name for output in node.outputs} & {
            operand.name for operand in build.inputs if isinstance(operand, ast.Ref)
        }:
            continue  # it follows the matched node and does not replace it
        lost = sorted(has - written - {attr.name for attr in node.attrs})
        if not lost:
            continue
        label = node.label or "n"
        where = "" if node.label else f", with the label `[{label}]` in the pattern"
        helps = (f"copy them: `{op.name}<..{label}>(...)`{where}", "or constrain them in the pattern, or write them here")
        context.report(
            "W301",
            f"the new `{op.name}` forgets attributes of the matched one: {', '.join(lost)}",
            op.span,
            "loses them",
            helps=helps,
        )
        return


def _strange(
    context: CheckContext, build: ast.Build, copied: Mapping[str, tuple[ast.Op, ...]], written: set[str], opsets: Sequence[int]
) -> None:
    op = build.op
    takes = set(schema.attributes(op.name, op.domain, _versions(op, opsets)))
    constrained = {node.label: _absent(node) for node in pattern_nodes(context.rule.match) if node.label}
    for attr in build.attrs:
        if not isinstance(attr, ast.AttrCopy):
            continue
        brings: set[str] = set()
        for other in copied.get(attr.label, ()):
            if (other.name, schema.normal(other.domain)) != (op.name, schema.normal(op.domain)) and not other.param:
                brings |= set(schema.attributes(other.name, other.domain, _versions(other, opsets)))
        strange = sorted(brings - takes - constrained.get(attr.label, set()))
        if strange:
            names = ", ".join(f"`{name}`" for name in strange)
            message = f"`..{attr.label}` may bring along what `{op.name}` does not have: {names}"
            helps = (f"require in the pattern that it is absent (`!{strange[0]}`), or write the attributes one by one",)
            context.report("W303", message, attr.span, "copied where it does not belong", helps=helps)


def _absent(node: ast.NodePattern) -> set[str]:
    return {attr.name for attr in node.attrs if attr.mode == "absent"}


def _versions(op: ast.Op, opsets: Sequence[int]) -> Sequence[int]:
    return range(1, schema.latest_opset(op.domain) + 1) if schema.normal(op.domain) else opsets


# `outline y = acme.Gelu(x)`: whether there are nodes for the body, and whether they read only its operands.

Maker = ast.NodePattern | ast.Build


def check_outline(context: CheckContext, call: ast.Build, before: Sequence[ast.Statement]) -> bool:
    """Whether a call can replace the nodes that make its outputs; `before` are the statements above it."""
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
    """The names of the operands; None if an operand is no name."""
    found: set[str] = set()
    for operand in call.inputs:
        if not isinstance(operand, ast.Ref) or operand.spread or operand.name in found:
            helps = ("constants that the nodes read go into the body; other operands are names, each of one tensor, once",)
            context.report("E218", "an operand of a function is the name of a tensor", operand.span, "not a name", helps=helps)
            return None
        found.add(operand.name)
    return found


def _makers(context: CheckContext, before: Sequence[ast.Statement]) -> dict[str, Maker]:
    """The maker of each named tensor: a node of the pattern, or the node of the block that replaces it."""
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
    """The tensors that a node reads, and those nested in its operands; "" for some without a name. Constants are included."""
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


MAX_CONSTANT = 1 << 24
"""Elements that a constant written with its dimensions may have."""


class BlockCheck:
    """One rewrite block, checked for the opsets that it is written for."""

    def __init__(self, context: CheckContext, scope: NameScope, rewrite: ast.Rewrite) -> None:
        self.context = context
        self.scope = scope.child()
        self.types = Types(context, self.scope)
        self.opsets: Sequence[int] = [v for v in context.reach if rewrite.opset is None or v in rewrite.opset]
        self.statements = rewrite.statements
        self.edits = EditCheck(context, self.scope, self.types, self.opsets, self.operand)
        self.written: set[str] = set()

    def check(self) -> None:
        """Checks the statements in order; later ones see the tensors that earlier ones make."""
        for at, statement in enumerate(self.statements):
            match statement:
                case ast.Build() | ast.Redirect() | ast.Each() if not self._has_room(statement):
                    pass
                case ast.Build() if statement.outlined:
                    if check_outline(self.context, statement, self.statements[:at]):
                        for operand in statement.inputs:
                            self.operand(operand)
                        self._outputs(statement)
                case ast.Build():
                    self.build(statement)
                    self._outputs(statement)
                case ast.Redirect():
                    self._redirect(statement)
                case ast.Edit():
                    self.edits.edit(statement, self.statements)
                case ast.Delete():
                    self.edits.delete(statement)
                case ast.Inline():
                    self.edits.inline(statement)
                case ast.Mend():
                    self.edits.mend(statement)
                case ast.Each():
                    self._each(statement)
                case ast.AddOutput():
                    self._add_output(statement)
        for binding in self.scope.names.values():
            if binding.kind == "made" and not binding.uses and not binding.name.startswith("_"):
                message = f"the new tensor `{binding.name}` is never used"
                helps = ("to replace an output of the match, give the new node that output's name",)
                self.context.report("W201", message, binding.span, "never used", helps=helps)

    def _has_room(self, statement: ast.Build | ast.Redirect | ast.Each) -> bool:
        """A rule on the interface may put nodes behind inputs and before outputs, and nowhere else."""
        match = self.context.rule.match
        if not match.graph:
            return True
        if not match.items or not isinstance(statement, ast.Build):
            message = "a rule on the model as a whole makes no nodes and replaces no tensors"
            helps = ("match the nodes that are to change: match { y = Op(x) }",)
            self.context.report("E210", message, statement.span, "nothing to build on", helps=helps)
            return False
        if not self.context.is_interface:
            self.edits.interface_only("the graph after an input or before an output of the model", statement.span)
        return True

    def _add_output(self, statement: ast.AddOutput) -> None:
        """`output t`: a tensor that the pattern or the block makes, or that the pattern reads."""
        if not self.context.is_interface:
            self.edits.interface_only("the list of the outputs of the model", statement.span)
        if self.context.rule.match.graph:
            helps = ("match the node that makes it: match { y = Op(x) }",)
            message = "a rule on the interface sees no inner tensors"
            self.context.report("E210", message, statement.span, "no such tensor", helps=helps)
            return
        self.ref(ast.Ref(statement.name, span=statement.span))

    def _each(self, each: ast.Each) -> None:
        """`each` iterates over the operands or outputs of a node, or over a run of operands; the new nodes read the item."""
        found = self.scope.use(each.base, each.span)
        wanted = "node" if each.field else "tensors"
        if found is not None and (found.type != wanted or found.kind == "made node" or (found.output and not each.field)):
            what = "the label of a matched node" if each.field else "a run of operands, as `*xs` binds it"
            message = f"`each` goes through {what}, and `{each.base}` is {KIND_WORDS[found.kind]}"
            helps = (f"write each {each.name} in n.inputs, or in n.outputs, where `n` labels the node",)
            self.context.report("E210", message, each.span, "not several operands", helps=helps)
        with self.scope.item(Binding(each.name, "item", "tensor", each.name_span)):
            if each.test is not None:
                self.types.truth(each.test, "the condition of `each`")
            self.build(each.value)

    def build(self, build: ast.Build) -> None:
        """A new node and its operands; its outputs are bound last, since they are not its own operands."""
        if build.op.param:
            self.types.op_param(build.op, ("op", "any"))  # the check of the pattern reported a wrong name
        copied: dict[str, tuple[ast.Op, ...]] = {}
        for attr in build.attrs:
            if isinstance(attr, ast.AttrCopy):
                copied[attr.label] = self._copied(attr)
            else:
                check_value(self.context, build.op, attr.name, attr.value, self.types.of(attr.value))
        for operand in build.inputs:
            self.operand(operand)
        check_build(self.context, build, self.opsets, copied)
        check_copies(self.context, build, copied, self.opsets)

    def operand(self, operand: ast.NewOperand) -> None:
        """A tensor that a new node or an edited input reads."""
        match operand:
            case ast.Ref():
                self.ref(operand)
            case ast.Constant():
                self._constant(operand)
            case ast.Build():
                self.build(operand)
                self._label(operand)
            case ast.Absent():
                pass

    def ref(self, ref: ast.Ref) -> None:
        """A name that must be a tensor."""
        found = self.scope.use(ref.name, ref.span)
        if found is None or found.type == "any":
            return
        if found.type == "tensors":
            if not ref.spread:
                message = f"`{ref.name}` is a run of tensors"
                self.context.report("E206", message, ref.span, "one tensor is needed", helps=(f"write `*{ref.name}`",))
        elif found.type not in ("tensor", "const"):
            helps = (f"write `{{{ref.name}}}` to make a constant of it",)
            if found.type == "node":
                helps = (f"`{ref.name}` is the node; use the name of one of its outputs",)
            message = f"`{ref.name}` is {KIND_WORDS[found.kind]}, not a tensor"
            self.context.report("E206", message, ref.span, "a tensor is needed", helps=helps)
        elif ref.spread:
            self.context.report(
                "E206", f"`{ref.name}` is a single tensor", ref.span, "nothing to spread", helps=("leave out the `*`",)
            )

    def _copied(self, attr: ast.AttrCopy) -> tuple[ast.Op, ...]:
        found = self.scope.use(attr.label, attr.span)
        if found is None:
            return ()
        if found.kind != "node":
            message = (
                f"`..{attr.label}` copies the attributes of a matched node, and `{attr.label}` is {KIND_WORDS[found.kind]}"
            )
            helps = (f"label the node in the pattern: [{attr.label}_node] ... = ...",)
            self.context.report("E206", message, attr.span, "not a matched node", helps=helps)
            return ()
        return found.ops

    def _constant(self, constant: ast.Constant) -> None:
        if constant.dtype is not None and constant.dtype not in DTYPES:
            message = f"there is no element type `{constant.dtype}`"
            self.context.report("E206", message, constant.span, helps=did_you_mean(constant.dtype, DTYPES))
        if constant.dims is not None and prod(constant.dims) > MAX_CONSTANT:
            message = f"this constant would have {prod(constant.dims):,} elements"
            self.context.report("E216", message, constant.span, "too many", (f"at most {MAX_CONSTANT:,} may be written",))
        elif constant.dims is not None and isinstance(constant.value, ast.ListOf):
            count, wanted = len(constant.value.items), prod(constant.dims)
            if count not in (1, wanted):
                message = f"{count} values for {wanted} elements"
                self.context.report("E206", message, constant.span, "shape and values disagree")
        self.types.want(constant.value, "array|list|number|bool|string", "the value of a constant")

    # --- Outputs ---------------------------------------------------------------------------------------------------------

    def _outputs(self, build: ast.Build) -> None:
        self._label(build)
        for output in build.outputs:
            again = build.outlined and output.name in self.written  # nodes that the block made are moved
            if output.name is not None and not again and self._as_matched(output, output.name):
                self._output(output.name, output.span)

    def _as_matched(self, output: ast.Output, name: str) -> bool:
        """Whether a run of outputs is a matched run, which determines their number, and a single output is no run."""
        old = self.scope.names.get(name)
        run = old is not None and old.kind == "variadic" and old.output
        if output.variadic and not run:
            message = f"`*{name}` is no run of outputs that the pattern matches"
            notes = ("a new node has just the outputs that are named",)
            self.context.report("E211", message, output.span, "how many would there be?", notes)
        elif run and not output.variadic:
            message, helps = f"`{name}` is a run of outputs", (f"write `*{name} = ...`",)
            self.context.report("E211", message, output.span, "not one output", helps=helps)
        return output.variadic == run

    def _label(self, build: ast.Build) -> None:
        if build.label is not None:
            self.scope.define(Binding(build.label, "made node", "node", build.span, (build.op,)))

    def _output(self, name: str, span: ast.Span) -> None:
        old = self.scope.names.get(name)
        if name in self.written:
            self.context.report("E211", f"`{name}` is made twice in this block", span, "again")
        elif old is None:
            self.scope.define(Binding(name, "made", "tensor", span))
        elif old.kind in ("tensor", "variadic") and not old.output and not self.context.rule.match.graph:
            self._input_redefined(name, span)
        elif old.kind not in ("tensor", "variadic"):
            self.scope.define(Binding(name, "made", "tensor", span))
        else:
            old.uses += 1
        self.written.add(name)

    def _redirect(self, redirect: ast.Redirect) -> None:
        target = redirect.target
        self.operand(target)
        old = self.scope.names.get(redirect.output)
        if isinstance(target, ast.Ref) and target.name == redirect.output:
            self.context.report("E211", f"`{redirect.output}` replaces itself", redirect.span, "changes nothing")
        elif redirect.output in self.written:
            self.context.report("E211", f"`{redirect.output}` is made twice in this block", redirect.span, "again")
        elif old is None:
            outputs = [name for name, binding in self.scope.names.items() if binding.output]
            message = f"no matched node makes `{redirect.output}`"
            notes = ("`y = x` redirects all readers of a matched output to another tensor",)
            helps = did_you_mean(redirect.output, outputs)
            if isinstance(target, ast.Constant):
                helps = ("write a constant where it is used: Mul(x, {2.0}); `let` names its value",)
                self.scope.define(Binding(redirect.output, "made", "any", redirect.span, uses=1))
            self.context.report("E211", message, redirect.span, "nothing to replace", notes, helps)
        elif old.kind != "tensor":
            message = f"`{redirect.output}` is {KIND_WORDS[old.kind]}, not an output of the match"
            self.context.report("E211", message, redirect.span, "not an output")
        elif not old.output:
            self._input_redefined(redirect.output, redirect.span)
        else:
            old.uses += 1
        self.written.add(redirect.output)

    def _input_redefined(self, name: str, span: ast.Span) -> None:
        self.context.report(
            "E211",
            f"`{name}` is read by the pattern, not made by it",
            span,
            "cannot be redefined",
            ("other nodes may read the same tensor, the rule cannot change it under them",),
            (f"give the new tensor another name and let a matched node read it: n.inputs[0] = {name}2",),
        )


def check_blocks(context: CheckContext) -> None:
    """The opset ranges of the rewrite blocks are disjoint and cover the rule's range."""
    rewrites = context.rule.rewrites
    covered: dict[int, ast.Rewrite] = {}
    for rewrite in rewrites:
        inside = [v for v in context.declared if rewrite.opset is None or v in rewrite.opset]
        if not inside and rewrite.opset is not None:
            message = "this block is outside of the rule's opset range"
            notes = (f"the rule declares `opset: {context.phrase(context.declared)}`",)
            context.report("E109", message, rewrite.opset.span, "never used", notes)
        twice = [v for v in inside if v in covered]
        if twice:
            span = rewrite.opset.span if rewrite.opset is not None else rewrite.span
            message = f"two rewrite blocks claim opset {context.phrase(twice)}"
            context.report("E108", message, span, "overlaps an earlier block", helps=("make the ranges disjoint",))
        covered.update(dict.fromkeys(inside, rewrite))
    gap = [v for v in context.declared if v not in covered and v in context.reach]
    if gap and rewrites:
        message = f"no rewrite block for opset {context.phrase(gap)}"
        limit = context.limit(gap)
        span = rewrites[-1].opset.span if rewrites[-1].opset else rewrites[-1].span
        helps = [f"add a block: rewrite opset {context.phrase(gap)} {{ ... }}", *([limit] if limit else [])]
        context.report("E109", message, span, "the blocks leave a gap", helps=helps)
