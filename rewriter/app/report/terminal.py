"""A log and totals as lines of text: what was rewritten, what would be, and what an unknown fact kept from being decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rewriter.app.report.document import ExpectationRecord, Summary, place_text
from rewriter.core.log import STAGES, Blocked, Firing, Log, Profile, RolledBack
from rewriter.core.record import replace
from rewriter.workbench.style import Style, clean, counted

MOST_RULES = 20  # in `profile_lines`
PLACES = 8  # places listed of one rule in `fix_lines`
FINDINGS = {"verified": "green", "not verified": "yellow", "numbers changed": "yellow", "wrong numbers": "red"}


def fix_lines(log: Log, style: Style, fixes: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """What a repair did to one model: each rule with its places, then what kept it from doing more. Indented by two.

    `fixes` are sentences on what a rule does, by its code.
    """
    by_rule: dict[str, list[Firing]] = {}
    for firing in log.firings:
        by_rule.setdefault(firing.rule, []).append(firing)
    for code, firings in sorted(by_rule.items()):
        yield f"  {style.paint('cyan', code)} {clean(firings[0].title)}"
        if code in fixes:
            yield f"      {clean(fixes[code])}"
        yield from (f"      {place_text(firing)}" for firing in firings[:PLACES])
        if len(firings) > PLACES:
            yield f"      and {len(firings) - PLACES} more"
    for rolled in log.rolled_back:
        yield f"  {style.paint('red', 'rolled back')} {rolled.rule} {_rolled(rolled)}: {clean(rolled.reason)}"
    if (found := log.verification) is not None:
        yield from (f"  {_finding(clean(finding), style)}" for finding in found.findings)
    yield from _unfinished(log, "  ", style)


def optimize_lines(log: Log, style: Style) -> Iterator[str]:
    """What an optimization did to one model: how often each rule fired, and what went wrong. Indented by two."""
    titles = {firing.rule: firing.title for firing in log.firings}
    for code, times in sorted(log.counts.items()):
        yield f"  {style.paint('cyan', code)} {times:5}  {clean(titles[code])}"
    yield from fix_lines(replace(log, firings=[]), style)


def check_lines(path: str, log: Log, style: Style) -> Iterator[str]:
    """What a check found in one model, one finding a line, each line complete in itself."""
    shown = clean(path)
    for firing in log.firings:
        yield f"{shown}: {style.paint('cyan', firing.rule)} {place_text(firing)}: {clean(firing.title)}"
    yield from _unfinished(log, f"{shown}: ", style)


def refusal_lines(path: str, refusal: str, answers: Mapping[str, str], log: Log, style: Style) -> Iterator[str]:
    """What ONNX Runtime says against a model, and the rules that answer it: what makes each run, "" for those that do."""
    yield f"{clean(path)}: {style.paint('red', 'refused')} by ONNX Runtime: {clean(refusal)}"
    fires = log.counts
    named = [_answer(code, "would fire" if code in fires else reason, style) for code, reason in answers.items()]
    if named:
        yield f"    answered by {', '.join(named)}"
    elif fires:
        yield f"    `rewriter fix` tells whether it is accepted with {', '.join(sorted(fires))}"
    else:
        yield "    no rule answers this"


def expectation_lines(path: str, found: ExpectationRecord, style: Style) -> Iterator[str]:
    """What the framework's own numbers say of a model."""
    shown = clean(path)
    if not found.before:
        yield f"{shown}: {style.paint('green', 'right')}: it gives the numbers of {clean(found.data)}"
        if found.after:
            yield f"    {style.paint('red', 'harmed')} by {', '.join(found.rules)}: {clean(found.after)}"
        return
    yield f"{shown}: {style.paint('red', 'wrong')} by {clean(found.data)}: {clean(found.before)}"
    if found.first:
        yield f"    first at {clean(found.first)}"
    if not found.after:
        yield f"    mended by {', '.join(found.rules)}: run `rewriter fix`"
    elif found.questions:
        commands = (f"{style.paint('cyan', code)} (--select DEFAULT,{code})" for code in found.questions)
        yield f"    mended by a rule that only asks: {' or '.join(commands)}"
    else:
        yield "    no rule mends it"


def _answer(code: str, what: str, style: Style) -> str:
    return style.paint("cyan", code) + (f" ({what})" if what else "")


def remaining_lines(refusal: str, answers: Mapping[str, str], log: Log, style: Style) -> Iterator[str]:
    """What ONNX Runtime says against the result of a repair, and rules that answer it and did not fire. Indented by two."""
    yield f"  {style.paint('red', 'still refused')} by ONNX Runtime: {clean(refusal)}"
    if silent := [_answer(code, reason, style) for code, reason in answers.items() if code not in log.counts]:
        yield f"      answered by {', '.join(silent)}; `rewriter why` says why a rule does not fire"


def accepted_line(style: Style) -> str:
    """That a repair was worth it. Indented by two."""
    return f"  {style.paint('green', 'ONNX Runtime refused the model before and loads it now')}"


