"""A rule file begun from a real model: pattern, header, tests and a rewrite that still says what stands there.

What the model tells is filled in. What only the author knows is marked, and until it is filled in the rule fires nowhere.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator

import onnx
import onnx.printer

from rewriter.core.errors import RewriterError
from rewriter.core.facts.single_node import known_types
from rewriter.core.framework.exporter import detect
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import canonical_text
from rewriter.core.language.diagnostics import Diagnostic, escape, suggest
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import RuleSet
from rewriter.core.language.schema import OLDEST_OPSET, history, normal, qualified, schema, versions
from rewriter.core.language.syntax.words import reserved
from rewriter.core.onnxfile.part import bodies, body_alone, part_of
from rewriter.rule_tools.checks.check import check
from rewriter.rule_tools.checks.header import CODE
from rewriter.rule_tools.format import format_text
from rewriter.trust.proof.judges import CHECKER, FULL_CHECK, SESSION
from rewriter.trust.proof.models.validity import Candidate
from rewriter.trust.rule_tests import read_model
from rewriter.workbench.surgery.reduction import Reduction, Trials

# A model as the tests of rule files have it: ONNX text that is read as what it was made of.

_PRINTED = "   "  # by which onnx indents
_IMPORT = re.compile(r'"([^"]*)" : (\d+)')


def model_text(model: onnx.ModelProto) -> str:
    """The lines of a model, its header on the first one, indented by two blanks.

    Raises:
        RewriterError: ONNX text, or a rule file, cannot say what is in the model.
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
            "the model has names or texts that no rule file may hold; rename them first: rewriter edit --rename"
        )
    try:
        same = canonical_text(read_model(text)) == canonical_text(model)
    except RewriterError:
        same = False
    if not same:
        raise RewriterError("ONNX text cannot say all that is in the model")
    return text


def _joined(found: re.Match[str]) -> str:
    return f'"{found[1]}": {found[2]}'


# The part of a model around one node, with small weights: what a rule is begun with.

SECONDS = 60.0
"""For making weights small."""


def around_node(model: Model, name: str, depth: int, rules: RuleSet, *, runtime: bool) -> tuple[onnx.ModelProto, int]:
    """The nodes at most `depth` steps away from a node, and its place among them.

    Args:
        model: is not changed.
        name: of the node, or of a tensor that it makes; it may stand in a body.
        depth: steps along tensors, against their direction as well; nodes in other bodies are not reached.
        rules: which fire in the part as before when its weights are smaller.
        runtime: whether ONNX Runtime is asked if it takes the part with smaller weights.

    Raises:
        RewriterError: there is no such node.
    """
    whole, types = model.sketch(), known_types(model)
    place = _place(whole.graph, name)
    if place is None:
        for number, body in enumerate(bodies(whole.graph.node)):
            if _place(body, name) is not None:
                whole = body_alone(whole, number, types)
                place = _place(whole.graph, name)
                break
    if place is None:
        near = suggest(name, [text for node in whole.graph.node for text in (node.name, *node.output) if text])
        hint = f"did you mean {near!r}?" if near else "`rewriter show MODEL --nodes` lists them"
        raise RewriterError(f"no node and no node's output is called {name!r}; {hint}")
    kept = sorted(_near(whole.graph, place, depth))
    part = Model.from_proto(part_of(whole, kept, types), model.folder)
    part.constant_inputs = "yes" if model.inputs_are_constant else "no"
    work = Reduction(part, Trials(part, [], rules, runtime=runtime), time.monotonic() + SECONDS)
    work.smaller_weights()
    work.fewer_words()
    return work.finished(), kept.index(place)


def _place(graph: onnx.GraphProto, name: str) -> int | None:
    by_name = (place for place, node in enumerate(graph.node) if node.name == name)
    by_output = (place for place, node in enumerate(graph.node) if name in node.output)
    return next(by_name, next(by_output, None))


