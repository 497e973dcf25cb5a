"""Bytes from one file to another, of which a file may claim to have more than it has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewriter.core.onnxfile.files import transfer

SIZE = 1 << 36


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="this system does not tell where holes are")
def test_holes_stay_holes(tmp_path: Path) -> None:
    with open(tmp_path / "from", "wb") as file:
        os.pwrite(file.fileno(), b"abc" * 5000, 1 << 20)
        os.pwrite(file.fileno(), b"end", SIZE // 2)
        file.truncate(SIZE)
    with open(tmp_path / "from", "rb") as source, open(tmp_path / "to", "w+b", buffering=0) as target:
        target.write(b"before")
        transfer(source.fileno(), 0, SIZE, target.fileno())
        found = os.fstat(target.fileno())
        assert found.st_size == SIZE + 6 and found.st_blocks * 512 < 1 << 20
        assert os.pread(target.fileno(), 6, 0) == b"before"
        assert os.pread(target.fileno(), 15_002, 6 + (1 << 20) - 1) == b"\0" + b"abc" * 5000 + b"\0"
        assert os.pread(target.fileno(), 4, 6 + SIZE // 2) == b"end\0"
    with open(tmp_path / "from", "rb") as source, open(tmp_path / "part", "w+b", buffering=0) as target:
        transfer(source.fileno(), (1 << 20) + 1, 4, target.fileno())
        assert os.pread(target.fileno(), 9, 0) == b"bcab"
