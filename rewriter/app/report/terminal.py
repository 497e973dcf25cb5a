"""A log and totals as lines of text: rewrites, possible rewrites, rules that an unknown fact blocked, verdicts of consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rewriter.app.report.document import (
    ExpectationRecord,
    Summary,
    by_rule,
    change_lines,
    pattern_of,
    place_text,
    place_texts,
    rolled_place,
)
from rewriter.app.style import Style, clean
from rewriter.core.errors import counted, listed
from rewriter.core.log import RUN, RUN_FAILURE, STAGES, Blocked, Log, Profile
from rewriter.core.record import replace

if TYPE_CHECKING:
    from rewriter.trust.consumers.consumer_verdict import State, Verdict
    from rewriter.trust.plan_file import Missing

MOST_RULES = 20  # in `profile_lines`
PLACES = 8  # places listed of one rule in `fix_lines`
SHOWN = 3  # in `check_lines`
SMALL, NARROW = 6, 160  # lines of a change that a check shows, and their characters
TOLERANCE = 2e-3  # of recorded outputs, for their largest value
FINDINGS = {"verified": "green", "not verified": "yellow", "outputs changed": "yellow", "wrong outputs": "red"}


def outcome_lines(refusal: str | None, remaining: str | None, log: Log, style: Style) -> Iterator[str]:
    """Whether ONNX Runtime loads the result of a model that it rejected, with its error messages. Indented by two."""
    if refusal and remaining == "":
        runs = any(judged.judge == RUN and judged.refusal == "" for judged in log.judged)
        failed = refusal.startswith(RUN_FAILURE)
        now = style.paint("green", f"{'runs' if failed else 'loads and runs' if runs else 'loads'} now")
        message = clean(refusal.removeprefix(RUN_FAILURE))
        yield f'  ONNX Runtime {"failed to run" if failed else "rejected"} it: "{message}" -> {now}'
    elif remaining:
        if refusal and refusal != remaining:
            now = style.paint("red", "still rejects it")
            yield f'  ONNX Runtime rejected it: "{clean(refusal)}" -> {now}: "{clean(remaining)}"'
        else:
            yield f"  {style.paint('red', 'still rejected')} by ONNX Runtime: {clean(remaining)}"


def fix_lines(log: Log, style: Style, fixes: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """The rewrites of a repair in one model: each rule with its places, then the reasons against more. Indented by two.

    `fixes` has a sentence on the repair of each rule, by its code.
    """
    for code, firings in by_rule(log.firings).items():
        yield f"  {style.paint('cyan', code)} {clean(firings[0].title)}"
        if code in fixes:
            yield f"      {clean(fixes[code])}"
        places = place_texts(firings)
        yield from (f"      {place}" for place in places[:PLACES])
        if len(places) > PLACES:
            yield f"      and {len(places) - PLACES} more"
    for rolled in log.rolled_back:
        yield f"  {style.paint('red', 'rolled back')} {rolled.rule} {rolled_place(rolled)}: {clean(rolled.reason)}"
    if (found := log.verification) is not None:
        yield from (f"  {_finding(clean(finding), style)}" for finding in found.findings)
    yield from unfinished_lines(log, style)


def applied_lines(
    path: str, output: str, log: Log | None, accepted: int, absent: Sequence[Missing], style: Style
) -> Iterator[str]:
    """The rewrites of a plan that happened, out of those that were accepted, and those that did not, with the reasons."""
    assert log is not None  # the model was worked on
    done = f"{len(log.firings)} of {accepted} accepted rewrites -> {clean(output)}"
    yield f"{style.paint('bold', clean(path))}: {done}"
    yield from fix_lines(log, style)
    for one in absent:
        what = f"{one.proposal.number} {clean(one.proposal.rule)} at {clean(one.proposal.node)}"
        if one.because:
            before = ", ".join(map(str, one.because))
            yield f"  {style.paint('dim', 'not done')} {what}: it follows {before}, which did not happen"
        else:
            yield f"  {style.paint('red', 'did not happen')} {what}"


def optimize_lines(log: Log, style: Style) -> Iterator[str]:
    """The results of an optimization of one model: how often each rule fired, and errors. Indented by two."""
    titles = {firing.rule: firing.title for firing in log.firings}
    for code, times in sorted(log.counts.items()):
        yield f"  {style.paint('cyan', code)} {times:5}  {clean(titles[code])}"
    yield from fix_lines(replace(log, firings=[]), style)


def check_lines(path: str, log: Log, head: Sequence[str], style: Style, *, changes: bool = False) -> Iterator[str]:
    """The findings of a check in one model: ONNX Runtime's error or different outputs, then each rule, then what is left.

    `head` are the lines on the whole model; the first line goes behind its path. With `changes`, small changes are shown.
    """
    body = [*_found_lines(log, style, changes=changes), *unfinished_lines(log, style)]
    items = sum(not line.startswith("      ") for line in body)
    if not head and items > 1:
        rules = f" by {counted(len(log.counts), 'rule')}" if log.firings else ""
        head = [f"{counted(len(log.firings), 'finding')}{rules}"]
    lines = [*head, *body]
    if lines:
        yield f"{style.paint('bold', clean(path))}: {lines[0].lstrip()}"
        yield from lines[1:]


def _found_lines(log: Log, style: Style, *, changes: bool) -> Iterator[str]:
    """Each rule that would fire, with its places, and its change if that is small. Indented by two."""
    for code, firings in by_rule(log.firings).items():
        first, places = firings[0], place_texts(firings)
        where = places[0] if len(places) == 1 else f"at {len(places)} places"
        yield f"  {style.paint('cyan', code)} {where}: {clean(first.title)}"
        if len(places) > 1:
            yield f"      {listed(places, SHOWN)}"
        lines = [*change_lines(first.changes)] if changes and not first.omitted else []
        if len(lines) <= SMALL and all(len(line) <= NARROW for line in lines):
            colors = {"-": "red", "+": "green"}
            yield from (f"      {style.paint(colors[line[0]], f'{line[0]} {line[1:]}')}" for line in lines)


def rejection_lines(
    refusal: str, answers: Mapping[str, str], log: Log, why: Callable[[str], str], style: Style, advice: str = ""
) -> Iterator[str]:
    """ONNX Runtime's error message for a model, and the rules that repair it. `answers` says how to run each rule, "" if it
    has run. `why` returns the command that explains a rule. `advice` is appended to the rules that repair the model.
    """
    if refusal.startswith(RUN_FAILURE):
        yield f"{style.paint('red', 'fails')} in ONNX Runtime on generated inputs: {clean(refusal.removeprefix(RUN_FAILURE))}"
    else:
        yield f"{style.paint('red', 'rejected')} by ONNX Runtime: {clean(refusal)}"
    if firing := [style.paint("cyan", code) for code in answers if code in log.counts]:
        yield f"  repaired by {', '.join(firing)}{advice}"
    elif log.counts:
        possible = [style.paint("cyan", code) for code in sorted(log.counts)]
        yield f"  perhaps repaired by {', '.join(possible)}{advice}"
    else:
        yield from (f"  {line}" for line in _advice(answers, why, style))


def _advice(answers: Mapping[str, str], why: Callable[[str], str], style: Style) -> Iterator[str]:
    """Advice on an error message that no rule that ran has repaired."""
    for code in [code for code, when in answers.items() if when]:
        yield f"{style.paint('cyan', code)} may repair this; it {answers[code]}"
    if idle := [code for code, when in answers.items() if not when]:
        verbs = "repairs this message but does" if len(idle) == 1 else "repair this message but do"
        named = " and ".join(", ".join(idle).rsplit(", ", 1))
        yield f"{style.paint('cyan', named)} {verbs} not apply; to see why: {why(idle[0])}"
    if not answers:
        yield "no rule repairs this (to write one: docs/first-rule.md)"


def expectation_lines(expectation: ExpectationRecord, style: Style) -> Iterator[str]:
    """Whether a model computes the outputs that the framework recorded, and which rules repair it."""
    if not expectation.before:
        checked = f"({counted(expectation.outputs, 'output')}, within {TOLERANCE:g} of the largest value)"
        yield f"{style.paint('green', 'output equals')} {clean(expectation.data)} {checked}"
        if expectation.after:
            yield f"  {style.paint('red', 'made wrong')} by {', '.join(expectation.rules)}: {clean(expectation.after)}"
        return
    yield f"{style.paint('red', 'does not match')} {clean(expectation.data)}: {clean(expectation.before)}"
    if expectation.is_foreign:
        yield f"  is {clean(expectation.data)} of another model? Shapes or types differ, and no rule changes that"
        return
    if expectation.first:
        yield f"  first wrong node: {clean(expectation.first)}"
    if not expectation.after:
        yield f"  repaired by {', '.join(expectation.rules)}: run `rewriter fix`"
    elif expectation.questions:
        for code in expectation.questions:
            option = f"--select DEFAULT,{code}"
            repaired = f"possibly repaired by {style.paint('cyan', code)}, a guess"
            yield f"  {repaired}: add `{option}` if its question is answered with yes"
    else:
        yield "  no rule repairs it"


def remaining_lines(answers: Mapping[str, str], why: Callable[[str], str], log: Log, style: Style) -> Iterator[str]:
    """Advice on a result that ONNX Runtime rejects. Indented by six."""
    fired = log.counts.keys() | {one.rule for one in log.rolled_back}
    silent = {code: when for code, when in answers.items() if code not in fired}
    yield from (f"      {line}" for line in _advice(silent, why, style) if silent or not fired)


def unchecked_lines(sentences: Sequence[str], style: Style) -> Iterator[str]:
    """Checks that gave no result for a model. Indented by two."""
    yield from (f"  {style.paint('yellow', 'not checked')}: {clean(sentence)}" for sentence in sentences)


def unfinished_lines(log: Log, style: Style) -> Iterator[str]:
    """Blocked rules and rewrites that were not done. Indented by two."""
    seen: set[str] = set()
    for blocked in log.blocked:
        yield "  " + _blocked(blocked, style)
        if blocked.remedy and blocked.remedy not in seen:
            seen.add(blocked.remedy)
            yield f"      {style.paint('bold', 'help')}: {clean(blocked.remedy)}"
    for one in log.suppressed:
        yield f"  {style.paint('dim', 'suppressed')} {one.rule} {place_text(one)}: {clean(one.reason)}"
    for question in log.questions:
        yield f"  {style.paint('yellow', 'question')} {question.rule} {place_text(question)}: {clean(question.text)}"
        yield f"      {clean(question.remedy)}"
    for stop in log.stops:
        nodes = f" (at {', '.join(map(clean, stop.nodes[:PLACES]))})" if stop.nodes else ""
        yield f"  {style.paint('red', 'stopped')}: {clean(stop.message)}{nodes}"
    for note in log.notes:
        yield f"  {style.paint('dim', 'note')}: {clean(note)}"


def _blocked(blocked: Blocked, style: Style) -> str:
    word = style.paint("red", "failed") if blocked.error else style.paint("yellow", "blocked")
    line = f" (line {blocked.line} of the rule)" if blocked.line else ""
    return f"{word} {blocked.rule} {place_text(blocked)}: {clean(blocked.reason)}{line}"


def _finding(text: str, style: Style) -> str:
    """A finding of --verify, with its verdict in colour."""
    for words, color in FINDINGS.items():
        if text.startswith(words):
            return style.paint(color, words) + text[len(words) :]
    return text


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


def models_by_status(command: str, summary: Summary) -> str:
    """The models by status, each counted once."""
    statuses, rejected, differ = summary.statuses, summary.refused, summary.mismatched
    worked_on = statuses.get("findings", 0) + statuses.get("changed", 0) + statuses.get("refused", 0) - rejected - differ
    found = "with findings" if summary.firings else "not accepted by a consumer"
    groups = [(rejected, "rejected by ONNX Runtime"), (differ, "not as expected"), (worked_on, found)]
    if command != "check":
        repaired = summary.repaired if command == "fix" else 0
        groups = [(repaired, "repaired"), (worked_on - repaired, "changed"), (rejected, "still rejected by ONNX Runtime")]
    groups += [(statuses.get(word, 0), word) for word in ("failed", "unchanged", "clean")]
    return ", ".join(f"{number:,} {name}" for number, name in groups if number)


def summary_line(command: str, summary: Summary) -> str:
    """The last line of results: the models by status, and how often rules fired."""
    by_status = models_by_status(command, summary)
    loads = summary.fleet.total.loads_now
    if loads and summary.models > 1:
        by_status += f"; {loads:,} load{'s' * (loads == 1)} now that ONNX Runtime rejected before"
    firings = summary.firings
    rules = f" by {counted(len(firings), 'rule')}" if firings else ""
    verb = "finding" if command == "check" else "rewrite"
    rest = f", {summary.unfinished} unfinished" if summary.unfinished else ""
    rest += f", {summary.unjudged} not checked" if summary.unjudged else ""
    rest += f", {summary.rolled_back} rolled back" if summary.rolled_back else ""
    models = counted(summary.models, "model") + (": " if by_status or rest else "")
    return f"{models}{by_status}{rest}; {counted(sum(firings.values()), verb)}{rules}; {summary.seconds:.1f} s"


# The verdicts of consumers as lines: on one model, before and after a repair, and on a folder, equal reasons as one.

COUNTED: dict[State, str] = {
    "equal": "read, with equal outputs",
    "reads": "read, and not compared",
    "differs": "read, with different outputs",
    "fails": "read, and fail when they run",
    "silent": "without an answer",
    "ends": "end the process",
    "rejects": "rejected",
}
"""What the models of a folder are for a consumer, from the best to the worst."""
MOST_GROUPS = 200
"""Reasons of consumers that are printed at the end."""


def verdict_lines(verdicts: Sequence[Verdict], prefix: str, style: Style) -> Iterator[str]:
    """A line for each consumer."""
    for one in verdicts:
        name = style.paint("green" if one.accepts else "red", clean(one.consumer))
        yield f"{prefix}{name}{clean(one.sentence.removeprefix(one.consumer))}"


def repaired_lines(before: Sequence[Verdict], after: Sequence[Verdict], steps: Sequence[str], style: Style) -> Iterator[str]:
    """The verdicts of consumers on the model and on the result. Indented by two."""
    for old, new in zip(before, after, strict=True):
        now = "" if old.accepts and new.accepts else "now: "
        if now:
            yield from verdict_lines([old], f"  {style.paint('dim', 'before')}: ", style)
        yield from verdict_lines([new], f"  {now}", style)
    if steps:
        yield f"  steps of the recipe: {', '.join(map(clean, steps))}"


class VerdictCounts:
    """The verdicts on the models of a call."""

    def __init__(self) -> None:
        self._states: dict[str, Counter[State]] = {}
        self._groups: dict[str, tuple[str, Verdict, int]] = {}

    def add(self, path: str, verdicts: Sequence[Verdict]) -> None:
        for one in verdicts:
            self._states.setdefault(one.consumer, Counter())[one.state] += 1
            if not one.accepts:
                pattern = pattern_of(one.sentence)
                first, shown, times = self._groups.get(pattern, (path, one, 0))
                if times or len(self._groups) < MOST_GROUPS:
                    self._groups[pattern] = first, shown, times + 1

    def lines(self, style: Style) -> Iterator[str]:
        """Each reason once, the most frequent first, then the counts of each consumer."""
        for path, one, times in sorted(self._groups.values(), key=lambda group: -group[2]):
            where = path if times == 1 else f"{path} and {counted(times - 1, 'more model')}"
            yield from verdict_lines([one], f"{clean(where)}: ", style)
        for consumer, states in self._states.items():
            found = ", ".join(f"{states[state]:,} {COUNTED[state]}" for state in COUNTED if states[state])
            yield f"{clean(consumer)}: {counted(sum(states.values()), 'model')}: {found}"
