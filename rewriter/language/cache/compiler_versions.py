"""What decides, beside the texts of rules, what the compiler says of them: what is kept is found by it, so that it is never
outdated.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import rewriter
from rewriter.resources import resource


@cache
def versions() -> str:
    """Everything beside the texts that decides what the compiler says of them.

    Of this package's own files and of the compiled part of ONNX, size and time stand for the content, as they do for Python
    itself when it decides whether a compiled module is still good.
    """
    package = Path(rewriter.__file__).parent
    parts = [sys.version, rewriter.__version__, resource("grammar/rules.lark").read_text(encoding="utf-8")]
    parts += _stamps(package, ".py")
    for folder in sorted(folder for folder, _, _ in os.walk(package / "language")):
        parts += _stamps(Path(folder), ".py")
    spec = find_spec("onnx")
    if spec is not None and spec.origin is not None:
        onnx = Path(spec.origin).parent
        parts += sorted(name for name in os.listdir(onnx.parent) if name.startswith("onnx") and name.endswith(".dist-info"))
        parts += [stamp for stamp in _stamps(onnx, "") if "cpp2py" in stamp]
    return "\0".join(parts)


def _stamps(folder: Path, ending: str) -> list[str]:
    with os.scandir(folder) as listing:
        files = [(entry.name, entry.stat()) for entry in listing if entry.name.endswith(ending)]
    return sorted(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)
