"""What optimizers do in their own tests, done by `rewriter optimize`: held, less or wrong, test by test.

    python benchmarks/peer_suites.py [--onnxoptimizer CHECKOUT] [--onnxslim CHECKOUT] [--onnxscript CHECKOUT]
        [--onnxruntime FOLDER] [--python PEERS] [--keep FOLDER] [--only TEXT] [--quiet]

The checkouts are those of onnx/optimizer, OnnxSlim and onnxscript. Their tests run with --python, which has these packages,
pytest and pytest-xdist, and each model that a test hands to its peer is kept with what the peer made of it. ONNX Runtime's
folder is onnxruntime/test/testdata/transform; its models are the tests, and its basic level is the peer. The same models then
go through `rewriter optimize` in the peer's place. A test is

    held    where ours leaves at most as many nodes as the peer, and the same outputs,
    less    where ours leaves more,
    wrong   where ours gives other outputs, is invalid where the model was valid, or failed.

Nodes are counted as in benchmarks/optimize.py. Outputs are those of ONNX Runtime on random inputs. A peer that gives other
outputs, or a model that ONNX Runtime rejects, is no measure: such a call counts only where ours is wrong. The same goes for
results with operators of another domain that the model did not have. NOT_FOLLOWED lists what is left on purpose. With --keep,
what the peers made is kept there and used again. Exits with 1 where a test is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from optimize import JOBS, count, differ, domains, inputs, session

from rewriter import load_rules
from rewriter.app.batch.job import process
from rewriter.app.batch.work import Checking, Job, Reading, Rewriting, Work, Writing
from rewriter.core.record import record

NOT_FOLLOWED: dict[str, dict[str, str]] = {
    "onnxoptimizer": {
        "*pad_into_maxpool*": "a MaxPool does not pad with zeros: the peer is wrong where all numbers of a window are negative",
        "*monotone_argmax*": "Exp and Softmax round and overflow to equal numbers, of which ArgMax takes the first",
        "*eliminate_nop_with_unit": "the model declares another number of axes for an inner tensor than the tensor has",
    },
    "onnxslim": {},
    "onnxscript": {
        "CastConstantOfShape*bfloat16": "ConstantOfShape makes bfloat16 since opset 20, and the model has 17",
        "MatchContextTest*": "a rule of the test alone",
        "RewriteRuleTest::test_optional_attribute": "ConcatFromSequence without the axis, which ONNX requires",
        "RewriteRuleTest::test_any_value": "a rule of the test alone, which holds for finite numbers only",
        "ValueNodeCheckersTest*": "a rule of the test alone",
    },
    "onnxruntime": {
        "propagate_cast/*": "the peer computes in float what the model computes in half precision",
        "fusion/transpose_cast_matmul_*": "the peer computes in float what the model computes in half precision",
        "fusion/bias_dropout_*": "the peer removes a Dropout in training mode, whose outputs are random",
    },
}
"""By peer and pattern of tests: why ours leaves more on purpose."""

FOLDERS = {
    "onnxoptimizer": ("onnxoptimizer/test", ""),
    "onnxslim": ("tests/test_[!bfmnou]*.py tests/test_fusion*.py tests/test_utils.py", "."),
    "onnxscript": ("onnxscript/rewriter/rules onnxscript/rewriter/*.py onnxscript/optimizer", "."),
}
"""Where the tests of a checkout are, and the folder that Python imports the peer from ("": the installed package).
Tests of OnnxSlim that download models are left out, and those of onnxscript for fusions into com.microsoft."""

OPTIONS = ["-precorder", "-pno:cacheprovider", "--noconftest", "-oaddopts=", "-n1", "--continue-on-collection-errors"]
"""Of pytest: only the plugin, none of the checkout's own settings, and a process of its own for the tests."""

SECONDS = 1800.0
VERDICTS = ("held", "less", "on purpose", "wrong", "no measure")


@record(frozen=True, slots=True)
class Call:
    """A model that a test hands to its peer, and what the peer made of it (None: it failed)."""

    test: str
    before: Path
    after: Path | None


@record(frozen=True, slots=True)
class Result:
    """What became of one call; `note` says how many nodes are left, or what is wrong."""

    test: str
    verdict: str
    note: str = ""


def recorded(peer: str, checkout: Path, python: str, folder: Path) -> list[Call]:
    """The calls of a peer's tests."""
    listing = folder / "calls.jsonl"
    if not listing.exists():
        folder.mkdir(parents=True, exist_ok=True)
        tests, root = FOLDERS[peer]
        paths = [str(JOBS.resolve()), *([str(checkout / root)] if root else [])]
        setting = {"PEER_CALLS": str(folder), "PEER_NAME": peer, "PYTHONPATH": os.pathsep.join(paths)}
        command = [python, "-B", "-m", "pytest", "-q", *OPTIONS]
        command += [str(path) for part in tests.split() for path in sorted(checkout.glob(part))]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | setting, timeout=SECONDS, capture_output=True, text=True, check=False
        )
        (folder / "pytest.txt").write_text(done.stdout + done.stderr)
        print(f"{peer}: {done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr[-300:]}")
    calls = [json.loads(line) for line in listing.read_text().splitlines()] if listing.exists() else []
    return [Call(one["test"], folder / f"{one['call']}.before.onnx", folder / f"{one['call']}.after.onnx") for one in calls]


