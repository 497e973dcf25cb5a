"""What a call prints is about its models: not about its reports, and gives no advice that cannot help."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from tests.cli.call import GEMM, POOL, Call

UNKNOWN = """<ir_version: 8, opset_import: ["": 13, "acme": 1]>
g (float[2] x) => (float[2] y) { y = acme.Nothing(x) }"""


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_report_changes_nothing_that_is_printed(call: Call, tmp_path: Path, command: str) -> None:
    more = ("--out", tmp_path / "out", "--force") if command == "fix" else ()
    alone = call(command, GEMM, POOL, *more)
    reported = call(command, GEMM, POOL, *more, "--report", tmp_path / "r.json", "--report", tmp_path / "r.html")
    assert (reported.code, reported.out) == (alone.code, alone.out)


def test_no_repair_is_advised_where_no_rule_helps(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx.save(onnx.parser.parse_model(UNKNOWN), tmp_path / "net.onnx")
    done = call("check", tmp_path / "net.onnx")
    assert done.code == 1 and "rejected by ONNX Runtime" in done.out
    assert "next: rewriter fix" not in done.out + done.err
    assert "next: rewriter fix" in call("check", GEMM).err


def test_a_linked_folder_is_searched(call: Call, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    shutil.copy(GEMM, tmp_path / "real" / "net.onnx")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    assert call("check", tmp_path / "link").out == call("check", tmp_path / "real").out.replace("real", "link")
