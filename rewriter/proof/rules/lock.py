"""The lock file: verdicts kept beside the rules, so that only rules that changed are verified again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rewriter.errors import RewriterError
from rewriter.onnxfile.write import write_bytes
from rewriter.proof.rules.verdict import Verdict

NAME = "verified.lock.json"
SCHEMA = 1
_LEVELS = 3


def lock_path(path: Path) -> Path:
    """Where the lock of a rule file or folder lies: in the nearest folder upwards that has one, else beside the rules."""
    folder = path if path.is_dir() else path.parent
    for candidate in [folder, *folder.resolve().parents][:_LEVELS]:
        if (candidate / NAME).is_file():
            return candidate / NAME
    return folder / NAME


def read_lock(path: Path) -> dict[str, Verdict]:
    """The verdicts of a lock file by rule; nothing where there is none.

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
    write_bytes(path, text.encode(), force=True)


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
