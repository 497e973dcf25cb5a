"""The closed table of faults that a model as a whole can have: what a rule may ask as `model.NAME` and put right with
`mend model.NAME`.

Each is a list of names, empty where there is nothing wrong. The checks and the documentation read this table; how a fault is
found and put right stands, under the same name, in the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rewriter.core.record import record


@record(frozen=True, slots=True)
class Fault:
    """One kind of fault. `interface`: to put it right changes what callers of the model see."""

    name: str
    doc: str
    mended: str
    interface: bool = False


_TABLE = (
    Fault("repeated_nodes", "names that several nodes of one graph have", "all but the first get names of their own"),
    Fault(
        "repeated_tensors",
        "names that are defined again, in one graph or inside of it",
        "later definitions get names of their own, and their readers follow",
    ),
    Fault("unsorted_nodes", "nodes that come before one whose output they need", "a stable sort"),
    Fault("unnamed_nodes", "first outputs of nodes without a name", "a node is named after its first output"),
    Fault(
        "odd_names",
        "names of nodes and inner tensors that are not made of letters, digits and `_ . - /`, or begin with `_ - /`",
        "each other character becomes `_`, and `n` is put before a bad beginning",
    ),
    Fault(
        "early_nodes",
        "nodes that ONNX has not yet in the imported opset, or not for their element types",
        "the opset is raised to the first that has them, if no other node means something else there",
    ),
    Fault(
        "old_nodes",
        "nodes of opsets 1 to 6 that ONNX Runtime does not run, since it begins with a later form of their operators",
        "the opset is raised to 7, if no node that is valid there means something else",
    ),
    Fault(
        "lost_opset",
        "nodes of ONNX's own operators, where the model imports nothing though its format has imports",
        "the newest opset of that time is imported, if all that have these nodes mean the same by them",
    ),
    Fault(
        "branch_inputs",
        "inputs that branches of If declare, which they do not have",
        "the branches read the tensors of these names around them, or else the further operands of If",
    ),
    Fault("missing_imports", "domains of operators that the model or function does not import", "they are imported"),
    Fault("unused_imports", "domains that are imported and of which there is no operator", "the imports go"),
    Fault(
        "misdeclared_tensors",
        "inner tensors whose declared type or shape contradicts what their node gives",
        "they are declared as they are",
    ),
    Fault(
        "misdeclared_outputs",
        "outputs whose declared shape contradicts what their node gives, or calls a known dimension otherwise",
        "they are declared as they are",
        interface=True,
    ),
    Fault(
        "copied_initializers",
        "initializers of 256 bytes or more that hold the same as an earlier one",
        "the earlier one is used in their place",
    ),
    Fault(
        "equal_nodes",
        "nodes that compute what an earlier node of the same graph computes, from the same operands",
        "their readers read the earlier one, and they go",
    ),
    Fault("function_calls", "nodes that call a local function", "the body takes their place; functions that nobody calls go"),
    Fault(
        "listed_initializers",
        "initializers that are listed as inputs",
        "they are not; ir_version is 4 at least",
        True,
    ),
)

FAULTS: Mapping[str, Fault] = MappingProxyType({fault.name: fault for fault in _TABLE})

MODEL_FACTS: Mapping[str, str] = MappingProxyType(
    {"least_ir_version": "the lowest ir_version that has all that the model uses"},
)
"""What can be asked of the model beside its own fields and faults: whole numbers."""
