"""HTML pages that are one file and fetch nothing: a report, and the viewer of models.

The only script of a report is the filter, and the page follows the screen's light or dark mode.

Firings are folded by model and rule. A browser lays out and paints a fold only when you open it, so a page with ten thousand
firings opens at once. Firings whose surroundings were kept have pictures.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice
from typing import Any

from rewriter.app.report import svg
from rewriter.app.report.document import (
    FileRole,
    ModelRecord,
    Report,
    RuleRecord,
    TotalsRecord,
    by_rule,
    columns_of,
    ending,
    has_something,
    place_text,
    rolled_place,
    severity,
    status_text,
    verb,
    verdict_of,
)
from rewriter.app.report.drawing import pair
from rewriter.app.report.svg import LEAST, panel
from rewriter.app.style import clean
from rewriter.core.errors import counted
from rewriter.core.log import Change, Condition, Firing, Snapshot, Weight

# The styles of the HTML report, with the colours of the pictures, and its one script, the filter.


def _part(name: str) -> str:
    """A file of the folder `html`."""
    return (files(__package__) / "html" / name).read_text(encoding="utf-8")


STYLE = svg.COLORS + svg.STYLE + "".join(_part("report.css").splitlines())
SCRIPT = "".join(line.strip() + "\n" for line in _part("filter.js").splitlines())

POLICY = (
    f"default-src 'none'; script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'; "
    "style-src 'unsafe-inline'; img-src data:"
)
"""The content that a browser may use: the page's styles, and this script by its hash. Scripts in a model's names do not run."""


def filter_bar(report: Report) -> str:
    """The text field, and for several models the statuses that occur."""
    statuses = "".join(f'<option value="{word}">{status_text(word)}</option>' for word in report.summary.statuses)
    choice = f'<select id="status" aria-label="status"><option value="">any status</option>{statuses}</select>'
    field = '<input id="find" type="search" placeholder="filter by model, rule, node, text ( / )" aria-label="filter">'
    return (
        f'<p class="filter">{field}{choice if len(report.models) > 1 else ""}<span id="told" aria-live="polite"></span></p>\n'
    )


# Texts of the HTML report: prose of rules with code spans, links to upstream threads, paths without private folders.

_CODE = re.compile("`([^`]+)`")
_LINK = re.compile(r"https://[\w.-]+(/[\w./?=&#%+~:@-]*)?")


def prose(text: str) -> str:
    """Prose of a rule or of this program; text between backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(clean(text)))


def issue_link(issue: str, shown: str = "") -> str:
    """An upstream thread, as a link if it is only a web address."""
    text = escape(shown or clean(issue))
    return f'<a href="{escape(issue)}" rel="noreferrer">{text}</a>' if _LINK.fullmatch(issue) else escape(clean(issue))


def shortened(pieces: Iterable[str], report: Report) -> Iterator[str]:
    """The page without the folder that all absolute paths of models and results share, and with ~ for the user's folder.

    Reports are sent to others, who should not see the folders of the machine.
    """
    paths = [path for model in report.models for path in (model.path, model.output) if path and os.path.isabs(path)]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    except ValueError:  # several drives
        common = ""
    folders = {os.path.expanduser("~"): os.path.join("~", ""), common: ""}
    short_names = {escape(clean(os.path.join(folder, ""))): short for folder, short in folders.items() if len(folder) > 1}
    whole = re.compile(
        "|".join(rf"(?<![\w.~/\\-]){re.escape(folder)}" for folder in sorted(short_names, key=len, reverse=True))
    )
    yield from (whole.sub(lambda found: short_names[found[0]], piece) if short_names else piece for piece in pieces)


# The descriptions of rules in an HTML report: their comments are at its end, and each code on the page links to them.
#
# A report may be read without rewriter and without a network, so it contains the descriptions of all rules that it names.

