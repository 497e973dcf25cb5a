"""Rules that were read before, kept between processes: parsing and checking takes some hundred times as long as reading them
back.

What is kept is found by everything that it follows from: the texts and their names, and the versions of this package, of Python
and of ONNX. So it never has to be told that something has changed. Of files that nobody has touched for a while, their state
(size, times, number on the disk) stands for the texts, which then need not be read: as in git's index, a file that was written
just before its state was taken is not trusted, since it may be written again without a trace.

Kept are, ready for use, what is asked of every rule (code, header, doc comment, digest); and apart from that the syntax trees
(`store`), which are read when somebody looks at one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from binascii import crc32
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path

from rewriter.language.cache.compiler_versions import versions
from rewriter.language.cache.own_folder import keep_sealed, own_folder, read_sealed
from rewriter.language.cache.pack import built, flat, pack
from rewriter.language.cache.rule_store import RuleStore
from rewriter.language.diagnostics import Diagnostic, SourceText
from rewriter.language.expand.shared_defines import with_defines
from rewriter.language.rule import Rule
from rewriter.language.rule_files import read_rule_file, read_unchanged, state_of
from rewriter.record import replace

MOST_ENTRIES = 16
FORGOTTEN = 3600.0  # seconds after which a file that another process began to write is nobody's any more
SETTLED = 2_000_000_000  # nanoseconds after which the clock of any disk has gone on

Checked = tuple[list[Rule], tuple[Diagnostic, ...]]


class Library:
    """Rule files, and what is kept of them.

    Attributes:
        states: of the files when they were first looked at.
        sources: their texts, each of which is read when somebody asks for it.

    Raises:
        RewriterError: a file cannot be read.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.begun = time.time_ns()
        self.states = [state_of(path) for path in with_defines(paths)]
        self.sources = [SourceText(state[0], partial(read_unchanged, state)) for state in self.states]

    @property
    def settled(self) -> bool:
        """Whether the states tell the texts: a file that was just written may be written again without a trace."""
        return all(max(state[2], state[3]) < self.begun - SETTLED for state in self.states)

    @cached_property
    def texts(self) -> list[SourceText]:
        """The texts as they are now."""
        self.sources = [SourceText(state[0], read_rule_file(state[0])) for state in self.states]
        return self.sources

    def read(self, kind: str) -> Checked | None:
        """The rules with the warnings, when both are kept; `kind` says what was done with them."""
        folder = own_folder()
        if folder is None:
            return None
        name = self._seen(folder, kind)
        found = None if name is None else _read(folder, name, self.sources)
        if found is None:
            name = self._name(kind)
            found = _read(folder, name, self.texts)
            if found is not None:
                self._saw(folder, kind, name)
        return found

    def write(self, kind: str, rules: Iterable[Rule], warnings: Sequence[Diagnostic]) -> None:
        """Keeps rules, and throws away what is old. Does nothing when the user has no cache folder."""
        folder = own_folder()
        if folder is None:
            return
        numbers = {source.path: number for number, source in enumerate(self.sources)}
        given, name = list(rules), self._name(kind)
        fronts = [(numbers[rule.path], flat(rule.front)) for rule in given]
        keep_sealed(_path(folder, "trees", name), "\n".join(pack(rule.ast) for rule in given))
        first = json.dumps((fronts, flat(tuple(warnings))), separators=(",", ":"))
        keep_sealed(_path(folder, "rules", name), "\n".join([first, *map(_question, given)]))
        self._saw(folder, kind, name)
        with contextlib.suppress(OSError):
            _clean(folder)

    def _name(self, kind: str) -> str:
        """What follows from the texts."""
        from hashlib import sha256

        found = sha256(f"{kind}\0{versions()}".encode())
        for source in self.texts:
            text = source.text.encode()
            found.update(f"\0{len(source.path)} {len(text)} {source.path}\0".encode(errors="surrogateescape"))
            found.update(text)
        return found.hexdigest()[:32]

    def _note(self, folder: Path, kind: str) -> Path:
        """Where it is kept what files in these states are called; the name only has to be another one for most other files."""
        paths = "\0".join(state[0] for state in self.states)
        return _path(folder, "seen", f"{crc32(f'{kind} {paths} {versions()}'.encode(errors='surrogateescape')):08x}")

    def _seen(self, folder: Path, kind: str) -> str | None:
        """The name of files in these states, when a process before this one read their texts."""
        data = read_sealed(self._note(folder, kind))
        if data is None:
            return None
        name, *rest = json.loads(data)
        return name if rest == [kind, versions(), list(map(list, self.states))] else None

    def _saw(self, folder: Path, kind: str, name: str) -> None:
        if self.settled:
            keep_sealed(self._note(folder, kind), json.dumps((name, kind, versions(), self.states)))


def _question(rule: Rule) -> str:
    bare = [replace(one, doc=(), meta=(), rewrites=(), privates=(), tests=()) for one in (rule.ast, *rule.ast.variants)]
    return pack(replace(bare[0], variants=tuple(bare[1:])), places=False)


def _read(folder: Path, name: str, sources: Sequence[SourceText]) -> Checked | None:
    """What is kept under a name; None when it is not whole."""
    path, store = _path(folder, "rules", name), RuleStore(_path(folder, "trees", name))
    data = read_sealed(path)
    if data is None or not store.is_there:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what is used stays
    first, *questions = data.split("\n")
    fronts, warnings = json.loads(first)
    rules = [
        Rule.kept((store, number, questions[number]), built(front), sources[place])
        for number, (place, front) in enumerate(fronts)
    ]
    return rules, built(warnings)


def _path(folder: Path, what: str, name: str) -> Path:
    return folder / f"{what}-{name}.json"


def _clean(folder: Path) -> None:
    """Leaves the entries that were used last, and nothing of processes that died while they wrote one."""
    for what in ("rules", "seen", "operators", "schemas", "tables", "grammar"):
        entries = sorted(folder.glob(f"{what}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in entries[MOST_ENTRIES:]:
            path.unlink(missing_ok=True)
    names = {path.name.removeprefix("rules-") for path in folder.glob("rules-*")}
    for path in folder.glob("trees-*"):
        if path.name.removeprefix("trees-") not in names and _old(path):
            path.unlink(missing_ok=True)
    for what in ("rules", "trees", "seen"):
        for path in filter(_old, folder.glob(f".{what}-*")):
            path.unlink(missing_ok=True)


def _old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > FORGOTTEN
