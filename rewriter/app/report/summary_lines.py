"""A model's summary, costs and weights as lines of text or as JSON, which has the fields of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from rewriter.app.report.printout import Printout
from rewriter.app.style import Style, clean
from rewriter.core.errors import counted
from rewriter.core.record import as_dict, replace

if TYPE_CHECKING:
    from rewriter.workbench.inspect.model_stats import Cost, ModelStats, WeightStats
    from rewriter.workbench.inspect.summary import GraphSize, HeldWeights, ModelSummary, NodeLine, SummaryPort

MAX_ENTRIES = 12  # bodies, files, metadata entries shown
LONGEST = 80  # characters of a metadata value


def summary(model_summary: ModelSummary, *, nodes: bool) -> Printout:
    """The summary (`show`); the JSON has `lines` only with `nodes`."""
    return Printout(partial(_summary_object, model_summary, nodes), partial(_summary_lines, model_summary), hang=11)


def _summary_object(model_summary: ModelSummary, nodes: bool) -> dict[str, Any]:
    data: dict[str, Any] = as_dict(model_summary)
    data["operators"] = dict(_ranked(model_summary))
    if not nodes:
        del data["lines"]
    return data


def _summary_lines(model_summary: ModelSummary, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', clean(model_summary.path))}  {size_text(model_summary.size)}"
    for name, value in _facts(model_summary):
        yield _line(name, value, style)
    for name, ports in (("inputs", model_summary.inputs), ("outputs", model_summary.outputs)):
        yield from _listed(name, [_port(port) for port in ports], len(ports), style)
    ranked = dict(_ranked(model_summary))
    constants = ranked.pop("Constant", 0)  # they compute nothing, and `optimize` does not count them either
    operators = ", ".join(f"{op} {times}" for op, times in ranked.items())
    beside = f"; {constants:,} Constant" if constants else ""
    yield _line("nodes", (f"{model_summary.nodes - constants:,}: {operators}" if operators else "none") + beside, style)
    yield from _listed("subgraphs", [_place(place) for place in model_summary.subgraphs], MAX_ENTRIES, style)
    yield from _listed("functions", [_place(place) for place in model_summary.functions], MAX_ENTRIES, style)
    files = []
    for file in model_summary.external:
        size = file.problem or ("?" if file.size is None else size_text(file.size))
        files.append(f"{file.location or '(none)'}  {counted(file.tensors, 'tensor')}, {size}")
    yield from _listed("external", files, MAX_ENTRIES, style)
    yield from _listed(
        "metadata", [f"{key} = {_cut(value)}" for key, value in model_summary.metadata.items()], MAX_ENTRIES, style
    )
    if model_summary.lines:
        yield ""
        yield from _node_lines(model_summary.lines, style)


def _ranked(model_summary: ModelSummary) -> list[tuple[str, int]]:
    return sorted(model_summary.operators.items(), key=lambda item: (-item[1], item[0]))


def _facts(model_summary: ModelSummary) -> Iterator[tuple[str, str]]:
    yield (
        "exporter",
        model_summary.exporter + (f"; signed {model_summary.producer}" if model_summary.producer else "; unsigned"),
    )
    if model_summary.graph:
        yield "graph", model_summary.graph
    opsets = [f"{domain or 'ai.onnx'} {version}" for domain, version in model_summary.opsets.items()]
    yield "opsets", ", ".join(opsets) or "none"
    yield "ir_version", str(model_summary.ir_version)
    yield "weights", _weights(model_summary.initializers)
    if model_summary.listed:
        yield "", f"{model_summary.listed} of them are also inputs"
    if model_summary.constants.tensors:
        yield "constants", f"{_weights(model_summary.constants)}, in attributes of nodes"
    yield "typed", counted(model_summary.typed, "intermediate tensor")


def _weights(weights: HeldWeights) -> str:
    if not weights.tensors:
        return "none"
    types = ", ".join(f"{count:,} {name}" for name, count in sorted(weights.by_type.items(), key=lambda item: -item[1]))
    shared = f", {weights.shared} of them in bytes that others use" if weights.shared else ""
    return f"{types} in {counted(weights.tensors, 'tensor')}, {size_text(weights.bytes)}{shared}"


def _listed(name: str, items: Sequence[str], most: int, style: Style) -> Iterator[str]:
    for number, item in enumerate(items[:most]):
        yield _line(name if number == 0 else "", item, style)
    if len(items) > most:
        yield _line("", f"and {len(items) - most} more", style)


def _line(name: str, text: str, style: Style) -> str:
    return f"  {style.paint('bold', name.ljust(10))} {clean(text)}"


def _node_lines(nodes: Sequence[NodeLine], style: Style) -> Iterator[str]:
    place = "main"
    for node in nodes:
        if node.place != place:
            place = node.place
            yield style.paint("bold", f"in {clean(place)}:")
        attributes = ", ".join(f"{name} = {value}" for name, value in node.attributes.items())
        outputs, read = (", ".join(name or '""' for name in names) for names in (node.outputs, node.inputs))
        label = f"[{clean(node.name)}] " if node.name else ""
        op = style.paint("cyan", clean(node.op)) + (clean(f"<{attributes}>") if attributes else "")
        yield f"  {style.paint('dim', label)}{clean(outputs)} = {op}({clean(read)})"


def _port(port: SummaryPort) -> str:
    return f"{port.name}  {port.type}" if port.type else f"{port.name}  of undeclared type"


def _place(place: GraphSize) -> str:
    return f"{place.path}  {counted(place.nodes, 'node')}"


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}... ({len(value)} characters)"


def size_text(count: int) -> str:
    """`97.5 MiB`; exact below 1 KiB."""
    if count < 1024:
        return counted(count, "byte")
    size, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"


# The costs and the weights of a model, as lines of text or as JSON, which has the fields of `ModelStats`.

MAX_WEIGHTS = 12  # weights that are listed although they have no defect
_HEAD = f"{'nodes':>7}  {'parameters':>13}  {'MACs':>8}  {'weights':>10}  {'results':>10}"


def with_stats(printout: Printout, stats: ModelStats, depth: int, *, nodes: bool) -> Printout:
    """The summary, and below it the figures as a table."""
    return replace(
        printout,
        content=lambda: {**printout.content(), "stats": _stats_object(stats, depth, nodes)},
        table=partial(_stats_lines, stats, depth, nodes),
    )


def _stats_object(stats: ModelStats, depth: int, nodes: bool) -> dict[str, Any]:
    """The figures, for JSON; the figures of each node only with `nodes`."""
    data = {
        "total": as_dict(stats.total),
        "modules": [{"module": list(path), **as_dict(cost)} for path, cost in stats.modules(depth)],
        "weights": [as_dict(weight) for weight in stats.weights],
        "open": stats.open,
        "functions": stats.functions,
    }
    if nodes:
        data["nodes"] = [{"place": node.place, "name": node.name, "op": node.op, **as_dict(node.cost)} for node in stats.nodes]
    return data


def _stats_lines(stats: ModelStats, depth: int, nodes: bool, style: Style) -> Iterator[str]:
    """The figures as a table: totals, by module, with `nodes` by node, and of weights."""
    yield ""
    yield style.paint("bold", _HEAD)
    yield f"{_row(stats.total)}  in all"
    for path, cost in stats.modules(depth):
        yield f"{_row(cost)}  {'  ' * (len(path) - 1)}{clean(path[-1])}"
    for node in stats.nodes if nodes else ():
        where = "" if node.place == "main" else f" in {clean(node.place)}"
        yield f"{_row(node.cost)}  {clean(node.name)} ({clean(node.op)}){where}"
    if stats.open:
        names = ", ".join(map(clean, stats.open[:MAX_WEIGHTS]))
        yield f"  dimensions that count as 1: {names}; set them with --static INPUT:SHAPE"
    if stats.total.unknown:
        yield f"  {counted(stats.total.unknown, 'node')} with unknown shapes: not counted"
    if stats.functions:
        yield f"  {counted(stats.functions, 'call')} of local functions: not counted"
    if stats.weights:
        yield ""
        yield from _weight_lines(stats.weights, style, everything=nodes)


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
    rest = sorted((weight for weight in weights if id(weight) not in kept), key=lambda weight: -prod(weight.shape))
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
        parts.append(f"{weight.constant:,} of {weight.channels:,} channels hold one value{zeros}")
    text = "; ".join([*parts, *([weight.problem] if weight.problem else [])])
    return clean(f"{weight.name}  {weight.type}[{','.join(map(str, weight.shape))}]  {text}")
