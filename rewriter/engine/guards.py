"""Whether a rule is meant for a model at all: its exporter, its opset and IR range, its need for source information."""

from __future__ import annotations

from typing import Any

from rewriter.engine.context import Context
from rewriter.engine.expressions.values import UNKNOWN
from rewriter.graph.exporter import matches
from rewriter.language.rules import Rule


def refusal(rule: Rule, context: Context, *, by_id: bool) -> str | None:
    """Why the rule is not tried on this model, or None. Asked for by its own code, a rule runs on any exporter's model."""
    if not by_id and rule.exporters:
        suited = matches(context.exporter, rule.exporters, rule.versions)
        if suited is not True:
            return f"{suited}; select {rule.code} by its code to try it anyway"
    ir_version: Any = context.ir_version
    if ir_version is not UNKNOWN and ir_version not in rule.ir:
        return f"the model's ir_version is {ir_version}"
    versions = {version for scope in context.index.scopes if (version := scope.opsets.get("")) is not None}
    if versions and not any(version in rule.opset for version in versions):
        return f"the model's opset is {', '.join(map(str, sorted(versions)))}"
    if rule.needs_source and context.source is None:
        return "it needs the framework's own file (--source)"
    return None
