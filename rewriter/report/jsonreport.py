"""Results as JSON, for machines: the record of a call field by field, and what other commands print."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rewriter.report.document import Report


def report_text(report: Report) -> str:
    """The record of a call; its format is `docs/schema/report.json`."""
    return dumps(plain(report))


def plain(value: Any) -> Any:
    """A record as dictionaries, lists, texts and numbers; what no number can say (infinity, NaN) is null."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("shown", True)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def dumps(value: object) -> str:
    """JSON in ASCII, so that no name can break a terminal or an encoding."""
    return json.dumps(value, indent=1, ensure_ascii=True)
