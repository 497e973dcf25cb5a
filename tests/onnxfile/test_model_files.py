"""Reading what is no model; writing so that nothing is lost: no half files, nothing overwritten, no link followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import onnx
import pytest

from rewriter import Model, RewriterError, load
from rewriter.core.onnxfile import files

TEXT = '<ir_version: 8, opset_import: ["": 17]> main (float[N] x) => (float[N] y) { y = Neg(x) }'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "m.onnx"
    file.write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    return file


# --- reading ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>404</html>", "HTML page"),
        (b"\n  <HTML>", "HTML page"),
        (b'{"nodes": []}', "JSON file"),
        (b"PK\x03\x04" + b"\0" * 40, "zip archive"),
        (b"\x1f\x8b\x08\0", "gzip archive"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x80\x02}q\0", "pickle"),
        (b"\x1c\0\0\0TFL3\0\0", "TensorFlow Lite"),
        (b"\x1c\0\0\0ORTM\0\0", "ONNX Runtime model"),
        (b"ir_version: 8\n", "text format"),
        (TEXT.encode(), "ONNX's text format"),
        (b"hello world", "not an ONNX model"),
        (b"\xff" * 100, "not an ONNX model"),
        (b"\x08\x08", "it has no graph"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "bad.onnx").write_bytes(data)
    with pytest.raises(RewriterError, match=message) as caught:
        load(tmp_path / "bad.onnx")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'bad.onnx'}: ")


def test_a_truncated_model(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(RewriterError, match=r"truncated: at least \d bytes are missing"):
        load(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("missing", "no such file"), (".", "is a folder"), ("pipe", "not a regular file"), ("a\0b", "null")):
        with pytest.raises(RewriterError, match=message):
            load(tmp_path / name)


def test_a_file_beyond_two_gib(tmp_path: Path) -> None:
    with (tmp_path / "big.onnx").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(RewriterError, match=r"2\.0 GiB, but one protobuf file holds 2 GiB at most"):
        load(tmp_path / "big.onnx")


def test_models_are_read_through_links(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.onnx").symlink_to(path)
    assert load(tmp_path / "link.onnx").proto == load(path).proto


# --- writing ---------------------------------------------------------------------------------------------------------------


def unusual(path: Path) -> bytes:
    """The same model in bytes that protobuf would not write: fields in another order."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    head, graph = onnx.ModelProto(), onnx.ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    graph.graph.CopyFrom(model.graph)
    path.write_bytes(graph.SerializeToString() + head.SerializeToString())
    return path.read_bytes()


def test_an_unedited_model_is_written_byte_for_byte(path: Path, tmp_path: Path) -> None:
    data = unusual(path)
    model = load(path)
    assert model.to_proto().SerializeToString() != data
    model.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == data


def test_also_after_an_edit_was_taken_back(path: Path, tmp_path: Path) -> None:
    data = unusual(path)
    model = load(path)
    model.graph.nodes[0].op = "Abs"
    assert model.edited
    model.graph.nodes[0].op = "Neg"
    assert not model.edited
    model.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == data


def test_a_file_that_changed_meanwhile_is_not_copied(path: Path, tmp_path: Path) -> None:
    model = load(path)
    path.write_bytes(b"something else")
    model.save(tmp_path / "out.onnx")
    assert load(tmp_path / "out.onnx").proto == model.proto


def test_an_existing_file_is_overwritten_only_with_force(path: Path, tmp_path: Path) -> None:
    model = load(path)
    (tmp_path / "out.onnx").write_bytes(b"precious")
    with pytest.raises(RewriterError, match="exists; force=True overwrites it"):
        model.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == b"precious"
    model.save(tmp_path / "out.onnx", force=True)
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "out.onnx"]


def test_in_place(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    model = load(path)
    model.graph.nodes[0].op = "Abs"
    model.save(path, force=True)
    assert load(path).graph.nodes[0].op == "Abs"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_a_new_file_has_the_usual_permissions(path: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        load(path).save(tmp_path / "out.onnx")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.onnx").stat().st_mode) == 0o640


def test_links_are_not_written_through(path: Path, tmp_path: Path) -> None:
    model = load(path)
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link.onnx").symlink_to("target")
    (tmp_path / "dangling.onnx").symlink_to("nowhere")
    for name in ("link.onnx", "dangling.onnx"):
        for force in (False, True):
            with pytest.raises(RewriterError, match="symbolic link"):
                model.save(tmp_path / name, force=force)
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


def test_targets_that_are_no_files(path: Path, tmp_path: Path) -> None:
    model = load(path)
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("folder", "not a regular file"),
        ("no/where.onnx", "no does not exist; create it first: mkdir -p "),
        ("m.onnx/x", "not a directory"),
    ):
        with pytest.raises(RewriterError, match=message):
            model.save(tmp_path / name, force=True)


def test_a_failure_leaves_nothing_behind(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    model = load(path)
    before = path.read_bytes()
    monkeypatch.setattr(files.os, "write", full)
    for target in (path, tmp_path / "out.onnx"):
        with pytest.raises(RewriterError, match="no space left"):
            model.save(target, force=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert path.read_bytes() == before


def test_an_interrupted_replacement_leaves_the_old_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = path.read_bytes()
    model = load(path)
    model.graph.nodes[0].op = "Abs"
    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(path, force=True)
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert path.read_bytes() == before


def test_somebody_else_takes_the_name_meanwhile(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.onnx"
    link = os.link

    def race(source: str, name: str) -> None:
        target.write_bytes(b"theirs")
        link(source, name)

    monkeypatch.setattr(files.os, "link", race)
    with pytest.raises(RewriterError, match="exists"):
        load(path).save(target)
    assert target.read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "out.onnx"]


def test_file_systems_without_hard_links(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", unsupported)
    load(path).save(tmp_path / "out.onnx")
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "out.onnx"]


def test_a_model_that_would_exceed_the_limit(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(path)
    monkeypatch.setattr("rewriter.core.graph.model.MOST_BYTES", 10)
    with pytest.raises(RewriterError, match="holds 2 GiB at most"):
        model.save(tmp_path / "out.onnx")
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert files.MOST_BYTES == 2**31 - 1


def test_the_same_bytes_every_time(path: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        model = load(path)
        model.metadata.update({"z": "1", "a": "2"})
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_from_proto_copies() -> None:
    proto = onnx.parser.parse_model(TEXT)
    model = Model.from_proto(proto)
    proto.graph.node[0].op_type = "Abs"
    assert model.graph.nodes[0].op == "Neg"
    assert not model.edited
