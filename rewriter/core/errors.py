"""The one exception that means "the input is bad", and what its messages have in common. Any part may raise it, and only the
command line decides what to print.

A message names options of the command line. Functions of the Python interface name their parameters instead (`for_python`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class RewriterError(Exception):
    """Bad input, rule or option; the text is one clear line (a rule file may need several). The command line exits with 2."""


def reason(error: Exception) -> str:
    """The system's error message for a file, to print behind a path and a colon: `no such file or directory`."""
    said = getattr(error, "strerror", None)
    return said.lower() if said else str(error)


def printable(text: str) -> str:
    """The text on one line, with every control character, bidirectional mark and broken character written as an escape.

    Models of strangers contain such names: a name may contain a sequence that clears the screen or hides the rest of a line.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, noun: str) -> str:
    """`1 rule`, `2,000 rules`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """At most so many of the texts, and the number of the others: `a, b and 3 more`."""
    return between.join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def install(extra: str) -> str:
    """How to install an optional part, for messages. `rewriter` on PyPI is not this package, so a clone is named."""
    return f"pip install '.[{extra}]' in a clone of rewriter"


_PARAMETERS = {
    "extend": "rules", "from": "from_", "ir": "ir_version", "map": "maps", "memory-limit": "limits", "prefix": "prefixes",
    "rule": "rules", "set": "settings", "time-limit": "limits", "type": "types",
}  # fmt: skip
"""Options whose parameters have other names."""
_SHARED = {"force": False, "runtime": "auto", "stamp": True}
"""The parameters behind the `**options` of a function, with their defaults."""


def for_python(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the Python interface. An argument of a wrong type is an error, and messages name parameters in place of the
    command's options.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            _check_arguments(function, args, kwargs)
            return function(*args, **kwargs)
        except RewriterError as error:
            error.args = tuple(_in_python(part, function) if isinstance(part, str) else part for part in error.args)
            raise

    return called


def _check_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises TypeError for an argument that neither the function nor its `**options` have, and RewriterError for a value of
    another type than the annotation of its parameter, if that is one of `kinds`.
    """
    from collections.abc import Mapping
    from inspect import CO_VARKEYWORDS
    from numbers import Integral, Real
    from os import PathLike

    paths = ((str, PathLike), "a path")
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        "StrPath": paths,
        "Path | str": paths,
        "int": (Integral, "a whole number"),
        "float": (Real, "a number"),
        "str": (str, "a text"),
        "Mapping[str, Sequence[int]]": (Mapping, "a dictionary of shapes by the names of inputs"),
    }
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    known = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *_SHARED}
    if code.co_flags & CO_VARKEYWORDS and (unknown := kwargs.keys() - known):
        raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        annotation = str(function.__annotations__.get(name))
        kind, words = kinds.get(annotation.removesuffix(" | None"), (object, ""))
        if value is None and annotation.endswith(" | None"):
            continue
        if kind is not object and (not isinstance(value, kind) or isinstance(value, bool)):
            raise RewriterError(f"{name} is {words}, not {value!r}")


def _in_python(text: str, function: Callable[..., Any]) -> str:
    """A message with the parameters of a function: `--force` becomes `force=True`. Commands in backticks stay."""
    import re
    from inspect import Parameter, signature

    known = signature(function).parameters
    defaults = {name: parameter.default for name, parameter in known.items()}
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values()):
        defaults |= _SHARED

    def renamed(found: re.Match[str]) -> str:
        option, word = found["option"], found["word"]
        if option is None:
            return found[0]
        name = _PARAMETERS.get(option, option.replace("-", "_"))
        if name not in defaults:
            return f'("{option}", ...){word or ""}' if "edits" in known else found[0]
        if isinstance(defaults[name], bool):
            return f"{name}=True{word or ''}"
        return f'{name}="{word.strip()}"' if word and name in ("runtime", "target") else f"{name}{word or ''}"

    return re.sub(r"`[^`]*`|(?<![\w-])--(?P<option>[a-z]+(?:-[a-z]+)*)(?P<word> \w+)?", renamed, text)
