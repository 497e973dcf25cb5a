"""Models at URLs and on the standard input: repaired to the bytes that files give, with all that belongs to them."""

from __future__ import annotations

import functools
import http.server
import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.app.batch.remote import below_url, beside, name_of
from rewriter.core.errors import install
from tests.cli.call import MODELS, POOL, Call

fsspec = pytest.importorskip("fsspec")
SYMBOL = POOL.with_name("mxnet-1.3.1-average-pool-symbol.json")


@pytest.fixture(autouse=True)
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.fixture
def local(call: Call, tmp_path: Path) -> bytes:
    """What the repair of the file gives."""
    folder = tmp_path / "local"
    folder.mkdir()
    for path in (POOL, SYMBOL):
        (folder / path.name).write_bytes(path.read_bytes())
    assert call("fix", folder / POOL.name, "-o", folder / "o.onnx").code == 0
    return (folder / "o.onnx").read_bytes()


def test_from_url_to_url(call: Call, memory: fsspec.AbstractFileSystem, local: bytes) -> None:
    memory.pipe_file(f"/in/{POOL.name}", POOL.read_bytes())
    memory.pipe_file(f"/in/{SYMBOL.name}", SYMBOL.read_bytes())
    done = call("fix", f"memory://in/{POOL.name}", "-o", "memory://out/a/fixed.onnx", "--report", "memory://out/r.json")
    assert done.code == 0
    assert memory.cat_file("/out/a/fixed.onnx") == local
    assert f"memory://in/{SYMBOL.name}" in memory.cat_file("/out/r.json").decode()
    assert "/tmp" not in done.out
    done = call("fix", f"memory://in/{POOL.name}", "-o", "memory://out/a/fixed.onnx")
    assert done.code == 2 and "memory://out/a/fixed.onnx exists; --force overwrites it" in done.err


def test_a_folder_in_processes(call: Call, tmp_path: Path, local: bytes) -> None:
    folder = tmp_path / "in"
    for name in ("a", "b/c"):
        (folder / name).mkdir(parents=True)
        (folder / name / POOL.name).write_bytes(POOL.read_bytes())
        (folder / name / SYMBOL.name).write_bytes(SYMBOL.read_bytes())
    done = call("fix", folder.as_uri(), "--out", (tmp_path / "out").as_uri(), "--jobs", "2")
    assert done.code == 0 and "2 models: 2 repaired" in done.err
    assert [(tmp_path / "out" / name / POOL.name).read_bytes() for name in ("a", "b/c")] == [local, local]
    done = call("fix", folder.as_uri(), "--out", (tmp_path / "out").as_uri(), "--skip-existing")
    assert "2 of 2 results exist and were skipped" in done.err
    assert call("check", folder.as_uri()).code == 1


def test_weights_in_other_files_come_along(call: Call, memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1000]) for name in "xy"]
    nodes = [helper.make_node("Neg", ["s"], ["y"]), helper.make_node("Add", ["x", "w"], ["s"])]
    opset = helper.make_opsetid("", 13)
    model = helper.make_model(
        helper.make_graph(nodes, "g", value[:1], value[1:], [weights]), opset_imports=[opset], ir_version=8
    )
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    for name in ("m.onnx", "m.data"):
        memory.pipe_file(f"/in/{name}", (tmp_path / name).read_bytes())
    assert call("fix", "memory://in/m.onnx", "-o", "memory://out/m.onnx").code == 0
    for name in ("m.onnx", "m.data"):
        (tmp_path / name).write_bytes(memory.cat_file(f"/out/{name}"))
    onnx.checker.check_model(tmp_path / "m.onnx")
    assert np.array_equal(numpy_helper.to_array(onnx.load(tmp_path / "m.onnx").graph.initializer[0]), np.arange(1000))


def test_from_a_web_server(call: Call, tmp_path: Path, local: bytes) -> None:
    pytest.importorskip("aiohttp")
    handler = functools.partial(_Quiet, directory=str(MODELS))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert call("fix", f"{url}/{POOL.name}?key=1", "-o", tmp_path / "o.onnx").code == 0
        gone = call("fix", f"{url}/gone.onnx", "-o", tmp_path / "p.onnx")
        server.shutdown()
    assert (tmp_path / "o.onnx").read_bytes() == local
    assert gone.code == 2 or "gone.onnx" in gone.err
    assert "Traceback" not in gone.err and not (tmp_path / "p.onnx").exists()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def test_standard_input(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POOL.read_bytes())))
    done = call("fix", "-", "-o", tmp_path / "o.onnx", "--select", "MX061")
    assert done.code == 0 and done.out.startswith("-: 1 rewrite")
    onnx.checker.check_model(tmp_path / "o.onnx")
    assert "name the result of the standard input with -o" in call("fix", "-").err
    assert "cannot be combined with other models" in call("check", "-", POOL).err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing://a/b.onnx", "-o", "o.onnx"], "nothing://a/b.onnx: Protocol not known: nothing"),
        (["memory://gone/b.onnx", "-o", "o.onnx"], "memory://gone/b.onnx: no such file or directory"),
        ([POOL, "--out", "memory://out", "--update"], "--update needs a folder of results on this machine"),
        (["memory://a/b.onnx", "-o", "memory://a/b.onnx"], "memory://a/b.onnx is the input itself"),
    ],
)
def test_what_cannot_be(
    arguments: list[object], said: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("fix", *arguments)
    assert done.code in (1, 2) and said in done.err and "internal" not in done.err
    assert not (tmp_path / "o.onnx").exists()


def test_without_the_extra(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert install("remote") in call("fix", "memory://a/b.onnx", "-o", tmp_path / "o.onnx").err


def test_plain_paths_never_import_it(tmp_path: Path) -> None:
    program = (
        "import sys; from rewriter.app.cli.main import main\n"
        f"main(['fix', {str(POOL)!r}, '-o', {str(tmp_path / 'o.onnx')!r}, '--runtime', 'no'])\n"
        "assert not {'fsspec', 'rewriter.app.batch.remote', 'distributed'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_parts_of_urls() -> None:
    assert beside("s3://bucket/a/net.onnx", "net.data") == "s3://bucket/a/net.data"
    assert beside("zip://a/net.onnx::s3://bucket/x.zip", "w") == "zip://a/w::s3://bucket/x.zip"
    assert beside("zip://net.onnx::s3://b/x.zip", "w") == "zip://w::s3://b/x.zip"
    assert beside("https://example.org/net.onnx?key=a/b", "w") == "https://example.org/w"
    assert name_of("https://example.org/net.onnx?key=a/b") == "net.onnx"
    assert below_url("zip://::file:///x.zip", "a/net.onnx") == "zip://a/net.onnx::file:///x.zip"
    assert below_url("s3://bucket/a/", "b.onnx") == "s3://bucket/a/b.onnx"
