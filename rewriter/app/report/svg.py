"""Writes a picture as SVG, or as DOT and Mermaid for other programs to lay out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from xml.sax.saxutils import escape

from rewriter.app.report.drawing import MARKS, Drawing, Frame, Layout, Route, Shape, draw, pair, plan
from rewriter.app.style import clean
from rewriter.core.log import Role, Snapshot, View

MARGIN = 18.0
HEAD = 64.0
BETWEEN = 54.0
LEAST = 0.68  # part of its size to which a picture in a page may shrink

_LIGHT = (
    "--rw-bg:#fff;--rw-ink:#1c2330;--rw-dim:#657084;--rw-line:#93a0b4;--rw-box:#f7f9fc;--rw-rim:#b4bfce;"
    "--rw-out:#b3261e;--rw-out-bg:#fdf0ee;--rw-in:#12733c;--rw-in-bg:#eaf7ef;--rw-ed:#8a5a00;--rw-ed-bg:#fff6e0;"
    "--rw-same:#2f5fb3;--rw-same-bg:#eff4fd"
)
_DARK = (
    "--rw-bg:#12161d;--rw-ink:#e7ecf4;--rw-dim:#98a4b8;--rw-line:#66738a;--rw-box:#1a202a;--rw-rim:#465267;"
    "--rw-out:#ff9b90;--rw-out-bg:#34191a;--rw-in:#72dba0;--rw-in-bg:#10301f;--rw-ed:#f2c166;--rw-ed-bg:#352812;"
    "--rw-same:#94b8ff;--rw-same-bg:#18253f"
)
_WORDS: dict[Role, str] = {
    "removed": "removed",
    "added": "added",
    "edited": "edited",
    "matched": "matched and kept",
    "around": "around it",
}
COLORS = f":root{{{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
STYLE = """
.rw text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:11px;fill:var(--rw-ink)}
.rw .op{font:600 13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.rw .head{font:600 15px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.rw .sub,.rw .cap{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:var(--rw-dim)}
.rw .cap{font-weight:600;letter-spacing:.06em;text-transform:uppercase;font-size:11px}
.rw .name,.rw .label{fill:var(--rw-dim)}.rw .label{font-size:10px;stroke:var(--rw-bg);stroke-width:4px;paint-order:stroke}
.rw .box{fill:var(--rw-box);stroke:var(--rw-rim);stroke-width:1.2}.rw .edge{fill:none;stroke:var(--rw-line);stroke-width:1.3}
.rw .tip{fill:var(--rw-line)}.rw .bg{fill:var(--rw-bg)}.rw .rule{stroke:var(--rw-rim);stroke-width:1}
.rw .removed .box{fill:var(--rw-out-bg);stroke:var(--rw-out);stroke-width:1.6;stroke-dasharray:6 3}
.rw .added .box{fill:var(--rw-in-bg);stroke:var(--rw-in);stroke-width:2.6}
.rw .edited .box{fill:var(--rw-ed-bg);stroke:var(--rw-ed);stroke-width:1.8}
.rw .matched .box{fill:var(--rw-same-bg);stroke:var(--rw-same);stroke-width:1.4}
.rw .removed .sign,.rw .gone{fill:var(--rw-out)}.rw .added .sign,.rw .came{fill:var(--rw-in)}
.rw .edited .sign{fill:var(--rw-ed)}.rw .matched .sign{fill:var(--rw-same)}.rw .around .op{font-weight:500;fill:var(--rw-dim)}
.rw .input .box,.rw .output .box{fill:var(--rw-bg);stroke:var(--rw-line)}.rw .outer .box,
.rw .more .box{fill:none;stroke-dasharray:2 3}
.rw .more text,.rw .outer text{fill:var(--rw-dim)}
""".replace("\n", "")


def firing_picture(snapshot: Snapshot, title: str, subtitle: str) -> str:
    """The pictures before and after, next to each other under the name of the rule, as a file of their own."""
    plans = [plan(drawing) for drawing in pair(snapshot)]
    left, right = (max(one.width, 130.0) for one in plans)
    width = max(left + BETWEEN + right, len(title) * 8.3, len(subtitle) * 6.6, 560.0) + 2 * MARGIN
    height = HEAD + 34 + max(one.height for one in plans) + 52 + MARGIN
    parts = [_heading(title, subtitle, width)]
    top = HEAD + 34
    for one, x, caption in zip(plans, (MARGIN, MARGIN + left + BETWEEN), ("Before", "After"), strict=True):
        parts.append(f'<text class="cap" x="{_n(x)}" y="{_n(HEAD + 14)}">{caption}</text>')
        parts.append(f'<g transform="translate({_n(x)} {_n(top)})">{_body(one)}</g>')
    middle = MARGIN + left + BETWEEN / 2
    parts.append(f'<path class="rule" d="M{_n(middle)} {_n(HEAD + 4)}V{_n(height - 48)}"/>')
    roles = {box.role for box in (*snapshot.before.boxes, *snapshot.after.boxes)}
    parts.append(_legend(roles, MARGIN, height - 24))
    return _document("".join(parts), width, height, f"{title}: before and after")


def view_picture(view: View, title: str, subtitle: str) -> str:
    """One view, as a file of its own."""
    one = plan(draw(view))
    width = max(one.width, len(title) * 8.3, len(subtitle) * 6.6) + 2 * MARGIN
    body = f'{_heading(title, subtitle, width)}<g transform="translate({_n(MARGIN)} {_n(HEAD + 14)})">{_body(one)}</g>'
    return _document(body, width, HEAD + 14 + one.height + MARGIN, title)


def panel(drawing: Drawing, caption: str) -> tuple[str, float]:
    """One drawing for a page that has the styles. The page may make it smaller as long as it can be read.

    Returns:
        The picture, and its full width.
    """
    one = plan(drawing)
    width, height = one.width + 2, one.height + 4
    body = f'<g transform="translate(1 2)">{_body(one)}</g>'
    box = f'width="{_n(width)}" viewBox="0 0 {_n(width)} {_n(height)}" style="min-width:{_n(width * LEAST)}px"'
    picture = f'<svg class="rw" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_q(caption)}" {box}>{body}</svg>'
    return picture, width


def _document(body: str, width: float, height: float, label: str) -> str:
    box = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    return (
        f'<svg class="rw" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_q(label)}" {box}>'
        f'<style>{COLORS}{STYLE}</style><rect class="bg" width="100%" height="100%"/>{body}</svg>\n'
    )


def _heading(title: str, subtitle: str, width: float) -> str:
    return (
        f'<text class="head" x="{_n(MARGIN)}" y="28">{_t(title)}</text>'
        f'<text class="sub" x="{_n(MARGIN)}" y="47">{_t(subtitle)}</text>'
        f'<path class="rule" d="M{_n(MARGIN)} {_n(HEAD - 4)}H{_n(width - MARGIN)}"/>'
    )


def _legend(roles: Collection[Role], x: float, y: float) -> str:
    parts = []
    for role, word in _WORDS.items():
        if role not in roles:
            continue
        sign = MARKS[role]
        parts.append(
            f'<g class="{role}"><rect class="box" x="{_n(x)}" y="{_n(y - 12)}" width="18" height="16" rx="3"/>'
            f'<text class="sign op" x="{_n(x + 9)}" y="{_n(y + 1)}" text-anchor="middle">{sign}</text></g>'
            f'<text class="sub" x="{_n(x + 25)}" y="{_n(y)}">{word}</text>'
        )
        x += 42 + len(word) * 6.6
    return "".join(parts)


def _body(one: Layout) -> str:
    seen: set[tuple[float, float]] = set()
    labels = []
    for route in one.routes:
        if route.label and route.points[0] not in seen:
            seen.add(route.points[0])
            x, y = route.points[0]
            labels.append(f'<text class="label" x="{_n(x + 6)}" y="{_n(y + 15)}">{_t(route.label)}</text>')
    return "".join([*map(_route, one.routes), *map(_frame, one.frames), *labels])


def _route(route: Route) -> str:
    (x, y), *rest = route.points
    path = [f"M{_n(x)} {_n(y)}"]
    for number, (to_x, to_y) in enumerate(rest):
        end = to_y - 6 if number == len(rest) - 1 else to_y
        bend = (end - y) / 2
        path.append(
            f"V{_n(end)}"
            if abs(to_x - x) < 0.5
            else f"C{_n(x)} {_n(y + bend)} {_n(to_x)} {_n(end - bend)} {_n(to_x)} {_n(end)}"
        )
        x, y = to_x, end
    head = f"M{_n(x - 4)} {_n(y - 1)}L{_n(x)} {_n(y + 6)}L{_n(x + 4)} {_n(y - 1)}Z"
    title = f"<title>{_t(route.name)}</title>" if route.name else ""
    return f'<path class="edge" d="{"".join(path)}">{title}</path><path class="tip" d="{head}"/>'


def _frame(frame: Frame) -> str:
    shape, left = frame.shape, frame.x - frame.width / 2
    title = f"<title>{_t(shape.tip)}</title>" if shape.tip else ""
    if shape.sort != "node":
        radius = frame.height / 2
        return (
            f'<g class="{shape.sort}">{title}{_rect(left, frame, radius)}'
            f'<text x="{_n(frame.x)}" y="{_n(frame.y + 16)}" text-anchor="middle">{_t(shape.title)}</text></g>'
        )
    parts = [f'<g class="{shape.role}">{title}', _rect(left, frame, 12 if shape.role == "around" else 5)]
    sign = MARKS[shape.role]
    if sign:
        parts.append(f'<text class="sign op" x="{_n(left + 12)}" y="{_n(frame.y + 20)}">{sign}</text>')
    parts.append(f'<text class="op" x="{_n(left + (28 if sign else 12))}" y="{_n(frame.y + 20)}">{_t(shape.title)}</text>')
    y = frame.y + 20
    if shape.name:
        y += 16
        parts.append(f'<text class="name" x="{_n(left + 12)}" y="{_n(y)}">{_t(shape.name)}</text>')
    y += 5
    for row in shape.rows:
        y += 15
        kind = {"-": "gone", "+": "came"}.get(row.mark, "row")
        if row.mark:
            sign = MARKS["removed" if row.mark == "-" else "added"]
            parts.append(f'<text class="{kind}" x="{_n(left + 12)}" y="{_n(y)}">{sign}</text>')
        parts.append(f'<text class="{kind}" x="{_n(left + 24)}" y="{_n(y)}">{_t(row.text)}</text>')
    return "".join([*parts, "</g>"])


def _rect(left: float, frame: Frame, radius: float) -> str:
    size = f'width="{_n(frame.width)}" height="{_n(frame.height)}"'
    return f'<rect class="box" x="{_n(left)}" y="{_n(frame.y)}" {size} rx="{_n(radius)}"/>'


def _n(number: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{number:.1f}".removesuffix(".0").replace("-0", "0") if abs(number) < 0.05 else f"{number:.1f}".removesuffix(".0")


def _t(text: str) -> str:
    return escape("\n".join(map(clean, text.split("\n"))))


def _q(text: str) -> str:
    return escape(clean(text), {'"': "&quot;"})


# Pictures as text for other programs to lay out: DOT (Graphviz) and Mermaid.

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


def picture_text(ending: str, drawings: Sequence[tuple[str, Drawing]], title: str) -> str:
    """Drawings with their captions, each a cluster; `ending` is .dot or .mmd."""
    lines = _dot_lines if ending == ".dot" else _mermaid_lines
    return "\n".join(lines(drawings, title)) + "\n"


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
    """A quoted text, in which backslashes only mark line ends."""
    lines = (clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


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
    """A text in which only letters, digits and signs without a meaning stay; other characters are written as numbers."""
    return "".join(c if c.isalnum() or c in " .,:_-=[]{}()+/" else f"#{ord(c)};" for c in clean(text))


def _lines(shape: Shape) -> list[str]:
    if shape.sort != "node":
        return [shape.title]
    sign = MARKS[shape.role]
    head = f"{sign} {shape.title}" if sign else shape.title
    rows = [f"{row.mark} {row.text}" if row.mark else row.text for row in shape.rows]
    return [head, *([shape.name] if shape.name else []), *rows]
