"""A plan file: the rewrites that rules would do, which you accept or reject one by one; and carrying out the accepted ones."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewriter.core.engine.attempt import Fired
from rewriter.core.errors import RewriterError, reason
from rewriter.core.language.rule_files import check_rule_path
from rewriter.core.log import Firing, Log, Suppressed
from rewriter.core.record import field, names, record, replace
from rewriter.trust.toml_text import Key, line_of, lines, parse

# TOML as this program writes it: any name in a model becomes one line of printable text that reads back the same.

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text(value: str) -> str:
    """A basic string. Characters that are not printable (control characters, marks of direction) are written as escapes."""
    return '"' + "".join(_SHORT.get(c) or (c if c.isprintable() else _escape(c)) for c in value) + '"'


def _escape(c: str) -> str:
    number = ord(c)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def value(found: Any) -> str:
    """A text, truth value, number, list or table on one line. Raises TypeError for anything else."""
    if isinstance(found, str):
        return text(found)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float):
        return repr(found) if math.isfinite(found) else str(found)
    if isinstance(found, int):
        return str(found)
    if isinstance(found, Mapping):
        return "{ " + ", ".join(f"{key(str(name))} = {value(inner)}" for name, inner in found.items()) + " }" if found else "{}"
    if isinstance(found, Sequence):
        return "[" + ", ".join(map(value, found)) + "]"
    raise TypeError(f"TOML has no {type(found).__name__}")


def key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else text(name)


def comment(line: str) -> str:
    """A comment on one line."""
    return "# " + "".join(c if c.isprintable() else _escape(c) for c in line)


SCHEMA = 1
MOST_BYTES = 64 << 20
HEAD = """\
# Rewrites of one model. `apply = false` rejects one; those that follow it may then not happen either.
# `rewriter apply` on this file carries out the rest.
"""


@record(frozen=True, slots=True)
class Proposal:
    """One rewrite.

    Attributes:
        number: in the run that made the plan; 0 for a rewrite that must not happen at any match.
        follows: numbers of the rewrites that made or changed what this one matches.
        matched: nodes that the pattern matched; None: any at this node.
        why: what kept it from being accepted when the plan was made.
        line: its line in the file.
    """

    number: int
    apply: bool
    rule: str
    place: str
    node: str
    matched: tuple[str, ...] | None
    follows: tuple[int, ...] = ()
    why: str = ""
    line: int = 0


@record(frozen=True, slots=True)
class Document:
    """A plan.

    Attributes:
        version: of the program that made the plan.
        model, sha256: the model, a path, a URL or - for the standard input, and what its file was.
        rule_paths: where the rules are from, as `--rules` has it.
        rules: digests of the rules that are proposed, by code.
        asked: codes of the proposed rules that were selected by code.
        set: their parameters, by "CODE.name".
        source: the framework's own file and its SHA-256, or None.
        constant_inputs: "auto", "yes" or "no".
        tidy: whether everything unused is also removed.
    """

    version: str
    model: str
    sha256: str
    rule_paths: tuple[str, ...]
    rules: Mapping[str, str]
    proposals: tuple[Proposal, ...]
    asked: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    source: tuple[str, str] | None = None
    constant_inputs: str = "auto"
    tidy: bool = False


def written(plan: Document, firings: Sequence[Firing], folder: Path) -> str:
    """The text of a plan that will be written to a folder; firings are the proposals' firings, by their numbers."""
    return "\n".join(_lines(plan, {firing.number: firing for firing in firings}, folder)) + "\n"


def _lines(plan: Document, firings: Mapping[int, Firing], folder: Path) -> Iterator[str]:
    yield HEAD
    yield f"schema = {SCHEMA}"
    yield f"version = {text(plan.version)}"
    yield f"model = {text(_seen(plan.model, folder))}"
    yield f"sha256 = {text(plan.sha256)}"
    yield f"rule-paths = {value([path if _is_word(path) else _seen(path, folder) for path in plan.rule_paths])}"
    if plan.source is not None:
        yield f"source = {value({'path': _seen(plan.source[0], folder), 'sha256': plan.source[1]})}"
    if plan.constant_inputs != "auto":
        yield f"constant-inputs = {text(plan.constant_inputs)}"
    if plan.tidy:
        yield "tidy = true"
    if plan.asked:
        yield f"asked = {value(plan.asked)}"
    if plan.set:
        yield f"set = {value(plan.set)}"
    yield ""
    yield "[rules]"
    yield from (f"{key(code)} = {text(digest)}" for code, digest in plan.rules.items())
    for proposal in plan.proposals:
        yield ""
        yield "[[rewrite]]"
        yield from _proposal(proposal, firings.get(proposal.number))


def _proposal(one: Proposal, firing: Firing | None) -> Iterator[str]:
    if firing is not None:
        yield comment(firing.title)
        for change in firing.changes:
            yield from (comment(f"{sign} {side}") for sign, side in (("-", change.before), ("+", change.after)) if side)
    if one.why:
        yield comment(one.why)
    yield f"apply = {value(one.apply)}"
    yield f"rule = {text(one.rule)}"
    if one.place != "main":
        yield f"place = {text(one.place)}"
    yield f"node = {text(one.node)}"
    if one.number:
        yield f"number = {one.number}"
    if one.follows:
        yield f"follows = {value(one.follows)}"
    if one.matched is not None and one.matched != (one.node,):
        yield f"matched = {value(one.matched)}"


