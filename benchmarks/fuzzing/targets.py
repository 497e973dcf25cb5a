"""What is done with one damaged input, and whether it ended as it may: with a result, or with a line on what is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import onnx
from fuzzing.model_mutations import mutate_model
from fuzzing.text_mutations import mutate_bytes, mutate_fences, mutate_json, mutate_lines, mutate_text

from rewriter.app.batch.job import process
from rewriter.app.batch.work import Job, Rewriting, Work, Writing
from rewriter.app.cli import settings
from rewriter.app.cli.main import main
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model import load
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools import load_rules as rule_loading
from rewriter.rule_tools.load_rules import load_rules

SLOW = 20.0
"""Seconds of the processor that no input of these sizes may take."""

SEEDS = Path(__file__).parent.parent.parent / "tests"
LARGEST = 20_000  # bytes of a seed
KINDS = {
    "models": 12, "rules": 4, "symbols": 2, "settings": 1, "plans": 1, "journals": 1, "records": 2, "arrays": 1, "tests": 1,
}  # fmt: skip
"""What is fuzzed, and how often of 25 times."""

ADDITION = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] z) { z = Add(x, x) }'
).SerializeToString()
"""What arrays are the inputs of."""

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"[\w.]*(Error|Exception|Warning)\b")


class Targets:
    """Inputs to begin with, and what is done with the damaged ones, in a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        os.environ |= {"REWRITER_DEBUG": "1", "XDG_CACHE_HOME": str(self.folder), "ORT_DISABLE_TELEMETRY": "1"}
        rules = load_rules()
        settings.load_rules = _kept(rules)
        settings.rules_as_written = rule_loading.read_rules = _kept(list(rules))
        self.codes = [rule.code for rule in rules]
        self.selections = [rules.select(), rules.select(), rules.select(["ALL"])]
        self.work = Work(Rewriting(rules.select(["ALL"])), writing=Writing(stamp=True), seconds=60.0, memory=2 << 30)
        tests = [test for rule in rules for test in rule.ast.tests]
        self.models = [found for test in tests if (found := _from_text(test.before)) and len(found) < LARGEST]
        files = sorted(SEEDS.glob("models/**/*.onnx"))
        self.models += [path.read_bytes() for path in files if path.stat().st_size < LARGEST]
        self.rules = sorted({rule.source.text for rule in rules if len(rule.source.text) < LARGEST})
        self.rules += [path.read_text(errors="replace") for path in sorted(SEEDS.glob("**/*.rules"))]
        self.rules += [path.read_text() for path in sorted(SEEDS.glob("language/*.rules"))] * 20  # every form of the language
        found = sorted(SEEDS.glob("models/**/*symbol.json"))
        self.symbols = [(path.read_text(), model) for path in found if (model := _model_of(path)) is not None]
        self.symbols += [(test.source, model) for test in tests if test.source and (model := _from_text(test.before))]
        self.settings = [path.read_text() for path in (Path(__file__).parent / "settings").glob("*.toml")]
        self.plans = [plan for random in map(Random, range(12)) if (plan := self._plan(random))]
        self.journals, self.records = self._results()
        self.arrays = list(self._arrays_of(map(Random, range(12))))
        self.tests = [text for text in self.rules if "test " in text and len(text) < LARGEST]

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def seeds(self, kind: str) -> list[bytes]:
        """Inputs of a kind to begin with."""
        found = {
            "models": self.models,
            "rules": [text.encode() for text in self.rules],
            "symbols": [text.encode() for text, _ in self.symbols],
            "settings": [text.encode() for text in self.settings],
            "plans": [text.encode() for text, _ in self.plans],
            "journals": self.journals,
            "records": [record.encode() for record, _ in self.records],
            "arrays": self.arrays,
            "tests": [text.encode() for text in self.tests],
        }
        return found[kind]

    def damaged(self, kind: str, data: bytes, random: Random) -> bytes:
        """An input with a few things wrong."""
        donor = random.choice(self.seeds(kind))
        if kind == "models":
            return mutate_model(data, random, donor)
        if kind == "arrays":
            return mutate_bytes(data, random, donor)
        if kind == "journals":
            return mutate_lines(data.decode(), random, donor.decode()).encode("utf-8", "surrogatepass")
        if kind == "tests":
            return mutate_fences(data.decode(), random, donor.decode()).encode("utf-8", "surrogatepass")
        mutate = mutate_json if kind in ("symbols", "records") else mutate_text
        return mutate(data.decode("utf-8", "surrogatepass"), random, donor.decode()).encode("utf-8", "surrogatepass")

    def tried(self, kind: str, data: bytes, random: Random) -> str:
        """What went wrong, as a traceback or a line; "" when all is well."""
        shutil.rmtree(here := self.folder / "now", ignore_errors=True)
        here.mkdir()
        (here / "data.bin").write_bytes(bytes(64))
        started = time.process_time()
        try:
            found = str(getattr(self, f"_{kind}")(data, here, random))
        except BaseException:  # the end of a time limit, too, which nothing may let through
            found = traceback.format_exc()
        used = time.process_time() - started
        return found or (f"slow: {used:.1f} s" if used > SLOW else "")

    def _models(self, data: bytes, here: Path, random: Random) -> str:
        (path := here / "model.onnx").write_bytes(data)
        chance = random.random()
        if chance < 0.7:  # the rules alone; the judges of results take ten times as long
            return self._rewritten(path, random.choice(self.selections))
        if chance < 0.75:
            return process(Job(str(path), str(here / "out" / "model.onnx")), self.work).crash
        (other := here / "other.onnx").write_bytes(random.choice(self.models))
        code, node = random.choice(self.codes), random.choice(("a", "x", "y", "relu0"))
        commands: list[list[object]] = [
            ["check", path, "--runtime", "no", "--format", "json"],
            ["check", path, "--runtime", "no", "--select", "ALL", "--verbose"],
            [
                "fix",
                path,
                "-o",
                here / "fixed.onnx",
                "--diff",
                "--tidy",
                "--report",
                here / "r.html",
                "--report",
                here / "r.sarif",
            ],
            ["show", path, "--format", "json"],
            ["show", path, "--nodes"],
            ["why", code, path],
            ["plan", path, "-o", here / "plan.toml", "--select", "ALL"],
            ["picture", path, "-o", here / "p.svg"],
            ["picture", path, "--around", node, "-o", here / "p.dot"],
            ["diff", path, other, "--format", "json"],
            ["diff", other, path],
            ["history", path],
            ["audit", other, path],
            ["audit", path, other],
            ["coverage", SEEDS.parent / "rules" / "generic" / "GEN001_no-op-node.rules", path],
            ["compare", path, path, "--time-limit", "2"],
        ]
        return self._called(random.choice(commands))

    def _rewritten(self, path: Path, rules: RuleSet) -> str:
        """Rules over a model, and the result written."""
        try:
            model = load(path)
            run(model.graph, rules, Knowledge(overridable=model.overridable), limits=Limits(seconds=SLOW / 2))
            model.save(path.with_name("out.onnx"))
        except RewriterError:
            pass
        return ""

    def _rules(self, data: bytes, here: Path, random: Random) -> str:
        (path := here / "a.rules").write_bytes(data)
        commands: list[list[object]] = [
            ["test", path], ["test", path], ["fmt", path], ["fmt", "--check", path], ["rules", "--rules", path], ["lint", path],
            ["rule", "MX001", "--rules", path],
        ]  # fmt: skip
        found = self._called(random.choice(commands))
        if not found and random.random() < 0.2:
            (model := here / "model.onnx").write_bytes(random.choice(self.models))
            found = self._called(["check", model, "--runtime", "no", "--rules", path, "--select", "ALL"])
        return found

    def _symbols(self, data: bytes, here: Path, random: Random) -> str:
        (path := here / "model.onnx").write_bytes(random.choice(self.symbols)[1])
        texts = [model for text, model in self.symbols if text.encode()[:40] == data[:40]]
        path.write_bytes(random.choice(texts or [random.choice(self.symbols)[1]]))
        if random.random() < 0.6:
            (here / "model-symbol.json").write_bytes(data)
            return process(Job(str(path), str(here / "out" / "model.onnx")), self.work).crash
        (source := here / random.choice(("table.json", "table.csv"))).write_bytes(data)
        return self._called(["fix", path, "--source", source, "-o", here / "fixed.onnx", "--runtime", "no"])

    def _settings(self, data: bytes, here: Path, random: Random) -> str:
        (config := here / random.choice(("rewriter.toml", "pyproject.toml"))).write_bytes(data)
        (path := here / "model.onnx").write_bytes(random.choice(self.models))
        more = random.choice(([], ["--show-settings"], ["--show-settings", "--format", "json"]))
        return self._called(["check", path, "--config", config, "--runtime", "no", *more])

    def _plans(self, data: bytes, here: Path, random: Random) -> str:
        for name in ("model.onnx", str(self.folder / "planned.onnx")):
            (here / name).write_bytes(random.choice(self.plans)[1])
        (plan := here / "plan.toml").write_bytes(data)
        return self._called(["apply", plan, "-o", here / "fixed.onnx"])

    def _journals(self, data: bytes, here: Path, random: Random) -> str:
        (here / "in").mkdir()
        (here / "in" / "a.onnx").write_bytes(random.choice(self.models))
        (here / "in" / "b.onnx").write_bytes(random.choice(self.models))
        (here / "o").mkdir()
        (here / "o" / random.choice(("a.onnx", "c.onnx"))).write_bytes(b"")
        (journal := here / "journal.jsonl").write_bytes(data)
        report = random.choice(([], ["--report", here / "r.json"], ["--report", here / "r.html"]))
        how = random.choice(("--resume", "--update"))
        return self._called(["fix", here / "in", "--out", here / "o", "--journal", journal, how, "--runtime", "no", *report])

    def _records(self, data: bytes, here: Path, random: Random) -> str:
        before, after = random.choice(self.records)[1]
        (original := here / "before.onnx").write_bytes(before)
        changed = onnx.ModelProto.FromString(after)
        try:
            text = data.decode()
            for entry in changed.metadata_props:
                entry.value = text if entry.key == HISTORY else entry.value
        except ValueError:  # half a character, which no message holds
            return ""
        (path := here / "model.onnx").write_bytes(changed.SerializeToString())
        commands: list[list[object]] = [
            ["history", path], ["history", path, "--format", "json"], ["audit", original, path], ["undo", path],
            ["undo", path, "1", "-o", here / "undone.onnx", "--runtime", "no"], ["undo", path, "--original", original],
            ["fix", path, "-o", here / "fixed.onnx", "--select", "ALL", "--runtime", "no"],
        ]  # fmt: skip
        return self._called(random.choice(commands))

    def _arrays(self, data: bytes, here: Path, random: Random) -> str:
        (model := here / "model.onnx").write_bytes(ADDITION)
        (path := here / random.choice(("arrays.npz", "arrays.npy"))).write_bytes(data)
        commands: list[list[object]] = [
            ["run", model, "--inputs", path, "--time-limit", "5"],
            ["compare", model, model, "--inputs", path, "--time-limit", "5"],
            ["edit", model, "--constant", f"x=@{path}", "-o", here / "edited.onnx", "--runtime", "no"],
        ]
        return self._called(random.choice(commands))

    def _tests(self, data: bytes, here: Path, random: Random) -> str:
        (path := here / "a.rules").write_bytes(data)
        return self._called(["test", path, *random.choice(([], ["--bless", "--dry-run"], ["--format", "json"]))])

    def _results(self) -> tuple[list[bytes], list[tuple[str, tuple[bytes, bytes]]]]:
        """Journals of repaired folders, and of models that changed the record, with the models before and after."""
        journals, records = [], []
        for random in map(Random, range(16)):
            folder, out = self.folder / "folder", self.folder / "out"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
            (journal := self.folder / "out.journal.jsonl").unlink(missing_ok=True)
            folder.mkdir()
            for name in ("a.onnx", "b.onnx"):
                (folder / name).write_bytes(random.choice(self.models))
            full = random.choice(("short", "full"))
            self._called(["fix", folder, "--out", out, "--select", "ALL", "--record", full, "--runtime", "no"])
            journals.append(journal.read_bytes())
            for path in out.glob("*.onnx"):
                after = onnx.load(path, load_external_data=False)
                for entry in after.metadata_props:
                    if entry.key == HISTORY:
                        records.append((entry.value, ((folder / path.name).read_bytes(), path.read_bytes())))
        return journals, records

    def _arrays_of(self, randoms: Iterable[Random]) -> Iterator[bytes]:
        """Files of NumPy, of one array and of some, packed or not."""
        for random in randoms:
            shape = random.choice(((4,), (2, 3), (), (0, 5)))
            array = np.zeros(shape, random.choice(("<f4", ">f8", "?", "<i8", "<U3", "<c16", "<f2")))
            file = io.BytesIO()
            if random.random() < 0.25:
                np.save(file, array)
            else:
                random.choice((np.savez, np.savez_compressed))(file, x=np.ones(4, np.float32), y=array)
            yield file.getvalue()

    def _plan(self, random: Random) -> tuple[str, bytes] | None:
        """A plan of some model, which stands beside it."""
        (path := self.folder / "planned.onnx").write_bytes(data := random.choice(self.models))
        (plan := self.folder / "plan.toml").unlink(missing_ok=True)
        self._called(["plan", path, "-o", plan, "--select", "ALL"])
        return (plan.read_text(), data) if plan.exists() else None

    def _called(self, arguments: list[object]) -> str:
        """What is wrong with the end of a command."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([str(one) for one in arguments])
            except SystemExit as ending:
                code = int(ending.code or 0)
        told = f"{out.getvalue()}\n{err.getvalue()}"
        if code not in (0, 1, 2) or "Traceback (most recent" in told or "internal error" in told:
            return f"{' '.join(map(str, arguments))}: exit code {code}\n{told[-6000:]}"
        if "json" in arguments and out.getvalue():
            try:
                json.loads(out.getvalue())
            except ValueError as error:
                return f"{' '.join(map(str, arguments))}: no JSON: {error}\n{told[-3000:]}"
        return ""


def _kept(rules: object) -> object:
    """The shipped rules are read once; others, as they are asked for."""
    return lambda paths: rules if paths is None else load_rules(paths)


def _from_text(text: str) -> bytes | None:
    try:
        return bytes(onnx.parser.parse_model(text).SerializeToString())
    except Exception:
        return None


def _model_of(symbol: Path) -> bytes | None:
    beside = symbol.with_name(symbol.name.removesuffix("-symbol.json") + ".onnx")
    path = beside if beside.exists() else symbol.with_name("model.onnx")
    return path.read_bytes() if path.exists() and path.stat().st_size < LARGEST else None


def signature(finding: str) -> str:
    """What findings of one cause have in common: the last place in this program and the error."""
    places = [f"{Path(file).name}:{line}" for file, line in _PLACE.findall(finding) if f"{os.sep}rewriter{os.sep}" in file]
    last = next(
        (line for line in reversed(finding.strip().splitlines()) if re.match(r"[\w.]*(Error|Exception|Warning)\b", line)), ""
    )
    kind = last.split(":")[0] or finding.strip().split(":")[0][:60]
    return f"{places[-1] if places else '?'} {kind}"


def silence() -> None:
    """What native code prints goes nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
