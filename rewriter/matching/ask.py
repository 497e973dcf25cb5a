"""The questions of a pattern as functions, with all that can be told of them beforehand worked out.

Each takes the match that is being tried, with what it has bound so far, and answers whether it can go on. What is rarely asked
is left to the methods of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import onnx_graphsurgeon as gs

from rewriter.graph.by_operator import OpKey, operator_key
from rewriter.language import ast
from rewriter.language.pattern import Made, Pattern
from rewriter.language.pattern_order import is_plain, plain_value
from rewriter.matching.match import Matcher

Question = Callable[[Matcher], bool]
_NAME = attrgetter("name")


def ask_node(number: int, pattern: Pattern, position: int = 0) -> Question:
    """Whether the node that is to be the pattern's node `number` fits by itself."""
    node, source = pattern.nodes[number], pattern.nodes[number].source
    label, outputs = source.label, _ask_outputs(source)
    attrs = tuple(map(_ask_attribute, source.attrs))

    def ask(match: Matcher) -> bool:
        found = match.nodes[number]
        if not match.fits(node, found):
            return False
        match.taken.add(id(found))
        if label is not None and not match.bind(label, found):
            return False
        return outputs(match, found) and (not attrs or all(has(match, found) for has in attrs))

    return ask


def ask_leaf(number: int, pattern: Pattern, position: int = 0) -> Question:
    """All of a node whose operands are plain names that stand nowhere else, and whose one output has a name: as `ask_node`,
    `ask_operands` and `ask_capture` one after the other.
    """
    node, source = pattern.nodes[number], pattern.nodes[number].source
    label, output, alone = source.label, source.outputs[0].name, len(pattern.nodes) == 1
    names = tuple(operand.name if isinstance(operand, ast.Capture) else None for operand in node.inputs)
    attrs = tuple(map(_ask_attribute, source.attrs))
    assert output is not None

    def ask(match: Matcher) -> bool:
        found = match.nodes[number]
        if not match.fits(node, found):
            return False
        if not alone:
            match.taken.add(id(found))
        if label is not None and not match.bind(label, found):
            return False
        bind, outputs = match.bound.setdefault, found.outputs
        if len(outputs) != 1:
            if not match.outputs(source, found):
                return False
        elif not outputs[0].name or (bind(output, outputs[0]) is not outputs[0] and not match.bind(output, outputs[0])):
            return False
        if attrs and not all(has(match, found) for has in attrs):
            return False
        for name, tensor in zip(names, found.inputs, strict=False):
            if not tensor.name or (name is not None and bind(name, tensor) is not tensor and not match.bind(name, tensor)):
                return False
        return True

    return ask


def is_leaf(number: int, pattern: Pattern) -> bool:
    """Whether `ask_leaf` can ask about a node."""
    node = pattern.nodes[number]
    outputs = node.source.outputs
    if len(outputs) != 1 or outputs[0].name is None or outputs[0].variadic or node.source.more_outputs:
        return False
    listed = [operand.name for other in pattern.nodes for operand in other.inputs if isinstance(operand, ast.Capture)]
    return all(
        isinstance(operand, ast.Wildcard)
        or (
            isinstance(operand, ast.Capture)
            and not (operand.const or operand.optional or operand.type is not None)
            and listed.count(operand.name) == 1
        )
        for operand in node.inputs
    )


def _ask_attribute(attr: ast.AttrPattern) -> Callable[[Matcher, gs.Node], bool]:
    """Whether a node has an attribute as the pattern wants it; `axis=1` is settled at once where the node says a number."""
    if attr.mode != "equals" or not is_plain(attr.value):
        return lambda match, node: match.has(attr, node)
    assert attr.value is not None
    name, wanted = attr.name, plain_value(attr.value)
    kind = type(wanted)

    def has(match: Matcher, node: gs.Node) -> bool:
        found = node.attrs.get(name)
        if type(found) is kind and kind in _COMPARED_AT_ONCE:
            return bool(found == wanted)
        return match.equals(attr, node)

    return has


_COMPARED_AT_ONCE = frozenset((int, str, list))
"""Kinds of attribute values that are equal in the language where Python says so."""


