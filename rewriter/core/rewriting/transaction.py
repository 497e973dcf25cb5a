"""One application of a rewrite block: its facts and actions, shared by all kinds of statements.

A name on the right-hand side always means the matched tensor, so `y = Cast<to=float>(y)` wraps: the node keeps making the old
value under a new name, and the Cast takes over the name `y` with all its uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate
from rewriter.core.conditions.recorded_graph import label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.objects import Scope, new_constant, new_node, new_variable
from rewriter.core.language import ast


class Refused(Exception):
    """The rewrite is impossible here (it would close a cycle, or change nothing). The rule is not at fault."""


class Undecided(Refused):
    """The rewrite needs an unknown fact of the model. The context has noted which."""


class Rewriting:
    """The state of one application of one rewrite block.

    Attributes:
        context, index, edits: the model, its relations, and the transaction that all changes go through.
        names: the names that the match binds.
        root, matched: the matched nodes; `root` is None for a rule about the whole model.
        scope: the scope of the root; the main graph if there is no root.
        new_values: tensors and nodes of this block by name.
        builds: the statements that make nodes, by the name of the first output.
        new_dtypes: element types of these outputs, if a constant has asked for them; None if they are unknown.
        kept: the old value of a redefined output that the block still reads.
        new_nodes: in the order in which they were made.
        renamed: ids of parts that inlining gave new names.
    """

    def __init__(
        self,
        context: Context,
        edits: Edits,
        names: Bindings,
        root: gs.Node | None,
        nodes: Mapping[int, gs.Node],
        scope: Scope,
    ) -> None:
        self.context = context
        self.edits = edits
        self.index = context.index
        self.names = names
        self.root = root
        self.matched = list(nodes.values())
        self.scope = scope
        self.new_values: dict[str, Any] = {}
        self.builds: dict[str, ast.Build] = {}
        self.new_dtypes: dict[str, int | None] = {}
        self.kept: dict[str, gs.Tensor] = {}
        self.new_nodes: list[gs.Node] = []
        self.renamed: set[int] = set()

    def value(self, expr: ast.Expr) -> Any:
        """The value of an expression. Raises Undecided when it is unknown."""
        mark = len(self.context.doubts)
        result = evaluate(expr, self.names, self.context)
        if result is UNKNOWN:
            raise Undecided(*(self.context.doubts[mark:] or [("the rewrite needs a value that is unknown", "")])[0])
        return result

    # --- names ------------------------------------------------------------------------------------------------------------

    def tensor(self, name: str) -> gs.Tensor:
        """The tensor that a name means on the right-hand side: made in this block, else the matched one."""
        if self.kept and name in self.kept:
            return self.kept[name]
        found = self.new_values[name] if name in self.new_values else self.names.bound.get(name, ABSENT)
        if found is ABSENT:
            return new_variable("")
        if not isinstance(found, gs.Tensor):
            raise Failure(f"`{name}` is not a tensor")
        return found

    def run(self, name: str) -> list[gs.Tensor]:
        """The tensors of `*name`. Raises Failure when the name is bound to something else."""
        found = self.names.bound.get(name)
        if not isinstance(found, list):
            raise Failure(f"`{name}` is not a run of tensors")
        return found

    def node(self, name: str) -> gs.Node:
        """The matched node of a label. Raises Failure when the name is bound to something else."""
        found = self.names.bound.get(name)
        if not isinstance(found, gs.Node):
            raise Failure(f"`{name}` is not a matched node")
        return found

    @property
    def _base(self) -> str:
        """The prefix of new names."""
        found = self.names.bound.values() if self.root is None else self.root.outputs
        return next((tensor.name for tensor in found if isinstance(tensor, gs.Tensor) and tensor.name), self.scope.path)

    # --- making -----------------------------------------------------------------------------------------------------------

    def fresh(self, name: str, old: gs.Tensor | None = None) -> gs.Tensor:
        """A new tensor, named after the root's output, or after an input or output of the model (`old`), and `name`."""
        base = self._base if old is None or self.root is not None else old.name
        return new_variable(self.index.names.fresh(f"{base}_{name}"))

    def constant(self, array: Any, dtype: int, op: str) -> gs.Tensor:
        """A new initializer for an operand of a new `op` node (or of none, "")."""
        return new_constant(self.index.names.fresh(f"{self._base}_{op.lower() or 'value'}"), array, dtype)

    def release(self, tensor: gs.Tensor) -> None:
        """The node that makes `tensor` goes on making its value under a new name, for those who still read that."""
        maker = self.index.producer(tensor)
        if maker is None:
            raise Failure(f"{label(tensor)} is made by no node and cannot be redefined")
        name = next((name for name in self.kept if self.names.bound[name] is tensor), None) if self.kept else None
        if name is None and maker.name and len(maker.outputs) == 1 and any(maker is node for node in self.matched):
            self.edits.set_outputs(maker, [])  # its outputs are not needed: it will be swept away
            return
        spare = self.kept[name] if name else self.fresh("before", tensor)
        self.edits.set_outputs(maker, [spare if output is tensor else output for output in maker.outputs])

    def insert(
        self, op: str, domain: str, name: str, attributes: dict[str, Any], operands: list[gs.Tensor], outputs: list[gs.Tensor]
    ) -> gs.Node:
        """A new node right before the root. A rule about the interface adds it behind the inputs or before the outputs. Raises
        Failure if the graph has no nodes.
        """
        root = self.root or self._end(operands)
        node = new_node(op, domain, self.index.node_names.fresh(name), attributes, [], [])
        list.extend(node.inputs, operands)  # the index keeps the tensors' own lists
        list.extend(node.outputs, outputs)
        self.edits.add(node, self.scope, self.index.keys_before(root, operands, 1)[0])
        self.new_nodes.append(node)
        return node

    def _end(self, operands: list[gs.Tensor]) -> gs.Node:
        """The first node of the graph, or the last one if an operand is the result of a node."""
        nodes = self.index.nodes_of(self.scope)
        if not nodes:
            raise Failure("the model has no nodes")
        has_producer = any(self.index.producer(tensor) is not None for tensor in operands)
        return max(nodes, key=self.index.key_at) if has_producer else min(nodes, key=self.index.key_at)
