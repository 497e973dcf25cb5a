"""What is installed is what stands here: packages are found, so each folder with modules has to be one."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "rewriter"


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert len(folders) > 25
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
