"""Whether a model agrees with its record, and the model without one of the recorded firings.

`audit` runs the recorded rules again and compares; `undo` runs them without some firings, on the model that the record leads
back to.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewriter import __version__
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run as run_rules
from rewriter.core.errors import RewriterError
from rewriter.core.framework.source_info import SourceInfo
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model import Model, drop_stale_training, load, named_by_training
from rewriter.core.graph.model_text import graphs_by_path, message_name
from rewriter.core.graph.objects import rules_of
from rewriter.core.graph.tidy import fix_shapes, remove_dead_nodes, tidy
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Log
from rewriter.core.onnxfile.files import read_bytes
from rewriter.core.onnxfile.tensors import text
from rewriter.core.onnxfile.wire import MalformedError
from rewriter.core.record import field, record, replace
from rewriter.trust.difference import Difference, compare
from rewriter.trust.proof.guard import place_of
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.source.find import find, load_source
from rewriter.trust.stamp import (
    SHORT,
    RecordedRun,
    Unreadable,
    file_digest,
    fired_only,
    history,
    settings_of,
    went_back,
    write,
)

# The rules that made or changed nodes, as the nodes of a model record them.


@record(frozen=True, slots=True)
class Mark:
    """A node (of a node without a name: its first output) and its rules, first to last."""

    place: str
    node: str
    op: str
    rules: tuple[str, ...]


def marks(model: onnx.ModelProto) -> list[Mark]:
    """All marked nodes, in the order of the model; none if ir_version is below 10, which has no metadata of nodes."""
    return [
        Mark(path, message_name(node), text(node.op_type), rules)
        for path, graph in graphs_by_path(model)
        for node in graph.node
        if (rules := rules_of(node))
    ]


@record(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        runs: the runs that were repeated.
        findings: why the output does not agree with the record, a sentence each; empty if it agrees.
        notes: further messages.
        differences: between the repeated output (first) and the output.
    """

    runs: list[RecordedRun] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def true(self) -> bool:
        return not self.findings


def audit(before: Path, after: Path, known: RuleSet, source: Path | None = None) -> Audit:
    """Repeats on `before` the runs that the record in `after` lists.

    Args:
        before, after: the files.
        known: rules, among which the recorded ones are looked up.
        source: the framework's own file; None: the one next to `before`.
    Raises:
        RewriterError: a model or the source file cannot be read.
    """
    found = Audit()
    output, runs = _recorded(after)
    model = load(before)
    digest = model.read_digest()
    if digest == output.read_digest():
        found.notes.append("both files are the same")
        return found
    if not runs:
        found.findings.append(f"there is no record in {after}")
        return found
    start = next((number for number, run in enumerate(runs) if run.input == digest), None)
    if start is None:
        found.findings.append(f"no recorded run began with {before}: its SHA-256 is {digest}")
        return found
    return _Replay(model, before, known, source, found).through(runs, start, output)


def _recorded(path: Path) -> tuple[Model, tuple[RecordedRun, ...]]:
    """A model and the runs that are recorded in it. Raises RewriterError if they cannot be read."""
    model = load(path)
    try:
        return model, history(model.metadata)
    except Unreadable as error:
        raise RewriterError(f"{path}: the record in it cannot be read: {error}") from None


