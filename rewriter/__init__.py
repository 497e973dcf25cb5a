"""A rewrite-rule engine for ONNX models.

    result = rewriter.fix("net.onnx", "net.fixed.onnx")     # the same as the command `rewriter fix`
    print(result, result.refused_before, result.log.counts)

    log = rewriter.rewrite(graph)                           # the rules alone, on an onnx-graphsurgeon graph

Names are imported when they are first used, so that `rewriter --help` does not wait for onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewriter.core import whole_model

if TYPE_CHECKING:
    from rewriter.api import convert, edit, extract, merge, opset, rewrite, split
    from rewriter.app.batch.repair import Result, check, fix, optimize
    from rewriter.app.findings import Finding, compare, diff, why
    from rewriter.core.engine.limits import Limits
    from rewriter.core.errors import RewriterError
    from rewriter.core.graph.any_model import load
    from rewriter.core.graph.model import Model
    from rewriter.core.log import Log
    from rewriter.rule_tools.load_rules import load_rules
    from rewriter.trust.stamp import stamp

__version__ = "0.2.0"

__all__ = [
    "Finding", "Limits", "Log", "Model", "Result", "RewriterError", "__version__", "check", "compare", "convert", "diff",
    "edit", "extract", "fix", "load", "load_rules", "merge", "opset", "optimize", "rewrite", "split", "stamp", "why",
]  # fmt: skip

_HOMES = {
    "Finding": "rewriter.app.findings",
    "Limits": "rewriter.core.engine.limits",
    "Log": "rewriter.core.log",
    "Model": "rewriter.core.graph.model",
    "Result": "rewriter.app.batch.repair",
    "RewriterError": "rewriter.core.errors",
    "check": "rewriter.app.batch.repair",
    "compare": "rewriter.app.findings",
    "convert": "rewriter.api",
    "diff": "rewriter.app.findings",
    "edit": "rewriter.api",
    "extract": "rewriter.api",
    "fix": "rewriter.app.batch.repair",
    "load": "rewriter.core.graph.any_model",
    "load_rules": "rewriter.rule_tools.load_rules",
    "merge": "rewriter.api",
    "opset": "rewriter.api",
    "optimize": "rewriter.app.batch.repair",
    "rewrite": "rewriter.api",
    "split": "rewriter.api",
    "stamp": "rewriter.trust.stamp",
    "why": "rewriter.app.findings",
}


def _repairs() -> whole_model.Repairs:
    import rewriter.repairs as repairs

    return repairs


whole_model.use(_repairs)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
