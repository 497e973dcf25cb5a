"""Words that the pages, help texts, messages and comments of rules leave to other projects, and what is written instead.

python docs/prose.py        # FILE:LINE: word: what to write; exits with 1 when there is any
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rewriter.app.cli.main import make_parser
from rewriter.core.language.functions import FAULTS, FUNCTIONS
from rewriter.rule_tools.message_pages import message_pages

ROOT = Path(__file__).parent.parent

INSTEAD = {
    r"unasked": "by default",
    r"anew": "again",
    r"mended|mends|mending": "repaired, repairs",
    r"stands?(?!\s+for\b|$)": "is, are, is written, matches",
    r"behind": "after",
    r"goes before": "overrides",
    r"held against": "compared with",
    r"(?<!`)tak(?:en|es) by": "accepted by",
    r"(?:is|are|was) told(?! to\b)": "is reported, is printed, is known",
    r"(?:rewriter \w+|fix|check|optimize|verify|lint)` (?:says|tells?)": "prints, reports",
}
"""Patterns of words, with what is plainer."""

FOUND = re.compile(r"\b(?:" + "|".join(f"({pattern})" for pattern in INSTEAD) + r")\b", re.IGNORECASE)
IN_PAGES = {
    r"(?<!&minus);": "two sentences, `and`, or a row for each",
    r", too\b": "also, before the verb",
    r"\b(?:who|what)ever\b": "the noun",
    r"\bof which\b|\b(?:those|that) of\b": "the noun again",
}
"""Patterns for the sentences of pages, rules and tables: messages and help texts are lists more often."""

FOUND_IN_PAGES = re.compile("|".join(f"({pattern})" for pattern in IN_PAGES), re.IGNORECASE)
IN_HELP = re.compile(r"^(?:also |only )?(?:says?|tells?)\b", re.IGNORECASE)

QUOTED = re.compile(r" *\d+ \||^ *-->")
"""A line of a message that shows the rule, or its place."""

MADE = ("rules.md", "symptoms.md", "catalogue.md")
"""Pages whose texts come from rules and tables, which are read where they are written."""


def main() -> int:
    found = list(findings())
    print("\n".join(found) or "no findings")
    return 1 if found else 0


def findings() -> Iterator[str]:
    for where, text in texts():
        yield from found_in(where, text, FOUND, INSTEAD)
    for where, text in (*pages(), *comments(), *tables()):
        yield from found_in(where, written(text), FOUND_IN_PAGES, IN_PAGES)
    for where, text in helps():
        if match := IN_HELP.match(text):
            yield f"{where}: {match[0]}: write print, report"


def found_in(where: str, text: str, found: re.Pattern[str], instead: dict[str, str]) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in found.finditer(line):
            yield f"{where}:{number}: {match[0]}: write {list(instead.values())[(match.lastindex or 1) - 1]}"


def pages() -> Iterator[tuple[str, str]]:
    """Pages without their blocks of code, and the text of notebooks."""
    paths = [*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").glob("*.md") if page.name not in MADE)]
    for path in sorted(paths):
        yield str(path.relative_to(ROOT)), blank(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        yield str(path.relative_to(ROOT)), blank(text)


def texts() -> Iterator[tuple[str, str]]:
    """What people read, with where it is."""
    yield from pages()
    yield from comments()
    yield from helps()
    yield from ((f"message {page.code}", f"{page.title}\n{page.text}") for page in message_pages().values())
    yield from printed_messages()
    yield from tables()


def comments() -> Iterator[tuple[str, str]]:
    """The doc comments of rules, and of rows of their tables."""
    for path in sorted((ROOT / "rules").rglob("*.rules")):
        lines = (line if line.lstrip().startswith("///") else "" for line in path.read_text(encoding="utf-8").splitlines())
        yield str(path.relative_to(ROOT)), "\n".join(lines)


def printed_messages() -> Iterator[tuple[str, str]]:
    """What the compiler and `lint` print about wrong rules, without the lines of the rules."""
    for path in sorted((ROOT / "tests").glob("bad_*/*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join("" if QUOTED.match(line) else line for line in lines)
        yield str(path.relative_to(ROOT)), text


def tables() -> Iterator[tuple[str, str]]:
    """The texts of functions and faults, which docs/build.py writes into a page."""
    yield from ((f"function {function.name}", function.doc) for function in FUNCTIONS.values())
    yield from ((f"fault {fault.name}", f"{fault.doc}\n{fault.mended}") for fault in FAULTS.values())


def helps() -> Iterator[tuple[str, str]]:
    parser = make_parser()
    for action in parser.commands._get_subactions():
        yield f"rewriter --help, {action.dest}", action.help or ""
    for name, command in parser.commands.choices.items():
        yield f"rewriter {name}, description", command.description or ""
        yield from ((f"rewriter {name} {action.dest}", action.help or "") for action in command._actions)


def written(page: str) -> str:
    """A page without the code in its lines and without the tables that docs/build.py makes, with as many lines."""
    page = re.sub(r"(?s)<!-- made: .*?<!-- end -->", lambda block: "\n" * block[0].count("\n"), page)
    return re.sub(r"`[^`\n]*`", "``", page)


def blank(page: str) -> str:
    """A page without its blocks of code, with as many lines."""
    page = re.sub(r"(?ms)^```.*?^```$", lambda block: "\n" * block[0].count("\n"), page)
    return re.sub(r"(?m)^    .*$", "", page)


if __name__ == "__main__":
    sys.exit(main())
