"""The contents of a framework's own file about its nodes, by node name.

An exporter drops attributes (MXNet's `fix_gamma`, `pooling_convention`) and output indices; the file that the framework saved
next to the model still has them. A reader (`mxnet`, `table`) fills a `SourceInfo`. Rules read it through `attribute` and
`source_input`.

**The join.** ONNX nodes are looked up by name, as the real exports of MXNet 1.3 to 1.9.1 need it. The first way that finds a
framework node wins:

1. the node has the name of a framework node (all exporters up to 1.8; in 1.9 the nodes that have a name at all);
2. its first output is named so (1.9 leaves most names empty and names the last node's output after the framework node);
3. the first output is that name and an output index, if the framework node has several outputs (`sp0`, `sp1` of `sp`;
   helpers behind them, `split02_`, carry one more underscore);
4. in files of MXNet 1.9 and later, the first output continues the name with an underscore (`fc1_gemm`, `ln0_rm1_out`): such a
   node is one of several that implement the framework node, whose attributes are its own. The longest name wins.

Names that occur twice in the file find no node (in files of MXNet 1.9: the first keeps the name), except as
`idx_<position>_<name>`, to which MXNet 1.9 renames them. Helper nodes of MXNet 1.5 to 1.8 (`flatten_3`, `transpose1_b`) bear no
relation to a name and stay unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Union

from rewriter.core.record import field, record

# Reads attribute texts of source files: numbers, booleans, None, strings, tuples and lists of these, but no other code.
#
# Frameworks print Python values, of either Python (`(3L, 3L)`, `u'same'`); files come from strangers, so there is no `eval`
# here.

Value = Union[bool, int, float, str, None, "list[Value]"]

MAX_LENGTH = 1 << 16
MAX_DEPTH = 16
_TOKEN = (
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[lL]?(?![\w.])"
    r"|(?P<string>[uU]?(?:'[^'\\]*'|\"[^\"\\]*\"))|(?P<word>[+-]?[A-Za-z_]\w*)|(?P<mark>[\[\](),]))"
)
_WORDS: dict[str, bool | float | None] = {
    "true": True,
    "false": False,
    "none": None,
    "null": None,
    "inf": float("inf"),
    "+inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class NotOfType(ValueError):
    """The text is no literal of the wanted type."""


def parse_literal(text: str) -> Value:
    """The value of a literal; the text itself if it is no literal."""
    try:
        return _parse(text)
    except NotOfType:
        return text


def parse_as(text: str, like: Value) -> Value:
    """The text as a value of the type of `like`.

    Raises:
        NotOfType: the text is not one.
    """
    if isinstance(like, str):
        return text
    plain = text.strip().lower()
    if plain in ("none", "null"):
        return None
    if isinstance(like, bool):
        if plain not in _TRUTHS:
            raise NotOfType(text)
        return _TRUTHS[plain]
    value = _parse(text)
    if isinstance(like, list):
        return value if isinstance(value, list) else [value]
    if isinstance(value, float) and isinstance(like, int) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float) and isinstance(like, int)):
        raise NotOfType(text)
    return float(value) if isinstance(like, float) else value


def _parse(text: str) -> Value:
    if len(text) > MAX_LENGTH:
        raise NotOfType(text)
    if text.isascii() and text.isdigit():
        return _number(text)  # as most of them are
    tokens = _tokens(text)
    value = _value(next(tokens, ("end", "")), tokens, 0)
    if next(tokens, None) is not None:
        raise NotOfType(text)
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    token = re.compile(_TOKEN)  # once a process, and not in the many that read no source file
    while position < end:
        found = token.match(text, position)
        if found is None or found.lastgroup is None:
            raise NotOfType(text)
        yield found.lastgroup, found[found.lastgroup]
        position = found.end()


def _value(token: tuple[str, str], tokens: Iterator[tuple[str, str]], depth: int) -> Value:
    kind, text = token
    if kind == "number":
        return _number(text)
    if kind == "string":
        return text.lstrip("uU")[1:-1]
    if kind == "word" and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if kind == "mark" and text in "[(" and depth < MAX_DEPTH:
        return _items("]" if text == "[" else ")", tokens, depth + 1)
    raise NotOfType(text)


def _number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", text):
        if len(text) > 20:  # beyond 64 bits
            raise NotOfType(text)
        return int(text)
    return float(text)


def _items(closing: str, tokens: Iterator[tuple[str, str]], depth: int) -> list[Value]:
    """The items up to the closing mark; `(3)` and `(3,)` are both one item, as MXNet reads them."""
    items: list[Value] = []
    while True:
        token = next(tokens, ("end", ""))
        if token == ("mark", closing):
            return items
        items.append(_value(token, tokens, depth))
        token = next(tokens, ("end", ""))
        if token == ("mark", closing):
            return items
        if token != ("mark", ","):
            raise NotOfType(closing)


VARIABLE = "null"  # the operator of a variable (an input or a weight) in a symbol file
_INDEXED = re.compile(r"(.+?)(\d{1,9})_?")
_UNJOINED = ("dim_minus_1", "gamma_exp", "beta_exp", "initial_h", "initial_c", "0_t", "concat0_out")
"""Suffixes that MXNet 1.9 appends without an underscore."""


class Missing(Enum):
    """Why an attribute has no value."""

    NODE = "the node is not in the source file"
    ATTRIBUTE = "the node has no such attribute"
    VALUE = "the attribute's text is not of the wanted type"


@record(frozen=True, slots=True)
class SourceNode:
    """One node of the framework's graph.

    Attributes:
        name: its name in the framework.
        operator: its operator there ("BatchNorm"); `VARIABLE` for inputs and weights, "" if a table has none.
        attributes: attribute texts as the file has them.
        inputs: the edges (node name, output index) in operand order.
        position: its place in the list of nodes, -1 if there is none.
    """

    name: str
    operator: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[tuple[str, int], ...] = ()
    position: int = -1


class SourceInfo:
    """The nodes of one source file and the join with ONNX nodes.

    Attributes:
        path: of the source file ("" for none).
        framework: "mxnet", or "" for a table; `version` is the version of the framework that wrote the file, or "".
        release: the first two numbers of `version`, () for none.
        nodes: by name.
        heads: outputs of the framework's graph as (node name, output index).
    """

    def __init__(
        self,
        nodes: Iterable[SourceNode],
        *,
        path: str = "",
        framework: str = "",
        version: str = "",
        heads: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.path = path
        self.framework = framework
        self.version = version
        self.heads = tuple(heads)
        self.release = _version_number(version)
        self._modern = framework == "mxnet" and self.release >= (1, 9)
        self.nodes = _by_name(nodes, self._modern)
        self._several = _outputs(self)

    def node_for(self, name: str, outputs: Sequence[str] = ()) -> str | None:
        """The name of the framework node that an ONNX node implements, alone or with other nodes.

        Args:
            name: the ONNX node's name, "" if it has none.
            outputs: names of its outputs, in order.

        Returns:
            A key of `nodes`, or None if the file has no such node.
        """
        first = next((output for output in outputs if output), "")
        return next(filter(self._operates, (name, first, *self._indexed(first), *self._helped(first))), None)

    def attribute(self, key: str, attribute: str, like: Value = None) -> Value | Missing:
        """The value of a framework node's attribute.

        Args:
            key: name of the framework node, as `node_for` returns it.
            attribute: name of the attribute there.
            like: a value (the caller's default) by whose type the text is read: bool reads 'True', '1', 'true'; int, float and
                str read theirs; a list reads '(3L, 3L)', '[3, 3]', '3'. None guesses from the text, which stays a str if it is
                no literal.

        Returns:
            The value ('None' is read as None unless `like` is a str), or why there is none.
        """
        node = self.nodes.get(key)
        if node is None:
            return Missing.NODE
        text = node.attributes.get(attribute)
        if text is None:
            return Missing.ATTRIBUTE
        if like is None:
            return parse_literal(text)
        try:
            return parse_as(text, like)
        except NotOfType:
            return Missing.VALUE

    def source_input(self, key: str, index: int) -> tuple[str, int] | None:
        """The edge (node name, output index) that feeds an operand of a framework node; None if the file has no such edge."""
        node = self.nodes.get(key)
        if node is None or not 0 <= index < len(node.inputs):
            return None
        return node.inputs[index]

    def output_count(self, key: str) -> int:
        """How many outputs of a framework node the file shows to exist, at least 1 (edges, heads, `num_outputs`)."""
        return max(1, self._several.get(key, 1))

    def _operates(self, key: str) -> bool:
        node = self.nodes.get(key)
        return node is not None and node.operator != VARIABLE

    def _indexed(self, output: str) -> Iterator[str]:
        """Nodes of several outputs which `output` may be one of, longest name first: `t00_` may belong to `t0` or to `t`."""
        if found := _INDEXED.fullmatch(output):
            stem, digits = found.groups()
            least = 1 if self._modern else 0  # 1.9 appends 0 also if the file has one output only (TopK)
            for cut in reversed(range(len(digits))):
                if int(digits[cut:]) < self._several.get(stem + digits[:cut], least):
                    yield stem + digits[:cut]

    def _helped(self, output: str) -> Iterator[str]:
        """Names which `output` continues as MXNet 1.9 names helper nodes, longest first."""
        if self._modern:
            for end in reversed(range(1, len(output))):
                if output[end] == "_" or output.startswith(_UNJOINED, end):
                    yield output[:end]


def _by_name(nodes: Iterable[SourceNode], first_stays: bool) -> dict[str, SourceNode]:
    """Nodes by name. Nodes that share a name lose it and get the names that MXNet 1.9 gives them, by position."""
    listed = list(nodes)
    found: dict[str, SourceNode] = {}
    shared: set[str] = set()
    for node in listed:
        if node.name in found:
            shared.add(node.name)
        found.setdefault(node.name, node)
    for position, node in enumerate(listed) if shared else ():
        if node.name in shared:
            found.setdefault(f"idx_{position}_{node.name}", node)
    for name in () if first_stays else shared:
        del found[name]
    return found


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:2])


def _edges(info: SourceInfo) -> Iterator[tuple[str, int]]:
    yield from info.heads
    for node in info.nodes.values():
        yield from node.inputs


def _outputs(info: SourceInfo) -> dict[str, int]:
    """How many outputs a node has, for nodes with more than one."""
    counts: dict[str, int] = {}
    for name, index in _edges(info):
        if index:
            counts[name] = max(counts.get(name, 0), index + 1)
    for name, node in info.nodes.items():
        count = parse_literal(node.attributes.get("num_outputs", "1"))
        if isinstance(count, int) and 1 < count < 100_000:
            counts[name] = max(counts.get(name, 0), count)
        if node.operator == "RNN" and node.attributes.get("state_outputs") == "True":  # its states, also if nothing reads them
            counts[name] = 3 if node.attributes.get("mode") == "lstm" else 2
    return counts
