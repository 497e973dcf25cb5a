"""A plugin of pytest for benchmarks/peer_suites.py: keeps the models that a peer's own tests hand to it, before and after.

It runs in the peer's environment, in a process of pytest-xdist, which is replaced when a peer crashes. Each call of an entry
point leaves NAME.before.onnx, NAME.after.onnx and a line of calls.jsonl in the folder PEER_CALLS. Calls that an entry point
makes of another one are part of the first.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

FOLDER = Path(os.environ["PEER_CALLS"])
ENTRIES = {
    "onnxoptimizer": ("onnxoptimizer:optimize",),
    "onnxslim": ("onnxslim:slim",),
    "onnxscript": (
        "onnxscript.rewriter:rewrite",
        "onnxscript.optimizer:optimize",
        "onnxscript.optimizer:fold_constants",
        "onnxscript.rewriter:RewriteRuleSet.apply_to_model",
        "onnxscript.rewriter:RewriteRule.apply_to_model",
        "onnxscript.rewriter:RewriterPass.__call__",
    ),
}
"""The entry points of each peer, as module:name."""

inside = False
number = 0


def message(value: Any) -> onnx.ModelProto | None:
    """The model in what a peer is handed or returns: a message, a file, or the peer's own form of one."""
    if isinstance(value, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(value)
        return copy
    if isinstance(value, (str, os.PathLike)):
        return onnx.load(value) if os.path.isfile(value) else None
    if type(value).__module__.startswith("onnx_ir") and type(value).__name__ == "Model":
        from onnxscript import ir

        return ir.serde.serialize_model(value)
    return None


def recorded(call: Callable[..., Any]) -> Callable[..., Any]:
    """The entry point, with each outermost call kept."""

    @functools.wraps(call)
    def wrapper(*args: Any, **options: Any) -> Any:
        global inside
        if inside:
            return call(*args, **options)
        before = next(((value, found) for value in args if (found := message(value)) is not None), None)
        inside = True
        try:
            result = call(*args, **options)
        finally:
            inside = False
        if before is not None:
            written = [value for value in (result, *args[1:], options.get("output_model"), before[0]) if value is not None]
            keep(before[1], next(found for value in written if (found := message(value)) is not None))
        return result

    return wrapper


def keep(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Writes one call."""
    global number
    number += 1
    name = f"{os.getpid()}-{number}"
    try:
        onnx.save(before, FOLDER / f"{name}.before.onnx")
        onnx.save(after, FOLDER / f"{name}.after.onnx")
    except Exception:  # a model that cannot be written cannot be handed to another program
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    with (FOLDER / "calls.jsonl").open("a") as file:
        file.write(json.dumps({"call": name, "test": test.partition("::")[2]}) + "\n")


for entry in ENTRIES[os.environ["PEER_NAME"]]:
    module, _, path = entry.partition(":")
    *owners, name = path.split(".")
    try:
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        setattr(owner, name, recorded(getattr(owner, name)))
    except AttributeError:  # of another version of the peer
        continue
