"""What a model costs and what its weights hold, as lines of text or as JSON, which has the fields of `ModelStats`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rewriter.app.report.summary_lines import size_text
from rewriter.core.record import as_dict
from rewriter.workbench.inspect.model_stats import Cost, ModelStats, WeightStats
from rewriter.workbench.style import Style, clean, counted

MAX_WEIGHTS = 12  # weights that are listed though there is nothing wrong with them
_HEAD = f"{'nodes':>7}  {'parameters':>13}  {'MACs':>8}  {'weights':>10}  {'results':>10}"


def stats_object(found: ModelStats, depth: int, *, nodes: bool) -> dict[str, Any]:
    """The figures, for JSON; those of each node only when asked for."""
    told = {
        "total": as_dict(found.total),
        "modules": [{"module": list(path), **as_dict(cost)} for path, cost in found.modules(depth)],
        "weights": [as_dict(weight) for weight in found.weights],
        "open": found.open,
        "functions": found.functions,
    }
    if nodes:
        told["nodes"] = [{"place": node.place, "name": node.name, "op": node.op, **as_dict(node.cost)} for node in found.nodes]
    return told


def stats_lines(found: ModelStats, depth: int, style: Style, *, nodes: bool) -> Iterator[str]:
    """The figures as a table: in all, by module, with `nodes` by node, and of weights."""
    yield style.paint("bold", _HEAD)
    yield f"{_row(found.total)}  in all"
    for path, cost in found.modules(depth):
        yield f"{_row(cost)}  {'  ' * (len(path) - 1)}{clean(path[-1])}"
    for node in found.nodes if nodes else ():
        where = "" if node.place == "main" else f" in {clean(node.place)}"
        yield f"{_row(node.cost)}  {clean(node.name)} ({clean(node.op)}){where}"
    if found.open:
        yield f"  dimensions that count as 1: {', '.join(map(clean, found.open[:MAX_WEIGHTS]))}; --static INPUT:SHAPE says them"
    if found.total.unknown:
        yield f"  of {counted(found.total.unknown, 'node')} the shapes are not known; they count as nothing"
    if found.functions:
        yield f"  {counted(found.functions, 'call')} of local functions count as nothing"
    if found.weights:
        yield ""
        yield from _weight_lines(found.weights, style, everything=nodes)


def _row(cost: Cost) -> str:
    sizes = f"{size_text(cost.weights):>10}  {size_text(cost.results):>10}"
    return f"{cost.nodes:>7,}  {cost.parameters:>13,}  {_short(cost.macs):>8}  {sizes}"


def _short(count: int) -> str:
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return str(count)


def _weight_lines(weights: Sequence[WeightStats], style: Style, *, everything: bool) -> Iterator[str]:
    odd = [weight for weight in weights if weight.nan or weight.inf or weight.constant or weight.problem]
    kept = set(map(id, odd))
    rest = sorted((weight for weight in weights if id(weight) not in kept), key=lambda weight: -_elements(weight))
    shown = rest if everything else rest[:MAX_WEIGHTS]
    for title, some in (("weights to look at", odd), ("the largest weights", shown)):
        if some:
            yield style.paint("bold", title)
            yield from (f"  {_weight(weight)}" for weight in some)
    if len(shown) < len(rest):
        yield f"  and {len(rest) - len(shown):,} more (--nodes lists them)"


def _weight(weight: WeightStats) -> str:
    parts = []
    if weight.min is not None and weight.max is not None and weight.mean is not None:
        parts.append(f"min {weight.min:.4g}, max {weight.max:.4g}, mean {weight.mean:.4g}")
    parts += [f"{count:,} {word}" for count, word in ((weight.nan, "NaN"), (weight.inf, "infinite")) if count]
    if weight.constant:
        zeros = f", {weight.dead:,} of them 0" if weight.dead else ""
        parts.append(f"{weight.constant:,} of {weight.channels:,} channels hold one number{zeros}")
    told = "; ".join([*parts, *([weight.problem] if weight.problem else [])])
    return clean(f"{weight.name}  {weight.type}[{','.join(map(str, weight.shape))}]  {told}")


def _elements(weight: WeightStats) -> int:
    count = 1
    for dim in weight.shape:
        count *= dim
    return count
