"""Small helpers: a rule text and a model text in, a log and the rewritten model out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import Hooks, run
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import canonical_text
from rewriter.core.language.diagnostics import SourceText, render
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Log
from rewriter.rule_tools.checks.check import check

HEAD = '<ir_version: 8, opset_import: ["": 13]>'


@dataclass
class Outcome:
    log: Log
    before: onnx.ModelProto
    proto: onnx.ModelProto

    @property
    def fired(self) -> list[str]:
        return [firing.rule for firing in self.log.firings]

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.proto.graph.node]

    def equals(self, text: str) -> bool:
        return canonical_text(self.proto) == canonical_text(onnx.parser.parse_model(with_head(text)))


def with_head(text: str) -> str:
    return text if text.lstrip().startswith("<") else f"{HEAD} {text}"


def rule_set(*texts: str) -> RuleSet:
    """Checked rules, each as if it had been selected by its code."""
    file, found = parse("\n\n".join(texts), "<test>")
    errors = [diagnostic for diagnostic in [*found, *check(file)] if not diagnostic.is_warning]
    source = SourceText("<test>", file.text)
    assert not errors, "\n".join(render(error, source) for error in errors)
    return RuleSet(
        tuple(Rule(rule, "<test>", source) for rule in file.rules), by_id=frozenset(rule.code for rule in file.rules)
    )


def rewrite_model(proto: onnx.ModelProto, *rules: str, **options: Any) -> Outcome:
    model = Model.from_proto(proto)
    known = Knowledge(options.pop("source", None), options.pop("settings", None), model.overridable)
    hooks = Hooks(audit=options.pop("audit", None))
    log = run(model.graph, rule_set(*rules), known, hooks=hooks, **options)
    return Outcome(log, proto, model.to_proto())


def rewrite_text(text: str, *rules: str, **options: Any) -> Outcome:
    return rewrite_model(onnx.parser.parse_model(with_head(text)), *rules, **options)
