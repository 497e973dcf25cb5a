"""External data: read from the model's folder and nowhere else, never beyond what is there, and carried along when it moves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from rewriter import Model, RewriterError, load
from rewriter.core.graph.values import constant_array, elem_type, static_shape

DATA = np.arange(6, dtype=np.float32)


def make(
    folder: Path, name: str = "m.onnx", location: str = "w.bin", dims: tuple[int, ...] = (2, 3), **entries: object
) -> Path:
    """A model whose only weight stands in `location`; entries are those of its external data."""
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [], [])
    graph.input.append(helper.make_tensor_value_info("x", 1, [2, 3]))
    graph.output.append(helper.make_tensor_value_info("y", 1, [2, 3]))
    tensor = graph.initializer.add(name="w", data_type=1, dims=dims, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(helper.make_model(graph).SerializeToString())
    return folder / name


def weight(path: Path) -> np.ndarray:
    return constant_array(load(path).graph.initializers[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.bin").write_bytes(b"\0" * 8 + DATA.tobytes())
    return tmp_path / "in"


def test_values_come_from_the_models_folder_not_the_current_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(folder, offset=8, length=24)
    (tmp_path / "w.bin").write_bytes(b"\1" * 32)
    monkeypatch.chdir(tmp_path)
    assert weight(path).tolist() == DATA.reshape(2, 3).tolist()
    assert weight(path.relative_to(tmp_path)).tolist() == DATA.reshape(2, 3).tolist()


def test_offset_and_length_may_be_left_out(folder: Path) -> None:
    assert weight(make(folder)).ravel()[2:].tolist() == [0, 1, 2, 3]


def test_nothing_is_read_before_a_value_is_asked_for(tmp_path: Path) -> None:
    model = load(make(tmp_path, location="not there"))
    tensor = model.graph.initializers[0]
    assert (elem_type(tensor), static_shape(tensor)) == (1, (2, 3))
    assert not model.edited
    with pytest.raises(RewriterError, match=r"'not there': no such file"):
        constant_array(tensor)


def test_a_model_without_a_folder_has_no_external_data(folder: Path) -> None:
    proto = onnx.ModelProto.FromString(make(folder).read_bytes())
    with pytest.raises(RewriterError, match="folder of the model is not known"):
        constant_array(Model.from_proto(proto).graph.initializers[0])
    assert constant_array(Model.from_proto(proto, base_dir=folder).graph.initializers[0]).shape == (2, 3)


@pytest.mark.parametrize(
    "location",
    [
        "../secret",
        "sub/../../secret",
        "/etc/hostname",
        "C:\\secret",
        "..\\secret",
        "\\\\host\\share",
        "",
        "a\0b",
        ".",
        "sub/..",
    ],
)
def test_locations_that_lead_out(folder: Path, location: str) -> None:
    (folder.parent / "secret").write_bytes(b"s" * 64)
    with pytest.raises(RewriterError, match=r"leads out|names no file|is not|no usable"):
        weight(make(folder, location=location))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 9}, "data end at byte 33"),
        ({"offset": -8}, "not a number of bytes"),
        ({"offset": "8 "}, "not a number of bytes"),
        ({"offset": "1_0"}, "not a number of bytes"),
        ({"offset": "0x8"}, "not a number of bytes"),
        ({"offset": "٣"}, "not a number of bytes"),
        ({"offset": "9" * 30}, "not a number of bytes"),
        ({"length": 23}, "23 bytes of external data, but its type and shape need 24"),
        ({"length": 32}, "32 bytes of external data"),
        ({"length": ""}, "not a number of bytes"),
        ({"dims": (2**40,)}, "has only 32 bytes"),
        ({"dims": (-1, 3)}, "negative dimension"),
    ],
)
def test_lies_about_offset_length_and_shape(folder: Path, entries: dict[str, object], message: str) -> None:
    with pytest.raises(RewriterError, match=message):
        weight(make(folder, **entries))  # type: ignore[arg-type]


def test_a_key_given_twice(folder: Path) -> None:
    path = make(folder)
    proto = onnx.ModelProto.FromString(path.read_bytes())
    proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(RewriterError, match="'location' twice"):
        weight(path)


def test_links_inside_the_folder_are_followed_links_out_of_it_are_not(folder: Path) -> None:
    secret = folder.parent / "secret"
    secret.write_bytes(b"s" * 64)
    (folder / "inside").symlink_to("w.bin")
    (folder / "outside").symlink_to(secret)
    (folder / "dir").symlink_to(folder.parent)
    assert weight(make(folder, location="inside")).shape == (2, 3)
    for location in ("outside", "dir/secret"):
        with pytest.raises(RewriterError, match="through a symbolic link"):
            weight(make(folder, location=location))


def test_the_folder_itself_is_no_file(folder: Path) -> None:
    with pytest.raises(RewriterError, match=r"external data '\.' is the model's folder, which is not a file"):
        weight(make(folder, location="."))


def test_a_folder_reached_through_a_link_is_the_folder(folder: Path) -> None:
    make(folder)
    (folder.parent / "alias").symlink_to(folder)
    assert weight(folder.parent / "alias" / "m.onnx").shape == (2, 3)


def test_hard_links(folder: Path) -> None:
    os.link(folder / "w.bin", folder / "twin.bin")
    assert weight(make(folder, location="twin.bin")).shape == (2, 3), "all its names are in the folder"
    secret = folder.parent / "secret"
    secret.write_bytes(b"s" * 64)
    os.link(secret, folder / "stolen.bin")
    with pytest.raises(RewriterError, match="hard link to a file outside"):
        weight(make(folder, location="stolen.bin"))


def test_folders_and_pipes_are_no_data_files(folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    for location in ("sub", "pipe"):
        with pytest.raises(RewriterError, match=r"not a regular file|is a directory"):
            weight(make(folder, location=location))


def test_sub_byte_types(folder: Path) -> None:
    path = make(folder, dims=(3,), offset=8, length=2)
    proto = onnx.ModelProto.FromString(path.read_bytes())
    proto.graph.initializer[0].data_type = onnx.TensorProto.INT4
    path.write_bytes(proto.SerializeToString())
    (folder / "w.bin").write_bytes(b"\0" * 8 + bytes([0x21, 0x0F]))
    assert weight(path).astype(int).tolist() == [1, 2, -1]


def test_saved_elsewhere_the_data_come_along(folder: Path, tmp_path: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "w.bin").rename(folder / "sub" / "w.bin")
    path = make(folder, location="sub/w.bin", offset=8)
    (tmp_path / "out").mkdir()
    load(path).save(tmp_path / "out" / "m.onnx")
    copy = tmp_path / "out" / "sub" / "w.bin"
    assert copy.read_bytes() == (folder / "sub" / "w.bin").read_bytes()
    assert copy.stat().st_nlink == 1
    assert weight(tmp_path / "out" / "m.onnx").tolist() == weight(path).tolist()


def test_saved_in_the_same_folder_nothing_is_copied(folder: Path) -> None:
    load(make(folder)).save(folder / "second.onnx")
    assert sorted(os.listdir(folder)) == ["m.onnx", "second.onnx", "w.bin"]


def test_models_that_share_a_data_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a.onnx", "b.onnx"):
        load(make(folder, name)).save(tmp_path / "out" / name)
    assert sorted(os.listdir(tmp_path / "out")) == ["a.onnx", "b.onnx", "w.bin"]


def test_another_data_file_in_the_way(folder: Path, tmp_path: Path) -> None:
    path = make(folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "w.bin").write_bytes(b"precious")
    with pytest.raises(RewriterError, match="other content"):
        load(path).save(tmp_path / "out" / "m.onnx")
    assert os.listdir(tmp_path / "out") == ["w.bin"]
    assert (tmp_path / "out" / "w.bin").read_bytes() == b"precious"
    load(path).save(tmp_path / "out" / "m.onnx", force=True)
    assert weight(tmp_path / "out" / "m.onnx").shape == (2, 3)


def test_a_missing_data_file_does_not_stop_saving(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    load(make(tmp_path, location="missing")).save(tmp_path / "out" / "m.onnx")
    assert os.listdir(tmp_path / "out") == ["m.onnx"]


def test_a_location_that_leads_out_is_not_copied(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s" * 64)
    (tmp_path / "out").mkdir()
    with pytest.raises(RewriterError, match="leads out"):
        load(make(folder, location="../secret")).save(tmp_path / "out" / "m.onnx")
    assert os.listdir(tmp_path / "out") == []


def test_a_constant_of_another_folder_is_written_inline(folder: Path, tmp_path: Path) -> None:
    first, second = load(make(folder, offset=8)), load(make(tmp_path / "other", location="elsewhere"))
    second.graph.nodes[0].inputs[1] = first.graph.initializers[0]
    written = second.to_proto().graph.initializer
    assert [tensor.data_location for tensor in written] == [onnx.TensorProto.EXTERNAL, onnx.TensorProto.DEFAULT]
    assert np.frombuffer(written[1].raw_data, np.float32).tolist() == DATA.tolist()


def test_edited_weights_are_written_inline(folder: Path) -> None:
    model = load(make(folder, offset=8))
    model.graph.initializers[0].values[0, 0] = 7
    [tensor] = model.to_proto().graph.initializer
    assert tensor.data_location == onnx.TensorProto.DEFAULT
    assert np.frombuffer(tensor.raw_data, np.float32).tolist() == [7, 1, 2, 3, 4, 5]


def test_data_of_attributes_subgraphs_and_functions_come_along(folder: Path, tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(make(folder).read_bytes())
    [tensor] = proto.graph.initializer
    for i, holder in enumerate(("attribute", "body", "function", "sparse")):
        (folder / holder).write_bytes(b"\0" * 24 + bytes([i]))
    attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR)

    def named(location: str) -> onnx.TensorProto:
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.external_data[0].value = location
        return copy

    attribute.t.CopyFrom(named("attribute"))
    body = onnx.GraphProto(name="b", initializer=[named("body")])
    body.sparse_initializer.add().values.CopyFrom(named("sparse"))
    inner = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=named("function"))
    proto.graph.node.add(
        op_type="If", attribute=[onnx.AttributeProto(name="g", type=onnx.AttributeProto.GRAPH, g=body), attribute]
    )
    proto.functions.add(name="F", domain="d", node=[onnx.NodeProto(op_type="Constant", attribute=[inner])])
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "out").mkdir()
    load(folder / "m.onnx").save(tmp_path / "out" / "m.onnx")
    assert sorted(os.listdir(tmp_path / "out")) == ["attribute", "body", "function", "m.onnx", "sparse", "w.bin"]
