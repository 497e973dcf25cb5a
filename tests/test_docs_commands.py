"""Command lines and Python of the pages: all of them are accepted by the program's own parser, and most of them run."""

from __future__ import annotations

import re
import shlex
import shutil
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from rewriter.app.cli.main import main
from rewriter.app.cli.program import COMMANDS, make_parser

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "tests" / "models"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

GEMM, POOL = MODELS / "mxnet-1.3.1-fully-connected.onnx", MODELS / "mxnet-1.3.1-average-pool.onnx"
"""With the symbol files beside them."""

CONV = """<ir_version: 8, opset_import: ["": 13]>
net (float[N,3,224,224] image) => (float[N,4,M,M] y) <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3}> {
  [conv1] c = Conv(image, w)  z = Identity(c)  y = Relu(z) }"""
RESHAPE = """<ir_version: 8, opset_import: ["": 13]>
net (float[1,4] x) => (float[1,2,2] y) <int64[3] s = {1,2,2}> { y = Reshape(x, s) }"""

NETS: dict[str, Path | str] = {
    "README.md": MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx",
    "batch-size.md": RESHAPE,
    "compare.md": POOL,
    "diff.md": GEMM,
    "optimize.md": CONV,
    "picture.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "plan.md": MODELS / "mxnet-1.4.1-fix-gamma.onnx",
    "provenance.md": GEMM,
    "python.md": GEMM,
    "report.md": GEMM,
    "show.md": GEMM,
    "targets.md": GEMM,
    "tutorial.md": MODELS / "pytorch-2.13-cumsum-of-mask-legacy-op13" / "model.onnx",
    "view.md": GEMM,
    "why.md": GEMM,
}
"""What net.onnx is on a page whose commands run, as a model or a file."""


def lines_of(text: str) -> Iterator[str]:
    """The command lines of a page's blocks of code."""
    blocks = re.findall(r"^```(?:sh|bash|text|yaml|groovy)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for line in [*re.findall(r"^    (.*)$", text, re.MULTILINE), *(line for block in blocks for line in block.splitlines())]:
        found = re.search(r"(?:^|^\$ |[|&] |^\s*- (?:run: )?)(rewriter [a-z][^|&>]*)|\bsh '(.*)'", line)
        if found:
            yield re.split(r"  +| #", found[1] or found[2])[0]


def words_of(command: str) -> list[str]:
    """What a shell makes of a command line."""
    return shlex.split(command.split(" < ")[0])[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_accepted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command in lines_of(text):
        if "[" in command:  # a synopsis
            continue
        try:
            make_parser(words_of(command)[:1]).read(words_of(command))
        except SystemExit as end:
            assert end.code == 0, command
    for command in re.findall(r"`rewriter ([^`\n]*)`", text):
        name, *rest = shlex.split(command)
        assert name in COMMANDS or not name.islower(), command
        known = make_parser([name]).commands.choices[name]._option_string_actions if name in COMMANDS else {}
        assert [word for word in rest if word.startswith("--") and word not in known] == [], command


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
        if net.with_name("data.npz").exists():
            shutil.copy(net.with_name("data.npz"), target.with_suffix(".npz"))
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "rules").symlink_to(ROOT / "rules")


@pytest.mark.parametrize("page", NETS)
def test_command_lines_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    for command in lines_of(text):
        words = words_of(command)
        if "[" in command or "--ask" in words:  # the consumers are not installed
            continue
        for needed in {"net.fixed.onnx", "pool.fixed.onnx"} & set(words) - {"-o"}:
            if not Path(needed).exists() and words[0] != "apply":
                main(["fix", needed.replace(".fixed", ""), "-o", needed])
        capsys.readouterr()
        code = main([*words, "--force"] if {"-o", "--out", "--open"} & set(words) else words)
        printed = capsys.readouterr()
        assert code in (0, 1) and "error" not in printed.err, (command, printed.err)
        shown = re.search(rf"^    \$ {re.escape(command)}.*\n((?:    .*\n|\n(?=    ))+)", text, re.MULTILINE)
        if shown:
            wanted = re.escape(re.sub(r"^    ", "", shown[1], flags=re.MULTILINE).strip()).replace(r"\.\.\.", ".*")
            wanted = re.sub(r"\b[0-9a-f]{16}\b", "[0-9a-f]{16}", wanted)  # rules change, and their digests with them
            wanted = re.sub(r"ONNX\\ Runtime\\ [\d\\.]+", r"ONNX\\ Runtime\\ [\\d.]+", wanted)
            assert re.fullmatch(wanted, printed.out.replace(f"{ROOT}/", "").strip(), re.DOTALL), (
                f"{command} prints\n{printed.out}"
            )
    known: dict[str, object] = {}
    for example in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(compile(example, page, "exec"), known)


def test_a_plan_is_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("plan.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "net.onnx", "-o", "plan.toml"]) == 0
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "plan.md").read_text(), re.DOTALL | re.MULTILINE)
    wanted = re.sub(r'"[0-9a-f]{16}"', '"[0-9a-f]{16}"', re.escape(shown).replace(r"\.\.\.", ".*"))
    assert re.search(wanted, Path("plan.toml").read_text(), re.DOTALL)
