"""Pages, help texts, messages and comments of rules use plain words: docs/prose.py has the list."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_no_word_of_the_list_is_used() -> None:
    spec = importlib.util.spec_from_file_location("prose", Path(__file__).parent.parent / "docs" / "prose.py")
    assert spec is not None and spec.loader is not None
    prose = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prose)
    assert list(prose.findings()) == []
    assert prose.FOUND.search("the rule runs unasked") and not prose.FOUND.search("`*` stands for any text")
    assert prose.FOUND_IN_PAGES.search("it runs; it stops") and not prose.FOUND_IN_PAGES.search(prose.written("`a; b`"))
