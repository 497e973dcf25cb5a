"""The links between nodes and tensors, cheap enough for every node of a large model.

The lists behave as graphsurgeon's own: a tensor that is put into `node.inputs` gets the node in its `outputs`. The class, not
the object, names the list of the other side, and the owner is a slot, so that making a list takes a tenth of the time. A tensor
makes its two lists only when they are first read. The lists of most tensors never are: this package calls `makers` and `users`,
or the index, which keeps its data about a tensor in the tensor during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import onnx_graphsurgeon as gs
from onnx_graphsurgeon.util.misc import SynchronizedList


class Inputs(SynchronizedList):  # type: ignore[misc]
    """`inputs` of a node (tensors) or of a tensor (its producers)."""

    __slots__ = ("parent_obj",)
    __init__ = list.__init__
    field_name = "outputs"
    parent_obj: Any


class Outputs(SynchronizedList):  # type: ignore[misc]
    """`outputs` of a node (tensors) or of a tensor (its users)."""

    __slots__ = ("parent_obj",)
    __init__ = list.__init__
    field_name = "inputs"
    parent_obj: Any


class TensorLinks:
    """The links of a tensor to the nodes around it.

    Attributes:
        _makers: the list if it was read before, else a plain list, a single node, or None for no node.
        _users: the same; or, once an index has read them, a table of distinct nodes by id().
    """

    __slots__ = ("_makers", "_users")
    _makers: Any
    _users: Any

    @property
    def inputs(self) -> list[gs.Node]:
        """The nodes that make it; one, unless the model is broken."""
        links = self._makers
        if type(links) is not Inputs:
            links = self._makers = Inputs(_nodes(self, links))
            links.parent_obj = self
        return links  # type: ignore[no-any-return]

    @inputs.setter
    def inputs(self, nodes: Iterable[gs.Node]) -> None:
        _replace(self.inputs, nodes)

    @property
    def outputs(self) -> list[gs.Node]:
        """The nodes that read it, each as often as it does."""
        links = self._users
        if type(links) is not Outputs:
            links = self._users = Outputs(_nodes(self, links))
            links.parent_obj = self
        return links  # type: ignore[no-any-return]

    @outputs.setter
    def outputs(self, nodes: Iterable[gs.Node]) -> None:
        _replace(self.outputs, nodes)


def _nodes(tensor: gs.Tensor, links: Any) -> Sequence[gs.Node]:
    if isinstance(links, list):
        return links
    if isinstance(links, dict):
        return [node for node in links.values() for operand in node.inputs if operand is tensor]
    return () if links is None else (links,)


def _replace(listed: list[gs.Node], nodes: Iterable[gs.Node]) -> None:
    if nodes is not listed:  # as it is after +=
        listed.clear()
        listed.extend(nodes)


def makers(tensor: gs.Tensor) -> Sequence[gs.Node]:
    """`tensor.inputs`, to be read at once and not to be changed."""
    return _nodes(tensor, tensor._makers) if isinstance(tensor, TensorLinks) else tensor.inputs


def users(tensor: gs.Tensor) -> Sequence[gs.Node]:
    """`tensor.outputs`, to be read at once and not to be changed."""
    return _nodes(tensor, tensor._users) if isinstance(tensor, TensorLinks) else tensor.outputs


def reading(nodes: Iterable[gs.Node], ops: frozenset[str]) -> list[gs.Node]:
    """The nodes that read an output of one of these operators, or a tensor whose maker is not known at once."""
    found = []
    for node in nodes:
        for tensor in node.inputs:
            try:
                links = tensor._makers
            except AttributeError:
                links = tensor.inputs
            if links is not None and (isinstance(links, list) or links.op in ops):
                found.append(node)
                break
    return found


def keep(tensor: TensorLinks, wanted: Callable[[gs.Node], bool]) -> None:
    """Removes the unwanted nodes around a tensor; lists that a caller may refer to stay as they are."""
    if not isinstance(tensor._makers, list) and tensor._makers is not None and not wanted(tensor._makers):
        tensor._makers = None
    if not isinstance(tensor._users, list) and tensor._users is not None:
        tensor._users = [node for node in _nodes(tensor, tensor._users) if wanted(node)]


def is_listed(tensor: gs.Tensor) -> bool:
    """Whether a caller may refer to a list of the nodes around a tensor, or several nodes make it."""
    return not isinstance(tensor, TensorLinks) or isinstance(tensor._makers, list) or type(tensor._users) is Outputs


def put_back(tensor: gs.Tensor, makers: list[gs.Node], readers: list[gs.Node], *, changed: bool) -> None:
    """Gives a tensor its own lists again, updated if the nodes around it have changed."""
    maker, users = tensor._makers, _nodes(tensor, tensor._users)
    if isinstance(tensor, TensorLinks):
        tensor._makers, tensor._users = makers, readers
    else:
        del tensor._makers, tensor._users
    if changed:
        tie(tensor, () if maker is None else (maker,), users)


def tie(tensor: gs.Tensor, made_by: Sequence[gs.Node], used_by: Sequence[gs.Node]) -> None:
    """Sets the makers and users of a tensor, and leaves the lists of these nodes alone."""
    if isinstance(tensor, TensorLinks):
        tensor._makers = _links(tensor._makers, made_by)
        tensor._users = _links(tensor._users, used_by)
    else:
        list.__setitem__(tensor.inputs, slice(None), made_by)
        list.__setitem__(tensor.outputs, slice(None), used_by)


def _links(before: Any, nodes: Sequence[gs.Node]) -> Any:
    if isinstance(before, SynchronizedList):  # a caller may refer to it
        list.__setitem__(before, slice(None), nodes)
        return before
    return None if not nodes else nodes[0] if len(nodes) == 1 else list(nodes)


def tie_one(tensor: gs.Tensor, node: gs.Node, side: str, listed: str) -> None:
    """Adds a node to those on one side of a tensor: `_users`, which graphsurgeon lists as `outputs`, or `_makers`, `inputs`."""
    if not isinstance(tensor, TensorLinks):
        list.append(getattr(tensor, listed), node)
        return
    links = getattr(tensor, side)
    if isinstance(links, list):
        list.append(links, node)
    else:
        setattr(tensor, side, node if links is None else [*_nodes(tensor, links), node])


def tie_all(nodes: Iterable[gs.Node]) -> None:
    """`tie_one` for all tensors of new nodes, which are of this package."""
    for node in nodes:
        for tensor in node.inputs:
            links = tensor._users
            if links is None:
                tensor._users = node
            elif type(links) is list:
                links.append(node)
            else:
                tie_one(tensor, node, "_users", "outputs")
        for tensor in node.outputs:
            if tensor._makers is None:
                tensor._makers = node
            else:
                tie_one(tensor, node, "_makers", "inputs")
