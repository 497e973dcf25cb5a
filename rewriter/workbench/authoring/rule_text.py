"""The words of a rule file that is begun from a model: names, operators, values, the doc comment, the symptom."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.language.diagnostics import SourceText, escape
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPE_NAMES, OLDEST_OPSET, history, normal, qualified, schema, versions
from rewriter.core.language.syntax.words import reserved
from rewriter.core.onnxfile.tensors import dtype_number
from rewriter.rule_tools.checks.check import check
from rewriter.trust.proof.judges import CHECKER, FULL_CHECK, SESSION
from rewriter.trust.proof.validity import Candidate

Array = np.ndarray[Any, Any]

FILL = "FILL IN"
"""Marks a line that the author has to complete."""

_LONGEST = 100  # characters of a message that is taken as a symptom
_WORDS = 4  # that a part of a message needs to say what is wrong
_SLUG = 40  # characters of a slug


class Names:
    """Names of a rule, each used once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wish: str) -> str:
        """The wished name, or a similar one if it is taken or is not a name."""
        wish = "".join(c for c in wish if c.isascii() and (c.isalnum() or c == "_")).strip("_")
        wish = wish if wish[:1].isalpha() else f"t{wish}"
        number, name = 1, wish
        while name in self._taken or reserved(name):
            number += 1
            name = f"{wish}{number}"
        self._taken.add(name)
        return name


def doc_comment(exporter: str, fix: str) -> Iterator[str]:
    """The labelled paragraphs that every rule has."""
    yield f"/// {FILL}: the defect as a fact, in at most 72 characters that name operator and exporter."
    yield "///"
    yield f"/// Why: {FILL}: the defect and its effect; quote the error message."
    yield f"/// Fix: {fix}"
    yield f"/// Exporters: {f'{exporter}. ' if exporter else ''}{FILL}: the exporters that write this, and their versions."
    yield f"/// Safe because: {FILL}: what a correct model would have instead."


def slug_of(nodes: Iterable[onnx.NodeProto]) -> str:
    """The operators as the name of a rule."""
    words = ["".join(c if c.isalnum() else "-" for c in node.op_type.lower()).strip("-") for node in nodes]
    slug = "-".join(word for word in words if word and word.isascii())
    return slug[:_SLUG].rstrip("-") or "rule"


def since(node: onnx.NodeProto, version: int) -> int:
    """The first version of ONNX's operators in which a node has the form that it has in a model of this version."""
    least: int = min(OLDEST_OPSET, version)
    if normal(node.domain):
        return least
    return max([least, *(known for known in versions(str(node.op_type)) if known <= version)])


def compiled(text: str) -> Rule:
    """The rule of a text. Raises RewriterError with the first thing that is wrong."""
    rule_file, problems = parse(text, "new.rules")
    problems = problems or [found for found in check(rule_file) if not found.is_warning]
    if problems:
        raise RewriterError("; ".join([problems[0].message, *problems[0].notes]))
    return Rule(rule_file.rules[0], "new.rules", SourceText("new.rules", text))


def kind_of_refused(reason: str) -> list[str]:
    """The header of a rule whose models are rejected, with the reason as the symptom."""
    return ["kind: repair", "evidence: refused", f"symptom: {quoted(reason)}"]


def refusal(part: onnx.ModelProto, whole: Model, runtime: bool) -> str:
    """Why a checker that rejects the whole also rejects the part; "" if no checker rejects both."""
    candidate, before = Candidate(Model.from_proto(part)), Candidate(whole)
    judges = [*([SESSION] if runtime else []), FULL_CHECK, CHECKER]
    found = next((reason for judge in judges if (reason := candidate.refusal(judge)) and before.refusal(judge)), "")
    clauses = [clause for clause in re.split(r"\] |, Error |: ", escape(found)) if len(clause.split()) >= _WORDS]
    return (clauses or [found])[-1].strip()[:_LONGEST]


def operator_text(node: onnx.NodeProto) -> str:
    return qualified(node.op_type, node.domain)


def default_text(node: onnx.NodeProto, name: str, version: int) -> str | None:
    """The default of an attribute at a version of ONNX's operators, of others in their newest; None if it has no default."""
    past = history(node.op_type, normal(node.domain))
    operator = next(reversed(past), None) if normal(node.domain) else schema(node.op_type, "", version)
    known = None if operator is None else operator.attributes.get(name)
    return None if known is None or known.default is None else value_text(known.default)


