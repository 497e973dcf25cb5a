"""Writes the pages that are made from the rules and the tables of the program. No page of them is written by hand.

    python docs/build.py            writes them
    python docs/build.py --check    names those that are out of date, and exits with 1 when there are any

It writes docs/rules.md (the index of rules) and docs/symptoms.md (rules by error message), with a page for each of their
groups, docs/catalogue.md from docs/catalogue.json, the picture of the README's first repair, the schema of reports
docs/schema/report.json, and the tables between the `<!-- made: NAME -->` and `<!-- end -->` marks of docs/functions.md.
docs/rules/ also gets a page for each rule, and docs/symptoms/ one for each error message. They are not kept in git.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

from group_pages import rule_groups, rule_index, symptom_groups, symptom_index
from page_text import RULES, block, cell, links, plain, source_path
from report_schema import report_schema
from rewriter.app.cli.main import main as main_of_commands
from rewriter.app.editor.highlighting import textmate
from rewriter.app.report.rule_lines import facts
from rewriter.core.language.ast import Test
from rewriter.core.language.functions import FAULTS, FUNCTIONS
from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import message_pages
from symptom_pages import symptom_pages

DOCS = Path(__file__).parent
LONGEST = 400  # lines of a page

NO_RULE = {
    "lost": "the file lacks the value",
    "converter": "a converter does this",
    "correct": "a correct model has the same nodes",
    "consumer": "only one consumer needs this form",
    "engine": "rewriter does this without a rule",
    "open": "not written yet",
}
"""Why an entry of the catalogue has no rule."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    rules = list(load_rules([RULES]))
    pages = build(rules)
    if args.check:
        old = stale(pages)
        print("\n".join(f"out of date: {path.relative_to(DOCS.parent)}" for path in old))
        return 1 if old else 0
    pages |= {DOCS / "rules" / name: text for rule in rules for name, text in rule_pages(rule).items()}
    pages |= {DOCS / "symptoms" / name: text for name, text in symptom_pages(rules, plain).items()}
    for folder in ("rules", "symptoms", "images"):
        (DOCS / folder).mkdir(exist_ok=True)
    gone = {page for folder in ("rules", "symptoms") for page in (DOCS / folder).glob("*.md")} - pages.keys()
    old = stale(pages)
    for path in old:
        path.write_text(pages[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    print(f"{len(pages)} pages, {len(old)} written, {len(gone)} removed")
    return 0


def build(rules: Sequence[Rule]) -> dict[Path, str]:
    """Every page that is made and kept in git, with its text."""
    pages = {DOCS / "rules.md": rule_index(rules), DOCS / "symptoms.md": symptom_index(rules)}
    pages |= {DOCS / "rules" / name: text for name, text in rule_groups(rules).items()}
    pages |= {DOCS / "symptoms" / name: text for name, text in symptom_groups(rules).items()}
    pages[DOCS / "catalogue.md"] = catalogue(json.loads((DOCS / "catalogue.json").read_text(encoding="utf-8")), rules)
    pages[DOCS / "functions.md"] = filled((DOCS / "functions.md").read_text(encoding="utf-8"))
    pages[DOCS / "schema" / "report.json"] = f"{json.dumps(report_schema(), indent=1)}\n"
    pages[DOCS / "images" / "first-repair.svg"] = picture()
    pages[DOCS.parent / "editors" / "vscode" / "syntaxes" / "onnx-rules.tmLanguage.json"] = textmate()
    return pages


def picture() -> str:
    """What the first command of the README does to its model."""
    model = DOCS.parent / "tests" / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"
    with TemporaryDirectory() as folder:
        drawn = Path(folder, "firing.svg")
        main_of_commands(["picture", str(model), "--firing", "1", "-o", str(drawn), "--no-config"])
        return drawn.read_text(encoding="utf-8")


def stale(pages: dict[Path, str]) -> list[Path]:
    """The pages that are not as they should be."""
    return sorted(p for p in pages if not p.exists() or p.read_text(encoding="utf-8") != pages[p])


# --- A rule ----------------------------------------------------------------------------------------------------------------


def rule_pages(rule: Rule) -> dict[str, str]:
    """The page of a rule by its name, and if it would be too long a second one for the tests after the first."""
    tests = [test_part(test) for test in rule.ast.tests]
    page = "\n\n".join([*rule_parts(rule), *tests]) + "\n"
    if page.count("\n") <= LONGEST:
        return {f"{rule.code}.md": page}
    heading = [
        f"# Tests of {rule.code} {rule.slug}",
        f"{plain(rule.title)}. The first test is on [the page of the rule]({rule.code}.md).",
    ]
    more = f"{len(tests) - 1} more tests are on [a page of their own]({rule.code}-tests.md)."
    page = "\n\n".join([*rule_parts(rule), *tests[:1], more]) + "\n"
    return {f"{rule.code}.md": page, f"{rule.code}-tests.md": "\n\n".join([*heading, *tests[1:]]) + "\n"}


def rule_parts(rule: Rule) -> list[str]:
    """What a rule does, when and why, and its text."""
    text = re.split(r"^test\b", rule.text, maxsplit=1, flags=re.MULTILINE)[0]
    rest = rule.doc.split("\n", 1)[1] if "\n" in rule.doc else ""
    parts = [f"# {rule.code} {rule.slug}", plain(rule.title), *map(paragraph, re.split(r"\n\s*\n", rest.strip()))]
    shown = [(name, value) for name, value in facts(rule) if name not in ("issue", "symptom")]
    parts.append("\n".join(["| | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in shown)]))
    if rule.header.symptoms:
        parts += ["## Symptom", block("\n".join(rule.header.symptoms), "text")]
    if rule.issues:
        parts += ["## Upstream", "\n".join(f"- <{issue}>" for issue in rule.issues)]
    path = source_path(rule)
    parts += ["## The rule", f"[rules/{path}](../../rules/{path})", block(undocumented(text), "rules")]
    return [part for part in parts if part]


def test_part(test: Test) -> str:
    """The model of a test, before and after."""
    parts = [f"## Test: {plain(test.title)}", block(lines(test.before), "text")]
    parts += ["stays as it is."] if test.after is None else ["becomes", block(lines(test.after), "text")]
    return "\n\n".join(parts)


def undocumented(text: str) -> str:
    """The text of a rule without its doc comment, which the page shows already."""
    return re.sub(r"\A(\s*///[^\n]*\n)+", "", text).strip()


def lines(model: str) -> str:
    """A test's model without the margin that it has in the rule file."""
    first, *rest = model.strip().split("\n")
    return "\n".join([first, dedent("\n".join(rest))]).strip()


def paragraph(text: str) -> str:
    """A paragraph of a doc comment; the lines that begin with a word and a colon stay lines of their own."""
    label = re.compile(r"^(Why|Fix|Exporters|Guard|Safe because|Symptom|Consumers?): ")
    found = [label.sub(r"- **\1:** ", plain(line.strip())) for line in text.split("\n")]
    return "\n".join(found) if text.strip() else ""


# --- The catalogue of defects ----------------------------------------------------------------------------------------------


def catalogue(groups: dict[str, list[dict[str, object]]], rules: Sequence[Rule]) -> str:
    """Every known defect: the rules that repair it, or why there is none."""
    by_code = {rule.code: rule for rule in rules}
    entries = [entry for group in groups.values() for entry in group]
    covered = sum(bool(entry["rules"]) for entry in entries)
    reasons = {word: sum(entry.get("why") == word for entry in entries) for word in NO_RULE}
    counted = (f"| {reason} | {reasons[word]} |" for word, reason in NO_RULE.items() if reasons[word])
    parts = [
        "# Known defects of exporters",
        f"Use this page to find out whether a defect that you know is repaired. It lists {len(entries)} defects from issue "
        f"threads, by exporter. {covered} of them have rules. `fix` does not run all of these rules by default: some run with "
        "`--target`, some in `rewriter optimize`, and some only if you select them. `rewriter rule CODE` prints a rule, and "
        "how it runs. If you have an error message, [search for the message](symptoms.md) instead. [Open defects](open.md) "
        "has more defects without a rule.",
        "\n".join(["| no rule, because | defects |", "|---|---|", *counted]),
        "Groups: " + ", ".join(f"[{name}](#{name})" for name in groups) + ".",
    ]
    for name, group in groups.items():
        rows = (f"| {entry['id']} | {' | '.join(map(str, answer(entry, by_code)))} |" for entry in group)
        parts += [
            f"## {name}",
            "\n".join(["| defect | rules | what the first rule repairs, and limits |", "|---|---|---|", *rows]),
        ]
    parts.append("Next: [all rules](rules.md), or [defects that stay open](open.md).")
    return "\n\n".join(parts) + "\n"


def answer(entry: dict[str, object], by_code: dict[str, Rule]) -> tuple[str, str]:
    """The rules for a defect, and the title of the first or why there is none, with the entry's note."""
    codes = entry["rules"]
    assert isinstance(codes, list)
    rules = [by_code[str(code)] for code in codes]
    said = rules[0].title if rules else f"No rule: {NO_RULE[str(entry['why'])]}."
    return links(rules, "../"), cell(" ".join(filter(None, (said, str(entry.get("note", ""))))))


# --- The tables of functions, faults and messages --------------------------------------------------------------------------


def filled(text: str) -> str:
    """The text with its tables made again."""

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}\n" + "\n".join(TABLES[found[2]]()) + f"\n{found[3]}"

    return re.sub(r"(?s)(<!-- made: (\w+) -->)\n.*?(<!-- end -->)", made, text)


def faults() -> Iterator[str]:
    yield from ("| fault | names | repaired by |", "|---|---|---|")
    for fault in FAULTS.values():
        rule = ", in rules of kind `interface`" if fault.interface else ""
        yield f"| `model.{fault.name}` | {cell(fault.doc)} | {cell(fault.mended)}{rule} |"


def functions() -> Iterator[str]:
    yield from ("| function | returns |", "|---|---|")
    for function in FUNCTIONS.values():
        yield f"| `{function.signature.replace('|', ' or ')}` | {cell(function.doc)} |"


def codes() -> Iterator[str]:
    yield from ("| code | meaning |", "|---|---|")
    for page in message_pages().values():
        yield f"| {page.code} | {cell(page.title)} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"faults": faults, "functions": functions, "codes": codes}

if __name__ == "__main__":
    sys.exit(main())
