"""A report as one HTML file: nothing is fetched, no script runs but its filter, and it is light or dark as the screen is.

Firings are grouped by model and rule and folded up, which a browser neither lays out nor paints until somebody opens them; so a
page with ten thousand of them opens at once. Pictures are there for those firings whose surroundings were kept.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice

from rewriter.app.report.document import (
    COLUMNS,
    ModelRecord,
    Report,
    RuleRecord,
    TotalsRecord,
    by_rule,
    ending,
    has_something,
    number,
    place_text,
    rolled_place,
    severity,
    status_text,
    verb,
    verdict_of,
)
from rewriter.app.report.picture import svg
from rewriter.app.report.picture.drawing import pair
from rewriter.app.report.picture.svg import LEAST, panel
from rewriter.core.log import Change, Condition, Firing, Snapshot, Weight
from rewriter.workbench.style import clean

# How the HTML report looks; its colours are those of the pictures.

_PAGE = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:0 24px 64px;max-width:1180px;background:var(--rw-bg);color:var(--rw-ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
code,.path,.place,.diff,.where dt{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
font-size:.86em}
a{color:var(--rw-same)}
header{padding:44px 0 8px}
.eyebrow{margin:0;color:var(--rw-dim);font-size:12px;font-weight:600;letter-spacing:.08em;text-transform:uppercase}
h1{margin:4px 0 22px;font-size:27px;line-height:1.25;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{margin:44px 0 14px;font-size:18px;letter-spacing:-.01em;overflow-wrap:anywhere}
h3{margin:16px 0 4px;color:var(--rw-dim);font-size:11px;font-weight:600;letter-spacing:.07em;text-transform:uppercase}
.cards{display:flex;flex-wrap:wrap;gap:10px;margin:0;padding:0;list-style:none}
.cards li{min-width:104px;padding:11px 16px 10px;border:1px solid var(--rw-rim);border-radius:10px;background:var(--rw-box)}
.cards b{display:block;font-size:22px;font-weight:650;line-height:1.2;font-variant-numeric:tabular-nums}
.cards span{color:var(--rw-dim);font-size:13px}
.headline{margin:-10px 0 22px;font-size:18px}.headline .good{color:var(--rw-in)}.headline .bad{color:var(--rw-out)}
.cards .good b{color:var(--rw-in)}.cards .bad b{color:var(--rw-out)}
.wide{overflow-x:auto}
.filter{display:flex;flex-wrap:wrap;gap:10px;align-items:center;margin:30px 0 -14px}
.filter input,.filter select{padding:8px 12px;border:1px solid var(--rw-rim);border-radius:8px;background:var(--rw-box);
color:inherit;font:inherit}.filter input{flex:1 1 240px;min-width:0}#told{color:var(--rw-dim);font-size:13px}
[hidden]{display:none!important}td .issue{margin:0}
table{width:100%;border-collapse:collapse;font-size:14px}
th{padding:0 12px 7px 0;color:var(--rw-dim);font-size:12px;font-weight:600;text-align:left;white-space:nowrap}
td{padding:8px 12px 8px 0;border-top:1px solid var(--rw-rim);vertical-align:top}
td.path{min-width:11em;overflow-wrap:anywhere}
.num{padding-left:12px;padding-right:0;text-align:right;font-variant-numeric:tabular-nums;min-width:84px}
.num+.wider{padding-left:32px}
.bar{display:block;height:3px;margin:4px 0 0 auto;border-radius:2px;background:var(--rw-same);opacity:.65}
.dim{color:var(--rw-dim)}
.code{padding:2px 7px;border-radius:5px;border:1px solid var(--rw-rim);font-weight:600;white-space:nowrap}
.code.good{border-color:var(--rw-in);color:var(--rw-in);background:var(--rw-in-bg)}
.code.error{border-color:var(--rw-out);color:var(--rw-out);background:var(--rw-out-bg)}
.code.warning{border-color:var(--rw-ed);color:var(--rw-ed);background:var(--rw-ed-bg)}
.code.info{border-color:var(--rw-same);color:var(--rw-same);background:var(--rw-same-bg)}
.status,.verdict{display:inline-block;padding:1px 9px;border-radius:99px;border:1px solid var(--rw-rim);color:var(--rw-dim);
font-size:12px;font-weight:500;letter-spacing:0;vertical-align:2px;white-space:nowrap}
.status.changed,.status.clean,.verdict.verified{border-color:var(--rw-in);color:var(--rw-in);background:var(--rw-in-bg)}
.status.findings{border-color:var(--rw-ed);color:var(--rw-ed);background:var(--rw-ed-bg)}
.status.failed,.status.refused{border-color:var(--rw-out);color:var(--rw-out);background:var(--rw-out-bg)}
.facts{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:3px 20px;margin:0 0 20px;font-size:14px}
.facts dt{color:var(--rw-dim)}.facts dd{margin:0;overflow-wrap:anywhere}
.facts dd code{color:var(--rw-dim)}
.alert{margin:12px 0;padding:11px 15px;border-left:3px solid var(--rw-out);border-radius:0 8px 8px 0;
background:var(--rw-out-bg);
overflow-wrap:anywhere}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary:focus-visible{outline:2px solid var(--rw-same);outline-offset:2px;border-radius:6px}
summary::before{content:"";flex:none;width:7px;height:7px;border:solid var(--rw-dim);border-width:0 1.6px 1.6px 0;
transform:rotate(-45deg);transition:transform .12s}
details[open]>summary::before{transform:rotate(45deg)}
.rule{margin:10px 0;border:1px solid var(--rw-rim);border-radius:10px;background:var(--rw-box);
content-visibility:auto;contain-intrinsic-size:auto 50px}
.rule>summary{display:flex;align-items:baseline;gap:11px;padding:12px 16px}
.rule>summary .title{flex:1;min-width:0}
.count{color:var(--rw-dim);font-variant-numeric:tabular-nums}
.issue{margin:0 16px 6px;font-size:13px;overflow-wrap:anywhere}
.firing,.chunk{border-top:1px solid var(--rw-rim);padding:0 16px;background:var(--rw-bg);content-visibility:auto;
contain-intrinsic-size:auto 40px}
.chunk{padding:0}.chunk>summary{padding:9px 16px;color:var(--rw-dim);display:flex;gap:11px;align-items:baseline}
.firing:last-child,.chunk:last-child{border-radius:0 0 10px 10px}
.firing>summary{display:flex;align-items:baseline;gap:11px;padding:9px 0}
.firing[open]{padding-bottom:14px}
.firing:target>summary{background:var(--rw-same-bg)}
.number{color:var(--rw-dim);font-size:13px;font-variant-numeric:tabular-nums}
.place{flex:1;min-width:0;overflow-wrap:anywhere}
.pair{display:flex;flex-wrap:wrap;gap:14px;margin:4px 0 14px}
.pair figure{flex:1 1 auto;max-width:100%;min-width:0;margin:0;padding:10px 14px 14px;
border:1px solid var(--rw-rim);border-radius:8px}
.pair figure>div{overflow-x:auto}
.pair svg{display:block;margin:0 auto;max-width:100%;height:auto}
figcaption{margin-bottom:8px;color:var(--rw-dim);font-size:11px;font-weight:600;letter-spacing:.07em;text-transform:uppercase}
.diff{overflow-x:auto;border-radius:8px;border:1px solid var(--rw-rim);line-height:1.65}
.diff del,.diff ins,.diff span{display:block;min-width:max-content;padding:1px 12px;text-decoration:none;white-space:pre}
.diff del{background:var(--rw-out-bg);color:var(--rw-out)}.diff ins{background:var(--rw-in-bg);color:var(--rw-in)}
.diff del::before{content:"\\2212\\a0"}.diff ins::before{content:"+ "}
.where{display:grid;grid-template-columns:minmax(120px,auto) 1fr;gap:4px 20px;margin:0;font-size:14px}
.where dt{padding-top:1px}.where dt,.where dd{margin:0;overflow-wrap:anywhere}.where dd{color:var(--rw-dim)}
.trail{margin:12px 0 0;font-size:13px}
.others{margin:18px 0;font-size:14px}.others>summary{display:flex;gap:11px;align-items:baseline;color:var(--rw-dim)}
.others ul{padding-left:20px}.others li{margin:4px 0;overflow-wrap:anywhere}
.about h3{margin-top:26px;color:inherit;font-size:14px;letter-spacing:0;text-transform:none}
.about h3:target{background:var(--rw-same-bg)}.about p{margin:4px 0;max-width:90ch;overflow-wrap:anywhere}
.about .issue{margin:0}
footer{margin-top:56px;padding-top:14px;border-top:1px solid var(--rw-rim);color:var(--rw-dim);font-size:13px;
overflow-wrap:anywhere}
@media (max-width:640px){
body{padding:0 14px 40px;font-size:14.5px}.wider{display:none}header{padding-top:26px}h1{font-size:21px}
.cards{display:grid;grid-template-columns:1fr 1fr}.cards li{min-width:0;padding:9px 12px}
.facts,.where{grid-template-columns:1fr;gap:0}
.facts dd,.where dd{margin-bottom:7px}
.rule>summary{flex-wrap:wrap;gap:7px 10px;padding:11px 12px}.rule>summary .title{flex:1 1 100%;order:3}
.rule>summary .count{margin-left:auto}
.firing{padding:0 12px}
}
@media print{details{break-inside:avoid}}
"""

