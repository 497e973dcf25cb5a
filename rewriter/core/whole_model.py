"""Repairs of whole models, which rules call and the core does not contain: faults such as `model.unsorted_nodes`, and the edits
that follow when a dimension gets a name.

The core has only their names. `rewriter/__init__.py` registers their module, so that the core alone runs every rule that needs
none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from rewriter.core.errors import RewriterError

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs


class DoesNotFlow(Exception):
    """A dimension cannot be followed through a node; the text names the node and the reason."""

    @classmethod
    def through(cls, node: gs.Node, reason: str) -> DoesNotFlow:
        """The dimension does not flow through this node."""
        name = node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.op)
        return cls(f"the dimension does not flow through {node.op} {name!r}{reason}")


class Repairs(Protocol):
    """Repairs of a model as a whole; a `context` is a `Context`, `rewriting` a `Rewriting`, `edits` are `Edits` of a firing."""

    def find(self, fault: str, context: Any) -> list[str]:
        """The names of the parts with the fault; empty if there are none."""

    def mend(self, fault: str, rewriting: Any) -> None:
        """Repairs the fault."""

    def named_dimensions(self, group: Any) -> dict[str, int]:
        """The former sizes, by their new name, of dimensions that firings have named. `group` has the edits of each firing.

        Raises:
            DoesNotFlow: one name would have two sizes, or there are too many names.
        """

    def follow(self, context: Any, edits: Any, sizes: dict[str, int]) -> None:
        """Edits the nodes that depend on these dimensions, which no longer have one size.

        Raises:
            DoesNotFlow: a node does not support them.
        """


_import: Callable[[], Repairs] | None = None


def use(import_repairs: Callable[[], Repairs]) -> None:
    """Sets the source of the repairs: `import_repairs` is called when a rule first needs one."""
    global _import
    _import = import_repairs


def repairs() -> Repairs:
    """The repairs.

    Raises:
        RewriterError: this program has none.
    """
    try:
        if _import is not None:
            return _import()
    except ModuleNotFoundError as error:
        raise RewriterError(f"a rule repairs the model as a whole, and {error.name} is not here") from None
    raise RewriterError("a rule repairs the model as a whole, and rewriter.repairs was not imported")
