"""The tests of rules, run in a child process with limits of time and memory.

`rewriter test`, `--bless` and the language server run them so: a rule file may come from a stranger, and a test's model of half
a megabyte ended the process that read it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence

from rewriter.core.language import ast
from rewriter.core.language.rule import Rule
from rewriter.core.record import record
from rewriter.trust.proof.judges import child as budget
from rewriter.trust.proof.judges.child import Child, NoAnswer, possible
from rewriter.trust.rule_tests import TestResult, run_test

MAX_SECONDS = 60.0
"""For one test: its run has ten, but the rules that run beside it may have to be compiled, and a busy machine is slow."""

RuleTest = tuple[Rule, ast.Test]


@record(frozen=True, slots=True)
class _Raised:
    """An error of this program in the child, with its traceback as a text."""

    kind: str
    told: str


def inline_tests(rules: Iterable[Rule]) -> list[RuleTest]:
    """All tests of rules, in their order."""
    return [(rule, test) for rule in rules for test in rule.ast.tests]


def limited_results(tests: Sequence[RuleTest], known: Sequence[Rule]) -> Iterator[TestResult]:
    """Runs tests within the limits of the current budget; where the system cannot fork, without limits.

    Args:
        tests: with the rule of each.
        known: rules among which those are looked for that run beside the rule of a test.

    Raises:
        RuntimeError: an error of this program, as it was raised in the child.
    """

    def answer(number: int) -> TestResult | _Raised:
        try:
            return run_test(*tests[number], known)
        except MemoryError:
            raise
        except Exception as error:
            return _Raised(type(error).__name__, traceback.format_exc())

    if not possible():
        yield from (run_test(*one, known) for one in tests)
        return
    child = Child(answer)
    try:
        for number, (rule, test) in enumerate(tests):
            limits = budget.current()
            try:
                found = child.ask(min(MAX_SECONDS, limits.seconds()), number, most=limits.memory)
            except NoAnswer as error:
                line = rule.source.line_col(test.span.start)[0]
                found = TestResult(rule.code, test.title, rule.path, line, False, error.told("the test"))
            if isinstance(found, _Raised):
                raise RuntimeError(f"{found.kind} in the test {test.title!r} of {rule.code}\n{found.told}")
            yield found
            if child.worn:
                child.close()
    finally:
        child.close()