def _ask_outputs(source: ast.NodePattern) -> Callable[..., bool]:
    if source.more_outputs or any(output.variadic for output in source.outputs):
        return lambda match, node: match.outputs(source, node)
    names = tuple(output.name for output in source.outputs)
    width = max(len(names), 1)
    if len(names) == 1 and names[0] is not None:
        only = names[0]

        def ask_only(match: Matcher, node: gs.Node) -> bool:
            outputs = node.outputs
            if len(outputs) != 1:
                return match.outputs(source, node)
            return bool(outputs[0].name) and match.bind(only, outputs[0])

        return ask_only

    def ask(match: Matcher, node: gs.Node) -> bool:
        outputs = node.outputs
        if len(outputs) > width:
            return match.outputs(source, node)
        if len(outputs) < len(names):
            return False
        for name, tensor in zip(names, outputs, strict=False):
            if not tensor.name or (name is not None and not match.bind(name, tensor)):
                return False
        return True

    return ask


def ask_operands(number: int, pattern: Pattern, count: int) -> Question:
    """A first look at the first operands of a node: whether they are there, and made by the right operators."""
    wanted = _wanted(pattern, number, count)
    if any(optional or ops is not None for optional, ops in wanted):
        return lambda match: _all_there(match, match.nodes[number].inputs, wanted)

    def ask_plain(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        if len(inputs) < count:
            return False
        return all(map(_NAME, inputs[:count]))

    return ask_plain


def ask_swapped_operands(number: int, pattern: Pattern, count: int) -> Question:
    """The same of two operands that stand the other way round; they must be two, or nothing is different."""
    wanted = _wanted(pattern, number, count)

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        return len(inputs) > 1 and inputs[0] is not inputs[1] and _all_there(match, (inputs[1], inputs[0]), wanted)

    return ask


Wanted = tuple[tuple[bool, frozenset[OpKey] | None], ...]
"""Of each operand whether it may be missing, and which operators may make it."""


def _wanted(pattern: Pattern, number: int, count: int) -> Wanted:
    return tuple(
        (
            isinstance(operand, ast.Capture) and operand.optional,
            pattern.nodes[operand.node].ops if isinstance(operand, Made) else None,
        )
        for operand in pattern.nodes[number].inputs[:count]
    )


def _all_there(match: Matcher, inputs: Sequence[gs.Tensor], wanted: Wanted) -> bool:
    count = len(inputs)
    for position, (optional, ops) in enumerate(wanted):
        if position >= count or not inputs[position].name:
            if not optional:
                return False
        elif ops is not None:
            maker = match.context.producer(inputs[position])
            if maker is None or operator_key(maker) not in ops:
                return False
    return True


def ask_maker(number: int, operand: Made, position: int) -> Question:
    """Whether an operand comes from the right output of the node that the pattern says."""
    inner, run = operand.node, operand.run

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        maker = match.maker_of_run(inputs[position:]) if run else match.maker(operand, inputs[position])
        return maker is not None and match.nodes.setdefault(inner, maker) is maker

    return ask


def ask_capture(number: int, operand: ast.Capture, position: int) -> Question:
    """Whether an operand is what its name stands for."""
    name = operand.name
    if not (operand.const or operand.type is not None or operand.optional):

        def ask_plain(match: Matcher) -> bool:
            return match.bind(name, match.nodes[number].inputs[position])

        return ask_plain

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        return match.capture(operand, inputs[position] if position < len(inputs) else None)

    return ask


def ask_run(number: int, operand: ast.Variadic, position: int) -> Question:
    """Binds the rest of the operands."""
    return lambda match: match.bind(operand.name, list(match.nodes[number].inputs[position:]))


def ask_constant(number: int, operand: ast.ConstPattern, position: int) -> Question:
    """Whether an operand is a constant of this value."""
    return lambda match: match.constant(operand, match.nodes[number].inputs[position])


def ask_attribute(number: int, attr: ast.AttrPattern, position: int = 0) -> Question:
    """Whether an attribute equals what the whole match binds."""
    return lambda match: match.equals(attr, match.nodes[number])
