"""The record that a run leaves in a model: one line of JSON in its metadata_props, under the key `rewriter.history`.

    {"schema": 1, "runs": [{"version": "0.1.0", "input": SHA-256 of the file that was rewritten,
                            "rules": {"MX001": [2, digest]}, "rule_set": digest, ...}]}

Each run that changes the model adds an entry. It holds what is needed to do the same again (`rewriter.provenance.check_record`)
and nothing that differs between two runs on the same input: no time, no path, no name of a machine. Digests are the first 16
digits of SHA-256; that of a rule is over what it says, not over its layout. The rule set is that of the rules that fired, since
no other rule had a part in the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rewriter.graph.metadata import HISTORY
from rewriter.record import as_dict, field, record

SCHEMA = 1
MOST_BYTES = 1 << 20
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
        asked: rules that were selected by their codes, and so not asked for the exporter.
        set: parameters, by "CODE.name".
        source: name and SHA-256 of the framework's own file that was used, or None.
        constant_inputs: whether initializers that are also inputs were constants; None when there were none.
        left_out: firings that were ready to happen and were left out: rolled back, or suppressed by a configuration.
        firings: after how many the run was stopped, None when it came to its end.
        tidy: whether what nothing used was removed, too.
        command: of a run that was no rules but a surgery, the command with its options; `rules` is empty then.
        others: SHA-256 of further models that it was made of.
        static: inputs that got fixed shapes first.
        packs: name and version of the packages that brought rules which fired.
        way_back: what it takes to make the input of the result (`provenance.way_back`); "" unless it was asked for.
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
    """What stands under the key is no record."""


def dumps(runs: tuple[RecordedRun, ...]) -> str:
    """The record as it is kept: nothing is written for what is as it mostly is."""
    usual = as_dict(RecordedRun("", "", {}, ""))
    told = [{name: value for name, value in as_dict(run).items() if name in _NEEDED or value != usual[name]} for run in runs]
    return json.dumps({"schema": SCHEMA, "runs": told}, separators=(",", ":"), ensure_ascii=True)


def loads(text: str) -> tuple[RecordedRun, ...]:
    """The runs of a record.

    Raises:
        Unreadable: it is none, or one of a later version.
    """
    if len(text) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("runs"), list):
        raise Unreadable(f"it has not schema {SCHEMA}")
    return tuple(map(_run, found["runs"]))


def history(metadata: Mapping[str, str]) -> tuple[RecordedRun, ...]:
    """The runs recorded in a model's metadata, first to last. Raises Unreadable."""
    return loads(metadata[HISTORY]) if HISTORY in metadata else ()


def settings_of(recorded: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Parameters by "CODE.name" as a set of rules has them."""
    return {(code, name): value for place, value in recorded.items() for code, _, name in [place.partition(".")]}


def _run(value: Any) -> RecordedRun:
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
