"""A run on any graph of onnx-graphsurgeon, a function included; for programs that hold a graph and no file."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log


def run_on_graph(graph: gs.Graph, rules: RuleSet, known: Knowledge, limits: Limits | None, *, keep: bool) -> Log:
    """Rewrites a graph in place, or finds the rewrites that would happen. Raises RewriterError if this is no graph."""
    if not isinstance(graph, gs.Graph):
        kind = type(graph).__name__
        raise RewriterError(
            f"rules run on an onnx-graphsurgeon graph, not on a {kind}: rewriter.load(path).graph, or rewriter.fix"
        )
    whole = _alone(graph) if isinstance(graph, gs.Function) else graph
    log = run(whole, rules, known, limits=limits, keep=keep)
    if whole is not graph:
        for name in ("nodes", "inputs", "outputs", "opset", "import_domains"):
            setattr(graph, name, getattr(whole, name))
    return log


def _alone(function: gs.Function) -> gs.Graph:
    """A function as a graph of the same nodes and tensors: functions of graphsurgeon are graphs without some parts."""
    graph = object.__new__(gs.Graph)  # its constructor would take the functions away from bodies in this one
    graph.__dict__.update(vars(function), producer_name="", producer_version="", _functions=[])
    return graph
