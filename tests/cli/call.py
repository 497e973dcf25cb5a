"""The command line, called in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rewriter.app.cli.main import main

MODELS = Path(__file__).parent.parent / "models"
GEMM = MODELS / "mxnet-1.3.1-fully-connected.onnx"
POOL = MODELS / "mxnet-1.3.1-average-pool.onnx"
GAMMA = MODELS / "mxnet-1.4.1-fix-gamma.onnx"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Call:
    """`call("fix", path)` runs the command and gives its exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Done:
        self._capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ending:
            code = int(ending.code or 0)
        printed = self._capsys.readouterr()
        return Done(code, printed.out, printed.err)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder and of those in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
