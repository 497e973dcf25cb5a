"""Rewriting and checking graphs from Python, in one call each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.engine.limits import Limits
from rewriter.engine.run import run
from rewriter.language.load_rules import load_rules
from rewriter.language.rules import RuleSet
from rewriter.log.records import Log
from rewriter.proof.kernels import has_kernel
from rewriter.source.find import load_source
from rewriter.source.info import SourceInfo


def rewrite(
    graph: gs.Graph,
    rules: RuleSet | None = None,
    *,
    source: SourceInfo | Path | str | None = None,
    settings: Mapping[tuple[str, str], Any] | None = None,
    limits: Limits | None = None,
    overridable: Collection[str] = (),
) -> Log:
    """Rewrites a graph in place, to the fixpoint of the rules.

    Args:
        graph: the graph of a `Model`, or any other graphsurgeon graph.
        rules: from `load_rules()`; None means the shipped ones. Without a call of `select` only those run that run unasked.
        source: the framework's own file, or what was read of it.
        settings: parameter values by (code, name).
        limits: when to stop a run that does not come to its end.
        overridable: initializers that a caller may override, `model.overridable`; they are no constants.

    Returns:
        What fired, what was blocked and why the run ended.

    Raises:
        RewriterError: the source file cannot be read, or a selected rule lacks a parameter.
    """
    return run(
        graph,
        _selected(rules),
        source=_source(source),
        settings=settings,
        limits=limits,
        overridable=overridable,
        has_kernel=has_kernel,
    )


def check(
    graph: gs.Graph,
    rules: RuleSet | None = None,
    *,
    source: SourceInfo | Path | str | None = None,
    settings: Mapping[tuple[str, str], Any] | None = None,
    limits: Limits | None = None,
    overridable: Collection[str] = (),
) -> Log:
    """What `rewrite` would do; the graph stays as it is. Arguments, result and errors are those of `rewrite`."""
    return run(
        graph,
        _selected(rules),
        source=_source(source),
        settings=settings,
        limits=limits,
        overridable=overridable,
        keep=False,
        has_kernel=has_kernel,
    )


def _selected(rules: RuleSet | None) -> RuleSet:
    rules = load_rules() if rules is None else rules
    return rules if rules.selected else rules.select()


def _source(source: SourceInfo | Path | str | None) -> SourceInfo | None:
    return source if source is None or isinstance(source, SourceInfo) else load_source(source)
