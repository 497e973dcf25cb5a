"""Rules as they are written, for the commands that only show them.

`load_rules` checks every rule against the ONNX schemas, and so imports onnx; to list rules or to print one, reading is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewriter.cli.rule_paths import rule_paths
from rewriter.errors import RewriterError
from rewriter.language.diagnostics import Diagnostic, RuleFileError, SourceText, suggest
from rewriter.language.parse import parse
from rewriter.language.rule_files import find_rule_files, read_rule_file
from rewriter.language.rules import Rule


def read_rules(paths: Sequence[str] | None) -> list[Rule]:
    """All rules, by code.

    Raises:
        RewriterError: a file cannot be read.
        RuleFileError: a file is not in the rule language.
    """
    return _parse(find_rule_files(rule_paths(paths)))


def find_rule(code: str, paths: Sequence[str] | None) -> Rule:
    """The rule of a code (letters of either case). Files that are named after the code are read first.

    Raises:
        RewriterError: there is none.
    """
    wanted = code.upper()
    files = find_rule_files(rule_paths(paths))
    named = [file for file in files if file.name.upper().startswith((f"{wanted}_", f"{wanted}."))]
    for group in (named, files):
        for rule in _parse(group):
            if rule.code.upper() == wanted:
                return rule
    near = suggest(wanted, [rule.code for rule in _parse(files)])
    raise RewriterError(f"there is no rule {code!r}" + (f"; did you mean {near}?" if near else "; `rewriter rules` lists them"))


def _parse(files: Sequence[Path]) -> list[Rule]:
    sources: dict[str, SourceText] = {}
    problems: list[Diagnostic] = []
    rules: list[Rule] = []
    for file in files:
        source = SourceText(str(file), read_rule_file(file))
        sources[source.path] = source
        parsed, found = parse(source.text, source.path)
        problems.extend(diagnostic for diagnostic in found if not diagnostic.is_warning)
        rules.extend(Rule(rule, source.path, source) for rule in parsed.rules)
    if problems:
        raise RuleFileError(problems, sources)
    return sorted(rules, key=lambda rule: rule.code)
