"""The transcripts of the pages, made by running their commands.

    python docs/transcripts.py [PAGE ...]    runs the commands of the pages and writes what they print
    python docs/transcripts.py --check       names the pages whose commands print something else, and exits with 1

In a block of code, a line that begins with "$ " is a command, and the lines after it are all that it prints, errors and summary
included. Lines that begin with `rewriter` and Python blocks also run, in their order. The block after `<!-- file: NAME -->` is
written into that file. "..." stands for any text; times and versions do not count. NETS says what `net.onnx` is on each page.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import onnx

from rewriter.app.cli.main import main as run_command
from rewriter.core.resources import resource

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MODELS = ROOT / "tests" / "models"
GEMM, POOL = MODELS / "mxnet-1.3.1-fully-connected.onnx", MODELS / "mxnet-1.3.1-average-pool.onnx"
"""With the symbol files beside them."""

CONV = """<ir_version: 8, opset_import: ["": 13]>
net (float[N,3,224,224] image) => (float[N,4,M,M] y) <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3}> {
  [conv1] c = Conv(image, w)  z = Identity(c)  y = Relu(z) }"""
RESHAPE = """<ir_version: 8, opset_import: ["": 13]>
net (float[1,4] x) => (float[1,2,2] y) <int64[3] s = {1,2,2}> { y = Reshape(x, s) }"""
CLIP = """<ir_version: 8, opset_import: ["": 13]>
net (float[1,8] x) => (float[1,8] y) <float low = {0.0}> { [act] y = Clip(x, low) }"""

NEGATED = """<ir_version: 8, opset_import: ["": 13]>
net (float[N,4] x) => (float[N,4] y) { [relu] a = Relu(x)  [neg] b = Neg(a)  [back] c = Neg(b)  y = Relu(c) }"""

NETS: dict[str, Path | str] = {
    "README.md": MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx",
    "authoring.md": MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx",
    "batch-size.md": RESHAPE,
    "batch.md": GEMM,
    "first-rule.md": RESHAPE,
    "ci.md": GEMM,
    "compare.md": POOL,
    "configuration.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "convert.md": CONV,
    "diff.md": GEMM,
    "no-symbol-file.md": POOL,
    "optimize.md": MODELS / "pytorch-2.13-pixel-shuffle-legacy-op9" / "model.onnx",
    "own-rules.md": NEGATED,
    "picture.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "plan.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "provenance.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "python.md": GEMM,
    "report.md": GEMM,
    "run.md": GEMM,
    "safety.md": POOL,
    "show.md": GEMM,
    "surgery.md": CONV,
    "targets.md": CLIP,
    "targets-causes.md": CLIP,
    "tutorial.md": MODELS / "pytorch-2.13-cumsum-of-mask-legacy-op13" / "model.onnx",
    "verified.md": GEMM,
    "view.md": GEMM,
    "why.md": GEMM,
    "writing-rules.md": RESHAPE,
    "wrong-output.md": POOL,
}
"""What net.onnx is on a page whose commands run, as a model or a file."""

STEP = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n\n(?:```\w*\n(?P<fenced>.*?)^```$|(?P<indented>(?:    [^\n]*\n|\n(?=    ))+))"
    r"|^```python\n(?P<python>.*?)^```$|^```.*?^```$|^    (?P<line>\$ [^\n]*|rewriter [^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
"""What is done on a page, in its order; other fenced blocks are passed over."""

TRANSCRIPT = re.compile(r"^    \$ (.*)\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))*)", re.MULTILINE)
"""A command, and what follows it in its block."""


NOT_RUN = re.compile(r"^(pip|uv|pipx|docker) |pack:|--ask")
"""Commands that install something, or need what these or a consumer install."""


ANSWER = "a"
"""To each question of `plan --interactive`: yes, also to all that follow."""


def page_path(page: str) -> Path:
    return ROOT / page if page == "README.md" else DOCS / page


def lines_of(text: str) -> Iterator[str]:
    """The command lines of a page's blocks of code."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fenced if language in ("", "sh", "bash", "text", "yaml", "groovy")]
    for line in [*re.findall(r"^    (.*)$", text, re.MULTILINE), *(line for block in blocks for line in block.splitlines())]:
        found = re.search(r"(?:^|^\$ |[|&] |^\s*- (?:run: )?)(rewriter [a-z][^|&>]*)|\bsh '(.*)'", line)
        if found:
            yield re.split(r"  +| #", found[1] or found[2])[0]


def words_of(command: str) -> list[str]:
    """What a shell makes of a command line."""
    return shlex.split(command.split(" < ")[0])[1:]


def prepare(page: str, folder: Path) -> None:
    """The files that the commands of a page are about."""
    net = NETS[page]
    (folder / "exported").mkdir()
    for target in (folder / "net.onnx", folder / "exported" / "net.onnx", folder / "pool.onnx"):
        if isinstance(net, str):
            onnx.save(onnx.parser.parse_model(net), target)
            continue
        shutil.copy(net, target)
        source = net.with_name(f"{net.stem}-symbol.json")
        if source.exists():
            shutil.copy(source, target.with_name(f"{target.stem}-symbol.json"))
        for data in (net.with_name("data.npz"), net.with_suffix(".npz")):
            if data.exists():
                shutil.copy(data, target.with_suffix(".npz"))
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "rules").symlink_to(ROOT / "rules")


