"""Random models of any size on which optimizations fire, for growth.py: the same seed and size give the same model.

`ones`, `chains`, `trees`, `diamonds`, `skips`, `constants` and `folds` are made of ordinary operators on tensors of
one type, with much that can be simplified. `mixture` holds the models of the tests that stand in the rules, so that each
optimization fires somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.compose import add_prefix_graph

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.trust.rule_tests import read_model

OPSET = 13
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softplus")
OPSETS = (13, 18, 21, 9)
"""For a mixture, in the order in which they are tried: a model has one opset, and each rule is meant for some."""


class Draft:
    """A model that grows node by node; all tensors are float[N,4].

    Attributes:
        nodes, weights: what the model is made of so far.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        shared = {"ones": 1.0, "zeros": 0.0, "half": 0.5}
        self.weights.update({name: np.full(4, value, np.float32) for name, value in shared.items()})
        self.weights.update(axes=np.array([0], np.int64), same=np.array([0, 4], np.int64))

    def node(self, op: str, *operands: str, **attributes: object) -> str:
        """Adds a node; its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], f"n{len(self.nodes)}", **attributes))
        return name

    def weight(self) -> str:
        """Adds a constant of its own; one in four equals another one."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.full(4, self.random.randrange(len(self.weights) * 3) / 8, np.float32)
        return name

    def step(self, last: str) -> str:
        """One or a few nodes behind `last`, about half of which can be simplified."""
        return self.random.choice(STEPS)(self, last)

    def model(self, outputs: Iterable[str]) -> onnx.ModelProto:
        names = ("x", outputs)
        ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in some] for some in names]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", *ends, initializer=weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


STEPS: tuple[Callable[[Draft, str], str], ...] = (
    lambda d, x: d.node(d.random.choice(ACTIVATIONS), x),
    lambda d, x: d.node(d.random.choice(ACTIVATIONS), x),
    lambda d, x: d.node("Add", x, d.weight()),
    lambda d, x: d.node("Mul", x, "half"),
    lambda d, x: d.node("Mul", x, "ones"),
    lambda d, x: d.node("Add", "zeros", x),
    lambda d, x: d.node("Div", x, "ones"),
    lambda d, x: d.node("Identity", x),
    lambda d, x: d.node("Dropout", x),
    lambda d, x: d.node("Cast", x, to=TensorProto.FLOAT),
    lambda d, x: d.node("Reshape", x, "same"),
    lambda d, x: d.node("Neg", d.node("Neg", x)),
    lambda d, x: d.node("Transpose", d.node("Transpose", x, perm=[1, 0]), perm=[1, 0]),
    lambda d, x: d.node("Squeeze", d.node("Unsqueeze", x, "axes"), "axes"),
    lambda d, x: d.node("Add", d.node("Add", x, d.weight()), d.weight()),
    lambda d, x: d.node("Add", x, d.node("Exp", d.node("Mul", d.weight(), "half"))),
    lambda d, x: d.node("Reshape", x, d.node("Shape", x)),
    lambda d, x: d.node("Add", d.node("Relu", x), d.node("Relu", x)),
)


def chains(size: int) -> onnx.ModelProto:
    """Four long chains that are joined at the end."""
    draft, ends = Draft(1), ["x"] * 4
    while len(draft.nodes) < size - 3:
        at = draft.random.randrange(len(ends))
        ends[at] = draft.step(ends[at])
    return draft.model([join(draft, ends)])


def trees(size: int) -> onnx.ModelProto:
    """Branches that are joined two by two."""
    draft, leaves = Draft(2), list[str]()
    while len(draft.nodes) < size * 11 // 20:
        leaves.append(draft.step(draft.node("Add", "x", draft.weight())))
    while len(leaves) > 1:
        leaves = [draft.step(join(draft, leaves[at : at + 2])) for at in range(0, len(leaves), 2)]
    return draft.model(leaves)


def diamonds(size: int) -> onnx.ModelProto:
    """A chain that parts into two to four branches and joins again, over and over."""
    draft, last = Draft(3), "x"
    while len(draft.nodes) < size:
        last = join(draft, [draft.step(draft.step(last)) for _ in range(draft.random.randint(2, 4))])
    return draft.model([last])


