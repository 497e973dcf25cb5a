"""The mutation test: how many small damages to the shipped rules are noticed by `rewriter test` and `rewriter verify`.

Each mutant is one rule without one of its conditions or guards, or with one constant or attribute of its rewrite changed. It
counts as caught when one of its tests fails or verification finds a counterexample. Of the others, those that do just
what the sound rule does on several hundred instances are counted apart: nobody could see the damage. Survivors are printed.

    python benchmarks/mutants.py [--select CODES] [--samples N]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from rewriter.core.graph.model_text import canonical_text
from rewriter.core.language import ast
from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.instances.instance import Instance
from rewriter.trust.proof.instances.sampling import Stream
from rewriter.trust.proof.rules.trial import run_on
from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE
from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_rule
from rewriter.trust.rule_tests import run_test

INSTANCES = 200
GUARDS = ("exporter", "versions", "ir")  # without `needs: source` a rule asks in vain and does not fire either


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Damaged copies of a rule, each with a word on the damage."""
    tree = rule.ast
    for at in range(len(tree.wheres)):
        yield _told(rule, "without", tree.wheres[at].span), _with(rule, wheres=tree.wheres[:at] + tree.wheres[at + 1 :])
    for at in range(len(tree.privates)):
        yield _told(rule, "without", tree.privates[at].span), _with(rule, privates=tree.privates[:at] + tree.privates[at + 1 :])
    for item in tree.meta:
        if item.key in GUARDS:
            yield _told(rule, "without", item.span), _with(rule, meta=tuple(other for other in tree.meta if other is not item))
    for at, block in enumerate(tree.rewrites):
        for what, changed in _perturbed(block):
            yield f"rewrite: {what}", _with(rule, rewrites=(*tree.rewrites[:at], changed, *tree.rewrites[at + 1 :]))


def _with(rule: Rule, **changes: Any) -> Rule:
    return Rule(replace(rule.ast, **changes), rule.path, rule.source)


def _told(rule: Rule, word: str, span: ast.Span) -> str:
    return f"{word} `{' '.join(rule.source.text[span.start : span.end].split())}`"


def _perturbed(record: Any) -> Iterator[tuple[str, Any]]:
    """The record with one literal changed, or one attribute or attribute copy left out."""
    if isinstance(record, ast.Literal):
        yield from ((f"{record.value} becomes {value}", replace(record, value=value)) for value in _others(record.value))
        return
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value) and not isinstance(value, ast.Span | ast.OpsetRange):
            for what, changed in _perturbed(value):
                yield what, replace(record, **{field.name: changed})
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for at, item in enumerate(value):
                if isinstance(item, ast.AttrSet | ast.AttrCopy):
                    what = f"without {item.name if isinstance(item, ast.AttrSet) else '..' + item.label}"
                    yield what, replace(record, **{field.name: value[:at] + value[at + 1 :]})
                for what, changed in _perturbed(item):
                    yield what, replace(record, **{field.name: (*value[:at], changed, *value[at + 1 :])})


def _others(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 1.5 + 0.25]
    return []


def caught(mutant: Rule, samples: int) -> str:
    """What notices the damage: "test", "verify", or "" for nothing."""
    if any(_fails(mutant, test) for test in mutant.ast.tests):
        return "test"
    verdict = verify_rule(mutant, VerifyPlan(samples=samples, negatives=False, seconds=10.0))
    return "verify" if verdict.status == COUNTEREXAMPLE else ""


def visible(rule: Rule, mutant: Rule) -> bool:
    """Whether rule and mutant make different models of any of a few hundred instances."""
    for one in (rule, mutant):
        for _, instance in islice(Stream(one, 1), INSTANCES):
            if instance is not None and _result(rule, instance) != _result(mutant, instance):
                return True
    return False


def _result(rule: Rule, instance: Instance) -> str:
    try:
        after, log = run_on(rule, instance)
    except Exception as error:  # the engine's or the rule's: it is a difference where the other one has none
        return type(error).__name__
    return canonical_text(after.to_proto()) if log.changed else ""


def _fails(rule: Rule, test: ast.Test) -> bool:
    try:
        return not run_test(rule, test).ok
    except Exception:  # the engine itself fell over, which nobody overlooks
        return True


def _work(job: tuple[Rule, str, Rule, int]) -> tuple[str, str, str]:
    rule, what, mutant, samples = job
    by = caught(mutant, samples)
    return rule.code, what, by or ("" if visible(rule, mutant) else "nothing")


def main() -> int:
    """Prints survivors and the score; returns 1 below 95 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--select", default="ALL", help="codes or beginnings of codes")
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    started = time.monotonic()
    names = tuple("" if name == "ALL" else name for name in args.select.split(","))
    rules = [rule for rule in load_rules(None) if rule.code.startswith(names)]  # for targets, too
    jobs = [(rule, what, mutant, args.samples) for rule in rules for what, mutant in mutants(rule)]
    count = {"test": 0, "verify": 0, "nothing": 0, "": 0}
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=200) as pool:
        for code, what, by in pool.imap(_work, jobs, chunksize=4):
            count[by] += 1
            if by in ("", "nothing"):
                print(f"{'survives' if not by else 'no effect'}: {code} {what}", flush=True)
    total = len(jobs) - count["nothing"]
    score = (total - count[""]) / total if total else 1.0
    print(f"{len(jobs)} mutants of {len(rules)} rules: {count['test']} caught by tests,")
    print(f"{count['verify']} by verify, {count['']} survive,")
    print(f"{count['nothing']} without an effect on {2 * INSTANCES} instances; of the others {score:.1%} are caught")
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if score >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
