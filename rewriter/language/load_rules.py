"""From rule files to checked rules: what was found right once is kept, and is not parsed and checked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from rewriter.language.cache.kept_rules import Library
from rewriter.language.diagnostics import Diagnostic, RuleFileError, SourceText
from rewriter.language.rule import Rule
from rewriter.language.rule_files import State, find_rule_files
from rewriter.language.rules import RuleSet, code_key

_loaded: deque[tuple[list[State], RuleSet]] = deque(maxlen=4)
"""What this process loaded last, with the states of the files."""


def load_rules(paths: Iterable[Path | str] | None = None) -> RuleSet:
    """Reads, parses and checks rule files; folders are searched for `*.rules`. None: the rules that are shipped.

    What was found right once is kept (`kept_rules`), and is not parsed and checked again. Files that this process loaded and
    that nobody has written to since give the same rules, with all that was made of them.

    Raises:
        RewriterError: a path does not exist, cannot be read or is too big.
        RuleFileError: with everything that is wrong in all files, warnings included.
    """
    library = Library(find_rule_files(paths))
    for states, loaded in _loaded:
        if states == library.states:
            return loaded
    rules, warnings = library.read("checked") or _compiled(library)
    ordered = tuple(sorted(rules, key=lambda rule: code_key(rule.code)))
    doubtful = {diagnostic.path for diagnostic in warnings}
    found = RuleSet(
        ordered, warnings=warnings, sources={source.path: source for source in library.sources if source.path in doubtful}
    )
    if library.settled:
        _loaded.append((library.states, found))
    return found


def _compiled(library: Library) -> tuple[list[Rule], tuple[Diagnostic, ...]]:
    """Parses and checks; what is right is kept. Raises RuleFileError."""
    from rewriter.collector import collector_off

    with collector_off():
        rules, found = _checked(library.texts)
    if any(not diagnostic.is_warning for diagnostic in found):
        raise RuleFileError(found, {source.path: source for source in library.texts})
    from rewriter.language.cache.operator_table import write_table

    write_table()
    library.write("checked", rules, found)
    return rules, tuple(found)


def _checked(sources: Sequence[SourceText]) -> tuple[list[Rule], list[Diagnostic]]:
    """The rules of all files, and all that the compiler says of them."""
    from rewriter.language.check import check, check_codes
    from rewriter.language.expand.shared_defines import SharedDefines
    from rewriter.language.parse import parse

    found: list[Diagnostic] = []
    rules: list[Rule] = []
    shared = SharedDefines(sources)
    for source in sources:
        rule_file, problems = parse(source.text, source.path, shared.of(source.path))
        found.extend(problems)
        found.extend(check(rule_file))
        rules.extend(Rule(rule, source.path, source) for rule in rule_file.rules)
    found.extend(check_codes(rules))
    return rules, found
