"""Pictures as text for other programs to lay out: DOT (Graphviz) and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewriter.app.report.picture.drawing import MARKS, Drawing, Shape
from rewriter.workbench.style import clean

_DOT = {
    "removed": 'style="dashed,filled", color="#b3261e", fillcolor="#fdf0ee"',
    "added": 'style="bold,filled", color="#12733c", fillcolor="#eaf7ef", peripheries=2',
    "edited": 'style="filled", color="#8a5a00", fillcolor="#fff6e0"',
    "matched": 'style="filled", color="#2f5fb3", fillcolor="#eff4fd"',
    "around": 'style="rounded", color="#93a0b4"',
    "plain": 'style="rounded", color="#465267"',
}
_MERMAID = {
    "removed": "fill:#fdf0ee,stroke:#b3261e,color:#1c2330,stroke-dasharray:6 3",
    "added": "fill:#eaf7ef,stroke:#12733c,color:#1c2330,stroke-width:3px",
    "edited": "fill:#fff6e0,stroke:#8a5a00,color:#1c2330",
    "matched": "fill:#eff4fd,stroke:#2f5fb3,color:#1c2330",
    "around": "fill:#f7f9fc,stroke:#b4bfce,color:#657084",
    "plain": "fill:#f7f9fc,stroke:#93a0b4,color:#1c2330",
}


def dot(drawings: Sequence[tuple[str, Drawing]], title: str) -> str:
    """Drawings with their captions, each a cluster."""
    return "\n".join(_dot_lines(drawings, title)) + "\n"


def _dot_lines(drawings: Sequence[tuple[str, Drawing]], title: str) -> Iterator[str]:
    yield "digraph rewriter {"
    yield f"  label={_dot_text(title)}; labelloc=t; fontname=sans; node [shape=box, fontname=sans]; edge [fontsize=10];"
    for number, (caption, drawing) in enumerate(drawings):
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_dot_text(caption)};"
        for shape in drawing.shapes:
            look = _DOT[shape.role] if shape.sort == "node" else 'shape=oval, style="dashed", color="#93a0b4"'
            yield f'    "{number}{shape.id}" [label={_dot_text(chr(10).join(_lines(shape)))}, {look}];'
        for edge in drawing.edges:
            yield f'    "{number}{edge.source}" -> "{number}{edge.target}" [label={_dot_text(edge.label)}];'
        yield "  }"
    yield "}"


def _dot_text(text: str) -> str:
    """A quoted text; backslashes mean nothing in it but line ends."""
    lines = (clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


def mermaid(drawings: Sequence[tuple[str, Drawing]], title: str) -> str:
    """Drawings with their captions, each a subgraph."""
    return "\n".join(_mermaid_lines(drawings, title)) + "\n"


def _mermaid_lines(drawings: Sequence[tuple[str, Drawing]], title: str) -> Iterator[str]:
    yield "flowchart TB"
    yield f"  %% {''.join(c if c.isalnum() or c in ' .,:_-' else '.' for c in clean(title))}"
    for number, (caption, drawing) in enumerate(drawings):
        yield f'  subgraph s{number}["{_mermaid_text(caption)}"]'
        for shape in drawing.shapes:
            left, right, kind = ("[", "]", f":::{shape.role}") if shape.sort == "node" else ("([", "])", ":::around")
            text = "<br>".join(_mermaid_text(line) for line in _lines(shape))
            yield f'    p{number}{shape.id}{left}"{text}"{right}{kind}'
        for edge in drawing.edges:
            label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
            yield f"    p{number}{edge.source} -->{label} p{number}{edge.target}"
        yield "  end"
    yield from (f"  classDef {role} {look}" for role, look in _MERMAID.items())


def _mermaid_text(text: str) -> str:
    """A text in which everything but letters, digits and harmless signs is written by its number."""
    return "".join(c if c.isalnum() or c in " .,:_-=[]{}()+/" else f"#{ord(c)};" for c in clean(text))


def _lines(shape: Shape) -> list[str]:
    if shape.sort != "node":
        return [shape.title]
    sign = MARKS[shape.role]
    head = f"{sign} {shape.title}" if sign else shape.title
    rows = [f"{row.mark} {row.text}" if row.mark else row.text for row in shape.rows]
    return [head, *([shape.name] if shape.name else []), *rows]
