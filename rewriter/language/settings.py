"""Values of parameters as a person types them on a command line or in a configuration."""

from __future__ import annotations

from rewriter.errors import RewriterError
from rewriter.language.diagnostics import suggest
from rewriter.language.dtypes import DTYPES

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "ints": "whole numbers such as 1,2,3"}


def parse_value(text: str, kind: str, role: str) -> object:
    """The value of a parameter of type `kind` (`op dim int float bool string dtype ints`); `role` names it in messages.

    Quotes around texts may be left out. An element type becomes its `TensorProto` number, a dimension an int or a name.

    Raises:
        RewriterError: the text is no such value.
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
        if kind in ("string", "dim"):
            return text
    if kind == "dtype":
        if text not in DTYPES:
            near = suggest(text, DTYPES)
            hint = f"; did you mean {near}?" if near else ""
            raise RewriterError(f"{role}: {text!r} is not an element type{hint}")
        return DTYPES[text]
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "bool":
            return _TRUTHS[text.lower()]
        if kind == "ints":
            inside = text.removeprefix("[").removesuffix("]")
            return [int(part) for part in inside.split(",") if part.strip()]
    except (ValueError, KeyError):
        raise RewriterError(f"{role}: {text!r} is not {_WANTED[kind]}") from None
    if not text:
        raise RewriterError(f"{role}: the value is empty")
    if kind == "dim" and text.lstrip("-").isdigit():
        return int(text)
    return text
