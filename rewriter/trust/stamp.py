"""The record that a run leaves in a model that it changed: written, read, and the way back that it may hold."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter import __version__
from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model import Model
from rewriter.core.language.rule_files import is_shipped
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log
from rewriter.core.onnxfile.files import read_bytes
from rewriter.core.onnxfile.wire import MalformedError, Source, entry, fields
from rewriter.core.record import as_dict, field, record, replace
from rewriter.trust.source.find import read_source_bytes

if TYPE_CHECKING:
    from rewriter.core.framework.source_info import SourceInfo
    from rewriter.core.graph.tidy import Static

# The way from a result back to the model that it was made of: the parts that the result still has, and the parts that are gone.
#
# Files are cut into the fields of the model and of its graph (nodes, weights, declarations). A part that the result has is
# recorded by its place there; everything else is kept, packed. If that is much, nothing is kept, and the input is needed.

MAX_PARTS_BYTES = 1 << 18
"""Bytes of the stored parts, packed."""

MOST_UNPACKED = 1 << 26

_GRAPH = 7
_METADATA = 14


def way_back(before: bytes, after: bytes) -> str | None:
    """The data that a record has to keep, so that `before` can be made of `after`; None if they are too large."""
    try:
        places = {chunk: place for place, chunk in enumerate(_chunks(after))}
        steps: list[list[int] | str] = []
        for chunk in _chunks(before, whole=True):
            place = places.get(chunk)
            last = steps[-1] if steps else ""
            if place is None:
                steps.append(base64.b64encode(chunk).decode())
            elif isinstance(last, list) and sum(last) == place:
                last[1] += 1
            else:
                steps.append([place, 1])
    except MalformedError:
        return None
    packed = zlib.compress(json.dumps(steps, separators=(",", ":")).encode(), 9)
    return base64.b64encode(packed).decode() if len(packed) <= MAX_PARTS_BYTES else None


def went_back(kept: str, after: bytes) -> bytes:
    """The model before. Raises ValueError, or an error of zlib, if the stored data do not belong to this result."""
    chunks = list(_chunks(after))
    steps = json.loads(zlib.decompressobj().decompress(base64.b64decode(kept), MOST_UNPACKED))
    found: list[bytes] = []
    for step in steps:
        if isinstance(step, str):
            found.append(base64.b64decode(step))
            continue
        start, count = step
        part = chunks[start : start + count]
        if start < 0 or len(part) != count:
            raise ValueError("it names parts that are not there")
        found += part
    return _joined(found)


def _chunks(data: bytes, *, whole: bool = False) -> Iterator[bytes]:
    """The fields of a model and of its graph, with a mark before the graph's; metadata are left out unless `whole`."""
    for number, _, start, value, stop in fields(Source.of(data), 0, len(data)):
        if number == _GRAPH:
            graph = data[value:stop]
            yield b"g"
            for _, _, begin, _, end in fields(Source.of(graph), 0, len(graph)):
                yield b"n" + graph[begin:end]
        elif number != _METADATA or whole:
            yield b"m" + data[start:stop]


def _joined(chunks: list[bytes]) -> bytes:
    parts: list[bytes] = []
    graph: list[bytes] | None = None
    for chunk in [*chunks, b"m"]:
        kind, content = chunk[:1], chunk[1:]
        if kind == b"n" and graph is not None:
            graph.append(content)
            continue
        if graph is not None:
            parts.append(entry(_GRAPH, b"".join(graph)))
            graph = None
        if kind == b"g":
            graph = []
        elif kind == b"m":
            parts.append(content)
        else:
            raise ValueError("a node stands outside of the graph")
    return b"".join(parts)


