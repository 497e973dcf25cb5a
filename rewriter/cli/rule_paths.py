"""The values of `--rules`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewriter.language.rule_files import find_rule_files

SHIPPED = "shipped"


def rule_paths(texts: Sequence[str] | None) -> list[Path | str] | None:
    """The paths, with the word for the shipped rules replaced by their files; None, for these alone, when there are none."""
    if not texts:
        return None
    return [path for text in texts for path in (find_rule_files(None) if text == SHIPPED else [text])]
