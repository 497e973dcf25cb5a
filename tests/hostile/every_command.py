"""Calls of every command that reads a model, for models that are meant to hurt: what they are and what is wrong with their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rewriter.record import record

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
    "coverage": ("{rules}", "{m}"),
    "extract": ("{m}", "--to", "m", "-o", "{out}/part.onnx"),
    "split": ("{m}", "--at", "m", "-o", "{out}/part{{}}.onnx"),
    "merge": ("{m}", "{m}", "--map", "z=x", "-o", "{out}/twice.onnx"),
    "edit": ("{m}", "--rename", "x=first", "-o", "{out}/edited.onnx"),
    "opset": ("{m}", "18", "-o", "{out}/opset.onnx"),
    "infer": ("{m}", "-o", "{out}/typed.onnx"),
    "save": ("{m}", "--external", "-o", "{out}/saved.onnx"),
}
"""By the command and what is particular: arguments, with the model, a folder for results, the result of `fix` if there is one, and
a rule file.
"""

FOLDERS: dict[str, Sequence[str]] = {
    "check": ("{m}", "--report", "{out}/check.json"),
    "fix": ("{m}", "--out", "{out}/fixed"),
    "optimize": ("{m}", "--out", "{out}/small"),
}
"""The same for a folder with all of them."""

GRACE = 5.0
"""Seconds beside the limit: for a process to start and import, and to write what is to be written."""


@record(frozen=True, slots=True)
class Ended:
    """How a call ended; `wrong` says what is not as it should be."""

    code: int
    seconds: float
    said: str
    wrong: str


def called(name: str, arguments: Sequence[str], limit: float, slack: float = 1.0, most: float = 0.0) -> Ended:
    """Calls a command in a process of its own.

    Args:
        name: of a call; its first word is the command.
        arguments: of the command.
        limit: for one model, in seconds.
        slack: how much slower than an idle one this machine may be.
        most: seconds that all of it may take; 0: what one model may.
    """
    words = [name.split()[0], *arguments, "--time-limit", f"{limit:g}", "--memory-limit", "2G"]
    most = most or limit + GRACE * slack
    started = time.monotonic()
    run = subprocess.Popen(
        [sys.executable, "-m", "rewriter", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        out, _ = run.communicate(timeout=2 * most + 20)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        return Ended(-9, time.monotonic() - started, "", "does not end")
    seconds, said = time.monotonic() - started, out.decode(errors="replace")
    wrong = ""
    if run.returncode not in (0, 1, 2):
        wrong = f"ends with {run.returncode}: {said.strip()[-300:]}"
    elif "Traceback" in said or "internal error" in said:
        wrong = f"a traceback: {said.strip()[-300:]}"
    elif "has no option" in said or "usage:" in said:
        wrong = f"is called wrongly: {said.strip()[-200:]}"
    elif seconds > most:
        wrong = f"took {seconds:.1f} s"
    return Ended(run.returncode, seconds, said, wrong)


def arguments_of(words: Sequence[str], model: Path, out: Path, rules: Path) -> list[str]:
    """The words of a call for one model."""
    fixed = out / "fixed.onnx" if (out / "fixed.onnx").exists() else model
    return [word.format(m=model, out=out, fixed=fixed, rules=rules) for word in words]
