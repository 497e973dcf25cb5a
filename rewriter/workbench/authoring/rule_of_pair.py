"""Rules from a model and its hand-made repair: `rewriter new --from before.onnx --to after.onnx`.

Each rule is tried as soon as it is written: it counts if it compiles, fires on the first model, and leaves fewer regions in
which the result differs from the second model. The remaining differences are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product

import onnx

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError, counted
from rewriter.core.facts.single_node import known_types
from rewriter.core.framework.exporter import detect
from rewriter.core.graph.load import default_opset
from rewriter.core.graph.model import Model
from rewriter.core.language.diagnostics import escape
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Log
from rewriter.core.record import record
from rewriter.rule_tools.format import format_text
from rewriter.trust.difference import LISTED, Difference, compare
from rewriter.trust.proof.output_agreement import Bound, coarsest_eps
from rewriter.trust.proof.validity import Candidate
from rewriter.trust.rule_tests import contradictions
from rewriter.workbench.authoring.new_rule import BegunRules, around_nodes, check_code, model_text, without_new_names
from rewriter.workbench.authoring.region_rule import GUESS, Region, RegionRule, changed_regions
from rewriter.workbench.authoring.rule_text import FILL, compiled, kind_of_refused, refusal
from rewriter.workbench.surgery.reduction import inline
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement

MAX_RULES = 8
"""Limit for one pair; two models with more kinds of differences are no model and its repair."""

MAX_ELEMENTS = 1 << 30
"""Limit for a weight that is read from another file."""

_SECONDS = 30.0
_MOST_NODES = 40  # of a model that becomes a test without being cut
_IGNORED = ("model", "metadata")
_RTOL = 1e-5


@record(frozen=True, slots=True)
class _Promise:
    """The header that running both models suggests, the guesses in it, and what running showed."""

    header: list[str]
    guess: str
    outcome: str


@record(frozen=True, slots=True)
class _Written:
    """A rule that was tried, and the model that it makes; `places` are tensors that nodes of the pattern make."""

    rule: Rule
    model: onnx.ModelProto
    result: onnx.ModelProto
    firings: int
    places: list[str]


def rules_of_pair(
    before: Model, after: Model, code: str, *, depth: int, rules: RuleSet, origins: tuple[str, str], runtime: bool
) -> BegunRules:
    """The text of a rule file that turns one model into another, and whether it succeeds.

    Args:
        before, after: a model and its repair.
        code: code of the first rule; the codes of further rules count up from it.
        depth: how many steps around the change the models of the tests reach.
        rules: the existing rules.
        origins: names of the models in the text.
        runtime: whether to run ONNX Runtime.

    Raises:
        RewriterError: the models are the same, differ in their inputs or outputs, or no rule can express the difference.
    """
    one, other = before.to_proto(), after.to_proto()
    for proto, model in ((one, before), (other, after)):
        inline(proto, model.folder, MAX_ELEMENTS)
    _check_interface(list(compare(one, other)))
    promise = _promise(before, after, runtime)
    written = _rules(one, other, code, rules, promise)
    left = list(_left(written[-1].result, other))
    firings = ", ".join(f"{rule.rule.code} fires {counted(rule.firings, 'time')}" for rule in written)
    text = f"# Begun by `rewriter new` from {escape(origins[0])} and its repair {escape(origins[1])}.\n"
    text += f"# Fill in the places marked {FILL}, and check each {GUESS}. `rewriter test` runs the tests below.\n"
    for rule in written:
        text += "\n".join(["", rule.rule.source.text, *_tests(rule, before, depth, runtime), ""])
    outcome = [f"{firings} on {origins[0]}; the result {'is not yet' if left else 'is'} {origins[1]}", promise.outcome]
    return BegunRules(format_text(text, "new.rules"), outcome, left)


def _check_interface(differences: list[Difference]) -> None:
    """Raises RewriterError if the models' inputs or outputs differ, or equal operator names mean different operators."""
    for difference in differences:
        kind, name = difference.kind, difference.name
        before, after = difference.before or "missing", difference.after or "missing"
        differs = f"{kind} {name!r} differs: {before} in the model, {after} in the repair"
        is_port = kind == "input" and name not in ("order", LISTED)
        if is_port or (kind == "output" and before.split("[")[0] != after.split("[")[0]):
            raise RewriterError(
                f"{differs}. Only rules of kind interface, which begin with `match graph`, change inputs and outputs. "
                "Leave these as they are in the repair, or use `rewriter edit`"
            )
        if kind == "opset" and name == "ai.onnx" and difference.before and difference.after and not difference.place:
            raise RewriterError(
                f"{differs}. Rules keep the opset. Convert the model first: rewriter opset MODEL {after} -o CONVERTED"
            )


