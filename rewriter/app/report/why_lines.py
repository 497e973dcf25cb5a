"""An explanation as lines of text or as JSON.

The JSON object holds

    schema, command   1, "why"
    rule, title       code and first doc line
    path, line        of the rule
    model, exporter   the file, and who wrote it as far as is known
    guards            why a run does not try the rule on this model
    notes             further remarks
    ops               operators of the pattern's root; [""] for a rule about the whole model
    counts            {places, fires, unknown, errors, misses}
    answers           [{place, node, op, fires, question, matched, changes: [{name, before, after}],
                        conditions: [{text, value, found}]}]
                      where `question` is null or {stage, kind, depth, asked, found, line, node, unknown, remedy, error}
    later             firings after firings of other rules: [{place, node, op, after: [[rule, node]]}]
    earlier           places that another rule rewrites first: [{place, node, rule, at}]
    settled           places whose unknown fact becomes known in that run; the rule still does not fire: [[place, node]]
    stops             why the run of all selected rules ended early
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from rewriter.app.report.printout import Printout
from rewriter.app.style import Style, clean
from rewriter.core.errors import counted
from rewriter.core.record import as_dict
from rewriter.rule_tools.explain.places import Explanation, FirstNo, RuleAnswer

_VERDICTS = {
    "place": "not a place for this rule",
    "pattern": "the pattern does not match",
    "private": "the pattern matches, but other nodes read its tensors",
    "where": "the pattern matches, a condition is false",
    "rewrite": "all conditions are true, the rewrite was rejected",
}


def explanation(result: Explanation, model: str, exporter: str, notes: Sequence[str], most: int) -> Printout:
    """The explanation (`why`). The text has `most` places in full, and counts of the other places by sort."""
    return Printout(
        lambda: {"model": model, "exporter": exporter, "notes": list(notes), "counts": counts(result), **as_dict(result)},
        partial(_why_lines, result, notes, most),
    )


def counts(result: Explanation) -> dict[str, int]:
    """How many places there are, and at how many the rule fires, misses or is blocked."""
    questions = [answer.question for answer in result.answers if answer.question is not None]
    unknown = sum(question.unknown for question in questions)
    errors = sum(question.error for question in questions)
    return {
        "places": len(result.answers),
        "fires": sum(answer.fires for answer in result.answers),
        "unknown": unknown,
        "errors": errors,
        "misses": len(questions) - unknown - errors,
    }


def _why_lines(result: Explanation, notes: Sequence[str], most: int, style: Style) -> Iterator[str]:
    yield f"{style.paint('cyan', result.rule)} {style.paint('bold', clean(result.title))}"
    yield style.paint("dim", f"{clean(result.path)}:{result.line}")
    yield from (f"{style.paint('yellow', 'not tried')}: {clean(guard)}" for guard in result.guards)
    yield from (f"{style.paint('dim', 'note')}: {clean(note)}" for note in notes)
    yield ""
    yield _summary(result)
    for answer in result.answers[:most]:
        yield ""
        yield from _answer(answer, bool(result.guards), style)
        if (answer.place, answer.node) in result.settled:
            yield "    another rule makes this known when it fires, and then this rule does not fire here"
    if len(result.answers) > most:
        yield ""
        yield from _rest(result.answers[most:], style)
    yield from _order(result, most, style)


def miss_lines(result: Explanation, most: int, style: Style) -> Iterator[str]:
    """The guards and the nearest misses of a rule that was expected to fire and did not."""
    yield from (f"{style.paint('yellow', 'not tried')}: {clean(guard)}" for guard in result.guards)
    if not result.answers:
        yield _summary(result)
    for answer in result.answers[:most]:
        yield from _answer(answer, bool(result.guards), style)


def _summary(result: Explanation) -> str:
    number = counts(result)
    if result.ops == ("",):
        return "the rule matches the model as a whole, and " + ("fires" if number["fires"] else "does not fire")
    ops = " or ".join(map(clean, result.ops))
    if not result.answers:
        return f"no node of the model is {ops}, which the pattern needs"
    parts = [f"fires at {number['fires']}"] if number["fires"] else []
    parts += [f"blocked by an unknown fact at {number['unknown']}"] if number["unknown"] else []
    parts += [f"fails at {number['errors']}"] if number["errors"] else []
    parts += [f"misses {number['misses']}"] if number["misses"] else []
    return f"{counted(number['places'], 'place')} ({ops}): {', '.join(parts)}"


def _answer(answer: RuleAnswer, guarded: bool, style: Style) -> Iterator[str]:
    if answer.fires:
        word = "would fire, were it tried" if guarded else "fires"
        yield f"{_place(answer.place, answer.node, answer.op)}: {style.paint('green', word)}"
        label = style.paint("bold", "holds")
        yield from (f"    {label}: {clean(c.text)}" for c in answer.conditions if c.value == "true")
        for change in answer.changes:
            if change.before is not None:
                yield style.paint("red", f"    - {clean(change.before)}")
            if change.after is not None:
                yield style.paint("green", f"    + {clean(change.after)}")
        return
    question = answer.question
    yield f"{_place(answer.place, answer.node, answer.op)}: {_verdict(question, style)}"
    if question is not None:
        yield from _question(question, answer, style)


def _verdict(question: FirstNo | None, style: Style) -> str:
    if question is None:
        return "does not fire"
    if question.error:
        return style.paint("red", "failed")
    return style.paint("yellow", "blocked by an unknown fact") if question.unknown else _VERDICTS[question.stage]


def _question(question: FirstNo, answer: RuleAnswer, style: Style) -> Iterator[str]:
    line = f" (line {question.line})" if question.line else ""
    at = f", at {clean(question.node)}" if question.node and question.node != answer.node else ""
    yield f"    {style.paint('bold', 'expected')}: {clean(question.asked)}{line}{at}"
    yield f"    {style.paint('bold', 'found')}:    {clean(question.found)}"
    if question.remedy:
        yield f"    {style.paint('bold', 'help')}:     {clean(question.remedy)}"


def _rest(answers: Sequence[RuleAnswer], style: Style) -> Iterator[str]:
    """Counts of the places that are not shown, by the condition that decided."""
    fires = sum(answer.fires for answer in answers)
    questions = Counter(_sort(answer.question) for answer in answers if answer.question is not None)
    yield f"and {counted(len(answers), 'more place')} (--limit):"
    if fires:
        yield f"    {fires} x fires"
    yield from (f"    {times} x {clean(text)}" for text, times in questions.most_common(12))
    if len(questions) > 12:
        yield f"    and {len(questions) - 12} other conditions"


def _sort(question: FirstNo) -> str:
    return question.asked + (f" (line {question.line})" if question.line else "") + (": unknown" if question.unknown else "")


def _order(result: Explanation, most: int, style: Style) -> Iterator[str]:
    """How a run of all selected rules changes the result."""
    if result.later or result.earlier or result.stops:
        yield ""
    for later in result.later[:most]:
        after = ", ".join(f"{rule} at {clean(node) or 'model'}" for rule, node in later.after[:4])
        shown = f"after {after}" if after else "after other rules have changed the model"
        yield f"{_place(later.place, later.node, later.op)}: {style.paint('green', 'fires later')}, {shown}"
    if len(result.later) > most:
        yield f"and later at {len(result.later) - most} more places"
    for earlier in result.earlier[:most]:
        place = _place(earlier.place, earlier.node, "")
        yield f"{place}: {style.paint('yellow', 'changed first')} by {earlier.rule}, which fires at {clean(earlier.at)}"
    if len(result.earlier) > most:
        yield f"and changed first at {len(result.earlier) - most} more places"
    yield from (f"{style.paint('red', 'stopped')}: {clean(stop)}" for stop in result.stops)


def _place(place: str, node: str, op: str) -> str:
    where = "" if place in ("", "main") else f"{clean(place)}: "
    return f"{where}{clean(node) or 'model'}" + (f" ({clean(op)})" if op else "")
