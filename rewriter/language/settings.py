"""Values of parameters as a person types them on a command line or in a configuration."""

from __future__ import annotations

from collections.abc import Mapping

from rewriter.errors import RewriterError
from rewriter.language.diagnostics import suggest
from rewriter.language.dtypes import DTYPES
from rewriter.language.rule import Rule

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


def parse_setting(text: str, rules: Mapping[str, Rule]) -> tuple[tuple[str, str], object]:
    """Reads "SURG010.batch=B" into (("SURG010", "batch"), "B"), the value by the parameter's declared type.

    Raises:
        RewriterError: another form, no such rule or parameter, or a value that the parameter cannot take.
    """
    place, equals, value = text.partition("=")
    code, dot, name = place.strip().partition(".")
    if not (equals and dot and code and name):
        raise RewriterError(f"{text!r} is not a setting; write CODE.parameter=value")
    code = code.upper()
    rule = rules.get(code)
    if rule is None:
        near = suggest(code, rules)
        raise RewriterError(
            f"cannot set {place.strip()}: there is no rule {code}" + (f"; did you mean {near}?" if near else "")
        )
    code = rule.code  # maybe another rule's once
    params = {param.name: param for param in rule.ast.params}
    if name not in params:
        has = f"it has {', '.join(params)}" if params else "it has none"
        raise RewriterError(f"cannot set {place.strip()}: rule {code} has no parameter {name!r}; {has}")
    return (code, name), parse_value(value.strip(), params[name].type, place.strip())
