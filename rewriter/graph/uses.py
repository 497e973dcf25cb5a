"""Both ends of one tensor: who makes it and who reads it.

Written down for the tensors that a run changes, or of which it asks all readers; those of all others are where graphsurgeon
keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_graphsurgeon as gs

from rewriter.graph.by_operator import OpKey, operator_key

CROWD = 32  # from this many readers on, they are looked up by operator


class TensorUses:
    """The node that makes a tensor, and the nodes that read it.

    Attributes:
        tensor: held, so that no other object gets its id().
        maker: None for inputs, initializers and omitted operands.
        users: distinct, by id(), those in inner scopes included.
        changed: whether any of this is otherwise than graphsurgeon's lists have it.
    """

    __slots__ = ("_crowd", "changed", "maker", "tensor", "users")

    def __init__(self, tensor: gs.Tensor, maker: gs.Node | None, users: dict[int, gs.Node]) -> None:
        self.tensor = tensor
        self.maker = maker
        self.users = users
        self.changed = False
        self._crowd: dict[OpKey, dict[int, gs.Node]] | None = None

    def add(self, node: gs.Node) -> None:
        """The node reads the tensor from now on."""
        self.users[id(node)] = node
        if self._crowd is not None:
            self._crowd.setdefault(operator_key(node), {})[id(node)] = node

    def drop(self, node: gs.Node) -> None:
        """The node, whose operator is what it was when it came, does not read the tensor any more."""
        self.users.pop(id(node), None)
        if self._crowd is not None:
            self._crowd.get(operator_key(node), {}).pop(id(node), None)

    def take_over(self, other: TensorUses) -> None:
        """All who read the other tensor read this one, too."""
        if self._crowd is None:
            self.users.update(other.users)
        else:
            for node in other.users.values():
                self.add(node)

    def clear(self) -> None:
        """Nobody reads the tensor any more."""
        self.users.clear()
        self._crowd = None

    def users_with(self, ops: frozenset[OpKey]) -> Iterable[gs.Node]:
        """Readers whose (domain, operator) is one of `ops`; where there are very many, only those are looked at."""
        if len(self.users) <= CROWD:
            return [node for node in self.users.values() if operator_key(node) in ops]
        if self._crowd is None:
            self._crowd = {}
            for node in self.users.values():
                self._crowd.setdefault(operator_key(node), {})[id(node)] = node
        crowd = self._crowd
        return (node for op in sorted(ops) for node in crowd.get(op, {}).values())
