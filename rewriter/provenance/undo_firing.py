"""Taking back firings of the last recorded run: its rules run again without them, on what they ran on.

So what another rule did because of a firing is undone with it, and what that had kept another rule from doing is done.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewriter.errors import RewriterError
from rewriter.graph.model import Model, load
from rewriter.language.rules import RuleSet
from rewriter.log.records import Firing, Log
from rewriter.onnxfile.files import read_bytes
from rewriter.onnxfile.wire import MalformedError
from rewriter.provenance.check_record import replay
from rewriter.provenance.history_record import SHORT, Unreadable, history
from rewriter.provenance.stamp import file_digest, write
from rewriter.provenance.way_back import went_back
from rewriter.record import record, replace
from rewriter.source.find import load_source
from rewriter.source.info import SourceInfo


@record(slots=True)
class Undone:
    """A result without some firings.

    Attributes:
        model: the result.
        firings: of the recorded run, as they were.
        gone: those that are not there any more, what was asked for and what followed from it.
        new: those that were not there before.
        before: reads what was rewritten.
    """

    model: Model
    firings: list[Firing]
    gone: list[Firing]
    new: list[Firing]
    before: Callable[[], Model]


def recorded_firings(result: Path, known: RuleSet, original: Path | None = None, source: Path | None = None) -> list[Firing]:
    """The firings of the last recorded run, to choose from. Errors as for `undone`."""
    return _LastRun(result, known, original, source).again().firings


def undone(
    result: Path,
    wanted: Sequence[str],
    known: RuleSet,
    original: Path | None = None,
    source: Path | None = None,
    *,
    stamp: bool = True,
) -> Undone:
    """A result without firings of its last recorded run.

    Args:
        result: the file.
        wanted: numbers of firings, or codes of rules.
        known: rules, among which the recorded ones are looked for.
        original: what the run read; None: the record keeps what it takes.
        source: the framework's own file, where one was used.
        stamp: the result has a record as well.

    Raises:
        RewriterError: something that it takes is missing; the text says what.
    """
    last = _LastRun(result, known, original, source)
    firings = last.again().firings
    chosen = {one.number for one in firings if {str(one.number), one.rule.lower()} & {word.lower() for word in wanted}}
    for word in wanted:
        if not any(word.lower() in (str(one.number), one.rule.lower()) for one in firings):
            raise RewriterError(f"there is no firing {word!r} in the last run of {result}, which has {len(firings)}")
    return last.without([one for one in firings if one.number in chosen], stamp=stamp)


class _LastRun:
    def __init__(self, result: Path, known: RuleSet, original: Path | None, source: Path | None) -> None:
        self._result = result
        output = load(result)
        try:
            self._runs = history(output.metadata)
        except Unreadable as error:
            raise RewriterError(f"{result}: the record in it cannot be read: {error}") from None
        self._digest = output.read_digest()
        if not self._runs:
            raise RewriterError(f"there is no record in {result}")
        self._run = self._runs[-1]
        if self._run.command:
            raise RewriterError(f"the last run of {result} was `rewriter {self._run.command}`, and no rules that fired")
        self._known = self._rules(known)
        self._source = self._source_file(source, [path.parent for path in (original, result) if path is not None])
        self._before = self._original(original)
        self._log: Log | None = None

    def again(self) -> Log:
        """The run, as it was."""
        if self._log is None:
            model = self._before()
            self._log = replay(model, self._run, self._known, self._source, detail=True)
            write(model, self._runs)
            if model.written_digest() != self._digest:
                raise RewriterError(
                    f"{self._result} is not what its record says (`rewriter audit` tells how), and undo would lose the rest"
                )
        return self._log

    def without(self, firings: Sequence[Firing], *, stamp: bool) -> Undone:
        before = self.again().firings
        left_out = (*self._run.left_out, *((one.rule, one.place, one.root) for one in firings))
        model = self._before()
        log = replay(model, replace(self._run, left_out=left_out), self._known, self._source, detail=True)
        kept = {(one.rule, one.place, one.root) for one in log.firings}
        had = {(one.rule, one.place, one.root) for one in before}
        if stamp and model.edited:
            counts = log.counts
            rules = {code: (counts[code], digest) for code, (_, digest) in self._run.rules.items() if counts[code]}
            held = tuple(place for place in left_out if place[0] in rules)
            stops = self._run.firings if self._run.firings is None else len(log.firings)
            run = replace(self._run, rules=rules, left_out=held, firings=stops, way_back="")
            write(model, (*self._runs[:-1], run))
        return Undone(
            model,
            before,
            [one for one in before if (one.rule, one.place, one.root) not in kept],
            [one for one in log.firings if (one.rule, one.place, one.root) not in had],
            self._before,
        )

    # --- what it takes -----------------------------------------------------------------------------------------------------

    def _rules(self, known: RuleSet) -> RuleSet:
        for code, (_, digest) in self._run.rules.items():
            rule = known.get(code)
            if rule is None:
                raise RewriterError(f"undo needs rule {code}, which is not among the rules (--rules)")
            if rule.digest[:SHORT] != digest:
                raise RewriterError(f"undo needs rule {code} as it was, with digest {digest}; it has changed since (--rules)")
        return known

    def _source_file(self, told: Path | None, folders: Sequence[Path]) -> SourceInfo | None:
        if self._run.source is None:
            return None
        name, digest = self._run.source
        for path in [told] if told is not None else [folder / name for folder in folders]:
            if path.is_file() and file_digest(path) == digest:
                return load_source(path)
        raise RewriterError(f"undo needs the source file {name} with SHA-256 {digest} (--source)")

    def _original(self, path: Path | None) -> _Before:
        run = self._run
        if path is not None:
            if load(path).read_digest() != run.input:
                raise RewriterError(f"{path} is not what was rewritten; that has SHA-256 {run.input}")
            return _Before(path)
        if not run.way_back:
            raise RewriterError(
                f"undo needs the model that was rewritten: name it with --original (its SHA-256 is {run.input}); a result "
                "of `fix --record full` needs none"
            )
        try:
            data = went_back(run.way_back, read_bytes(self._result))
            found = _Before(onnx.ModelProto.FromString(data), data, self._result.absolute().parent)
        except (ValueError, TypeError, RecursionError, zlib.error, DecodeError, MalformedError) as error:
            raise RewriterError(f"{self._result}: the way back in its record cannot be gone: {error}") from None
        if found.digest() != run.input:
            raise RewriterError(f"{self._result} was changed since, so its record does not lead back to what was rewritten")
        return found


class _Before:
    """What was rewritten, to be read anew each time."""

    def __init__(self, given: Path | onnx.ModelProto, data: bytes = b"", folder: Path | None = None) -> None:
        self._given = given
        self._data = data
        self._folder = folder

    def __call__(self) -> Model:
        return load(self._given) if isinstance(self._given, Path) else Model.from_proto(self._given, self._folder)

    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self._data).hexdigest()
