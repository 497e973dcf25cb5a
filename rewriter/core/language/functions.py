"""The closed tables of functions and faults for rules: functions that expressions call, with their static types, and faults of
a whole model, which a rule reads as `model.NAME` and repairs with `mend model.NAME`.

A rule file can call only these, so rule files are data. The checks read the types here, and the documentation the texts. The
functions are implemented in `core/conditions`. The code that finds and repairs a fault is in `repairs`. Both use the names of
these tables.

Types of arguments and results are words: bool, int, float, number, string, ints (list of int), list, dtype, array (a constant
known while rewriting), tensor (a value of the graph), tensors (`*parts`), node (a label), any; `a|b` accepts either. A
captured constant (`const w`) is a tensor and an array at once. Four words describe results only: `numeric` is a number
when all arguments are scalars and an array otherwise, `truths` likewise a bool or an array, `reduced` is a number for a single
argument, and `same` is the type of the first argument.

The value of a fault is a list of names, which is empty if the model does not have the fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rewriter.core.record import record


@record(frozen=True, slots=True)
class ExpressionFunction:
    """One function. An argument type ending in `?` may be left out; the last may end in `...` and be repeated or absent."""

    name: str
    args: tuple[str, ...]
    result: str
    doc: str

    @property
    def minimum(self) -> int:
        """How many arguments a call needs."""
        return sum(1 for arg in self.args if not arg.endswith(("?", "...")))

    @property
    def maximum(self) -> int | None:
        """How many arguments a call may have; None: any number."""
        return None if self.args and self.args[-1].endswith("...") else len(self.args)

    def argument(self, position: int) -> str:
        """The type that the argument at `position` must have."""
        word = self.args[min(position, len(self.args) - 1)]
        return word.removesuffix("...").removesuffix("?")

    @property
    def signature(self) -> str:
        """`dim(tensor, int) -> int`."""
        return f"{self.name}({', '.join(self.args)}) -> {self.result}"


_TABLE = """
rank(tensor|array) -> int                         : number of dimensions
shape(tensor|array) -> list                       : the dimensions. A dimension without a number is unknown
dim(tensor|array, int) -> int                     : one dimension. Negative positions count from the end
size(tensor|array, int|range?) -> int             : product of all dimensions, of those in a range, or of one
dtype(tensor|array) -> dtype                      : element type
declared_dtype(tensor) -> dtype                   : element type that the model itself declares
is_declared(tensor, dtype) -> bool                : the model itself declares this element type
declared_rank(tensor) -> int                      : rank that the model itself declares
declared_shape(tensor) -> list                    : shape that the model itself declares
value(tensor) -> any                              : integers that a shape computation returns, as far as known
is_const(tensor) -> bool                          : a constant, or computed from constants alone
constant(tensor) -> array                         : elements of a constant, also of a computed one. Otherwise unknown
computed(tensor) -> array                         : result of a node whose operands are constants. Otherwise unknown
fill(tensor) -> number                            : the number that all elements equal, if it is known
present(tensor) -> bool                           : the optional operand is not absent
matched(node) -> bool                             : the match has this optional node or alternative
uses(tensor) -> int                               : number of nodes that read it
users(tensor) -> list                             : operator names of the nodes that read it
producer(tensor) -> string                        : operator name of the node that computes it, "" if there is no such node
never_negative(tensor) -> bool                    : computed from lengths and from constants that are not negative
is_output(tensor) -> bool                         : an output of its graph
is_input(tensor) -> bool                          : an input of its graph
name(tensor|node) -> string                       : its name in the model
op(node) -> string                                : operator name of a matched node
domain(node) -> string                            : operator domain of a matched node
has(node, string) -> bool                         : the attribute is written on the node
metadata(node, string) -> string                  : entry of the node's metadata_props, "" if it has no entry with this key
model_metadata(string) -> string                  : entry of the model's metadata_props, "" if it has no entry with this key
n_inputs(node) -> int                             : number of inputs, absent ones inside the list included
n_outputs(node) -> int                            : number of outputs
source(node, string, any?) -> any                 : attribute in the framework's own file, or the last argument if it is missing
source_op(node) -> string                         : operator name in the framework's own file
source_input(node, int) -> string                 : name of the node that computes an operand in the framework's own file
source_index(node, int) -> int                    : output index of an operand in the framework's own file
source_is_output(node) -> bool                    : the framework's own graph has the node among its outputs
source_outputs() -> list                          : names of the outputs of the framework's own graph, in its order
source_nodes() -> list                            : names of all nodes of the framework's own graph
source_has(node) -> bool                          : the framework's own file describes the node
in_node_order(list) -> list                       : sorts names of tensors: inputs first, the others in the order of their nodes
opset(string?) -> int                             : version in which the model imports a domain, 0 if it does not import it
keeps_meaning(int, string?) -> bool               : every node of the model means the same in this version of the domain
exporter() -> string                              : name of the program that wrote the model
exporter_version() -> string                      : version of this program
ir_version() -> int                               : ir_version of the model
known(any) -> bool                                : the value is not unknown
known_but_one(list) -> bool                       : at most one item is unknown
maybe(bool) -> bool                               : true or unknown
axis(int, tensor|array) -> int                    : an axis counted from the front
reshape_target(tensor, list) -> ints              : a constant shape for Reshape that means the same as a computed one
expand_target(tensor, list) -> ints               : a constant shape for Expand that means the same as a computed one
broadcast(list, list) -> list                     : the shape that two shapes broadcast to
can_broadcast(list, list) -> bool                 : two shapes broadcast
default(any, any) -> any                          : the first, or the second if the first is absent
all(array|list|number|bool) -> bool               : every element is true
any(array|list|number|bool) -> bool               : some element is true
abs(array|list|number) -> numeric                 : magnitude
sqrt(array|list|number) -> numeric                : square root
exp(array|list|number) -> numeric                 : exponential
log(array|list|number) -> numeric                 : natural logarithm
sin(array|list|number) -> numeric                 : sine of an angle in radians
floor(array|list|number) -> numeric               : round down
ceil(array|list|number) -> numeric                : round up
round(array|list|number) -> numeric               : round half to even
sign(array|list|number) -> numeric                : -1, 0 or 1
clip(array|list|number, number, number) -> numeric : limit to a range
isfinite(array|list|number) -> truths             : neither infinite nor NaN, element by element
isnan(array|list|number) -> truths                : NaN, element by element
sum(array|list, int|ints?) -> reduced             : sum of all elements, or along axes
prod(array|list, int|ints?) -> reduced            : product of all elements, or along axes
mean(array|list, int|ints?) -> reduced            : mean of all elements, or along axes
min(array|list|number, array|list|number...) -> reduced : least element, or element by element of several values
max(array|list|number, array|list|number...) -> reduced : greatest element, or element by element of several values
len(list|array|string|tensors) -> int             : number of items
range(int, int?, int?) -> ints                    : integers from start (0) to before stop, by step
sorted(list|array) -> same                        : ascending
reversed(list|array) -> same                      : back to front
set(list|array) -> list                           : the distinct items, ascending
index(list|array, any) -> int                     : position of an item. An item that is not in the list is an error
count(list|array, any) -> int                     : how often an item occurs
take(list|array, int|list|array|range, int?) -> same : the items at these positions or in this range, of arrays along an axis
without(list, list) -> list                       : the items of the first that are not in the second
array(array|list|number|bool) -> array            : as an array, for arithmetic element by element
nonzero(array|list) -> ints                       : positions of the items that are neither zero nor false
argsort(array|list) -> ints                       : positions in ascending order of their items
concat(array|list, array|list|int...) -> array    : joined along the axis given last
reshape(array|list|number, int|list) -> array     : the same elements in another shape
transpose(array, list?) -> array                  : axes permuted, or reversed without a permutation
expand_dims(array|list|number, int|ints) -> array : new axes of length 1
squeeze(array, int|ints?) -> array                : without axes of length 1
zeros(int|list, dtype?) -> array                  : zeros of a shape, of element type float by default
ones(int|list, dtype?) -> array                   : ones of a shape, of element type float by default
full(int|list, number|bool, dtype?) -> array      : one value in each element of a shape
zeros_like(array) -> array                        : zeros of the same shape and element type
ones_like(array) -> array                         : ones of the same shape and element type
full_like(array, number|bool) -> array            : one number in the same shape and element type
cast(array|list|number|bool, dtype) -> array      : in another element type
to_list(array|list) -> list                       : a one-dimensional constant as a list
where(array|list|bool, array|list|number, array|list|number) -> array : the second where the first is true, else the third
matmul(array, array) -> array                     : matrix product
inverse(array) -> array                           : inverse of a square matrix
tile(array|list, int|list) -> array               : repeated along its axes
repeat(array|list, int, int?) -> array            : each element repeated, along an axis
pad(array|list, list, number?) -> array           : padded with a constant, by all begins and then all ends, as in ONNX
flatten(array) -> array                           : one-dimensional
float(number|string|bool|array) -> float          : as a floating-point number
int(number|string|bool|array) -> int              : as an integer, rounded towards zero
str(any) -> string                                : as text
startswith(string, string) -> bool                : text begins with
endswith(string, string) -> bool                  : text ends with
contains(string|list, any) -> bool                : text or list contains
glob(string, string) -> bool                      : text matches a pattern, in which `*` is any text and `?` one letter
lower(string) -> string                           : text in lower case
is_ascii(string) -> bool                          : the text has only ASCII characters
replace(string, string, string) -> string         : text with every occurrence of one part replaced
last_part(string, string) -> string               : text after the last separator, or the whole text without a separator
einsum_simple(string) -> bool                     : one or two operands, no ellipsis, no letter twice in an operand
einsum_perm(string, int) -> ints                  : transposition of an operand that makes the equation a product of matrices
einsum_unsqueezed(string, int) -> ints            : axes of length 1 to insert into that operand after the transposition
einsum_summed(string) -> ints                     : axes of the product to be summed
einsum_output(string) -> ints                     : transposition of the remaining axes into the order of the output
"""


def _read(line: str) -> ExpressionFunction:
    head, doc = line.split(" : ", 1)
    call, result = head.rsplit("->", 1)
    name, args = call.strip().removesuffix(")").split("(", 1)
    return ExpressionFunction(name, tuple(arg.strip() for arg in args.split(",") if arg.strip()), result.strip(), doc.strip())


FUNCTIONS: Mapping[str, ExpressionFunction] = MappingProxyType(
    {function.name: function for function in map(_read, filter(None, _TABLE.splitlines()))}
)
"""Name → function."""

OF_ABSENT = frozenset({"known", "known_but_one", "maybe", "default", "present", "matched"})
"""Functions that also have a result for an operand or a value that is missing or unknown."""

OF_LENGTHS = frozenset({"floor", "ceil", "round", "int"})
"""Functions that return an integer as it is, also a dimension that is known by name only."""

SOURCE_FUNCTIONS = frozenset(
    {"source", "source_op", "source_input", "source_index", "source_is_output", "source_outputs", "source_nodes", "source_has"}
)
"""Functions that need the framework's own file."""


