"""A layered drawing of a part of a graph: its boxes and edges, and their positions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from rewriter.app.style import clean
from rewriter.core.errors import RewriterError
from rewriter.core.log import Box, Port, Role, Snapshot, View
from rewriter.core.record import field, record

Sort = Literal["node", "input", "output", "outer", "more"]
Mark = Literal["", "-", "+"]

ROWS = 8  # lines below the operator and the name
LONGEST = 38  # characters of a line; a tooltip shows the whole text
MARKS: dict[Role, str] = {"removed": "\u2212", "added": "+", "edited": "~", "matched": "=", "around": "", "plain": ""}


@record(frozen=True, slots=True)
class Row:
    """A line in a box; `mark` is "-" if the line exists only before, "+" if only after."""

    text: str
    mark: Mark = ""


@record(slots=True)
class Shape:
    """A box: a node of the graph, an input or output of it, or a placeholder for parts that are not shown."""

    id: str
    sort: Sort
    title: str
    name: str = ""
    role: Role = "around"
    rows: list[Row] = field(default_factory=list)
    tip: str = ""


@record(frozen=True, slots=True)
class Edge:
    """A tensor on its way from one shape to another. `out` and `into` are (place, number of places) at either end."""

    source: str
    target: str
    label: str
    name: str
    out: tuple[int, int] = (0, 1)
    into: tuple[int, int] = (0, 1)


@record(slots=True)
class Drawing:
    """Everything that one picture shows."""

    shapes: list[Shape] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)


def pair(snapshot: Snapshot) -> tuple[Drawing, Drawing]:
    """A firing before and after."""
    return draw(snapshot.before, snapshot.after, "-"), draw(snapshot.after, snapshot.before, "+")


def draw(view: View, other: View | None = None, mark: Mark = "") -> Drawing:
    """The drawing of a view. Lines of an edited node that the other view lacks get the mark."""
    drawing = Drawing()
    makers: dict[int, tuple[str, tuple[int, int], Port]] = {}
    for port in view.given:
        shape = Shape(f"i{port.tensor}", "input", tail(port.name), tip=_tip(port))
        drawing.shapes.append(shape)
        makers[port.tensor] = shape.id, (0, 1), port
    others = {box.key: set(_texts(box)) for box in (other.boxes if other is not None else ())}
    for box in view.boxes:
        drawing.shapes.append(_shape(box, others.get(box.key), mark))
        for place, port in enumerate(box.outputs):
            makers[port.tensor] = f"n{box.key}", (place, len(box.outputs)), port
    for box in view.boxes:
        _connect(drawing, box, makers)
    for port in view.wanted:
        _end(drawing, Shape(f"o{port.tensor}", "output", tail(port.name), tip=_tip(port)), port, makers)
    for box in view.boxes:
        for port in box.outputs:
            if port.more:
                text = f"{port.more:,} more reader{'' if port.more == 1 else 's'}"
                _end(drawing, Shape(f"m{port.tensor}", "more", text), port, makers)
    return drawing


def _shape(box: Box, others: set[str] | None, mark: Mark) -> Shape:
    texts = list(_texts(box))
    changed = others if box.role == "edited" else None
    rows = [Row(cut(text), mark if changed is not None and text not in changed else "") for text in texts]
    rows.sort(key=lambda row: not row.mark)  # changed lines are never left out
    if box.role == "around":
        rows = []
    if len(rows) > ROWS:
        rows = [*rows[: ROWS - 1], Row(f"\u2026 and {len(rows) - ROWS + 1} more")]
    name = clean(box.name)
    tip = "\n".join([clean(box.op) + (f" {name}" if name else ""), *texts])
    return Shape(f"n{box.key}", "node", cut(box.op), tail(name), box.role, rows, tip)


def _texts(box: Box) -> Iterator[str]:
    """Attributes, and operands that are constants or left out."""
    for name, value in box.attributes:
        yield clean(f"{name} = {value}")
    for place, port in enumerate(box.inputs):
        if port.constant:
            yield clean(f"{place}: {port.constant}")


def _connect(drawing: Drawing, box: Box, makers: dict[int, tuple[str, tuple[int, int], Port]]) -> None:
    here = f"n{box.key}"
    shown = [port for port in box.inputs if port.tensor and (not port.constant or port.tensor in makers)]
    if box.role == "around":
        shown = [port for port in shown if port.tensor in makers]
    for place, port in enumerate(shown):
        if port.tensor not in makers:
            shape = Shape(f"x{port.tensor}", "outer", tail(port.name), tip=_tip(port))
            drawing.shapes.append(shape)
            makers[port.tensor] = shape.id, (0, 1), port
        source, out, maker_port = makers[port.tensor]
        drawing.edges.append(Edge(source, here, cut(maker_port.type or port.type), clean(port.name), out, (place, len(shown))))


def _end(drawing: Drawing, shape: Shape, port: Port, makers: dict[int, tuple[str, tuple[int, int], Port]]) -> None:
    if port.tensor in makers:
        source, out, maker_port = makers[port.tensor]
        drawing.shapes.append(shape)
        drawing.edges.append(Edge(source, shape.id, cut(maker_port.type or port.type), clean(port.name), out))


def _tip(port: Port) -> str:
    return clean(f"{port.name} {port.type}".strip())


def cut(text: str) -> str:
    """A text on one line, cut if it is too long."""
    shown = clean(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "\u2026"


def tail(text: str) -> str:
    """A name, cut at its beginning if it is too long: names differ at their ends."""
    shown = clean(text)
    return shown if len(shown) <= LONGEST else "\u2026" + shown[1 - LONGEST :]


# Positions and routes of edges: the last two steps of a layered drawing.
#
# In each layer, the best position of a shape is below the middle of the shapes above it. The nearest positions that keep the
# order and the distances are found exactly, by pooling neighbours that would overlap.

# The layer of each shape of a picture, and the order in a layer: the first two steps of a layered drawing.
#
# The method is by Sugiyama, Tagawa and Toda (1981): layers by longest path, edges that cross layers cut into pieces by
# invisible places, and orders by barycenters, swept down and up. The order with the fewest crossings is kept.

ORDER_SWEEPS = 12

Place = str
Pieces = list[tuple[Place, Place]]


def layer_numbers(shapes: Sequence[Place], edges: Iterable[tuple[Place, Place]]) -> dict[Place, int]:
    """The layer of each shape, from 0; edges lead down. An edge that would close a cycle does not count."""
    below: dict[Place, list[Place]] = {shape: [] for shape in shapes}
    for source, target in edges:
        if source != target and target not in below[source]:
            below[source].append(target)
    order = _topological(shapes, below)
    position = {shape: number for number, shape in enumerate(order)}
    found = dict.fromkeys(order, 0)
    for shape in order:
        for target in below[shape]:
            if position[target] > position[shape]:
                found[target] = max(found[target], found[shape] + 1)
    above = {target for shape in order for target in below[shape] if position[target] > position[shape]}
    for shape in reversed(order):  # a shape without incoming edges is right above its first reader
        targets = [found[target] for target in below[shape] if position[target] > position[shape]]
        if shape not in above and targets:
            found[shape] = min(targets) - 1
    return found


def _topological(shapes: Sequence[Place], below: Mapping[Place, Sequence[Place]]) -> list[Place]:
    """The shapes in topological order, depth first, without recursion. With cycles, the order is arbitrary."""
    done: dict[Place, bool] = {}
    order: list[Place] = []
    for start in reversed(shapes):
        stack = [(start, False)]
        while stack:
            shape, left = stack.pop()
            if left:
                order.append(shape)
            elif shape not in done:
                done[shape] = True
                stack.append((shape, True))
                stack.extend((target, False) for target in below[shape] if target not in done)
    return order[::-1]


def with_places(
    layers: Mapping[Place, int], edges: Sequence[tuple[Place, Place]]
) -> tuple[list[list[Place]], Pieces, list[list[Place]]]:
    """Layers with invisible places in them, edges between neighbouring layers, and the route of each edge."""
    rows: list[list[Place]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for shape, number in layers.items():
        rows[number].append(shape)
    pieces: Pieces = []
    routes: list[list[Place]] = []
    for count, (source, target) in enumerate(edges):
        step = 1 if layers[target] >= layers[source] else -1
        route = [source]
        for number in range(layers[source] + step, layers[target], step):
            route.append(f"\0{count}.{number}")
            rows[number].append(route[-1])
        route.append(target)
        routes.append(route)
        pieces.extend(pair if step > 0 else pair[::-1] for pair in pairwise(route) if pair[0] != pair[1])
    return rows, pieces, routes


def ordered(rows: Sequence[Sequence[Place]], pieces: Pieces) -> list[list[Place]]:
    """The layers with their shapes in an order with few crossings."""
    above: dict[Place, list[Place]] = {}
    below: dict[Place, list[Place]] = {}
    for upper, lower in pieces:
        above.setdefault(lower, []).append(upper)
        below.setdefault(upper, []).append(lower)
    now = [list(row) for row in rows]
    best, fewest = [list(row) for row in now], _crossings(now, below)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for number in range(1, len(now)) if down else range(len(now) - 2, -1, -1):
            fixed = now[number - 1] if down else now[number + 1]
            _sort(now[number], {place: float(i) for i, place in enumerate(fixed)}, above if down else below)
        count = _crossings(now, below)
        if count < fewest:
            best, fewest = [list(row) for row in now], count
    return best


def _sort(row: list[Place], fixed: Mapping[Place, float], near: Mapping[Place, Sequence[Place]]) -> None:
    """Sorts a layer by the positions of neighbours in the fixed layer. A shape without neighbours keeps its position."""
    means = {}
    for number, place in enumerate(row):
        at = [fixed[other] for other in near.get(place, ()) if other in fixed]
        means[place] = sum(at) / len(at) if at else float(number)
    row.sort(key=means.__getitem__)


def _crossings(rows: Sequence[Sequence[Place]], below: Mapping[Place, Sequence[Place]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        position = {place: number for number, place in enumerate(lower)}
        ends: list[int] = []
        for place in upper:
            targets = sorted(position[target] for target in below.get(place, ()) if target in position)
            total += sum(len(ends) - bisect_left(ends, target + 1) for target in targets)
            for target in targets:
                insort(ends, target)
    return total


GAP = 26.0  # between neighbours of a layer
ROOM = 52.0  # between layers
TITLE, LINE = 8.2, 6.7  # width of a letter of the operator, and of the other lines
PAD = 12.0
EDGE_WIDTH = 4.0  # width of an edge that crosses a layer
SWEEPS = 48
MOVES = 400_000  # places moved in all sweeps together: large pictures have fewer sweeps
CROSSED = 60_000  # layers that all edges together may cross
EDGE_WEIGHT = 4.0  # weight of a straight long edge against a box in the middle


@record(slots=True)
class Frame:
    """A placed shape: the middle of its upper edge, width and height."""

    shape: Shape
    x: float
    y: float
    width: float
    height: float


@record(slots=True)
class Route:
    """A placed edge: the points on its way, from above to below; `label` is written at the first point."""

    label: str
    name: str
    points: list[tuple[float, float]]


@record(slots=True)
class Layout:
    """A placed drawing, its upper left corner at (0, 0)."""

    frames: list[Frame]
    routes: list[Route]
    width: float
    height: float


def size(shape: Shape) -> tuple[float, float]:
    """Width and height of a shape, by the number of letters of its lines."""
    if shape.sort != "node":
        return len(shape.title) * LINE + 2 * PAD, 24.0
    lines = [len(shape.name) * LINE, *(len(row.text) * LINE + 12 for row in shape.rows)]
    width = max(len(shape.title) * TITLE + 26, *lines, 60.0) + 2 * PAD
    return width, 30.0 + (16.0 if shape.name else 0.0) + (15.0 * len(shape.rows) + 7 if shape.rows else 0.0)


def plan(drawing: Drawing) -> Layout:
    """The positions of everything in a drawing."""
    shapes = {shape.id: shape for shape in drawing.shapes}
    edges = [(edge.source, edge.target) for edge in drawing.edges]
    layers = layer_numbers(list(shapes), edges)
    crossed = sum(abs(layers[target] - layers[source]) for source, target in edges)
    if crossed > CROSSED:
        raise RewriterError(
            f"too tangled for one picture: its edges cross {crossed:,} layers, {CROSSED:,} at most are drawn; "
            "`rewriter view` shows the model folded"
        )
    rows, pieces, routes = with_places(layers, edges)
    rows = ordered(rows, pieces)
    sizes = {id: size(shape) for id, shape in shapes.items()}
    widths = {place: sizes[place][0] if place in sizes else EDGE_WIDTH for row in rows for place in row}
    xs = _columns(rows, pieces, widths)
    tops, height = _tops(rows, sizes)
    left = min((x - widths[place] / 2 for place, x in xs.items()), default=0.0)
    frames = [Frame(shapes[i], xs[i] - left, tops[layers[i]], *sizes[i]) for i in shapes]
    known = {frame.shape.id: frame for frame in frames}
    placed = []
    for edge, route in zip(drawing.edges, routes, strict=True):
        first, last = known[edge.source], known[edge.target]
        points = [_port(first, edge.out, first.y + first.height)]
        for place in route[1:-1]:
            number = int(place.rpartition(".")[2])
            points += [(xs[place] - left, tops[number]), (xs[place] - left, tops[number] + _depth(rows[number], sizes))]
        points.append(_port(last, edge.into, last.y))
        placed.append(Route(edge.label, edge.name, points))
    right = max((f.x + f.width / 2 for f in frames), default=0.0)
    labels = max((w.points[0][0] + 8 + len(w.label) * 6.2 for w in placed), default=0.0)
    far = max((x for w in placed for x, _ in w.points), default=0.0)
    return Layout(frames, placed, max(right, labels, far), height)


def _port(frame: Frame, place: tuple[int, int], y: float) -> tuple[float, float]:
    number, count = place
    return frame.x - frame.width / 2 + frame.width * (number + 1) / (count + 1), y


def _depth(row: Sequence[Place], sizes: Mapping[Place, tuple[float, float]]) -> float:
    return max((sizes[place][1] for place in row if place in sizes), default=0.0)


def _tops(rows: Sequence[Sequence[Place]], sizes: Mapping[Place, tuple[float, float]]) -> tuple[list[float], float]:
    """The upper edge of each layer, and the height of all layers."""
    tops, y = [], 0.0
    for row in rows:
        tops.append(y)
        y += _depth(row, sizes) + ROOM
    return tops, max(y - ROOM, 0.0)


def _columns(
    rows: Sequence[Sequence[Place]], pieces: Sequence[tuple[Place, Place]], widths: Mapping[Place, float]
) -> dict[Place, float]:
    """The middle of each place."""
    near: dict[Place, list[Place]] = {}
    for upper, lower in pieces:
        near.setdefault(lower, []).append(upper)
        near.setdefault(upper, []).append(lower)
    xs: dict[Place, float] = {}
    for row in rows:
        x = 0.0
        for place in row:
            xs[place] = x + widths[place] / 2
            x += widths[place] + GAP
    for sweep in range(max(4, min(SWEEPS, MOVES // (len(xs) + 1)))):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [_wanted(place, near.get(place, ()), xs, widths) for place in row]
            stiff = [EDGE_WEIGHT if widths[place] == EDGE_WIDTH else 1.0 for place in row]
            for place, x in zip(row, spread(wanted, [widths[place] for place in row], stiff), strict=True):
                xs[place] = x
    return xs


def _wanted(place: Place, near: Sequence[Place], xs: Mapping[Place, float], widths: Mapping[Place, float]) -> float:
    """The middle of the neighbours of a place; for a place of a long edge, rather the position of the edge so far."""
    if not near:
        return xs[place]
    weights = [EDGE_WEIGHT if widths[place] == widths[other] == EDGE_WIDTH else 1.0 for other in near]
    return sum(xs[other] * weight for other, weight in zip(near, weights, strict=True)) / sum(weights)


def spread(wanted: Sequence[float], widths: Sequence[float], stiff: Sequence[float]) -> list[float]:
    """The positions nearest to those wanted (least squares, weighted by `stiff`) without overlaps, in the same order."""
    offsets, at = [], 0.0
    for number, width in enumerate(widths):
        at += 0.0 if number == 0 else (widths[number - 1] + width) / 2 + GAP
        offsets.append(at)
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight and number of pooled places
    for want, offset, one in zip(wanted, offsets, stiff, strict=True):
        total, weight, count = (want - offset) * one, one, 1
        while pools and pools[-1][0] * weight > total * pools[-1][1]:
            before = pools.pop()
            total, weight, count = total + before[0], weight + before[1], count + before[2]
        pools.append((total, weight, count))
    flat = [total / weight for total, weight, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]
