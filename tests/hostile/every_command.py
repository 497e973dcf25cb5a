"""Calls of every command that reads a model, for models that are meant to hurt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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


def arguments_of(words: Sequence[str], model: Path, out: Path, rules: Path) -> list[str]:
    """The words of a call for one model."""
    fixed = out / "fixed.onnx" if (out / "fixed.onnx").exists() else model
    return [word.format(m=model, out=out, fixed=fixed, rules=rules) for word in words]
