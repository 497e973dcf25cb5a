"""The repairs by the names that rules use, as `rewriter.core.whole_model` asks for them."""

from __future__ import annotations

from rewriter.core.conditions.context import Context
from rewriter.core.graph.edits import Edits
from rewriter.core.rewriting.transaction import Rewriting
from rewriter.repairs.dim_follow.follow import DimensionWalk, named_dimensions
from rewriter.repairs.model_faults.fault_table import FIND, MEND

__all__ = ["find", "follow", "mend", "named_dimensions"]


def find(fault: str, context: Context) -> list[str]:
    """The names of what has the fault; empty where nothing has."""
    return FIND[fault](context)


def mend(fault: str, rewriting: Rewriting) -> None:
    """Puts the fault right."""
    MEND[fault](rewriting)


def follow(context: Context, edits: Edits, sizes: dict[str, int]) -> None:
    """Edits what has to follow where these dimensions are not of one size any more.

    Raises:
        DoesNotFlow: a node does not take them.
    """
    DimensionWalk(context, edits, sizes).follow()
