"""What a consumer makes of models before and after `fix --target`: how many it reads, and how many it computes right.

    rewriter fix MODELS --out FIXED --select NONE --target opencv
    python benchmarks/consumers.py opencv MODELS FIXED

MODELS holds folders with a model.onnx and a data.npz of what the framework computed (in_NAME, out_0, out_1 ...). The
consumer must be installed where this runs; nothing else is imported, so that an old one with its old NumPy will do. Each model
is read in a process of its own, since some end it. Exits with 1 when a model fares worse after `fix` than before.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-3
SECONDS = 30
STATES = ("refused", "ended the process", "does not run", "other numbers", "right")
Outputs = list[Any]


def opencv(path: Path) -> Callable[[dict[str, Any]], Outputs]:
    import cv2  # type: ignore[import-not-found, unused-ignore]

    net = cv2.dnn.readNetFromONNX(str(path))

    def run(feed: dict[str, Any]) -> Outputs:
        for name, value in feed.items():
            net.setInput(value, name)
        return [net.forward()]

    return run


def openvino(path: Path) -> Callable[[dict[str, Any]], Outputs]:
    import openvino  # type: ignore[import-not-found, unused-ignore]

    core = openvino.Core()
    model = core.read_model(path)

    def run(feed: dict[str, Any]) -> Outputs:
        return list(core.compile_model(model, "CPU")(feed).values())

    return run


CONSUMERS = {"opencv": opencv, "openvino": openvino}


def state(consumer: str, path: Path, record: Path) -> str:
    """How far the consumer comes with a model."""
    try:
        run = CONSUMERS[consumer](path)
    except ImportError:
        raise
    except Exception:
        return "refused"
    with np.load(record, allow_pickle=False) as data:
        feed = {name[3:]: data[name] for name in data.files if name.startswith("in_")}
        wanted = [data[f"out_{i}"] for i in range(sum(name.startswith("out_") for name in data.files))]
    try:
        found = run(feed)
    except Exception:
        return "does not run"
    return "right" if len(found) == len(wanted) and all(map(near, found, wanted)) else "other numbers"


def near(found: Any, wanted: Any) -> bool:
    found = np.asarray(found)
    if found.size != wanted.size:
        return False
    one, other = found.ravel().astype(np.float64), wanted.ravel().astype(np.float64)
    return bool(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))


def apart(consumer: str, path: Path, record: Path) -> str:
    """`state` in a child process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(writer, state(consumer, path, record).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or "ended the process"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("consumer", choices=CONSUMERS)
    parser.add_argument("models", type=Path)
    parser.add_argument("fixed", type=Path)
    args = parser.parse_args()
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    better, worse = [], []
    for path in sorted(args.models.rglob("model.onnx")):
        record, fixed = path.with_name("data.npz"), args.fixed / path.relative_to(args.models)
        before = apart(args.consumer, path, record)
        after = before if path.read_bytes() == fixed.read_bytes() else apart(args.consumer, fixed, record)
        counts[0][before] += 1
        counts[1][after] += 1
        if STATES.index(before) != STATES.index(after):
            name = f"{path.parent.relative_to(args.models)}: {before} -> {after}"
            (better if STATES.index(after) > STATES.index(before) else worse).append(name)
    print(f"{args.consumer:<20}{'before':>8}{'after':>8}")
    for name in STATES:
        print(f"{name:<20}{counts[0][name]:>8}{counts[1][name]:>8}")
    for title, names in (("better", better), ("worse", worse)):
        print(f"{title}: {len(names)}")
        for name in names:
            print(f"  {name}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
