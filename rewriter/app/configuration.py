"""A configuration file, read and checked. An error in it is one line that names the file, the line and the nearest key."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.core.errors import RewriterError, reason
from rewriter.core.record import field, record

if TYPE_CHECKING:
    from rewriter.core.engine.attempt import Fired
    from rewriter.core.log import Suppressed
    from rewriter.trust.toml_text import Key


# The file that configures a call is the nearest one upwards from the current folder.
#
# The search does not begin in the model's folder: models are downloaded from strangers, and a file that came with a model must
# not decide which repairs are left out. One call also has one configuration for all models.

OWN = "rewriter.toml"
SHARED = "pyproject.toml"


def candidates() -> Iterator[Path]:
    """Files that may have a configuration, the nearest first, up to the top folder of a repository or the home folder.

    Nothing is read. In folders in which all users may write, such as /tmp, files of other users are skipped.
    """
    try:
        here = Path(os.getcwd())
    except OSError:
        return
    home = os.path.expanduser("~")
    for folder in (here, *here.parents):
        for name in (OWN, SHARED):
            path = folder / name
            if _is_ours(path):
                yield path
        if os.path.lexists(folder / ".git") or str(folder) == home:
            return


def _is_ours(path: Path) -> bool:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return False
        if not hasattr(os, "getuid") or found.st_uid in (os.getuid(), 0):
            return True
        return not os.stat(path.parent).st_mode & stat.S_IWOTH
    except OSError:
        return False


# The keys that a configuration may have, and their valid values. A key has the name of its option.

MOST = 1_000_000_000


@record(frozen=True, slots=True)
class Setting:
    """One key.

    Attributes:
        default: the value if neither an option nor a configuration sets it.
        wanted: the valid values, in words.
        takes: whether a value is valid.
        one_path: whether the value may differ from model to model.
    """

    default: Any
    wanted: str
    takes: Callable[[Any], bool]
    one_path: bool = False


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 1e9


def _is_size(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,11}[KMGkmg]?", value) is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_set(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        all(map(_is_parameter, inner.values())) if isinstance(inner, dict) else "." in code and _is_parameter(inner)
        for code, inner in value.items()
    )


def _is_parameter(value: Any) -> bool:
    if isinstance(value, list):
        return all(type(item) is int for item in value)
    return isinstance(value, (str, int, float))


SETTINGS: dict[str, Setting] = {
    "rules": Setting(None, 'a list of rule files and folders, "shipped" or "pack:NAME"', is_texts),
    "extend": Setting([], 'a list of rule files and folders, or "pack:NAME"', is_texts),
    "select": Setting([], 'a list of codes, such as ["DEFAULT", "PT"]', is_texts, one_path=True),
    "ignore": Setting([], 'a list of codes, such as ["MX003"]', is_texts, one_path=True),
    "target": Setting([], 'a list of consumers, such as ["tensorrt"]', is_texts),
    "guess": Setting(False, "true or false", _is_flag),
    "set": Setting([], "a table of parameters by CODE.parameter", _is_set, one_path=True),
    "source": Setting("auto", '"auto", "none" or a file', is_text, one_path=True),
    "constant-inputs": Setting("auto", '"auto", "yes" or "no"', ("auto", "yes", "no").__contains__, one_path=True),
    "jobs": Setting(1, "a positive number", _is_count),
    "time-limit": Setting(60, "a time in seconds", _is_time),
    "memory-limit": Setting(None, 'a size, such as "8G"', _is_size),
    "max-firings": Setting(None, "a positive number", _is_count),
    "timeout": Setting(None, "a time in seconds", _is_time),
    "tidy": Setting(False, "true or false", _is_flag),
    "verify": Setting(False, "true or false", _is_flag),
    "stamp": Setting(True, "true or false", _is_flag),
}

TABLES = {
    "suppress": {"rule": True, "reason": True, "node": False, "path": False},
    "per-path": {"path": True, **{name: False for name, setting in SETTINGS.items() if setting.one_path}},
}
"""Arrays of tables, with their keys and whether a key must be there."""


MOST_BYTES = 1 << 20
SHIPPED, PACK = "shipped", "pack:"

_MENTIONED = re.compile(r"tool\W+rewriter|^\s*\[\s*tool\s*\]", re.MULTILINE)  # most files are skipped without parsing them


@record(frozen=True, slots=True)
class Value:
    """A value as the option of the same name would have it, and its place in the file."""

    value: Any
    origin: str


@record(frozen=True, slots=True)
class PathTable:
    """Settings of the models whose paths match one of the patterns in `path`."""

    path: tuple[str, ...]
    origin: str
    settings: Mapping[str, Value]


@record(frozen=True, slots=True)
class Suppression:
    """A rule (or all rules with a prefix of codes) that leaves some nodes alone.

    Attributes:
        node: pattern of the name of a matched node; None: any.
        path: patterns of paths of models; empty: any.
    """

    rule: str
    node: str | None
    path: tuple[str, ...]
    reason: str
    origin: str

    def covers(self, rule: str, matched: tuple[str, ...]) -> bool:
        """Whether a firing is to be suppressed."""
        if not rule.startswith(self.rule):
            return False
        return self.node is None or any(fnmatchcase(name, self.node) for name in matched)


class Suppressor:
    """Rejects the firings that the suppressions for one model forbid.

    Attributes:
        found: the rejected firings, each once.
    """

    def __init__(self, suppressions: Sequence[Suppression]) -> None:
        self._suppressions = suppressions
        self.found: list[Suppressed] = []

    def permit(self, fired: Fired) -> bool:
        """Whether a firing may happen."""
        from rewriter.core.log import Suppressed

        rule, place = fired.compiled.rule, fired.scope.path
        one = next((one for one in self._suppressions if one.covers(rule.code, fired.names)), None)
        if one is None:
            return True
        root = fired.names[0] if fired.names else ""
        found = Suppressed(rule.code, rule.title, place, root, fired.op, one.reason, one.origin)
        if found not in self.found:
            self.found.append(found)
        return False


@record(frozen=True, slots=True)
class Configuration:
    """The contents of a configuration file. Without `path` there is none, and nothing is set."""

    path: Path | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    per_path: tuple[PathTable, ...] = ()
    suppress: tuple[Suppression, ...] = ()

    def fits(self, patterns: tuple[str, ...], model: str) -> bool:
        """Whether a model's path, relative to the folder of the file, matches one of the patterns."""
        assert self.path is not None
        try:
            seen = os.path.relpath(os.path.realpath(model), os.path.realpath(self.path.parent)).replace(os.sep, "/")
        except ValueError:  # another drive of Windows
            seen = model
        return any(fnmatchcase(seen, pattern) for pattern in patterns)


