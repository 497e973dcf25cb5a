"""Writes a model with its runs into SET/NAME; for generators on a current Python."""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 90
Run = tuple[dict[str, Any], Sequence[Any]]
"""Inputs by name, and what the framework computed of them."""


class Recorder:
    """The folder of a set; what a framework or its exporter refuses is passed over, and so is what takes too long."""

    def __init__(self, root: str, group: str, family: str) -> None:
        self.folder, self.family, self.written = Path(root) / group, family, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self.attempt, crashed = self.folder / "attempt.txt", self.folder / "crashed.txt"
        if self.attempt.exists():  # the framework crashed at it
            with crashed.open("a") as file:
                file.write(self.attempt.read_text() + "\n")
        self.crashed = set(crashed.read_text().split()) if crashed.exists() else set()
        signal.signal(signal.SIGALRM, _out_of_time)

    def add(self, name: str, export: Callable[[Path], object], runs: Callable[[], Sequence[Run]], note: str = "") -> bool:
        """Records one export: `export` writes the model to a path, `runs` gives its runs."""
        place = self.folder / name
        if (place / "meta.json").exists():
            self.written += 1
            return True
        if name in self.crashed:
            return False
        self.attempt.write_text(name)
        place.mkdir(parents=True, exist_ok=True)
        try:
            signal.alarm(SECONDS)
            found = runs()
            export(place / "model.onnx")
            for k, (inputs, outputs) in enumerate(found):
                data = {f"in_{key}": value for key, value in inputs.items()}
                data.update({f"out_{j}": np.asarray(value) for j, value in enumerate(outputs)})
                np.savez(place / ("data.npz" if k == 0 else f"data{k + 1}.npz"), **data)
        except Exception as error:
            shutil.rmtree(place, ignore_errors=True)
            if "--verbose" in sys.argv:
                print(name, type(error).__name__, str(error).split("\n")[0][:150], flush=True)
            return False
        finally:
            signal.alarm(0)
        meta = {"name": name, "family": self.family, "baseline": "ok", "note": note}
        (place / "meta.json").write_text(json.dumps(meta))
        self.written += 1
        return True

    def close(self) -> None:
        """All is done; what was tried last did not crash."""
        self.attempt.unlink(missing_ok=True)


def drawn(kind: object, shape: Sequence[int], rng: np.random.RandomState) -> Any:
    """Values of a kind: a number n for indices below n, "int", "natural", "positive", "bool", or a floating-point type."""
    if isinstance(kind, int):
        return rng.randint(0, kind, shape).astype("int32")
    if kind in ("int", "int64"):
        return rng.randint(-9, 10, shape).astype("int32" if kind == "int" else "int64")
    if kind == "natural":
        return rng.randint(1, 5, shape).astype("int32")
    if kind == "signed":
        return (rng.randint(1, 5, shape) * rng.choice([-1, 1], shape)).astype("int32")
    if kind == "positive":
        return rng.uniform(0.5, 3, shape).astype("float32")
    if kind == "bool":
        return np.asarray(rng.rand(*shape) > 0.5)
    if kind == "rounded":
        return rng.randint(-2, 3, shape).astype("float32")
    return rng.uniform(-2, 2, shape).astype("float32" if kind == "float" else str(kind))


def _out_of_time(*_: object) -> None:
    raise TimeoutError("the export takes too long")
