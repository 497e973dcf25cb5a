"""The store, by the example of the tables of the grammar: read back, never trusted to others, never needed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewriter.core import resources
from rewriter.core.language.syntax.grammar import grammar

RULE = "rule X1 a match { y = Relu(x) } rewrite { y = x }"
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a matter of POSIX")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    grammar.cache_clear()
    yield tmp_path / "rewriter"
    grammar.cache_clear()


def works() -> bool:
    grammar.cache_clear()
    return len(grammar().parse(RULE).children) == 6


def text_works() -> bool:
    """The same with a text, which takes no second to make."""
    return resources.read_or_make("test", lambda: "a text") == "a text"


def test_written_and_read_back(home: Path) -> None:
    assert works()
    (entry,) = home.iterdir()
    number = entry.stat().st_ino
    assert works()
    assert [file.name for file in home.iterdir()] == [entry.name]
    assert entry.stat().st_ino == number


@posix
def test_only_the_user_can_write(home: Path) -> None:
    assert text_works()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in home.iterdir()] == [0o600]


@posix
def test_a_folder_that_others_can_write_is_not_used(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    assert text_works()
    assert list(home.iterdir()) == []


@posix
def test_a_file_that_others_can_write_is_replaced(home: Path) -> None:
    assert works()
    (entry,) = home.iterdir()
    entry.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    entry.chmod(0o666)
    assert works()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert entry.stat().st_size > 10_000


def test_a_planted_pickle_is_not_run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that the user owns, as a cache that is restored from somewhere else is."""
    monkeypatch.setattr(resources, "_seal", lambda data: b"\0" * 12)
    assert works()
    for entry in list(home.iterdir()):
        for planted in (b"\0" * 12, b""):
            entry.write_bytes(planted + b"cposix\nsystem\n(S'touch " + bytes(tmp_path / "run") + b"'\ntR.")
            with contextlib.suppress(ValueError):
                assert works()
    assert not (tmp_path / "run").exists()


@posix
def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    home.symlink_to(other)
    assert text_works()
    assert list(other.iterdir()) == []


def test_damage_is_mended(home: Path) -> None:
    assert works()
    (entry,) = home.iterdir()
    entry.write_bytes(entry.read_bytes()[:5_000])
    assert works()
    assert works()


def test_no_place_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert text_works()


def test_a_folder_that_can_only_be_read_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `--sandbox`, which would otherwise compile all rules in each call."""

    def unchangeable(name: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)

    resources.write("test", "a", "text of a")
    monkeypatch.setattr(os, "utime", unchangeable)
    assert resources.read("test", "a") == "text of a"


def test_only_the_first_process_makes_a_text(home: Path) -> None:
    texts = iter(["first", "second", "third"])
    assert [resources.read_or_make("test", lambda: next(texts), key) for key in ("a", "a", "b")] == ["first", "first", "second"]
    assert (
        resources.read("test", "a") == "first" and resources.read("other", "a") is None and resources.read("test", "c") is None
    )


def test_a_file_with_the_name_of_another_key_is_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_path", lambda folder, kind, key: folder / "same")
    resources.write("test", "a", "text of a")
    assert (resources.read("test", "a"), resources.read("test", "b")) == ("text of a", None)
    resources.write("test", "b", "text of b")
    assert (resources.read("test", "a"), resources.read("test", "b")) == (None, "text of b")


def test_each_part_of_the_tail_is_read_apart(home: Path) -> None:
    resources.write("test", "a", "text", ["one", "second"])
    (entry,) = home.iterdir()
    assert resources.read("test", "a") == "text"
    assert [resources.read_tail("test", "a", number) for number in range(3)] == ["one", "second", None]
    entry.write_bytes(entry.read_bytes()[:-1])
    assert resources.read("test", "a") == "text"
    assert [resources.read_tail("test", "a", number) for number in range(2)] == ["one", None]
    resources.write("test", "b", "no tail")
    assert (resources.read("test", "b"), resources.read_tail("test", "b", 0)) == ("no tail", None)
    resources.discard("test", "a")
    assert not entry.exists()
    resources.discard("test", "a")