# The record that a run leaves in a model: one line of JSON in its metadata_props, under the key `rewriter.history`.
#
#     {"schema": 1, "runs": [{"version": "0.1.0", "input": SHA-256 of the file that was rewritten,
#                             "rules": {"MX001": [2, digest]}, "rule_set": digest, ...}]}
#
# Each run that changes the model adds an entry, which holds all that is needed to repeat the run (`check_record`), and nothing
# that differs between two runs on the same input: no time, no path, no name of a machine. Digests are the first 16 digits of
# SHA-256. The digest of a rule covers its content, not its layout. `rule_set` covers the rules that fired, since no other
# rule had a part in the result.

SCHEMA = 1
MAX_RECORD_BYTES = 1 << 20
SHORT = 16

Place = tuple[str, str, str]
"""Rule, path of the graph, root node."""


@record(frozen=True, slots=True)
class RecordedRun:
    """One run.

    Attributes:
        version: of this program.
        input: SHA-256 of the file that was read; external data are not in it.
        rules: how often each rule fired, and its digest, by code.
        rule_set: digest over these rules and their parameters.
        asked: rules that were selected by their codes, so that the exporter was not checked.
        set: parameters, by "CODE.name".
        source: name and SHA-256 of the framework's own file that was used, or None.
        constant_inputs: whether initializers that are also inputs were constants; None if there were none.
        left_out: firings that were ready to happen and were left out: rolled back, or suppressed by a configuration.
        firings: the number after which the run was stopped, None if it came to its end.
        tidy: whether unused parts were also removed.
        command: for a surgery instead of a run of rules, the command with its options; `rules` is empty then.
        others: SHA-256 of further models that were inputs.
        static: inputs that got fixed shapes first.
        packs: name and version of the packages that brought rules which fired.
        way_back: the data to make the input from the result (`way_back`); "" unless they were requested.
    """

    version: str
    input: str
    rules: Mapping[str, tuple[int, str]]
    rule_set: str
    asked: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    source: tuple[str, str] | None = None
    constant_inputs: bool | None = None
    left_out: tuple[Place, ...] = ()
    firings: int | None = None
    tidy: bool = False
    command: str = ""
    others: tuple[str, ...] = ()
    static: tuple[tuple[str, tuple[int, ...]], ...] = ()
    packs: tuple[str, ...] = ()
    way_back: str = ""


_NEEDED = ("version", "input", "rules", "rule_set")


class Unreadable(ValueError):
    """The value under the key is no record."""


def dumps(runs: tuple[RecordedRun, ...]) -> str:
    """The record as it is stored: default values are left out."""
    usual = as_dict(RecordedRun("", "", {}, ""))
    entries = [{name: value for name, value in as_dict(run).items() if name in _NEEDED or value != usual[name]} for run in runs]
    return json.dumps({"schema": SCHEMA, "runs": entries}, separators=(",", ":"), ensure_ascii=True)


