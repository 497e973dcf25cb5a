"""Rule files: found and read, with the defines that the files of a folder share; and compiled rules as JSON for the cache, and
back.

Every command reads compiled rules from the cache. JSON is read almost as fast as `marshal` and, unlike it and `pickle`,
can neither run code nor break the interpreter, even if the file is forged.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from math import inf, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rewriter.core import resources
from rewriter.core.errors import RewriterError, reason
from rewriter.core.language import ast, diagnostics
from rewriter.core.language.ast import NOWHERE
from rewriter.core.language.diagnostics import MAX_FILE_BYTES, SourceText
from rewriter.core.language.header import Header
from rewriter.core.record import getter, names
from rewriter.core.resources import resource

ENDING = ".rules"
MAX_FILES = 10_000
MAX_FOLDERS = 10_000

State = tuple[str, int, int, int, int]
"""Of a file: path, size, times of the last change of content and of anything in nanoseconds, number on its disk."""


def as_paths(paths: Any) -> list[Path | str]:
    """One path, or several, as a list.

    Raises:
        RewriterError: `paths` is something else.
    """
    listed = [paths] if isinstance(paths, str | Path) else paths
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):
        raise RewriterError(f"rule files are a path or a list of paths, not a {type(paths).__name__}")
    listed = list(listed)
    for path in listed:
        if not isinstance(path, str | os.PathLike):
            raise RewriterError(f"the name of a rule file is a path, not a {type(path).__name__}")
    return [path if isinstance(path, str) else Path(path) for path in listed]


def find_rule_files(paths: Path | str | Iterable[Path | str] | None) -> list[str]:
    """The files named, and all `*.rules` below the folders named, sorted within each folder; None: the rules that are shipped.

    A file or folder that is reached twice, also over symbolic links, counts once. Hidden folders are skipped.

    Raises:
        RewriterError: a path does not exist or cannot be listed, there are too many files, or `paths` has another type.
    """
    files: dict[str, str] = {}
    folders: set[str] = set()
    for path in _shipped() if paths is None else map(Path, as_paths(paths)):
        try:
            if path.is_dir():
                for real, found in _below(path, folders):
                    files.setdefault(real, found)
            else:
                files.setdefault(os.path.realpath(path, strict=True), str(path))
        except (FileNotFoundError, NotADirectoryError):
            help = f"; the file of a rule: rewriter rule {path}" if re.fullmatch("[A-Z]+[0-9]+", str(path)) else ""
            raise RewriterError(f"{path}: no such file or directory{help}") from None
        except (OSError, RuntimeError, ValueError) as error:
            raise RewriterError(f"{path}: {reason(error)}") from None
        if len(files) > MAX_FILES:
            raise RewriterError(f"{path}: more than {MAX_FILES} rule files")
    return list(files.values())


def check_rule_path(path: str, origin: str) -> str:
    """The path, which a plan or a configuration of a stranger may name: messages about a rule file quote its lines.

    Raises:
        RewriterError: it leads to a file whose name does not end in .rules.
    """
    real = os.path.realpath(path)
    if os.path.lexists(real) and not os.path.isdir(real) and not real.endswith(ENDING):
        raise RewriterError(
            f"{origin}: {path} does not end in {ENDING}, so it is not read as a rule file; name such a file with --rules"
        )
    return path


def read_rule_file(path: str) -> str:
    """The text of a rule file.

    Raises:
        RewriterError: the file is not a regular file, too big, or not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise RewriterError(f"{path}: not a file")
            data = os.read(descriptor, MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from None
    if len(data) > MAX_FILE_BYTES:
        raise RewriterError(f"{path}: more than {MAX_FILE_BYTES} bytes, too big for a rule file")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise RewriterError(f"{path}: not a rule file, but binary data") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise RewriterError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None


def state_of(path: str) -> State:
    """A value that changes when a file is written or replaced. Raises RewriterError."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from None
    return path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def read_unchanged(state: State) -> str:
    """The text of a rule file that was in this state before. Raises RewriterError."""
    text = read_rule_file(state[0])
    if state_of(state[0]) != state:
        raise RewriterError(f"{state[0]}: the file was changed after it was read")
    return text


def is_shipped(path: str) -> bool:
    """Whether a rule file is one of those that come with this program; found out once, since each changed model asks it."""
    return _is_shipped(os.path.abspath(path))


@lru_cache(maxsize=1 << 12)
def _is_shipped(path: str) -> bool:
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(folder) + os.sep) for folder in _shipped())


def _shipped() -> list[Path]:
    folder = resource("rules")
    if isinstance(folder, Path):
        return [folder]
    return [child for child in folder.iterdir() if isinstance(child, Path)]  # a folder without __init__.py comes as a list


def _below(folder: Path, seen: set[str]) -> Iterator[tuple[str, str]]:
    """The rule files below a folder: the real path of each, and the path by which it was reached.

    Only links are resolved, since asking the system about every part of every path takes longer than reading the files.
    """
    stack = [str(folder)]
    while stack:
        here = stack.pop()
        real = os.path.realpath(here, strict=True)
        if real in seen:
            continue
        seen.add(real)
        if len(seen) > MAX_FOLDERS:
            raise RewriterError(f"{folder}: more than {MAX_FOLDERS} folders")
        with os.scandir(here) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.endswith(ENDING) and entry.is_file():
                linked = entry.is_symlink()
                found = os.path.realpath(entry.path, strict=True) if linked else os.path.join(real, entry.name)
                yield found, check_rule_path(entry.path, here) if linked else entry.path
        stack.extend(entry.path for entry in reversed(entries) if entry.is_dir() and not entry.name.startswith("."))


# The defines that the rules of a file may call in addition to its own: the defines of `defines.rules` in its folder and in the
# folder above. A pack keeps the defines that all its folders share in the upper one. The nearer define wins.

NAME = "defines.rules"
_NONE: Mapping[str, ast.Define] = MappingProxyType({})


def with_defines(paths: Iterable[str]) -> list[str]:
    """Rule files, and the files of defines that they read."""
    found = list(paths)
    listed = {os.path.realpath(path) for path in found if os.path.basename(path) == NAME}
    for path in _defining(dict.fromkeys(map(os.path.dirname, found))):
        if os.path.realpath(path) not in listed:
            listed.add(os.path.realpath(path))
            found.append(path)
    return found


def _defining(folders: Iterable[str]) -> Iterable[str]:
    for folder in folders:
        for path in (os.path.join(folder, os.pardir, NAME), os.path.join(folder, NAME)):
            if os.path.isfile(path):
                yield os.path.normpath(path)


class SharedDefines:
    """The defines that files share; each file of them is read once. `sources` are texts that were read before."""

    def __init__(self, sources: Iterable[SourceText] = ()) -> None:
        self._sources = {os.path.realpath(source.path): source for source in sources if os.path.basename(source.path) == NAME}
        self._of_folders: dict[str, Mapping[str, ast.Define]] = {}

    def of(self, path: str) -> Mapping[str, ast.Define]:
        """The defines that a rule file may call. Raises RewriterError if a file of defines cannot be read."""
        folder = os.path.dirname(path)
        found = self._of_folders.get(folder)
        if found is None:
            found = _NONE
            for other in _defining([folder]):
                found = self._read(other, found)
            self._of_folders[folder] = found
        return found

    def _read(self, path: str, above: Mapping[str, ast.Define]) -> Mapping[str, ast.Define]:
        from rewriter.core.language.expand.rule_forms import settled
        from rewriter.core.language.parse import parse

        source = self._sources.get(os.path.realpath(path))
        text = read_rule_file(path) if source is None else source.text
        return settled(parse(text, path)[0].defines, above)[0]  # errors are reported for that file


_KINDS: tuple[Any, ...] = (
    ast.Span,
    *(
        kind
        for module in (ast, diagnostics)
        for kind in vars(module).values()
        if isinstance(kind, type) and names(kind) is not None
    ),
    Header,
)
"""Every record that can be packed; a packed one begins with its position in this table."""

_NUMBERS = {kind: (number, getter(names(kind) or ())) for number, kind in enumerate(_KINDS)}
_PLAIN = frozenset({str, int, bool, float, type(None)})
_NOWHERE = [0, NOWHERE.start, NOWHERE.end]
_TUPLE, _SET, _ELLIPSIS = -1, -2, -3
"""The numbers that mark values that are no records; a record has its position in the table there."""

_NOTHING = [_TUPLE]
_FIELDS = {name: 1 + number for number, name in enumerate(names(ast.Rule) or ())}
_VARIANTS = _FIELDS["variants"]
_AFTER_MATCH = frozenset(_FIELDS[name] for name in ("doc", "meta", "rewrites", "privates", "tests"))

_decode = json.JSONDecoder(parse_constant={"NaN": nan, "Infinity": inf, "-Infinity": -inf}.__getitem__).decode
"""One NaN, which is equal to itself as part of a record."""


def pack(value: Any) -> str:
    """A flat value as one line. Only `unpack` of the same version can read it."""
    return json.dumps(value, separators=(",", ":"))


def unpack(data: str) -> Any:
    """The value that was packed. The line must be complete: the store has a checksum of it."""
    return built(_decode(data))


def flat(value: Any) -> Any:
    """Records, tuples and sets (of pairs of texts) become lists that begin with a number; everything else is left as it is.

    Half of all records are places. They are at the end of a record, and empty ones are left out there.
    """
    kind = value.__class__
    if kind is tuple:
        return [_TUPLE, *[part if part.__class__ in _PLAIN else flat(part) for part in value]]
    if kind is ast.Span:
        return [0, value.start, value.end] if value.end else _NOWHERE
    found = _NUMBERS.get(kind)
    if found is None:
        return [_SET, *chain.from_iterable(sorted(value))] if kind is frozenset else [_ELLIPSIS] if value is ... else value
    return _shortened([found[0], *[part if part.__class__ in _PLAIN else flat(part) for part in found[1](value)]])


def _shortened(record: list[Any]) -> list[Any]:
    while record[-1] is _NOWHERE:
        record.pop()
    return record


def question(rule: list[Any]) -> list[Any]:
    """The parts of a flat rule that decide whether it may match, without places."""
    bare = [_NOTHING if number in _AFTER_MATCH else part for number, part in enumerate(rule)]
    bare[_VARIANTS] = [_TUPLE, *map(question, rule[_VARIANTS][1:])]
    return without_places(bare)


def without_places(value: list[Any]) -> list[Any]:
    """The same flat value without the places of its records."""
    if value[0] == 0:
        return _NOWHERE
    parts = [without_places(part) if part.__class__ is list else part for part in value]
    return _shortened(parts) if value[0] > 0 else parts


def built(value: Any) -> Any:
    """The value that was made flat."""
    if type(value) is not list:
        return value
    number = value[0]
    if number == 0:
        return ast.Span(value[1], value[2])
    if number == _SET:
        return frozenset(zip(value[1::2], value[2::2], strict=True))
    parts = [part if type(part) is not list else () if part == _NOTHING else built(part) for part in value[1:]]
    return _KINDS[number](*parts) if number > 0 else tuple(parts) if number == _TUPLE else ...


class Shared:
    """Values that many rules have in common, such as a kind or a range of opsets: each is stored and built once.

    Attributes:
        flat: the values, flat.
    """

    def __init__(self) -> None:
        self.flat: list[Any] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, values: Iterable[Any]) -> list[int]:
        """The positions of values in `flat`. New ones are added to it."""
        found = []
        for value in map(flat, values):
            number = self._numbers.setdefault(pack(value), len(self.flat))
            self.flat += [value] if number == len(self.flat) else []
            found.append(number)
        return found


class PackedTrees:
    """The trees of the rules of an entry, each read when it is first needed.

    Most runs look at few rules, and need only the parts that decide whether the rules may match. These parts are packed
    separately. The trees take ten times as much room, so they are the tail of the entry and mostly never read. The doc comments
    are read together, since a command that prints one often prints many.
    """

    def __init__(self, key: str, docs: str) -> None:
        self.key = key
        self._docs = docs

    @cached_property
    def docs(self) -> Sequence[Sequence[str]]:
        """The doc comment of each rule, by lines."""
        found: Sequence[Sequence[str]] = _decode(self._docs)
        return found

    def tree(self, number: int, code: str, source: diagnostics.SourceText) -> ast.Rule:
        """The tree of a rule. If the entry has gone since it was read, or is damaged, the rule is parsed again.

        Raises:
            RewriterError: the rule had to be parsed again, and its file has also changed.
        """
        data = resources.read_tail("rules", self.key, number)
        if data is not None:
            packed: ast.Rule = unpack(data)
            return packed
        resources.discard("rules", self.key)
        from rewriter.core.language.parse import parse

        rules, _ = parse(source.text, source.path, SharedDefines().of(source.path))
        return next(rule for rule in rules.rules if rule.code == code)
