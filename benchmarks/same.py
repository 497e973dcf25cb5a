"""Whether two checkouts do the same: the fence for a change that users must not notice.

    python benchmarks/same.py OLD_CHECKOUT NEW_CHECKOUT [FOLDER ...] [--every N] [--jobs 2] [--show 20] [--only NAME,NAME]

FOLDER holds models, at any depth (default: tests/models of the new checkout). Both checkouts get the same calls, each in a
folder and with a cache of its own:

    fix, optimize, all      bytes and log (JSON) of `fix`, of `optimize`, and of `fix` with every rule that is neither lossy nor
                            an interface rule, model by model
    runtime                 verdicts of `fix` with ONNX Runtime, for one model in ten
    check                   JSON of `check`, model by model
    why                     JSON of `why`, for one model in forty and the first rules that fire or are blocked there
    help                    help texts of all commands, and what `explain` says of every message
    reports                 JSON, SARIF, CSV, JUnit, Markdown and HTML reports of `check` and `fix`
    lint                    verdicts of `lint --pedantic` over all rules, and the lists of `rules` and of a target's rules

Times, versions and the folders of the two runs are left out of the comparison. The last line reads "N same, M other"; the exit
code is 1 if anything differs. `--every N` takes every N-th model. Each name on the left can be chosen alone with `--only`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

MEASURED = re.compile(r"seconds|^version$|^rule_set$|^date$|^time$")
"""Keys of JSON whose values differ from run to run, or by the checkout."""
CLOCK = re.compile(
    r"\b[\d,]+(\.\d+)? ?(s|ms|us|µs)\b"
    r"|<b>[\d.]+</b><span>seconds"
    r"|\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"
    r"|time=\"[\d.]+\""
)
_COLLECTING = Lock()
REPORTS = ("json", "sarif", "csv", "junit.xml", "md", "html")


class Checkout:
    """The package of a checkout, laid out as an installation, and a folder in which it runs."""

    def __init__(self, source: Path, place: Path) -> None:
        self.source, self.work = source, place / "work"
        self.work.mkdir(parents=True)
        self.installed = installed = place / "installed"
        shutil.copytree(source / "rewriter", installed / "rewriter", ignore=shutil.ignore_patterns("__pycache__"))
        for folder in ("grammar", "rules", "conversions", "targets"):
            shutil.copytree(source / folder, installed / "rewriter" / folder)
        self.environment = {
            **os.environ, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(place / "cache"), "COLUMNS": "100",
            "NO_COLOR": "1", "PYTHONHASHSEED": "0",
        }  # fmt: skip

    def run(self, *arguments: str) -> str:
        """The output of a call of the command line, its exit code, and what it wrote to stderr."""
        command = [sys.executable, "-m", "rewriter", *arguments]
        done = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=3600)
        printed = f"{done.stdout}\n--- exit {done.returncode}\n{done.stderr}"
        return printed.replace(str(self.installed), "INSTALLED")

    def json_of(self, *arguments: str) -> Any:
        """What a call printed as JSON; the whole output if it is none."""
        printed = self.run(*arguments)
        try:
            return json.JSONDecoder().raw_decode(printed)[0]
        except ValueError:
            return printed


def comparable(value: Any) -> Any:
    """JSON without what is measured."""
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items() if not MEASURED.search(key)}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return CLOCK.sub("T", value) if isinstance(value, str) else value


def text_of(value: Any) -> str:
    return CLOCK.sub("T", value) if isinstance(value, str) else json.dumps(comparable(value), indent=1, sort_keys=True)


READERS: dict[str, Callable[[str], Any]] = {
    ".json": json.loads,
    ".sarif": json.loads,
    ".csv": lambda text: list(csv.DictReader(text.splitlines())),
}

Answers = Iterator[tuple[str, str]]
"""Pairs of what was asked and what came out."""


class Fence:
    """The calls that both checkouts get; each method yields the answers of one checkout."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder, self.jobs = folder, str(jobs)
        self.models = sorted(folder.rglob("*.onnx"))

    def fix(self, checkout: Checkout) -> Answers:
        return self._results(checkout, "fix", [self.folder], "--runtime", "no")

    def optimize(self, checkout: Checkout) -> Answers:
        return self._results(checkout, "optimize", [self.folder], "--runtime", "no")

    def all(self, checkout: Checkout) -> Answers:
        rules = checkout.json_of("rules", "--format", "json")["rules"]
        codes = [rule["code"] for rule in rules if rule["kind"]["name"] not in ("lossy", "interface")]
        return self._results(checkout, "fix", [self.folder], "--runtime", "no", "--select", ",".join(codes))

    def runtime(self, checkout: Checkout) -> Answers:
        return self._results(checkout, "fix", [self._part(10)])

    def check(self, checkout: Checkout) -> Answers:
        report = checkout.json_of("check", str(self.folder), "--runtime", "no", "--jobs", self.jobs, "--format", "json")
        yield from self._rows(report)

    def why(self, checkout: Checkout) -> Answers:
        some = self.models[::40]
        report = checkout.json_of("check", *map(str, some), "--runtime", "no", "--jobs", self.jobs, "--format", "json")
        questions = [(code, row["path"]) for row in report["models"] for code in sorted(_codes(row))[:2]]
        questions += [("MX002", str(model)) for model in some[::4]]
        with ThreadPoolExecutor(int(self.jobs)) as pool:
            answers = pool.map(lambda asked: checkout.json_of("why", *asked, "--format", "json"), questions)
            yield from ((" ".join(asked), text_of(answer)) for asked, answer in zip(questions, answers, strict=True))

    def help(self, checkout: Checkout) -> Answers:
        overview = checkout.run("--help")
        yield "--help", overview
        commands = [line.split()[0] for line in overview.splitlines() if re.match(r"    [a-z][a-z-]*(\s|$)", line)]
        pages = [*((command, "--help") for command in commands), *(("explain", code) for code in _message_codes(checkout))]
        with ThreadPoolExecutor(int(self.jobs)) as pool:
            for page, printed in zip(pages, pool.map(lambda page: checkout.run(*page), pages), strict=True):
                yield " ".join(page), printed

    def reports(self, checkout: Checkout) -> Answers:
        some = str(self._part(max(1, len(self.models) // 60)))
        for command, more in (("check", ()), ("fix", ("--out", "reported"))):
            files = [f"{command}.{ending}" for ending in REPORTS]
            options = [option for file in files for option in ("--report", file)]
            yield f"{command}, terminal", CLOCK.sub("T", checkout.run(command, some, "--runtime", "no", *more, *options))
            for file in files:
                written = (checkout.work / file).read_text().replace(str(checkout.installed), "INSTALLED")
                yield file, text_of(READERS.get(Path(file).suffix, str)(written))

    def lint(self, checkout: Checkout) -> Answers:
        for call in (("lint", "--pedantic"), ("rules",), ("rules", "--target", "ALL")):
            report = checkout.json_of(*call, "--format", "json")
            if isinstance(report, str):
                yield " ".join(call), report
                continue
            for row in report.get("rules", []) if isinstance(report.get("rules"), list) else []:
                yield f"{' '.join(call)}: {row['code']}", text_of(row)
            yield " ".join(call), text_of({key: value for key, value in report.items() if key != "rules"})

    def _part(self, every: int) -> Path:
        """A folder with one of so many models."""
        part = self.folder.with_name(f"one-in-{every}")
        with _COLLECTING:
            return part if part.exists() else collect([self.folder], every, part)

    def _results(self, checkout: Checkout, command: str, folders: Sequence[Path], *options: str) -> Answers:
        """The log and the bytes that a command makes of each model."""
        out = checkout.work / f"out-{len(list(checkout.work.iterdir()))}"
        call = (command, *map(str, folders), "--out", out.name, "--jobs", self.jobs, *options, "--format", "json")
        report = checkout.json_of(*call)
        written = {
            str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(out.rglob("*")) if path.is_file()
        }  # fmt: skip
        yield from self._rows(report)
        yield from ((f"bytes of {name}", digest) for name, digest in written.items())
        shutil.rmtree(out, ignore_errors=True)

    @staticmethod
    def _rows(report: Any) -> Answers:
        if isinstance(report, str):
            yield "the whole call", report
            return
        for row in report.pop("models"):
            yield row["path"], re.sub(r'"out-\d+/', '"out/', text_of(row))
        yield "summary", text_of(report)


def _codes(row: dict[str, Any]) -> set[str]:
    """The rules that fire or are blocked in a model, of a row of `check`."""
    return {*row.get("counts", ()), *(one["rule"] for one in row.get("blocked", ()))}


def _message_codes(checkout: Checkout) -> list[str]:
    """The messages of the rule compiler: every code that its sources or the names of its files hold."""
    files = [path for path in checkout.installed.rglob("*") if path.suffix in (".py", ".md")]
    return sorted({code for path in files for code in re.findall(r"\b[EW]\d{3}\b", path.stem + path.read_text())})


def collect(folders: Sequence[Path], every: int, place: Path) -> Path:
    """A folder with every N-th model of some folders, and with the files beside each, such as weights and symbol files."""
    found = sorted((folder.resolve(), path) for folder in folders for path in folder.resolve().rglob("*.onnx"))
    for folder, path in found[::every]:
        home = place / folder.name / path.parent.relative_to(folder)
        home.mkdir(parents=True, exist_ok=True)
        for file in path.parent.iterdir():
            if file.is_file() and (file == path or file.suffix != ".onnx") and not (home / file.name).exists():
                shutil.copyfile(file, home / file.name)
    return place


def compare(name: str, ask: Callable[[Checkout], Answers], old: Checkout, new: Checkout, show: int) -> tuple[int, int]:
    """How many answers are the same and how many are not; the first of the latter are printed with their first other line."""
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(lambda checkout: dict(ask(checkout)), (old, new))
    other = [asked for asked in {**before, **after} if before.get(asked) != after.get(asked)]
    for asked in other[:show]:
        lines = zip(before.get(asked, "(missing)").splitlines(), after.get(asked, "(missing)").splitlines(), strict=False)
        one, two = next(((one, two) for one, two in lines if one != two), ("(shorter)", "(longer)"))
        differs = next((at for at, (ours, theirs) in enumerate(zip(one, two, strict=False)) if ours != theirs), 0)
        start = max(0, differs - 60)
        print(f"  {name}: {asked}\n    - {one[start : start + 200]}\n    + {two[start : start + 200]}")
    same = len({**before, **after}) - len(other)
    print(f"{name}: {same} same, {len(other)} other", flush=True)
    return same, len(other)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--only")
    args = parser.parse_args()
    folders = args.folders or [args.new / "tests" / "models"]
    names = ("fix", "optimize", "all", "runtime", "check", "why", "help", "reports", "lint")
    with TemporaryDirectory() as place:
        fence = Fence(collect(folders, args.every, Path(place) / "models"), args.jobs)
        old, new = (Checkout(source.resolve(), Path(place) / side) for source, side in ((args.old, "old"), (args.new, "new")))
        chosen = [name for name in names if not args.only or name in args.only.split(",")]
        counts = [compare(name, getattr(fence, name), old, new, args.show) for name in chosen]
    same, other = (sum(column) for column in zip(*counts, strict=True))
    print(f"{len(fence.models)} models: {same} same, {other} other")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
