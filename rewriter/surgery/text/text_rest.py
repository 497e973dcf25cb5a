"""What one message says and another does not, as data for JSON, and putting it in again.

Entries of lists are told by what names them (the first output of a node, the name of a tensor), so that they are found again in
a list that was edited meanwhile. A value that both messages have stands as the pair of them: it is put in only where the other
message still has its own.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped]
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]

from rewriter.surgery.text.exact_json import as_data

Rest = dict[str, Any]
_GONE = None
_NAMES = ("name", "key", "tensor_name", "domain")


def missing(wanted: Any, found: Any) -> Rest:
    """By field, what is to be done to `found` so that it says what `wanted` says."""
    rest: Rest = {}
    for field in wanted.DESCRIPTOR.fields:
        ours, theirs = _value(wanted, field), _value(found, field)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if not _repeated(field) and ours is not None and theirs is not None:
                if inner := missing(ours, theirs):
                    rest[field.name] = inner
                continue
            if _repeated(field) and len(ours) == len(theirs) and ours:
                inner = {
                    name: below for name, a, b in zip(_names(theirs), ours, theirs, strict=True) if (below := missing(a, b))
                }
                if inner:
                    rest[field.name] = inner
                continue
        if ours != theirs:
            rest[field.name] = [_said(theirs, field), _said(ours, field)]
    return rest


def supplied(found: Any, rest: Rest) -> int:
    """Puts what is missing into a message; of how much there was no place any more."""
    left = 0
    for name, what in rest.items():
        field = found.DESCRIPTOR.fields_by_name[name]
        if isinstance(what, list):
            before, after = what
            if repr(_said(_value(found, field), field)) == repr(before):  # NaN is NaN
                _put(found, field, after)
            else:
                left += 1
        elif not _repeated(field):
            left += supplied(getattr(found, name), what)
        else:
            entries = dict(zip(_names(getattr(found, name)), getattr(found, name), strict=True))
            for key, inner in what.items():
                left += supplied(entries[key], inner) if key in entries else 1
    return left


def _names(entries: Sequence[Any]) -> list[str]:
    """A name for each entry of a list: its own, or its place where it has none or shares it."""
    own = []
    for entry in entries:
        outputs = getattr(entry, "output", None)
        own.append(
            next((str(name) for name in outputs if name), "")
            if outputs is not None and hasattr(entry, "op_type")
            else next((str(getattr(entry, name)) for name in _NAMES if hasattr(entry, name)), "")
        )
    seen: dict[str, int] = {}
    for name in own:
        seen[name] = seen.get(name, 0) + 1
    return [name if name and seen[name] == 1 else f"#{place}" for place, name in enumerate(own)]


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def _value(message: Any, field: FieldDescriptor) -> Any:
    if _repeated(field):
        return list(getattr(message, field.name))
    return getattr(message, field.name) if message.HasField(field.name) else _GONE


def _said(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_said(item, field) for item in value]
    if value is _GONE:
        return None
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return as_data(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return value


def _put(message: Any, field: FieldDescriptor, said: Any) -> None:
    message.ClearField(field.name)
    if said is None:
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        for item in said if _repeated(field) else [said]:
            into = getattr(message, field.name).add() if _repeated(field) else getattr(message, field.name)
            into.SetInParent()
            json_format.ParseDict(item, into)
    elif _repeated(field):
        getattr(message, field.name).extend(base64.b64decode(item) if _bytes(field) else item for item in said)
    else:
        setattr(message, field.name, base64.b64decode(said) if _bytes(field) else said)


def _bytes(field: FieldDescriptor) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_BYTES)
