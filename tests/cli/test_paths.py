"""Which models are found, and where their results go."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.app.batch.jobs import find_models, plan
from rewriter.core.errors import RewriterError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b/2.onnx", "b/1.onnx", "a.onnx", "a.fixed.onnx", ".hidden/x.onnx", "b/notes.txt", "c/B.ONNX"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def targets(tree: Path, *paths: str, **options: object) -> dict[str, str]:
    wanted = {"output": None, "out": None, "in_place": False} | options
    jobs = plan(find_models([str(tree / path) for path in paths], leave_out=wanted["out"]), **wanted)  # type: ignore[arg-type]
    return {str(Path(job.path).relative_to(tree)): str(Path(job.target or "").relative_to(tree)) for job in jobs}


def test_folders_in_order_without_hidden_ones(tree: Path) -> None:
    found = [model.place for model in find_models([str(tree)])]
    assert found == ["a.fixed.onnx", "a.onnx", "b/1.onnx", "b/2.onnx", "c/B.ONNX"]
    assert "a.fixed.onnx" not in [model.place for model in find_models([str(tree)], skip=".fixed.onnx")]


def test_a_model_counts_once_and_a_missing_one_too(tree: Path) -> None:
    found = find_models([str(tree / "a.onnx"), str(tree / "b" / ".." / "a.onnx"), str(tree / "no.onnx")])
    assert [Path(model.path).name for model in found] == ["a.onnx", "no.onnx"]


def test_a_model_that_is_also_reached_by_a_link_has_its_own_name(tree: Path) -> None:
    (tree / "b" / "0.onnx").symlink_to("1.onnx")
    assert [model.place for model in find_models([str(tree / "b")])] == ["1.onnx", "2.onnx"]
    (tree / "b" / "1.onnx").rename(tree / "1.onnx")
    (tree / "b" / "0.onnx").unlink()
    (tree / "b" / "0.onnx").symlink_to("../1.onnx")
    assert [model.place for model in find_models([str(tree / "b")])] == ["0.onnx", "2.onnx"]


def test_beside_the_input(tree: Path) -> None:
    assert targets(tree, "a.onnx", "c") == {"a.onnx": "a.fixed.onnx", "c/B.ONNX": "c/B.ONNX.fixed.onnx"}


def test_a_mirror(tree: Path) -> None:
    assert targets(tree, "b", "a.onnx", out=str(tree / "out")) == {
        "b/1.onnx": "out/1.onnx",
        "b/2.onnx": "out/2.onnx",
        "a.onnx": "out/a.onnx",
    }


def test_the_folder_of_results_is_not_searched(tree: Path) -> None:
    (tree / "out").mkdir()
    (tree / "out" / "old.onnx").touch()
    assert "out/old.onnx" not in targets(tree, ".", out=str(tree / "out"))


def test_in_place(tree: Path) -> None:
    assert targets(tree, "b", in_place=True) == {"b/1.onnx": "b/1.onnx", "b/2.onnx": "b/2.onnx"}


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        (["b"], {"output": "x.onnx"}, "there are 2 models; use --out"),
        (["a.onnx"], {"output": "b"}, "is a folder; use --out"),
        (["a.onnx"], {"output": "a.onnx"}, "is the input itself; use --in-place"),
        (["b"], {"out": "b"}, "is the input itself"),
        (["b/1.onnx"], {"out": "b"}, "is the input itself"),
        (["b", "c/../b/1.onnx", "d/1.onnx"], {"out": "out"}, "would both be"),
        (["a.onnx", "a.fixed.onnx"], {}, "would overwrite the input"),
        (["empty"], {}, "no \\*.onnx in this folder"),
    ],
)
def test_refused(tree: Path, paths: list[str], options: dict[str, str], message: str) -> None:
    (tree / "empty").mkdir()
    with pytest.raises(RewriterError, match=message):
        targets(tree, *paths, **{key: str(tree / value) for key, value in options.items()})
