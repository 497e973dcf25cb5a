"""The differences of two models, by contents or by running both, as lines of text or as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rewriter.app.report.printout import Printout
from rewriter.app.style import Style, clean
from rewriter.core.errors import counted
from rewriter.core.record import as_dict
from rewriter.trust.difference import Difference
from rewriter.trust.proof.layer_comparison import Comparison, First, LayerDifference, Maker

_TITLES = {
    "model": "model",
    "opset": "opsets",
    "metadata": "metadata",
    "input": "inputs",
    "output": "outputs",
    "function": "functions",
    "node": "nodes",
    "attribute": "attributes",
    "operand": "operands",
    "result": "results",
    "constant": "constants",
}
LONGEST = 160  # characters of one side


def comparison(before: str, after: str, differences: Sequence[Difference]) -> Printout:
    """The differences of two models (`diff`)."""
    return Printout(
        lambda: {
            "before": before,
            "after": after,
            "different": bool(differences),
            "counts": dict(Counter(difference.kind for difference in differences)),
            "differences": differences,
        },
        lambda style: comparison_lines(before, after, differences, style),
    )


def comparison_lines(before: str, after: str, differences: Sequence[Difference], style: Style) -> Iterator[str]:
    """Differences by kind, with a count of each; no lines if the models are equal."""
    if not differences:
        return
    yield style.paint("bold", f"--- {clean(before)}")
    yield style.paint("bold", f"+++ {clean(after)}")
    for kind, title in _TITLES.items():
        own = [difference for difference in differences if difference.kind == kind]
        if own:
            yield style.paint("cyan", f"@@ {title}: {len(own)} @@")
            for difference in own:
                yield from difference_lines(difference, style)


def difference_lines(difference: Difference, style: Style) -> Iterator[str]:
    """One difference: what it is about, both sides, and statistics of a constant."""
    if difference.kind != "node":
        yield f" {_subject(difference)}"
    elif difference.place != "main":
        yield f" in {clean(difference.place)}"
    if difference.before is not None:
        yield style.paint("red", f"-{_cut(difference.before)}")
    if difference.after is not None:
        yield style.paint("green", f"+{_cut(difference.after)}")
    if (statistics := difference.statistics) is not None:
        yield style.paint("red", f"-  {_range(statistics.before)}")
        yield style.paint("green", f"+  {_range(statistics.after)}")
        yield f"   {statistics.differing:,} of {statistics.elements:,} elements differ, by at most {statistics.largest:.6g}"


def _subject(difference: Difference) -> str:
    where = "" if difference.place in ("", "main") else f"{clean(difference.place)}: "
    name, part = clean(difference.name), clean(difference.part)
    if difference.kind == "attribute":
        return f"{where}{name}: {part}"
    if difference.kind == "operand":
        return f"{where}{name}: operand {part}"
    if difference.kind == "result":
        return f"{where}output {part or name}"
    return f"{where}{name}"


def _range(statistics: tuple[float, float, float]) -> str:
    least, largest, mean = statistics
    return f"from {least:.6g} to {largest:.6g}, mean {mean:.6g}"


def _cut(text: str) -> str:
    shown = clean(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


# The results of two models on the same inputs, as lines of text or as JSON.
#
# The JSON object holds
#
#     schema, command    1, "compare"
#     before, after      the two files
#     same               whether both run and their outputs agree
#     runtime, inputs    the runtime and the inputs, with their `shapes`; `sets` counts the sets of inputs
#     rtol, atol, ulps   how far tensors may be apart
#     blocked            of each model [{node, operator, reason}]: nodes that are not run; node "" is the whole model
#     outputs            [{first, second, maker, other_maker, shape, largest, message}], `message` "" if they agree
#     missing            outputs of one model only
#     first_difference   null, or the same with {structure}
#     layers             the same for every pair of tensors, with --layers
#     pairs, compared    how many pairs of tensors there are, and how many were compared


def layers(before: str, after: str, result: Comparison) -> Printout:
    """The results of two models on the same inputs (`compare`)."""
    return Printout(partial(_layers_object, before, after, result), partial(_layers_lines, before, after, result))


def _layers_object(before: str, after: str, result: Comparison) -> dict[str, Any]:
    first = result.first
    return {
        "before": before,
        "after": after,
        "same": result.same,
        "runtime": result.runtime,
        "inputs": result.inputs,
        "shapes": result.shapes,
        "sets": result.sets,
        "rtol": result.bound.rtol,
        "atol": result.bound.atol,
        "ulps": result.bound.ulps,
        "blocked": result.blocked,
        "outputs": [_layer(layer) for layer in result.outputs],
        "missing": result.missing,
        "first_difference": None if first is None else {**_layer(first.layer), "structure": first.structure},
        "layers": [_layer(layer) for layer in result.layers],
        "pairs": result.pairs,
        "compared": result.compared,
    }


def _layer(layer: LayerDifference) -> dict[str, Any]:
    return {**as_dict(layer.pair), **{name: value for name, value in as_dict(layer).items() if name != "pair"}}


def _layers_lines(before: str, after: str, result: Comparison, style: Style) -> Iterator[str]:
    """The run, the outputs, the nodes that are not run, and the first difference."""
    yield style.paint("bold", f"A  {clean(before)}")
    yield style.paint("bold", f"B  {clean(after)}")
    made_up = f"{counted(result.sets, 'set')} of random inputs and edge values"
    inputs = made_up if result.inputs == "random" else f"inputs of {clean(result.inputs)}"
    yield f"{result.runtime}, {inputs}: {', '.join(map(clean, result.shapes)) or 'none'}"
    for name, side in zip("AB", result.blocked, strict=True):
        for node in side:
            where = f"{clean(node.node)} ({clean(node.operator)})" if node.node else "the model as a whole"
            yield style.paint("red", f"{name} does not run: {where}: {clean(node.reason)}")
    for layer in result.outputs:
        yield from _output(layer, style)
    for name in result.missing:
        yield style.paint("red", f"output {clean(name)}: only one of the models returns it")
    if result.layers:
        yield style.paint("cyan", f"@@ tensors: {len(result.layers)} of {result.pairs} pairs @@")
        yield from (_row(layer, style) for layer in result.layers)
    if result.first is not None:
        yield from _first(result.first, style)
    elif result.pairs and not result.same:
        yield f"no difference in the {result.compared} tensors that both compute and that have a counterpart"


def _output(layer: LayerDifference, style: Style) -> Iterator[str]:
    name = clean(layer.pair.first)
    if layer.message:
        yield style.paint("red", f"output {name} {clean(layer.message)}")
    else:
        yield style.paint("green", f"output {name} is the same, largest difference {layer.largest:.3g}")


def _row(layer: LayerDifference, style: Style) -> str:
    names = clean(layer.pair.first)
    if layer.pair.second != layer.pair.first:
        names += f" | {clean(layer.pair.second)}"
    mark, color = ("differs", "red") if layer.message else ("same", "green")
    largest = f"{layer.largest:.3g}" if math.isfinite(layer.largest) else clean(layer.message)
    return f"{style.paint(color, f'{mark:7}')}  {names}  {layer.shape}  {clean(layer.pair.maker.operator)}  {largest}"


def _first(first: First, style: Style) -> Iterator[str]:
    pair = first.layer.pair
    yield style.paint("cyan", "@@ first difference @@")
    yield f"A  {_tensor_text(pair.first, pair.maker)}  {first.layer.shape}"
    yield f"B  {_tensor_text(pair.second, pair.other_maker)}"
    yield style.paint("red", f"{clean(first.layer.message)}; everything before it agrees")
    for difference in first.structure:
        yield from difference_lines(difference, style)


def _tensor_text(tensor: str, maker: Maker) -> str:
    shown = f"{clean(tensor)}, made by {clean(maker.operator)}"
    return shown if maker.node == tensor else f"{shown} ({clean(maker.node)})"