def by_runtime(models: Path, python: str, folder: Path) -> list[Call]:
    """The models of ONNX Runtime's tests, and what its basic level makes of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(path, folder / f"{number}.onnx") for number, path in enumerate(sorted(models.rglob("*.onnx")))]
    if not any(target.exists() for _, target in pairs):
        lines = "".join(json.dumps([str(source), str(target)]) + "\n" for source, target in pairs)
        command = [python, str(JOBS / "optimizers.py"), "ONNX Runtime, basic", "60"]
        subprocess.run(command, input=lines, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return [Call(str(source.relative_to(models)), source, target if target.exists() else None) for source, target in pairs]


@cache
def work() -> Work:
    """What `rewriter optimize` does at its default level."""
    rewriting = Rewriting(load_rules().select(["OPTIMIZE"]), tidy=True)
    return Work(rewriting, Reading("none"), Checking(runtime="auto"), Writing(force=True))


def nodes(model: onnx.ModelProto) -> int:
    return count(model.graph) + sum(map(count, model.functions))


def operators(model: onnx.ModelProto) -> Counter[str]:
    every = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return Counter(node.op_type for node in every if node.op_type != "Constant")


def outputs(path: Path, feed: dict[str, Any]) -> list[Any] | str:
    """What a model computes, or why it does not; "random" where two runs differ."""
    try:
        made = session(path)
        given = {item.name: feed[item.name] for item in made.get_inputs()}
        found: list[Any] = made.run(None, given)
        return "random" if differ(found, made.run(None, given)) else found
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def feed_of(path: Path) -> dict[str, Any] | None:
    """Inputs for a model; None where it does not run."""
    try:
        return inputs(path, session(path))
    except Exception:
        return None


def fault(wanted: list[Any] | str, found: list[Any] | str) -> str:
    """What is wrong with outputs, beside those that are right; "" also where there is nothing to compare."""
    if isinstance(wanted, str) or found == "random":
        return ""
    if isinstance(found, str) and found != "random":
        return found
    return f"{len(found)} outputs, not {len(wanted)}" if len(found) != len(wanted) else differ(wanted, found)


def is_valid(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
    except Exception:
        return False
    return True


def judged(call: Call, peer: str, target: Path) -> Result:
    """One call, done by us."""
    target.unlink(missing_ok=True)
    outcome = process(Job(str(call.before), str(target)), work())
    before = onnx.load(call.before)
    if outcome.error or not target.exists():
        return Result(call.test, "wrong" if is_valid(before) else "no measure", outcome.error or "nothing was written")
    ours = onnx.load(target)
    if is_valid(before) and not is_valid(ours):
        return Result(call.test, "wrong", "invalid")
    feed = feed_of(call.before)
    wanted = outputs(call.before, feed) if feed is not None else "does not run"
    if found := fault(wanted, outputs(target, feed or {})):
        return Result(call.test, "wrong", found)
    if call.after is None:
        return Result(call.test, "no measure", "the peer fails")
    theirs = onnx.load(call.after)
    if domains(theirs) - domains(before):
        return Result(call.test, "no measure", "operators of another domain")
    if (is_valid(before) and not is_valid(theirs)) or fault(wanted, outputs(call.after, feed or {})):
        return Result(call.test, "no measure", "the peer is wrong")
    note = f"{nodes(before)} nodes, {nodes(theirs)} left by the peer, {nodes(ours)} by us"
    if nodes(ours) <= nodes(theirs):
        return Result(call.test, "held", note)
    more, fewer = operators(ours) - operators(theirs), operators(theirs) - operators(ours)
    note += f": {' '.join(sorted(more.elements()))} for {' '.join(sorted(fewer.elements())) or 'nothing'}"
    reason = next((why for pattern, why in NOT_FOLLOWED[peer].items() if fnmatch(call.test, pattern)), "")
    return Result(call.test, "on purpose" if reason else "less", f"{note}; {reason}" if reason else note)


def shown(peer: str, results: list[Result], *, quiet: bool) -> bool:
    """Prints the results of a peer; whether none is wrong. A test with several calls is what its worst call is."""
    order = {verdict: number for number, verdict in enumerate(("no measure", "held", "on purpose", "less", "wrong"))}
    worst: dict[str, Result] = {}
    for result in results:
        if result.test not in worst or order[result.verdict] > order[worst[result.test].verdict]:
            worst[result.test] = result
    for result in worst.values():
        if not quiet or result.verdict in ("less", "wrong"):
            print(f"  {result.verdict:10} {result.test}  {result.note}")
    tests, calls = Counter(one.verdict for one in worst.values()), Counter(one.verdict for one in results)
    for what, counted in (("tests", tests), ("calls", calls)):
        print(f"{peer}: {counted.total()} {what}: " + ", ".join(f"{counted[verdict]} {verdict}" for verdict in VERDICTS))
    return not tests["wrong"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for peer in NOT_FOLLOWED:
        parser.add_argument(f"--{peer}", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the peers and pytest")
    parser.add_argument("--keep", type=Path, help="where results of peers stay")
    parser.add_argument("--only", default="", help="tests with this text in their name")
    parser.add_argument("--quiet", action="store_true", help="list only what is less or wrong")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    right = True
    with tempfile.TemporaryDirectory() as name:
        kept = (args.keep or Path(name)).resolve()
        for peer in NOT_FOLLOWED:
            given: Path | None = getattr(args, peer)
            if given is None:
                continue
            take = partial(by_runtime) if peer == "onnxruntime" else partial(recorded, peer)
            calls = take(given.resolve(), args.python, kept / peer)
            target = Path(name) / "ours.onnx"
            results = [judged(call, peer, target) for call in calls if args.only in call.test]
            right = shown(peer, results, quiet=args.quiet) and right
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
