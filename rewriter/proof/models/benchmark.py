"""How long models take in ONNX Runtime: latencies, and what of it each node takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rewriter.errors import RewriterError, install
from rewriter.onnxfile.temporary import temporary_folder
from rewriter.proof import onnx_runtime
from rewriter.proof.judges import judges
from rewriter.proof.judges.native_bench import NodeTime
from rewriter.proof.models.model_inputs import declared_inputs
from rewriter.proof.models.single_run import single_run
from rewriter.proof.models.validity import Candidate
from rewriter.record import record


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
    inputs: str | None = None,
    runs: int | None = None,
    warmup: int = 5,
    seconds: float = 5.0,
    threads: int = 0,
    optimize: bool = True,
    nodes: bool = True,
) -> list[Timing]:
    """Times models in turns.

    Args:
        models: name, file, what is in it, and what says the shapes of made-up inputs.
        inputs, runs, warmup, seconds, threads, optimize, nodes: as the options of `rewriter bench`.

    Raises:
        RewriterError: ONNX Runtime is not there, or refuses a model.
    """
    if not onnx_runtime.installed():
        raise RewriterError(f"bench needs ONNX Runtime; install it with: {install('verify')}")
    feeds, first = [], None
    for _, _, candidate, drawn in models:
        candidate.size()  # data outside of the folder are refused here; the runtime would follow them
        wanted = {info.name for info in declared_inputs(candidate.proto)}
        feed = first if first is not None and first.keys() == wanted else single_run(candidate, inputs, drawn).feed
        feeds.append(feed)
        first = first or feed
    with temporary_folder() as folder:
        question = [(str(path), feed) for (_, path, _, _), feed in zip(models, feeds, strict=True)]
        try:
            found = judges.bench(question, runs, warmup, seconds, threads, optimize, str(folder) if nodes else None)
        except judges.NoAnswer as error:
            raise RewriterError(error.told(onnx_runtime.NAME)) from error
    timings = []
    for (name, *_), feed, one in zip(models, feeds, found, strict=True):
        if "refused" in one:
            raise RewriterError(f"{name}: {onnx_runtime.NAME}: {one['refused']}")
        shown = [f"{key} {np.asarray(value).dtype}[{','.join(map(str, np.shape(value)))}]" for key, value in feed.items()]
        timings.append(Timing(name, shown, one["load"], one["times"], one["nodes"]))
    return timings