_BREAK = re.compile(r"\n\s*\n|\n(?=(?:[A-Z]\w+|Safe because): )")
"""Between paragraphs, and before the lines that begin with a word and a colon, such as `Exporters:`."""


def code_link(report: Report, code: str, shown: str = "") -> str:
    """A code, or the text shown for it, as a link to the description of the rule."""
    shown = shown or f"<code>{escape(clean(code))}</code>"
    return shown if report.rule(code) is None else f'<a href="#rule-{escape(clean(code))}">{shown}</a>'


def rule_texts(report: Report) -> Iterator[str]:
    """The descriptions of the rules that the page names."""
    if report.rules:
        yield '<section class="about"><h2>About the rules</h2>\n'
        yield from map(_rule, report.rules)
        yield "</section>\n"


def _rule(rule: RuleRecord) -> str:
    who = " ".join([*rule.exporters, rule.versions or ""]).strip()
    facts = " &middot; ".join(escape(clean(fact)) for fact in (rule.kind, f"phase {rule.phase}", who) if fact)
    texts = [f"<p>{prose(' '.join(part.split()))}</p>" for part in _BREAK.split(rule.description) if part.strip()]
    texts += [f"<p>Symptom: <code>{escape(clean(symptom))}</code></p>" for symptom in rule.symptoms]
    texts += [f'<p class="issue">{issue_link(issue)}</p>' for issue in rule.issues]
    head = f'<h3 id="rule-{escape(clean(rule.code))}" tabindex="-1">{escape(clean(rule.code))} {escape(clean(rule.slug))}</h3>'
    return f'{head}<p><b>{prose(rule.title)}</b> <span class="dim">{facts}</span></p>{"".join(texts)}\n'


OPEN = 12
"""The most firings of a report that are shown unfolded."""

CHUNK = 250  # firings in one fold
LISTED = 200  # rows of a table, entries of a list


def report_pieces(report: Report) -> Iterator[str]:
    """The whole page."""
    total = sum(report.summary.firings.values())
    title = f"rewriter {report.command}: {counted(total, verb(report))} in {counted(report.summary.models, 'model')}"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
    yield f"<title>{_t(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    yield from shortened(_body(report), report)
    yield f"<script>{SCRIPT}</script>\n</body>\n</html>\n"


def _body(report: Report) -> Iterator[str]:
    yield "<header>"
    yield from _top(report)
    yield "</header>\n<main>\n"
    if report.summary.firings or len(report.models) > 1:
        yield filter_bar(report)
    if report.summary.firings:
        yield from _rules(report)
    if len(report.models) > 1:
        yield from _fleet(report)
        yield from _models(report)
    for place, model in enumerate(report.models):
        if has_something(model):
            yield from _model(report, model, place)
    yield from rule_texts(report)
    yield "</main>\n"
    digest = report.rule_set.sha256
    yield f"<footer>rewriter {_t(report.version)} &middot; {counted(report.rule_set.rules, 'rule')} selected &middot; "
    yield f"their digest <code>{_t(digest)}</code><br><code>rewriter rule CODE</code> shows a rule with its tests.</footer>\n"


def _top(report: Report) -> Iterator[str]:
    summary, total = report.summary, sum(report.summary.firings.values())
    yield f'<p class="eyebrow">rewriter {report.command}</p>'
    name = clean(next(iter(report.models)).path) if len(report.models) == 1 else counted(summary.models, "model")
    yield f"<h1>{escape(name)}</h1>"
    yield from _headline(report)
    yield '<ul class="cards">'
    yield _card(f"{total:,}", verb(report) + ("" if total == 1 else "s"), "" if report.command == "check" else "good")
    yield _card(f"{len(summary.firings):,}", "rule" if len(summary.firings) == 1 else "rules")
    for word, count in summary.statuses.items():
        if len(report.models) > 1 or word in ("failed", "refused"):
            yield _card(f"{count:,}", status_text(word), "bad" if word in ("failed", "refused") else "")
    if summary.rolled_back:
        yield _card(f"{summary.rolled_back:,}", "rolled back", "bad")
    yield _card(f"{summary.seconds:.1f}", "seconds")
    yield _card(str(report.exit_code), "exit code", "bad" if report.exit_code >= 2 else "")
    yield "</ul>"


