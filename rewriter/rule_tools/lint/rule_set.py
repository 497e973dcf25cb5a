"""The errors of rules as a set: `rewriter lint`.

Each rule may be correct and the set still wrong: two rules match one place, one never gets its turn, several undo each other.
All of this is found without a model, from patterns and conditions alone. Undecidable cases are reported only on request
(`pedantic`), as warnings. `lint` also finds a repair whose evidence only twins can show, and which has no twin: the compiler
must not reject it, since a rule that is being tried out has no tests yet. It warns of rules that are correct and hard to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

from rewriter.core.errors import listed
from rewriter.core.language import ast
from rewriter.core.language.ast import canonical, rebuild
from rewriter.core.language.claims import Claim, alternatives, consistent, fold, normal, replace_parts
from rewriter.core.language.diagnostics import Diagnostic, Related
from rewriter.core.language.expand.rule_forms import Unfit, with_operands
from rewriter.core.language.rules import Rule
from rewriter.core.record import replace
from rewriter.rule_tools.format import INDENT, same
from rewriter.rule_tools.lint.overlap import Circle, Pair, circles, ever_holds, pairs
from rewriter.rule_tools.lint.overlay import RuleSubject, subject

TWINNED = frozenset({"source", "exporter"})
_SHOWN = 8  # rules of a circle that are named
_NAMING = frozenset({"code", "slug", "doc", "tests", "table", "row"})
"""Fields in which rules may differ that do the same. A set may have thousands of such copies: only the first is compared."""


def lint(rules: Iterable[Rule], pedantic: bool = False) -> list[Diagnostic]:
    """All errors of the rules as a set, and rules that are hard to read, in the order of their codes; with `pedantic`, also
    undecidable cases.
    """
    rule_list = list(rules)
    copies: dict[str, list[Rule]] = {}
    for rule in rule_list:
        copies.setdefault(canonical(rule.ast, _NAMING), []).append(rule)
    firsts = [of[0] for of in copies.values()]
    subjects = [subject(one, _side(rule, number)) for rule in firsts for number, one in enumerate(rule.variants)]
    found = [
        *_never(subjects),
        *_pairs(subjects, copies.values(), pedantic),
        *_circles(subjects, pedantic),
        *_without_twin(rule_list),
        *hard_to_read(rule_list),
    ]
    place = {rule.path: number for number, rule in enumerate(rule_list)}
    return sorted(found, key=lambda d: (place.get(d.path, 0), d.path, d.span.start, d.code, d.message))


def _side(rule: Rule, number: int) -> str:
    """A name that distinguishes the patterns of one rule from each other, and from the patterns of other rules."""
    return rule.code if number == 0 else f"{rule.code}/{number + 1}"


def _of_rules(subjects: Iterable[RuleSubject]) -> Mapping[str, list[RuleSubject]]:
    """The patterns of each rule, by its code."""
    found: dict[str, list[RuleSubject]] = {}
    for one in subjects:
        found.setdefault(one.rule.code, []).append(one)
    return found


# --- Rules that can never apply -------------------------------------------------------------------------------------------


def _never(subjects: Sequence[RuleSubject]) -> Iterator[Diagnostic]:
    for one, *others in _of_rules(subjects).values():
        rule = one.rule
        if not ever_holds(one):
            span = next((item.value_span for item in rule.ast.meta if item.key == "versions"), rule.ast.code_span)
            yield _report(
                "E409", f"{rule.code} can never apply: no version is {rule.versions}", rule, span, "contradicts itself"
            )
        elif not any(other.picture is None or _possible(other, other.picture.branches) for other in (one, *others)):
            span, label = _contradiction(one)
            helps = ("conditions of one rule must hold together; for one or the other, write `or`",)
            yield _report(
                "E409", f"{rule.code} can never apply: its conditions exclude each other", rule, span, label, helps=helps
            )


def _possible(one: RuleSubject, branches: Iterable[tuple[Claim, ...]]) -> bool:
    assert one.picture is not None
    facts = [_plain(literal) for literal in one.picture.facts]
    return any(consistent([*facts, *map(_plain, branch)]) for branch in branches)


def _plain(literal: Claim) -> Claim | bool:
    return normal(literal, lambda term: replace_parts(term, lambda part: fold(part)))


def _contradiction(one: RuleSubject) -> tuple[ast.Span, str]:
    """The first `where` line that no model can satisfy, or the pattern."""
    wheres = one.rule.ast.wheres
    for count in range(len(wheres) + 1):
        if not _possible(one, alternatives((where.condition for where in wheres[:count]), one.names)):
            if count:
                return wheres[count - 1].condition.span, "never true together with the lines above"
            break
    return one.rule.ast.match.span, "asks for two things that exclude each other"


# --- Pairs ------------------------------------------------------------------------------------------------------------------


def _pairs(subjects: Sequence[RuleSubject], copies: Iterable[list[Rule]], pedantic: bool) -> Iterator[Diagnostic]:
    found = list(pairs(subjects))
    covered = {pair.one.names.side for pair in found if pair.kind in ("duplicate", "shadowed")}
    whole = {code: covered.issuperset(one.names.side for one in of) for code, of in _of_rules(subjects).items()}
    duplicates = {of[0].code: list(of) for of in copies}
    first_codes = {code: code for code in duplicates}
    reported_pairs: set[tuple[str, str, str]] = set()
    for pair in found:
        key = (pair.kind, pair.one.rule.code, pair.other.rule.code)
        if key in reported_pairs or (pair.kind in ("duplicate", "shadowed") and not whole[pair.one.rule.code]):
            continue  # other patterns of the rule are not covered
        reported_pairs.add(key)
        if pair.kind == "duplicate":
            first = first_codes[pair.other.rule.code]
            if first != pair.one.rule.code:
                joined = duplicates.pop(pair.one.rule.code, [])
                duplicates[first] += joined
                first_codes.update({rule.code: first for rule in joined})
        elif pair.kind == "shadowed":
            yield _shadowed(pair)
        elif pair.kind == "overlap" or pedantic:
            yield _overlap(pair)
    yield from (_duplicate(rules) for rules in duplicates.values() if len(rules) > 1)


def _duplicate(rules: Sequence[Rule]) -> Diagnostic:
    first, second, *others = rules
    named = f"{first.code} and {second.code}"
    if others:
        named = f"{first.code}, {second.code} and {len(others):,} other{'s' if others[1:] else ''}"
    same = all(_rewrite_words(rule) == _rewrite_words(first) for rule in rules)
    text = "are the same rule" if same else "match exactly the same places"
    helps = ("keep one of them",) if same else ("keep one of them, or add a condition to each that separates their places",)
    return _report(
        "E404", f"{named} {text}", second, _root(subject(second, "")), "again", (), helps,
        (Related(first.path, _root(subject(first, "")), "the first one"),),
    )  # fmt: skip


def _rewrite_words(rule: Rule) -> list[str]:
    """The rewrite without layout; other names make it another one, which changes only a word of the message."""
    return [rule.words(block.span) for block in rule.ast.rewrites]


def _shadowed(pair: Pair) -> Diagnostic:
    one, other = pair.one.rule, pair.other.rule
    inner = pair.at != ast.NOWHERE
    notes = (f"{other.code} matches each node that {one.code} matches, and is tried first",)
    helps = (f"limit {other.code}, or let {one.code} come first: `before: {other.code}` in its header",)
    if inner:
        notes = (f"nodes are visited from inputs to outputs, so {other.code} rewrites this one before {one.code} is tried",)
        helps = (f"limit {other.code}, or give it a later phase",)
    elif pair.one.phase != pair.other.phase:
        notes = (f"{other.code} matches each of these nodes, and runs in the earlier phase `{other.phase}`",)
        helps = (f"limit {other.code}, or give {one.code} an earlier phase",)
    span = pair.at if inner else _root(pair.one)
    return _report(
        "E405", f"{one.code} never gets its turn: {other.code} is always first", one, span, "gone by then", notes, helps,
        (Related(other.path, _root(pair.other), "matches more"),),
    )  # fmt: skip


def _overlap(pair: Pair) -> Diagnostic:
    one, other = pair.one.rule, pair.other.rule
    sure = pair.kind == "overlap"
    message = f"{one.code} and {other.code} {'match' if sure else 'may match'} the same node, and no `before` orders them"
    notes = [f"both run in phase `{one.phase}` and are equally specific ({pair.one.specificity})"]
    if not sure:
        notes.append("they overlap only if the nodes that one rule matches compute a constant of the other")
    helps = (
        f"`before: {other.code}` in the header of {one.code}, or the other way round",
        "or conditions that exclude each other",
    )
    related = (Related(other.path, _root(pair.other), "also matches here"),)
    return _report("E406" if sure else "W406", message, one, _root(pair.one), "matches here", tuple(notes), helps, related)


# --- Rules that match the results of rules ----------------------------------------------------------------------------------


def _circles(subjects: Sequence[RuleSubject], pedantic: bool) -> Iterator[Diagnostic]:
    for circle in circles(subjects, possible=pedantic):
        yield _alone(circle) if len({one.rule.code for one in circle.subjects}) == 1 else _round(circle)


def _alone(circle: Circle) -> Diagnostic:
    one = circle.subjects[0]
    rule = one.rule
    code, verb = ("E407", "matches") if circle.certain else ("W407", "may match")
    notes = ("the rewritten node matches the rule again and the graph does not get smaller, so it would run forever",)
    if not circle.certain:
        notes = ("its conditions do not say that they fail for what it makes, and no count of nodes falls",)
    helps = ("exclude its own result in the pattern or in a `where` line, or write `once: node` in the header",)
    return _report(code, f"{rule.code} {verb} its own result", rule, _effect(rule), "makes it", notes, helps, (
        Related(rule.path, _root(one), "matches it"),))  # fmt: skip


def _round(circle: Circle) -> Diagnostic:
    rules = list({one.rule.code: one.rule for one in circle.subjects}.values())
    code, verb = ("E408", "undo") if circle.certain else ("W408", "may undo")
    codes = [rule.code for rule in rules]
    notes = (f"{listed(codes, _SHOWN, ', then ')}, then {codes[0]} again; no count of nodes falls on the way",)
    helps = ("drop one of them, put them in different sets, or let a condition of one exclude what another makes",)
    related = tuple(Related(rule.path, _effect(rule), f"makes work for {following.code}") for rule, following in zip(
        rules[1:_SHOWN], [*rules[2:], rules[0]], strict=False))  # fmt: skip
    label = f"makes work for {rules[1].code}"
    message = f"{' and '.join(codes[:_SHOWN])} {verb} each other"
    return _report(code, message, rules[0], _effect(rules[0]), label, notes, helps, related)


# --- Evidence without a test --------------------------------------------------------------------------------------------------


def _without_twin(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Repairs that read the framework's file, or traces of an exporter, without a correct program that they leave alone."""
    for rule in rules:
        if rule.evidence is None or rule.evidence.name not in TWINNED or any(test.twin for test in rule.ast.tests):
            continue
        span = next(item.value_span for item in rule.ast.meta if item.key == "evidence")
        notes = ("a twin is the export of a correct program, as near to the pattern as possible",)
        helps = (
            'add `test "..." twin ~~~ model ~~~`, with the framework\'s code in a comment above it',
            "or write `evidence: guess` if the repair cannot be determined from the model",
        )
        message = f"{rule.code} has no twin, and its evidence is `{rule.evidence.name}`"
        yield _report("E505", message, rule, span, "what shows that correct programs stay?", notes, helps)


