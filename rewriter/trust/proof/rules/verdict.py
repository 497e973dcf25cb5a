"""The result of verification for a rule, and the lock file that keeps it. Never "proved": only the runs are known."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.files import write_file
from rewriter.core.record import field, record

TESTED, COUNTEREXAMPLE, UNVERIFIED = "tested", "counterexample", "unverified"
_CODES = {COUNTEREXAMPLE: "E501", UNVERIFIED: "E502"}


@record(frozen=True)
class Unneeded:
    """A condition that can be left out without a fault (W504): never needed, or the instances are too weak to show it.

    `broke` is the number of drafts that violate only this condition of the rule.
    """

    line: int
    text: str
    broke: int


@record
class Verdict:
    """The outcome for one rule.

    Attributes:
        rule, digest: which.
        status: TESTED, COUNTEREXAMPLE or UNVERIFIED.
        why: of the last two, in words. For TESTED repairs: the evidence for them.
        samples: instances on which the rule fired and for which the oracles had a result.
        tried: instances made.
        dtypes, opsets, ranks: the coverage of these samples: element types, opsets, ranks of inputs.
        error: the largest error seen, in units of `bound`.
        recorded: recorded exports that the rule repairs.
        quarantine: operators on which the oracles disagree before any rule has touched the model.
        unneeded: conditions that never mattered.
        crashed: instances that took the runtime's process down.
        raised: an example of a condition that raised.
        still_rejected: element types with which each model stays rejected after a repair, and why the first one is rejected.
        obligation: the counterexample on paper.
        excused: the rule's header explains why it cannot be verified.
        runs: a model that runs although `evidence: refused` claims that it is rejected.
    """

    rule: str
    digest: str
    status: str = TESTED
    why: str = ""
    samples: int = 0
    tried: int = 0
    dtypes: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    error: float = 0.0
    bound: str = ""
    recorded: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    unneeded: tuple[Unneeded, ...] = ()
    crashed: int = 0
    raised: str = ""
    still_rejected: dict[str, str] = field(default_factory=dict)
    obligation: str = ""
    excused: bool = False
    runs: bool = False
    seed: int = 0
    seconds: float = 0.0
    locked: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def acceptable(self) -> bool:
        """Whether the rule may ship: it has no counterexample, and if it is not verified, it has a written reason."""
        return self.status == TESTED or (self.status == UNVERIFIED and self.excused)

    @property
    def code(self) -> str:
        """The code of the finding, "" if there is none; `rewriter explain` has a page on it."""
        return "" if self.acceptable else "E503" if self.runs else _CODES[self.status]

    def record(self) -> dict[str, Any]:
        """The part of it that is kept in a lock file, without empty values."""
        kept = {name: getattr(self, name) for name in _KEPT} | {"error": float(f"{self.error:.3g}")}
        kept = {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}
        return {name: value for name, value in kept.items() if value not in ("", [], False, 0.0) or name in ("samples", "seed")}

    @classmethod
    def from_record(cls, rule: str, record: dict[str, Any]) -> Verdict:
        """A verdict read from a lock file."""
        empty = cls(rule, "", UNVERIFIED)
        values = {name: type(usual)(record.get(name, usual)) for name in _KEPT for usual in [getattr(empty, name)]}
        return cls(rule, **values, locked=True)


_KEPT = (
    "digest", "status", "why", "samples", "seed", "dtypes", "opsets", "ranks", "error", "bound", "recorded", "quarantine",
    "excused",
)  # fmt: skip
"""The fields of a verdict that a lock file has, in its order."""


# The lock file: verdicts kept next to the rules, so that only rules that changed are verified again.

NAME = "verified.lock.json"
SCHEMA = 1
_LEVELS = 3


def lock_path(path: Path) -> Path:
    """The place of the lock of a rule file or folder: in it, in the folder of rules of a pack, in the nearest folder upwards
    that has one, else next to the rules.
    """
    folder = path if path.is_dir() else path.parent
    start = glob.escape(str(folder))  # `Path.glob` fails if another program removes a folder meanwhile
    inside = glob.glob(f"{start}/{NAME}") or [*glob.glob(f"{start}/*/{NAME}"), *glob.glob(f"{start}/*/*/{NAME}")]
    if len(inside) == 1:
        return Path(inside[0])
    above = (parent / NAME for parent in [*folder.resolve().parents][: _LEVELS - 1])
    return next((candidate for candidate in above if candidate.is_file()), folder / NAME)


def read_lock(path: Path) -> dict[str, Verdict]:
    """The verdicts of a lock file by rule; empty if there is no lock file.

    Raises:
        RewriterError: it is no lock file.
    """
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise RewriterError(f"{path}: written by another version; verify again with --update-lock")
        return {code: Verdict.from_record(code, record) for code, record in data["rules"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise RewriterError(f"{path}: not a lock file: {error}") from None


def write_lock(path: Path, verdicts: Iterable[Verdict], versions: Mapping[str, str]) -> None:
    """Writes verdicts, sorted by rule, one line each; at once or not at all."""
    records = {verdict.rule: verdict.record() for verdict in sorted(verdicts, key=lambda verdict: verdict.rule)}
    lines = ",\n".join(f"  {json.dumps(code)}: {_compact(record)}" for code, record in records.items())
    text = f'{{"schema": {SCHEMA}, "oracles": {_compact(dict(versions))}, "rules": {{\n{lines}\n}}}}\n'
    write_file(path, text.encode(), force=True)


def holds(verdict: Verdict | None, digest: str) -> bool:
    """A locked verdict counts while the rule is unchanged and the verdict is acceptable."""
    return verdict is not None and verdict.digest == digest and verdict.acceptable


def kept_verdicts(locked: dict[str, Verdict], rules: RuleSet, chosen: set[str], *, whole: bool) -> dict[str, Verdict]:
    """Verdicts that still count, of rules not verified now. Verdicts of rules that were not loaded are kept unless `whole`."""
    loaded = {rule.code: rule.digest for rule in rules}
    others = {code: verdict for code, verdict in locked.items() if code not in chosen}
    return {code: v for code, v in others.items() if (holds(v, loaded[code]) if code in loaded else not whole)}


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