def _near(graph: onnx.GraphProto, place: int, depth: int) -> set[int]:
    """The places of nodes near one, and of the Constant nodes that they read."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(number)

    def beside(number: int) -> Iterator[int]:
        node = graph.node[number]
        yield from (makers[name] for name in node.input if name in makers)
        for name in node.output:
            yield from readers.get(name, ())

    found, last = {place}, {place}
    for _ in range(depth):
        last = {other for number in last for other in beside(number)} - found
        last = {number for number in last if graph.node[number].op_type != "Constant"}
        found |= last
    constants = {makers[name] for number in found for name in graph.node[number].input if name in makers}
    return found | {number for number in constants if graph.node[number].op_type == "Constant"}


FILL = "FILL IN"
"""What marks a line that wants an answer of the author."""

_LONGEST = 100  # characters of a message that is taken as a symptom
_WORDS = 4  # that a part of a message has to have to say what is wrong
_SLUG = 40  # characters of a slug


def new_rule(
    model: Model, code: str, name: str, *, depth: int = 1, rules: RuleSet, origin: str = "", runtime: bool = True
) -> str:
    """The text of a rule file for what stands around a node.

    Args:
        model: as an exporter wrote it.
        code: of the rule.
        name: of the node, or of a tensor that it makes.
        depth: how many steps away from it a node may be.
        rules: that there are already.
        origin: what the model is called in the text.
        runtime: whether ONNX Runtime is asked about the part.

    Raises:
        RewriterError: the code is none or is taken, there is no such node, or no pattern can say what stands there.
    """
    if not CODE.fullmatch(code):
        raise RewriterError(f"{code!r} is no code of a rule: capital letters and a number, as MY001")
    taken = rules.get(code)
    if taken is not None:
        raise RewriterError(f"{code} is the code of a rule already: {taken.title} ({taken.path})")
    part, root = around_node(model, name, depth, rules, runtime=runtime)
    text = model_text(part)
    skeleton = Skeleton(part, root, code, escape(origin), text, model, runtime)
    problems: list[Diagnostic] = []
    opsets = f"{skeleton.oldest}..", str(skeleton.version)
    for opset, anew in ((opset, anew) for anew in (True, False) for opset in opsets):
        written = skeleton.written(opset, anew=anew)
        rule_file, problems = parse(written, "new.rules")
        problems = problems or [found for found in check(rule_file) if not found.is_warning]
        if not problems:
            return format_text(written, "new.rules")
    raise RewriterError(f"no pattern can say what stands around {name!r}: {problems[0].message}; try another --depth")


class Skeleton:
    """The parts of the file.

    Attributes:
        version: of ONNX's operators in the model; `oldest` the first one from which all of the pattern is as it is there.
    """

    def __init__(
        self, part: onnx.ModelProto, root: int, code: str, origin: str, text: str, model: Model, runtime: bool
    ) -> None:
        self.code, self._origin, self._text = code, origin, text
        self._exporter = detect(model.graph).name
        graph = part.graph
        self._root = graph.node[root]
        self._nodes = [node for node in graph.node if node.op_type != "Constant"]
        self._constants = {tensor.name for tensor in graph.initializer}
        self._constants.update(name for node in graph.node if node.op_type == "Constant" for name in node.output)
        self._imports = {normal(entry.domain): entry.version for entry in part.opset_import}
        self.version = self._imports.get("", 1)
        self.oldest = max((self._since(node) for node in self._nodes), default=min(OLDEST_OPSET, self.version))
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._name_all()
        self._refusal = _refusal(part, model, runtime)

    def written(self, opset: str, *, anew: bool) -> str:
        """The file, not yet laid out; `anew` if the rewrite makes the nodes of the pattern, which can be more than ONNX has."""
        lines = [
            f"# Begun by `rewriter new` from {self._origin}, around {escape(self._root.name or self._root.output[0])}.",
            f"# Answer what is marked {FILL}; until then the rule fires nowhere. `rewriter test` runs the tests below.",
            "",
            f"/// {FILL}: what is wrong, in at most 70 characters that name operator, exporter and symptom.",
            "///",
            f"/// {FILL}: how one notices, which versions of the exporter write this, and what keeps the rule from firing",
            "/// where nothing is wrong.",
            f"rule {self.code} {self._slug()}",
            f"<{', '.join(self._header(opset))}>",
            "",
            "match {",
            *(f"  {line}" for line in self._pattern()),
            "}",
            f"# {FILL}: leave out above what need not stand there, and say in `where` lines when the rule is right.",
            "where false",
            "",
            "rewrite {",
            f"  # {FILL}: {'this makes the nodes anew, as they are' if anew else 'what should stand there'}.",
            *(f"  {line}" for line in (self._rewrite() if anew else self._stand_in())),
            "}",
            "",
            f"# {FILL}: write `becomes ~~~ ~~~` for `unchanged`, and have `rewriter test --bless` write what the rule makes.",
            f'test "{self._slug()}, as it was exported" unchanged ~~~',
            self._text,
            "~~~",
            f"# {FILL}: change this model into one that is as near to the pattern as can be, and right.",
            "# A twin is what the exporter made of a correct program; say in a comment of which, and with which version."
            if self._exporter
            else "# It should be kept from firing by one `where` line alone.",
            f'test "{FILL}: why this one is left alone" {"twin" if self._exporter else "unchanged"} ~~~',
            self._text,
            "~~~",
        ]
        return "\n".join(lines) + "\n"

    def _header(self, opset: str) -> Iterator[str]:
        if self._exporter:
            yield f'exporter: "{self._exporter}"'
        if self._refusal:
            yield "kind: repair"
            yield "evidence: refused"
        else:
            yield "kind: exact"
        yield f"opset: {opset}"
        if self._refusal:
            yield f"symptom: {_quoted(self._refusal)}"

    def _slug(self) -> str:
        words = ["".join(c if c.isalnum() else "-" for c in node.op_type.lower()).strip("-") for node in self._nodes]
        slug = "-".join(word for word in words if word and word.isascii())
        return slug[:_SLUG].rstrip("-") or "rule"

    def _pattern(self) -> Iterator[str]:
        known: set[str] = set()
        for number, node in enumerate(self._nodes):
            label = f"[{self._label(number)}] " if node.attribute else ""
            operands = []
            for name in node.input:
                constant = name in self._constants and name not in known
                operands.append(("const " if constant else "") + self._names[name] if name else self._absent(node))
                known.add(name)
            attributes = ", ".join(self._attributes(node))
            shown = f"<{attributes}>" if attributes else ""
            yield f"{label}{self._outputs(node)} = {_operator(node)}{shown}({', '.join(operands)})"

    def _rewrite(self) -> Iterator[str]:
        """The nodes of the pattern anew. What only they read gets names of its own."""
        ends = self._ends()
        for number, node in enumerate(self._nodes):
            names = {name: f"{self._names[name]}_new" for n in self._nodes for name in n.output if name and name not in ends}
            outputs = ", ".join(names.get(name, self._names[name]) if name else "_" for name in _used(node.output))
            operands = ", ".join(names.get(name, self._names[name]) if name else "_" for name in node.input)
            copied = f"<..{self._label(number)}>" if node.attribute else ""
            yield f"{outputs} = {_operator(node)}{copied}({operands})"

    def _stand_in(self) -> Iterator[str]:
        operand = next((self._names[name] for node in self._nodes for name in node.input if name), None)
        for node in self._nodes:
            for name in node.output:
                if name in self._ends():
                    yield f"{self._names[name]} = " + (f"Identity({operand})" if operand else "{0.0}")

    def _ends(self) -> set[str]:
        read = {name for node in self._nodes for name in node.input}
        return {name for node in self._nodes for name in node.output if name and name not in read}

    def _outputs(self, node: onnx.NodeProto) -> str:
        return ", ".join(self._names[name] if name else "_" for name in _used(node.output))

    def _absent(self, node: onnx.NodeProto) -> str:
        return f"{self._fresh('absent')}?"

    def _attributes(self, node: onnx.NodeProto) -> Iterator[str]:
        """Those that are written, and that are not what holds anyway."""
        domain = normal(node.domain)
        past = history(node.op_type, domain)
        operator = schema(node.op_type, domain, self._imports.get(domain, 1))
        for attribute in node.attribute:
            known = None if operator is None else operator.attributes.get(attribute.name)
            shown = _value(onnx.helper.get_attribute_value(attribute))
            if not any(attribute.name in one.attributes for one in past) and past:
                continue  # a mark of some exporters, which no schema has
            if shown is not None and (known is None or known.default is None or _value(known.default) != shown):
                yield f"{attribute.name}={shown}"

    def _label(self, number: int) -> str:
        return f"n{number + 1}"

    def _name_all(self) -> None:
        self._taken.update(self._label(number) for number in range(len(self._nodes)))
        for node in self._nodes:
            for name in node.input:
                if name and name not in self._names:
                    self._names[name] = self._fresh("w" if name in self._constants else "x")
            for name in node.output:
                if name and name not in self._names:
                    self._names[name] = self._fresh("".join(c for c in node.op_type.lower() if c.isascii() and c.isalnum()))

    def _fresh(self, wish: str) -> str:
        wish = wish if wish[:1].isalpha() else f"t{wish}"
        number, name = 1, wish
        while name in self._taken or reserved(name):
            number += 1
            name = f"{wish}{number}"
        self._taken.add(name)
        return name

    def _since(self, node: onnx.NodeProto) -> int:
        """The version of ONNX's operators from which on this one is as it is in the model."""
        least: int = min(OLDEST_OPSET, self.version)
        if normal(node.domain):
            return least
        return max([least, *(version for version in versions(str(node.op_type)) if version <= self.version)])


