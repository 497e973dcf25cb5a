"""Builds the site: writes the made pages, then runs Sphinx, which may not warn.

pip install '.[docs]'
python docs/build_site.py [FOLDER]        # default: build/site
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build import main as write_pages
from command_pages import command_pages

DOCS = Path(__file__).parent


def main(arguments: list[str]) -> int:
    target = arguments[0] if arguments else str(DOCS.parent / "build" / "site")
    (DOCS / "commands").mkdir(exist_ok=True)
    for name, text in command_pages().items():
        (DOCS / "commands" / f"{name}.md").write_text(text, encoding="utf-8")
    sys.argv[1:] = []
    write_pages()
    return subprocess.call([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", str(DOCS), target])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
