"""Writing the record of a run into the model that it changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rewriter import __version__
from rewriter.graph.metadata import HISTORY
from rewriter.graph.model import Model
from rewriter.graph.static_shapes import Static
from rewriter.language.rule_files import is_shipped
from rewriter.language.rules import RuleSet
from rewriter.log.records import Log
from rewriter.onnxfile.files import read_bytes
from rewriter.provenance.history_record import SHORT, Place, RecordedRun, Unreadable, dumps, history
from rewriter.provenance.way_back import way_back
from rewriter.record import replace
from rewriter.source.find import read_source_bytes
from rewriter.source.info import SourceInfo

_ENDED = ("Budget", "Time")


def stamp(
    model: Model,
    log: Log,
    rules: RuleSet,
    *,
    source: SourceInfo | None = None,
    tidy: bool = False,
    static: Static = (),
    digest: str | None = None,
    full: bool = False,
) -> None:
    """Adds a run to the record in a model's metadata, and has its nodes say which rules made or changed them.

    Nothing is done when no rule fired. What stands under the key and is no record is left as it is, and the log says so.

    Args:
        model: the model, after the run.
        log: of the run.
        rules: the rules of the run, as they were selected.
        source: the framework's own file that was used.
        tidy: whether `graph.tidy` was run as well, which by itself is reason enough for a record.
        static: inputs that got fixed shapes before, which is reason enough, too.
        digest: SHA-256 of what the model was read from; None: of its file.
        full: the record keeps what `rewriter undo` needs, where that is not too much.
    Raises:
        RewriterError: the file that the model was read from was changed meanwhile, or cannot be read.
    """
    if not (log.changed or tidy or static):
        return
    try:
        before = history(model.metadata)
    except Unreadable as error:
        log.notes.append(f"no record was written: the metadata entry {HISTORY} cannot be read ({error})")
        return
    run = _run(model, log, rules, source, digest or model.digest_to_record(), tidy=tidy, static=static)
    write(model, (*before, run))
    if full:
        kept = None
        if not model.is_large and model.path is not None:
            kept = way_back(read_bytes(model.path), model.to_proto().SerializeToString(deterministic=True))
        if kept is None:
            log.notes.append("the record does not keep what `undo` needs, since too much is gone; undo needs the input as well")
        else:
            write(model, (*before, replace(run, way_back=kept)))


def write(model: Model, runs: tuple[RecordedRun, ...]) -> None:
    """Puts a record into a model, and has its nodes say which rules made or changed them."""
    model.metadata[HISTORY] = dumps(runs)
    model.marks_nodes = True


def fired_only(rules: RuleSet, codes: frozenset[str]) -> RuleSet:
    """The rules of some codes, with their parameters."""
    return replace(
        rules,
        rules=tuple(rule for rule in rules if rule.code in codes),
        by_id=rules.chosen_runtimes & codes,
        settings={place: value for place, value in rules.settings.items() if place[0] in codes},
        selected=True,
    )


def file_digest(path: Path) -> str:
    """SHA-256 of a source file. Raises RewriterError when it cannot be read, or is larger than such files are."""
    return hashlib.sha256(read_source_bytes(path)).hexdigest()


def _run(
    model: Model, log: Log, rules: RuleSet, source: SourceInfo | None, digest: str, *, tidy: bool, static: Static
) -> RecordedRun:
    counts = log.counts
    used = fired_only(rules, frozenset(counts))
    return RecordedRun(
        version=__version__,
        input=digest,
        rules={rule.code: (counts[rule.code], rule.digest[:SHORT]) for rule in used},
        rule_set=used.digest[:SHORT],
        asked=tuple(sorted(used.by_id)),
        set={f"{code}.{name}": value for (code, name), value in sorted(used.settings.items())},
        source=None if source is None else (Path(source.path).name, file_digest(Path(source.path))),
        constant_inputs=model.inputs_are_constant if model.listed else None,
        left_out=_left_out(log),
        firings=len(log.firings) if any(stop.kind in _ENDED for stop in log.stops) else None,
        tidy=tidy,
        static=tuple((name, tuple(shape)) for name, shape in static),
        packs=_packs(used),
    )


def _packs(rules: RuleSet) -> tuple[str, ...]:
    """Of the packages that bring some of these rules name and version; nobody is asked where all of them are shipped."""
    others = [os.path.realpath(rule.path) for rule in rules if not is_shipped(rule.path)]
    if not others:
        return ()
    from rewriter.config.packs import packs

    folders = {pack.distribution: os.path.realpath(pack.folder) + os.sep for pack in packs()}
    return tuple(sorted(name for name, folder in folders.items() if any(path.startswith(folder) for path in others)))


def _left_out(log: Log) -> tuple[Place, ...]:
    """Firings of rules that fired elsewhere; those of the others are left out by leaving out the rule."""
    places = {(one.rule, one.place, one.root) for one in log.rolled_back if one.place}
    places |= {(one.rule, one.place, one.root) for one in log.suppressed}
    return tuple(sorted(place for place in places if place[0] in log.counts))