STYLE = svg.COLORS + svg.STYLE + "".join(_PAGE.split("\n"))


# The filter of the HTML report: a field, a choice of status, and the one script that the page allows, known by its hash.
#
# No other script runs, also none that a name in a model would bring: the policy admits this text and nothing else.

SCRIPT = "".join(line.strip() + "\n" for line in (files(__package__) / "filter.js").read_text(encoding="utf-8").splitlines())

POLICY = (
    f"default-src 'none'; script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'; "
    "style-src 'unsafe-inline'; img-src data:"
)
"""What a browser is to allow the page: its own styles, this script, and nothing else."""


def filter_bar(report: Report) -> str:
    """The field, and with several models the statuses that there are."""
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
    """What a rule or this program says: what stands between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(clean(text)))


def issue_link(issue: str, shown: str = "") -> str:
    """An upstream thread, as a link when it is an address of the web and nothing else."""
    text = escape(shown or clean(issue))
    return f'<a href="{escape(issue)}" rel="noreferrer">{text}</a>' if _LINK.fullmatch(issue) else escape(clean(issue))


def shortened(pieces: Iterable[str], report: Report) -> Iterator[str]:
    """The page without the folder that all absolute paths of models and results share, and with ~ for that of the user.

    A report is sent to others; where its files were on one machine is not their business.
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