def skips(size: int) -> onnx.ModelProto:
    """A chain with edges from anywhere before to anywhere behind, and one tensor that is read all along."""
    draft, made = Draft(4), ["x"]
    while len(draft.nodes) < size:
        last = draft.step(made[-1])
        if draft.random.random() < 0.4:
            last = draft.node("Add", last, made[0] if draft.random.random() < 0.3 else draft.random.choice(made))
        made.append(last)
    return draft.model([made[-1]])


def constants(size: int) -> onnx.ModelProto:
    """A chain that reads what long chains of constants alone compute, and constants that many read."""
    draft, last = Draft(5), "x"
    while len(draft.nodes) < size:
        known = draft.weight()
        for _ in range(draft.random.choice((1, 2, 3, 30))):
            known = draft.node(draft.random.choice(("Add", "Mul", "Max")), known, draft.random.choice((draft.weight(), "half")))
        last = draft.step(draft.node(draft.random.choice(("Add", "Mul")), last, known))
    return draft.model([last])


def folds(size: int) -> onnx.ModelProto:
    """One chain of constants, each computed from the one before."""
    draft, last = Draft(6), "half"
    while len(draft.nodes) < size - 1:
        last = draft.node(draft.random.choice(("Add", "Max", "Mul")), last, "ones")
    return draft.model([draft.node("Add", "x", last)])


def ones(size: int) -> onnx.ModelProto:
    """A chain in which every fifth node is a multiplication by ones, and every fifth reads them otherwise."""
    draft, last = Draft(7), "x"
    while len(draft.nodes) < size:
        last = draft.node("Add", draft.node("Relu", draft.node("Mul", last, "ones")), "ones")
        last = draft.node("Tanh", draft.node("Sigmoid", last))
    return draft.model([last])


def join(draft: Draft, parts: list[str]) -> str:
    last, *others = parts
    for other in others:
        last = draft.node("Add", last, other)
    return last


SHAPES = {shape.__name__: shape for shape in (ones, chains, trees, diamonds, skips, constants, folds)}


# Mixtures of the models that rules are tested with


def mixture(rules: RuleSet, opset: int) -> Callable[[int], onnx.ModelProto]:
    """Makes models of the tests in which rules fire, those of rules for this opset, side by side, each again and again."""
    parts = [part for rule in rules if (part := next(_firing(rule, rules, opset), None)) is not None]

    def shape(size: int) -> onnx.ModelProto:
        model, count = _as_model(parts[0], opset, onnx.GraphProto(name="g")), 0
        while len(model.graph.node) < size:
            part = add_prefix_graph(parts[count % len(parts)].graph, f"b{count}_")
            for kind in ("node", "input", "output", "initializer", "value_info"):
                getattr(model.graph, kind).extend(getattr(part, kind))
            count += 1
        functions = {(one.domain, one.name): one for part in parts for one in part.functions}
        model.functions.extend(functions.values())
        domains = {domain for domain, _ in functions} - {MICROSOFT}
        model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in sorted(domains))
        return model

    return shape


MICROSOFT = "com.microsoft"


def _firing(rule: Rule, rules: RuleSet, opset: int) -> Iterator[onnx.ModelProto]:
    """Models of the tests of a rule in which it fires: first those in which it does so when all rules run."""
    for among in (rules, RuleSet((rule,), by_id=frozenset({rule.code}))):
        for test in rule.ast.tests:
            if test.after and not test.settings and not test.source and not test.beside:
                part = read_model(test.before)
                model = _as_model(part, opset, part.graph)
                model.functions.extend(part.functions)
                if rule.code in run(Model.from_proto(model).graph, among, detail=False).counts:
                    yield part


def _as_model(part: onnx.ModelProto, opset: int, graph: onnx.GraphProto) -> onnx.ModelProto:
    others = [one for one in part.opset_import if one.domain not in ("", MICROSOFT)]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), *others]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="pytorch", producer_version="2.1.0")
