"""The job of benchmarks/peers.py, done by a peer in its own virtual environment: prints its seconds as JSON.

Nothing of this program is imported here, and each peer is used as its own documentation shows it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

Job = Callable[[str, str], Any]


def onnxscript(rules: int) -> Job:
    """Its pattern rewriter with one rule that fires, and as many that do not as are asked for."""
    import onnx
    from onnxscript import rewriter
    from onnxscript.rewriter import pattern

    def removal() -> Any:
        return pattern.RewriteRule(lambda op, x: op.Identity(x), lambda op, x: x, name="identity")

    def idle(number: int) -> Any:
        name = f"Idle{number}"

        def before(op: Any, x: Any) -> Any:
            return op.Relu(getattr(op, name)(x, _domain="idle"))

        return pattern.RewriteRule(before, lambda op, x: op.Relu(x), name=name)

    every = [removal(), *(idle(number) for number in range(rules - 1))]
    chosen = pattern.RewriteRuleSet(every)

    def job(source: str, target: str) -> None:
        onnx.save(rewriter.rewrite(onnx.load(source), pattern_rewrite_rules=chosen), target)

    return job


def onnxsim() -> Job:
    import onnx
    import onnxsim as tool

    def job(source: str, target: str) -> None:
        simplified, _ = tool.simplify(onnx.load(source))
        onnx.save(simplified, target)

    return job


def onnxslim() -> Job:
    import onnx
    import onnxslim as tool

    def job(source: str, target: str) -> None:
        onnx.save(tool.slim(onnx.load(source)), target)

    return job


def onnxoptimizer() -> Job:
    import onnx
    import onnxoptimizer as tool

    def job(source: str, target: str) -> None:
        onnx.save(tool.optimize(onnx.load(source), ["eliminate_identity"]), target)

    return job


def onnxruntime() -> Job:
    import onnxruntime as runtime

    def job(source: str, target: str) -> None:
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = target
        options.log_severity_level = 4
        runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return job


WAYS: dict[str, Callable[[], Job]] = {
    "onnxscript, 1 rule": lambda: onnxscript(1),
    "onnxscript, 100 rules": lambda: onnxscript(100),
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "ONNX Runtime, basic": onnxruntime,
}


def main() -> None:
    way, files, runs = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    job = WAYS[way]()
    job(files["small"], files["result"])
    seconds = []
    for _ in range(runs):
        gc.collect()
        started = time.perf_counter()
        job(files["model"], files["result"])
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
