"""All models that come with onnx, through the objects and back: equal field by field."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import onnx.backend.test
import pytest

from rewriter import Model, load

FOLDER = Path(onnx.backend.test.__file__).parent / "data"
FILES = sorted(FOLDER.glob("*/*/model.onnx")) + sorted(FOLDER.glob("light/*.onnx"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_in_the_onnx_package(path: Path, tmp_path: Path) -> None:
    model = load(path)
    assert not model.edited
    for node in model.graph.nodes:
        assert isinstance(node.attrs, dict)
    for tensor in (*model.graph.inputs, *model.graph.outputs):
        assert (tensor.dtype, tensor.shape, tensor.type) is not None
    assert not model.edited
    model.save(tmp_path / "saved.onnx")
    assert (tmp_path / "saved.onnx").read_bytes() == path.read_bytes()


def test_there_are_such_files() -> None:
    assert len(FILES) > 100


def test_the_operator_tests_of_onnx() -> None:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    assert len(cases) > 1000
    edited = []
    for case in cases:
        model = Model.from_proto(case.model)
        for node in model.graph.nodes:
            assert isinstance(node.attrs, dict)
        if model.edited:
            edited.append(case.name)
    assert edited == []
