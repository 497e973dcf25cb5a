"""How the time of each command grows with the size of a model: nothing may be quadratic, in whatever a model is large.

    python benchmarks/command_growth.py [--sizes 1500,6000] [--commands fix,diff,...] [--shapes ports,equal,...]

Each command runs on models of two sizes: the shapes of growth.py, and shapes that are large in one respect each
(growing/wide_shapes.py), such as thousands of inputs or of equal nodes. Commands for two models get a copy with other names.
Printed is the processor time of those that take longer than three seconds. Exits with 1 when the time grows by half more than
the size, or a command ends with an internal error.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "growing"))
import growth
import wide_shapes

SHAPES = {**{name: growth.SHAPES[name] for name in ("chain", "fan", "blocks", "hub", "crowd")}, **wide_shapes.SHAPES}
OUT = "-o out.onnx --force"
COMMANDS = {
    "fix": f"fix MODEL {OUT}",
    "target": f"fix MODEL --target tensorrt {OUT}",
    "check": "check MODEL",
    "report": "check MODEL --report report.html",
    "plan": "plan MODEL -o plan.toml --force",
    "why": "why GEN001 MODEL",
    "optimize": f"optimize MODEL {OUT}",
    "split": "split MODEL --every 500 -o parts --force",
    "merge": f"merge MODEL OTHER --beside --prefix a_,b_ {OUT}",
    "edit": f"edit MODEL --strip names {OUT}",
    "opset": f"opset MODEL 21 {OUT}",
    "opset-down": f"opset MODEL 13 {OUT}",
    "infer": f"infer MODEL {OUT}",
    "save": f"save MODEL --external --threshold 1 {OUT}",
    "convert": f"convert MODEL --dtype float16 {OUT}",
    "layout": f"convert MODEL --layout nhwc {OUT}",
    "quantize-prep": f"quantize-prep MODEL {OUT}",
    "text": "text MODEL -o out.onnxtxt --force",
    "json": "text MODEL -o out.json --force",
    "show": "show MODEL",
    "view": "view MODEL -o page.html --force",
    "view-two": "view MODEL OTHER -o page.html --force",
    "diff": "diff MODEL OTHER",
    "compare": "compare MODEL OTHER",
    "run": "run MODEL",
    "coverage": "coverage MODEL",
}
NOTICEABLE = 3.0
"""Seconds below which growth is not looked at: start-up would hide it."""


def seconds(command: str, model: Path, folder: Path) -> tuple[float, int]:
    """Processor time of a command with all its processes, and its exit code."""
    words = [{"MODEL": str(model), "OTHER": str(model.with_suffix(".other.onnx"))}.get(word, word) for word in command.split()]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "rewriter", *words], cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1500,6000")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    args = parser.parse_args()
    small, large = map(int, args.sizes.split(","))
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for shape in args.shapes.split(","):
            for size in (small, large):
                made = SHAPES[shape](size)
                onnx.save(made, folder / f"{shape}{size}.onnx")
                onnx.save(wide_shapes.renamed(made), folder / f"{shape}{size}.other.onnx")
        for command in args.commands.split(","):
            for shape in args.shapes.split(","):
                (first, _), (second, code) = (
                    seconds(COMMANDS[command], folder / f"{shape}{size}.onnx", folder) for size in (small, large)
                )
                grows = second > NOTICEABLE and second / first > 1.5 * large / small
                failed = failed or grows or code == 3
                if second > NOTICEABLE or code == 3:
                    print(
                        f"{command:14}{shape:10}{first:>8.2f}{second:>8.2f}{'  grows' * grows}{f'  exit {code}' * (code == 3)}"
                    )
    print("a command grows faster than its model, or fails" if failed else "no command grows faster than its model")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
