"""lark with the tables of `grammar/rules.lark`, made once a process and kept between processes.

Building the tables takes much longer than reading them back. lark reads them with `pickle`, which runs what it reads: so the
cache lies in a folder of the user's own, and is used only when nobody else could have written it. Without such a folder
nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING

from rewriter.resources import resource

if TYPE_CHECKING:
    from lark import Lark, Token


@cache
def tables() -> Lark:
    """The parser of one rule. It is stateless and safe to share between threads."""
    import lark

    grammar = resource("grammar/rules.lark").read_text(encoding="utf-8")
    folder = _own_folder()
    if folder is None:
        return _build(grammar)
    key = sha256(f"{lark.__version__} {sys.version} {grammar}".encode()).hexdigest()[:24]
    return _read(folder / f"grammar-{key}.pickle") or _build_and_keep(grammar, folder / f"grammar-{key}.pickle")


def tokens(text: str) -> list[Token]:
    """The tokens of one rule that parses, keywords and punctuation included, comments not."""
    parser = tables().parse_interactive(text)
    return parser.exhaust_lexer()


def _build(grammar: str) -> Lark:
    from lark import Lark

    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)


def _read(kept: Path) -> Lark | None:
    """The tables of an earlier process; None when there are none, or when somebody else may have written them."""
    from lark import Lark

    if not _only_ours(kept):
        return None
    try:
        with kept.open("rb") as file:
            parser: Lark = Lark.load(file)
    except Exception:  # a damaged pickle can raise anything; the tables are then made anew
        return None
    return parser


def _build_and_keep(grammar: str, kept: Path) -> Lark:
    """Writes beside the final name and renames, so that no other process ever reads half a file."""
    parser = _build(grammar)
    with contextlib.suppress(OSError):
        handle, name = mkstemp(prefix=".grammar-", dir=kept.parent)  # readable and writable by the user alone
        try:
            with os.fdopen(handle, "wb") as file:
                parser.save(file)
            os.replace(name, kept)
        except OSError:
            os.unlink(name)
    return parser


def _own_folder() -> Path | None:
    """The user's cache folder for this program, made when it is missing; None when it is not theirs alone to write."""
    try:
        home = os.environ.get("XDG_CACHE_HOME")
        base = Path(home) if home and os.path.isabs(home) else Path.home() / ".cache"
        folder = base / "rewriter"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if _only_ours(folder) and os.access(folder, os.W_OK) else None


def _only_ours(path: Path) -> bool:
    """Whether the file or folder exists, is no link, belongs to this user, and is writable by nobody else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):
        return False
    if not hasattr(os, "getuid"):  # Windows: the user's profile is protected by its access list
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
