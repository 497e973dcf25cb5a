"""The values of `--rules`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewriter.language.rule_files import find_rule_files


def rule_paths(texts: Sequence[str] | None) -> list[Path | str] | None:
    """The paths, with the word for the shipped rules replaced by their files, and `pack:NAME` by the folder of the pack; None,
    for the shipped rules alone, when there are none.
    """
    if not texts:
        return None
    return [path for text in texts for path in _paths(text)]


def _paths(text: str) -> Sequence[Path | str]:
    from rewriter.config.configuration import PACK, SHIPPED

    if text == SHIPPED:
        return find_rule_files(None)
    if text.startswith(PACK):
        from rewriter.config.packs import pack_folder

        return [pack_folder(text.removeprefix(PACK))]
    return [text]
