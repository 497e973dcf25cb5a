"""Large models, whose weights stay in their file: what is written equals what is written when all of it is in memory.

A model counts as large here from the first byte on, and a tensor's data, too, so that small models show what happens to large ones.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter import Model, RewriterError, load
from rewriter.core.graph.objects import new_node
from rewriter.core.graph.values import constant_array
from rewriter.core.onnxfile import files, model_file
from rewriter.core.onnxfile import files as transfer
from rewriter.core.onnxfile.model_file import MARK, payload_of
from rewriter.core.onnxfile.wire import MalformedError, Source, fields, varint
from tests.graph.test_hostile_models import SEEDS, damaged
from tests.graph.test_lossless import BASE, KINDS

EXAMPLES = sorted((Path(__file__).parents[1] / "models").glob("*.onnx"))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(model_file, "LEAST_FIELD", 1)


def weight(name: str = "w", rows: int = 3) -> TensorProto:
    return numpy_helper.from_array(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), name)


def of(*tensors: TensorProto, constant: TensorProto | None = None) -> onnx.ModelProto:
    """A model with these initializers, of which none need be used, and a Constant node."""
    node = helper.make_node("Constant", [], ["c"], name="constant", value=constant or weight("", 2))
    out = helper.make_tensor_value_info("c", 1, [2, 4])
    return helper.make_model(helper.make_graph([node], "g", [], [out], initializer=tensors))


def typed(**data: object) -> TensorProto:
    tensor = weight()
    tensor.ClearField("raw_data")
    for name, values in data.items():
        getattr(tensor, name).extend(values)
    return tensor


TENSORS: dict[str, bytes] = {
    "raw": weight().SerializeToString(),
    "floats": typed(float_data=range(12)).SerializeToString(),
    "doubles": TensorProto(name="w", data_type=11, dims=[2], double_data=[1, 2]).SerializeToString(),
    "integers": TensorProto(name="w", data_type=7, dims=[2], int64_data=[-1, 2]).SerializeToString(),
    "strings": TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a", b"\xff"]).SerializeToString(),
    "data before the name": b"\x4a\x04abcd" + TensorProto(name="w", data_type=1, dims=[1]).SerializeToString(),
    "data twice": weight().SerializeToString() + b"\x4a\x04abcd",
    "two kinds of data": weight().SerializeToString() + b"\x22\x04abcd",
    "floats one by one": b"\x25abcd\x25efgh" + TensorProto(name="w", data_type=1, dims=[2]).SerializeToString(),
    "floats one by one and packed": b"\x25abcd\x22\x04efgh" + TensorProto(name="w", data_type=1, dims=[2]).SerializeToString(),
    "a field of another kind": b"\x12\x01a" + weight().SerializeToString(),
    "a field of the future": b"\xa2\x06\x01a" + weight().SerializeToString() + b"\xf2\x01\x01b",
    "a long form of a length": b"\x4a\x84\x80\x00abcd" + TensorProto(name="w", data_type=1, dims=[1]).SerializeToString(),
    "a mark of somebody else": weight().SerializeToString() + varint(MARK << 3 | 2) + b"\x29" + bytes(41),
    "documented": TensorProto(name="w", data_type=1, dims=[1], raw_data=b"abcd", doc_string="d").SerializeToString(),
    "external": TensorProto(name="w", data_type=1, dims=[1], raw_data=b"abcd", data_location=1).SerializeToString(),
    "a lie about the size": TensorProto(name="w", data_type=1, dims=[9], raw_data=b"abcd").SerializeToString(),
    "a lie about the type": TensorProto(name="w", data_type=10, dims=[1], float_data=[1]).SerializeToString(),
    "strings that have raw data": TensorProto(name="w", data_type=8, dims=[1], raw_data=b"abcd").SerializeToString(),
    "bits": TensorProto(name="w", data_type=22, dims=[3], raw_data=b"\x21\x03").SerializeToString(),
}


def with_tensor(data: bytes) -> bytes:
    graph = of(weight("first")).graph.SerializeToString()
    graph += b"\x2a" + varint(len(data)) + data
    return of().SerializeToString().split(b"\x3a", 1)[0] + b"\x3a" + varint(len(graph)) + graph


def outcome(path: Path, out: Path) -> list[object]:
    """All that can be seen of a model: its values, what it is written as untouched and edited, its errors."""
    seen: list[object] = []

    def look(step: Callable[[], object]) -> None:
        try:
            seen.append(step())
        except RewriterError as error:
            seen.append(str(error))

    def written(model: Model) -> bytes:
        model.save(out, force=True)
        return out.read_bytes()

    try:
        model = load(path)
    except RewriterError as error:
        return [str(error)]
    for tensor in model.graph.initializers:
        look(lambda tensor=tensor: (constant_array(tensor).dtype, constant_array(tensor).tolist().__repr__()))
    look(lambda: written(model))
    look(lambda: model.edited)
    look(lambda: model.proto.SerializeToString(deterministic=True))
    for node in model.graph.nodes:
        node.name += "!"
    look(lambda: written(model))
    look(lambda: model.to_proto().SerializeToString(deterministic=True))
    for node in model.graph.nodes:
        look(lambda node=node: repr({k: v for k, v in node.attrs.items() if isinstance(v, (int, str, float, list))}))
    look(lambda: written(model))
    for i, tensor in enumerate(model.graph.initializers):
        tensor.name = f"weight {i}"
    look(lambda: written(model))
    return seen


def compare(data: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Loads and writes a model both ways; how often the weights were left out."""
    (folder / "m.onnx").write_bytes(data)
    whole = outcome(folder / "m.onnx", folder / "out.onnx")
    with monkeypatch.context() as patch:
        patch.setattr(files, "LARGE", 0)
        patch.setattr(model_file, "LEAST_FIELD", 1)
        apart = outcome(folder / "m.onnx", folder / "out.onnx")
        try:
            left_out = load(folder / "m.onnx").graph.weights is not None
        except RewriterError:
            left_out = False
    assert apart == whole
    return left_out


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_all_kinds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(with_tensor(TENSORS[name]), tmp_path, monkeypatch)