def _headline(report: Report) -> Iterator[str]:
    """How many models ONNX Runtime rejected, and how many of them load now."""
    total = report.summary.fleet.total
    if not total.refused_before:
        return
    word = "rejects" if report.command == "check" else "rejected"
    one = total.models == 1
    parts = [f"ONNX Runtime {word} {'the model' if one else counted(total.refused_before, 'model')}"]
    if report.command != "check":
        loads, rejected = (
            ("it loads now", "it still does")
            if one
            else (
                f"{total.loads_now:,} {'loads' if total.loads_now == 1 else 'load'} now",
                f"{total.still_refused:,} still rejected",
            )
        )
        parts += [f'<b class="good">{loads}</b>'] if total.loads_now else []
        parts += [f'<b class="bad">{rejected}</b>'] if total.still_refused else []
    yield f'<p class="headline">{", ".join(parts)}</p>'


def _card(value: str, word: str, kind: str = "") -> str:
    return f'<li class="{kind}"><b>{value}</b><span>{_t(word)}</span></li>'


def _rules(report: Report) -> Iterator[str]:
    most = max(report.summary.firings.values())
    yield '<section><h2>By rule</h2><div class="wide" tabindex="0"><table><thead><tr><th>rule</th>'
    yield '<th>what it is about</th><th class="wider">kind</th>'
    yield f'<th class="num">{verb(report)}s</th></tr></thead><tbody>'
    for code, count in sorted(report.summary.firings.items(), key=lambda item: -item[1]):
        rule = report.rule(code)
        title, kind, issues = (rule.title, rule.kind, rule.issues) if rule is not None else ("", "", ())
        bar = f'<span class="bar" style="width:{max(count / most * 100, 2):.0f}%"></span>'
        links = "".join(f" {issue_link(issue, str(n))}" for n, issue in enumerate(issues, 1))
        yield f'<tr data-rule="{_t(code)}"><td>{code_link(report, code, _code(report, code))}</td>'
        yield f'<td>{prose(title)}<span class="issue">{links}</span></td>'
        yield f'<td class="wider">{_t(kind)}</td>'
        yield f'<td class="num">{count:,}{bar}</td></tr>'
    yield "</tbody></table></div></section>\n"


def _fleet(report: Report) -> Iterator[str]:
    """Counts of models by exporter, folder and rule, and why ONNX Runtime still rejects some."""
    fleet, columns = report.summary.fleet, columns_of(report)
    yield '<section><h2>At a glance</h2><div class="wide" tabindex="0"><table><thead><tr><th>group</th>'
    yield "".join(f'<th class="num">{_t(name)}</th>' for name in columns.values()) + "</tr></thead><tbody>"
    yield _totals("all", fleet.total, columns)
    for word, group in (("exporter", fleet.exporters), ("folder", fleet.folders), ("rule", fleet.rules)):
        if group:
            yield f'<tr><th colspan="{len(columns) + 1}">by {word}</th></tr>'
        yield from (_totals(name, totals, columns) for name, totals in islice(group.items(), LISTED))
        if len(group) > LISTED:
            yield f'<tr><td class="dim">and {len(group) - LISTED:,} more</td></tr>'
    yield "</tbody></table></div>"
    if fleet.reasons:
        yield '<h3>Rejected by ONNX Runtime</h3><ul class="reasons">'
        for one in fleet.reasons[:LISTED]:
            yield f"<li><b>{counted(one.models, 'model')}</b>, {_t(one.example)} for one: {_t(one.reason)} "
            yield f'<span class="dim">rules: {_codes(report, one.answers) or "none"}</span></li>'
        yield "</ul>"
    yield "</section>\n"