# What the rules of an HTML report are about: their comments stand at its end, and each code on the page leads there.
#
# A report is read where rewriter may not be installed and nothing can be fetched, so it brings along what it names.

_BREAK = re.compile(r"\n\s*\n|\n(?=(?:[A-Z]\w+|Safe because): )")
"""Between paragraphs, and before the lines that begin with a word and a colon, such as `Exporters:`."""


def code_link(report: Report, code: str, shown: str = "") -> str:
    """A code, or what is shown for it, that leads to what the rule is about."""
    shown = shown or f"<code>{escape(clean(code))}</code>"
    return shown if report.rule(code) is None else f'<a href="#rule-{escape(clean(code))}">{shown}</a>'


def rule_texts(report: Report) -> Iterator[str]:
    """Each rule that the page names."""
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
"""Firings of a report that are shown unfolded when it has no more than so many."""

CHUNK = 250  # firings in one fold
LISTED = 200  # rows of a table, entries of a list


def report_pieces(report: Report) -> Iterator[str]:
    """The whole page."""
    total = sum(report.summary.firings.values())
    title = f"rewriter {report.command}: {number(total, verb(report))} in {number(report.summary.models, 'model')}"
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
    yield f"<footer>rewriter {_t(report.version)} &middot; {number(report.rule_set.rules, 'rule')} selected &middot; "
    yield f"their digest <code>{_t(digest)}</code><br><code>rewriter rule CODE</code> shows a rule with its tests.</footer>\n"


