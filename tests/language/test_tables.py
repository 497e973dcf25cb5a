"""The kept tables of the grammar: read back, never trusted to others, never needed."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from rewriter.language.rule_files import find_rule_files, read_rule_file
from rewriter.language.syntax import lalr
from rewriter.language.syntax.scan import scan
from rewriter.language.syntax.tables import tables

RULE = "rule X1 a match { y = Relu(x) } rewrite { y = x }"
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a matter of POSIX")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tables.cache_clear()
    lalr.tables.cache_clear()
    yield tmp_path / "rewriter"
    tables.cache_clear()
    lalr.tables.cache_clear()


def works() -> bool:
    tables.cache_clear()
    return len(tables().parse(RULE).children) == 6


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


def test_a_planted_pickle_is_not_run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that the user owns, as a cache that is restored from somewhere else is."""
    monkeypatch.setattr("rewriter.language.cache.own_folder._seal", lambda data: b"\0" * 12)
    assert works() and lalr.tables() is not None
    for kept in list(home.iterdir()):
        for planted in (b"\0" * 12, b""):
            kept.write_bytes(planted + b"cposix\nsystem\n(S'touch " + bytes(tmp_path / "run") + b"'\ntR.")
            lalr.tables.cache_clear()
            with contextlib.suppress(ValueError):
                assert works() and lalr.tables() is not None
    assert not (tmp_path / "run").exists()


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


def rule_texts() -> list[str]:
    texts = map(read_rule_file, find_rule_files(None))
    return [text[chunk.start : chunk.end] for text in texts for chunk in scan(text)[0]]


def same(theirs: Any, mine: Any) -> bool:
    """Whether a tree of lark and one of ours are the same, places included."""
    if theirs is None or mine is None:
        return theirs is mine
    if isinstance(theirs, Token):
        return isinstance(mine, lalr.Word) and (str(theirs), theirs.type, theirs.start_pos, theirs.end_pos) == (
            *(str(mine), mine.type),
            *(mine.start, mine.end),
        )
    assert isinstance(theirs, Tree)
    place = (-1, -1) if theirs.meta.empty else (theirs.meta.start_pos, theirs.meta.end_pos)
    return (
        isinstance(mine, lalr.ParseNode)
        and (theirs.data, place) == (mine.data, (mine.start, mine.end))
        and len(theirs.children) == len(mine.children)
        and all(map(same, theirs.children, mine.children))
    )


def test_the_loop_over_the_tables_gives_larks_trees() -> None:
    for text in rule_texts():
        assert same(tables().parse(text), lalr.tables().parse(text)), text


def test_what_lark_refuses_is_refused() -> None:
    """Rules with a piece left out, doubled or put elsewhere: some are still rules, and then the trees are the same."""
    random, refused = Random(3), 0
    texts = [text for text in rule_texts() if len(text) < 3_000]
    for _ in range(400):
        text = random.choice(texts)
        start, place = random.randrange(len(text)), random.randrange(len(text))
        end = min(len(text), start + random.randrange(1, 8))
        piece = text[start:end]
        text = random.choice((text[:start] + text[end:], text[:end] + text[start:], text[:place] + piece + text[place:]))
        try:
            theirs = tables().parse(text)
        except UnexpectedInput:
            assert lalr.tables().parse(text) is None, text
            refused += 1
        else:
            assert same(theirs, lalr.tables().parse(text)), text
    assert 50 < refused < 390


def test_what_the_loop_needs_is_kept(home: Path) -> None:
    assert lalr.tables().parse(RULE) is not None
    (kept,) = home.glob("tables-*.json")
    program = (
        f"import sys; from rewriter.language.syntax.lalr import tables; assert tables().parse({RULE!r}) is not None\n"
        "assert 'lark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    for damage in (kept.read_bytes()[:-1], b"", b"x" * 5_000):
        kept.write_bytes(damage)
        lalr.tables.cache_clear()
        assert lalr.tables().parse(RULE) is not None
        assert len(kept.read_bytes()) > 10_000
