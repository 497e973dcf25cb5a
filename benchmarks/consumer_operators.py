"""How consumers compute ONNX's operators, one at a time: as exported, and after `fix --target`.

    python benchmarks/consumer_operators.py mnn --consumer-env ENV                  all cases
    python benchmarks/consumer_operators.py mnn --consumer-env ENV --most 12        so many of each operator
    python benchmarks/consumer_operators.py mnn --consumer-env ENV --only Reduce    operators whose name begins so
    python benchmarks/consumer_operators.py mnn --consumer-env ENV --drawn 10       in addition, random models of each operator

The cases are the operator tests that come with onnx: a node, its inputs and its outputs. Exporters store weights, axes and
shapes in the model. So all operands but the first are stored, and a second form of a case has all its numbers as inputs. A case
is asked at the newest opset of each version of its operator that exports have, if ONNX Runtime agrees with onnx there.

Prints the cases that a consumer does not compute correctly, and a table of operators. Exits with 1 if a case is correct as it
is, and not after `fix --target`, or if an error message becomes wrong output.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))

from consumers import asked, fixed, is_worse
from no_harm import cases as recorded_cases

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.language import schema
from rewriter.core.language.rules import Rule
from rewriter.core.record import record
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.consumers.asking import find, known
from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict
from rewriter.trust.proof.instances.draft import Dims, Rejected
from rewriter.trust.proof.instances.instance import ir_version
from rewriter.trust.proof.instances.pattern_instances import pattern_instance
from rewriter.trust.proof.instances.random_arrays import TAME, NoInputs, feed
from rewriter.trust.proof.judges import NAME
from rewriter.trust.proof.validity import Candidate, CannotRun, ModelRun
from rewriter.workbench.surgery.opset_conversion import convert_opset

OLDEST, NEWEST, YOUNGEST = 11, 21, 23
"""Opsets that most exports have, and the last one in which an operator is asked that was born later."""

TYPES = {TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8}
"""Element types that exports of networks have."""

TOLERANCE = 1e-3
COLUMNS = ("equal", "differs", "rejects", "crashes")
"""What a consumer makes of a case, in the words of the table. An error while the model runs counts as "rejects"."""


@record(frozen=True)
class Case:
    """A model of one operator, and the values of its inputs and outputs by name."""

    name: str
    op: str
    model: onnx.ModelProto
    values: dict[str, Any]


# --- the cases ---------------------------------------------------------------------------------------------------------------


def all_cases(drawn: int, only: str = "") -> Iterator[Case]:
    """The recorded cases in their forms and opsets, and `drawn` random models for each of their operators."""
    operators = set()
    for recorded in recorded_cases():
        nodes = recorded.model.graph.node
        if recorded.group != "node" or len(nodes) != 1 or nodes[0].domain or not nodes[0].op_type.startswith(only):
            continue
        inputs, outputs = recorded.records[0]
        has_arrays = all(isinstance(value, np.ndarray) for value in (*inputs, *outputs))
        if not has_arrays or schema.versions(nodes[0].op_type)[0] > YOUNGEST:
            continue
        values = dict(zip((info.name for info in recorded.model.graph.input), inputs, strict=True))
        operators.add(nodes[0].op_type)
        yield from variants(recorded.name.removeprefix("test_"), nodes[0].op_type, recorded.model, values, outputs)
    for op in sorted(operators) if drawn else ():
        for number, (model, values) in enumerate(random_models(op, drawn)):
            yield from variants(f"{op} {number}", op, model, values, None)


def spread(cases: Iterable[Case], most: int | None) -> Iterator[Case]:
    """At most so many cases of each operator: one of each operator, then a second one of each, and so on."""
    cases_by_operator: dict[str, list[Case]] = {}
    for case in cases:
        cases_by_operator.setdefault(case.op, []).append(case)
    for turn in range(most or max(map(len, cases_by_operator.values()), default=0)):
        for found in cases_by_operator.values():
            count = min(most or len(found), len(found))
            if turn < count:
                yield found[turn * len(found) // count]


def variants(name: str, op: str, model: onnx.ModelProto, values: dict[str, Any], outputs: list[Any] | None) -> Iterator[Case]:
    """The forms of a case: in the opsets of its operator, with operands that are stored or numbers that are not."""
    _, *others = [info.name for info in model.graph.input] or [""]
    forms = {"": others, ", inputs": [name for name in others if values[name].dtype.kind != "f"]}
    own = model.opset_import[0].version
    for form, weights in forms.items():
        if form and weights == others:
            continue
        for opset in [own] if outputs is None else opsets_of(op):
            converted = at_opset(with_weights(model, {name: values[name] for name in weights}), opset)
            if converted is None:
                continue
            inputs = {info.name: values[info.name] for info in converted.graph.input}
            computed = reference(converted, inputs, outputs)
            if computed is not None:
                yield Case(f"{name}, opset {opset}{form}", op, converted, {**inputs, **computed})


def opsets_of(op: str) -> list[int]:
    """The newest opset of each version of an operator that exports have."""
    born, *later = schema.versions(op)
    return [version - 1 for version in later if OLDEST < version <= NEWEST] + [NEWEST if born <= NEWEST else YOUNGEST]


def with_weights(model: onnx.ModelProto, weights: dict[str, Any]) -> onnx.ModelProto:
    """The model with some of its inputs stored."""
    stored = onnx.ModelProto()
    stored.CopyFrom(model)
    inputs = [info for info in stored.graph.input if info.name not in weights]
    del stored.graph.input[:]
    stored.graph.input.extend(inputs)
    stored.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return stored


def at_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """The model converted to an opset; None if it cannot be expressed there."""
    made = Model.from_proto(model)
    try:
        convert_opset(made, opset)
    except RewriterError:
        return None
    converted = made.to_proto()
    converted.ir_version = ir_version(opset)
    return converted


def reference(model: onnx.ModelProto, inputs: dict[str, Any], outputs: list[Any] | None) -> dict[str, Any] | None:
    """ONNX Runtime's outputs; None if it rejects the model or computes others than recorded, or if an element type is rare."""
    try:
        computed = ModelRun(Candidate(Model.from_proto(model)), NAME)(inputs)
    except CannotRun:
        return None
    stored = [tensor.data_type for tensor in model.graph.initializer]
    types = [onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for value in (*inputs.values(), *computed.values())]
    if not TYPES.issuperset([*stored, *types]):
        return None
    pairs = zip(outputs or computed.values(), computed.values(), strict=False)
    is_same = all(np.allclose(one, other, TOLERANCE, TOLERANCE, equal_nan=True) for one, other in pairs)
    return dict(computed) if is_same else None