def _promise(before: Model, after: Model, runtime: bool) -> _Promise:
    """The kind of the rule, found by checking and running both models."""
    exporter = detect(before.graph).name
    header = [f'exporter: "{exporter}"'] if exporter else []
    refused = refusal(before.to_proto(), before, runtime)
    if refused and not refusal(after.to_proto(), after, runtime):
        return _Promise([*header, *kind_of_refused(refused)], "", f"only the first is rejected: {refused}")
    one, other = Candidate(before), Candidate(after)
    wanted = [info.name for info in one.proto.graph.output]
    answer = Agreement(False, reason="ONNX Runtime was not used")
    for kind, bound in (("exact", Bound(ulps=2, eps=coarsest_eps(one.proto))), (f"approx(rtol={_RTOL:g})", Bound(rtol=_RTOL))):
        answer = agreement(one, [Step(one)], [Step(other)], wanted, bound=bound) if runtime else answer
        if answer.ran and not answer.difference:
            guess = "the kind: the outputs agree for random inputs of this model; `rewriter verify` draws others."
            return _Promise([*header, f"kind: {kind}"], guess, f"the outputs of both models agree ({kind})")
    if not answer.ran:
        said = f"the outputs were not compared: {answer.reason}"
        return _Promise([*header, "kind: exact"], f"the kind: {said}.", said)
    header += ["kind: repair", "evidence: guess", f'question: "{FILL}: a question to the author of the model?"']
    guess = "the evidence: the outputs differ, and the models do not say what makes the repair certain."
    return _Promise(header, guess, f"the outputs of the models differ: {answer.difference}")


# Rules, each tried on the result of the rules before it.


def _rules(one: onnx.ModelProto, other: onnx.ModelProto, code: str, rules: RuleSet, promise: _Promise) -> list[_Written]:
    """Raises RewriterError with what is missing."""
    written: list[_Written] = []
    letters, digits = code.rstrip("0123456789"), code.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    while regions := changed_regions(one, other):
        if len(written) == MAX_RULES:
            raise RewriterError(
                f"the models differ in more than {MAX_RULES} ways that no rule has in common; cut them to one of these with "
                "`rewriter extract`, and run the command again"
            )
        following = f"{letters}{int(digits or 0) + len(written):0{len(digits)}}" if written else code
        check_code(following, rules)
        written.append(_rule(one, other, regions, following, promise))
        one = written[-1].result
    if not written:
        raise RewriterError("both models compute their outputs in the same way, so there is no rule to write")
    return written


