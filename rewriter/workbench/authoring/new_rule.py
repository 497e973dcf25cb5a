"""A rule file begun from a real model: pattern, header, tests and a rewrite that reproduces the matched nodes.

Facts that follow from the model are filled in. Facts that only the author knows are marked, and until the author fills them
in the rule fires nowhere.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import product

import onnx
import onnx.printer

from rewriter.core.errors import RewriterError
from rewriter.core.facts.single_node import known_types
from rewriter.core.framework.exporter import detect
from rewriter.core.graph.load import default_opset
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import canonical_text
from rewriter.core.language.diagnostics import escape, suggest
from rewriter.core.language.rules import RuleSet
from rewriter.core.onnxfile.part import bodies, body_alone, part_of
from rewriter.core.record import record
from rewriter.rule_tools.checks.header import CODE
from rewriter.rule_tools.format import format_text
from rewriter.trust.difference import ComparedGraphs, of_graph
from rewriter.trust.rule_tests import read_model
from rewriter.workbench.authoring.region_rule import Region, RegionRule
from rewriter.workbench.authoring.rule_text import FILL, compiled, kind_of_refused, refusal
from rewriter.workbench.surgery.reduction import Reduction, Trials

# A model as the tests of rule files write it: ONNX text that is parsed back into the same model.

_PRINTED = "   "  # onnx's indentation
_IMPORT = re.compile(r'"([^"]*)" : (\d+)')


def model_text(model: onnx.ModelProto) -> str:
    """The lines of a model, its header on the first one, indented by two blanks.

    Raises:
        RewriterError: ONNX text, or a rule file, cannot express the model.
    """
    lines = str(onnx.printer.to_text(model)).strip().splitlines()
    end = lines.index(">") if lines[0] == "<" and ">" in lines else -1
    head = " ".join(line.strip() for line in lines[1:end]) if end > 0 else ""
    shown = [f"<{_IMPORT.sub(_joined, head)}>"] if head else []
    for line in lines[end + 1 :]:
        inner = line.lstrip(" ")
        shown.append("  " * ((len(line) - len(inner)) // len(_PRINTED)) + inner.rstrip())
    text = "\n".join(f"  {line}" for line in shown)
    if "~~~" in text or not text.replace("\n", "").isprintable():
        raise RewriterError(
            "the model has names or texts that a rule file cannot contain; rename them first: rewriter edit --rename"
        )
    try:
        same = canonical_text(read_model(text)) == canonical_text(model)
    except RewriterError:
        same = False
    if not same:
        raise RewriterError("ONNX text cannot represent this model")
    return text


def without_new_names(model: onnx.ModelProto, before: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the names that the run gave to new nodes."""
    known = {node.name for node in before.graph.node}
    for node in model.graph.node:
        if node.name not in known:
            node.ClearField("name")
    return model


def _joined(match: re.Match[str]) -> str:
    return f'"{match[1]}": {match[2]}'


# The part of a model around one node, with small weights: a new rule begins with it.

SECONDS = 60.0
"""For making weights small."""


def around_nodes(
    model: Model, names: Sequence[str], depth: int, rules: RuleSet, *, runtime: bool
) -> tuple[onnx.ModelProto, list[int]]:
    """The nodes at most `depth` steps away from some nodes of one graph or body, and the places of the latter among them.

    Args:
        model: is not changed.
        names: names of the nodes or of tensors that they make, or op:TYPE for the first node of an operator.
        depth: steps along tensors, against their direction as well; nodes in other bodies are not reached.
        rules: the rules that must fire in the part as before when its weights are smaller.
        runtime: whether to run ONNX Runtime, to see if the part with smaller weights loads.

    Raises:
        RewriterError: there is no such node.
    """
    whole, types = model.sketch(), known_types(model)
    places = _places(whole.graph, names)
    if not places:
        for number, body in enumerate(bodies(whole.graph.node)):
            if _places(body, names):
                whole = body_alone(whole, number, types)
                places = _places(whole.graph, names)
                break
    if not places:
        near = suggest(
            "".join(names[:1]),
            [text for node in whole.graph.node for text in (node.name, *node.output, f"op:{node.op_type}") if text],
        )
        hint = f"did you mean {near!r}?" if near else "`rewriter show MODEL --nodes` lists them"
        raise RewriterError(f"no node and no node's output is called {''.join(names[:1])!r}; {hint}")
    kept = sorted(_near(whole.graph, places, depth))
    part = Model.from_proto(part_of(whole, kept, types), model.folder)
    part.constant_inputs = "yes" if model.inputs_are_constant else "no"
    work = Reduction(part, Trials(part, [], rules, runtime=runtime), time.monotonic() + SECONDS)
    work.smaller_weights()
    work.fewer_words()
    return work.finished(), [kept.index(place) for place in places]


