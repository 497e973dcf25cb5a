"""Repairs that rules call by name, because no pattern of nodes can express them.

The modules here find and repair faults of a whole model, such as nodes out of order (`mend model.unsorted_nodes`).
`dim_follow` changes the values that depend on a dimension that gets a name, such as the numbers in a Reshape.

The core looks them up through `core.whole_model`; `rewriter/__init__.py` connects the two. Few runs need all of them, so a
module is imported when one of its faults is first looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rewriter.core.conditions.context import Context

if TYPE_CHECKING:
    from rewriter.core.graph.edits import Edits
    from rewriter.core.rewriting.transaction import Rewriting

HOMES: Mapping[str, tuple[str, str]] = {
    "repeated_nodes": ("declarations", "name_repeated_nodes"),
    "repeated_tensors": ("declarations", "name_repeated_tensors"),
    "unsorted_nodes": ("declarations", "sort_nodes"),
    "unnamed_nodes": ("declarations", "name_unnamed_nodes"),
    "odd_names": ("declarations", "name_odd_parts"),
    "early_nodes": ("old_opsets", "raise_opset"),
    "early_forms": ("old_opsets", "raise_opset_for_forms"),
    "branch_inputs": ("declarations", "read_around"),
    "old_nodes": ("old_opsets", "raise_old_opset"),
    "lost_opset": ("old_opsets", "import_opset"),
    "copied_initializers": ("equal_nodes", "share_initializers"),
    "equal_nodes": ("equal_nodes", "merge_equal_nodes"),
    "function_calls": ("function_calls", "inline_calls"),
    "unchanged_states": ("declarations", "read_before_loops"),
    "missing_imports": ("declarations", "add_imports"),
    "unused_imports": ("declarations", "drop_imports"),
    "misdeclared_tensors": ("declarations", "declare_inner"),
    "misdeclared_outputs": ("declarations", "declare_outputs"),
    "misdeclared_maps": ("declarations", "declare_maps"),
    "mistyped_initializers": ("declarations", "retype_initializers"),
    "listed_initializers": ("declarations", "unlist_initializers"),
}
"""The module here that has each fault of the table `FAULTS`: a function of the fault's name finds the parts
that have it (nodes, tensors or names; or tuples that begin with one), the function named here repairs it.
"""


def find(fault: str, context: Context) -> list[str]:
    """The names of the nodes or tensors that have the fault; empty if there are none."""
    from rewriter.core.graph.model_text import node_name

    parts = (part[0] if isinstance(part, tuple) else part for part in _function(HOMES[fault][0], fault)(context))
    return [part if isinstance(part, str) else node_name(part) if hasattr(part, "op") else part.name for part in parts]


def mend(fault: str, rewriting: Rewriting) -> None:
    """Repairs the fault."""
    _function(*HOMES[fault])(rewriting)


@cache
def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"rewriter.repairs.{module}"), name)


def named_dimensions(group: Iterable[Edits]) -> dict[str, int]:
    """The old sizes of the dimensions that firings, each with its edits, have named.

    Raises:
        DoesNotFlow: one name would stand for two sizes, or there are too many names.
    """
    from rewriter.repairs.dim_follow import follow

    return follow.named_dimensions(group)


def follow(context: Context, edits: Edits, sizes: dict[str, int]) -> None:
    """Edits the parts that have to follow, since these dimensions no longer have one size.

    Raises:
        DoesNotFlow: a node cannot handle them.
    """
    from rewriter.repairs.dim_follow.follow import DimensionWalk

    DimensionWalk(context, edits, sizes).follow()