def _rule(one: onnx.ModelProto, other: onnx.ModelProto, regions: list[Region], code: str, promise: _Promise) -> _Written:
    """A rule for the smallest region, which may also match others. Raises RewriterError."""
    region, problem = regions[0], ""
    types = known_types(Model.from_proto(one))
    version = default_opset(one.opset_import)
    nodes = [region.graphs.one.nodes[number] for number in region.removed]
    branches = [attribute.name for attribute in nodes[0].attribute if attribute.HasField("g")] if len(nodes) == 1 else []
    best: _Written | None = None
    for branch, once, with_neighbours in product([*branches, ""], (False, True), (False, True)):
        try:
            parts = RegionRule(region, types, version, with_neighbours=with_neighbours, inline=branch)
            rule = _compiled(parts, code, promise, version, once)
            model = Model.from_proto(one)
            log = _run(rule, model)
        except RewriterError as error:
            problem = problem or str(error)
            continue
        result, times = model.to_proto(), counted(len(log.firings), "time")
        reached = len(regions) - len(changed_regions(result, other))
        if log.firings and not log.stops and reached > 0:
            places = [name for number in parts.nodes for name in filter(None, parts.one.names(number)[1][:1])]
            found = _Written(rule, one, result, len(log.firings), places)
            if reached == found.firings:
                return found
            best = best or found  # it also fires in places that the repair leaves alone
        why = f"fires {times} and does not bring the model nearer to its repair" if log.firings else "does not fire"
        problem = problem or f"the rule for it {why}: {'; '.join(parts.pattern)}"
    if best is None:
        raise RewriterError(problem)
    return best


def _compiled(parts: RegionRule, code: str, promise: _Promise, version: int, once: bool) -> Rule:
    """The rule without its tests. Raises RewriterError."""
    again = "`once: node`: the rewrite takes nothing from the pattern, so that the rule would fire again."
    guard = "" if once or not parts.guard else f"{parts.guard}  # not inserted yet"
    error = RewriterError("")
    for opset in (f"{parts.oldest}..", str(version)):
        header = [*promise.header, f"opset: {opset}", *["once: node"] * once]
        try:
            return compiled("\n".join(parts.lines(code, header, parts.fix, [promise.guess, again * once], [guard])))
        except RewriterError as found:
            error = found
    raise error


def _run(rule: Rule, model: Model) -> Log:
    known = Knowledge(None, {}, model.overridable)
    return run(model.graph, RuleSet((rule,), frozenset({rule.code})), known, limits=Limits(seconds=_SECONDS))


def _left(result: onnx.ModelProto, other: onnx.ModelProto) -> Iterator[str]:
    """Differences between the computations of the result and of the repair."""
    for difference in compare(result, other):
        before, after = difference.before, difference.after
        if difference.kind not in (*_IGNORED, "opset", "output") and (difference.kind != "constant" or (before and after)):
            place = f"{difference.kind} {difference.name} {difference.part}".rstrip()
            yield f"{place}: {before or 'nothing'}, and {after or 'nothing'} in the repair"


# Tests.


def _tests(written: _Written, before: Model, depth: int, runtime: bool) -> list[str]:
    """The part of the model around the change, the rule's output for it, and a twin that the author still has to write."""
    model, rules = Model.from_proto(written.model, before.folder), RuleSet((written.rule,))
    parts: list[Callable[[], onnx.ModelProto]] = [lambda: around_nodes(model, written.places, depth, rules, runtime=runtime)[0]]
    if len(written.model.graph.node) <= _MOST_NODES:
        parts.append(lambda: written.model)
    for part in parts:
        with suppress(RewriterError):
            proto = part()
            result = Model.from_proto(proto)
            if _run(written.rule, result).firings and next(contradictions(result), None) is None:
                return list(_test_lines(written.rule, proto, result.to_proto()))
    return [
        f"# {FILL}: a test that fires; ONNX text cannot express the part around the change, or that part contradicts itself."
    ]


def _test_lines(rule: Rule, before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[str]:
    text, result = model_text(before), model_text(without_new_names(after, before))
    yield from (f'test "{rule.slug}, as it was exported" ~~~', text, "~~~ becomes ~~~", result, "~~~")
    if _run(rule, Model.from_proto(after)).firings:
        yield f"# {FILL}: a test with a correct model that is as near to the pattern as possible."
        return
    yield f"# {FILL}: write a correct model here that is as near to the pattern as possible; this is the result of the rule."
    yield f'test "{FILL}: why this model is unchanged" {"twin" if rule.header.exporters else "unchanged"} ~~~\n{result}\n~~~'
