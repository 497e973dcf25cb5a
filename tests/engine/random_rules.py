"""Random rules over one model: conditions that are false, unknown or fail, in every order, most of them without sense.

`python -m tests.engine.random_rules 100000` asks that many and prints how often the two answers differ.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language.diagnostics import SourceText
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Log
from rewriter.core.matching.forecast import Forecast
from rewriter.core.onnxfile.take_census import take_census
from rewriter.rule_tools.checks.check import check

MODEL = """
<ir_version: 8, opset_import: ["": 13], producer_name: "nobody">
g (float[N,3,8,8] x, float[2,3] m, bool p, int64[2] ids) => (float[N,4,a,b] y, float[2] s, int64[4] t, double[2,3] d, float[K,L] e)
<float[4,3,3,3] w = {WEIGHTS}, float[3,2] v = {1, 2, 3, 4, 5, 6}, int64[1] one = {1}> {
  [conv] c = Conv <pads = [1, 1, 1, 1], kernel_shape = [3, 3], group = 1>(x, w)
  [pool] q = AveragePool <kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER">(c)
  [plain] y = MaxPool <kernel_shape = [1, 1], ceil_mode = 0>(q)
  [gemm] h = Gemm <alpha = 0.5, transB = 0>(m, v)
  [sum] s = ReduceSum <keepdims = 0>(h, one)
  [shape] t = Shape(x)
  [cast] d = Cast <to = 11>(m)
  [axis] j = Concat <axis = 1>(h, h, h)
  [soft] k = Softmax <axis = -1>(j)
  [gather] e = Gather <axis = 0>(k, ids)
}
""".replace("WEIGHTS", ", ".join(["0.5"] * 108))

NODES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    # operator: operands, attributes that are lists, whole numbers, texts and fractions
    "Conv": (("x", "w"), ("pads", "kernel_shape", "strides", "dilations"), ("group",), ("auto_pad",)),
    "AveragePool": (("x",), ("pads", "kernel_shape", "strides"), ("ceil_mode", "count_include_pad"), ("auto_pad",)),
    "MaxPool": (("x",), ("pads", "kernel_shape", "strides", "dilations"), ("ceil_mode", "storage_order"), ("auto_pad",)),
    "Gemm": (("x", "w"), (), ("transA", "transB"), ("alpha", "beta")),
    "ReduceSum": (("x", "w"), (), ("keepdims", "noop_with_empty_axes"), ()),
    "Shape": (("x",), (), (), ()),
    "Cast": (("x",), (), ("to",), ()),
    "Concat": (("x", "w", "v"), (), ("axis",), ()),
    "Softmax": (("x",), (), ("axis",), ()),
    "Gather": (("x", "w"), (), ("axis",), ()),
}
_TYPES = ("float", "int64", "double", "bool", "bfloat16")
_ORDERS = ("==", "!=", "<", "<=", ">", ">=")


class Maker:
    """Writes one rule."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.op = chance.choice(sorted(NODES))
        self.tensors, self.lists, self.wholes, self.others = NODES[self.op]
        self.bound: list[str] = []
        self.lets: list[str] = []

    def rule(self) -> str:
        match = f"match {{ [n] y = {self.op}{self.attributes()}({', '.join(self.tensors)}) }}"
        wheres = [f"where {self.truth(self.chance.randint(0, 3))}" for _ in range(self.chance.randint(1, 4))]
        lets = "\n".join(self.lets)
        return f"rule T1 random <kind: exact>\n{match}\n{lets}\n" + "\n".join(wheres) + "\nrewrite { y = Relu(x) }\n"

    def attributes(self) -> str:
        parts = []
        for name in self.lists:
            if self.chance.random() < 0.3:
                self.bound.append(name[0])
                parts.append(f"{name}={name[0]}")
            elif self.chance.random() < 0.1:
                parts.append(f"{name}={self.some_list(1)}")
        for name in self.wholes:
            if self.chance.random() < 0.2:
                parts.append(f"{name}={self.number(1)}" if self.chance.random() < 0.7 else f"!{name}")
        return f"<{', '.join(parts)}>" if parts else ""

    def tensor(self) -> str:
        return self.chance.choice((*self.tensors, "y"))

    def truth(self, depth: int) -> str:
        pick = self.chance.randrange(12 if depth else 8)
        if pick == 0:
            return f"{self.number(depth)} {self.chance.choice(_ORDERS)} {self.number(depth)}"
        if pick == 1:
            return f"{self.some_list(depth)} {self.chance.choice(('==', '!='))} {self.some_list(depth)}"
        if pick == 2:
            return f"{self.number(depth)} {self.chance.choice(('in', 'not in'))} {self.some_list(depth)}"
        if pick == 3:
            kinds = self.chance.sample(_TYPES, 2)
            function = self.chance.choice(("dtype", "declared_dtype"))
            one = f"{function}({self.tensor()})"
            return f"{one} == {kinds[0]}" if self.chance.random() < 0.5 else f"{one} in [{', '.join(kinds)}]"
        if pick == 4:
            name = self.chance.choice((*self.lists, *self.wholes, *self.others, "nothing"))
            return f'has(n, "{name}")'
        if pick == 5:
            return self.chance.choice((f"is_output({self.tensor()})", f"is_const({self.tensor()})", "model.ir_version > 7"))
        if pick == 6:
            return f"{self.chance.choice(('all', 'any'))}({self.some_list(depth)} {self.chance.choice(_ORDERS)} {self.number(depth)})"
        if pick == 7:
            return self.chance.choice(
                ('n.auto_pad == "SAME_UPPER"', 'n.auto_pad in ["NOTSET", "VALID"]', "n.alpha > 0.6", "opset() < 11")
            )
        if pick == 8:
            return f"(not {self.truth(depth - 1)})"
        if pick == 9:
            return f"maybe({self.truth(depth - 1)})"
        joined = f" {self.chance.choice(('and', 'or'))} ".join(self.truth(depth - 1) for _ in range(self.chance.randint(2, 3)))
        return f"({joined})"

    def number(self, depth: int) -> str:
        pick = self.chance.randrange(9 if depth > 0 else 3)
        if pick == 0 or (pick == 1 and not self.wholes):
            return str(self.chance.choice((0, 1, 2, 3, 4, -1, 7, 9223372036854775807)))
        if pick == 1:
            return f"n.{self.chance.choice(self.wholes)}"
        if pick == 2:
            return f"rank({self.tensor()})"
        if pick == 3:
            return f"len({self.some_list(depth - 1)})"
        if pick == 4:
            return f"index({self.some_list(depth - 1)}, {self.number(depth - 1)})"
        if pick == 5:
            return f"{self.some_list(depth - 1)}[{self.number(depth - 1)}]"
        if pick == 6:
            step = self.chance.choice(("+", "-", "*", "//", "%"))
            return f"({self.number(depth - 1)} {step} {self.number(depth - 1)})"
        if pick == 7:
            return f"({self.number(depth - 1)} if {self.truth(depth - 1)} else {self.number(depth - 1)})"
        return f"{self.chance.choice(('min', 'max', 'sum'))}({self.some_list(depth - 1)})"

    def some_list(self, depth: int) -> str:
        pick = self.chance.randrange(8 if depth > 0 else 3)
        if pick == 0 or (pick == 1 and not self.lists):
            return f"[{', '.join(self.number(depth - 1) for _ in range(self.chance.randint(1, 4)))}]"
        if pick == 1:
            return f"n.{self.chance.choice(self.lists)}"
        if pick == 2:
            return self.chance.choice(self.bound) if self.bound else f"shape({self.tensor()})"
        if pick == 3:
            return f"shape({self.tensor()})"
        if pick == 4:
            return f"({self.some_list(depth - 1)} + {self.some_list(depth - 1)})"
        if pick == 5:
            ends = self.chance.choice(("0..1", "2..", "..1", "1..3"))
            return f"{self.some_list(depth - 1)}[{ends}]"
        if pick == 6 and len(self.lets) < 2:
            name = f"k{len(self.lets)}"
            value = self.some_list(depth - 1)
            if not any(line.startswith(f"let {name}") for line in self.lets):
                self.lets.append(f"let {name} = {value}")
            return name
        return f"({self.number(depth - 1)} * {self.some_list(depth - 1)})"