def loads(text: str) -> tuple[RecordedRun, ...]:
    """The runs of a record.

    Raises:
        Unreadable: it is none, or one of a later version.
    """
    if len(text) > MAX_RECORD_BYTES:
        raise Unreadable(f"it has more than {MAX_RECORD_BYTES} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("runs"), list):
        raise Unreadable(f"it has not schema {SCHEMA}")
    return tuple(map(_run_of_json, found["runs"]))


def history(metadata: Mapping[str, str]) -> tuple[RecordedRun, ...]:
    """The runs recorded in a model's metadata, first to last. Raises Unreadable."""
    return loads(metadata[HISTORY]) if HISTORY in metadata else ()


def settings_of(recorded: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Parameters by "CODE.name" as a set of rules has them."""
    return {(code, name): value for place, value in recorded.items() for code, _, name in [place.partition(".")]}


def _run_of_json(value: Any) -> RecordedRun:
    try:
        if not isinstance(value, dict):
            raise TypeError
        rules = {str(code): (int(count), _text(digest)) for code, (count, digest) in value["rules"].items()}
        source, constant = value.get("source"), value.get("constant_inputs")
        settings = value.get("set", {})
        if not isinstance(settings, dict) or constant not in (None, True, False):
            raise TypeError
        name, digest = source if source is not None else ("", "")
        return RecordedRun(
            version=_text(value["version"]),
            input=_text(value["input"]),
            rules=rules,
            rule_set=_text(value["rule_set"]),
            asked=tuple(map(_text, value.get("asked", ()))),
            set=settings,
            source=None if source is None else (_text(name), _text(digest)),
            constant_inputs=constant,
            left_out=tuple((_text(rule), _text(place), _text(root)) for rule, place, root in value.get("left_out", ())),
            firings=None if value.get("firings") is None else int(value["firings"]),
            tidy=bool(value.get("tidy", False)),
            command=_text(value.get("command", "")),
            others=tuple(map(_text, value.get("others", ()))),
            static=tuple((_text(name), tuple(map(int, shape))) for name, shape in value.get("static", ())),
            packs=tuple(map(_text, value.get("packs", ()))),
            way_back=_text(value.get("way_back", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise Unreadable("a run in it cannot be understood") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_ENDED = ("Budget", "Time")


def stamp(
    model: Model,
    log: Log,
    rules: RuleSet,
    *,
    source: SourceInfo | None = None,
    tidy: bool = False,
    static: Static = (),
    full: bool = False,
) -> None:
    """Adds a run to the record in a model's metadata, and writes into its nodes which rules made or changed them.

    Nothing is done when no rule fired. A value under the key that is no record is left as it is, and the log says so.

    Args:
        model: the model, after the run.
        log: of the run.
        rules: the rules of the run, as they were selected.
        source: the framework's own file that was used.
        tidy: whether `graph.tidy` was run as well, which by itself is reason enough for a record.
        static: inputs that got fixed shapes before, which is also reason enough.
        full: the record keeps the data that `rewriter undo` needs, if that is not too much.
    Raises:
        RewriterError: the file that the model was read from was changed meanwhile or cannot be read, or an argument has
            another type.
    """
    if not (isinstance(model, Model) and isinstance(log, Log) and isinstance(rules, RuleSet)):
        raise RewriterError("stamp takes a rewriter.Model, the log of a run on its graph, and the RuleSet that ran")
    if not (log.changed or tidy or static):
        return
    try:
        before = history(model.metadata)
    except Unreadable as error:
        log.notes.append(f"no record was written: the metadata entry {HISTORY} cannot be read ({error})")
        return
    run = _run(model, log, rules, source, model.digest_to_record(), tidy=tidy, static=static)
    write(model, (*before, run))
    if full:
        kept = None
        if not model.is_large and model.path is not None:
            kept = way_back(read_bytes(model.path), model.to_proto().SerializeToString(deterministic=True))
        if kept is None:
            log.notes.append("the record does not keep the removed parts, which are too large; `undo` also needs the input")
        else:
            write(model, (*before, replace(run, way_back=kept)))


def write(model: Model, runs: tuple[RecordedRun, ...]) -> None:
    """Puts a record into a model, and writes into its nodes which rules made or changed them."""
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
    """Name and version of the packages that bring some of these rules; no package is searched if all rules are shipped."""
    others = [os.path.realpath(rule.path) for rule in rules if not is_shipped(rule.path)]
    if not others:
        return ()
    from rewriter.rule_tools.load_rules import packs

    folders = {pack.distribution: os.path.realpath(pack.folder) + os.sep for pack in packs()}
    return tuple(sorted(name for name, folder in folders.items() if any(path.startswith(folder) for path in others)))


def _left_out(log: Log) -> tuple[Place, ...]:
    """Firings of rules that also fired elsewhere; all other firings are left out by leaving out the rule."""
    places = {(one.rule, one.place, one.root) for one in log.rolled_back if one.place}
    places |= {(one.rule, one.place, one.root) for one in log.suppressed}
    return tuple(sorted(place for place in places if place[0] in log.counts))
