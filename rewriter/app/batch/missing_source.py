"""The note on a model whose exporter left information in the framework's own file, if that file is missing.

`job` uses it: without the note, a model that no rule can repair without the file would look correct.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rewriter.core.framework.exporter import SOURCE_FILES, Exporter, GuardedModel, refusal
from rewriter.core.graph.objects import Graph
from rewriter.core.language.rule import Rule
from rewriter.core.language.rules import RuleSet
from rewriter.core.language.walk import pattern_nodes
from rewriter.workbench.style import counted


def missing_source(rules: RuleSet, graph: Graph, exporter: Exporter, path: str, *, is_of_another: bool) -> list[str]:
    """How many rules need the source file of a model, and the places in which it is searched. Empty if no rule needs it.

    Args:
        rules: the rules that run.
        graph: as it was read.
        exporter: who wrote it, one of `SOURCE_FILES`.
        path: of the model.
        is_of_another: whether there is a file, and it belongs to another model.
    """
    name, kind, ending = SOURCE_FILES[exporter.name]
    waiting = len(_waiting(rules, graph, exporter))
    if not waiting:
        return []
    what = f"{counted(waiting, 'rule')} for {name} need{'s' if waiting == 1 else ''} the {kind}"
    if is_of_another:
        return [f"{what} of this model"]
    file = f"{Path(path).stem}{ending}" if path.endswith(".onnx") else f"NET{ending}"
    return [f"{what}: put {file} next to the model or pass --source {file}"]


def _waiting(rules: RuleSet, graph: Graph, exporter: Exporter) -> list[Rule]:
    """The rules for this model that lack only its source file, and whose operators the model has."""
    subject = GuardedModel(exporter, getattr(graph, "ir_version", None), {graph.opset}, has_source=True)
    suited = [rule for rule in rules if rule.needs_source and refusal(rule, subject, by_id=rule.code in rules.by_id) is None]
    operators = {node.op for node in graph.nodes} if suited else set()
    return [rule for rule in suited if _has_operators(rule, operators)]


def _has_operators(rule: Rule, operators: Iterable[str]) -> bool:
    """Whether there are operators for every node of one form of the pattern."""
    return any(
        all(any(op.param or op.is_any or op.name in operators for op in node.ops) for node in pattern_nodes(form.ast.match))
        for form in rule.variants
    )
