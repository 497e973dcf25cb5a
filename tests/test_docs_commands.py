"""Command lines and Python of the pages: all of them are accepted by the program's own parser, and most of them run."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import webbrowser
from pathlib import Path

import onnxruntime
import pytest

from rewriter.app.cli.main import COMMANDS, main, make_parser

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
transcripts = importlib.import_module("transcripts")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_accepted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command in transcripts.lines_of(text):
        if "[" in command:  # a synopsis
            continue
        try:
            make_parser(transcripts.words_of(command)[:1]).read(transcripts.words_of(command))
        except SystemExit as end:
            assert end.code == 0, command
    for command in re.findall(r"`rewriter ([^`\n]*)`", text):
        name, *rest = shlex.split(command)
        assert name in COMMANDS or not name.islower(), command
        known = make_parser([name]).commands.choices[name]._option_string_actions if name in COMMANDS else {}
        assert [word for word in rest if word.startswith("--") and word not in known] == [], command


BY_CI = re.findall(r"[\w.-]+\.md", re.findall(r"transcripts\.py --check (.*)", (ROOT / ".ci" / "run").read_text())[0])
"""The pages whose commands .ci/run types in an environment of their own."""


def test_ci_runs_pages_that_exist() -> None:
    assert set(BY_CI) < transcripts.NETS.keys()


@pytest.mark.parametrize("page", [page for page in transcripts.NETS if page not in BY_CI])
def test_transcripts_are_what_the_commands_print(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python docs/transcripts.py` writes them."""
    if page == "first-rule.md" and tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32):
        pytest.skip("the transcript of verify lists the opsets that ONNX Runtime 1.32 has")
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    assert transcripts.played(page) == transcripts.page_path(page).read_text(encoding="utf-8")


def test_a_transcript_is_other_where_a_word_or_a_number_is() -> None:
    assert transcripts.is_same("    1 model: 1 clean; 0.3 s\n", "1 model: 1 clean; 12 s")
    assert transcripts.is_same("    a\n    ...\n", "a\nb\nc")
    assert not transcripts.is_same("    1 model: 1 clean; 0.3 s\n", "1 model: 2 clean; 0.3 s")
    assert not transcripts.is_same("    a\n", "a\nb")


def test_a_plan_is_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcripts.prepare("plan.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "net.onnx", "-o", "plan.toml"]) == 0
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "plan.md").read_text(), re.DOTALL | re.MULTILINE)
    wanted = re.sub(r'"[0-9a-f]{16}"', '"[0-9a-f]{16}"', re.escape(shown).replace(r"\.\.\.", ".*"))
    assert re.search(wanted, Path("plan.toml").read_text(), re.DOTALL)
