"""Files that are written completely or not at all, whenever it is that the process is told to end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rewriter.onnxfile.write import write_bytes


def test_an_end_as_soon_as_the_file_is_there_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def ended(*arguments: Any, **named: Any) -> int:
        os.close(opened(*arguments, **named))
        raise SystemExit(1)

    monkeypatch.setattr(os, "open", ended)
    with pytest.raises(SystemExit):
        write_bytes(tmp_path / "o.onnx", b"model", force=False)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
