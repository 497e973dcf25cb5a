"""What `rewriter opset` does about each step of each operator of ONNX, and whether it holds for onnx's own tests.

    python benchmarks/opset_steps.py                 the table: all steps of all operators, up and down
    python benchmarks/opset_steps.py --run           onnx's backend tests, converted to the versions of their operators and back
    python benchmarks/opset_steps.py --run FOLDER    the models of a folder, to 11, 17 and 21, and by onnx's converter
    python benchmarks/opset_steps.py --there-and-back FOLDER    the same models, there and back

Nothing is done about a step where neither the schemas nor the table of `language.meaning` know of a difference that a
node could notice. A test model is converted to each version at and before a step of one of its operators, and back. Its outputs
are compared with those before, by ONNX Runtime where it loads the model, else by onnx's reference.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from no_harm import cases
from onnx.reference import ReferenceEvaluator

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import opset_versions
from rewriter.core.language import ast, schema
from rewriter.core.language.ast import walk
from rewriter.core.language.meaning import CHANGES
from rewriter.core.language.operator_traits import DRAWS
from rewriter.core.language.schema import Operator
from rewriter.core.record import record
from rewriter.trust.proof.output_agreement import Bound, differences
from rewriter.trust.proof.validity import MOST_BYTES, Candidate
from rewriter.workbench.surgery.extract import same_as_whole
from rewriter.workbench.surgery.finish import Checks
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.opset_conversion import MEANINGLESS, NEWER, OLDER, conversions, convert_opset, reversioned

LOWEST = 7
"""ONNX Runtime has no older operators."""
NEWEST_RUN = 26
FEW = 8


NOTHING = "nothing to do"


@record(frozen=True, slots=True)
class StepRow:
    """A step of an operator: `before` is the version that it had, 0 for none; `up` and `down` say what is done about it."""

    op: str
    before: int
    version: int
    up: str
    down: str


def step_table() -> Iterator[StepRow]:
    """All steps of the operators of ONNX; that an operator came to be is one, too."""
    codes = _codes()
    for op in schema.operators():
        versions = schema.versions(op)
        for old, new in zip((0, *versions), versions, strict=False):
            if new == 1:
                continue
            up = _step_text(op, new - 1, new, codes.get((OLDER, op, new), [])) if old else NOTHING
            yield StepRow(op, old, new, up, _step_text(op, new, new - 1, codes.get((NEWER, op, new - 1), [])))


def _codes() -> dict[tuple[str, str, int], list[str]]:
    """Codes of the rules that convert an operator into a version."""
    found: dict[tuple[str, str, int], list[str]] = {}
    for rule in conversions():
        ops = {(part.domain, part.name) for part in walk(rule.ast.match) if isinstance(part, ast.Op)}
        for domain, op in ops:
            found.setdefault((domain, op, rule.header.opset.first or 0), []).append(rule.code)
    return found


def _step_text(op: str, before: int, after: int, codes: list[str]) -> str:
    old, new = schema.schema(op, "", before), schema.schema(op, "", after)
    assert old is not None or new is not None
    if old is None or old.deprecated:
        return NOTHING
    if new is None or new.deprecated:
        if codes:
            return f"converted by {', '.join(codes)}"
        return "written out as its body" if _has_body(op, before) else f"rejected: opset {after} has no {op}"
    lost = _lost_types(op, before, after)
    types = f"; rejected for {', '.join(lost)}" if lost else ""
    if codes:
        return f"converted by {', '.join(codes)}{types}"
    change = CHANGES.get((op, max(before, after)))
    if change is not None and (after < before or not change.widened):
        return f"rejected: {change.words}{types}"
    reasons = list(_differences(old, new, after < before))
    if not reasons:
        return NOTHING + types
    return f"nothing to do, but {'; '.join(reasons)}{types}"


def _differences(old: Operator, new: Operator, down: bool) -> Iterator[str]:
    """What an operator lacks in a version that it had in another one."""
    for name, attribute in old.attributes.items():
        if name in new.attributes or name in MEANINGLESS:
            continue
        default = "ones" if schema.computed_default(old.name, "", name) == "ones" else attribute.default
        if down and default is not None:
            yield f"rejected with {name} other than {default}"
        else:
            yield f"rejected with {name}"
    if any(attribute.required and name not in old.attributes for name, attribute in new.attributes.items()):
        yield "rejected: an attribute is required"
    for what, before, after in (("operand", old.inputs, new.inputs), ("result", old.outputs, new.outputs)):
        for formal in before[len(after) :]:
            yield f"rejected with the {what} {formal.name}"
        for one, other in zip(before, after, strict=False):
            if one.optional and not other.optional and not other.variadic:
                yield f"rejected without the {what} {one.name}"


def _has_body(op: str, version: int) -> bool:
    """Whether ONNX defines an operator by others that a version has."""
    found: Any = onnx.defs.get_schema(op, version, "")
    return bool(found.has_function or found.has_context_dependent_function)


def _lost_types(op: str, before: int, after: int) -> list[str]:
    """Element types that some operand or result may have in one version, and none in another."""
    types = []
    for version in (before, after):
        found = schema.registered_at(op, "", version)
        formals = () if found is None else (*found.inputs, *found.outputs)
        types.append({name for formal in formals for name in formal.types})
    return sorted(name.removeprefix("tensor(").removesuffix(")") for name in types[0] - types[1] if name.startswith("tensor("))


def print_table() -> None:
    rows = list(step_table())
    for row in rows:
        print(f"{row.op:28} {row.before or 'new':>3} -> {row.version:<3} up:   {row.up}\n{'':42} down: {row.down}")
    for direction in ("up", "down"):
        kinds = Counter(getattr(row, direction).split(" ")[0].rstrip(":;") for row in rows)
        print(
            f"{direction}: {sum(kinds.values())} steps: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}"
        )


class Runner:
    """Runs a model, in whatever can run it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.names = [output.name for output in model.graph.output]
        self.inputs = [entry.name for entry in model.graph.input]
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            self.run, self.kind = session.run, "onnxruntime"
        except Exception:
            self.run, self.kind = ReferenceEvaluator(model).run, "reference"

    def outputs(self, values: list[Any]) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(zip(self.names, self.run(None, dict(zip(self.inputs, values, strict=False))), strict=False))


