"""The stream of instances on which a rule is tried, each from its own seed, so that any one of them can be made again."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import walk
from rewriter.core.language.rules import Rule
from rewriter.core.onnxfile.part import free_inputs
from rewriter.core.record import replace
from rewriter.trust.proof.instances.draft import Dims, Rejected
from rewriter.trust.proof.instances.instance import Instance
from rewriter.trust.proof.instances.pattern_instances import pattern_instance
from rewriter.trust.proof.instances.seeded_instances import (
    forget_output_shapes,
    recorded_instance,
    seeded_instance,
    tests_of,
    written_instance,
)
from rewriter.trust.proof.oracles import newest_opset

# The opsets in which a rule is tried: one or two of every stretch in which none of its operators changes.

OLDEST_RUN = 7
"""ONNX Runtime gives no promise for older opsets."""


def opsets(rule: Rule) -> list[int]:
    """Ascending; empty if the rule's range lies outside of the opsets that the oracles run.

    Opsets before an operator of the pattern are left out, since no oracle runs it there, unless the rule is for those alone.
    """
    newest = newest_opset()
    last = min(rule.opset.last or newest, newest)
    first = max(rule.opset.first or 1, OLDEST_RUN)
    first = max([first, *(version for version in map(_introduced, rule.wanted) if version <= last)])
    names = {(op.domain, op.name) for op in walk(rule.ast) if isinstance(op, ast.Op) and not op.param}
    changes = {version for domain, name in names if domain == "" for version in schema.versions(name)}
    changes |= {block.opset.first for block in rule.ast.rewrites if block.opset is not None and block.opset.first is not None}
    starts = sorted({first, *(version for version in changes if first < version <= last)})
    ends = [start - 1 for start in starts[1:]] + [last]
    return sorted({v for start, end in zip(starts, ends, strict=True) for v in (start, end) if start <= v <= end})


def _introduced(operators: frozenset[tuple[str, str]]) -> int:
    """The first opset that has one of these operators."""
    known = (schema.versions(name) if domain == "" else () for domain, name in operators)
    return min((versions[0] if versions else 1 for versions in known), default=1)


def all_opsets(rule: Rule) -> list[int]:
    """Every opset of the rule's range that the oracles have heard of."""
    newest = newest_opset()
    return list(range(max(rule.opset.first or 1, 1), min(rule.opset.last or newest, newest) + 1))


FEW_DIMS = 3
"""Up to so many free dimensions all shapes over {1, 2, 3} are tried."""
_PATIENCE = 30  # instances of the pattern without a sample, before most come from the tests
_FORMS_WITH_ALL_SHAPES = 4
_NAMED = 0.12  # of instances have dimensions without a number


class Stream:
    """Instances of one rule. Call `accepted` if the last one is a sample.

    Args:
        rule: the rule.
        seed: the only source of chance.
        exports: recorded exports that the rule repairs; they replace tests that it lacks.
    """

    def __init__(self, rule: Rule, seed: int, exports: Iterable[Path] = ()) -> None:
        self.rule = rule
        self.seed = [seed, int(rule.digest[:12], 16)]
        self.forms = [] if rule.ast.match.graph else opsets(rule)
        self._seeds = [written_instance(rule, test) for test in tests_of(rule, positive=True)]
        self._seeds = self._seeds or [recorded_instance(path) for path in exports]
        self._attempts = self._fired = 0
        self._exhaustive: deque[tuple[int, int, tuple[int, ...]]] = deque()
        self._covered: set[int] = set()
        self._last: tuple[int, int, int] | None = None

    def generator(self, index: int) -> np.random.Generator:
        """The source of chance of one instance."""
        return np.random.default_rng([*self.seed, index])

    def accepted(self) -> None:
        """The rule fired on the last instance and an oracle ran it: if it has few dimensions, all shapes of it follow."""
        if self._last is None:
            return
        self._fired += 1
        index, opset, drawn = self._last
        if 0 < drawn <= FEW_DIMS and opset not in self._covered and len(self._covered) < _FORMS_WITH_ALL_SHAPES:
            self._covered.add(opset)
            self._exhaustive.extend((index, opset, digits) for digits in itertools.product((1, 2, 3), repeat=drawn))

    def __iter__(self) -> Iterator[tuple[int, Instance | None]]:
        """Pairs of an index and an instance, None if the draft failed; without end."""
        index = 0
        for seed in self._seeds:
            self._last = None
            yield index, seed
            index += 1
        while True:
            instance = self._next(index)
            yield index, None if instance is None else self._hidden(instance, index)
            index += 1

    def _hidden(self, instance: Instance, index: int) -> Instance:
        """The instance, or the same with dimensions without a number. A repair's assumptions about unknown lengths are true in
        its own tests, but not in every model of its pattern.
        """
        if self.rule.kind.name == "repair" and instance.origin == "pattern":
            return instance
        dims = Dims(np.random.default_rng([*self.seed, index, 1]))
        return _hide(instance, dims) if dims.chance(_NAMED) else instance

    def _next(self, index: int) -> Instance | None:
        self._last = None
        if self._exhaustive:
            index, opset, digits = self._exhaustive.popleft()
            rng = self.generator(index)
            rng.random()  # as below
            return self._pattern(index, opset, rng, digits)
        hopeless = self._attempts >= _PATIENCE and self._fired * 20 < self._attempts
        rng = self.generator(index)
        choice = rng.random()  # between pattern and seeds
        if self.forms and (not self._seeds or choice < (0.1 if hopeless else 0.6)):
            return self._pattern(index, self.forms[index % len(self.forms)], rng)
        if not self._seeds:
            return None
        return seeded_instance(self.rule, self._seeds[index % len(self._seeds)], self.forms, Dims(rng))

    def _pattern(self, index: int, opset: int, rng: np.random.Generator, digits: tuple[int, ...] = ()) -> Instance | None:
        """The instance of an index, or the same one with other dimensions."""
        dims = Dims(rng, digits, empty=rng.random() < 0.5 and self.rule.kind.name != "repair")
        self._attempts += 1
        try:
            instance = pattern_instance(self._variant(index, opset), opset, dims)
        except Rejected:
            return None
        if not digits:
            self._last = index, opset, dims.drawn
        return instance

    def _variant(self, index: int, opset: int) -> Rule:
        """One of the patterns that the rule expands to; each is drawn in each of its opsets."""
        variants = [one for one in self.rule.variants if opset in one.opset] or list(self.rule.variants)
        return variants[index // max(len(self.forms), 1) % len(variants)]


def _hide(instance: Instance, dims: Dims) -> Instance:
    """The same instance with names for some lengths of its inputs, and without the shapes of its outputs: rules must work
    without these lengths, although the instance runs with numbers.
    """
    model = deepcopy(instance.model)
    sizes = dict(instance.sizes)
    for info in free_inputs(model.graph):
        if info.name in instance.fixed:
            continue
        for position, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dims.chance(0.4):
                name = f"d{dim.dim_value}" if dims.chance(0.5) else f"{info.name}_{position}"
                sizes[name] = dim.dim_value
                dim.dim_param = name
    forget_output_shapes(model.graph)
    del model.graph.value_info[:]
    return replace(instance, model=model, sizes=sizes)
