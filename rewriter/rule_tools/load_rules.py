"""From rule files, and packages that contain some, to checked rules. Rules that were found correct are in the cache, and are
not parsed and checked again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rewriter.core import resources
from rewriter.core.errors import RewriterError
from rewriter.core.language.ast import Define, Span
from rewriter.core.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.core.language.rule_files import (
    PackedTrees,
    Shared,
    SharedDefines,
    built,
    find_rule_files,
    flat,
    pack,
    question,
    read_rule_file,
    read_unchanged,
    state_of,
    with_defines,
)
from rewriter.core.language.rules import Rule, RuleSet, code_key
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CLOCK_STEP = 2_000_000_000  # nanoseconds after which the clock of any disk has gone on

RulesAndWarnings = tuple[list[Rule], tuple[Diagnostic, ...]]


# The cache: parsing and checking takes some hundred times as long as reading the result back.
#
# The key of compiled rules is made of the texts and their names below the folder of all of them, so that a copy of the folder
# has the same key. The store adds the versions of this package, of Python and of ONNX. So the cache needs no invalidation. If a
# file has not changed for a while, its state (size, times, number on the disk) replaces its text in the key, and the text need
# not be read. As in git's index, a file that was written just before its state was taken is not trusted, because it may be
# written again without a trace.
#
# The text of an entry is the data that every rule is asked for (code, title, header, digest), ready for use. Its tail are
# the syntax trees, which are read when one is needed.


class Library:
    """Rule files and their cache entries.

    Attributes:
        states: the states of the files when they were first looked at.
        sources: the texts of the files. Each is read when it is first needed.

    Raises:
        RewriterError: a file cannot be read.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.begun = time.time_ns()
        self.states = [state_of(path) for path in with_defines(paths)]
        self.sources = [SourceText(state[0], partial(read_unchanged, state)) for state in self.states]

    @property
    def is_stable(self) -> bool:
        """Whether the states identify the texts: a file that was just written may be written again without a trace."""
        return all(max(state[2], state[3]) < self.begun - CLOCK_STEP for state in self.states)

    @cached_property
    def texts(self) -> list[SourceText]:
        """The texts as they are now."""
        self.sources = [SourceText(state[0], read_rule_file(state[0])) for state in self.states]
        return self.sources

    def read(self, kind: str) -> RulesAndWarnings | None:
        """The rules with the warnings, if the cache has both; `kind` names the steps that were applied to them."""
        key = resources.read("states", self._key_of_states(kind))
        rules = None if key is None else _cached(key, self.sources)
        if rules is None:
            key = self._key(kind)
            rules = _cached(key, self.texts)
            if rules is not None:
                self._write_states(kind, key)
        return rules

    def write(self, kind: str, rules: Sequence[Rule], warnings: Sequence[Diagnostic]) -> None:
        """Adds the rules to the cache."""
        numbers = {source.path: number for number, source in enumerate(self.sources)}
        shared = Shared()
        fronts = []
        for rule in rules:
            identity, common = rule.front
            fronts.append((numbers[rule.path], identity, shared.numbers(common)))
        trees = [flat(rule.ast) for rule in rules]
        docs = [rule.ast.doc for rule in rules]
        noted = [(numbers[one.path], flat(replace(one, path=""))) for one in warnings]
        text = [pack((fronts, shared.flat, noted)), pack(docs), *[pack(question(tree)) for tree in trees]]
        key = self._key(kind)
        resources.write("rules", key, "\n".join(text), [pack(tree) for tree in trees])
        self._write_states(kind, key)

    def _key(self, kind: str) -> str:
        """The key of the data that is derived from the texts."""
        from hashlib import sha256

        digest = sha256(kind.encode())
        paths = [state[0] for state in self.states]
        start = len(os.path.dirname(os.path.commonprefix(paths)))  # noqa: RUF071 (commonpath fails on two disks)
        for source in self.texts:
            name, text = source.path[start:], source.text.encode()
            digest.update(f"\0{len(name)} {len(text)} {name}\0".encode(errors="surrogateescape"))
            digest.update(text)
        return digest.hexdigest()[:32]

    def _key_of_states(self, kind: str) -> str:
        return json.dumps((kind, self.states))

    def _write_states(self, kind: str, key: str) -> None:
        """For a process that finds the files in these states, the key that follows from their texts."""
        if self.is_stable:
            resources.write("states", self._key_of_states(kind), key)


