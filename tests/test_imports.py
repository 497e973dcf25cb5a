"""Imports go one way, files stay small, and what must start fast imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rewriter"
LAYERS = {
    "batch": {"batch", "config", "plans", "provenance", "report.document", "proof", "engine", "graph", "language", "source"},
    "cli": {"batch", "cli", "config", "plans", "provenance", "report", "proof", "engine", "graph", "language", "source"},
    "config": {"config", "language"},
    "proof": {"proof", "engine", "graph", "language", "source"},
    "plans": {"plans", "config.toml_text", "engine", "language"},
    "provenance": {"provenance", "proof.kernels", "engine", "graph", "language", "source"},
    "report": {
        "provenance",
        "report",
        "engine.log",
        "engine.profile",
        "engine.scene",
        "engine.explanation",
        "graph.summary",
        "graph.diff",
        "proof.layers.result",
    },
    "engine": {"engine", "graph", "language", "source"},
    "graph": {"graph", "language.dtypes"},
    "language": {"language"},
    "source": {"source"},
}
EVERYONE = {"collector", "errors", "record", "resources", "versions", "__init__"}
LONGEST = 400
HEAVY = ("numpy", "onnx", "onnx_graphsurgeon", "rich", "google.protobuf", "ml_dtypes")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def imported(path: Path) -> Iterator[str]:
    """What a module imports of this package, as dotted names below it; `rewriter` alone is "__init__"."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for full in names:
            parts = full.split(".")
            if parts[0] == "rewriter":
                below = ".".join(parts[1:])
                yield "__init__" if not below or below.startswith("__") else below


@pytest.mark.parametrize("path", [p for p in modules() if p.parent != PACKAGE], ids=name)
def test_imports_go_one_way(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    allowed = LAYERS[layer] | EVERYONE
    for module in imported(path):
        assert any(f"{module}.".startswith(f"{prefix}.") for prefix in allowed), f"{layer} imports {module}"


@pytest.mark.parametrize("path", modules(), ids=name)
def test_files_stay_small(path: Path) -> None:
    lines = path.read_text().count("\n")
    whole = path.name == "ast.py"  # one table of records, of which no half can be understood
    assert lines <= (LONGEST + 100 if whole else LONGEST)


@pytest.mark.parametrize("path", modules(), ids=name)
def test_every_module_says_why_it_exists(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_limits_of_time_in_tests_are_of_the_processor() -> None:
    """A limit by the clock on the wall fails on a busy machine."""
    clocks = ("perf_" + "counter()", "mono" + "tonic()", "time." + "time()")
    tests = sorted(Path(__file__).parent.rglob("*.py"))
    assert len(tests) > 100
    assert not [str(path) for path in tests if any(clock in path.read_text() for clock in clocks)]


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["fix", "--help"], 0),
        (["fix", "--no-such-option"], 2),
        (["nothing"], 2),
        (["fix", "--show-settings"], 0),
        (["plan", "--help"], 0),
        (["audit", "--help"], 0),
        (["explain", "E103"], 0),
        (["rule", "MX001"], 0),
        (["rules"], 0),
        (["fix", "somewhere", "-o", "there", "--in-place"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_light_commands_import_nothing_heavy(arguments: list[str], exit_code: int) -> None:
    program = (
        "import sys, rewriter.cli.main as m\n"
        "try: code = m.main(sys.argv[1:])\n"
        "except SystemExit as e: code = e.code or 0\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not found, found\n"
        f"assert code == {exit_code}, code\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
