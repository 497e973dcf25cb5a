"""How many modules of this package the first repair of README.md runs, and which.

    python benchmarks/modules.py [--cold] [COMMAND ...]

The command (default: the first `rewriter fix` of README.md) runs in a fresh process that starts as the console script does, and
prints at its end which modules of `rewriter` it has imported. Caches are warm unless `--cold` gives the process empty ones:
rules are then parsed, checked and compiled as well. Modules of child processes do not count.

Fewer modules are a smaller program for readers to follow and a quicker start. The last line is the number. Exits with 1 when it
is above the bound, with warm caches and the default command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "tests" / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"
BOUND = 110
PROGRAM = """
import atexit, sys
place = sys.argv.pop(1)
def report():
    names = sorted(name for name in sys.modules if name.split(".")[0] == "rewriter")
    open(place, "w").write("\\n".join(names))
atexit.register(report)
from rewriter.app.cli.main import entry
entry()
"""


def imported(command: list[str], folder: Path, *, is_cold: bool) -> list[str]:
    """The modules of the package that a command has imported when it ends."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)} if is_cold else None
    place = folder / "modules.txt"
    program = [sys.executable, "-c", PROGRAM, str(place), *command]
    done = subprocess.run(program, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"rewriter {' '.join(command)} failed:\n{done.stderr}")
    return place.read_text().split("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true", help="with empty caches")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="another command")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = args.command or ["fix", str(MODEL), "-o", str(Path(folder, "fixed.onnx")), "--force"]
        if not args.cold:
            imported(command, Path(folder), is_cold=False)  # fills the caches
        names = imported(command, Path(folder), is_cold=args.cold)
    print("\n".join(names))
    print(f"{len(names)} modules of rewriter")
    return int(len(names) > BOUND and not args.command and not args.cold)


if __name__ == "__main__":
    sys.exit(main())
