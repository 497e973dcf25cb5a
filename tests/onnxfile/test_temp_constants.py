"""Large new constants wait in a temporary file; nothing else about them is different."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rewriter import Model, load
from rewriter.core.graph import values
from rewriter.core.graph.values import Constant, LazyTensor, constant_array, new_constant


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "LEAST_ASIDE", 1)
    monkeypatch.setattr(values, "LEAST_ASIDE", 1)
    monkeypatch.setattr(values, "MAX_BYTES_IN_MEMORY", 0)


def model() -> Model:
    return Model.from_proto(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g () => (float[2] y) {}'))


ARRAYS = {
    str(array.dtype) + str(array.shape): array
    for array in (
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.array(1.5),
        np.array([True, False]),
        np.array([1, 2], np.int64)[::-1],
        np.array([1 + 2j], np.complex64),
        np.array(["a", "b"], object),
        np.zeros((0, 3), np.float16),
    )
}


@pytest.mark.parametrize("name", ARRAYS)
def test_written_as_if_it_had_stayed_in_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, arrays = [], []
    for most_held in (0, 1 << 20):
        monkeypatch.setattr(values, "MAX_BYTES_IN_MEMORY", most_held)
        edited, constant = model(), new_constant("w", ARRAYS[name])
        edited.graph.initializers.append(constant)
        arrays.append(constant_array(constant))
        edited.save(tmp_path / "out.onnx", force=True)
        files.append((tmp_path / "out.onnx").read_bytes())
        assert edited.to_proto().SerializeToString(deterministic=True) == files[-1]
        assert constant.shape == ARRAYS[name].shape
    assert files[0] == files[1]
    assert arrays[0].dtype == arrays[1].dtype and arrays[0].tolist() == arrays[1].tolist()


def aside(constant: Constant) -> bool:
    return isinstance(constant._values, LazyTensor)


def test_a_few_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(values._state, "bytes_in_memory", 0)
    monkeypatch.setattr(values, "MAX_BYTES_IN_MEMORY", 100)
    first, second = new_constant("a", np.zeros(20, np.float32)), new_constant("b", np.zeros(20, np.float32))
    assert (aside(first), aside(second)) == (False, True)
    del first
    gc.collect()
    assert not aside(new_constant("c", np.zeros(20, np.float32)))


def test_the_file_goes_with_the_last_constant() -> None:
    constant = new_constant("a", np.zeros(20, np.float32))
    file = constant._values.file
    assert new_constant("b", np.ones(20, np.float32))._values.file is file
    number = file.number
    del constant, file
    gc.collect()
    assert new_constant("c", np.zeros(20, np.float32))._values.file.number > number


def test_no_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(values._state, "_file", None)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert not aside(new_constant("a", np.zeros(20, np.float32)))


def test_renamed_and_edited(tmp_path: Path) -> None:
    edited = model()
    first, second = new_constant("a", np.zeros(3, np.float32)), new_constant("b", np.zeros(3, np.float32))
    edited.graph.initializers += [first, second]
    first.name, second.values = "renamed", np.ones(3, np.float32)
    edited.save(tmp_path / "out.onnx")
    found = {t.name: numpy_helper.to_array(t).tolist() for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert found == {"renamed": [0, 0, 0], "b": [1, 1, 1]}
    assert len(load(tmp_path / "out.onnx").graph.initializers) == 2


def test_a_view_goes_to_the_file_though_little_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory it would hold all that it is a view of."""
    monkeypatch.setattr(values, "MAX_BYTES_IN_MEMORY", 1 << 20)
    whole = np.arange(20, dtype=np.float32).reshape(4, 5)
    held, put = new_constant("a", whole.copy()), new_constant("b", whole.T)
    assert (aside(held), aside(put)) == (False, True)
    assert np.array_equal(constant_array(put), whole.T)