class Asked:
    """The model, once as bytes and once as a graph."""

    def __init__(self) -> None:
        proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MODEL), check_type=True, strict_mode=True)
        self.data = proto.SerializeToString()
        self.model = Model.from_proto(proto)

    @property
    def graph(self) -> gs.Graph:
        return self.model.graph

    def fast(self, rule: Rule) -> bool:
        """Whether the forecast leaves the rule anything to do."""
        census = take_census(self.data)
        return bool(Forecast(census).possible([rule]))

    def slow(self, rule: Rule) -> Log:
        return run(self.graph, RuleSet((rule,), by_id=frozenset({rule.code})), keep=False, detail=False)


def compiled(text: str) -> Rule | None:
    """The rule; None where the language refuses it."""
    file, found = parse(text, "<test>")
    if any(not one.is_warning for one in found) or any(not one.is_warning for one in check(file)):
        return None
    return Rule(file.rules[0], "<test>", SourceText("<test>", file.text))


def outcome(log: Log) -> str:
    """What a run comes to, which the exit code tells: it fires, fails, lacks a fact, or nothing stands."""
    if log.firings:
        return "fired"
    return "nothing" if not log.blocked else "failed" if any(blocked.error for blocked in log.blocked) else "unknown"


def disagreement(asked: Asked, seed: int) -> tuple[str, str]:
    """What differs about the rule of a seed, "" where nothing does; and what came out."""
    chance = random.Random(seed)
    text = Maker(chance).rule()
    rule = compiled(text)
    if rule is None:
        return "", "refused"
    found = outcome(asked.slow(rule))
    if found != "nothing" and not asked.fast(rule):
        return f"the forecast says that nothing can happen, but: {found}\n{text}", found
    lines = text.split("\n")
    wheres = [line for line in lines if line.startswith("where")]
    shuffled = chance.sample(wheres, len(wheres))
    if shuffled != wheres:
        others = iter(shuffled)
        other = compiled("\n".join(next(others) if line.startswith("where") else line for line in lines))
        if other is not None and (again := outcome(asked.slow(other))) != found:
            return f"{found}, and {again} with the conditions in the order\n{shuffled}\n{text}", found
    return "", found


def main() -> int:
    asked = Asked()
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(int(sys.argv[1])):
        difference, found = disagreement(asked, seed)
        counts[found] += 1
        if difference:
            wrong += 1
            print(f"seed {seed}: {difference}")
    print(f"{sum(counts.values())} rules, {wrong} disagreements; {dict(counts)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