@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_of_information(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(BASE)
    KINDS[name](model)
    compare(model.SerializeToString(), tmp_path, monkeypatch)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_real_models(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(path.read_bytes(), tmp_path, monkeypatch)


def test_models_of_onnx_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(compare(data, tmp_path, monkeypatch) for data in SEEDS[::6]) > 20


def test_random_damage_gives_the_same_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(20240602)
    seeds = [with_tensor(data) for data in TENSORS.values()] + [path.read_bytes() for path in EXAMPLES]
    left_out = [compare(damaged(rng.choice(seeds), rng), tmp_path, monkeypatch) for _ in range(400)]
    assert 50 < sum(left_out) < 380


@pytest.mark.parametrize("merged", ["graph", "tensor of an attribute"])
def test_messages_in_two_parts(merged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if merged == "graph":
        data = of(weight("a")).SerializeToString() + of(weight("b")).SerializeToString()
    else:
        tensor = weight().SerializeToString()
        attribute = b"\x0a\x05value\xa0\x01\x04" + 2 * (b"\x2a" + varint(len(tensor)) + tensor)
        node = b"\x22\x08Constant\x12\x01c\x2a" + varint(len(attribute)) + attribute
        graph = b"\x0a" + varint(len(node)) + node
        data = b"\x08\x08\x3a" + varint(len(graph)) + graph
    compare(data, tmp_path, monkeypatch)


# --- what is read, and when ------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(of(weight("a"), weight("b", 30)), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.usefixtures("large")
def test_only_the_values_that_are_asked_for_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(path)
    read: list[int] = []
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *args: read.append(preadv(*args)) or read[-1])
    assert constant_array(model.graph.initializers[1]).tolist() == np.arange(120).reshape(30, 4).tolist()
    assert read == [480]


@pytest.mark.usefixtures("large")
def test_the_values_can_be_written_to(path: Path) -> None:
    constant_array(load(path).graph.initializers[0])[:] = 1


@pytest.mark.usefixtures("large")
def test_the_file_is_closed_when_nothing_refers_to_it(path: Path) -> None:
    model = load(path)
    descriptor = model.graph.weights.descriptor
    constant = model.graph.initializers[0]
    del model
    gc.collect()
    assert constant_array(constant).shape == (3, 4)
    del constant
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.usefixtures("large")
def test_files_of_forgotten_models_do_not_add_up(path: Path) -> None:
    gc.disable()
    try:
        assert max(load(path).graph.weights.descriptor for _ in range(300)) < 200
    finally:
        gc.enable()


@pytest.mark.usefixtures("large")
def test_the_graph_is_enough_to_read_the_weights(path: Path) -> None:
    graph = load(path).graph
    gc.collect()
    assert graph.nodes[0].attrs["value"].values.shape == (2, 4)


@pytest.mark.usefixtures("large")
def test_a_node_outlives_its_model(path: Path) -> None:
    node = load(path).graph.nodes[0]
    gc.collect()
    with pytest.raises(RewriterError, match="is gone"):
        node.attrs["value"]


@pytest.mark.usefixtures("large")
def test_a_renamed_or_replaced_file_is_still_the_one_that_was_read(path: Path, tmp_path: Path) -> None:
    data, model = path.read_bytes(), load(path)
    path.rename(tmp_path / "elsewhere.onnx")
    path.write_bytes(b"something else")
    model.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == data


@pytest.mark.usefixtures("large")
def test_a_model_replaces_its_own_file_and_goes_on(path: Path) -> None:
    model = load(path)
    for name in ("first", "second"):
        model.graph.name = name
        model.save(path, force=True)
        assert onnx.load(path).graph.name == name
    onnx.checker.check_model(path)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("edit", [False, True])
def test_a_file_that_was_written_to_is_refused(path: Path, tmp_path: Path, edit: bool) -> None:
    model = load(path)
    if edit:
        model.graph.name = "edited"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(RewriterError, match=r"m\.onnx changed while rewriter was working on it"):
        model.save(tmp_path / "out.onnx")
    with pytest.raises(RewriterError, match="changed while rewriter was working on it"):
        constant_array(model.graph.initializers[0])
    with pytest.raises(RewriterError, match="changed while rewriter was working on it"):
        model.to_proto()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx"]


@pytest.mark.usefixtures("large")
def test_weights_of_two_files_in_one_model(path: Path, tmp_path: Path) -> None:
    onnx.save(of(weight("other", 5)), tmp_path / "other.onnx")
    model, other = load(path), load(tmp_path / "other.onnx")
    (foreign,) = other.graph.initializers
    model.graph.nodes.append(new_node("Neg", None, "neg", {"value": foreign}, [foreign], [model.graph.outputs[0]]))
    model.save(tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in written.graph.initializer}
    assert {name: array.shape for name, array in arrays.items()} == {"a": (3, 4), "b": (30, 4), "other": (5, 4)}
    assert numpy_helper.to_array(written.graph.node[1].attribute[0].t).shape == (5, 4)
    assert written == model.to_proto()


@pytest.mark.usefixtures("large")
def test_graphsurgeon_gets_complete_messages(path: Path) -> None:
    tensor = load(path).graph.initializers[0]._values.tensor
    assert payload_of(tensor) is None and tensor == weight("a")


def test_small_models_are_read_at_once(path: Path) -> None:
    assert load(path).graph.weights is None


# --- underneath ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [(), ("copy_file_range",), ("copy_file_range", "sendfile")])
def test_all_ways_of_copying(missing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in missing:
        monkeypatch.delattr(os, name, raising=False)
    data = random.Random(1).randbytes(100_000)
    (tmp_path / "a").write_bytes(data)
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        os.write(target.fileno(), b"start")
        transfer.transfer(source.fileno(), 7, 90_000, target.fileno())
        with pytest.raises(OSError, match="shorter"):
            transfer.transfer(source.fileno(), 99_990, 11, target.fileno())
    assert (tmp_path / "b").read_bytes() == b"start" + data[7:90_007] + data[99_990:]


def test_a_system_that_refuses_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        transfer.transfer(source.fileno(), 0, 3, target.fileno())
    assert (tmp_path / "b").read_bytes() == b"abc"


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x0b\x0c", b"\x02\x00"]
)
def test_lengths_that_lie(data: bytes) -> None:
    with pytest.raises(MalformedError):
        list(fields(Source.of(data), 0, len(data)))


def test_a_window_moves_along() -> None:
    data = b"".join(bytes((0x0A, 100)) + bytes(100) for _ in range(5000))
    read: list[int] = []

    def some(place: int, count: int) -> bytes:
        read.append(count)
        return data[place : place + count]

    found = list(fields(Source(len(data), some), 0, len(data)))
    assert len(found) == 5000 and found[-1] == (1, 2, len(data) - 102, len(data) - 100, len(data))
    assert sum(read) < 1.1 * len(data)