def targets(model: onnx.ModelProto) -> list[int]:
    """The versions just before and at each step of an operator of the model."""
    known = {since for node in model.graph.node for since in schema.versions(node.op_type, node.domain or "")}
    found = {version for since in known for version in (since, since - 1)}
    fitting = sorted(version for version in found if LOWEST <= version <= NEWEST_RUN)
    return fitting if len(model.graph.node) < FEW else fitting[:: max(1, len(fitting) // 4)]


def try_cases() -> None:
    totals: Counter[str] = Counter()
    bound = Bound(ulps=64, rtol=1e-3, atol=1e-5)
    for case in cases():
        own = next((entry.version for entry in case.model.opset_import if entry.domain in ("", "ai.onnx")), None)
        if own is None or not case.records or case.name.endswith("_expanded"):  # bodies are tried where they are written out
            continue
        if any(node.op_type in DRAWS for node in case.model.graph.node):  # no two runs need to agree
            totals["random"] += 1
            continue
        try:
            before = [Runner(case.model).outputs(inputs) for inputs, _ in case.records]
        except Exception:
            totals["not run as it is"] += 1
            continue
        for version in targets(case.model):
            if version == own:
                continue
            verdict = one(case, own, version, before, bound)
            totals[verdict.split(":")[0]] += 1
            if not verdict.startswith("equal"):
                print(f"{case.name}  {own} -> {version}  {verdict[:300]}", flush=True)
    print(dict(totals))


def one(case: Any, own: int, version: int, before: list[dict[str, Any]], bound: Bound) -> str:
    """Converts a test there and back; what came of it."""
    made = Model.from_proto(case.model)
    for target, way in ((version, "there"), (own, "back")):
        try:
            convert_opset(made, target)
        except RewriterError as error:
            return f"refused {way}: {error}"
        except Exception as error:
            return f"FAILED {way}: {type(error).__name__}: {error}"
        proto = made.to_proto()
        proto.ir_version = max(proto.ir_version, 8 if target < 19 else 10)
        try:
            onnx.checker.check_model(proto)
        except Exception as error:
            return f"INVALID {way}: {error}"
        try:
            runner = Runner(proto)
            for (inputs, _), expected in zip(case.records, before, strict=True):
                for found in differences(expected, runner.outputs(inputs), bound):
                    if found.message:
                        return f"OTHER {way} ({runner.kind}): {found.message}"
        except Exception as error:
            if target == own:
                return f"DOES NOT RUN {way}: {error}"
            return f"not run {way}: {error}"
        made = Model.from_proto(proto)
    return "equal there and back"


def peer(path: Path, version: int) -> str:
    """What onnx's own converter makes of a model."""
    model = onnx.load(path)
    try:
        made = onnx.version_converter.convert_version(model, version)
    except Exception:
        return "fails"
    try:
        onnx.checker.check_model(made, full_check=True)
    except Exception:
        return "the result is invalid"
    ports = ([info.name for info in side] for side in (model.graph.input, model.graph.output))
    try:
        found = same_as_whole(Opened(path), [Candidate(Model.from_proto(made, path.parent))], *ports, MOST_BYTES)
    except RewriterError:
        return "not run"
    return "not run" if not found.ran else "other numbers" if found.difference else "same numbers"


def there_and_back(path: Path, version: int) -> str:
    """What comes of a model that is converted to a version and back to its own."""
    source, way = Opened(path), "there"
    own = opset_versions(source.read().graph).get("", 1)
    if own == version:
        return "of this version"
    try:
        done = reversioned(source, version, checks=Checks("no", stamp=False))
        way = "back"
        done = reversioned(Opened(done.model.to_proto()), own, checks=Checks("no", stamp=False))
    except RewriterError as error:
        return f"refused {way}: {error}"
    except Exception as error:
        return f"FAILED {way}: {type(error).__name__}: {error}"
    inputs, outputs = ([tensor.name for tensor in ports] for ports in (done.model.graph.inputs, done.model.graph.outputs))
    found = same_as_whole(source, [Candidate(done.model)], inputs, outputs, MOST_BYTES)
    return (
        f"OTHER NUMBERS: {found.difference}"
        if found.difference
        else "same numbers"
        if found.ran
        else f"not run: {found.reason}"
    )


def try_back(files: list[Path], versions: list[int]) -> None:
    totals: Counter[str] = Counter()
    for path in files:
        for version in versions:
            verdict = there_and_back(path, version)
            totals[verdict.split(":")[0]] += 1
            if verdict.split(":")[0] not in ("same numbers", "of this version"):
                print(f"{path.parent} -> {version}: {verdict[:300]}", flush=True)
    print(f"{len(files)} models: {dict(totals)}")


def try_folder(files: list[Path], versions: list[int]) -> None:
    totals: Counter[str] = Counter()
    for path in files:
        for version in versions:
            start = time.process_time()
            try:
                done = reversioned(Opened(path), version, checks=Checks(stamp=False))
                verdict = "same numbers" if done.same else f"not run: {'; '.join(done.notes)[:160]}"
            except RewriterError as error:
                verdict = f"refused: {error}"
            except Exception as error:
                verdict = f"FAILED: {type(error).__name__}: {error}"
            took = time.process_time() - start
            totals[f"{version}: rewriter: {verdict.split(':')[0]}"] += 1
            totals[f"{version}: onnx.version_converter: {peer(path, version)}"] += 1
            if verdict != "same numbers":
                print(f"{path.parent} -> {version} ({took:.1f} s): {verdict[:300]}", flush=True)
    for what, count in sorted(totals.items()):
        print(f"{count:5}  {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="?", const="", metavar="FOLDER")
    parser.add_argument("--there-and-back", metavar="FOLDER")
    parser.add_argument("--models", type=int, metavar="N", help="with a folder: this many, drawn at random (default: all)")
    parser.add_argument(
        "--to", type=int, action="append", metavar="N", help="with a folder: the versions (default: 11, 17 and 21)"
    )
    args = parser.parse_args()
    np.seterr(all="ignore")
    folder, versions = args.there_and_back or args.run, args.to or [11, 17, 21]
    if folder is None:
        print_table()
    elif folder:
        files = sorted(Path(folder).rglob("model.onnx"))
        if args.models is not None:
            files = random.Random(1).sample(files, min(args.models, len(files)))
        (try_back if args.there_and_back else try_folder)(files, versions)
    else:
        try_cases()


if __name__ == "__main__":
    main()
