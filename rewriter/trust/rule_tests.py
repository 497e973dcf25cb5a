"""Inline tests of rules: the rule rewrites the model of its test, and the result is compared with the expected model.

Models are compared by their computations, not by the names of inner tensors, which a test cannot foresee. If a rule does not
fire, the nearest misses show why.
"""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.compile import default_value
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import canonical_text, type_words
from rewriter.core.isolation.child import Child, NoAnswer, possible
from rewriter.core.language import ast, schema
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Log
from rewriter.core.onnxfile.part import bodies_of, read_by
from rewriter.core.record import record
from rewriter.core.rewriting.model_edits import agrees
from rewriter.rule_tools.explain.places import Explanation
from rewriter.rule_tools.explain.why_rules import explain
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.source.find import parse_source

TIME = 10.0  # seconds for the run of one test

EMPTY = "the expected model is empty; `rewriter test --bless` writes the result into it"


@record(frozen=True, slots=True)
class TestResult:
    """Outcome of one inline test.

    Attributes:
        message: explains a failure over several lines.
        why: the reason why the rule does not fire, if it should.
        result_model: the result for the test's model, if it is not the expected one.
    """

    rule: str
    title: str
    path: str
    line: int
    ok: bool
    message: str = ""
    why: Explanation | None = None
    result_model: onnx.ModelProto | None = None


class FailedTest(RewriterError):
    """A test that fails, with the known reason."""

    def __init__(self, message: str, why: Explanation | None = None, result_model: onnx.ModelProto | None = None) -> None:
        super().__init__(message)
        self.why, self.result_model = why, result_model


MAX_SECONDS = 60.0
"""For one test: its run has ten, but the rules that run with it may have to be compiled, and a busy machine is slow."""

RuleTest = tuple[Rule, ast.Test]


@record(frozen=True, slots=True)
class _Raised:
    """An error of this program in the child, with its traceback as a text."""

    kind: str
    trace: str


def inline_tests(rules: Iterable[Rule]) -> list[RuleTest]:
    """All tests of rules, in their order."""
    return [(rule, test) for rule in rules for test in rule.ast.tests]


def limited_results(tests: Sequence[RuleTest], known: Sequence[Rule]) -> Iterator[TestResult]:
    """Runs tests in a child process within the limits of the current budget; without limits if the system cannot fork.

    A rule file may come from a stranger. A test's model of half a megabyte once ended the process that read it.

    Args:
        tests: with the rule of each.
        known: rules, among which the rules that run in addition to the rule of a test are looked up.

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
            try:
                found = child.ask_within_limits(number, seconds=MAX_SECONDS)
            except NoAnswer as error:
                line = rule.source.line_col(test.span.start)[0]
                found = TestResult(rule.code, test.title, rule.path, line, False, error.sentence("the test"))
            if isinstance(found, _Raised):
                raise RuntimeError(f"{found.kind} in the test {test.title!r} of {rule.code}\n{found.trace}")
            yield found
            if child.worn:
                child.close()
    finally:
        child.close()


def run_test(rule: Rule, test: ast.Test, known: Iterable[Rule] = ()) -> TestResult:
    """Runs one test. Its other rules are looked up in `known`, next to the rule's file, and among the shipped rules."""
    message, why, result_model = "", None, None
    try:
        _try(rule, test, known)
    except FailedTest as failure:
        message, why, result_model = str(failure), failure.why, failure.result_model
    except RewriterError as error:
        message = str(error)
    line = rule.source.line_col(test.span.start)[0]
    return TestResult(rule.code, test.title, rule.path, line, not message, message, why, result_model)


def read_model(text: str) -> onnx.ModelProto:
    """A model from ONNX text; bare functions and graphs are not accepted. Raises RewriterError with the parser's position."""
    try:
        return onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, ValueError, RuntimeError) as error:
        raise RewriterError(f"the test's model is not ONNX text: {_parsed(error)}") from error
    except IndexError as error:  # C++'s std::out_of_range
        raise RewriterError("the test's model has a number that is out of range") from error
    except DecodeError as error:
        raise RewriterError("the bodies in the test's model nest too deep for protobuf") from error


def _parsed(error: Exception) -> str:
    """The message of the parser, which comes as bytes: the place in the model's text, the text there, and what it expected."""
    message = error.args[0] if error.args and isinstance(error.args[0], bytes) else str(error).encode()
    said = message.decode(errors="replace")
    found = re.fullmatch(
        r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\s+Error context:(.*)\n(.*)", said, re.DOTALL
    )
    if found is None:
        return " ".join(said.split())
    line, column, context, wanted = found.groups()
    return f"line {line} of it, column {column}: {wanted.strip().rstrip('.')} at `{' '.join(context[:200].split())}`"


