"""Whether a model is what the record in it says: the recorded rules are run again, and the result is compared byte for byte."""

from __future__ import annotations

from pathlib import Path

import onnx

from rewriter import __version__
from rewriter.conditions.context import Knowledge
from rewriter.engine.limits import Limits
from rewriter.engine.run import run as run_rules
from rewriter.errors import RewriterError
from rewriter.graph.metadata import HISTORY
from rewriter.graph.model import Model, load
from rewriter.graph.static_shapes import fix_shapes
from rewriter.graph.tidy import tidy
from rewriter.inspect.diff.difference import Difference, compare
from rewriter.language.rules import RuleSet
from rewriter.log.records import Log
from rewriter.onnxfile.training import drop_stale_training, named_by_training
from rewriter.proof.kernels import has_kernel
from rewriter.provenance.history_record import SHORT, RecordedRun, Unreadable, history, settings_of
from rewriter.provenance.stamp import file_digest, fired_only, write
from rewriter.record import field, record, replace
from rewriter.source.find import find, load_source
from rewriter.source.info import SourceInfo


@record(slots=True)
class Audit:
    """What came of it.

    Attributes:
        runs: that were done again.
        findings: why the output is not what the record says, a sentence each; none when it is.
        notes: what else is to be said.
        differences: between what the record gives and the output, the former first.
    """

    runs: list[RecordedRun] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def true(self) -> bool:
        return not self.findings


def audit(before: Path, after: Path, known: RuleSet, source: Path | None = None) -> Audit:
    """Does again what the record in `after` says was done to `before`.

    Args:
        before, after: the files.
        known: rules, among which the recorded ones are looked for.
        source: the framework's own file; None: the one beside `before`.
    Raises:
        RewriterError: a model or the source file cannot be read.
    """
    found = Audit()
    output = load(after)
    try:
        runs = history(output.metadata)
    except Unreadable as error:
        raise RewriterError(f"{after}: the record in it cannot be read: {error}") from None
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
        """One run; False when it could not be done again as it is recorded."""
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
    """Runs recorded rules on a model, which is edited; with `detail` the log tells what each firing changed."""
    rules = replace(known, by_id=frozenset(run.asked), settings=settings_of(run.set))
    if run.constant_inputs is not None:
        model.constant_inputs = "yes" if run.constant_inputs else "no"
    fix_shapes(model.graph, run.static)
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
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.metadata_props[:]
    copy.metadata_props.extend(kept)
    return bytes(copy.SerializeToString(deterministic=True))