def random_models(op: str, count: int) -> Iterator[tuple[onnx.ModelProto, dict[str, Any]]]:
    """Models of an operator with random attributes, types, ranks and opsets, and inputs for them."""
    opsets = [version for version in range(OLDEST, NEWEST + 1) if schema.exists(op, "", version)] or [schema.versions(op)[-1]]
    for seed in range(20 * count):
        rng = np.random.default_rng([seed, *op.encode()])
        opset = opsets[seed % len(opsets)]
        try:
            instance = pattern_instance(pattern_rule(op, opset), opset, Dims(rng, empty=False))
            values = {**instance.fixed, **feed(instance, rng, TAME)}
        except (Rejected, NoInputs, RewriterError):
            continue
        if instance.plain and reference(instance.model, values, None) is not None:
            yield instance.model, values
            count -= 1
        if not count:
            return


@cache
def pattern_rule(op: str, opset: int) -> Rule:
    """A rule whose pattern is one node of an operator."""
    operator = schema.schema(op, "", opset)
    assert operator is not None
    most = 3 if operator.max_inputs is None else operator.max_inputs
    operands = [f"x{place}" for place in range(most)]
    pattern = ", ".join(name + "?" * (place >= operator.min_inputs) for place, name in enumerate(operands))
    outputs = ", ".join(f"y{place}" for place in range(max(1, operator.min_outputs)))
    text = f"rule X001 one-node <kind: exact, opset: {opset}..{opset}>\n"
    text += f"match {{ [n] {outputs} = {op}({pattern}) }}\n"
    text += f"rewrite {{ {outputs} = {op}<..n>({', '.join(operands)}) }}"
    with TemporaryDirectory() as folder:
        path = Path(folder, "one.rules")
        path.write_text(text)
        rule = load_rules([path]).get("X001")
    assert rule is not None
    return rule


# --- the consumer ------------------------------------------------------------------------------------------------------------


def column(verdict: Verdict) -> str:
    """The column of the table in which a verdict is counted."""
    return {"equal": "equal", "differs": "differs", "ends": "crashes", "silent": "crashes"}.get(verdict.state, "rejects")


def verdicts(consumer: Consumer, target: str, case: Case) -> tuple[Verdict, Verdict]:
    """What a consumer makes of a case, before and after `fix --target`."""
    with TemporaryDirectory() as folder:
        model = Path(folder, "model.onnx")
        onnx.save(case.model, model)
        before = asked(consumer, model, case.values)
        result = fixed(model, Path(folder, "fixed.onnx"), target, [])
        is_same = result.read_bytes() == model.read_bytes()
        return before, before if is_same else asked(consumer, result, case.values)


def report(table: dict[str, Counter[tuple[str, str]]]) -> Iterator[str]:
    """The table: a line for each operator that is not computed correctly in all cases, and the sums."""
    words = "".join(f"{word:>9}" for word in COLUMNS)
    yield f"{'':<28}{'cases':>6}{words}   after: {words}"
    total: Counter[tuple[str, str]] = Counter()
    for op, counts in sorted(table.items()):
        total += counts
        if set(counts) != {("equal", "equal")}:
            yield line(op, counts)
    yield line(f"all {len(table)} operators", total)


def line(name: str, counts: Counter[tuple[str, str]]) -> str:
    """A line of the table."""
    before, after = ([sum(n for states, n in counts.items() if states[at] == word) for word in COLUMNS] for at in (0, 1))
    cells = "".join(f"{n or '':>9}" for n in before) + " " * 10 + "".join(f"{n or '':>9}" for n in after)
    return f"{name:<28}{counts.total():>6}{cells}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("consumer", choices=known())
    parser.add_argument("--consumer-env", action="append", default=[])
    parser.add_argument("--only", default="", metavar="NAME", help="operators whose name begins so")
    parser.add_argument("--most", type=int, metavar="N", help="N cases of each operator, evenly spread over all")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="in addition N random models of each operator")
    args = parser.parse_args()
    consumer = find(args.consumer, args.consumer_env)
    if consumer is None:
        parser.error(f"{args.consumer} is not installed; --consumer-env names an environment that has it")
    table: dict[str, Counter[tuple[str, str]]] = {}
    worse = []
    for case in spread(all_cases(args.drawn, args.only), args.most):
        before, after = verdicts(consumer, args.consumer, case)
        table.setdefault(case.op, Counter())[column(before), column(after)] += 1
        if before.state != "equal" or after.state != "equal":
            print(f"{case.name}: {before.state} -> {after.state}: {after.reason or before.reason}", flush=True)
        if is_worse(before, after):
            worse.append(case.name)
    print("\n".join([consumer.version, *report(table)]))
    print("\n".join(f"worse: {name}" for name in worse) or "worse: none")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