def _check_whole(model: onnx.ModelProto) -> None:
    """A rule leaves unreadable parts alone, so a test of this on an incomplete model proves nothing."""
    graph = model.graph
    ports = (*graph.input, *graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    known = {one.name for one in ports}.union(("",), *(node.output for node in graph.node))
    read = (*(name for node in graph.node for name in read_by(node)), *(one.name for one in graph.output))
    if missing := next((name for name in read if name not in known), ""):
        raise FailedTest(f"the test's model reads {missing!r}, which is no input, no initializer and made by no node")


def _try(rule: Rule, test: ast.Test, known: Iterable[Rule]) -> None:
    """Raises RewriterError, mostly FailedTest, when the test fails."""
    rules = RuleSet((rule, *_beside(rule, test.beside, known)))
    before = read_model(test.before)
    if not before.opset_import and "opset_import" not in test.before:
        raise FailedTest('the test\'s model imports no operators; write <ir_version: 8, opset_import: ["": 13]> before it')
    _check_whole(before)
    model = Model.from_proto(before)
    source = None if test.source is None else parse_source(test.source, "source of the test")
    settings = {(rule.code, name): default_value(value) for name, value in test.settings}
    log = run(
        model.graph,
        rules,
        Knowledge(source, settings, model.overridable),
        limits=Limits(seconds=TIME),
    )
    if log.stops:
        raise FailedTest(f"the run stopped: {log.stops[0].message}")
    if test.after is None:
        return _stays(log)
    if not any(firing.rule == rule.code for firing in log.firings):
        raise FailedTest(
            "the rule did not fire" + "".join(f"\n  {s.reason}" for s in log.skipped), _why(rule, test, source, settings)
        )
    result = model.to_proto()
    wanted = read_model(test.after) if test.after else onnx.ModelProto()
    expected, found = (canonical_text(_without_defaults(one)) for one in (wanted, result))
    if expected != found:
        old = expected.splitlines() if test.after else []
        lines = difflib.unified_diff(old, found.splitlines(), "expected", "rewritten", lineterm="", n=3)
        hints = _left_imports(before, wanted, result) if test.after else (EMPTY,)
        raise FailedTest("\n".join((*lines, *hints)), result_model=result)
    contradiction = next(contradictions(Model.from_proto(wanted)), "")
    if contradiction:
        raise FailedTest(f"the expected model contradicts itself: {contradiction}")
    return None


def _without_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without attributes that equal their defaults: writing them, or not, makes no difference."""
    short = deepcopy(model)
    for part, imports in ((short.graph, short.opset_import), *((one, one.opset_import) for one in short.functions)):
        versions = {schema.normal(entry.domain): entry.version for entry in imports}
        waiting = list(part.node)
        for node in waiting:
            waiting += [inner for body in bodies_of(node) for inner in body.node]
            operator = schema.schema(node.op_type, node.domain, versions.get(schema.normal(node.domain), 0))
            known = {} if operator is None else operator.attributes
            for attribute in [one for one in node.attribute if one.name in known and not one.ref_attr_name]:
                value = schema.value_of(attribute)
                if value is not None and value == known[attribute.name].default:
                    node.attribute.remove(attribute)
    return short


def _left_imports(before: onnx.ModelProto, wanted: onnx.ModelProto, result: onnx.ModelProto) -> Iterator[str]:
    """A rule that takes the last node of a domain away leaves the import; who writes the expected model may not know."""
    domains = [{entry.domain for entry in one.opset_import} for one in (before, result)]
    for domain in sorted(set.intersection(*domains) - {entry.domain for entry in wanted.opset_import}):
        yield f'the import of "{domain}" stays, as all imports do; the expected model needs it'


@lru_cache(maxsize=64)
def companions(rule: Rule) -> tuple[Rule, ...]:
    """The rules that all positive tests of a rule run in addition to it, if its promise is about their common result.

    A repair can leave a rest for other repairs, and no runtime loads what it returns alone. An `exact` rule keeps its promise
    alone.
    """
    positive = [set(test.beside) for test in rule.ast.tests if test.after is not None]
    common = set.intersection(*positive) if positive and rule.kind.name in ("repair", "interface") else set()
    return tuple(_beside(rule, sorted(common), ()))


def _beside(rule: Rule, codes: Iterable[str], known: Iterable[Rule]) -> Iterator[Rule]:
    """The rules of these codes, which a test runs in addition to its own. Raises RewriterError."""
    missing = [code for code in dict.fromkeys(codes) if code != rule.code]
    places: list[Callable[[], Iterable[Rule]]] = [lambda: known, lambda: load_rules([Path(rule.path).parent]), load_rules]
    for place in places if missing else ():
        with suppress(RewriterError):  # other files there may be wrong
            found = {one.code: one for one in place() if one.code in missing}
            yield from found.values()
            missing = [code for code in missing if code not in found]
    if missing:
        raise RewriterError(f"the test runs with {missing[0]}, but no such rule is among these, next to the file, or shipped")


def _stays(log: Log) -> None:
    if log.changed:
        firing = log.firings[0]
        changes = (f"\n  - {c.before}" * bool(c.before) + f"\n  + {c.after}" * bool(c.after) for c in firing.changes)
        raise FailedTest(f"{firing.rule} fired at {firing.root!r} and must not" + "".join(changes))


def _why(rule: Rule, test: ast.Test, source: Any, settings: dict[tuple[str, str], Any]) -> Explanation | None:
    """Why the rule does not fire in the model of a test."""
    model = Model.from_proto(read_model(test.before))
    try:
        return explain(Context(GraphIndex(model.graph), Knowledge(source, settings, model.overridable)), rule)
    except RewriterError:
        return None


def contradictions(model: Model) -> Iterator[str]:
    """The declarations of a model that contradict its nodes."""
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    for node in index.all_nodes():
        for tensor in node.outputs:
            (dtype, shape), known = facts.declared(tensor), facts.fact(tensor).type
            if not agrees(dtype, shape, known.dtype, known.shape):
                declared, found = (type_words(*one) for one in ((dtype, shape), (known.dtype, known.shape)))
                yield f"{tensor.name!r} is declared as {declared}, and {node.op} gives {found}"
