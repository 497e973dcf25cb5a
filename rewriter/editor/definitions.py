"""Where a word is defined: a capture in its pattern, a define in its file or beside it, a rule in its file or a shipped one."""

from __future__ import annotations

from rewriter.editor.hover import find_rule
from rewriter.editor.opened_rules import OpenedRules
from rewriter.language.diagnostics import Related


def definition(opened: OpenedRules, offset: int) -> Related | None:
    """The place, in this or another file."""
    from rewriter.language.ast import Span

    word = opened.word(offset)
    if word is None:
        return None
    name = word.text.partition(".")[0]
    found = next((one for one in opened.names(offset) if one.text == name), None)
    if found is not None:
        return Related(opened.path, Span(found.start, found.end))
    for define in opened.file.defines:
        if define.name == name:
            return Related(opened.path, define.name_span)
    if name in opened.shared:
        return _beside(opened, name)
    rule = find_rule(name, opened.rules) if name[:1].isupper() and name[-1:].isdigit() else None
    return None if rule is None else Related(rule.path, rule.ast.code_span)


def _beside(opened: OpenedRules, name: str) -> Related | None:
    import os

    from rewriter.language.expand.shared_defines import NAME
    from rewriter.language.rule_files import read_rule_file

    folder = os.path.dirname(opened.path)
    for path in (os.path.join(folder, NAME), os.path.join(os.path.dirname(folder), NAME)):
        if os.path.isfile(path):
            for define in OpenedRules(read_rule_file(path), path).file.defines:
                if define.name == name:
                    return Related(path, define.name_span)
    return None