def _seen(path: str, folder: Path) -> str:
    """A path relative to the plan."""
    if _is_elsewhere(path):
        return path
    try:
        return os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:  # another drive of Windows
        return os.path.abspath(path)


def _is_elsewhere(path: str) -> bool:
    """Whether it is a URL or the standard input."""
    return path == "-" or "://" in path


def _is_word(path: str) -> bool:
    return path == "shipped" or path.startswith("pack:")


def read(path: Path) -> Document:
    """Reads the plan in a file.

    Raises:
        RewriterError: the file cannot be read, is no TOML or no plan; the message names the line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise RewriterError(f"{path}: more than {MOST_BYTES >> 20} MiB, too big for a plan")
        written = data.decode("utf-8")
    except UnicodeDecodeError:
        raise RewriterError(f"{path}: no plan, because it is not UTF-8 text; `rewriter plan MODEL` writes one") from None
    except IsADirectoryError:
        raise RewriterError(f"{path}: a folder, not a plan") from None
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from None
    document = parse(written.replace("\r\n", "\n"), str(path))
    return _PlanReader(path, lines(written.replace("\r\n", "\n"))).read(document)


_TOP = ("schema", *(name.replace("_", "-") for name in names(Document) or () if name != "proposals"), "rewrite")
_REWRITE = ("apply", "rule", "place", "node", "number", "follows", "matched")


class _PlanReader:
    def __init__(self, path: Path, where: Mapping[Key, int]) -> None:
        self.path = path
        self.where = where

    def read(self, table: Mapping[str, Any]) -> Document:
        if table.get("schema") != SCHEMA:
            raise RewriterError(f"{self.path}: no plan of schema {SCHEMA}")
        self.known(table, (), _TOP)
        source = self.get(table, (), "source", dict, None)
        rules = self.get(table, (), "rules", dict, {})
        proposals = self.get(table, (), "rewrite", list, [])
        return Document(
            version=self.get(table, (), "version", str),
            model=self.path_of(self.get(table, (), "model", str)),
            sha256=self.get(table, (), "sha256", str),
            rule_paths=tuple(
                path if _is_word(path) else self.rule_path(path) for path in self.list(table, (), "rule-paths", str)
            ),
            rules={code: self.get(rules, ("rules",), code, str) for code in rules},
            proposals=tuple(self.proposal(entry, number) for number, entry in enumerate(proposals)),
            asked=tuple(self.list(table, (), "asked", str, [])),
            set=self.get(table, (), "set", dict, {}),
            source=None if source is None else self.source(source),
            constant_inputs=self.get(table, (), "constant-inputs", str, "auto"),
            tidy=self.get(table, (), "tidy", bool, False),
        )

    def source(self, table: Mapping[str, Any]) -> tuple[str, str]:
        way: Key = ("source",)
        return self.path_of(self.get(table, way, "path", str)), self.get(table, way, "sha256", str)

    def path_of(self, text: str) -> str:
        if "\0" in text:
            raise RewriterError(f"{self.path}: no file has a name with a null character, as {text!r}")
        return text if _is_elsewhere(text) else os.path.normpath(self.path.parent / text)

    def rule_path(self, text: str) -> str:
        path = self.path_of(text)
        return path if _is_elsewhere(path) else check_rule_path(path, f"{self.path}:{line_of(self.where, ('rule-paths',))}")

    def proposal(self, entry: Any, number: int) -> Proposal:
        way: Key = ("rewrite", number)
        if not isinstance(entry, dict):
            raise self.error(("rewrite",), "`rewrite` is an array of tables")
        self.known(entry, way, _REWRITE)
        node = self.get(entry, way, "node", str)
        count = self.get(entry, way, "number", int, 0)
        matched = self.list(entry, way, "matched", str, [node] if count else None)
        return Proposal(
            number=count,
            apply=self.get(entry, way, "apply", bool),
            rule=self.get(entry, way, "rule", str),
            place=self.get(entry, way, "place", str, "main"),
            node=node,
            matched=None if matched is None else tuple(matched),
            follows=tuple(self.list(entry, way, "follows", int, [])),
            line=line_of(self.where, way),
        )

    def known(self, table: Mapping[str, Any], way: Key, keys: Sequence[str]) -> None:
        for name in table:
            if name not in keys:
                from rewriter.core.language.diagnostics import suggest

                near = suggest(name, keys)
                raise self.error((*way, name), f"there is no key `{name}`" + (f"; did you mean `{near}`?" if near else ""))

    def get(self, table: Mapping[str, Any], way: Key, name: str, kind: type, *default: Any) -> Any:
        if name not in table and default:
            return default[0]
        if name not in table:
            raise self.error(way, f"there is no `{name}`")
        if type(table[name]) is not kind:
            raise self.error((*way, name), f"`{name}` is not {_WORDS[kind]}")
        return table[name]

    def list(self, table: Mapping[str, Any], way: Key, name: str, kind: type, *default: Any) -> Any:
        found = self.get(table, way, name, list, *default)
        if found is not None and not all(type(item) is kind for item in found):
            raise self.error((*way, name), f"each item of `{name}` is {_WORDS[kind]}")
        return found

    def error(self, way: Key, text: str) -> RewriterError:
        return RewriterError(f"{self.path}:{line_of(self.where, way)}: {text}")


_WORDS = {str: "a text", bool: "true or false", int: "a whole number", list: "a list", dict: "a table"}


# Deciding on the rewrites of a plan, and carrying out those that are accepted.

# Deciding on each proposed rewrite by an answer, instead of by editing the plan's file.

ANSWERS = "y: apply it; n: leave it out; a: apply it and all that follow; q: leave it out and all that follow"


def decide(
    proposals: Sequence[Proposal],
    firings: Mapping[int, Firing],
    tell: Callable[[str], None],
    ask: Callable[[str], str],
) -> tuple[Proposal, ...]:
    """The proposals with `apply` as answered; rejected ones (suppressed, rolled back) stay rejected, without a question.

    Args:
        proposals: in the order of the run; the rejected ones come last.
        firings: the firings that the proposals represent, by number.
        tell: prints a line.
        ask: prints a question and returns the answer; raises EOFError when there is none.

    Raises:
        RewriterError: the answers end before every proposal is decided.
    """
    out: set[int] = set()
    decided: list[Proposal] = []
    rest = ""
    many = sum(one.apply for one in proposals)
    if many:
        tell(ANSWERS)
    for at, one in enumerate(proposals, 1):
        if not one.apply:
            decided.append(one)
            continue
        if not rest:
            for line in _shown(one, firings[one.number], f"{at} of {many}", sorted(out.intersection(one.follows))):
                tell(line)
        answer = rest or _answer(tell, ask)
        rest = answer if answer in "aq" else ""
        if answer in "nq":
            out.add(one.number)
        decided.append(replace(one, apply=one.number not in out))
    return tuple(decided)


def _shown(one: Proposal, firing: Firing, at: str, missing: Sequence[int]) -> Iterator[str]:
    yield f"{at}: {one.rule} {one.node or 'model'}: {firing.title}"
    for change in firing.changes:
        yield from (f"  {sign} {side}" for sign, side in (("-", change.before), ("+", change.after)) if side)
    yield from (f"  it may be impossible without rewrite {number}, which is left out" for number in missing)


def _answer(tell: Callable[[str], None], ask: Callable[[str], str]) -> str:
    while True:
        try:
            answer = ask("apply it? [y,n,a,q] ").strip().lower()
        except EOFError:
            raise RewriterError("the answers ended before all rewrites were decided; no plan was written") from None
        if answer in ("y", "n", "a", "q"):
            return answer
        tell(ANSWERS)


UNPLANNED = "not in the plan"
REJECTED = "rejected in the plan"


class Chooser:
    """Permits the accepted firings of one run, each as often as it is accepted.

    Attributes:
        found: firings that could happen and were not permitted, each once.
    """

    def __init__(self, proposals: Sequence[Proposal], origin: str) -> None:
        self._origin = origin
        self._accepted = Counter((p.rule, p.place, p.matched) for p in proposals if p.apply)
        self._rejected = {(p.rule, p.place, p.node): p.line for p in proposals if not p.apply}
        self.found: list[Suppressed] = []

    def permit(self, fired: Fired) -> bool:
        """Whether a firing may happen."""
        rule, place = fired.compiled.rule, fired.scope.path
        root = fired.names[0] if fired.names else ""
        key = (rule.code, place, fired.names)
        if self._accepted[key] > 0:
            self._accepted[key] -= 1
            return True
        line = self._rejected.get((rule.code, place, root))
        reason, origin = (UNPLANNED, self._origin) if line is None else (REJECTED, f"{self._origin}:{line}")
        found = Suppressed(rule.code, rule.title, place, root, fired.op, reason, origin)
        if found not in self.found:
            self.found.append(found)
        return False


@record(frozen=True, slots=True)
class Missing:
    """An accepted rewrite that did not happen; `because` has the numbers of the missing rewrites that it follows."""

    proposal: Proposal
    because: tuple[int, ...]


def missing(proposals: Sequence[Proposal], log: Log) -> list[Missing]:
    """The accepted rewrites that are not in the log of the run."""
    done = Counter(map(_key, log.firings))
    gone = {proposal.number for proposal in proposals if not proposal.apply and proposal.number}
    found = []
    for proposal in proposals:
        if not proposal.apply:
            continue
        key = (proposal.rule, proposal.place, proposal.matched)
        if done[key] > 0:
            done[key] -= 1
            continue
        found.append(Missing(proposal, tuple(number for number in proposal.follows if number in gone)))
        gone.add(proposal.number)
    return found


def _key(firing: Firing) -> tuple[str, str, tuple[str, ...] | None]:
    return firing.rule, firing.place, firing.matched