def _top(report: Report) -> Iterator[str]:
    summary, total = report.summary, sum(report.summary.firings.values())
    yield f'<p class="eyebrow">rewriter {report.command}</p>'
    name = clean(next(iter(report.models)).path) if len(report.models) == 1 else number(summary.models, "model")
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
    """What most readers come for: how many models ONNX Runtime refused, and how many of them load now."""
    total = report.summary.fleet.total
    if not total.refused_before:
        return
    word = "rejects" if report.command == "check" else "rejected"
    one = total.models == 1
    parts = [f"ONNX Runtime {word} {'the model' if one else number(total.refused_before, 'model')}"]
    if report.command != "check":
        loads, refused = (
            ("it loads now", "it still does")
            if one
            else (
                f"{total.loads_now:,} {'loads' if total.loads_now == 1 else 'load'} now",
                f"{total.still_refused:,} still rejected",
            )
        )
        parts += [f'<b class="good">{loads}</b>'] if total.loads_now else []
        parts += [f'<b class="bad">{refused}</b>'] if total.still_refused else []
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
    """What became of the models, by exporter, folder and rule, and why ONNX Runtime still refuses some."""
    fleet = report.summary.fleet
    yield '<section><h2>At a glance</h2><div class="wide" tabindex="0"><table><thead><tr><th>group</th>'
    yield "".join(f'<th class="num">{_t(name)}</th>' for name in COLUMNS.values()) + "</tr></thead><tbody>"
    yield _totals("all", fleet.total)
    for word, group in (("exporter", fleet.exporters), ("folder", fleet.folders), ("rule", fleet.rules)):
        if group:
            yield f'<tr><th colspan="{len(COLUMNS) + 1}">by {word}</th></tr>'
        yield from (_totals(name, totals) for name, totals in islice(group.items(), LISTED))
        if len(group) > LISTED:
            yield f'<tr><td class="dim">and {len(group) - LISTED:,} more</td></tr>'
    yield "</tbody></table></div>"
    if fleet.reasons:
        yield '<h3>Rejected by ONNX Runtime</h3><ul class="reasons">'
        for one in fleet.reasons[:LISTED]:
            yield f"<li><b>{number(one.models, 'model')}</b>, {_t(one.example)} for one: {_t(one.reason)} "
            yield f'<span class="dim">repaired by {_codes(report, one.answers)}</span></li>'
        yield "</ul>"
    yield "</section>\n"


def _totals(name: str, totals: TotalsRecord) -> str:
    cells = (getattr(totals, column) for column in COLUMNS)
    return f'<tr><td class="path">{_t(name)}</td>' + "".join(f'<td class="num">{cell:,}</td>' for cell in cells) + "</tr>"


def _models(report: Report) -> Iterator[str]:
    yield '<section><h2>Models</h2><div class="wide" tabindex="0"><table><thead><tr>'
    yield "<th>model</th><th>status</th><th>what became of it</th>"
    yield '<th class="num">firings</th><th class="wider">input</th><th class="wider">output</th></tr></thead><tbody>'
    for place, model in enumerate(report.models):
        name = f'<a href="#m{place}">{_t(model.path)}</a>' if has_something(model) else _t(model.path)
        attribute = f' data-model="m{place}"' if has_something(model) else ""
        yield f'<tr data-status="{model.status}"{attribute}><td class="path name">{name}</td>'
        yield f'<td><span class="status {model.status}">{status_text(model.status)}</span></td>'
        yield f'<td>{verdict_of(model)}</td><td class="num">{sum(model.counts.values()):,}</td>'
        yield "".join(f'<td class="wider">{_hash(model, role)}</td>' for role in ("input", "output")) + "</tr>"
    yield "</tbody></table></div></section>\n"


def _hash(model: ModelRecord, role: str) -> str:
    file = next((file for file in model.files if file.role == role), None)
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
        answers = _codes(report, [answer.rule for answer in model.answers])
        yield f'<p class="alert bad"><b>Rejected by ONNX Runtime</b> {_t(model.refused)} <em>repaired by {answers}</em></p>'
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
    judged = [f"{judge.judge}: {judge.refusal}" for judge in model.judged if judge.refusal]
    if model.judged:
        taken = "; ".join(judge.judge for judge in model.judged if judge.refusal == "")
        rows.append(("accepted by", taken or "no check"))
        rows += [("rejected by", text) for text in judged]
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
    """The code of a rule: green where it repaired something, in the colour of its severity where it was only found."""
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
    """Two pictures of one firing, next to each other if there is room for both."""
    parts = []
    for drawing, word in zip(pair(snapshot), ("before", "after"), strict=True):
        picture, width = panel(drawing, word)
        basis = f"flex-basis:{width * LEAST + 34:.0f}px"
        parts.append(f'<figure style="{basis}"><figcaption>{word}</figcaption><div>{picture}</div></figure>')
    return f'<div class="pair">{"".join(parts)}</div>'


def _diff(changes: Sequence[Change], omitted: int = 0) -> str:
    lines = []
    for change in changes:
        if change.before is not None:
            lines.append(f"<del>{_t(change.before)}</del>")
        if change.after is not None:
            lines.append(f"<ins>{_t(change.after)}</ins>")
    if omitted:
        lines.append(f"<span>and {number(omitted, 'more change')}</span>")
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
    return ", ".join(code_link(report, code, _t(code)) for code in codes) or "no rule"


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
        yield f'<details class="others"><summary>{number(len(lines), "further remark")}</summary>'
        yield f"<ul>{''.join(lines)}</ul></details>"


def _t(text: str) -> str:
    return escape(clean(text))
