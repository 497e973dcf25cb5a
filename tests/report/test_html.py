"""The HTML report: one file that asks for nothing, whatever the names in it want."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rewriter.report.document import ModelRecord
from rewriter.report.formats import text_of
from tests.report.samples import HOSTILE, firing, hostile, model, report

VOID = {"meta", "link", "br"}
KNOWN = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "h3", "ul",
    "li", "b", "br", "em", "span", "table", "thead", "tbody", "tr", "th", "td", "code", "a", "details", "summary", "dl", "dt",
    "dd", "div", "figure", "figcaption", "svg", "g", "rect", "path", "text", "del", "ins",
}  # fmt: skip
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Reader(HTMLParser):
    """Tags, ids and links of a page; complains of what does not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "srcset", "action", "data", "xlink:href"):
                self.links.append(str(value))
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("command", ["fix", "check"])
@pytest.mark.parametrize("name", ["n", *HOSTILE])
def test_no_name_becomes_markup(name: str, command: str) -> None:
    text = text_of(hostile(name, command), "html")
    page = Reader(text)
    assert page.tags <= KNOWN
    assert page.handlers == []
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert "url(" not in text
    assert "@import" not in text
    assert "<script" not in text.lower()


def test_links_within_the_page_lead_somewhere_and_ids_are_unique() -> None:
    page = Reader(text_of(report(model("a.onnx"), model("b.onnx"), ModelRecord("c.onnx")), "html"))
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_it_says_what_happened() -> None:
    text = text_of(report(), "html")
    for words in (
        "TST001", "A title", "n0 = Relu(x)", "rank(x) is 4", "float[3,5]#abababababab", "Rolled back", "onnx.checker: no",
        "division by zero", "Refused by ONNX Runtime", "bad.onnx: no ONNX model", "wanted so", "cd" * 32,
        "prefers-color-scheme:dark", "content-visibility:auto", 'name="viewport"', "default-src &#x27;none&#x27;",
    ):  # fmt: skip
        assert words in text or words.replace("&#x27;", "'") in text, words
    assert text.count('<svg class="rw"') == 22  # before and after of eleven firings


def test_the_number_of_pictures_is_told_when_some_are_left_out() -> None:
    some = replace(model(), firings=[firing(1, "a"), replace(firing(2, "b"), snapshot=None)])
    assert "Pictures: 1 of 2, of the first firings of each rule." in text_of(report(some), "html")
    assert "Pictures:" not in text_of(report(model()), "html")


def test_ten_thousand_firings() -> None:
    many = [replace(firing(n + 1, f"n{n}"), snapshot=None) for n in range(10_000)]
    started = time.process_time()
    text = text_of(report(replace(model(), firings=many)), "html")
    assert time.process_time() - started < 20
    assert len(text) < 20_000_000
    assert text.count('<details class="chunk">') == 40
    assert len(re.findall(r'<details class="firing" id="[^"]*" open>', text)) == 0


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_a_browser_has_nothing_to_complain_of(tmp_path: Path) -> None:
    assert BROWSER is not None
    (tmp_path / "r.html").write_text(text_of(report(), "html"), encoding="utf-8")
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--dump-dom",
        "--virtual-time-budget=2000",
    ]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [BROWSER, *options, profile, (tmp_path / "r.html").as_uri()], capture_output=True, text=True, timeout=120
    )
    assert "What it is about" in done.stdout or "what it is about" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_the_headline_is_what_was_refused_and_loads_now() -> None:
    whole = report()
    total = replace(whole.summary.fleet.total, models=9, refused_before=3, loads_now=2, still_refused=1)
    told = replace(whole, summary=replace(whole.summary, fleet=replace(whole.summary.fleet, total=total)))
    wanted = 'ONNX Runtime refused 3 models, <b class="good">2 load now</b>, <b class="bad">1 still refused</b></p>'
    assert wanted in text_of(told, "html")
    assert "refuses 3 models</p>" in text_of(replace(told, command="check"), "html")
    none = replace(
        whole, summary=replace(whole.summary, fleet=replace(whole.summary.fleet, total=replace(total, refused_before=0)))
    )
    assert "headline" not in text_of(none, "html").split("</style>")[1]


def test_what_scrolls_can_be_reached_by_keyboard() -> None:
    text = text_of(report(), "html")
    assert text.count('<div class="diff"') == text.count('<div class="diff" tabindex="0"') > 0
    assert text.count('<div class="wide"') == text.count('<div class="wide" tabindex="0"') > 0
