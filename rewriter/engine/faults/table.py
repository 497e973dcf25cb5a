"""What finds and what mends each fault of `language/faults.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rewriter.engine.context import Context
from rewriter.engine.faults import (
    branches,
    copies,
    declarations,
    functions,
    imports,
    inputs,
    lost_opsets,
    names,
    old_opsets,
    opsets,
    order,
)

if TYPE_CHECKING:
    from rewriter.engine.rewriting.transaction import Rewriting

Find = Callable[[Context], list[str]]
Mend = Callable[["Rewriting"], None]

FIND: Mapping[str, Find] = {
    "repeated_nodes": names.repeated_nodes,
    "repeated_tensors": names.repeated_tensors,
    "unsorted_nodes": order.unsorted_nodes,
    "unnamed_nodes": names.unnamed_nodes,
    "odd_names": names.odd_names,
    "early_nodes": opsets.early_nodes,
    "branch_inputs": branches.branch_inputs,
    "old_nodes": old_opsets.old_nodes,
    "lost_opset": lost_opsets.lost_opset,
    "copied_initializers": copies.copied_initializers,
    "function_calls": functions.function_calls,
    "missing_imports": imports.missing_imports,
    "unused_imports": imports.unused_imports,
    "misdeclared_tensors": declarations.misdeclared_tensors,
    "misdeclared_outputs": declarations.misdeclared_outputs,
    "listed_initializers": inputs.listed_initializers,
}

LASTING = frozenset({"repeated_nodes", "repeated_tensors", "unsorted_nodes", "unnamed_nodes", "odd_names", "missing_imports"})
"""Faults that only come with something new: where there was none, there is none as long as nodes only go or read other tensors
that were there.
"""


def find(name: str, context: Context) -> list[str]:
    """The parts of the model that have a fault; one that can only have come with something new is not looked for again until
    something new came.
    """
    novelty = context.index.novelty
    if context.absent.get(name) == novelty:
        return []
    found = FIND[name](context)
    if not found and name in LASTING:
        context.absent[name] = novelty
    return found


MEND: Mapping[str, Mend] = {
    "repeated_nodes": names.name_repeated_nodes,
    "repeated_tensors": names.name_repeated_tensors,
    "unsorted_nodes": order.sort_nodes,
    "unnamed_nodes": names.name_unnamed_nodes,
    "odd_names": names.name_odd_parts,
    "early_nodes": opsets.raise_opset,
    "branch_inputs": branches.read_around,
    "old_nodes": old_opsets.raise_old_opset,
    "lost_opset": lost_opsets.import_opset,
    "copied_initializers": copies.share_initializers,
    "function_calls": functions.inline_calls,
    "missing_imports": imports.add_imports,
    "unused_imports": imports.drop_imports,
    "misdeclared_tensors": declarations.declare_inner,
    "misdeclared_outputs": declarations.declare_outputs,
    "listed_initializers": inputs.unlist_initializers,
}
