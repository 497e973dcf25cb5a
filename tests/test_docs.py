"""What the documentation says is so: made pages are up to date, examples compile and pass, codes and keys exist."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rewriter.app.cli.main import COMMANDS, main, make_parser
from rewriter.core.language.header import EVIDENCE
from rewriter.core.language.rules import LABELS
from rewriter.rule_tools.checks.header import KEYS
from rewriter.rule_tools.lint.rule_set import lint
from rewriter.rule_tools.load_rules import load_rules

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LANGUAGE = (DOCS / "language.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def build() -> ModuleType:
    sys.path.insert(0, str(DOCS))  # where it finds its own modules
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_made_pages_are_up_to_date(build: ModuleType) -> None:
    stale = [str(path.relative_to(ROOT)) for path in build.stale(build.build(list(load_rules([ROOT / "rules"]))))]
    assert not stale, f"run `python docs/build.py`; out of date: {stale}"


def test_the_examples_of_the_language_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = (LANGUAGE, *((DOCS / page).read_text(encoding="utf-8") for page in ("functions.md", "writing-rules.md")))
    examples = [found for text in texts for found in re.findall(r"^```rules\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]
    (tmp_path / "examples.rules").write_text("\n".join(examples))
    assert main(["test", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "error" in printed.err, "warning" in printed.err) == ("", False, False)
    assert [d.message for d in lint(load_rules([tmp_path]))] == []


def test_titles_of_rules_are_short_and_differ() -> None:
    """They head lists and reports; somebody who looks for a rule reads them first."""
    titles = [rule.title for rule in load_rules([ROOT / "rules"])]
    assert [title for title in titles if len(title) > 70] == [] and len(set(titles)) == len(titles)


def test_rules_say_why_what_and_why_it_is_safe() -> None:
    for rule in load_rules([ROOT / "rules"]):
        labels = list(rule.paragraphs)
        assert labels == [label for label in LABELS if label in labels], rule.code
        assert {"Why", "Fix", "Safe because"} <= set(labels), rule.code


def test_the_commands_that_read_a_configuration_are_named() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"`\[tool\.rewriter\]`\. ([^.]*) read it\.", page)
    options = {name: make_parser([name]).commands.choices[name]._option_string_actions for name in COMMANDS}
    assert set(re.findall(r"`([a-z-]+)`", told)) == {name for name, known in options.items() if "--config" in known}


def test_every_evidence_is_told() -> None:
    table = LANGUAGE.split("### Evidence")[1].split("### Guesses")[0]
    told = re.findall(r"^\| `(\w+)(?:\(\w+\))?` \|", table, re.MULTILINE)
    assert set(told) == set(EVIDENCE)
    page = (DOCS / "writing-rules.md").read_text(encoding="utf-8")
    assert all(f"`evidence: {name}`" in page for name in EVIDENCE)


def test_every_header_key_is_told() -> None:
    header = LANGUAGE.split("## The header")[1].split("## Patterns")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", header.split("### Kinds")[0], re.MULTILINE)) == set(KEYS)


def test_the_catalogue_names_rules_that_exist(build: ModuleType) -> None:
    codes = {rule.code for rule in load_rules([ROOT / "rules"])}
    groups = json.loads((DOCS / "catalogue.json").read_text(encoding="utf-8"))
    entries = [entry for group in groups.values() for entry in group]
    assert len({entry["id"] for entry in entries}) == len(entries) == 190
    for entry in entries:
        assert set(entry["rules"]) <= codes, entry["id"]
        assert bool(entry["rules"]) != (entry.get("why") in build.NO_RULE), entry["id"]


def test_ways_of_the_benchmark_of_peers_are_chosen_as_its_page_says() -> None:
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benchmarks" / "peers.py")
    assert spec is not None
    assert spec.loader is not None
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    assert "--only NAME,..." in peers.__doc__
    assert peers.chosen("rewriter,onnxsim") == ["rewriter", "onnxsim"]
    assert peers.chosen("rewriter, guarded,onnxscript, 1 rule") == ["rewriter, guarded", "onnxscript, 1 rule"]
    with pytest.raises(argparse.ArgumentTypeError, match="no way is called 'onnxsin'"):
        peers.chosen("onnxsin")


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(DOCS.glob("*.md")) if f"]({page.name})" not in index] == ["README.md"]


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", path.read_text(encoding="utf-8")):
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not anchor or page.suffix != ".md" or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"(?m)^#+ (.*)$", text)}


def test_lists_of_rules_and_messages_are_short_and_their_links_lead_somewhere(build: ModuleType) -> None:
    rules = list(load_rules([ROOT / "rules"]))
    pages = {path: text for path, text in build.build(rules).items() if path.suffix == ".md"}
    assert {path.name: text.count("\n") for path, text in pages.items() if text.count("\n") > build.LONGEST} == {}
    targets = {
        (path.parent / target, path) for path, text in pages.items() for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)
    }
    assert [target for target, _ in targets if not target.exists()] == []
    listed = {
        code for path, text in pages.items() if path.parent.name == "rules" for code in re.findall(r"^\| \[(\w+)\]", text, re.M)
    }
    assert listed == {rule.code for rule in rules}


def test_a_rule_with_many_tests_has_two_pages(build: ModuleType) -> None:
    rules = {rule.code: rule for rule in load_rules([ROOT / "rules"])}
    pages = build.rule_pages(rules["OPT010"])
    assert list(pages) == ["OPT010.md", "OPT010-tests.md"]
    assert sum(text.count("\n## Test: ") for text in pages.values()) == len(rules["OPT010"].ast.tests)
    assert all(text.count("\n") <= build.LONGEST for rule in rules.values() for text in build.rule_pages(rule).values())


def test_the_map_of_the_program_is_the_program() -> None:
    """Every folder, and every module at the top or of a tier itself; folders are named at the start of a line, or in it after
    their folder.
    """
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## How the program is laid out")[1]
    told, above = set[str](), dict[int, str]()
    for indent, heads, rest in re.findall(
        r"^(    +)((?:[\w.]+(?:/|\.py) ?)+)(.*)", text.split("Where a change goes")[0], re.MULTILINE
    ):
        below = above.get(len(indent) - 2, "")
        above[len(indent)] = below + heads.split()[0]
        told |= {below + head for head in heads.split()}
        told |= {above[len(indent)] + inner for inner in re.findall(r"\w+/", rest)}
    package = ROOT / "rewriter"
    folders = {f"{path.parent.relative_to(ROOT)}/" for path in package.rglob("*.py")}
    modules = {str(path.relative_to(ROOT)) for path in (*package.glob("*.py"), *package.glob("*/*.py"))}
    modules -= {f"{folder}__init__.py" for folder in folders - {"rewriter/"}}
    assert {place for place in told if place.startswith("rewriter/")} == folders | modules


def test_every_message_has_a_page_that_says_cause_exporter_remedy_and_what_else_to_do(build: ModuleType) -> None:
    rules = list(load_rules([ROOT / "rules"]))
    pages = build.symptom_pages(rules, build.plain)
    messages = {symptom.strip() for rule in rules for symptom in rule.header.symptoms}
    assert len(pages) == len(messages) >= 40
    assert {text.split("\n")[0] for text in pages.values()} == {f"# `{message}`" for message in messages}
    for name, text in pages.items():
        assert "What repairs it:" in text and "When no rule repairs the model" in text, name
        assert "Who writes it:" in text and "When it applies:" in text, name
        assert set(re.findall(r"\.\./rules/(\w+)\.md", text)) <= {rule.code for rule in rules}, name
    linked = importlib.import_module("symptom_pages").linked
    site = "".join(linked(text) for path, text in build.build(rules).items() if path.parent.name == "symptoms")
    assert set(re.findall(r"\]\(([^/)]+-\w{4}\.md)\)", site)) == set(pages)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they import of the package and of the rules is there, and each says how it is called."""
    pytest.importorskip("onnxruntime")
    monkeypatch.syspath_prepend(path.parent)  # as Python does for a script
    found = runpy.run_path(str(path), run_name="benchmark")
    assert f"python benchmarks/{path.name}" in found["__doc__"] and callable(found["main"])
