"""A peer of benchmarks/optimize.py over a list of models, in its own virtual environment: prints a line of JSON for each.

Nothing of this program is imported here, and each peer is used as its own documentation shows it. Each model has a process of
its own, so that one that crashes or does not end costs its own answer only.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sys
import time

from peers import WAYS


def do(way: str, source: str, target: str) -> None:
    """One model; what went wrong is left beside the target."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            WAYS[way]()(source, target)
        except BaseException as error:
            with open(target + ".error", "w") as file:
                file.write(f"{type(error).__name__}: {error}")
            raise


def main() -> None:
    way, limit = sys.argv[1], float(sys.argv[2])
    context = multiprocessing.get_context("spawn")
    for line in sys.stdin:
        source, target = json.loads(line)
        started = time.perf_counter()
        child = context.Process(target=do, args=(way, source, target))
        child.start()
        child.join(limit)
        late = child.is_alive()
        if late:
            child.kill()
            child.join()
        error = f"not done after {limit:g} s" if late else f"ended with {child.exitcode}" if child.exitcode else ""
        if os.path.exists(target + ".error"):
            with open(target + ".error") as file:
                error = file.read()[:200]
            os.remove(target + ".error")
        print(json.dumps({"target": target, "error": error, "seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
