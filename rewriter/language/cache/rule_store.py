"""The trees of kept rules: read together, as soon as somebody looks at one of them.

Most runs look at few rules and need nothing of them but what decides whether they may match. That is kept apart; so this file,
which is ten times as large, is mostly never opened.
"""

from __future__ import annotations

from pathlib import Path

from rewriter.language import ast
from rewriter.language.cache.own_folder import only_ours, read_sealed
from rewriter.language.cache.pack import unpack
from rewriter.language.diagnostics import SourceText


class RuleStore:
    """Packed trees in the order of their rules."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed: list[str] | None = None

    @property
    def is_there(self) -> bool:
        return only_ours(self.path)

    def tree(self, number: int, code: str, source: SourceText) -> ast.Rule:
        """The tree of a rule. When the file has gone since it was there, or was damaged, the rule is parsed again.

        Raises:
            RewriterError: then its file, too, is another one now.
        """
        if self._packed is None:
            data = read_sealed(self.path)
            self._packed = [] if data is None else data.split("\n")
        if number < len(self._packed):
            found: ast.Rule = unpack(self._packed[number])
            return found
        self.path.unlink(missing_ok=True)
        from rewriter.language.expand.shared_defines import SharedDefines
        from rewriter.language.parse import parse

        rules, _ = parse(source.text, source.path, SharedDefines().of(source.path))
        return next(rule for rule in rules.rules if rule.code == code)
