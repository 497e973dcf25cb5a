"""What a picture shows of a view: boxes with lines of text, and edges between them; nothing yet of where they go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from rewriter.core.log.records import Box, Port, Role, Snapshot, View
from rewriter.core.record import field, record
from rewriter.workbench.style import clean

Sort = Literal["node", "input", "output", "outer", "more"]
Mark = Literal["", "-", "+"]

ROWS = 8  # lines below the operator and the name
LONGEST = 38  # characters of a line; the whole text is shown on pointing at it
MARKS: dict[Role, str] = {"removed": "\u2212", "added": "+", "edited": "~", "matched": "=", "around": "", "plain": ""}


@record(frozen=True, slots=True)
class Row:
    """A line in a box; `mark` says that it was there before only ("-") or is there after only ("+")."""

    text: str
    mark: Mark = ""


@record(slots=True)
class Shape:
    """A box: a node of the graph, an input or output of it, or what stands for more that is not shown."""

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
    """The drawing of a view. Lines of an edited node that the other view has not get the mark."""
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
    rows.sort(key=lambda row: not row.mark)  # what changed is never among what is left out
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
        source, out, made = makers[port.tensor]
        drawing.edges.append(Edge(source, here, cut(made.type or port.type), clean(port.name), out, (place, len(shown))))


def _end(drawing: Drawing, shape: Shape, port: Port, makers: dict[int, tuple[str, tuple[int, int], Port]]) -> None:
    if port.tensor in makers:
        source, out, made = makers[port.tensor]
        drawing.shapes.append(shape)
        drawing.edges.append(Edge(source, shape.id, cut(made.type or port.type), clean(port.name), out))


def _tip(port: Port) -> str:
    return clean(f"{port.name} {port.type}".strip())


def cut(text: str) -> str:
    """A text on one line, cut where it is too long."""
    shown = clean(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "\u2026"


def tail(text: str) -> str:
    """A name, which is told from others by its end, cut at its beginning where it is too long."""
    shown = clean(text)
    return shown if len(shown) <= LONGEST else "\u2026" + shown[1 - LONGEST :]