def unjudged_lines(sentences: Sequence[str], prefix: str, style: Style) -> Iterator[str]:
    """Judges that did not say whether they take a model."""
    yield from (f"{prefix}{style.paint('yellow', 'not judged')}: {clean(sentence)}" for sentence in sentences)


def _unfinished(log: Log, prefix: str, style: Style) -> Iterator[str]:
    seen: set[str] = set()
    for blocked in log.blocked:
        yield prefix + _blocked(blocked, style)
        if blocked.remedy and blocked.remedy not in seen:
            seen.add(blocked.remedy)
            yield f"{' ' * (len(prefix) - len(prefix.lstrip()))}    {style.paint('bold', 'help')}: {clean(blocked.remedy)}"
    for one in log.suppressed:
        yield f"{prefix}{style.paint('dim', 'suppressed')} {one.rule} {place_text(one)}: {clean(one.reason)}"
    for question in log.questions:
        yield f"{prefix}{style.paint('yellow', 'question')} {question.rule} {place_text(question)}: {clean(question.text)}"
        yield f"{' ' * (len(prefix) - len(prefix.lstrip()))}    {clean(question.remedy)}"
    for stop in log.stops:
        nodes = f" (at {', '.join(map(clean, stop.nodes[:PLACES]))})" if stop.nodes else ""
        yield f"{prefix}{style.paint('red', 'stopped')}: {clean(stop.message)}{nodes}"
    for note in log.notes:
        yield f"{prefix}{style.paint('dim', 'note')}: {clean(note)}"


def _blocked(blocked: Blocked, style: Style) -> str:
    word = style.paint("red", "failed") if blocked.error else style.paint("yellow", "blocked")
    line = f" (line {blocked.line} of the rule)" if blocked.line else ""
    return f"{word} {blocked.rule} {place_text(blocked)}: {clean(blocked.reason)}{line}"


def _finding(text: str, style: Style) -> str:
    """A finding of --verify, with the words of its verdict in colour."""
    for words, color in FINDINGS.items():
        if text.startswith(words):
            return style.paint(color, words) + text[len(words) :]
    return text


def _rolled(rolled: RolledBack) -> str:
    return place_text(rolled) if rolled.place else f"everywhere ({counted(rolled.times, 'place')})"


def profile_lines(profile: Profile, style: Style) -> Iterator[str]:
    """`fix --profile`: stages in their order, then the rules that took longest."""
    total = sum(profile.stages.values()) or 1.0
    yield style.paint("bold", f"{'stage':18}{'ms':>10}{'share':>8}")
    for name in (*STAGES, *sorted(set(profile.stages) - set(STAGES))):
        if (seconds := profile.stages[name]) > 0:
            yield f"{name:18}{1e3 * seconds:10.2f}{seconds / total:8.1%}"
    yield f"{'all':18}{1e3 * total:10.2f}"
    costs = {code: profile.matching[code] + profile.rewriting[code] for code in profile.asked}
    dearest = sorted(costs, key=lambda code: (-costs[code], code))[:MOST_RULES]
    if dearest:
        yield style.paint("bold", f"{'rule':10}{'tried':>8}{'fired':>8}{'match ms':>10}{'rewrite ms':>12}")
    for code in dearest:
        figures = profile.asked[code], profile.fired[code], 1e3 * profile.matching[code], 1e3 * profile.rewriting[code]
        yield f"{code:10}{figures[0]:8}{figures[1]:8}{figures[2]:10.2f}{figures[3]:12.2f}"
    if len(costs) > len(dearest):
        yield f"and {len(costs) - len(dearest)} more rules"


_REFUSED = "unchanged and still refused by ONNX Runtime"
_SHOWN = {("check", "findings"): "with findings", ("fix", "refused"): _REFUSED, ("optimize", "refused"): _REFUSED}
"""Statuses that read differently after a number."""


def summary_line(command: str, summary: Summary) -> str:
    """The last line of results."""
    shown = {word: f"{number} {_SHOWN.get((command, word), word)}" for word, number in summary.statuses.items()}
    refused = summary.refused - summary.statuses.get("refused", 0)
    if command != "check" and refused:
        word = next((word for word in ("changed", "unchanged", "failed") if word in shown), "")
        shown[word] = f"{shown.get(word, '')} ({refused} of them still refused by ONNX Runtime)"
    by_status = ", ".join(shown.values())
    firings = summary.firings
    rules = f" by {counted(len(firings), 'rule')}" if firings else ""
    verb = "finding" if command == "check" else "rewrite"
    rest = f", {summary.unfinished} unfinished" if summary.unfinished else ""
    rest += f", {summary.unjudged} not judged" if summary.unjudged else ""
    rest += f", {summary.rolled_back} rolled back" if summary.rolled_back else ""
    models = counted(summary.models, "model") + (": " if by_status or rest else "")
    return f"{models}{by_status}{rest}; {counted(sum(firings.values()), verb)}{rules}; {summary.seconds:.1f} s"
