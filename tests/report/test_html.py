"""The HTML report: one file that asks for nothing, whatever the names in it want."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rewriter.app.report.document import ModelRecord
from rewriter.app.report.formats import text_of
from rewriter.app.report.report_page import SCRIPT, STYLE, issue_link
from rewriter.core.log import Stop
from tests.report.samples import HOSTILE, firing, hostile, model, report

VOID = {"meta", "link", "br", "input"}
KNOWN = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "h3", "ul",
    "li", "b", "br", "em", "span", "table", "thead", "tbody", "tr", "th", "td", "code", "a", "details", "summary", "dl", "dt",
    "dd", "div", "figure", "figcaption", "svg", "g", "rect", "path", "text", "del", "ins", "script", "input", "select", "option",
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
    assert all(link.startswith("#") or link in ("data:,", "https://example.com/1") for link in page.links)
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"(?is)<script.*?</script>", text) == [f"<script>{SCRIPT}</script>"]
    allowed = f"script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}';"
    assert allowed in text


def test_links_within_the_page_lead_somewhere_and_ids_are_unique() -> None:
    page = Reader(text_of(report(model("a.onnx"), model("b.onnx"), ModelRecord("c.onnx")), "html"))
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_every_code_leads_to_what_its_rule_is_about() -> None:
    told = replace(report().rules[0], description="It is `so`.\nGuard: a\nlong one.\n\nWhy.", symptoms=("no <b>",))
    whole = replace(report(), rules=(told, *report().rules[1:]))
    text = text_of(whole, "html")
    page = Reader(text)
    assert {"rule-TST001", "rule-TST002", "rule-TST003"} <= set(page.ids)
    assert {"#rule-TST001", "#rule-TST002", "#rule-TST003"} <= set(page.links)
    assert "<p>It is <code>so</code>.</p><p>Guard: a long one.</p><p>Why.</p><p>Symptom: <code>no &lt;b&gt;</code></p>" in text
    bare = Reader(text_of(replace(whole, rules=()), "html"))
    assert not [link for link in bare.links if link.startswith("#rule-")]
    assert not re.findall(r"<summary>(?:(?!</summary>).)*<a ", text)  # what can be clicked stands in nothing that can


def test_it_says_what_happened() -> None:
    text = text_of(report(), "html")
    for words in (
        "TST001", "A title", "n0 = Relu(x)", "rank(x) is 4", "float[3,5]#abababababab", "Rolled back", "onnx.checker: no",
        "division by zero", "Rejected by ONNX Runtime", "bad.onnx: no ONNX model", "wanted so", "cd" * 32,
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
    done = subprocess.run([BROWSER, *options, profile, (tmp_path / "r.html").as_uri()], capture_output=True, text=True)
    assert "What it is about" in done.stdout or "what it is about" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_the_headline_is_what_was_refused_and_loads_now() -> None:
    whole = report()
    total = replace(whole.summary.fleet.total, models=9, refused_before=3, loads_now=2, still_refused=1)
    told = replace(whole, summary=replace(whole.summary, fleet=replace(whole.summary.fleet, total=total)))
    wanted = 'ONNX Runtime rejected 3 models, <b class="good">2 load now</b>, <b class="bad">1 still rejected</b></p>'
    assert wanted in text_of(told, "html")
    assert "rejects 3 models</p>" in text_of(replace(told, command="check"), "html")
    none = replace(
        whole, summary=replace(whole.summary, fleet=replace(whole.summary.fleet, total=replace(total, refused_before=0)))
    )
    assert "headline" not in text_of(none, "html").split("</style>")[1]


def test_what_scrolls_can_be_reached_by_keyboard() -> None:
    text = text_of(report(), "html")
    assert text.count('<div class="diff"') == text.count('<div class="diff" tabindex="0"') > 0
    assert text.count('<div class="wide"') == text.count('<div class="wide" tabindex="0"') > 0


def test_code_in_the_words_of_a_rule_is_code_and_not_backticks() -> None:
    titled = replace(firing(1, "a"), title="MXNet's `x + 2` & more")
    text = text_of(report(replace(model(), firings=[titled])), "html")
    assert "MXNet&#x27;s <code>x + 2</code> &amp; more" in text and "`" not in text.split("<script>")[0]


def test_how_a_run_ended_is_told_in_words() -> None:
    stopped = replace(model(), stop="Time", stops=[Stop("Time", "the limit of 5 s was reached", (), ())])
    for form in ("html", "markdown"):
        text = text_of(report(stopped), form)
        assert "stopped at the time limit" in text and "topped Time" not in text and ": Time" not in text


def test_rules_are_sorted_by_count_and_green_where_they_repaired() -> None:
    rare, often = replace(firing(1, "a"), rule="AAA001"), [firing(n, f"n{n}") for n in (2, 3)]
    text = text_of(report(replace(model(), firings=[rare, *often])), "html")
    assert text.index('<span class="count">2<') < text.index('<span class="count">1<')
    assert '<code class="code good">TST001' in text and '<code class="code warning">' not in text.split("<main>")[1]
    assert '<code class="code warning">TST001' in text_of(report(command="check"), "html")


def test_upstream_threads_are_links_and_nothing_else_is() -> None:
    assert '<a href="https://example.com/1" rel="noreferrer">https://example.com/1</a>' in text_of(report(), "html")
    for hostile_link in ("javascript:alert(1)", 'https://a.b/"onclick=x', "http://a.b/c", "https://a.b/ c"):
        assert "<a" not in issue_link(hostile_link)


def test_no_absolute_path_is_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "me")
    monkeypatch.setenv("HOME", home)
    one = replace(model(f"{home}/in/a.onnx"), output=f"{home}/out/a.onnx", source=f"{home}/in/a-symbol.json")
    bad = ModelRecord(f"{home}/in/deep/b.onnx", status="failed", error=f"{home}/in/deep/b.onnx: no ONNX model")
    text = text_of(report(one, bad), "html")
    assert str(tmp_path) not in text
    assert all(f">{path}" in text for path in ("in/a.onnx", "out/a.onnx", "in/a-symbol.json", "in/deep/b.onnx: no ONNX"))
    far = text_of(report(replace(one, output="/elsewhere/a.onnx"), bad), "html")
    assert str(tmp_path) not in far


def test_wide_tables_scroll_and_their_lesser_columns_go_on_a_phone() -> None:
    assert ".wide{overflow-x:auto}" in STYLE
    phone = STYLE.split("@media (max-width:640px){")[1]
    assert ".wider{display:none}" in phone
    assert "td.path{min-width:" in STYLE  # else a table of ten columns leaves a path the width of one letter
    page = text_of(report(), "html")
    assert page.count("<table>") == page.count('<div class="wide" tabindex="0"><table>') > 0