def _refusal(part: onnx.ModelProto, whole: Model, runtime: bool) -> str:
    """Why somebody refuses the part who refuses the whole, too; "" when all take it."""
    candidate, before = Candidate(Model.from_proto(part)), Candidate(whole)
    judges = [*([SESSION] if runtime else []), FULL_CHECK, CHECKER]
    found = next((reason for judge in judges if (reason := candidate.refusal(judge)) and before.refusal(judge)), "")
    clauses = [clause for clause in re.split(r"\] |, Error |: ", escape(found)) if len(clause.split()) >= _WORDS]
    return (clauses or [found])[-1].strip()[:_LONGEST]


def _used(names: list[str]) -> list[str]:
    """Outputs without those at the end that are absent."""
    count = max((place + 1 for place, name in enumerate(names) if name), default=0)
    return list(names)[:count]


def _operator(node: onnx.NodeProto) -> str:
    return qualified(node.op_type, node.domain)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(value: object) -> str | None:
    """An attribute's value as a pattern has it; None for what has no such form."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return _quoted(text) if text.isprintable() else None
    if isinstance(value, str):
        return _quoted(value) if value.isprintable() else None
    if isinstance(value, bool | int):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.7g}" if math.isfinite(value) else None
    try:
        items = [_value(item) for item in value]  # type: ignore[attr-defined]
    except TypeError:
        return None
    return None if any(item is None for item in items) else f"[{', '.join(map(str, items))}]"


__all__ = ["FILL", "new_rule"]