# --- Places -----------------------------------------------------------------------------------------------------------------


def _report(
    code: str,
    message: str,
    rule: Rule,
    span: ast.Span,
    label: str,
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    return Diagnostic(code, message, span, label, notes, helps, rule.path, related)


def _root(one: RuleSubject) -> ast.Span:
    return one.picture.nodes[one.picture.root].span if one.picture is not None else one.rule.ast.match.span


def _effect(rule: Rule) -> ast.Span:
    """The first statement of the rewrite."""
    return next((statement.span for block in rule.ast.rewrites for statement in block.statements), rule.ast.code_span)


# Rules that are correct, but hard to read: tables of conditions, and rewrites that are written twice.
#
# A rule file is read more often than it is written. `rewriter lint` shows these as warnings, next to the errors of the set.

LEGIBILITY = ("W205", "W304")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_ITEM = rf"(?:{_TEXT}|[\w.+-]+)"
_PLAIN = re.compile(
    rf"[\w.:/+-]+|{_TEXT}|[a-z]+\([a-z0-9=.,\s-]*\)|\((?:[\w.]+\s*\|\s*)+[\w.]+\)|\[(?:\s*{_ITEM}\s*(?:,\s*{_ITEM}\s*)*)?\]"
)
"""A name, type, number or range, a text, `refused(onnxruntime)`, several operators, or a list."""
_CALLS = ("refused(", "approx(")
MAX_WIDTH = 128
_TEXTS = re.compile(rf"_|{_TEXT}|\[.*\]")
"""Texts, and lists such as lists of issues, may be on lines of their own below the other cells."""


def hard_to_read(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Warnings about rules that can be written more legibly, in the order of the rules."""
    tables: dict[tuple[str, ast.Span], list[Rule]] = {}
    for rule in rules:
        if rule.ast.row is not None:
            tables.setdefault((rule.path, rule.ast.span), []).append(rule)
        yield from _twice(rule)
    for rows in tables.values():
        yield from _table(rows)


def _table(rows: Sequence[Rule]) -> Iterator[Diagnostic]:
    cells = [(rule, *cell) for rule in rows if rule.ast.row is not None for cell in rule.ast.row.cells]
    helps = ("write several rules, in one file where they share an explanation",)
    said = [(rule, column, cell) for rule, column, cell in cells if not is_plain(cell)]
    if said:
        rule, _, cell = said[0]
        named = ", ".join(f"`{name}`" for name in dict.fromkeys(column for _, column, _ in said))
        message = f"the table of {rows[0].code} holds conditions, rewrites or expressions: {named}"
        notes = ("a table holds names, operators, types, numbers and texts",)
        yield Diagnostic("W205", message, _place(rule, cell), "not a name or a number", notes, helps, rule.path)
    columns = [
        [column, *(cell for _, name, cell in cells if name == column)] for column in dict.fromkeys(c for _, c, _ in cells)
    ]
    wide = INDENT - 2 + sum(2 + max(map(len, one)) for one in columns if not all(map(_TEXTS.fullmatch, one[1:])))
    if wide > MAX_WIDTH:
        message = f"the rows of the table of {rows[0].code} are {wide} characters wide"
        notes = (f"more than {MAX_WIDTH}, texts and lists not counted",)
        yield Diagnostic("W205", message, rows[0].ast.code_span, "a row does not fit on a line", notes, helps, rows[0].path)


def is_plain(cell: str) -> bool:
    """Whether a cell of a table is no condition, rewrite or expression."""
    return _PLAIN.fullmatch(cell) is not None and ("(" not in cell or cell.startswith((*_CALLS, "(", '"', "[")))


def _place(rule: Rule, cell: str) -> ast.Span:
    assert rule.ast.row is not None
    at = rule.source.text.find(cell, rule.ast.row.span.start, rule.ast.row.span.end)
    return ast.Span(at, at + len(cell)) if at >= 0 else rule.ast.row.span


def _twice(rule: Rule) -> Iterator[Diagnostic]:
    """Two rewrites for two ranges of opsets that are one with `axes~`."""
    for older, newer in permutations(rule.ast.rewrites, 2):
        if newer.opset is None or newer.opset.first is None:
            continue
        try:
            same_as, names = with_operands(older.statements, newer.opset.first)
        except Unfit:
            continue
        if names and same(_bare(same_as), _bare(newer.statements)):
            helps = (
                f"write one block, with {' and '.join(f'`{name}~`' for name in sorted(names))} for `=` and for the operand",
            )
            message = f"{rule.code} has two rewrites that differ in what became an operand"
            yield Diagnostic("W304", message, newer.span, "the same again", (), helps, rule.path)


def _bare(part: Any) -> Any:
    """Removes parts that do not matter if an operand has the value of an attribute: dimensions, and the type of integers."""

    def change(one: Any) -> Any:
        if not isinstance(one, ast.Constant):
            return one
        return replace(one, dims=None, dtype=None if one.dtype == "int64" else one.dtype)

    return rebuild(part, change)
