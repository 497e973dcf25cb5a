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

from rewriter.app.report.html.viewer_page import viewer_page
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


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def test_what_is_told_of_a_graph(net: Path) -> None:
    viewed = viewed_model(net, [NodeNote("main", "/last", "finding", "ACME001", "A clip.")])
    (graph,) = viewed["graphs"]
    names = graph["tensors"]
    nodes = {node[1]: node for node in graph["nodes"]}
    assert dict(viewed["about"])["exporter"] == "acme" and dict(viewed["about"])["nodes"] == "5"
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
    assert nodes["/last"][6] == [["finding", "ACME001", "A clip."]]


def test_modules_that_dynamo_recorded(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(NET)
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.0', 'add']")
    onnx.save(model, tmp_path / "net.onnx")
    (graph,) = viewed_model(tmp_path / "net.onnx")["graphs"]
    assert graph["nodes"][1][5] == ["encoder", "0"]


def test_texts_of_a_model_cannot_become_markup(net: Path) -> None:
    model = onnx.load(net)
    model.graph.node[1].name = "</script><script>alert(1)</script>"
    onnx.save(model, net)
    page = viewer_page([viewed_model(net)], "<b>")
    assert "alert(1)</script>" not in page and "<title>&lt;b&gt;</title>" in page
    assert data_of(page)["models"][0]["graphs"][0]["nodes"][1][1] == "</script><script>alert(1)</script>"
    assert "default-src 'none'" in page and not re.search(r"(src|href)=\"http", page)


def test_findings_are_marked(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "pool.html"
    done = call("view", POOL, "-o", target)
    assert done.code == 0 and " KiB" in done.out + done.err
    (graph,) = data_of(target.read_text())["models"][0]["graphs"]
    assert [node[6][0][:2] for node in graph["nodes"] if node[6]] == [["finding", "PT030"]]
    again = call("view", POOL, "-o", target)
    assert again.code == 2 and "--force overwrites it" in again.err


def test_two_models_show_what_differs(call: Call, tmp_path: Path) -> None:
    fixed, target = tmp_path / "fixed.onnx", tmp_path / "both.html"
    assert call("fix", POOL, "-o", fixed).code == 0
    assert call("view", POOL, fixed, "-o", target).code == 0
    before, after = (model["graphs"][0] for model in data_of(target.read_text())["models"])
    assert {note[0] for node in before["nodes"] for note in node[6]} == {"edited"}
    assert {note[0] for node in after["nodes"] for note in node[6]} >= {"added", "edited"}


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
