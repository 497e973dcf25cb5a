"""The kept tables of the grammar: read back, never trusted to others, never needed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewriter.language.syntax.tables import tables

RULE = "rule X1 a match { y = Relu(x) } rewrite { y = x }"
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a matter of POSIX")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tables.cache_clear()
    yield tmp_path / "rewriter"
    tables.cache_clear()


def works() -> bool:
    tables.cache_clear()
    return len(tables().parse(RULE).children) == 5


def test_kept_and_read_back(home: Path) -> None:
    assert works()
    (kept,) = home.iterdir()
    written = kept.stat().st_mtime_ns
    assert works()
    assert [file.name for file in home.iterdir()] == [kept.name]
    assert kept.stat().st_mtime_ns == written


@posix
def test_only_the_user_can_write(home: Path) -> None:
    assert works()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in home.iterdir()] == [0o600]


@posix
def test_a_folder_that_others_can_write_is_not_used(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    assert works()
    assert list(home.iterdir()) == []


@posix
def test_a_file_that_others_can_write_is_replaced(home: Path) -> None:
    assert works()
    (kept,) = home.iterdir()
    kept.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    kept.chmod(0o666)
    assert works()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.stat().st_size > 10_000


@posix
def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    home.symlink_to(other)
    assert works()
    assert list(other.iterdir()) == []


def test_damage_is_mended(home: Path) -> None:
    assert works()
    (kept,) = home.iterdir()
    kept.write_bytes(kept.read_bytes()[:5_000])
    assert works()
    assert works()


def test_no_place_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert works()
    tables.cache_clear()