def nearest() -> Configuration:
    """The configuration of the current folder, if there is one. Raises RewriterError."""
    texts = ((path, _text(path)) for path in candidates())
    possible = ((path, text) for path, text in texts if path.name == OWN or _MENTIONED.search(text))
    return next((found for one in possible if (found := _read(*one)) is not None), Configuration())


def named(path: Path) -> Configuration:
    """The configuration in a file of any name.

    Raises:
        RewriterError: the file cannot be read, is no TOML, or has an error.
    """
    found = _read(path, _text(path))
    if found is None:
        raise RewriterError(f"{path}: it has no table [tool.rewriter]")
    return found


def _read(path: Path, text: str) -> Configuration | None:
    """The configuration in a file: its table `tool.rewriter`, or the whole file; None for a project file without the table."""
    from rewriter.trust.toml_text import parse

    document = parse(text, str(path))
    tools = document.get("tool")
    table = tools.get("rewriter") if isinstance(tools, dict) else None
    if table is None:
        return None if path.name == SHARED else _ConfigurationReader(path, text, ()).read(document)
    if not isinstance(table, dict):
        raise RewriterError(f"{path}: `tool.rewriter` is no table")
    return _ConfigurationReader(path, text, ("tool", "rewriter")).read(table)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise RewriterError(f"{path}: more than {MOST_BYTES} bytes, too big for a configuration")
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise RewriterError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from None


def rule_paths(texts: Sequence[str] | None) -> list[Path | str] | None:
    """The paths of `rules`, with the word for the shipped rules replaced by their files, and `pack:NAME` by the pack's folder.
    None if there are no paths: then only the shipped rules are used.
    """
    if not texts:
        return None
    return [path for text in texts for path in _rule_paths(text)]