def _totals(name: str, totals: TotalsRecord, columns: Iterable[str]) -> str:
    cells = (getattr(totals, column) for column in columns)
    return f'<tr><td class="path">{_t(name)}</td>' + "".join(f'<td class="num">{cell:,}</td>' for cell in cells) + "</tr>"


def _models(report: Report) -> Iterator[str]:
    yield '<section><h2>Models</h2><div class="wide" tabindex="0"><table><thead><tr>'
    yield "<th>model</th><th>status</th><th>result</th>"
    yield '<th class="num">firings</th><th class="wider">input</th><th class="wider">output</th></tr></thead><tbody>'
    for place, model in enumerate(report.models):
        name = f'<a href="#m{place}">{_t(model.path)}</a>' if has_something(model) else _t(model.path)
        attribute = f' data-model="m{place}"' if has_something(model) else ""
        yield f'<tr data-status="{model.status}"{attribute}><td class="path name">{name}</td>'
        yield f'<td><span class="status {model.status}">{status_text(model.status)}</span></td>'
        yield f'<td>{verdict_of(model, columns_of(report))}</td><td class="num">{sum(model.counts.values()):,}</td>'
        yield "".join(f'<td class="wider">{_hash(model, role)}</td>' for role in ("input", "output")) + "</tr>"
    yield "</tbody></table></div></section>\n"


def _hash(model: ModelRecord, role: FileRole) -> str:
    file = model.file(role)
    if file is None or file.sha256 is None:
        return '<span class="dim">&ndash;</span>'
    return f'<code title="{_t(file.sha256)}">{_t(file.sha256[:12])}</code>'


def _model(report: Report, model: ModelRecord, place: int) -> Iterator[str]:
    yield f'<section class="model" id="m{place}" data-status="{model.status}">'
    heading = _t(model.path) if len(report.models) > 1 else "What happened"
    yield f'<h2><span class="name">{heading}</span> <span class="status {model.status}">{status_text(model.status)}</span></h2>'
    if model.error:
        yield f'<p class="alert bad">{_t(model.error)}</p></section>\n'
        return
    yield from _facts(model)
    if model.refused:
        words, codes = model.repair
        rules = f"{words} {_codes(report, codes)}".rstrip()
        yield f'<p class="alert bad"><b>Rejected by ONNX Runtime</b> {_t(model.refused)} <em>{rules}</em></p>'
    for rolled in model.rolled_back:
        yield f'<div class="alert bad"><b>Rolled back</b> {code_link(report, rolled.rule)} {_t(rolled_place(rolled))}: '
        yield f"{_t(rolled.reason)}{_diff(rolled.changes)}</div>"
    for stop in model.stops:
        yield f'<p class="alert bad"><b>Stopped</b> {_t(stop.message)}</p>'
    unfolded = len(model.firings) <= OPEN and len(report.models) == 1
    groups = by_rule(model.firings)
    pictured = sum(firing.snapshot is not None for firing in model.firings)
    if 0 < pictured < len(model.firings):
        yield f'<p class="dim">Pictures: {pictured:,} of {len(model.firings):,}, of the first firings of each rule.</p>'
    for code, firings in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield from _group(report, code, firings, place, unfolded=unfolded)
    yield from _others(report, model)
    yield "</section>\n"


def _facts(model: ModelRecord) -> Iterator[str]:
    rows = [("exporter", model.exporter or "unknown"), ("source", model.source or ""), ("written to", model.output or "")]
    rows.append(("ended", ending(model.stop)))
    rejections = [f"{one.judge}: {one.refusal}" for one in model.judged if one.refusal]
    if model.judged:
        accepting = "; ".join(one.judge for one in model.judged if one.refusal == "")
        rows.append(("accepted by", accepting or "no check"))
        rows += [("rejected by", text) for text in rejections]
    if model.verification is not None:
        rows += [("numbers", text) for text in model.verification.findings]
    yield '<dl class="facts">'
    yield from (f"<dt>{_t(name)}</dt><dd>{_t(text)}</dd>" for name, text in rows if text)
    for file in model.files[:LISTED]:
        digest = f"<code>{_t(file.sha256)}</code>" if file.sha256 else "not readable"
        size = f" {file.bytes:,} bytes" if file.bytes is not None else ""
        path = f'<span class="path">{_t(file.path)}</span><span class="dim">{size}</span>'
        yield f"<dt>{file.role}</dt><dd>{path}<br>{digest}</dd>"
    yield "</dl>"


