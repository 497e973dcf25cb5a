"""Rules that were read before, kept between processes: parsing and checking takes some hundred times as long as reading them
back.

An entry is found by everything that its content follows from: the texts and their names, and the versions of this package, of
Python and of ONNX. So it never has to be told that something has changed. It holds what is asked of every rule (code, header,
doc comment, digest) ready for use, and the syntax tree of each rule as bytes that are unpacked when somebody looks at it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import rewriter
from rewriter.language.diagnostics import Diagnostic, SourceText
from rewriter.language.own_folder import keep_sealed, own_folder, read_sealed
from rewriter.language.pack import pack, unpack
from rewriter.language.rules import Rule
from rewriter.resources import resource

MOST_ENTRIES = 16
FORGOTTEN = 3600.0  # seconds after which a file that another process began to write is nobody's any more

Checked = tuple[list[Rule], tuple[Diagnostic, ...]]


def key(kind: str, sources: Iterable[SourceText]) -> str:
    """The name of what follows from these texts; `kind` says what was done with them."""
    found = sha256(f"{kind}\0{versions()}".encode())
    for source in sources:
        text = source.text.encode()
        found.update(f"\0{len(source.path)} {len(text)} {source.path}\0".encode(errors="surrogateescape"))
        found.update(text)
    return found.hexdigest()[:32]


def read(name: str, sources: Sequence[SourceText]) -> Checked | None:
    """The rules that were kept under a key for these texts, with the warnings; None when there is nothing whole."""
    folder = own_folder()
    path = None if folder is None else _path(folder, name)
    data = None if path is None else read_sealed(path)
    if path is None or data is None:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what is used stays
    rows, warnings = unpack(data)
    return [Rule.kept(packed, front, sources[number]) for number, front, packed in rows], warnings


def write(name: str, sources: Sequence[SourceText], rules: Iterable[Rule], warnings: Sequence[Diagnostic]) -> None:
    """Keeps rules under a key, and throws away what is old. Does nothing when the user has no cache folder."""
    folder = own_folder()
    if folder is None:
        return
    numbers = {source.path: number for number, source in enumerate(sources)}
    rows = tuple((numbers[rule.path], rule.front, pack(rule.ast)) for rule in rules)
    data = pack((rows, tuple(warnings)))
    keep_sealed(_path(folder, name), data)
    with contextlib.suppress(OSError):
        _clean(folder)


def _path(folder: Path, name: str) -> Path:
    return folder / f"rules-{name}.marshal"


def _clean(folder: Path) -> None:
    """Leaves the entries that were used last, and nothing of processes that died while they wrote one."""
    entries = sorted(folder.glob("rules-*.marshal"), key=lambda path: path.stat().st_mtime, reverse=True)
    unfinished = (path for path in folder.glob(".rules-*") if time.time() - path.stat().st_mtime > FORGOTTEN)
    for path in (*entries[MOST_ENTRIES:], *unfinished):
        path.unlink(missing_ok=True)


@cache
def versions() -> str:
    """Everything beside the texts that decides what the compiler says of them.

    Of this package's own files and of the compiled part of ONNX, size and time stand for the content, as they do for Python
    itself when it decides whether a compiled module is still good.
    """
    package = Path(rewriter.__file__).parent
    parts = [sys.version, rewriter.__version__, resource("grammar/rules.lark").read_text(encoding="utf-8")]
    parts += _stamps(package, ".py")
    for folder in ("", "analysis", "checks", "pages", "syntax"):
        parts += _stamps(package / "language" / folder, ".py")
    spec = find_spec("onnx")
    if spec is not None and spec.origin is not None:
        onnx = Path(spec.origin).parent
        parts += sorted(name for name in os.listdir(onnx.parent) if name.startswith("onnx") and name.endswith(".dist-info"))
        parts += [stamp for stamp in _stamps(onnx, "") if "cpp2py" in stamp]
    return "\0".join(parts)


def _stamps(folder: Path, ending: str) -> list[str]:
    with os.scandir(folder) as listing:
        files = [(entry.name, entry.stat()) for entry in listing if entry.name.endswith(ending)]
    return sorted(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)