def files_at(paths: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """The known files that are also reached by these paths."""
    named = set(map(os.path.realpath, paths))
    return frozenset(path for path in set(known) if os.path.realpath(path) in named) if named else frozenset()


def _rule_paths(text: str) -> Sequence[Path | str]:
    if text == SHIPPED:
        from rewriter.core.language.rule_files import find_rule_files

        return find_rule_files(None)
    if text.startswith(PACK):
        from rewriter.rule_tools.load_rules import pack_folder

        return [pack_folder(text.removeprefix(PACK))]
    return [text]


class _ConfigurationReader:
    def __init__(self, path: Path, text: str, prefix: Key) -> None:
        self.path = path
        self.prefix = prefix
        from rewriter.trust.toml_text import lines

        self.lines = lines(text)

    def read(self, table: Mapping[str, Any]) -> Configuration:
        """Checks everything."""
        self.known(table, (), (*SETTINGS, *TABLES))
        per_path = [
            PathTable(tuple(entry["path"]), self.origin(way), dict(self.values(entry, way)))
            for way, entry in self.entries(table, "per-path")
        ]
        suppress = [
            Suppression(entry["rule"], entry.get("node"), tuple(entry.get("path", ())), entry["reason"], self.origin(way))
            for way, entry in self.entries(table, "suppress")
        ]
        return Configuration(self.path, dict(self.values(table, ())), tuple(per_path), tuple(suppress))

    def values(self, table: Mapping[str, Any], way: Key) -> Iterator[tuple[str, Value]]:
        for name, setting in SETTINGS.items():
            if name in table:
                if not setting.takes(table[name]):
                    raise self.error((*way, name), f"`{name}` is {setting.wanted}")
                yield name, Value(self.converted(name, table[name]), self.origin((*way, name)))

    def entries(self, table: Mapping[str, Any], name: str) -> Iterator[tuple[Key, Mapping[str, Any]]]:
        found = table.get(name, [])
        if not (isinstance(found, list) and all(isinstance(entry, dict) for entry in found)):
            header = ".".join((*map(str, self.prefix), name))
            raise self.error((name,), f"`{name}` is an array of tables; each begins with [[{header}]]")
        for number, entry in enumerate(found):
            way = (name, number)
            self.known(entry, way, tuple(TABLES[name]))
            entry = {**entry, "path": [entry["path"]]} if is_text(entry.get("path")) else entry
            for key, needed in TABLES[name].items():
                if needed and key not in entry:
                    raise self.error(way, f"a table of `{name}` needs `{key}`")
                if key in entry and key not in SETTINGS and not (is_texts if key == "path" else is_text)(entry[key]):
                    raise self.error(
                        (*way, key), f"`{key}` is {'a pattern or a list of patterns' if key == 'path' else 'a text'}"
                    )
            yield way, entry

    def known(self, table: Mapping[str, Any], way: Key, keys: tuple[str, ...]) -> None:
        for name in table:
            if name not in keys:
                from rewriter.core.language.diagnostics import suggest

                option = name.replace("_", "-")
                near = option if option in keys else suggest(option, keys)
                hint = f"did you mean `{near}`?" if near else f"there are {', '.join(keys)}"
                raise self.error((*way, name), f"there is no key `{name}`; {hint}")

    def converted(self, name: str, value: Any) -> Any:
        """A value as the command line would have it: paths are relative to the folder of the file, parameters are lines."""
        if name in ("rules", "extend"):
            from rewriter.core.language.rule_files import check_rule_path

            origin = self.origin((name,))
            return [
                text if text == SHIPPED or text.startswith(PACK) else check_rule_path(self.path_of(text), origin)
                for text in value
            ]
        if name == "source":
            return value if value in ("auto", "none") else self.path_of(value)
        if name == "set":
            pairs = [
                (f"{code}.{parameter}" if parameter else code, one)
                for code, inner in value.items()
                for parameter, one in (inner.items() if isinstance(inner, dict) else [("", inner)])
            ]
            return [f"{place}={_parameter(one)}" for place, one in pairs]
        return value

    def path_of(self, text: str) -> str:
        return os.path.normpath(self.path.parent / os.path.expanduser(text))

    def origin(self, way: Key) -> str:
        from rewriter.trust.toml_text import line_of

        return f"{self.path}:{line_of(self.lines, (*self.prefix, *way))}"

    def error(self, way: Key, text: str) -> RewriterError:
        return RewriterError(f"{self.origin(way)}: {text}")


def _parameter(value: Any) -> str:
    """A parameter as it is typed after `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)