def _group(report: Report, code: str, firings: Sequence[Firing], place: int, *, unfolded: bool) -> Iterator[str]:
    yield f'<details class="rule"{" open" if unfolded else ""}><summary>{_code(report, code)}'
    yield f'<span class="title">{prose(firings[0].title)}</span><span class="count">{len(firings):,}</span></summary>'
    if report.rule(code) is not None:
        yield f'<p class="issue">{code_link(report, code, f"About {_t(code)}")}</p>'
    if len(firings) <= CHUNK:
        yield from (_firing(firing, place, unfolded=unfolded) for firing in firings)
    else:
        rest = iter(firings)
        while chunk := list(islice(rest, CHUNK)):
            yield f'<details class="chunk"><summary>{chunk[0].number:,} to {chunk[-1].number:,}</summary>'
            yield from (_firing(firing, place, unfolded=False) for firing in chunk)
            yield "</details>"
    yield "</details>\n"


def _code(report: Report, code: str) -> str:
    """The code of a rule: green if it repaired something, in the colour of its severity if it would only fire."""
    return f'<code class="code {severity(report, code) if report.command == "check" else "good"}">{_t(code)}</code>'


def _firing(firing: Firing, place: int, *, unfolded: bool) -> str:
    verdict = "" if firing.verdict == "found" else f'<span class="verdict {firing.verdict}">{firing.verdict}</span>'
    head = f'<span class="number">{firing.number:,}</span><span class="place">{_t(place_text(firing))}</span>{verdict}'
    parts = [f'<details class="firing" id="m{place}f{firing.number}"{" open" if unfolded else ""}><summary>{head}</summary>']
    if firing.snapshot is not None:
        parts.append(before_and_after(firing.snapshot))
    parts.append(_diff(firing.changes, firing.omitted))
    parts.append(_conditions(firing.conditions))
    parts.append(_weights(firing.weights))
    parts.append(_trail(firing, place))
    return "".join([*parts, "</details>"])


def before_and_after(snapshot: Snapshot) -> str:
    """Two pictures of one firing in one scale, next to each other if there is room for both."""
    parts = []
    for drawing, word in zip(pair(snapshot), ("before", "after"), strict=True):
        picture, width = panel(drawing, word)
        room = f"flex:{width:.0f} 1 {width * LEAST + 34:.0f}px"
        parts.append(f'<figure style="{room}"><figcaption>{word}</figcaption><div tabindex="0">{picture}</div></figure>')
    return f'<div class="pair">{"".join(parts)}</div>'


def _diff(changes: Sequence[Change], omitted: int = 0) -> str:
    lines = []
    for change in changes:
        if change.before is not None:
            lines.append(f"<del>{_t(change.before)}</del>")
        if change.after is not None:
            lines.append(f"<ins>{_t(change.after)}</ins>")
    if omitted:
        lines.append(f"<span>and {counted(omitted, 'more change')}</span>")
    return f'<div class="diff" tabindex="0">{"".join(lines)}</div>' if lines else ""


def _conditions(conditions: Sequence[Condition]) -> str:
    if not conditions:
        return ""
    rows = (f"<dt>{_t(c.text)}</dt><dd>{_t(c.found or c.value)}</dd>" for c in conditions)
    return f'<h3>Because</h3><dl class="where">{"".join(rows)}</dl>'


