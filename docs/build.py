"""Writes the pages that are made from the rules and the tables of the program; nothing in them is written by hand.

    python docs/build.py            writes them
    python docs/build.py --check    names those that are out of date, and exits with 1 when there are any

Made are docs/rules.md (the index of rules), docs/symptoms.md (rules by error message), docs/catalogue.md from
docs/catalogue.json, the picture of the README's first repair, the schema of reports docs/schema/report.json, and the tables
between the `<!-- made: NAME -->` and `<!-- end -->` marks of docs/functions.md. Besides, docs/rules/ gets a page for each rule;
docs/symptoms/ one for each error message; these are not kept in git.
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

from report_schema import report_schema
from rewriter.app.cli.main import main as main_of_commands
from rewriter.app.editor.highlighting import textmate
from rewriter.app.report.rule_lines import facts
from rewriter.core.language.functions import FAULTS, FUNCTIONS
from rewriter.core.language.rule import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import message_pages
from symptom_pages import by_message, symptom_pages

DOCS = Path(__file__).parent
RULES = DOCS.parent / "rules"
TOOLS = ("ONNX Runtime", "checker", "TensorRT", "OpenVINO", "Core ML", "ncnn", "OpenCV", "tract")
"""Who refuses models, by the words for it in the doc comments of rules."""

NO_RULE = {
    "lost": "the information is lost",
    "converter": "belongs to a converter",
    "correct": "cannot be told from a correct model",
    "consumer": "a form that one consumer wants, not shipped",
    "engine": "done without a rule",
    "open": "no rule yet",
}
"""Why an entry of the catalogue has no rule."""


def names(text: str, tool: str) -> bool:
    """Whether a text has the name of a tool: "subtract" has none."""
    return re.search(rf"\b{tool}\b", text) is not None


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
    pages |= {DOCS / "rules" / f"{rule.code}.md": rule_page(rule) for rule in rules}
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
    pages = {DOCS / "rules.md": index(rules), DOCS / "symptoms.md": symptoms(rules)}
    pages[DOCS / "catalogue.md"] = catalogue(json.loads((DOCS / "catalogue.json").read_text(encoding="utf-8")), places(rules))
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


def places(rules: Sequence[Rule]) -> dict[str, str]:
    """Where each rule is, as a link of a page."""
    return {rule.code: f"../rules/{Path(rule.path).relative_to(RULES).as_posix()}" for rule in rules}


# --- A rule ----------------------------------------------------------------------------------------------------------------


def rule_page(rule: Rule) -> str:
    """What a rule does, when, why, and its tests as before and after."""
    tests, text = rule.ast.tests, re.split(r"^test\b", rule.text, maxsplit=1, flags=re.MULTILINE)[0]
    rest = rule.doc.split("\n", 1)[1] if "\n" in rule.doc else ""
    where = Path(rule.path).relative_to(RULES).as_posix()
    parts = [f"# {rule.code} {rule.slug}", plain(rule.title), *map(paragraph, re.split(r"\n\s*\n", rest.strip()))]
    shown = [(name, value) for name, value in facts(rule) if name not in ("issue", "symptom")]
    parts.append("\n".join(["| | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in shown)]))
    if rule.header.symptoms:
        parts += ["## Symptom", block("\n".join(rule.header.symptoms), "text")]
    if rule.issues:
        parts += ["## Upstream", "\n".join(f"- <{issue}>" for issue in rule.issues)]
    parts += ["## The rule", f"[rules/{where}](../../rules/{where})", block(undocumented(text), "rules")]
    for test in tests:
        parts += [f"## Test: {plain(test.title)}", block(lines(test.before), "text")]
        parts += ["stays as it is."] if test.after is None else ["becomes", block(lines(test.after), "text")]
    return "\n\n".join(part for part in parts if part) + "\n"


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


def plain(text: str) -> str:
    """Text that Markdown shows as it is; what stands between backticks does already."""
    return "`".join(re.sub(r"([<*\[\]])", r"\\\1", part) if i % 2 == 0 else part for i, part in enumerate(text.split("`")))


def cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def block(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


# --- The index -------------------------------------------------------------------------------------------------------------


def index(rules: Sequence[Rule]) -> str:
    """All rules by exporter, by target, and by who refuses the model."""
    default = sum(rule.default for rule in rules)
    parts = [
        "# The rules",
        f"{len(rules)} rules, of which {default} run by default; the others run for a consumer (`--target`) or when they are "
        "selected. [symptoms.md](symptoms.md) lists rules by error message.",
        "## By exporter",
    ]
    exporters = sorted({exporter for rule in rules for exporter in rule.exporters})
    for exporter in exporters:
        parts += [f"### {exporter}", table([rule for rule in rules if exporter in rule.exporters])]
    parts += ["### any", table([rule for rule in rules if not (rule.exporters or rule.targets)])]
    parts += ["### any, for [a target](targets.md)", table([rule for rule in rules if rule.targets])]
    parts.append("## By target")
    for target in sorted({target for rule in rules for target in rule.targets}):
        parts.append(f"- **{target}:** {', '.join(link(rule) for rule in rules if target in rule.targets)}")
    parts.append("## By who refuses the model")
    for tool in TOOLS:
        found = [rule for rule in rules if names(rule.doc, tool) or tool.lower().replace(" ", "") in rule.targets]
        if found:
            parts.append(f"- **{tool}:** {', '.join(map(link, found))}")
    repairs = [rule for rule in rules if rule.kind.name == "repair" and not rule.header.symptoms]
    silent = [rule for rule in repairs if not any(names(rule.doc, tool) for tool in TOOLS)]
    parts.append(f"- **nobody, the numbers are wrong:** {', '.join(map(link, silent))}")
    return re.sub(r"(?m)(^- .*)\n\n(?=- )", r"\1\n", "\n\n".join(parts)) + "\n"


def symptoms(rules: Sequence[Rule]) -> str:
    """Every error message that rules name, with what it means."""
    said = by_message(rules)
    parts = [
        "# Rules by error message",
        f"{len(said)} messages of ONNX Runtime, of the checker and of other consumers, and the rules that repair the models "
        "that they are about. `rewriter check MODEL` reports which rule applies to a model; `rewriter rules --symptom TEXT` "
        "searches this list; `rewriter why RULE MODEL` explains why a rule does not apply.",
    ]
    for text, found in said.items():
        parts.append(f"## `{text.strip()}`")
        parts.append("\n".join(f"- {link(rule)}{origin(rule)}: {plain(rule.title)}{how(rule)}" for rule in found))
    return "\n\n".join(parts) + "\n"


def origin(rule: Rule) -> str:
    return f" ({', '.join(rule.exporters)})" if rule.exporters else ""


def how(rule: Rule) -> str:
    """The command for a rule that does not run by default."""
    if rule.default:
        return ""
    return f" (`--target {rule.targets[0]}`)" if rule.header.on_target else f" (`--select DEFAULT,{rule.code}`)"


def table(rules: Sequence[Rule]) -> str:
    rows = (f"| {link(r)} | {r.kind.name} | {when(r)} | {cell(r.title)} |" for r in rules)
    return "\n".join(["| rule | kind | runs | what it does |", "|---|---|---|---|", *rows])


def when(rule: Rule) -> str:
    """What makes a rule run."""
    return "default" if rule.default else ", ".join(rule.targets) if rule.header.on_target else "selected"


def link(rule: Rule) -> str:
    return f"[{rule.code}]({places([rule])[rule.code]})"


# --- The catalogue of defects ----------------------------------------------------------------------------------------------


def catalogue(groups: dict[str, list[dict[str, object]]], where: dict[str, str]) -> str:
    """Every known defect: the rules that repair it, or why there is none."""
    entries = [entry for group in groups.values() for entry in group]
    covered = sum(bool(entry["rules"]) for entry in entries)
    reasons = {word: sum(entry.get("why") == word for entry in entries) for word in NO_RULE}
    counted = ", ".join(f"{count} {NO_RULE[word]}" for word, count in reasons.items() if count)
    parts = [
        "# Known defects of exporters, and what is done about them",
        f"{len(entries)} defects and quirks; rules answer {covered} of them. The others: {counted}.",
    ]
    for name, group in groups.items():
        rows = (f"| {entry['id']} | {answer(entry, where)} |" for entry in group)
        parts += [f"## {name}", "\n".join(["| defect | rules, or why none |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def answer(entry: dict[str, object], where: dict[str, str]) -> str:
    codes, note = entry["rules"], str(entry.get("note", ""))
    assert isinstance(codes, list)
    said = ", ".join(f"[{code}]({where[code]})" for code in codes) or NO_RULE[str(entry["why"])]
    return f"{said}: {cell(note)}" if note else said


# --- The tables of functions, faults and messages --------------------------------------------------------------------------


def filled(text: str) -> str:
    """The text with its tables made anew."""

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
