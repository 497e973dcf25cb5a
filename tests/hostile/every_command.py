"""Calls of every command that reads a file, for files that are meant to hurt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from tests.hostile.poison_files import POISON_FILES

CALLS: dict[str, Sequence[str]] = {
    "check": ("{m}",),
    "check --format json": ("{m}", "--format", "json"),
    "fix": ("{m}", "-o", "{out}/fixed.onnx"),
    "fix --verify": ("{m}", "-o", "{out}/verified.onnx", "--report", "{out}/r.html"),
    "optimize": ("{m}", "-o", "{out}/small.onnx"),
    "plan": ("{m}", "-o", "{out}/plan.toml"),
    "apply": ("{out}/plan.toml", "-o", "{out}/applied.onnx"),
    "why": ("HYG003", "{m}"),
    "show": ("{m}", "--nodes"),
    "view": ("{m}", "-o", "{out}/m.html"),
    "view of two": ("{m}", "{fixed}", "-o", "{out}/two.html"),
    "picture": ("{m}", "-o", "{out}/p.svg"),
    "picture --firing": ("{m}", "--firing", "1", "-o", "{out}/f.svg"),
    "diff": ("{m}", "{fixed}"),
    "compare": ("{fixed}", "{fixed}"),
    "history": ("{fixed}",),
    "audit": ("{m}", "{fixed}"),
    "undo": ("{fixed}", "1", "-o", "{out}/undone.onnx"),
    "coverage": ("{rules}", "{m}"),
    "extract": ("{m}", "--to", "m", "-o", "{out}/part.onnx"),
    "split": ("{m}", "--at", "m", "-o", "{out}/part{{}}.onnx"),
    "merge": ("{m}", "{m}", "--map", "z=x", "-o", "{out}/twice.onnx"),
    "edit": ("{m}", "--rename", "x=first", "-o", "{out}/edited.onnx"),
    "reduce": ("{m}", "-o", "{out}/reduced.onnx"),
    "reduce --keep": ("{m}", "--keep", "rule: HYG003", "-o", "{out}/kept.onnx"),
    "convert": ("{m}", "--dtype", "float16", "-o", "{out}/half.onnx"),
    "quantize-prep": ("{m}", "-o", "{out}/prepared.onnx"),
    "text": ("{m}", "-o", "{out}/m.onnxtxt"),
    "run": ("{fixed}", "-o", "{out}/run.npz"),
    "bench": ("{fixed}", "--seconds", "1"),
    "new": ("MY001", "--from", "{m}", "--around", "z", "-o", "{out}/MY001_new.rules"),
    "opset": ("{m}", "18", "-o", "{out}/opset.onnx"),
    "infer": ("{m}", "-o", "{out}/typed.onnx"),
    "save": ("{m}", "--external", "-o", "{out}/saved.onnx"),
}
"""By the command and what is particular: arguments, with the model, a folder for results, the result of `fix` if there is one, and
a rule file.
"""

_OF_SETTINGS = {
    "check": ("{m}",),
    "fix": ("{m}", "-o", "{out}/fixed.onnx"),
    "optimize": ("{m}", "-o", "{out}/small.onnx"),
    "plan": ("{m}", "-o", "{out}/plan.toml"),
    "why": ("HYG003", "{m}"),
    "view": ("{m}", "-o", "{out}/m.html"),
    "picture": ("{m}", "-o", "{out}/p.svg"),
    "audit": ("{m}", "{m}"),
    "rules": (),
    "rule": ("HYG003",),
}
"""Calls of the commands that have a configuration."""

_OF_RULES = {
    **{
        name: (*words, "--select", "ALL")
        for name, words in _OF_SETTINGS.items()
        if name in ("check", "fix", "optimize", "plan")
    },
    "why": ("HX001", "{m}"),
    "rule": ("HX001",),
    **{name: _OF_SETTINGS[name] for name in ("rules", "view", "picture", "audit")},
    "undo": ("{m}",),
    "new": ("MY001", "--from", "{m}", "--around", "z"),
}
"""Calls of the commands that have `--rules`."""

_OF_SOURCES = ("check", "fix", "optimize", "plan", "why", "view", "picture")

READERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "rules": {
        "test": ("{f}",),
        "test --bless": ("{f}", "--dry-run"),
        "fmt": ("{f}", "--check"),
        "lint": ("{f}",),
        "verify": ("{f}", "--samples", "2", "--timeout", "0.5", "--no-lock"),
        "coverage": ("{f}", "{m}"),
        **{name: (*words, "--rules", "{f}") for name, words in _OF_RULES.items()},
    },
    "arrays": {
        "fix --verify": ("{m}", "-o", "{out}/fixed.onnx", "--inputs", "{f}"),
        "compare": ("{m}", "{m}", "--inputs", "{f}"),
        "run": ("{m}", "--inputs", "{f}", "-o", "{out}/run.npz"),
        "bench": ("{m}", "--inputs", "{f}", "--seconds", "0.5"),
        "edit": ("{m}", "--constant", "x=@{f}", "-o", "{out}/edited.onnx"),
    },
    "plans": {"apply": ("{f}", "-o", "{out}/applied.onnx")},
    "settings": {name: (*words, "--config", "{f}") for name, words in _OF_SETTINGS.items()},
    "journals": {
        "fix --resume": ("{m}", "--out", "{out}", "--journal", "{f}"),
        "fix --update": ("{m}", "--out", "{out}", "--journal", "{f}"),
        "optimize --update": ("{m}", "--out", "{out}", "--journal", "{f}"),
    },
    "records": {
        "history": ("{f}",),
        "undo": ("{f}",),
        "undo --original": ("{m}", "{f}", "1"),
        "audit": ("{m}", "{f}"),
        "check": ("{f}",),
        "fix": ("{f}", "-o", "{out}/fixed.onnx", "--select", "ALL"),
    },
    "sources": {name: (*_OF_SETTINGS[name], "--source", "{f}") for name in _OF_SOURCES},
}
"""By the kind of file, as `CALLS`: calls of every command that reads such a file, `{f}`; `{m}` is the model beside it. The options
in the name of a call stand before its arguments.
"""

READ_NOTHING = {"explain", "help", "lsp", "new-pack"}
"""Commands that read no file of a stranger; the language server runs tests as `test` does."""


def matrix(*, whole: bool) -> Iterator[tuple[str, str, str]]:
    """(kind, file, call): all of them, or so many that each file and each call of a kind occurs."""
    for kind, calls in READERS.items():
        files = list(POISON_FILES[kind])
        pairs = product(files, calls) if whole else zip(*_stretched(files, list(calls)), strict=True)
        yield from ((kind, file, call) for file, call in pairs)


def _stretched(*lists: Sequence[str]) -> list[list[str]]:
    """Each list again and again until it is as long as the longest."""
    return [[one[at % len(one)] for at in range(max(map(len, lists)))] for one in lists]


def reader_call(kind: str, call: str, file: Path, out: Path) -> list[str]:
    """The words of a call for one file."""
    places = {"f": file, "m": file.parent / "model.onnx", "out": out}
    return [*call.split(), *(word.format(**places) for word in READERS[kind][call])]


def arguments_of(words: Sequence[str], model: Path, out: Path, rules: Path) -> list[str]:
    """The words of a call for one model."""
    fixed = out / "fixed.onnx" if (out / "fixed.onnx").exists() else model
    return [word.format(m=model, out=out, fixed=fixed, rules=rules) for word in words]
