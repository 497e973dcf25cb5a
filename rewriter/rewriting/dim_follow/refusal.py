"""Why a dimension is not followed."""

from __future__ import annotations

import onnx_graphsurgeon as gs


class DoesNotFlow(Exception):
    """A dimension cannot be followed through a node; the text says which and why."""

    @classmethod
    def through(cls, node: gs.Node, reason: str) -> DoesNotFlow:
        """It does not flow through a node."""
        name = node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.op)
        return cls(f"it does not flow through {node.op} {name!r}{reason}")
