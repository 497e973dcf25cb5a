"""What is installed is what stands here: packages are found, so each folder with modules has to be one."""

from __future__ import annotations

import re
from pathlib import Path

from rewriter.core.errors import install

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rewriter"


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert len(folders) > 25
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_messages_install_extras_as_the_readme_does() -> None:
    assert (
        install("verify").startswith("pip install '.[verify]'")
        and 'pip install ".[verify]"' in (ROOT / "README.md").read_text()
    )
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    extras = {name for text in texts.values() for name in re.findall(r"\{install\('(\w+)'\)\}", text)}
    assert extras == {"cluster", "editor", "remote", "verify"}
    declared = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert extras <= set(declared)
    pages = {
        path: path.read_text() for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("editors/**/*.[jm][sd]*"))
    }
    by_name = re.compile(r"""pip install ['"]?rewriter\[\w+\](?! @ git)""")
    assert [str(path) for path, text in (texts | pages).items() if by_name.search(text)] == []
