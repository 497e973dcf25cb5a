"""Applying a rewrite block to a match, as one transaction.

First everything is computed: constants, attributes, operands, while the graph is as it was matched. Then it is built and
wired. A name on the right-hand side always means what was matched, so `y = Cast<to=float>(y)` wraps: the node keeps making
the old value under a new name, and the Cast takes over the name `y` with all its uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.engine.context import Context, label
from rewriter.engine.evaluate import Names, evaluate
from rewriter.engine.inline import inline
from rewriter.engine.model_edits import import_domain
from rewriter.engine.place import apply_delete, apply_edit
from rewriter.engine.rewrite_values import attribute_value, constant_array, operand_types
from rewriter.engine.values import ABSENT, UNKNOWN, Failure
from rewriter.graph.edits import Edits
from rewriter.graph.objects import new_constant, new_node, new_variable
from rewriter.graph.scopes import Scope
from rewriter.language import ast
from rewriter.language.pattern import operator_names


class Refused(Exception):
    """The rewrite cannot stand here (it would close a cycle, or change nothing); this is no fault of the rule."""


class Rewriting:
    """One application of one rewrite block."""

    def __init__(
        self, context: Context, edits: Edits, names: Names, root: gs.Node | None, nodes: Mapping[int, gs.Node]
    ) -> None:
        self.context = context
        self.edits = edits
        self.index = context.index
        self.names = names
        self.root = root
        self.matched = list(nodes.values())
        self.scope: Scope = self.index.scope(root) if root is not None else self.index.scopes[0]
        self.made: dict[str, Any] = {}  # tensors and nodes of this block by name
        self.kept: dict[str, gs.Tensor] = {}  # the old value of a redefined output that the block still reads
        self.new_nodes: list[gs.Node] = []
        self.renamed: set[int] = set()  # parts that inlining gave new names
        self._base = next((t.name for t in root.outputs if t.name), "") if root is not None else self.scope.path

    def apply(self, block: ast.Rewrite) -> None:
        """Builds and wires. Raises Failure or Refused; the caller rolls back."""
        prepared = [self._prepare(statement) for statement in block.statements]
        self._keep_old_values(block)
        for statement, values in zip(block.statements, prepared, strict=True):
            self._perform(statement, values)
        self._order()
        self.edits.sweep([*self.matched, *self.new_nodes])

    # --- computing ---------------------------------------------------------------------------------------------------------

    def value(self, expr: ast.Expr) -> Any:
        result = evaluate(expr, self.names, self.context)
        if result is UNKNOWN:
            raise Failure("the rewrite needs a value that is unknown")
        return result

    def _prepare(self, statement: ast.Statement) -> Any:
        """Everything of a statement that is computed, before anything is changed."""
        if isinstance(statement, ast.Build):
            return self._prepare_build(statement)
        if isinstance(statement, ast.Redirect):
            return self._prepare_operand(statement.target)
        if isinstance(statement, ast.Edit):
            return self._prepare_edit(statement)
        if isinstance(statement, ast.Delete) and statement.place.index is not None:
            return None, self.value(statement.place.index)
        return None, None

    def _prepare_build(self, build: ast.Build) -> Any:
        attributes: dict[str, Any] = {}
        for item in build.attrs:
            if isinstance(item, ast.AttrCopy):
                attributes.update(self.node(item.label).attrs)
            else:
                value = self.value(item.value)
                if value is ABSENT:
                    attributes.pop(item.name, None)
                else:
                    attributes[item.name] = value
        settings = self.names.bound
        domain, op = operator_names(build.op, settings)
        version = self.scope.opsets.get(domain, 1)
        converted = {name: attribute_value(op, domain, version, name, value) for name, value in attributes.items()}
        known = [self._dtype(operand) for operand in build.inputs]
        wanted = operand_types(op, domain, version, known)
        return (
            op,
            domain,
            converted,
            [self._prepare_operand(operand, dtype) for operand, dtype in zip(build.inputs, wanted, strict=True)],
        )

    def _dtype(self, operand: Any) -> int | None:
        """Element type of a captured operand, where it is known."""
        found = self.names.bound.get(operand.name) if isinstance(operand, ast.Ref) else None
        return self.context.facts.dtype(found) if isinstance(found, gs.Tensor) else None

    def _prepare_operand(self, operand: Any, wanted: int | None = None) -> Any:
        if isinstance(operand, ast.Constant):
            return constant_array(operand, self.context, self.value(operand.value), wanted)
        return self._prepare_build(operand) if isinstance(operand, ast.Build) else None

    def _prepare_edit(self, edit: ast.Edit) -> Any:
        at = None if edit.place.index is None else self.value(edit.place.index)
        if isinstance(edit.value, ast.Constant | ast.Build | ast.Absent):
            return self._prepare_operand(edit.value), at
        if edit.place.field == "inputs":
            return None, at
        return self.value(edit.value), at

    # --- building ----------------------------------------------------------------------------------------------------------

    def _perform(self, statement: ast.Statement, values: Any) -> None:
        if isinstance(statement, ast.Build):
            self._build(statement, values)
        elif isinstance(statement, ast.Redirect):
            self._redirect(statement, self.operand(statement.target, values))
        elif isinstance(statement, ast.Edit):
            apply_edit(self, statement, *values)
        elif isinstance(statement, ast.Delete):
            apply_delete(self, statement, values[1])
        else:
            inline(self, statement)

    def _build(self, build: ast.Build, values: Any, inner: str = "") -> gs.Tensor:
        op, domain, attributes, prepared = values
        operands: list[gs.Tensor] = []
        for operand, value in zip(build.inputs, prepared, strict=True):
            if isinstance(operand, ast.Ref) and operand.spread:
                operands.extend(self._run(operand.name))
            else:
                operands.append(self.operand(operand, value, op))
        while operands and not operands[-1].name:
            operands.pop()
        self._import(domain)
        taken = [self._taken(output) for output in build.outputs]
        outputs = [
            old if old is not None else self._fresh(output.name or op.lower())
            for old, output in zip(taken, build.outputs, strict=True)
        ]
        outputs = outputs or [self._fresh(inner or op.lower())]
        node = self._insert(op, domain, outputs[0].name, attributes, operands, outputs)
        for output, tensor in zip(build.outputs, outputs, strict=False):
            if output.name:
                self.made[output.name] = tensor
        if build.label:
            self.made[build.label] = node
        return outputs[0]

    def _taken(self, output: ast.Output) -> gs.Tensor | None:
        """The matched tensor that an output redefines, freed from the node that makes it now."""
        old = self.names.bound.get(output.name) if output.name else None
        if not isinstance(old, gs.Tensor):
            return None
        self._release(old)
        return old

    def _release(self, tensor: gs.Tensor) -> None:
        """The node that makes `tensor` goes on making its value under a new name, for those who still read that."""
        maker = self.index.producer(tensor)
        if maker is None:
            raise Failure(f"{label(tensor)} is made by no node and cannot be redefined")
        name = next((name for name in self.kept if self.names.bound[name] is tensor), None)
        spare = self.kept[name] if name else self._fresh("before")
        self.edits.set_outputs(maker, [spare if made is tensor else made for made in maker.outputs])

    def _insert(
        self, op: str, domain: str, name: str, attributes: dict[str, Any], operands: list[gs.Tensor], outputs: list[gs.Tensor]
    ) -> gs.Node:
        """A new node right before the root. Raises Failure where there is no root."""
        if self.root is None:
            raise Failure("a rule on the model as a whole cannot build nodes")
        node = new_node(op, domain, self.index.node_names.fresh(name), attributes, [], [])
        list.extend(node.inputs, operands)  # the index keeps the tensors' own lists
        list.extend(node.outputs, outputs)
        self.edits.add(node, self.scope, self.index.keys_before(self.root, operands, 1)[0])
        self.new_nodes.append(node)
        return node

    def _redirect(self, statement: ast.Redirect, target: gs.Tensor) -> None:
        """Uses of the matched output take `target`; an output of the graph keeps its name, by whichever way is possible."""
        old = self.names.bound[statement.output]
        if old is target:
            raise Refused("it redirects a tensor to itself")
        if not self.index.output_of(old):
            self.edits.replace_uses(old, target)
            self.edits.released[id(old)] = old
            return
        maker = self.index.producer(target)
        fixed = maker is None or self.index.output_of(target) or self.index.scope(maker) is not self.scope
        if fixed:
            self._pass_on(old, target)
            return
        assert maker is not None
        self._release(old)
        self.edits.replace_uses(target, old)
        self.edits.set_outputs(maker, [old if made is target else made for made in maker.outputs])
        if isinstance(statement.target, ast.Ref):
            self.made[statement.target.name] = old

    def _pass_on(self, old: gs.Tensor, target: gs.Tensor) -> None:
        """An output of the graph that is to be an input, a constant or another output: it needs a node that hands the value
        on.
        """
        maker = self.index.producer(old)
        if maker is not None and maker.op == "Identity" and maker.inputs[0] is target:
            raise Refused("an output of the graph that equals an input, a constant or another output needs this node")
        self._release(old)
        self._insert("Identity", "", old.name, {}, [target], [old])

    # --- operands ----------------------------------------------------------------------------------------------------------

    def operand(self, operand: Any, value: Any, op: str = "") -> gs.Tensor:
        """The tensor of an operand whose computed part is `value`; new constants are named after `op`."""
        if isinstance(operand, ast.Ref):
            return self.tensor(operand.name)
        if isinstance(operand, ast.Absent):
            return new_variable("")
        if isinstance(operand, ast.Build):
            return self._build(operand, value)
        array, dtype = value
        return new_constant(self.index.names.fresh(f"{self._base}_{op.lower() or 'value'}"), array, dtype)

    def tensor(self, name: str) -> gs.Tensor:
        """The tensor that a name means on the right-hand side: made in this block, else what was matched."""
        if name in self.kept:
            return self.kept[name]
        found = self.made.get(name, self.names.bound.get(name, ABSENT))
        if found is ABSENT:
            return new_variable("")
        if not isinstance(found, gs.Tensor):
            raise Failure(f"`{name}` is not a tensor")
        return found

    def _run(self, name: str) -> list[gs.Tensor]:
        found = self.names.bound.get(name)
        if not isinstance(found, list):
            raise Failure(f"`{name}` is not a run of tensors")
        return found

    def node(self, name: str) -> gs.Node:
        found = self.names.bound.get(name)
        if not isinstance(found, gs.Node):
            raise Failure(f"`{name}` is not a matched node")
        return found

    def _fresh(self, name: str) -> gs.Tensor:
        return new_variable(self.index.names.fresh(f"{self._base}_{name}"))

    def _keep_old_values(self, block: ast.Rewrite) -> None:
        """Names that the block redefines and also reads: their old values get names of their own."""
        redefined = {o.name for s in block.statements if isinstance(s, ast.Build) for o in s.outputs if o.name}
        for name in redefined & set(_read(block)):
            if isinstance(self.names.bound.get(name), gs.Tensor):
                self.kept[name] = self._fresh("before")

    def _import(self, domain: str) -> None:
        if domain not in self.scope.opsets and domain != "":
            import_domain(self, domain)

    # --- order -------------------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        """Every edge that the rewrite made leads forwards. Raises Refused where one would close a cycle."""
        for node in [*self.new_nodes, *self.edits.edited.values()]:
            if node not in self.index:
                continue
            for maker in self.index.before(node):
                if not self.index.link(maker, node):
                    raise Refused("it would close a cycle")
        for node in self.new_nodes:
            for follower in list(self.index.followers(node)):
                if not self.index.link(node, follower):
                    raise Refused("it would close a cycle")


def _read(block: ast.Rewrite) -> list[str]:
    """Names that the operands of a block's new nodes and edits read."""
    found: list[str] = []
    waiting: list[Any] = list(block.statements)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Build):
            waiting.extend(item.inputs)
        elif isinstance(item, ast.Edit) and item.place.field == "inputs":
            waiting.append(item.value)
        elif isinstance(item, ast.Ref | ast.Name):
            found.append(item.name if isinstance(item, ast.Ref) else item.id)
    return found
