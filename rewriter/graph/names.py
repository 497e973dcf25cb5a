"""A table of all names of a model, so that a new name is never one that stands anywhere else: in another scope, in a
subgraph that would capture it. Names are derived from what they replace and are the same on every run."""

from __future__ import annotations

from collections.abc import Iterable


class NameTable:
    """Names in use, of tensors or of nodes; `fresh` makes new ones in constant time each."""

    def __init__(self, names: Iterable[str]) -> None:
        self._used = set(names)
        self._next: dict[str, int] = {}
        self._made: dict[str, str] = {}  # name made here → what was wanted

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def fresh(self, wanted: str) -> str:
        """`wanted` if it is free, else `wanted_1`, `wanted_2`, ...; the result counts as used from now on."""
        name = wanted
        number = self._next.get(wanted, 0)
        while not name or name in self._used:
            number += 1
            name = f"{wanted}_{number}"
        self._next[wanted] = number
        self._used.add(name)
        self._made[name] = wanted
        return name

    def release(self, name: str) -> None:
        """Gives a name made by `fresh` back once nothing bears it, so that a rewrite cycle shows itself by equal names."""
        wanted = self._made.pop(name, None)
        if wanted is not None:
            self._used.discard(name)
            self._next[wanted] = 0 if name == wanted else min(self._next[wanted], int(name[len(wanted) + 1 :]) - 1)

    def mark(self) -> int:
        """A point to come back to with `restore`."""
        return len(self._made)

    def restore(self, mark: int) -> None:
        """Gives back every name made since `mark`."""
        for name in list(self._made)[mark:] if len(self._made) > mark else ():
            self.release(name)
