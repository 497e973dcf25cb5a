"""Consumers run on models, each model in a process of its own: `check --ask` and `fix --ask` call this.

The consumer is compared with ONNX Runtime on made-up inputs, for two batch sizes if the batch size is free.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import load
from rewriter.core.isolation.budget import current
from rewriter.core.isolation.child import Crash, NoAnswer, run_program
from rewriter.core.onnxfile.external_data import references
from rewriter.core.onnxfile.files import temporary_folder
from rewriter.core.onnxfile.part import free_inputs
from rewriter.trust.consumers.consumer_verdict import Consumer, State, Verdict
from rewriter.trust.proof.judges import NAME, SESSION, one_line
from rewriter.trust.proof.model_inputs import Feed, feed_sets
from rewriter.trust.proof.validity import Candidate, CannotRun, ModelRun

WORKER = Path(__file__).with_name("worker.py")
RUNTIMES = WORKER.with_name("runtimes")
MOST_FEEDS = 2
"""Inputs on which a model is compared: two batch sizes, if the batch size is free."""

LEAST_HALF = 1e-2
"""The tolerance of outputs in float16, which has three digits."""


def known() -> list[str]:
    """The names of the consumers that can be run."""
    return sorted(path.stem for path in RUNTIMES.glob("*.py") if path.stem != "__init__")


def find(name: str, environments: Sequence[str]) -> Consumer | None:
    """A consumer in the first of these environments that has it, or in the current one; None if it is not installed.

    Raises:
        RewriterError: one of them is no environment, or the consumer cannot be imported.
    """
    pythons = [Path(folder, "Scripts/python.exe" if os.name == "nt" else "bin/python").absolute() for folder in environments]
    for python in pythons:
        if not python.exists():
            raise RewriterError(f"--consumer-env {python.parent.parent}: there is no Python in it: {python}")
    runtime = str(RUNTIMES / f"{name}.py")
    for path in (*map(str, pythons), sys.executable):
        with temporary_folder() as folder:
            try:
                answer, _ = _answer(Consumer(runtime, name, path), folder, {})
            except NoAnswer as error:
                raise RewriterError(f"{path}: {error.sentence(name)} when it is imported") from None
        if "broken" in answer:
            raise RewriterError(f"{path}: {name} cannot be imported: {one_line(answer['broken'])}")
        if "version" in answer:
            return Consumer(runtime, answer["version"], path, answer["tolerance"])
    return None


def ask(consumer: Consumer, path: Path, given: Mapping[str, Any] | None = None) -> Verdict:
    """The verdict of a consumer on a model, within the limits of the model that is worked on.

    Args:
        path: the file, with its external data.
        given: inputs and outputs by name to compare with; None: made-up inputs, and ONNX Runtime's outputs for them.

    Raises:
        RewriterError: the model cannot be read.
    """
    candidate = Candidate(load(path))
    outputs = [info.name for info in candidate.proto.graph.output]
    runs = list(_runs(candidate)) if given is None else [(dict(given), dict(given))]
    with temporary_folder() as folder:
        try:
            answer, words = _answer_on(consumer, folder, path.absolute(), candidate.proto, [feed for feed, _ in runs])
        except NoAnswer as error:
            where = "while it runs the model" if "ran" in _read(folder) else "while it reads the model"
            state: State = "ends" if isinstance(error, Crash) else "silent"
            reason = str(error).removeprefix("crashed ").strip("()") if state == "ends" else str(error)
            return Verdict(consumer.version, state, f"{reason}, {where}")
        if "rejected" in answer:
            return Verdict(consumer.version, "rejects", _reason(answer["rejected"], words))
        for number in range(answer.get("ran", 0)):
            values = _outputs(folder, number)
            if why := _difference([runs[number][1][name] for name in outputs], values, outputs, answer):
                return Verdict(consumer.version, "differs", why)
        if "fails" in answer:
            return Verdict(consumer.version, "fails", _reason(answer["fails"], words))
        return Verdict(consumer.version, "equal" if runs else "reads")


class ConsumerSession:
    """A model in a consumer, run as a session of ONNX Runtime is: `compare --ask`. Each run is a process of its own.

    Raises:
        RewriterError: the model has external data.
    """

    def __init__(self, consumer: Consumer, model: onnx.ModelProto) -> None:
        if any(True for _ in references(model)):
            raise RewriterError(f"models with external data do not run in {consumer.version} here; use `check --ask`")
        self._consumer = consumer
        self._model = model

    def run(self, names: Sequence[str], feed: Feed) -> list[Any]:
        """The outputs of these names.

        Raises:
            CannotRun: the consumer rejects the model, fails or does not answer.
        """
        outputs = [info.name for info in self._model.graph.output]
        with temporary_folder() as folder:
            path = folder / "model.onnx"
            path.write_bytes(self._model.SerializeToString())
            try:
                answer, words = _answer_on(self._consumer, folder, path, self._model, [feed])
            except NoAnswer as error:
                raise CannotRun(error.sentence(self._consumer.version)) from error
            if (said := answer.get("rejected", answer.get("fails"))) is not None:
                raise CannotRun(f"{self._consumer.version}: {_reason(said, words)}")
            values = _outputs(folder, 0)
            return [values[outputs.index(name)] for name in names]


def _answer_on(
    consumer: Consumer, folder: Path, path: Path, model: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], str]:
    """The answer of the worker on a model, which runs on these inputs, and what was printed. Raises NoAnswer."""
    names = [info.name for info in free_inputs(model.graph)]
    for number, feed in enumerate(feeds):
        np.savez(folder / f"inputs_{number}.npz", **{f"in_{place}": feed[name] for place, name in enumerate(names)})
    outputs = [info.name for info in model.graph.output]
    return _answer(consumer, folder, {"model": str(path), "inputs": names, "outputs": outputs, "feeds": len(feeds)})


def _outputs(folder: Path, number: int) -> list[Any]:
    """The outputs of a run, which the worker left."""
    with np.load(folder / f"outputs_{number}.npz", allow_pickle=False) as found:
        return [found[f"out_{place}"] for place in range(len(found.files))]


def _answer(consumer: Consumer, folder: Path, request: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The answer of the worker, and what was printed. Raises NoAnswer."""
    limits = current()
    seconds = limits.seconds()
    what = {**request, "runtime": consumer.runtime, "seconds": seconds, "memory": limits.memory}
    (folder / "request.json").write_text(json.dumps(what), encoding="utf-8")
    words = run_program([consumer.python, "-B", str(WORKER)], folder, seconds, limits.memory)
    return _read(folder), words


