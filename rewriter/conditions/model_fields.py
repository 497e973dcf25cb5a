"""Faults of a model as a whole, as conditions ask for them: `model.unsorted_nodes`.

Who can find a fault is who can mend it, and that takes rewriting, which itself takes conditions. So it is entered here from
outside (`rewriting.model_faults.fault_table`).
"""

from __future__ import annotations

from collections.abc import Callable

from rewriter.conditions.context import Context

Find = Callable[[Context], list[str]]

FIND: dict[str, Find] = {}
"""What finds the parts of a model that have a fault, by the names of `language/faults.py`."""

MODEL_TEXTS = {
    "producer_name": "producer_name", "producer_version": "producer_version", "name": "name", "doc_string": "model_doc_string",
}  # fmt: skip
"""Where the graph of a model keeps the texts that rules read and write as `model.doc_string`."""

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