def _cached(key: str, sources: Sequence[SourceText]) -> RulesAndWarnings | None:
    data = resources.read("rules", key)
    if data is None:
        return None
    first, docs, *questions = data.split("\n")
    trees = PackedTrees(key, docs)
    fronts, flat_values, noted = json.loads(first)
    values = [*map(built, flat_values)]
    rules = [
        Rule.from_cache((trees, number, questions[number]), (identity, [values[at] for at in common]), sources[place])
        for number, (place, identity, common) in enumerate(fronts)
    ]
    return rules, tuple(replace(built(one), path=sources[place].path) for place, one in noted)


# Codes of rules that are loaded together, from one file or several.
#
# The codes are checked at every start, also for cached rules: the cache of some files is valid with any other files. So trees
# are read only if there is an error.


def check_codes(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Codes are unique across files; `before` names rules and contains no circle."""
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.code, rule)
        if other.path != rule.path:
            line, _ = other.source.line_col(other.ast.code_span.start)
            notes = (f"the other one is `{other.slug}` at {other.path}:{line}",)
            yield Diagnostic("E401", f"two rules have the code {rule.code}", rule.ast.code_span, "again", notes, path=rule.path)
    for rule in rules:
        for code in rule.header.replaces:
            if code in first:
                message = f"{rule.code} replaces {code}, and there is a rule of this code"
                yield Diagnostic("E401", message, _value_span(rule, "replaces"), "still there", path=rule.path)
    unknown: dict[str, list[Rule]] = {}
    for rule in rules:
        for code in rule.before:
            if code not in first:
                unknown.setdefault(code, []).append(rule)
            elif (circle := _circle(rule.code, code, first)) is not None and rule.code == min(circle):
                message = f"`before` has a cycle: {' before '.join(circle)}"
                yield Diagnostic("E403", message, _value_span(rule, "before"), "who is first?", path=rule.path)
    yield from _unknown(unknown, first)


def _unknown(named: Mapping[str, Sequence[Rule]], known: Iterable[str]) -> Iterator[Diagnostic]:
    """One finding for all codes that rules name and that are not loaded: a part of the shipped rules names dozens.

    Args:
        named: the rules that name each code.
        known: the loaded codes.
    """
    if not named:
        return
    from rewriter.rule_tools.checks.header import CODE

    codes = [code for code in named if CODE.fullmatch(code)]
    if not codes:
        return
    rule, *more = dict.fromkeys(rule for code in codes for rule in named[code])
    listed = ", ".join(codes)
    message = f"{listed} {'is' if len(codes) == 1 else 'are'} not loaded, so `before` has no effect"
    notes = (f"also named by {', '.join(other.code for other in more)}",) if more else ()
    near = (suggest(code, [one for one in known if one != named[code][0].code and one[:2] == code[:2]]) for code in codes)
    helps = tuple(f"did you mean `{one}`?" for one in near if one) or ("load the file too, e.g. `--extend shipped`",)
    yield Diagnostic("W402", message, _value_span(rule, "before"), "without effect", notes, helps, rule.path)


def _value_span(rule: Rule, key: str) -> Span:
    return next(item.value_span for item in rule.ast.meta if item.key == key)


def _circle(start: str, following: str, rules: Mapping[str, Rule]) -> list[str] | None:
    """A path along `before` from `following` back to `start`, as codes from start to start."""
    paths = [[start, following]]
    seen = {following}
    while paths:
        path = paths.pop()
        if path[-1] == start:
            return path
        for code in rules[path[-1]].before if path[-1] in rules else ():
            if code not in seen:
                seen.add(code)
                paths.append([*path, code])
    return None


Made = TypeVar("Made")
KEPT = 8
_recent: dict[tuple[object, ...], Any] = {}
"""What this process made of rule files and used last, by the states of the files: the latest at the end."""


def _recalled(kind: str, libraries: Sequence[Library], make: Callable[[], Made]) -> Made:
    """What `make` returns, or what it returned for files in these states; with everything that was computed for it since."""
    key = (kind, *(state for library in libraries for state in library.states))
    made: Made | None = _recent.pop(key, None)
    if made is None:
        made = make()
        if not all(library.is_stable for library in libraries):
            return made
    _recent[key] = made
    for oldest in list(_recent)[: max(0, len(_recent) - KEPT)]:
        _recent.pop(oldest, None)
    return made


Watch = Callable[[Sequence[SourceText]], Iterable[SourceText]]
"""Returns the items of a list, and shows meanwhile how many were taken."""


def load_rules(paths: Path | str | Iterable[Path | str] | None = None, watch: Watch = iter) -> RuleSet:
    """Reads, parses and checks a rule file or several; folders are searched for `*.rules`. None: the shipped rules.

    Rules that were found correct are in the cache (`Library`), and are not parsed and checked again. Files that this process
    loaded and that have not changed since return the same rules, with everything that was computed for them. `watch` gets the
    files that have to be compiled, which takes some milliseconds for each.

    Raises:
        RewriterError: a path does not exist, cannot be read or is too big, or `paths` has another type.
        RuleFileError: with all errors in all files, warnings included.
    """
    files = find_rule_files(paths)
    libraries = [Library(part) for part in _apart(files, paths)]
    return _recalled("set", libraries, lambda: _rule_set(files, libraries, [_read(library, watch) for library in libraries]))


def _rule_set(files: Sequence[str], libraries: Sequence[Library], read: Sequence[RulesAndWarnings]) -> RuleSet:
    sources = {source.path: source for library in libraries for source in library.sources}
    places = {path: number for number, path in enumerate(dict.fromkeys((*files, *sources)))}
    rules = sorted((rule for part, _ in read for rule in part), key=lambda rule: places[rule.path])
    diagnostics = (*(diagnostic for _, part in read for diagnostic in part), *check_codes(rules))
    if any(not diagnostic.is_warning for diagnostic in diagnostics):
        raise RuleFileError(diagnostics, sources)
    doubtful = {diagnostic.path for diagnostic in diagnostics}
    return RuleSet(
        tuple(sorted(rules, key=lambda rule: code_key(rule.code))),
        warnings=diagnostics,
        sources={path: source for path, source in sources.items() if path in doubtful},
    )


def _read(library: Library, watch: Watch) -> RulesAndWarnings:
    return _recalled("checked", [library], lambda: library.read("checked") or _compiled(library, watch))


def _apart(files: Sequence[str], paths: object) -> list[Sequence[str]]:
    """The shipped files, and the others: an author's own rules are compiled again without the shipped ones."""
    if paths is None:
        return [files]
    shipped = set(find_rule_files(None))
    parts = [path for path in files if path in shipped], [path for path in files if path not in shipped]
    return [part for part in parts if part] or [files]


def read_rules(paths: Iterable[Path | str] | None = None) -> list[Rule]:
    """The rules of files as they are written, by code, for callers that only show them; not checked against ONNX's schemas.

    Raises:
        RewriterError: a file cannot be read.
        RuleFileError: a file is not in the rule language.
    """
    library = Library(find_rule_files(paths))
    found = library.read("checked") or library.read("parsed")
    if found is None:
        rules, said = _parsed(library.texts, as_written=True)
        problems = [diagnostic for diagnostic in said if not diagnostic.is_warning]
        if problems:
            raise RuleFileError(problems, {source.path: source for source in library.texts})
        library.write("parsed", rules, ())
        found = rules, ()
    return sorted(found[0], key=lambda rule: rule.code)


def _compiled(library: Library, watch: Watch) -> RulesAndWarnings:
    """Parses and checks each file; rules without errors go into the cache."""
    from rewriter.core.isolation.budget import collector_off

    with collector_off():
        rules, found = _parsed(library.texts, watch)
        if all(diagnostic.is_warning for diagnostic in found):
            library.write("checked", rules, found)
    return rules, tuple(found)


def _parsed(
    sources: Sequence[SourceText], watch: Watch = iter, *, as_written: bool = False
) -> tuple[list[Rule], list[Diagnostic]]:
    """The rules of all files, and the compiler's findings in each file: only its syntax errors with `as_written`."""
    from rewriter.core.language.parse import parse

    found: list[Diagnostic] = []
    rules: list[Rule] = []
    shared = SharedDefines(sources)
    for source in watch(sources):
        rule_file, problems = parse(source.text, source.path, shared.of(source.path), as_written=as_written)
        found.extend(problems)
        if not as_written:
            from rewriter.rule_tools.checks.check import check

            found.extend(check(rule_file))
        rules.extend(Rule(rule, source.path, source) for rule in rule_file.rules)
    return rules, found


def called_defines(rule: Rule) -> list[Define]:
    """The defines that the text of a rule calls, directly or through others, in the order in which they are written."""
    own: tuple[Define, ...] = ()
    if "define" in rule.source.text:  # the parser takes longer to import than all else that prints a rule
        from rewriter.core.language.parse import parse

        own = parse(rule.source.text, rule.path, as_written=True)[0].defines
    known = {**SharedDefines().of(rule.path), **{define.name: define for define in own}}
    called, texts = set[str](), [rule.text]
    while texts:
        found = {name for name in re.findall(r"(\w+)\s*\(", texts.pop()) if name in known} - called
        called |= found
        texts += [known[name].text for name in found]
    return sorted((known[name] for name in called), key=lambda define: (define in own, define.span.start))


# Rule packs: packages that contain rule files, registered by the entry point group `rewriter.rules`.
#
#     [project.entry-points."rewriter.rules"]
#     mycompany = "mycompany_rules.shipped"
#
# The value is a folder of the package, with dots, and the package is found as Python would find it, but never imported: rules
# are text, and reading them must not run other contents of a package.

GROUP = "rewriter.rules"


@record(frozen=True, slots=True)
class Pack:
    """An installed pack: the name of its entry point, its distribution with the version, and its folder."""

    name: str
    distribution: str
    folder: Path


def packs() -> list[Pack]:
    """All installed packs whose folders exist, by name."""
    from importlib.metadata import entry_points

    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        folder = _folder(entry)
        if folder is not None:
            found.append(Pack(entry.name, _distribution(entry), folder))
    return found


def pack_folder(name: str) -> Path:
    """The folder of a pack.

    Raises:
        RewriterError: no installed package provides it, several do, or its folder is missing.
    """
    from importlib.metadata import entry_points

    entries = list(entry_points(group=GROUP, name=name))
    if not entries:
        known = sorted({entry.name for entry in entry_points(group=GROUP)})
        hint = f"there are {', '.join(known)}" if known else "no installed package brings any"
        raise RewriterError(f"there is no rule pack {name!r}; {hint}")
    folders = {folder for folder in map(_folder, entries) if folder is not None}
    if len(folders) > 1:
        raise RewriterError(f"several packages have a rule pack {name!r}: {' and '.join(sorted(map(_distribution, entries)))}")
    if not folders:
        raise RewriterError(f"rule pack {name!r} of {_distribution(entries[0])}: there is no folder {entries[0].value!r}")
    return folders.pop()


def _folder(entry: EntryPoint) -> Path | None:
    top, *rest = entry.value.replace(":", ".").split(".")
    try:
        spec = find_spec(top)  # of a top package, so that nothing is imported; also uses the finders of editable installations
    except ValueError:
        return None
    if spec is None:
        return None
    places = spec.submodule_search_locations or []
    return next((folder for place in places if (folder := Path(place, *rest)).is_dir()), None)


def _distribution(entry: EntryPoint) -> str:
    found = entry.dist
    return "an unknown distribution" if found is None else f"{found.name} {found.version}"
