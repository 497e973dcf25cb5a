"""The program in the process of a consumer: reads a model, runs it, and leaves the results in files.

It is run by the Python of the environment that has the consumer, and imports nothing else of this package. The folder where it
runs has `request.json` and the inputs, `inputs_0.npz`, `inputs_1.npz` ...; it writes `answer.json` after every step, so that
a process which ends shows how far it got, and the outputs, `outputs_0.npz` ...
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def limit(seconds: float, memory: int | None) -> None:
    """Ends this process after a time, and keeps it from taking more memory, or as much of the disk with one file."""
    if hasattr(signal, "alarm"):
        import resource

        signal.alarm(int(seconds) + 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))  # printed output is also a file


def note(**answer: Any) -> None:
    with open("answer.new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace("answer.new", "answer.json")


def words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "it exceeds the memory limit"
    return str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"


def built(consumer: Any, model: Any, feed: dict[str, Any]) -> Any:
    """The model built for the shapes of an input, if the consumer needs shapes; {} means the shapes that the model declares."""
    return consumer.build(model, feed) if hasattr(consumer, "build") else model


def main() -> None:
    with open("request.json", encoding="utf-8") as file:
        request = json.load(file)
    limit(request["seconds"], request["memory"])
    spec = spec_from_file_location("runtime_of_consumer", request["runtime"])
    assert spec is not None and spec.loader is not None
    consumer = module_from_spec(spec)
    try:
        spec.loader.exec_module(consumer)
        known: dict[str, Any] = {"version": consumer.version()}
    except Exception as error:
        note(**{"missing" if isinstance(error, ModuleNotFoundError) else "broken": words(error)})
        return
    known |= {"tolerance": getattr(consumer, "TOLERANCE", 1e-3), "shapes": getattr(consumer, "COMPARES_SHAPES", True)}
    note(**known)
    if "model" not in request:
        return
    try:
        model = consumer.read(request["model"], request["outputs"])
        if not request["feeds"]:
            built(consumer, model, {})
    except BaseException as error:  # a panic of Rust is no Exception
        note(**known, rejected=words(error))
        return
    import numpy as np

    for number in range(request["feeds"]):
        with np.load(f"inputs_{number}.npz", allow_pickle=False) as arrays:
            feed = {name: arrays[f"in_{place}"] for place, name in enumerate(request["inputs"])}
        try:
            ready = built(consumer, model, feed)
        except BaseException as error:
            note(**known, **{"fails" if "ran" in known else "rejected": words(error)})
            return
        known.setdefault("ran", 0)
        note(**known)
        try:
            found = [np.asarray(value) for value in consumer.run(ready, feed, request["outputs"])]
            np.savez(f"outputs_{number}.npz", **{f"out_{place}": value for place, value in enumerate(found)})  # type: ignore[arg-type]
        except BaseException as error:
            note(**known, fails=words(error))
            return
        known["ran"] += 1
        note(**known)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules have the names of consumers
    main()
    sys.stdout.flush()
    os._exit(0)  # native code at the end has no result, and may hang
