"""The JSON Schema of reports, made of the types that reports are made of, so that it cannot say anything else.

What the fields mean stands in the docstrings of these types; it is taken over as their description.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rewriter.app.report.document import SCHEMA, Report
from rewriter.trust.consumers.consumer_verdict import Verdict

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_ATTRIBUTE = re.compile(r"    (\w+(?:, \w+)*): ((?:.+)(?:\n        .+)*)")


def report_schema() -> dict[str, Any]:
    """The schema of the JSON report. Fields may be added to reports without notice; so it forbids none."""
    found: dict[str, Any] = {}
    whole = _of_record(Report, found)
    whole["properties"]["schema"]["const"] = SCHEMA
    return {
        "$schema": DRAFT,
        "title": "Report of rewriter fix and rewriter check",
        **whole,
        "$defs": {name: found[name] for name in sorted(found)},
    }


def _of_record(record: type, found: dict[str, Any]) -> dict[str, Any]:
    """The object of a dataclass; records inside it are put into `found`."""
    head, said = _described(record)
    hints = get_type_hints(record, localns={"Verdict": Verdict})  # which a report without consumers does not import
    shown = [f.name for f in fields(record) if f.metadata.get("shown", True)]
    properties = {}
    for name in shown:
        properties[name] = _of_type(hints[name], found)
        if name in said:
            properties[name] = {"description": said[name], **properties[name]}
    return {"description": head, "type": "object", "properties": properties, "required": shown}


def _of_type(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in found:
            found[kind.__name__] = {}  # a record that holds itself must not be looked at for ever
            found[kind.__name__] = _of_record(kind, found)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(argument, found) for argument in arguments]}
    if origin in (list, Collection) or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return {"type": "array", "items": _of_type(arguments[0], found)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(arguments[1], found)}
    raise TypeError(f"no schema for {kind!r}")


def _described(record: type) -> tuple[str, dict[str, str]]:
    """What a docstring says of the whole, and of each attribute."""
    text = cleandoc(record.__doc__ or "")
    head, _, rest = text.partition("\nAttributes:\n")
    said = {}
    for names, words in _ATTRIBUTE.findall(rest):
        said.update(dict.fromkeys(names.split(", "), " ".join(words.split())))
    return " ".join(head.split()), said