def _read(folder: Path) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return answer


def _reason(said: str, printed: str) -> str:
    """One line: the error message or, without one, the last line that was printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line or "support" in line.lower()]
    return one_line(said or (telling or lines or ["no reason was printed"])[-1])


def _runs(candidate: Candidate) -> Iterator[tuple[Feed, Mapping[str, Any]]]:
    """Inputs, and ONNX Runtime's outputs for them; none if it has no outputs, or outputs that are no arrays."""
    try:
        run = ModelRun(candidate, NAME, SESSION)
        done: list[Any] = []
        for sets in feed_sets(candidate.proto):
            for feed in sets[0].choices():
                try:
                    found = run(feed)
                except CannotRun:
                    continue
                shapes = [np.shape(value) for value in feed.values()]
                if shapes not in done and all(_is_plain(value) for value in (*feed.values(), *found.values())):
                    done.append(shapes)
                    yield feed, found
                break
            if len(done) == MOST_FEEDS:
                return
    except RewriterError:
        return


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _difference(wanted: Sequence[Any], found: Sequence[Any], names: Sequence[str], answer: Mapping[str, Any]) -> str:
    """How outputs differ from the expected ones; "" if they do not. Types may differ: some consumers have but one."""
    if len(found) != len(wanted):
        return f"it has {len(found)} outputs, and not {len(wanted)}"
    for name, right, value in zip(names, wanted, found, strict=True):
        if value.size != right.size or (answer["shapes"] and value.shape != right.shape):
            return f"output {name!r} has shape {list(value.shape)}, and not {list(right.shape)}"
        one, other = value.ravel().astype(np.float64), right.ravel().astype(np.float64)
        bound = max(answer["tolerance"], LEAST_HALF if right.dtype == np.float16 else 0)
        apart = ~np.isclose(one, other, rtol=bound, atol=bound, equal_nan=True)
        if apart.any():
            worst = np.nanmax(np.abs(one - other)[apart], initial=0.0)
            return f"output {name!r} differs in {int(apart.sum())} of {apart.size} places, by up to {worst:.3g}"
    return ""