class _Replay:
    def __init__(self, model: Model, path: Path, known: RuleSet, source: Path | None, found: Audit) -> None:
        self.model = model
        self.path = path
        self.known = known
        self.source = source
        self.found = found

    def through(self, runs: tuple[RecordedRun, ...], start: int, output: Model) -> Audit:
        """All runs from one on, and the comparison at the end."""
        for number in range(start, len(runs)):
            run = runs[number]
            if number > start and self.model.written_digest() != run.input:
                self.found.findings.append(f"something else changed the model between runs {number} and {number + 1}")
                return self.found
            if number > start:
                self.model = Model.from_proto(self.model.to_proto(), self.model.folder)
            if not self.once(run, runs[:number]):
                return self.found
            self.found.runs.append(run)
        self.compare(output)
        return self.found

    def once(self, run: RecordedRun, before: tuple[RecordedRun, ...]) -> bool:
        """Repeats one run; False if it could not be repeated as recorded."""
        findings = self.found.findings
        if run.command:
            findings.append(f"`rewriter {run.command}` is recorded, which an audit does not repeat")
            return False
        if run.version != __version__:
            self.found.notes.append(f"recorded by version {run.version}, done again by {__version__}")
        for code, (_, digest) in run.rules.items():
            rule = self.known.get(code)
            if rule is None:
                brought = f"; rules of {', '.join(run.packs)} fired" if run.packs else ""
                findings.append(f"rule {code} is not among the rules (--rules, --extend){brought}")
            elif rule.digest[:SHORT] != digest:
                findings.append(f"rule {code} has changed: recorded {digest}, now {rule.digest[:SHORT]}")
        source = self.source_of(run)
        if findings:
            return False
        log = replay(self.model, run, self.known, source)
        for code, (count, _) in run.rules.items():
            if log.counts[code] != count:
                findings.append(f"{code} fired {log.counts[code]} times, but {count} times are recorded")
        write(self.model, (*before, run))
        return True

    def source_of(self, run: RecordedRun) -> SourceInfo | None:
        if run.source is None:
            return None
        name, digest = run.source
        path = self.source or find(self.path)
        if path is None:
            self.found.findings.append(f"the source file {name} is missing (--source)")
            return None
        source = load_source(path)
        if file_digest(Path(path)) != digest:
            self.found.findings.append(f"{path} is not the recorded source file {name}, whose SHA-256 is {digest}")
        return source

    def compare(self, output: Model) -> None:
        if self.model.written_digest() == output.read_digest():
            return
        mine, theirs = self.model.to_proto(), output.to_proto()
        self.found.differences = list(compare(mine, theirs, self.model.folder, output.folder))
        if self.found.differences:
            self.found.findings.append("the output is not what the recorded rules make of the input")
        else:
            what = (
                "a different record"
                if _without_record(mine) == _without_record(theirs)
                else "other names, doc strings, types or order"
            )
            self.found.findings.append(f"the output computes what the recorded rules make of the input, but has {what}")


def replay(model: Model, run: RecordedRun, known: RuleSet, source: SourceInfo | None, *, detail: bool = False) -> Log:
    """Runs recorded rules on a model, which is edited. With `detail` the log also has the changes of each firing."""
    rules = replace(known, by_id=frozenset(run.asked), settings=settings_of(run.set))
    if run.constant_inputs is not None:
        model.constant_inputs = "yes" if run.constant_inputs else "no"
    fix_shapes(model.graph, run.static)
    if run.tidy:
        remove_dead_nodes(model.graph)
    log = run_rules(
        model.graph,
        fired_only(rules, frozenset(run.rules)),
        Knowledge(source, overridable=model.overridable, has_kernel=has_kernel),
        limits=Limits() if run.firings is None else Limits(firings=run.firings),
        detail=detail,
        veto=run.left_out,
    )
    if run.tidy:
        tidy(model.graph, named_by_training(model.training_info))
    drop_stale_training(model.training_info, model.graph)
    return log


def _without_record(model: onnx.ModelProto) -> bytes:
    kept = [entry for entry in model.metadata_props if entry.key != HISTORY]
    copy = deepcopy(model)
    del copy.metadata_props[:]
    copy.metadata_props.extend(kept)
    return bytes(copy.SerializeToString(deterministic=True))


# Undoing firings of the last recorded run: its rules run again without these firings, on the same model.
#
# So changes of another rule that followed from a firing are undone with it, and rules that the firing had prevented now fire.


