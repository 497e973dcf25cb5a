"""The viewer's page: what it holds of a model, and that what a model says stays text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

from rewriter.app.report.report_page import viewer_page
from rewriter.core.graph.model import load
from rewriter.workbench.inspect.model_stats import model_stats
from rewriter.workbench.inspect.viewed_graph import NodeNote, viewed_model
from tests.cli.call import Call

ROOT = Path(__file__).parent.parent.parent
POOL = ROOT / "tests" / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"
NET = """<ir_version: 8, opset_import: ["": 17], producer_name: "acme">
g (float[N,4] x) => (float[N,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[3,3] large = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0}> {
  k = Constant<value: tensor = int64[1] {-1}>()
  t = Add(x, w)
  u = Cast<to = 7>(t)
  r = Reshape<allowzero = 0>(u, k)
  y = Clip(t, , w)
}"""

NAMES = ("", "/enc/a", "/enc/b", "/enc/c", "/last")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(NET)
    for node, name in zip(model.graph.node, NAMES, strict=True):
        node.name = name
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def viewed(path: Path, notes: list[NodeNote] | None = None) -> dict[str, Any]:
    return viewed_model(path, model_stats(load(path), weights=False), notes or [])


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def test_what_is_told_of_a_graph(net: Path) -> None:
    found = viewed(net, [NodeNote("main", "/last", "finding", "ACME001", "A clip.")])
    (graph,) = found["graphs"]
    names = graph["tensors"]
    nodes = {node[1]: node for node in graph["nodes"]}
    assert dict(found["about"])["exporter"] == "acme" and dict(found["about"])["nodes"] == "5"
    assert [names[t] for t in graph["inputs"]] == ["x"] and [names[t] for t in graph["outputs"]] == ["y"]
    assert graph["types"][names.index("x")] == "float[N,4]"
    assert graph["weights"] == {
        names.index("w"): "float[4] {1, 2, 3, 4}",
        names.index("large"): "float[3,3]",
        names.index("k"): "int64[1] {-1}",
    }
    assert nodes["/enc/b"][4] == [("to", "int64", 0)] and nodes["/enc/b"][5] == ["enc"]
    assert nodes["/enc/c"][4] == [("allowzero", "0", 1)]
    assert nodes["/last"][2] == [names.index("t"), -1, names.index("w")]
    assert nodes["/last"][6] == [["finding", "ACME001", "A clip.", ""]]


def test_modules_that_dynamo_recorded(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(NET)
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.0', 'add']")
    onnx.save(model, tmp_path / "net.onnx")
    (graph,) = viewed(tmp_path / "net.onnx")["graphs"]
    assert graph["nodes"][1][5] == ["encoder", "0"]


def test_texts_of_a_model_cannot_become_markup(net: Path) -> None:
    model = onnx.load(net)
    model.graph.node[1].name = "</script><script>alert(1)</script>"
    onnx.save(model, net)
    page = viewer_page([viewed(net)], "<b>")
    assert "alert(1)</script>" not in page and "<title>&lt;b&gt;</title>" in page
    assert data_of(page)["models"][0]["graphs"][0]["nodes"][1][1] == "</script><script>alert(1)</script>"
    assert "default-src 'none'" in page and not re.search(r"(src|href)=\"http", page)


def test_findings_are_marked(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "pool.html"
    done = call("view", POOL, "-o", target)
    assert done.code == 0 and " KiB" in done.out + done.err
    (graph,) = data_of(target.read_text())["models"][0]["graphs"]
    ((status, rule, text, picture),) = next(node[6] for node in graph["nodes"] if node[6])
    assert (status, rule) == ("finding", "PT030") and text
    assert picture.count("<svg") == 2 and "before</figcaption>" in picture and "after</figcaption>" in picture
    again = call("view", POOL, "-o", target)
    assert again.code == 2 and "--force overwrites it" in again.err


def test_two_models_show_what_differs(call: Call, tmp_path: Path) -> None:
    fixed, target = tmp_path / "fixed.onnx", tmp_path / "both.html"
    assert call("fix", POOL, "-o", fixed).code == 0
    assert call("view", POOL, fixed, "-o", target).code == 0
    before, after = (model["graphs"][0] for model in data_of(target.read_text())["models"])
    assert {note[0] for node in before["nodes"] for note in node[6]} == {"edited"}
    assert {note[0] for node in after["nodes"] for note in node[6]} >= {"added", "edited"}
    assert any("+int64[1]" in text for text in data_of(target.read_text())["differences"])  # a constant


def test_differences_that_no_node_shows_are_listed(call: Call, net: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    model.opset_import[0].version = 18
    model.graph.initializer[0].float_data[0] = 5.0
    onnx.save(model, tmp_path / "other.onnx")
    assert call("view", net, tmp_path / "other.onnx", "-o", tmp_path / "both.html").code == 0
    differences = data_of((tmp_path / "both.html").read_text())["differences"]
    assert any("-17" in text and "+18" in text for text in differences), differences
    assert any("float[N,4]" in text and "float[3,4]" in text for text in differences), differences
    assert not any("\x1b" in text for text in differences)
    for found in data_of((tmp_path / "both.html").read_text())["models"]:
        marked = {
            node[0] for node in found["graphs"][0]["nodes"] if ["edited", "", "constant w: its values differ", ""] in node[6]
        }
        assert marked == {"Add", "Clip"}  # the readers of the constant


def test_shapes_and_costs_of_nodes(tmp_path: Path) -> None:
    values = ",".join(["1.0"] * 12)
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {{{values}}}>
        {{ h = Relu(x) m = MatMul(h, w) y = Relu(m) }}"""
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    found = viewed(path)
    (graph,) = found["graphs"]
    types = {graph["tensors"][tensor]: shown for tensor, shown in graph["types"].items()}
    assert (types["h"], types["m"]) == ("float[N,4]", "float[N,3]")  # the file declares neither
    assert [node[7] for node in graph["nodes"]] == [[0, 0], [12, 12], [0, 0]]
    assert dict(found["about"]) | {"parameters": "12", "MACs": "12 (with N = 1)"} == dict(found["about"])


def test_what_is_no_model(call: Call, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"no model")
    done = call("view", tmp_path / "x.onnx", "-o", tmp_path / "x.html")
    assert done.code == 2 and not (tmp_path / "x.html").exists()


LAYOUT = """
const { layoutGraph } = require(process.argv[1]);
const n = 400, sources = [], targets = [];
for (let i = 1; i < n; i++) { sources.push(i - 1 - (i * 7919) % Math.min(i, 9)); targets.push(i); }
sources.push(300, 5, 0); targets.push(10, 5, 399);
const widths = Float32Array.from({ length: n }, (_, i) => 40 + i % 90), heights = Float32Array.from({ length: n }, (_, i) => 20 + i % 40);
const laid = layoutGraph({ widths, heights, sources: Int32Array.from(sources), targets: Int32Array.from(targets) });
let overlaps = 0, upwards = 0;
for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++)
  if (Math.abs(laid.x[a] - laid.x[b]) < (widths[a] + widths[b]) / 2 && laid.y[a] < laid.y[b] + heights[b] && laid.y[b] < laid.y[a] + heights[a]) overlaps++;
for (let e = 0; e < n - 1; e++) if (laid.y[sources[e]] + heights[sources[e]] > laid.y[targets[e]]) upwards++;
console.log(JSON.stringify({ overlaps, upwards, drawn: laid.lines.length + laid.far.length, finite: [...laid.x, ...laid.y].every(Number.isFinite) }));
"""


def test_boxes_do_not_overlap_and_edges_run_down() -> None:
    if shutil.which("node") is None:
        pytest.skip("no node")
    script = ROOT / "rewriter" / "app" / "report" / "html" / "layout.js"
    done = subprocess.run(["node", "-e", LAYOUT, str(script)], capture_output=True, text=True)
    # 399 edges of the graph, one against its order, one over many layers; an edge from a box to itself is not drawn
    assert json.loads(done.stdout) == {"overlaps": 0, "upwards": 0, "drawn": 401, "finite": True}, done.stderr


VISIBLE = """
const { Visible, fitted, quantity } = require(process.argv[1]), { layoutGraph } = require(process.argv[2]);
const measure = (text, font) => text.length * (font.startsWith("600") ? 7.6 : font.startsWith("10px") ? 6 : 6.4);
const chain = (count, modules, notes = () => []) => ({
  nodes: Array.from({ length: count }, (_, n) => ["Relu", `/block/${"long".repeat(n % 9)}/Relu_${n}`, [n], [n + 1], [["alpha", "0.5".repeat(n % 30), 0]], modules(n), notes(n), [10, 1000]]),
  inputs: [0], outputs: [count], tensors: Array.from({ length: count + 1 }, (_, t) => `t${t}`),
  types: Object.fromEntries(Array.from({ length: count + 1 }, (_, t) => [t, `float[1,${"64,".repeat(t % 12)}7]`])), weights: {},
});
const shown = (visible) => { const { boxes, edges } = visible.build(); return { boxes, edges, back: edges.filter((edge) => edge.source > edge.target).length }; };
const found = {};
for (const [name, count, modules] of [["small", 95, (n) => ["m", `layer${n >> 3}`]], ["modules", 700, (n) => ["m", `layer${Math.floor(n / 60)}`, n % 60 < 30 ? "a" : "b"]], ["flat", 700, () => []], ["long", 20000, () => []], ["huge", 7000, (n) => [`part${n >> 9}`]]]) {
  const visible = new Visible(chain(count, modules), measure), { boxes, back } = shown(visible);
  visible.reveal(count - 1);
  const later = shown(visible);
  found[name] = [boxes.length, back, visible.boxKey(count - 1) === count - 1, later.boxes.length];
}
const visible = new Visible(chain(700, (n) => [`layer${n % 7}`]), measure);
found.group = visible.build().boxes.find((box) => box.sort === "group").rows;
visible.unfold(Infinity);
const { boxes, edges } = visible.build();
const laid = layoutGraph({ widths: Float32Array.from(boxes, (b) => b.width), heights: Float32Array.from(boxes, (b) => b.height), sources: Int32Array.from(edges, (e) => e.source), targets: Int32Array.from(edges, (e) => e.target) });
found.spilt = boxes.filter((box) => box.lines.some((line, i) => measure(line, i ? "" : "600") > box.width - 20)).length;
found.cut = boxes.filter((box) => box.lines.join().includes("\\u2026")).length > 0;
found.wide = boxes.filter((box) => measure(box.label, "10px") > box.width + 26).length;
found.texts = [fitted("short", 100, "", measure), fitted("/encoder/layer/Relu", 64, "", measure, true), fitted("x".repeat(1e6), 64, "", measure), quantity(24487), quantity(950)];
console.log(JSON.stringify(found));
"""


def test_large_graphs_are_folded_and_texts_stay_in_their_boxes() -> None:
    if shutil.which("node") is None:
        pytest.skip("no node")
    scripts = [str(ROOT / "rewriter" / "app" / "report" / "html" / name) for name in ("visible.js", "layout.js")]
    done = subprocess.run(["node", "-e", VISIBLE, *scripts], capture_output=True, text=True)
    found = json.loads(done.stdout or "{}")
    assert found, done.stderr
    assert found["small"] == [97, 0, True, 97]  # nothing is folded: 95 nodes, an input and an output
    for name in ("modules", "flat", "long", "huge"):
        boxes, against_the_order, is_visible, boxes_later = found[name]
        assert boxes <= 42 and against_the_order == 0 and is_visible and boxes < boxes_later < 600, name
    assert found["modules"][0] == 2 + 24  # two halves of 12 layers: modules of one size are unfolded all or none
    assert found["group"] == ["100 nodes", "1.00 K parameters", "100 K MACs"]
    assert (found["spilt"], found["cut"], found["wide"]) == (0, True, 0)
    assert found["texts"] == ["short", "\u2026ayer/Relu", "xxxxxxxxx\u2026", "24.5 K", "950"]


def test_a_page_opens_on_its_first_mark(call: Call, tmp_path: Path) -> None:
    browser = next((found for name in ("chromium", "google-chrome", "chromium-browser") if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no browser")
    fixed, page = tmp_path / "fixed.onnx", tmp_path / "page.html"
    assert call("fix", POOL, "-o", fixed).code == 0
    for models, words in (([POOL], ["PT030", "1 of 1", "before</figcaption>"]), ([POOL, fixed], ["edited", "1 of "])):
        assert call("view", *models, "-o", page, "--force").code == 0
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", f"--user-data-dir={tmp_path}/u"]
        done = subprocess.run([browser, *options, "--dump-dom", page.as_uri()], capture_output=True, text=True)
        strip = re.search(r'<section id="mark"[^>]*>(.*?)</section></div>', done.stdout, re.DOTALL)
        assert strip is not None and "hidden" not in strip[0][:60], done.stderr[-2000:]
        assert [word for word in words if word not in strip[1]] == []