def attribute_values(node: onnx.NodeProto, version: int) -> Iterator[tuple[str, str]]:
    """The attributes of a node that a pattern can have: some schema has them, and their values are not defaults."""
    past = history(node.op_type, normal(node.domain))
    for attribute in node.attribute:
        shown = value_text(onnx.helper.get_attribute_value(attribute))
        is_known = not past or any(attribute.name in one.attributes for one in past)  # others are marks of some exporters
        if is_known and shown is not None and shown != default_text(node, attribute.name, version):
            yield attribute.name, shown


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def value_text(value: object) -> str | None:
    """An attribute's value as a pattern writes it; None if it has no such form."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return quoted(text) if text.isprintable() else None
    if isinstance(value, str):
        return quoted(value) if value.isprintable() else None
    if isinstance(value, bool | int):
        return str(int(value))
    if isinstance(value, float):
        return number_text(np.float32(value)) if math.isfinite(value) else None
    try:
        items = [value_text(item) for item in value]  # type: ignore[attr-defined]
    except TypeError:
        return None
    return None if any(item is None for item in items) else f"[{', '.join(map(str, items))}]"


# Constants: their values, and how they follow from other constants or from a shape.

_OPERATORS = {"+": np.add, "*": np.multiply, "-": np.subtract, "/": np.divide}


def number_text(value: Any) -> str:
    """An element of a constant: the shortest decimal that is read as the same number."""
    if isinstance(value, str | bytes):
        return quoted(value if isinstance(value, str) else value.decode(errors="replace"))
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return str(int(value)) if value.dtype.kind in "iu" else str(float(str(value)))


def pattern_literal(values: Array) -> str:
    """The text in the braces of a pattern: a number, or a list."""
    if values.size == 1:
        return number_text(values.flat[0])
    return f"[{', '.join(pattern_literal(part) if values.ndim > 1 else number_text(part) for part in values)}]"


def literal(values: Array) -> str:
    """A constant of a rewrite: `{0.5}`, `int64[2]{0, -1}`. Raises RewriterError for a type that the language lacks."""
    name = DTYPE_NAMES.get(dtype_number(values.dtype) or 0)
    if name is None:
        raise RewriterError(f"a rewrite cannot write constants of type {values.dtype}")
    kind = f"{name}[{', '.join(map(str, values.shape))}]" if values.ndim else "" if name == "float" else name
    return f"{kind}{{{', '.join(map(number_text, values.flat))}}}"


def sizes_of(values: Array, lengths: Sequence[int | None], name: str) -> str:
    """A list of sizes, each a length of a tensor or a product of consecutive lengths; "" if a size is neither."""
    if values.ndim != 1 or values.size < 2 or None in lengths:
        return ""
    if values.tolist() == list(lengths):
        return f"shape({name})"
    terms, place = [], 0
    for size in values.tolist():
        end, product = place, 1
        while end < len(lengths) and (end == place or product < size):
            product *= lengths[end] or 0
            end += 1
        if product != size or end == place:
            return ""
        terms.append(f"dim({name}, {place})" if end - place == 1 else f"size({name}, {place}..{end - 1})")
        place = end
    return f"[{', '.join(terms)}]" if place == len(lengths) else ""


def derived(wanted: Array, known: Mapping[str, Array]) -> Iterator[str]:
    """Expressions that compute a constant from other constants, given by name."""
    for expression, array in _expressions(
        wanted, {name: a for name, a in known.items() if a.dtype.kind in "iuf" and a.size > 1}
    ):
        if array.shape == wanted.shape and np.array_equal(array.astype(wanted.dtype), wanted):
            is_cast = array.dtype != wanted.dtype
            yield f"cast({expression}, {DTYPE_NAMES[dtype_number(wanted.dtype) or 0]})" if is_cast else expression


def _expressions(wanted: Array, known: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, array in known.items():
        yield from ((name, array), (f"-{name}", -array), (f"flatten({name})", array.reshape(-1)))
        if array.size == wanted.size:
            yield f"reshape({name}, {list(wanted.shape)})", array.reshape(wanted.shape)
        for order in permutations(range(array.ndim)) if 1 < array.ndim < 5 else ():
            yield f"transpose({name}, {list(order)})", array.transpose(order)
    for (first, one), (second, other) in permutations(known.items(), 2):
        with np.errstate(all="ignore"):
            for sign, function in _OPERATORS.items():
                if one.dtype == other.dtype and (sign != "/" or one.dtype.kind == "f") and _broadcast(one, other):
                    yield f"{first} {sign} {second}", function(one, other)
        for axis in range(one.ndim if one.ndim == other.ndim else 0):
            if np.delete(one.shape, axis).tolist() == np.delete(other.shape, axis).tolist():
                yield f"concat({first}, {second}, {axis})", np.concatenate([one, other], axis)
    for name, array in known.items():
        if array.shape == wanted.shape and array.flat[0] and array.dtype.kind == wanted.dtype.kind == "f":
            factor, shift = wanted.flat[0] / array.flat[0], wanted.flat[0] - array.flat[0]
            yield from ((f"{name} * {number_text(factor)}", array * factor), (f"{name} + {number_text(shift)}", array + shift))


def _broadcast(one: Array, other: Array) -> bool:
    pairs = zip(reversed(one.shape), reversed(other.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