@record(slots=True)
class Undone:
    """A result without some firings.

    Attributes:
        model: the result.
        firings: of the recorded run, as they were.
        gone: the firings that are missing now: the requested ones and those that followed from them.
        new: the firings that are new.
        before: reads the model before the rewrite.
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
        known: rules, among which the recorded ones are looked up.
        original: the input of the run; None: the record keeps the data for it.
        source: the framework's own file, if one was used.
        stamp: whether the result also has a record.

    Raises:
        RewriterError: something required is missing; the message names it.
    """
    last = _LastRun(result, known, original, source)
    firings = last.again().firings
    chosen = {one.number for one in firings if {str(one.number), one.rule.lower()} & {word.lower() for word in wanted}}
    for word in wanted:
        if not any(word.lower() in (str(one.number), one.rule.lower()) for one in firings):
            raise RewriterError(
                f"the last run of {result} has no rewrite {word!r}; `rewriter undo {result}` lists its {len(firings)}"
            )
    return last.without([one for one in firings if one.number in chosen], stamp=stamp)


class _LastRun:
    def __init__(self, result: Path, known: RuleSet, original: Path | None, source: Path | None) -> None:
        self._result = result
        output, self._runs = _recorded(result)
        self._digest = output.read_digest()
        if not self._runs:
            raise RewriterError(f"there is no record in {result}")
        self._run = self._runs[-1]
        if self._run.command:
            raise RewriterError(f"the last run of {result} was `rewriter {self._run.command}`, in which no rules fired")
        self._known = self._rules(known)
        self._source = self._source_file(source, [path.parent for path in (original, result) if path is not None])
        self._before = self._original(original)
        self._log: Log | None = None

    def again(self) -> Log:
        """Runs the recorded run again."""
        if self._log is None:
            model = self._before()
            self._log = replay(model, self._run, self._known, self._source, detail=True)
            write(model, self._runs)
            if model.written_digest() != self._digest:
                raise RewriterError(
                    f"{self._result} differs from its record (run `rewriter audit`), and undo would lose the other changes"
                )
        return self._log

    def without(self, firings: Sequence[Firing], *, stamp: bool) -> Undone:
        before = self.again().firings
        left_out = (*self._run.left_out, *map(place_of, firings))
        model = self._before()
        log = replay(model, replace(self._run, left_out=left_out), self._known, self._source, detail=True)
        kept, had = (set(map(place_of, firings)) for firings in (log.firings, before))
        if stamp and model.edited:
            counts = log.counts
            rules = {code: (counts[code], digest) for code, (_, digest) in self._run.rules.items() if counts[code]}
            kept_places = tuple(place for place in left_out if place[0] in rules)
            stops = self._run.firings if self._run.firings is None else len(log.firings)
            run = replace(self._run, rules=rules, left_out=kept_places, firings=stops, way_back="")
            write(model, (*self._runs[:-1], run))
        return Undone(
            model,
            before,
            [one for one in before if place_of(one) not in kept],
            [one for one in log.firings if place_of(one) not in had],
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

    def _source_file(self, path_of_user: Path | None, folders: Sequence[Path]) -> SourceInfo | None:
        if self._run.source is None:
            return None
        name, digest = self._run.source
        for path in [path_of_user] if path_of_user is not None else [folder / name for folder in folders]:
            if path.is_file() and file_digest(path) == digest:
                return load_source(path)
        raise RewriterError(f"undo needs the source file {name} with SHA-256 {digest} (--source)")

    def _original(self, path: Path | None) -> Callable[[], Model]:
        """Reads the model before the rewrite, each time anew."""
        run = self._run
        if path is not None:
            if load(path).read_digest() != run.input:
                raise RewriterError(f"{path} is not the original model, which has SHA-256 {run.input}")
            return partial(load, path)
        if not run.way_back:
            raise RewriterError(
                f"undo needs the original model: name it with --original (its SHA-256 is {run.input}); you do not need it for "
                "a result of `fix --record full`"
            )
        try:
            data = went_back(run.way_back, read_bytes(self._result))
            found = onnx.ModelProto.FromString(data)
        except (ValueError, TypeError, RecursionError, zlib.error, DecodeError, MalformedError) as error:
            raise RewriterError(f"{self._result}: its record does not make the original model again: {error}") from None
        if hashlib.sha256(data).hexdigest() != run.input:
            raise RewriterError(f"{self._result} was changed since, so its record does not make the original model again")
        return partial(Model.from_proto, found, self._result.absolute().parent)
