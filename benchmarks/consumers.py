"""How many models consumers read and compute correctly: as exported, after `fix --target`, and after the recipe (`--ask`).

    python benchmarks/consumers.py FOLDER --names benchmarks/consumer_models.txt --consumer-env ENV --consumer-env ENV ...

Each environment is asked for each consumer that it has, so that two versions of one consumer are two rows. A model is right if
its outputs equal those of ONNX Runtime, with two batch sizes where the batch is free. "worse" counts models that were right as
exported and are not right after `fix --target` or after the recipe. It also counts models that the consumer rejected as
exported and computes wrongly afterwards, because nobody sees that they are broken. They are listed. With --static the inputs
get the shapes of data.npz beside each model first. Exits with 1 if a model became worse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rewriter.app.cli.main import INTERRUPTED, TERMINATED
from rewriter.app.cli.main import main as rewriter
from rewriter.core.errors import RewriterError
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.trust.consumers.asking import ask, find, known
from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict

SECONDS = 60
"""What one model may take in one consumer."""
HEAD = f"{'consumer':<22}{'models':>8}{'reads':>8}{'right':>8}{'--target':>10}{'--ask':>8}{'worse':>8}"


def asked(consumer: Consumer, model: Path, values: Mapping[str, Any] | None = None) -> Verdict:
    """What the consumer makes of a model, with the values of its inputs and outputs or with inputs that are made up."""
    with budgeted(Budget(SECONDS)):
        try:
            return ask(consumer, model, values)
        except RewriterError as error:
            return Verdict(consumer.version, "silent", str(error))


def fixed(model: Path, result: Path, target: str, options: list[str]) -> Path:
    """The result of `fix --target`, or the model where there is none."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        code = rewriter(["fix", str(model), "--target", target, "-o", str(result), *options])
    if code in (INTERRUPTED, TERMINATED):
        raise SystemExit(code)
    return result if result.exists() else model


def static_shapes(model: Path) -> list[str]:
    """`--static INPUT:SHAPE` for each input in the data beside a model."""
    with np.load(model.with_name("data.npz"), allow_pickle=False) as data:
        shapes = {name[3:]: data[name].shape for name in data.files if name.startswith("in_")}
    return [word for name, shape in shapes.items() for word in ("--static", f"{name}:{','.join(map(str, shape))}")]


def is_worse(before: Verdict, after: Verdict) -> bool:
    """Whether a model was right and no longer is, or whether an error became wrong outputs without an error message."""
    return (before.state == "equal" != after.state) or (before.is_error and after.is_silent_error)


def row(name: str, environment: str, consumer: Consumer, models: list[Path], *, is_static: bool) -> list[str]:
    """Asks one consumer; its line of the table on standard output, and the models that became worse."""
    rows = []
    for model in models:
        options = static_shapes(model) if is_static else []
        verdicts = [asked(consumer, model)]
        with TemporaryDirectory() as folder:
            paths = [model]
            for more in ([], ["--ask", "--consumer-env", environment]):
                if [one.state for one in verdicts] == ["equal", "equal"]:
                    break
                paths.append(fixed(model, Path(folder, f"{len(paths)}.onnx"), name, [*options, *more]))
                same = [one for path, one in zip(paths, verdicts, strict=False) if path.read_bytes() == paths[-1].read_bytes()]
                verdicts.append(same[0] if same else asked(consumer, paths[-1]))
            verdicts = [*verdicts, verdicts[-1]][:3]
            line = f"{model.parent.parent.name}/{model.parent.name}: {' -> '.join(one.state for one in verdicts)}"
            rows.append((verdicts, line))
            if verdicts[-1].state != "equal":
                print(f"  {line}: {verdicts[-1].reason}", file=sys.stderr, flush=True)
    reads = sum(verdicts[0].state not in ("rejects", "ends", "silent") for verdicts, _ in rows)
    right = [sum(verdicts[step].state == "equal" for verdicts, _ in rows) for step in range(3)]
    worse = [line for (first, *others), line in rows if any(is_worse(first, after) for after in others)]
    version = consumer.version + (" --static" if is_static else "")
    print(f"{version:<22}{len(models):>8}{reads:>8}{right[0]:>8}{right[1]:>10}{right[2]:>8}{len(worse):>8}", flush=True)
    return worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", type=Path, help="a file of the folders of the models, one a line")
    parser.add_argument("--consumer-env", action="append", default=[])
    parser.add_argument("--consumer", action="append", default=[], choices=known())
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--first", type=int, help="so many models; those of consumer_models.txt are a sample themselves")
    args = parser.parse_args()
    names = args.names.read_text().split() if args.names else ["**"]
    models = [model for name in names for model in sorted(args.folder.glob(f"{name}/model.onnx"))][: args.first]
    print(HEAD)
    worse = []
    for environment in args.consumer_env:
        for name in args.consumer or known():
            consumer = find(name, [environment])
            if consumer is not None and Path(consumer.python).is_relative_to(Path(environment).absolute()):
                worse += row(name, environment, consumer, models, is_static=args.static)
    print("\n".join(f"worse: {line}" for line in worse) or "worse: none")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