def printed_by(command: str, codes: tuple[int, ...] = (0, 1)) -> str:
    """What a command line prints here and now. Raises AssertionError if rewriter ends with another exit code."""
    program, *words = shlex.split(command)
    if program != "rewriter":
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout + done.stderr
    words = words_of(command)
    results = [word for option, word in itertools.pairwise(words) if option in ("-o", "--out")]
    if ("--open" in words or any(map(os.path.exists, results))) and not {"--force", "--update", "--resume"} & set(words):
        words.append("--force")
    both = io.StringIO()
    with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both), patch("builtins.input", _typed):
        try:
            code = run_command(words)
        except SystemExit as end:
            code = end.code
    text = both.getvalue().replace(f"{resource('rules')}/", "rules/").replace(f"{ROOT}/", "")
    assert code in codes, f"{command}: exit code {code}\n{text}"
    return text


def _typed() -> str:
    """What a person types at a question, as a terminal shows it."""
    print(ANSWER, file=sys.stderr)
    return ANSWER


def is_same(shown: str, printed: str) -> bool:
    """Whether a transcript shows what a command prints, but for times, versions and digests."""
    wanted = re.escape("\n".join(line.removeprefix("    ") for line in shown.splitlines()).strip()).replace(r"\.\.\.", ".*")
    wanted = re.sub(r"\b[0-9a-f]{16}\b", "[0-9a-f]{16}", wanted)
    wanted = re.sub(r"ONNX\\ Runtime\\ \d[\d\\.]+", r"ONNX\\ Runtime\\ [\\d.]+", wanted)
    wanted = re.sub(r"(?:\\ )*\b[\d\\.]+\\ (%|(?:us|ms|s)\b)", r"\\ *[\\d.]+\\ (%|us|ms|s)", wanted)
    return re.fullmatch(wanted, printed.strip(), re.DOTALL) is not None


def played(page: str) -> str:
    """The text of a page with its transcripts as they are when its commands run, in a folder of their own."""
    text = page_path(page).read_text(encoding="utf-8")
    outputs: dict[str, list[str]] = {}
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            prepare(page, Path(folder))
            known: dict[str, object] = {}
            for step in STEP.finditer(text):
                _do(step, page, known, outputs)
        finally:
            os.chdir(before)

    def renewed(found: re.Match[str]) -> str:
        if not outputs.get(found[1]):
            return found[0]
        printed = outputs[found[1]].pop(0)
        if is_same(found[2], printed):
            return found[0]
        lines = "".join(f"    {line}\n" if line else "\n" for line in printed.rstrip().lstrip("\n").splitlines())
        return f"    $ {found[1]}\n{lines}" + "\n" * found[2].endswith("\n\n")

    return TRANSCRIPT.sub(renewed, text)


def _repair_what_is_needed(command: str) -> None:
    """A page may be about a repaired model without the repair."""
    words = words_of(command)
    for needed in {"net.fixed.onnx", "pool.fixed.onnx"} & set(words):
        if not Path(needed).exists() and words[0] != "apply" and words[words.index(needed) - 1] not in ("-o", "--out"):
            printed_by(f"rewriter fix {needed.replace('.fixed', '')} -o {needed}")


def _do(step: re.Match[str], page: str, known: dict[str, object], outputs: dict[str, list[str]]) -> None:
    """One step of a page: a file, a Python block with the names that earlier ones made, or a command."""
    if step["name"]:
        block = step["fenced"] or re.sub(r"^    ", "", step["indented"], flags=re.MULTILINE)
        Path(step["name"]).parent.mkdir(parents=True, exist_ok=True)
        Path(step["name"]).write_text(block)
    elif step["python"]:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(step["python"], page, "exec"), known)
    elif step["line"]:
        command = step["line"].removeprefix("$ ")
        if step["line"].startswith("rewriter "):
            command = next(lines_of(f"    {command}\n"), "")
        if command and "[" not in command and not NOT_RUN.search(command):
            _repair_what_is_needed(command)
            codes = (0, 1, 2) if step["line"].startswith("$ ") else (0, 1)
            outputs.setdefault(command, []).append(printed_by(command, codes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="names of pages, as tutorial.md (default: all whose commands run)")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    for page in set(args.pages) - NETS.keys():
        parser.error(f"the commands of {page} do not run")
    webbrowser.open = lambda *_, **__: True  # type: ignore[assignment]
    code = 0
    for page in args.pages or NETS:
        text = played(page)
        if text != page_path(page).read_text(encoding="utf-8"):
            print(f"{'out of date' if args.check else 'written'}: {page}")
            code = 1 if args.check else code
            if not args.check:
                page_path(page).write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
