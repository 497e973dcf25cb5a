"""Rules as they are written, for the commands that only show them.

`load_rules` checks every rule against the ONNX schemas, and so imports onnx; to list rules or to print one, reading is enough.
What either has put into the cache is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewriter.cli.rule_paths import rule_paths
from rewriter.errors import RewriterError
from rewriter.language.cache.library import Library
from rewriter.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.language.rule import Rule
from rewriter.language.rule_files import find_rule_files


def read_rules(paths: Sequence[str] | None) -> list[Rule]:
    """All rules, by code.

    Raises:
        RewriterError: a file cannot be read.
        RuleFileError: a file is not in the rule language.
    """
    library = Library(find_rule_files(rule_paths(paths)))
    for kind in ("checked", "parsed"):
        found = library.read(kind)
        if found is not None:
            return _sorted(found[0])
    rules = _parse(library.texts)
    library.write("parsed", rules, ())
    return _sorted(rules)


def find_rule(code: str, rules: Sequence[Rule]) -> Rule:
    """The rule of a code (letters of either case), or the one that took its place.

    Raises:
        RewriterError: there is none.
    """
    wanted = code.upper()
    for rule in rules:
        if rule.code.upper() == wanted or wanted in rule.header.replaces:
            return rule
    near = suggest(wanted, [rule.code for rule in rules])
    hint = f"; did you mean {near}?" if near else "; `rewriter rules` lists them"
    raise RewriterError(f"there is no rule {code!r}{hint}")


def _sorted(rules: list[Rule]) -> list[Rule]:
    return sorted(rules, key=lambda rule: rule.code)


def _parse(sources: Sequence[SourceText]) -> list[Rule]:
    from rewriter.language.expand.shared_defines import SharedDefines
    from rewriter.language.parse import parse

    problems: list[Diagnostic] = []
    rules: list[Rule] = []
    shared = SharedDefines(sources)
    for source in sources:
        parsed, found = parse(source.text, source.path, shared.of(source.path), as_written=True)
        problems.extend(diagnostic for diagnostic in found if not diagnostic.is_warning)
        rules.extend(Rule(rule, source.path, source) for rule in parsed.rules)
    if problems:
        raise RuleFileError(problems, {source.path: source for source in sources})
    return rules
