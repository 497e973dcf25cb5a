"""Imports go one way, files stay small, and what must start fast imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rewriter"
TIERS = {
    "core": (
        (
            "engine",
            "rewriting",
            "matching",
            "conditions",
            "facts",
            "graph",
            "onnxfile",
            "framework",
            "log",
            "language",
            "isolation",
        ),
        {"errors", "notebook", "record", "resources", "whole_model"},
    ),
    "repairs": (
        ("__init__", "declarations", "equal_nodes", "function_calls", "old_opsets", "dim_follow"),
        set(),
    ),
    "rule_tools": (("explain", "lint", "load_rules", "checks", "format", "symptoms", "message_pages"), set()),
    "trust": (
        ("consumers", "check_record", "stamp", "plan_file", "toml_text", "proof", "difference", "rule_tests", "source"),
        set(),
    ),
    "workbench": (("authoring", "surgery", "inspect"), set()),
    "app": (("cli", "editor", "findings", "batch", "chosen_rules", "report", "configuration"), {"style"}),
}
"""Each tier may import those before it, `core` none; each folder of a tier what stands behind it; and all of a tier its files
that are named last. At the top of the package, `api` may import everything, and nothing but the command line imports it.
"""
APART = {
    "app.report": (
        "core.engine",
        "core.rewriting",
        "core.matching",
        "core.conditions",
        "core.facts",
        "core.graph",
        "core.onnxfile",
    )
}
"""Reports are made of records and know nothing of how these came about."""
MOST_TOP_FILES = 5
LONGEST = 800
MOST_MODULES = 25
ANY_NAME = ("app/cli/commands", "rule_tools/checks")
"""A module here is called as the command, or as what it checks."""
HEAVY = ("numpy", "onnx", "onnx_graphsurgeon", "rich", "google.protobuf", "ml_dtypes")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    """What a module imports of this package, as dotted names below it; `rewriter` alone is "__init__"."""
    for node in ast.walk(tree(path)):
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
    """Imports inside functions and those for types only count as well."""
    here = path.relative_to(PACKAGE).with_suffix("").parts
    tier, place = here[0], here[1]
    order, shared = TIERS[tier]
    for module in imported(path):
        other, _, rest = module.partition(".")
        if other in ("__init__", "api"):
            assert other == "__init__" or tier == "app", f"{name(path)} imports {module}"
            continue
        there = rest.split(".")[0]
        if other != tier:
            assert list(TIERS).index(other) < list(TIERS).index(tier), f"{name(path)} imports {module}"
        elif there not in shared and there != place:
            assert place in order, f"{name(path)} is imported by all of {tier}, and imports {module}"
            assert order.index(there) > order.index(place), f"{name(path)} imports {module}"
        assert not module.startswith(APART.get(f"{tier}.{place}", ())), f"{name(path)} imports {module}"


def test_the_top_of_the_package_shows_the_tiers_and_little_else() -> None:
    top = [path for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert {path.name for path in top if path.is_dir()} == set(TIERS)
    assert len([path for path in top if path.is_file()]) <= MOST_TOP_FILES


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and those for types only count as well. The package itself only names what it offers."""
    known = {".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path for path in modules()}
    edges = {
        module: {_module(found, known) for found in imported(path)} - {module, "", "__init__"} for module, path in known.items()
    }
    ends: dict[str, set[str]] = {module: set() for module in edges}
    for module, reached in edges.items():
        for other in reached:
            ends[other].add(module)
    waiting = [module for module, reached in edges.items() if not reached]
    while waiting:
        done = waiting.pop()
        for module in ends[done]:
            edges[module].discard(done)
            if not edges[module]:
                waiting.append(module)
    assert sorted(module for module, reached in edges.items() if reached) == []


def _module(name: str, known: dict[str, Path]) -> str:
    """The module of a dotted name, which may end in something of the module."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def test_folders_stay_small() -> None:
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in modules() if path.name != "__init__.py")
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_a_name_is_one_module() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        folder = str(path.parent.relative_to(PACKAGE))
        if not path.stem.startswith("__") and not folder.startswith(ANY_NAME):
            places.setdefault(path.stem, []).append(folder)
    assert {stem: folders for stem, folders in places.items() if len(folders) > 1} == {}


@pytest.mark.parametrize("path", modules(), ids=name)
def test_files_stay_small(path: Path) -> None:
    assert path.read_text().count("\n") <= LONGEST


@pytest.mark.parametrize("path", modules(), ids=name)
def test_every_module_says_why_it_exists(path: Path) -> None:
    assert not tree(path).body or ast.get_docstring(tree(path))


def test_limits_of_time_in_tests_are_of_the_processor() -> None:
    """A limit by the clock on the wall fails on a busy machine. What hangs is ended by pytest-timeout."""
    clocks = ("perf_" + "counter()", "mono" + "tonic()", "time." + "time()", "time" + "out=")
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
        "import sys, rewriter.app.cli.main as m\n"
        "try: code = m.main(sys.argv[1:])\n"
        "except SystemExit as e: code = e.code or 0\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not found, found\n"
        f"assert code == {exit_code}, code\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
