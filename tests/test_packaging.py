"""What is installed is what stands here: no package of the source tree is missing from the list in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_all_packages_are_listed() -> None:
    listing = re.search(r"^packages = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert listing is not None
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "rewriter").rglob("*.py")}
    expected = {".".join(folder.parts) for folder in folders} | {"rewriter.grammar", "rewriter.rules"}
    assert set(re.findall(r'"(.+?)"', listing[1])) == expected
