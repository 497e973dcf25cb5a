"""The differences of two models as lines of text or as JSON.

The JSON object holds

    schema, command   1, "diff"
    before, after     the two files
    different, counts whether there are differences, and how many of each kind
    differences       [{kind, place, name, part, before, after, statistics}], see `rewriter.inspect.diff.difference`, where
                      `statistics` is null or {before: [least, largest, mean], after: [...], differing, elements, largest};
                      numbers that JSON has not are null
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rewriter.inspect.diff.difference import Difference
from rewriter.record import as_dict
from rewriter.report.style import Style, clean

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


def comparison_object(before: str, after: str, found: Sequence[Difference]) -> dict[str, Any]:
    """The differences, as JSON has them."""
    return {
        "schema": 1,
        "command": "diff",
        "before": before,
        "after": after,
        "different": bool(found),
        "counts": dict(Counter(difference.kind for difference in found)),
        "differences": [difference_object(difference) for difference in found],
    }


def difference_object(difference: Difference) -> dict[str, Any]:
    """One difference, as JSON has it."""
    found: dict[str, Any] = _finite(as_dict(difference))
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def comparison_lines(before: str, after: str, found: Sequence[Difference], style: Style) -> Iterator[str]:
    """Differences by kind, with a count of each; nothing when there are none."""
    if not found:
        return
    yield style.paint("bold", f"--- {clean(before)}")
    yield style.paint("bold", f"+++ {clean(after)}")
    for kind, title in _TITLES.items():
        own = [difference for difference in found if difference.kind == kind]
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
    if (told := difference.statistics) is not None:
        yield style.paint("red", f"-  {_range(told.before)}")
        yield style.paint("green", f"+  {_range(told.after)}")
        yield f"   {told.differing:,} of {told.elements:,} elements differ, by at most {told.largest:.6g}"


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


def _range(told: tuple[float, float, float]) -> str:
    least, largest, mean = told
    return f"from {least:.6g} to {largest:.6g}, mean {mean:.6g}"


def _cut(text: str) -> str:
    shown = clean(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
