"""Rewrite, cut, join, edit and convert models from Python, in one call each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from rewriter.app.chosen_rules import Rules, Texts, chosen_rules
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run_on_graph
from rewriter.core.errors import RewriterError, for_python
from rewriter.core.framework.source_info import SourceInfo
from rewriter.core.graph.any_model import AnyModel, as_source
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log
from rewriter.trust.proof.judges import has_kernel, installed
from rewriter.trust.source.find import load_source

if TYPE_CHECKING:
    from rewriter.workbench.surgery.finish import Checks
    from rewriter.workbench.surgery.opened import Opened


@for_python
def rewrite(
    graph: gs.Graph,
    rules: Rules = None,
    *,
    select: Texts = (),
    ignore: Texts = (),
    target: Texts = (),
    guess: bool = False,
    source: SourceInfo | Path | str | None = None,
    settings: Mapping[tuple[str, str], Any] | None = None,
    limits: Limits | None = None,
    overridable: Collection[str] = (),
) -> Log:
    """Rewrites a graph in place, until no rule applies.

    Args:
        graph: the graph of a `Model`, or any other graphsurgeon graph. Of a `gs.Function` only the function itself is
            rewritten, not the functions that it calls.
        rules: from `load_rules()`, or rule files by path; None means the shipped rules, and an empty list no rules.
        select, ignore, target, guess: as for `fix`. The default is the rules that run by default.
        source: the framework's own file, or the information that was read from it.
        settings: parameter values by (code, name).
        limits: bounds of the run, for example its time.
        overridable: names of initializers that a caller may override (`model.overridable`); they are no constants.

    Returns:
        The record of the run: firings, blocked rules, and the reason if the run was stopped.

    Raises:
        RewriterError: `graph` is no graph, the source file cannot be read, a selected rule lacks a parameter, or `settings` has
            one that no selected rule has.
    """
    chosen = chosen_rules(rules, select, ignore, target, guess=guess)
    parameters = {(rule.code, param.name) for rule in chosen for param in rule.ast.params}
    for key in settings or ():
        if key not in parameters:
            raise RewriterError(f"no rule that runs has the parameter {key!r}; a key is (code, name)")
    known = Knowledge(_source(source), settings, overridable, has_kernel=has_kernel)
    return run_on_graph(graph, chosen, known, limits, keep=True)


def _source(source: SourceInfo | Path | str | None) -> SourceInfo | None:
    return source if source is None or isinstance(source, SourceInfo) else load_source(source)


@for_python
def extract(
    model: AnyModel,
    to: Sequence[str] = (),
    from_: Sequence[str] | None = None,
    *,
    types: Sequence[str] = (),
    auto_inputs: bool = False,
    output: Path | str | None = None,
    **options: Any,
) -> Model:
    """Cuts out the part of a model between some tensors, as `rewriter extract` does.

    Args:
        model: as for `fix`; it is not changed.
        to, from_: names of tensors or nodes, patterns, or op:TYPE. The default is the outputs and inputs of the model.
        types: types of new inputs and outputs that the model does not declare, for example "x:float[1,3,N]".
        auto_inputs: also turn all other tensors that the part needs into inputs.
        output: a file to write.
        options: `force`: overwrite files; `stamp`: leave a record (default: True); `runtime`: whether ONNX Runtime checks the
            result: "no", "auto" or "yes".

    Raises:
        RewriterError: there is no such part, it is less valid than the model, or its outputs differ.
    """
    from rewriter.workbench.surgery.extract import extracted

    checks, force = _checks(**options)
    done = extracted(_opened(model), _texts(to), from_ and _texts(from_), types, auto_inputs=auto_inputs, checks=checks)
    return _saved(done.model, output, force)


@for_python
def split(
    model: AnyModel,
    *,
    at: Sequence[str] = (),
    rules: RuleSet | None = None,
    every: int | None = None,
    max_size: int | None = None,
    types: Sequence[str] = (),
    output: str | None = None,
    **options: Any,
) -> list[Model]:
    """Splits a model into parts, as `rewriter split` does. `output` contains {} for the number of a part. Other arguments: as
    for `extract`.

    Pass exactly one of `at` (one text for each cut), `rules` (cut before each place where one would fire), `every` (nodes) and
    `max_size` (bytes).
    """
    from rewriter.workbench.surgery.split import Cuts, files_of, write_parts
    from rewriter.workbench.surgery.split import split as split_model

    if bool(at) + (rules is not None) + (every is not None) + (max_size is not None) != 1:
        raise RewriterError("pass one of at, every, max_size and rules")
    if min(1 if every is None else every, 1 if max_size is None else max_size) < 1:
        raise RewriterError("every and max_size are positive numbers")
    checks, force = _checks(**options)
    done = split_model(_opened(model), Cuts(_texts(at), every=every, max_size=max_size), types, checks, rules)
    if output is not None:
        write_parts(done.parts, files_of(output, len(done.parts)), force=force)
    return [part.model for part in done.parts]


@for_python
def merge(
    *models: AnyModel,
    maps: Sequence[str] = (),
    share: Sequence[str] = (),
    prefixes: Sequence[str] = (),
    beside: bool = False,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    output: Path | str | None = None,
    **options: Any,
) -> Model:
    """Makes one model of several, as `rewriter merge` does. `maps` are texts such as "out=in". Other arguments: as for
    `extract`.
    """
    from rewriter.workbench.surgery.merging import Plan, merged

    checks, force = _checks(**options)
    plan = Plan(_texts(maps), prefixes, _texts(share), beside, inputs and _texts(inputs), outputs and _texts(outputs))
    return _saved(merged(list(map(_opened, models)), plan, checks).model, output, force)


@for_python
def edit(
    model: AnyModel,
    *edits: tuple[str, str],
    with_children: bool = False,
    output: Path | str | None = None,
    **options: Any,
) -> Model:
    """Edits a model as `rewriter edit` does: ("rename", "data=images"), ("shape", "x:N,3,H,W"). Other arguments: as for
    `extract`.
    """
    from rewriter.workbench.surgery.edition import edited

    checks, force = _checks(**options)
    return _saved(edited(_opened(model), edits, with_children=with_children, checks=checks).model, output, force)


@for_python
def opset(
    model: AnyModel,
    version: int,
    *,
    ir_version: int | None = None,
    restamp: bool = False,
    output: Path | str | None = None,
    **options: Any,
) -> Model:
    """Converts a model to another version of ONNX's operators, as `rewriter opset` does. `restamp` changes only the version.
    Other arguments: as for `extract`.
    """
    from rewriter.workbench.surgery.opset_conversion import reversioned

    checks, force = _checks(**options)
    return _saved(reversioned(_opened(model), version, ir_version, restamp=restamp, checks=checks).model, output, force)


@for_python
def convert(
    model: AnyModel,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    keep: Sequence[str] = (),
    io: str = "keep",
    ports: Sequence[str] = (),
    output: Path | str | None = None,
    **options: Any,
) -> Model:
    """Converts a model to another floating-point type, or its inputs and outputs to another layout, as `rewriter convert` does.

    Args:
        model: as for `fix`; it is not changed.
        dtype: "float16", "bfloat16", "float32" or "double".
        layout: "nhwc" or "nchw", for inputs and outputs. Pass either `layout` or `dtype`.
        keep: with `dtype`, nodes that compute as before.
        io: with `dtype`, "keep" or "convert" for the types of inputs and outputs.
        ports: with `layout`, the inputs and outputs to convert. The default is all with four dimensions.
        output: a file to write.
        options: as for `extract`.

    Raises:
        RewriterError: as for `extract`, or both `dtype` and `layout` are passed, or neither.
    """
    from rewriter.workbench.surgery.float_type import in_type
    from rewriter.workbench.surgery.port_layout import in_layout

    checks, force = _checks(**options)
    if dtype is not None and layout is None and not ports:
        done = in_type(_opened(model), dtype, _texts(keep), io, checks)
    elif layout is not None and dtype is None and not keep and io == "keep":
        done = in_layout(_opened(model), layout, _texts(ports), checks)
    else:
        raise RewriterError("convert takes a dtype, with keep and io, or a layout, with ports")
    return _saved(done.model, output, force)


def _opened(model: AnyModel) -> Opened:
    from rewriter.workbench.surgery.opened import Opened

    return Opened(as_source(model))


def _texts(texts: Sequence[str]) -> Sequence[str]:
    listed = [texts] if isinstance(texts, str) else texts
    if not isinstance(listed, Collection) or not all(isinstance(text, str) for text in listed):
        raise RewriterError(f"names are a text or a list of texts, not {texts!r}")
    return list(listed)


def _checks(*, runtime: str = "auto", stamp: bool = True, force: bool = False) -> tuple[Checks, bool]:
    from rewriter.app.batch.repair import WHETHER, check_word
    from rewriter.workbench.surgery.finish import Checks

    check_word("runtime", runtime, WHETHER)
    return Checks(runtime if installed() else "no", stamp), force  # type: ignore[arg-type]


def _saved(model: Model, output: Path | str | None, force: bool) -> Model:
    from rewriter.workbench.surgery.data_files import save

    if output is not None:
        save(model, Path(output), force=force)
    return model
