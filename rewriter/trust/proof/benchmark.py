"""How long models take in ONNX Runtime: latencies, and the share of each node."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewriter.core.errors import RewriterError, install
from rewriter.core.isolation.child import NoAnswer
from rewriter.core.onnxfile.files import temporary_folder
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import record
from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import NodeTime, RefusedError
from rewriter.trust.proof.model_inputs import Feed, feed_sets, recorded_feed
from rewriter.trust.proof.validity import Candidate, CannotRun, ModelRun, Outputs, Ready, runtime_version, runtimes

# One run of a model, as `rewriter run` and `bench` have it: on inputs of a file, or on the first made-up ones it accepts.


@record(frozen=True, slots=True)
class SingleRun:
    """A run.

    Attributes:
        runtime: the runtime of the model, with its version.
        feed, outputs: by name.
        seconds: that the run took.
    """

    runtime: str
    feed: Feed
    outputs: Outputs
    seconds: float


def single_run(
    candidate: Candidate, inputs: str | None, drawn: Candidate | None = None, consumer: tuple[str, Ready] | None = None
) -> SingleRun:
    """Runs a model once.

    Args:
        candidate: the model.
        inputs: an .npz file; None generates inputs.
        drawn: a model that declares the shapes of generated inputs; None: `candidate`.
        consumer: another runtime, by its name with its version, and what makes a model ready in it.

    Raises:
        Rejected: ONNX Runtime does not load it.
        RewriterError: no runtime runs it, or no inputs can be generated.
    """
    runtime = runtimes()[0]
    version = runtime_version(runtime) if consumer is None else consumer[0]
    run: Callable[[Feed], Outputs]
    if consumer is not None:
        run = _InConsumer(candidate, consumer[1])
    else:
        run = _InRuntime(candidate) if runtime == judges.NAME else ModelRun(candidate, runtime)
    if inputs is not None:
        return _ran(run, recorded_feed(inputs, candidate.proto), version)
    refused: CannotRun | None = None
    for sets in feed_sets((drawn or candidate).proto):
        for feed in sets[0].choices():
            try:
                return _ran(run, feed, version)
            except CannotRun as error:
                refused = refused or error
    raise refused or CannotRun("no inputs could be generated")


class Rejected(CannotRun):
    """ONNX Runtime does not load the model; the text has its error message."""


class _InConsumer:
    """A model in another runtime."""

    def __init__(self, candidate: Candidate, ready: Ready) -> None:
        self._names = [info.name for info in candidate.proto.graph.output]
        self._session = ready(candidate.proto)

    def __call__(self, feed: Feed) -> Outputs:
        return dict(zip(self._names, self._session.run(self._names, feed), strict=True))


class _InRuntime(ModelRun):
    """A model of any size in ONNX Runtime, as users have it. Raises CannotRun if it does not load or run."""

    def __init__(self, candidate: Candidate) -> None:
        self.runtime = judges.NAME
        try:
            self._session = candidate.session()
        except RefusedError as error:
            raise Rejected(f"{judges.NAME} rejects the model: {error}") from error
        except NoAnswer as error:
            raise CannotRun(error.sentence(judges.NAME)) from error


def _ran(run: Callable[[Feed], Outputs], feed: Feed, version: str) -> SingleRun:
    start = time.perf_counter()
    outputs = run(feed)
    return SingleRun(version, feed, outputs, time.perf_counter() - start)


def described(value: Any) -> dict[str, Any]:
    """The type of a tensor and statistics of it: `dtype`, `shape`, and for numbers `min`, `max`, `mean`, `nan`, `inf`."""
    if not isinstance(value, np.ndarray):
        count = len(value) if hasattr(value, "__len__") else None
        return {"dtype": "none" if value is None else "map" if isinstance(value, dict) else "sequence", "shape": [count or 0]}
    found: dict[str, Any] = {"dtype": "string" if value.dtype.kind in "OU" else str(value.dtype), "shape": list(value.shape)}
    if value.dtype.kind in "OUS" or not value.size or value.dtype.kind == "c":
        return found
    whole_or_wide = value.dtype.kind in "iu" or (value.dtype.kind == "f" and value.itemsize >= 4)
    numbers = value if whole_or_wide else value.astype(np.float32)
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        found.update(min=finite.min().item(), max=finite.max().item(), mean=float(finite.mean(dtype=np.float64)))
    if numbers.dtype.kind == "f":
        found.update(nan=int(np.isnan(numbers).sum()), inf=int(np.isinf(numbers).sum()))
    return found


@record(frozen=True, slots=True)
class Timing:
    """How long one model takes.

    Attributes:
        name: of the model.
        inputs: `x float32[1,3]`, each.
        load: seconds to make it ready.
        times: seconds of each run.
        nodes: name, operator, microseconds and calls in a run, the longest first.
    """

    name: str
    inputs: list[str]
    load: float
    times: list[float]
    nodes: list[NodeTime]

    def quantile(self, part: float) -> float:
        """Seconds in which this part of the runs is done."""
        return float(np.quantile(self.times, part))


def benchmark(
    models: Sequence[tuple[str, Path, Candidate, Candidate]],
    *,
    inputs: str | None,
    runs: int | None,
    warmup: int,
    seconds: float,
    threads: int,
    optimize: bool,
) -> list[Timing]:
    """Times models in turns.

    Args:
        models: name, file, content, and the source of the shapes of made-up inputs.
        inputs, runs, warmup, seconds, threads, optimize: as the options of `rewriter bench`.

    Raises:
        RewriterError: ONNX Runtime is missing, or rejects a model.
    """
    if not judges.installed():
        raise RewriterError(f"bench needs ONNX Runtime; install it with: {install('verify')}")
    feeds, first = [], None
    for _, _, candidate, drawn in models:
        candidate.size()  # rejects data outside of the folder; the runtime would follow them
        wanted = {info.name for info in free_inputs(candidate.proto.graph)}
        feed = first if first is not None and first.keys() == wanted else single_run(candidate, inputs, drawn).feed
        feeds.append(feed)
        first = first or feed
    with temporary_folder() as folder:
        question = [(str(path), feed) for (_, path, _, _), feed in zip(models, feeds, strict=True)]
        try:
            found = judges.bench(question, runs, warmup, seconds, threads, optimize, str(folder))
        except NoAnswer as error:
            raise RewriterError(error.sentence(judges.NAME)) from error
    timings = []
    for (name, *_), feed, one in zip(models, feeds, found, strict=True):
        if "refused" in one:
            raise RewriterError(f"{name}: {judges.NAME}: {one['refused']}")
        shown = [f"{key} {np.asarray(value).dtype}[{','.join(map(str, np.shape(value)))}]" for key, value in feed.items()]
        timings.append(Timing(name, shown, one["load"], one["times"], one["nodes"]))
    return timings