def _weights(weights: Sequence[Weight]) -> str:
    if not weights:
        return ""
    rows = (
        f'<dt>{_t(weight.name)}</dt><dd><code title="{_t(weight.sha256)}">{_t(weight.text)}</code> {_t(weight.values)}'
        f'<span class="dim">{"" if weight.used == "both" else f" {weight.used} only"}</span></dd>'
        for weight in weights[:LISTED]
    )
    return f'<h3>Weights</h3><dl class="where">{"".join(rows)}</dl>'


def _trail(firing: Firing, place: int) -> str:
    facts = [firing.kind, f"phase {firing.phase}", f"{firing.microseconds:,.0f} \u00b5s"]
    after = ", ".join(f'<a href="#m{place}f{parent}">{parent}</a>' for parent in firing.parents)
    facts_text = _t(" \u00b7 ".join([*facts, *(["after "] if after else [])]))
    return f'<p class="dim trail">{facts_text}{after}</p>'


def _codes(report: Report, codes: Sequence[str]) -> str:
    return ", ".join(code_link(report, code, _t(code)) for code in codes)


def _others(report: Report, model: ModelRecord) -> Iterator[str]:
    lines = [
        f"<li><b>{'failed' if one.error else 'blocked'}</b> {code_link(report, one.rule)} "
        + f"{_t(place_text(one))}: {_t(one.reason)}"
        + (f' <span class="dim">{prose(one.remedy)}</span>' if one.remedy else "")
        + "</li>"
        for one in model.blocked[:LISTED]
    ]
    if len(model.blocked) > LISTED:
        lines.append(f"<li>and {len(model.blocked) - LISTED:,} more</li>")
    lines += [
        f"<li><b>suppressed</b> {code_link(report, one.rule)} {_t(place_text(one))}: {_t(one.reason)} "
        f'<span class="dim">{_t(one.origin)}</span></li>'
        for one in model.suppressed[:LISTED]
    ]
    lines += [
        f"<li><b>question</b> {code_link(report, one.rule)} {_t(place_text(one))}: {prose(one.text)} "
        f'<span class="dim">{prose(one.remedy)}</span></li>'
        for one in model.questions[:LISTED]
    ]
    lines += [f"<li><b>note</b> {_t(note)}</li>" for note in model.notes[:LISTED]]
    if lines:
        yield f'<details class="others"><summary>{counted(len(lines), "further remark")}</summary>'
        yield f"<ul>{''.join(lines)}</ul></details>"


def _t(text: str) -> str:
    return escape(clean(text))


# The page of the viewer: data, styles and scripts in one file, which makes no requests.

VIEWER_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
)
"""The browser blocks every request, also requests from texts in a model."""


def viewer_page(models: Sequence[dict[str, Any]], title: str, differences: Sequence[str] = ()) -> str:
    """One self-contained HTML page.

    Args:
        models: one or two of `inspect.viewed_graph.viewed_model`.
        title: plain text.
        differences: of two models, as plain texts: the differences in addition to the marked nodes.
    """
    contents = {"models": models, "differences": differences}
    data = json.dumps(contents, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    css, layout, visible, script = map(_part, ("viewer.css", "layout.js", "visible.js", "viewer.js"))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{VIEWER_POLICY}">
<title>{escape(title)}</title><style>{svg.COLORS}{svg.STYLE}
{css}</style></head><body>
<header><h1>{escape(title)}</h1><span class="grow"></span>
<input type="search" placeholder="search nodes, operators, tensors, rules" aria-label="search">
<button type="button" id="fit">fit</button></header>
<main><div id="graphs"><div id="panes"></div><section id="mark" aria-label="mark" tabindex="0" hidden></section></div>
<aside aria-live="polite" aria-label="details" tabindex="0"></aside></main>
<script type="application/json" id="data">{data}</script>
<script id="layout">{layout}</script>
<script>{visible}</script>
<script>{script}</script>
</body></html>
"""
