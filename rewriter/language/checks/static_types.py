"""Static types of expressions, as words, and which fits where.

    bool int float number string list ints floats strings dtype none any
    flag      an integer attribute: a number that also counts as true or false, like `transB`
    dim       a dimension: a number or a symbolic name
    op        a parameter that names an operator
    array     a constant that the rule computes
    tensor    a value of the graph, known at run time only
    const     a tensor that the pattern requires to be constant: fits where a tensor and where an array is wanted
    tensors   `*parts`, `n.inputs`
    node      a label; `graph` a subgraph attribute; `model` the model; `range` a range of positions

`any` is what the checker does not know; it fits everywhere and never causes a message.
"""

from __future__ import annotations

from collections.abc import Iterable

WORDS = {
    "any": "anything", "bool": "true or false", "int": "an integer", "float": "a number", "number": "a number",
    "string": "a text", "list": "a list", "ints": "a list of integers", "floats": "a list of numbers",
    "strings": "a list of texts", "dtype": "an element type", "none": "nothing", "flag": "an integer", "dim": "a dimension",
    "op": "an operator", "array": "a constant array", "tensor": "a tensor", "const": "a constant tensor",
    "tensors": "a list of tensors", "node": "a node", "graph": "a subgraph", "model": "the model",
    "range": "a range of positions",
}  # fmt: skip

NUMBERS = frozenset({"int", "float", "number", "flag", "dim"})
LISTS = frozenset({"list", "ints", "floats", "strings"})
ARRAYS = frozenset({"array", "const"})

_FITS: dict[str, frozenset[str]] = {
    "bool": frozenset({"bool", "flag"}),
    "int": frozenset({"int", "flag", "dim", "number"}),
    "float": NUMBERS,
    "number": NUMBERS,
    "string": frozenset({"string", "op", "dim"}),
    "list": LISTS,
    "ints": frozenset({"ints", "list"}),
    "floats": frozenset({"ints", "floats", "list"}),
    "strings": frozenset({"strings", "list"}),
    "array": ARRAYS,
    "tensor": frozenset({"tensor", "const"}),
    "tensors": frozenset({"tensors"}),
    "dtype": frozenset({"dtype"}),
    "node": frozenset({"node"}),
    "range": frozenset({"range"}),
    "dim": frozenset({"dim", "int", "string", "flag"}),
}

_ATTRIBUTES: dict[str, frozenset[str]] = {
    "int": frozenset({"int", "flag", "dim", "bool", "dtype", "number"}),
    "float": NUMBERS,
    "string": frozenset({"string", "op"}),
    "ints": frozenset({"ints", "list", "array", "const"}),
    "floats": frozenset({"ints", "floats", "list", "array", "const"}),
    "strings": frozenset({"strings", "list"}),
    "tensor": frozenset({"array", "const", "bool", *NUMBERS, *LISTS}),
}


def fits(actual: str, wanted: str) -> bool:
    """True when an expression of one type may stand where another (`a|b`: one of several) is wanted."""
    if actual == "any" or wanted == "any":
        return True
    return any(word == "any" or actual in _FITS.get(word, (word,)) for word in wanted.split("|"))


def fits_attribute(actual: str, kinds: Iterable[str]) -> bool:
    """True when a value of that type can be an attribute of one of the kinds (`schema.Attribute.kind`)."""
    return actual == "any" or any(actual in _ATTRIBUTES.get(kind, ()) for kind in kinds)


def of_attribute(kinds: Iterable[str]) -> str:
    """The type of a captured attribute of one of these kinds."""
    words = {{"int": "flag", "tensor": "array", "tensors": "any"}.get(kind, kind) for kind in kinds}
    word = words.pop() if len(words) == 1 else "any"
    return word if word in WORDS else "any"


def join(types: Iterable[str]) -> str:
    """The narrowest type that covers all of them."""
    words = set(types)
    if len(words) == 1:
        return words.pop()
    if words and words <= NUMBERS:
        return "number"
    if words and words <= LISTS:
        return "list"
    return "any"


def describe(word: str) -> str:
    """`int|ints` → "an integer or a list of integers"."""
    return " or ".join(dict.fromkeys(WORDS.get(part, part) for part in word.split("|")))