def _places(graph: onnx.GraphProto, names: Sequence[str]) -> list[int]:
    """The places of all these nodes; none if a node is missing. Names of nodes take precedence over names of outputs."""
    backwards = list(enumerate(graph.node))[::-1]  # so that the first of several nodes counts
    known = {f"op:{node.op_type}": place for place, node in backwards}
    known.update((name, place) for place, node in backwards for name in node.output)
    known.update((node.name, place) for place, node in backwards)
    return [known[name] for name in names] if known.keys() >= set(names) else []


def _near(graph: onnx.GraphProto, places: Sequence[int], depth: int) -> set[int]:
    """The places of nodes near some nodes, and of the Constant nodes that they read."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(number)
    found = last = set(places)
    for _ in range(depth):
        nodes = [graph.node[number] for number in last]
        last = {makers[name] for node in nodes for name in node.input if name in makers}
        last.update(reader for node in nodes for name in node.output for reader in readers.get(name, ()))
        last = {number for number in last - found if graph.node[number].op_type != "Constant"}
        found = found | last
    constants = {makers[name] for number in found for name in graph.node[number].input if name in makers}
    return found | {number for number in constants if graph.node[number].op_type == "Constant"}


def check_code(code: str, rules: RuleSet) -> None:
    """Raises RewriterError if the code is malformed, or a rule has it."""
    if not CODE.fullmatch(code):
        raise RewriterError(f"{code!r} is no code of a rule: capital letters and a number, such as MY001")
    taken = rules.get(code)
    if taken is not None:
        raise RewriterError(f"the code {code} is in use: {taken.title} ({taken.path})")


@record(frozen=True, slots=True)
class BegunRules:
    """The text of a rule file, sentences on what running its rules showed, and the differences that they do not remove."""

    text: str
    outcome: Sequence[str] = ()
    missing: Sequence[str] = ()


def new_rule(
    model: Model, code: str, name: str, *, depth: int = 1, rules: RuleSet, origin: str = "", runtime: bool = True
) -> BegunRules:
    """The text of a rule file for the nodes around a node.

    Args:
        model: as an exporter wrote it.
        code: code of the rule.
        name: name of the node, or of a tensor that it makes.
        depth: how many steps away from it a node may be.
        rules: the existing rules.
        origin: name of the model in the text.
        runtime: whether to run ONNX Runtime on the part.

    Raises:
        RewriterError: the code is malformed or taken, there is no such node, or no pattern can express these nodes.
    """
    check_code(code, rules)
    part, (root,) = around_nodes(model, [name], depth, rules, runtime=runtime)
    text, refused, exporter = model_text(part), refusal(part, model, runtime), detect(model.graph).name
    header = [f'exporter: "{exporter}"'] if exporter else []
    header += kind_of_refused(refused) if refused else ["kind: exact"]
    types, version = known_types(Model.from_proto(part)), default_opset(part.opset_import)
    fix = f"{FILL}: the repair, in one sentence that begins with a verb."
    problem = ""
    for anew, is_open in product((True, False), repeat=2):
        try:
            parts = RegionRule(_made_again(part, anew), types, version, with_attributes=True)
            opset = f"opset: {parts.oldest}.." if is_open else f"opset: {version}"
            where = [f"false  # {FILL}: the condition of the rule; with `false` it fires nowhere"]
            rule = compiled("\n".join(parts.lines(code, [*header, opset], fix, [], where)))
        except RewriterError as error:
            problem = problem or str(error)
            continue
        place = part.graph.node[root]
        lines = [
            f"# Begun by `rewriter new` from {escape(origin)}, around {escape(place.name or place.output[0])}.",
            f"# Fill in the places marked {FILL}. The rewrite makes the same nodes again. `rewriter test` runs the tests.",
            "",
            rule.source.text,
            f"# {FILL}: remove `unchanged`, and write `~~~ becomes ~~~` before the last `~~~`.",
            "# `rewriter test --bless` then writes the result of the rule.",
            *(f'test "{rule.slug}, as it was exported" unchanged ~~~', text, "~~~"),
            f"# {FILL}: change this model into a correct one that is as near to the pattern as possible.",
            "# A twin is the export of a correct program; add the program and the exporter's version in a comment.",
            *(f'test "{FILL}: why this model is unchanged" {"twin" if exporter else "unchanged"} ~~~', text, "~~~\n"),
        ]
        return BegunRules(format_text("\n".join(lines), "new.rules"))
    raise RewriterError(f"no pattern can describe the nodes around {name!r}: {problem}; try another --depth")


def _made_again(part: onnx.ModelProto, anew: bool) -> Region:
    """All nodes, replaced by copies (`anew`), or by a tensor that they read, since ONNX may not allow such nodes."""
    graphs = ComparedGraphs(of_graph(part.graph, "main", None), of_graph(part.graph, "main", None), None)
    graphs.pairing.forth.clear()
    graphs.pairing.back.clear()
    side = graphs.one
    numbers = list(range(len(side.nodes)))
    ends = [name for number in numbers for name in side.names(number)[1] if name and not side.read.get(name)]
    read = next(name for name in [*side.inputs, *side.constants, ""] if name in side.read or not name)
    return Region(graphs, numbers, numbers if anew else [], redirects={name: name if anew else read for name in ends})
