"""The repairs by the names that rules use, as `core.whole_model` asks for them: what finds and what mends each fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewriter.core.conditions.context import Context
from rewriter.core.graph.edits import Edits
from rewriter.core.rewriting.transaction import Rewriting
from rewriter.repairs.dim_follow.follow import DimensionWalk, named_dimensions
from rewriter.repairs.model_faults import declarations, equal_nodes, function_calls, name_faults, old_opsets
from rewriter.repairs.model_faults import declarations as branches
from rewriter.repairs.model_faults import declarations as domain_imports
from rewriter.repairs.model_faults import declarations as listed_initializers
from rewriter.repairs.model_faults import declarations as node_order
from rewriter.repairs.model_faults import equal_nodes as equal_initializers
from rewriter.repairs.model_faults import old_opsets as lost_opsets
from rewriter.repairs.model_faults import old_opsets as newer_opsets

# What finds and what mends each fault of `language/faults.py`.

Find = Callable[[Context], list[str]]
Mend = Callable[[Rewriting], None]

FIND: Mapping[str, Find] = {
    "repeated_nodes": name_faults.repeated_nodes,
    "repeated_tensors": name_faults.repeated_tensors,
    "unsorted_nodes": node_order.unsorted_nodes,
    "unnamed_nodes": name_faults.unnamed_nodes,
    "odd_names": name_faults.odd_names,
    "early_nodes": newer_opsets.early_nodes,
    "branch_inputs": branches.branch_inputs,
    "old_nodes": old_opsets.old_nodes,
    "lost_opset": lost_opsets.lost_opset,
    "copied_initializers": equal_initializers.copied_initializers,
    "equal_nodes": equal_nodes.equal_nodes,
    "function_calls": function_calls.function_calls,
    "missing_imports": domain_imports.missing_imports,
    "unused_imports": domain_imports.unused_imports,
    "misdeclared_tensors": declarations.misdeclared_tensors,
    "misdeclared_outputs": declarations.misdeclared_outputs,
    "listed_initializers": listed_initializers.listed_initializers,
}

MEND: Mapping[str, Mend] = {
    "repeated_nodes": name_faults.name_repeated_nodes,
    "repeated_tensors": name_faults.name_repeated_tensors,
    "unsorted_nodes": node_order.sort_nodes,
    "unnamed_nodes": name_faults.name_unnamed_nodes,
    "odd_names": name_faults.name_odd_parts,
    "early_nodes": newer_opsets.raise_opset,
    "branch_inputs": branches.read_around,
    "old_nodes": old_opsets.raise_old_opset,
    "lost_opset": lost_opsets.import_opset,
    "copied_initializers": equal_initializers.share_initializers,
    "equal_nodes": equal_nodes.merge_equal_nodes,
    "function_calls": function_calls.inline_calls,
    "missing_imports": domain_imports.add_imports,
    "unused_imports": domain_imports.drop_imports,
    "misdeclared_tensors": declarations.declare_inner,
    "misdeclared_outputs": declarations.declare_outputs,
    "listed_initializers": listed_initializers.unlist_initializers,
}


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
