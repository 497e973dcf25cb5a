"""The public API on graphs that have nothing to do with files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx_graphsurgeon as gs
import pytest

import rewriter

MODELS = Path(__file__).parent / "models"


def graph() -> gs.Graph:
    """x -> Identity -> Relu -> y, by graphsurgeon alone."""
    x, t, y = gs.Variable("x", "float32", [2]), gs.Variable("t", "float32", [2]), gs.Variable("y", "float32", [2])
    nodes = [gs.Node("Identity", "i", inputs=[x], outputs=[t]), gs.Node("Relu", "r", inputs=[t], outputs=[y])]
    return gs.Graph(nodes, [x], [y], opset=13)


def rules(tmp_path: Path, kind: str) -> object:
    (tmp_path / "my.rules").write_text(
        f"/// Nothing.\nrule TST001 identity <kind: {kind}>\nmatch {{ y = Identity(x) }}\nrewrite {{ y = x }}\n"
    )
    return rewriter.load_rules([tmp_path])


def test_any_graph_can_be_rewritten(tmp_path: Path) -> None:
    made = graph()
    log = rewriter.rewrite(made, rules(tmp_path, "exact, default: on"))  # type: ignore[arg-type]
    assert log.counts == {"TST001": 1}
    assert [node.op for node in made.nodes] == ["Relu"]
    assert made.nodes[0].inputs[0].name == "x"


def test_a_check_leaves_the_graph_alone(tmp_path: Path) -> None:
    made = graph()
    assert rewriter.check(made, rules(tmp_path, "repair")).counts == {"TST001": 1}  # type: ignore[arg-type]
    assert [node.op for node in made.nodes] == ["Identity", "Relu"]
    assert made.nodes[1].inputs[0].inputs == [made.nodes[0]]


def test_what_does_not_run_unasked_must_be_selected(tmp_path: Path) -> None:
    known = rules(tmp_path, "lossy")
    assert not rewriter.rewrite(graph(), known).changed  # type: ignore[arg-type]
    assert rewriter.rewrite(graph(), known.select(["TST001"])).changed  # type: ignore[attr-defined]


def test_a_model_from_file_to_file(tmp_path: Path) -> None:
    path = MODELS / "mxnet-1.4.1-fix-gamma.onnx"
    model = rewriter.load(path)
    log = rewriter.rewrite(model.graph, source=path.with_name(f"{path.stem}-symbol.json"), overridable=model.overridable)
    assert "MX002" in log.counts
    model.save(tmp_path / "fixed.onnx")
    again = rewriter.load(tmp_path / "fixed.onnx")
    assert not rewriter.rewrite(again.graph).changed


def test_bad_files_raise(tmp_path: Path) -> None:
    with pytest.raises(rewriter.RewriterError):
        rewriter.load(tmp_path / "none.onnx")
    with pytest.raises(rewriter.RewriterError):
        rewriter.rewrite(graph(), source=tmp_path / "none.json")


def test_names_are_there_and_nothing_is_imported_for_them() -> None:
    assert set(dir(rewriter)) == set(rewriter.__all__)
    program = "import rewriter, sys; assert 'onnx' not in sys.modules; rewriter.load; assert 'onnx' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rewriter.nothing  # noqa: B018
