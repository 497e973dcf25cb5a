"""Pictures: everything has its place, edges lead down, no name leaves its place, and colour is not the only sign."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewriter.app.report.drawing import (
    GAP,
    MARKS,
    Drawing,
    Edge,
    Shape,
    draw,
    layer_numbers,
    ordered,
    pair,
    plan,
    spread,
    with_places,
)
from rewriter.app.report.svg import STYLE, firing_picture, panel, picture_text, view_picture
from rewriter.core.errors import RewriterError
from rewriter.core.log import Box, Port, View
from tests.report.samples import HOSTILE, hostile, snapshot

SVG = "{http://www.w3.org/2000/svg}"
EDGES = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=50)


def drawing(edges: list[tuple[int, int]], count: int = 20) -> Drawing:
    shapes = [Shape(f"n{i}", "node", "Op" * (i % 5 + 1), "name" * (i % 3)) for i in range(count)]
    return Drawing(shapes, [Edge(f"n{a}", f"n{b}", "float[2]", "t") for a, b in edges])


@given(EDGES)
@settings(max_examples=60, deadline=None)
def test_nothing_overlaps_and_edges_lead_down(edges: list[tuple[int, int]]) -> None:
    forwards = [(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]]
    one = plan(drawing(forwards))
    assert len(one.frames) == 20
    for a, b in combinations(one.frames, 2):
        apart = abs(a.x - b.x) >= (a.width + b.width) / 2 + GAP - 0.01
        assert apart or a.y + a.height < b.y or b.y + b.height < a.y
    for frame in one.frames:
        assert frame.x - frame.width / 2 >= -0.01
        assert frame.x + frame.width / 2 <= one.width + 0.01
        assert frame.y + frame.height <= one.height + 0.01
    for route in one.routes:
        ys = [y for _, y in route.points]
        assert ys == sorted(ys)
        assert len(set(ys)) > 1


@given(EDGES)
@settings(max_examples=40, deadline=None)
def test_circles_and_loops_are_drawn_too(edges: list[tuple[int, int]]) -> None:
    one, again = plan(drawing(edges)), plan(drawing(edges))
    assert (one.frames, one.routes) == (again.frames, again.routes)
    assert len(one.routes) == len(edges)


def test_a_picture_of_too_many_long_edges_is_refused() -> None:
    tangled = [(a, a + 1) for a in range(399)] + [(a, 399) for a in range(398)]
    with pytest.raises(RewriterError, match="too tangled for one picture: its edges cross 80,198 layers"):
        plan(drawing(tangled, 400))


def test_layers_are_by_the_longest_path_and_inputs_stand_near_their_readers() -> None:
    layers = layer_numbers(["a", "b", "c", "late"], [("a", "b"), ("b", "c"), ("a", "c"), ("late", "c")])
    assert layers == {"a": 0, "b": 1, "c": 2, "late": 1}


def test_long_edges_get_places_in_the_layers_that_they_cross() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c")]
    rows, pieces, ways = with_places(layer_numbers(["a", "b", "c"], edges), edges)
    assert [len(row) for row in rows] == [1, 2, 1]
    assert [len(route) for route in ways] == [2, 2, 3]
    assert len(pieces) == 4


def test_crossings_go() -> None:
    rows = ordered([["a", "b"], ["c", "d"]], [("a", "d"), ("b", "c")])
    assert rows in ([["a", "b"], ["d", "c"]], [["b", "a"], ["c", "d"]])


def test_what_is_in_the_way_of_each_other_meets_in_the_middle() -> None:
    assert spread([0.0, 0.0], [10.0, 10.0], [1.0, 1.0]) == pytest.approx([-18.0, 18.0])
    assert spread([0.0, 0.0], [10.0, 10.0], [1.0, 3.0]) == pytest.approx([-27.0, 9.0])
    assert spread([0.0, 100.0], [10.0, 10.0], [1.0, 1.0]) == [0.0, 100.0]


def test_a_chain_is_straight() -> None:
    one = plan(drawing([(i, i + 1) for i in range(5)], 6))
    assert len({round(frame.x, 3) for frame in one.frames}) == 1


# --- drawings ---------------------------------------------------------------------------------------------------------------


def test_a_firing_before_and_after() -> None:
    before, after = pair(snapshot())
    assert {shape.title: shape.role for shape in before.shapes if shape.sort == "node"} == {"Relu": "removed", "Exp": "around"}
    assert {shape.title: shape.role for shape in after.shapes if shape.sort == "node"} == {
        "Abs": "added",
        "Neg": "edited",
        "Exp": "around",
    }
    assert [shape.title for shape in before.shapes if shape.sort == "more"] == ["2 more readers"]
    assert ("i1", "n1") in [(edge.source, edge.target) for edge in before.edges]
    relu = next(shape for shape in before.shapes if shape.title == "Relu")
    assert [row.text for row in relu.rows] == ["axis = 1", "1: float[3,5] #abababababab"]


def test_what_an_edit_changes_is_marked() -> None:
    def view(value: str) -> View:
        return View((Box(1, "Softmax", "s", "edited", (("axis", value), ("keep", "1")), (Port(1, "x"),), (Port(2, "y"),)),))

    before, after = draw(view("1"), view("-1"), "-"), draw(view("-1"), view("1"), "+")
    assert [(row.text, row.mark) for row in before.shapes[0].rows] == [("axis = 1", "-"), ("keep = 1", "")]
    assert [(row.text, row.mark) for row in after.shapes[0].rows] == [("axis = -1", "+"), ("keep = 1", "")]


def test_an_operand_from_elsewhere_is_named() -> None:
    view = View((Box(1, "Add", "a", "matched", (), (Port(1, "outer"), Port(0, "")), (Port(2, "y"),)),))
    assert [(shape.sort, shape.title) for shape in draw(view).shapes] == [("node", "Add"), ("outer", "outer")]


# --- SVG --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_svg_is_xml_and_holds_no_more_than_shapes(name: str) -> None:
    one = hostile(name).models[0].firings[0].snapshot
    assert one is not None
    for text in (firing_picture(one, name, name), view_picture(one.after, name, name), panel(pair(one)[0], name)[0]):
        root = ElementTree.fromstring(text)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "style", "rect", "g", "text", "path", "title"}
        assert not [key for element in root.iter() for key in element.attrib if key.startswith("on") or "href" in key]
        assert "http" not in re.sub(r'xmlns="[^"]+"', "", text) or "http" in name


def test_a_picture_is_the_same_each_time() -> None:
    assert firing_picture(snapshot(), "a", "b") == firing_picture(snapshot(), "a", "b")


def test_what_happened_is_told_by_sign_and_line_as_well_as_by_colour() -> None:
    changed = ("removed", "added", "edited", "matched")
    assert len({MARKS[role] for role in changed}) == 4  # type: ignore[index]
    lines = {role: re.search(rf"\.{role} \.box{{[^}}]*?(stroke-width:.*?)}}", STYLE) for role in changed}
    assert len({found.group(1) for found in lines.values() if found}) == 4
    text = firing_picture(snapshot(), "TST001 at n", "A title")
    assert [sign for sign in ("\u2212", "+", "~") if f">{sign}</text>" in text] == ["\u2212", "+", "~"]
    assert ">removed</text>" in text
    assert ">matched and kept</text>" not in text  # nothing is


def test_sixty_nodes_fit_and_their_names_are_told_apart() -> None:
    boxes = tuple(
        Box(i, "Conv", f"a/very/long/common/beginning/of/all/names/conv{i}", "plain", (), (Port(i, "t"),), (Port(i + 1, "t"),))
        for i in range(1, 61)
    )
    text = view_picture(View(boxes), "net.onnx", "60 nodes")
    assert len(re.findall(r'class="plain"', text)) == 60
    assert len(set(re.findall(r"names/conv\d+</text>", text))) == 60


# --- text -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_dot_and_mermaid_keep_names_in_their_quotes(name: str) -> None:
    one = hostile(name).models[0].firings[0].snapshot
    assert one is not None
    drawings = list(zip((name, "after"), pair(one), strict=True))
    text = picture_text(".dot", drawings, name)
    without = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    assert '"' not in without.replace('""', "")
    assert re.fullmatch(r'[\w\s{}\[\]=;:,>"-]*', without)
    for line in picture_text(".mmd", drawings, name).splitlines():
        assert line.count('"') in (0, 2)
        quoted = re.search(r'"(.*)"', line)
        assert quoted is None or not re.search(r"[`|\\]|<(?!br>)", quoted.group(1))


def test_mermaid_of_a_firing() -> None:
    text = picture_text(".mmd", [("before", pair(snapshot())[0])], "TST001 at n")
    assert text.startswith("flowchart TB\n  %% TST001 at n\n")
    assert '    p0i1 -->|"float[2]"| p0n1' in text.splitlines()
    assert "classDef removed" in text


def test_a_name_is_cut_at_its_beginning_and_a_value_at_its_end() -> None:
    box = replace(snapshot().before.boxes[0], name="a/" * 40 + "end", attributes=(("v", "x" * 80),))
    shape = draw(View((box,))).shapes[0]
    assert shape.name.startswith("\u2026")
    assert shape.name.endswith("/end")
    assert shape.rows[0].text.startswith("v = xxx")
    assert shape.rows[0].text.endswith("\u2026")
    assert "x" * 80 in shape.tip