@record(frozen=True, slots=True)
class Fault:
    """One kind of fault. `interface`: the repair changes the interface for callers of the model."""

    name: str
    doc: str
    mended: str
    interface: bool = False


_FAULTS = (
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
        "nodes that the imported opset does not have yet, or not for their element types",
        "the opset is raised to the first that has them, if this changes the meaning of no other node",
    ),
    Fault(
        "early_forms",
        "nodes with attributes, operands or broadcasting that their operator does not have yet in the imported opset",
        "the opset is raised to the first that has them, if this changes the meaning of no other node",
    ),
    Fault(
        "old_nodes",
        "nodes of opsets 1 to 6 whose operators ONNX Runtime runs only in a later form",
        "the opset is raised to 7, if this changes the meaning of no node",
    ),
    Fault(
        "lost_opset",
        "nodes of ONNX's own operators in a model without imports, although its ir_version has imports",
        "the newest opset of that ir_version is imported, if these nodes mean the same in all opsets that have them",
    ),
    Fault(
        "branch_inputs",
        "inputs that branches of If declare, although a branch has no inputs",
        "the branches read the tensors with these names in the outer graph, or else the further operands of If",
    ),
    Fault("missing_imports", "domains of operators that the model or function does not import", "they are imported"),
    Fault("unused_imports", "domains that are imported although no operator is from them", "the imports are removed"),
    Fault(
        "misdeclared_tensors",
        "inner tensors whose declared type or shape contradicts the result of their node",
        "the declaration becomes the type and shape of the result",
    ),
    Fault(
        "misdeclared_outputs",
        "outputs whose declared shape contradicts the result of their node, or has another name for a known dimension",
        "the declaration becomes the shape of the result",
        interface=True,
    ),
    Fault(
        "misdeclared_maps",
        "outputs of ZipMap whose declared maps hold values of double precision, in a model with inputs of double precision",
        "they are declared with single precision, which ZipMap returns",
    ),
    Fault(
        "mistyped_initializers",
        "floating-point initializers whose input declares another floating-point type",
        "their values are converted to the declared type",
    ),
    Fault(
        "copied_initializers",
        "initializers of 256 bytes or more that equal an earlier initializer",
        "their readers read the earlier initializer",
    ),
    Fault(
        "equal_nodes",
        "nodes that compute the same as an earlier node of the same graph, from the same operands",
        "their readers read the earlier node, and they are removed",
    ),
    Fault(
        "function_calls",
        "nodes that call a local function",
        "the body replaces each call, and functions without a call are removed",
    ),
    Fault(
        "unchanged_states",
        "states of Loops that each iteration passes on unchanged",
        "their readers in the body and after the loop read the tensor before the loop",
    ),
    Fault(
        "listed_initializers",
        "initializers that are listed as inputs",
        "they are no longer listed, and ir_version becomes at least 4",
        True,
    ),
)

FAULTS: Mapping[str, Fault] = MappingProxyType({fault.name: fault for fault in _FAULTS})

MODEL_FACTS: Mapping[str, str] = MappingProxyType(
    {"least_ir_version": "the lowest ir_version that has all that the model uses"},
)
"""Integer properties of the model, in addition to its own fields and faults."""
