"""What the rules of an HTML report are about: their comments stand at its end, and each code on the page leads there.

A report is read where rewriter may not be installed and nothing can be fetched, so it brings along what it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from rewriter.report.document import Report, RuleRecord
from rewriter.report.html.page_texts import issue_link, prose
from rewriter.report.style import clean

_BREAK = re.compile(r"\n\s*\n|\n(?=[A-Z]\w+: )")
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
