"""From rule files to checked rules: rules that were found correct are in the cache, and are not parsed and checked again."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rewriter.core.language.ast import Define, Span
from rewriter.core.language.cache.library import Library, RulesAndWarnings
from rewriter.core.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.core.language.rule import Rule
from rewriter.core.language.rule_files import State, find_rule_files
from rewriter.core.language.rules import RuleSet, code_key

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
    for rule in rules:
        for code in rule.before:
            if code not in first:
                yield from _unknown(rule, code, first)
            elif (circle := _circle(rule.code, code, first)) is not None and rule.code == min(circle):
                message = f"`before` goes round in a circle: {' before '.join(circle)}"
                yield Diagnostic("E403", message, _value_span(rule, "before"), "who is first?", path=rule.path)


def _unknown(rule: Rule, code: str, known: Iterable[str]) -> Iterator[Diagnostic]:
    from rewriter.rule_tools.checks.header import CODE

    if CODE.fullmatch(code):
        near = suggest(code, [other for other in known if other != rule.code])
        helps = (f"did you mean `{near}`?" if near else "load its file too, e.g. `--extend shipped`",)
        message = f"{code} is not loaded, so `before: {code}` has no effect"
        yield Diagnostic("W402", message, _value_span(rule, "before"), "without effect", (), helps, rule.path)


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


_loaded: deque[tuple[list[State], RulesAndWarnings]] = deque(maxlen=4)
"""The rule sets that this process loaded last, with the states of the files."""


def load_rules(paths: Iterable[Path | str] | None = None) -> RuleSet:
    """Reads, parses and checks rule files; folders are searched for `*.rules`. None: the shipped rules.

    Rules that were found correct are in the cache (`Library`), and are not parsed and checked again. Files that this process
    loaded and that have not changed since return the same rules, with everything that was computed for them.

    Raises:
        RewriterError: a path does not exist, cannot be read or is too big.
        RuleFileError: with all errors in all files, warnings included.
    """
    files = find_rule_files(paths)
    libraries = [Library(part) for part in _apart(files, paths)]
    read = [_read(library) for library in libraries]
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


def _read(library: Library) -> RulesAndWarnings:
    for states, known in _loaded:
        if states == library.states:
            return known
    found = library.read("checked") or _compiled(library)
    if library.is_stable:
        _loaded.append((library.states, found))
    return found


def _apart(files: Sequence[str], paths: Iterable[Path | str] | None) -> list[Sequence[str]]:
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


def _compiled(library: Library) -> RulesAndWarnings:
    """Parses and checks each file; rules without errors go into the cache."""
    from rewriter.core.collector import collector_off

    with collector_off():
        rules, found = _parsed(library.texts)
        if all(diagnostic.is_warning for diagnostic in found):
            library.write("checked", rules, found)
    return rules, tuple(found)


def _parsed(sources: Sequence[SourceText], *, as_written: bool = False) -> tuple[list[Rule], list[Diagnostic]]:
    """The rules of all files, and the compiler's findings in each file: only its syntax errors with `as_written`."""
    from rewriter.core.language.parse import parse
    from rewriter.core.language.rule_files import SharedDefines

    found: list[Diagnostic] = []
    rules: list[Rule] = []
    shared = SharedDefines(sources)
    for source in sources:
        rule_file, problems = parse(source.text, source.path, shared.of(source.path), as_written=as_written)
        found.extend(problems)
        if not as_written:
            from rewriter.rule_tools.checks.check import check

            found.extend(check(rule_file))
        rules.extend(Rule(rule, source.path, source) for rule in rule_file.rules)
    return rules, found


def called_defines(rule: Rule) -> list[Define]:
    """The defines that the text of a rule calls, directly or through others, in the order in which they are written."""
    from rewriter.core.language.parse import parse
    from rewriter.core.language.rule_files import SharedDefines

    own = parse(rule.source.text, rule.path, as_written=True)[0].defines
    known = {**SharedDefines().of(rule.path), **{define.name: define for define in own}}
    called, texts = set[str](), [rule.text]
    while texts:
        found = {name for name in re.findall(r"(\w+)\s*\(", texts.pop()) if name in known} - called
        called |= found
        texts += [known[name].text for name in found]
    return sorted((known[name] for name in called), key=lambda define: (define in own, define.span.start))
