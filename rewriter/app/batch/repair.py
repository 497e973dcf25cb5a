"""`fix`, `optimize` and `check` for one model from Python.

They run the same code as the commands, with source file, guard and record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import onnx
import onnx_graphsurgeon as gs

from rewriter.app.batch.job import do
from rewriter.app.batch.work import LEVELS, Checking, Job, Notes, Outcome, Reading, Rewriting, Work, Writing
from rewriter.app.chosen_rules import Rules, Texts, chosen_rules
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits, bounds
from rewriter.core.engine.run import run_on_graph
from rewriter.core.errors import RewriterError, counted, for_python
from rewriter.core.graph.any_model import AnyModel, StrPath, as_file
from rewriter.core.graph.model import Model, load
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.core.log import Blocked, Firing, Log, RolledBack, Verification
from rewriter.trust.proof.judges import has_kernel, installed

WHETHER = ("no", "auto", "yes")

IN_MEMORY = "<model>"
"""The path of a model that was passed as a message."""


class Result:
    """The result of `fix`, `optimize` or `check` for one model.

    Attributes:
        path: the model that was read.
        output: the file that was written, or None.
        log: the record of the run: firings with the texts of nodes before and after, blocked rules with reasons, and notes.
        source: the framework's own file that was used, or None. `log.notes` has the reason if no file was used.
        exporter: the exporter of the model, "" if it is unknown.
        refused_before: the error message of ONNX Runtime for the model that was read; "" if the model loads, None if ONNX
            Runtime was not used.
        refused_after: the same for the result.
    """

    def __init__(self, outcome: Outcome, model: Model | None, *, is_check: bool = False) -> None:
        self._outcome = outcome
        self._is_check = is_check
        self._model = model
        self.path = outcome.path
        self.output = outcome.output
        self.log = outcome.log or Log()
        self.source = outcome.source
        self.exporter = outcome.exporter
        self.refused_before = outcome.refusal
        self.refused_after = outcome.remaining

    @property
    def changed(self) -> bool:
        """Whether the result differs from the model that was read."""
        return self._outcome.changed

    @property
    def firings(self) -> Sequence[Firing]:
        """The rewrites, in order."""
        return self.log.firings

    @property
    def counts(self) -> dict[str, int]:
        """The number of firings of each rule; after `check`, of firings that `fix` would do."""
        return self.log.counts

    @property
    def blocked(self) -> Sequence[Blocked]:
        """The places where a rule matches and does not fire, with the reasons."""
        return self.log.blocked

    @property
    def rolled_back(self) -> Sequence[RolledBack]:
        """The rewrites that were rolled back because they made the model worse, with the reasons."""
        return self.log.rolled_back

    @property
    def verification(self) -> Verification | None:
        """The comparison of outputs before and after; None without `verify`."""
        return self.log.verification

    @property
    def unfinished(self) -> bool:
        """Whether a rule failed, a rewrite was rolled back or the run was stopped."""
        return self._outcome.unfinished

    def hold(self) -> None:
        """Loads the result now. Call it before the file of the model is removed."""
        self._model = self.model
        self.path = IN_MEMORY

    @property
    def model(self) -> Model:
        """The result. An unchanged model is read at the first access."""
        if self._model is None:
            self._model = load(self.path)
        return self._model

    @for_python
    def save(self, path: StrPath, *, force: bool = False) -> None:
        """Writes the result as the command does.

        Raises:
            RewriterError: the file cannot be written, or it exists and `force` is False.
        """
        self.model.save(path, force=force, as_read=not self.changed)

    @property
    def proto(self) -> onnx.ModelProto:
        """The result as an `onnx.ModelProto`, weights included."""
        return self.model.to_proto()

    def _repr_html_(self) -> str:
        """HTML for notebooks: a row for each rewrite."""
        return self.log.table(repr(self))

    def __repr__(self) -> str:
        done = "clean" if self._is_check else "changed by tidying" if self.changed else "unchanged"
        if counts := self.log.counts:
            done = f"{counted(sum(counts.values()), 'finding' if self._is_check else 'rewrite')} by {', '.join(sorted(counts))}"
        parts = [done]
        if self.rolled_back:
            parts.append(f"{len(self.rolled_back)} rolled back")
        if self.refused_after:
            parts.append("still rejected by ONNX Runtime" if self.refused_before else "rejected by ONNX Runtime")
        elif self.refused_before and self.refused_after == "":
            parts.append("ONNX Runtime rejected it before and loads it now")
        elif self.refused_before:
            parts.append("rejected by ONNX Runtime")
        return f"<Result {self.path}: {'; '.join(parts)}>"


@for_python
def fix(
    model: AnyModel,
    output: StrPath | None = None,
    *,
    rules: Rules = None,
    select: Texts = (),
    ignore: Texts = (),
    target: Texts = (),
    guess: bool = False,
    source: StrPath = "auto",
    constant_inputs: Literal["auto", "yes", "no"] = "auto",
    verify: bool = False,
    inputs: StrPath | None = None,
    tidy: bool = False,
    stamp: bool = True,
    force: bool = False,
    limits: Limits | None = None,
    keep_partial: bool = False,
    runtime: Literal["no", "auto", "yes"] = "auto",
) -> Result:
    """Repairs a model as `rewriter fix` does, and returns the same bytes. No configuration file is read.

    Args:
        model: its path, an `onnx.ModelProto`, an onnx-graphsurgeon graph, a `Model` or `Result`, an `onnx_ir.Model`, or the
            result of `torch.onnx.export(..., dynamo=True)`. The model is not changed; the result is a copy.
        output: the file to write. With None nothing is written; use `Result.model`.
        rules: from `load_rules()`, or rule files and folders by path ("shipped" names the shipped rules). None means the
            shipped rules, and an empty list no rules.
        select, ignore: codes or prefixes of codes, as for `--select` and `--ignore`: "PT030", "MX,TF" or
            ["DEFAULT", "OPTIMIZE"].
        target: names of consumers, as for `--target`: "tensorrt".
        guess: also run repairs with `evidence: guess`.
        source: the framework's own file. "auto" finds a file next to the model, "none" uses no file.
        constant_inputs: whether initializers that are also inputs are constants; "auto": yes if all of them are.
        verify: also run the model before and after, and roll back rewrites that change outputs that their rules promise
            to keep.
        inputs: for `verify`, an .npz file with the model's inputs. With None, inputs are generated.
        tidy: also remove nodes, initializers and imports that nothing uses.
        stamp: leave a record of the run in a model that changes.
        force: replace an existing file, which may be the model itself.
        limits: bounds of the run, for example its time.
        keep_partial: if `limits.seconds` end the run, keep the rewrites so far instead of raising an error.
        runtime: whether ONNX Runtime, if it is installed, loads the model and the result. "auto": models up to 256 MiB, and
            results that changed; "yes": up to 1 GiB; "no": only to check results with rewrites.

    Raises:
        RewriterError: the model, the rules, the source file or the inputs cannot be read, or the result cannot be written.
    """
    if inputs is not None and not verify:
        raise RewriterError("`inputs` needs `verify`; pass both")
    _check_words(runtime, constant_inputs)
    chosen = chosen_rules(rules, select, ignore, target, guess=guess, is_repair=True)
    checking = Checking(
        runtime=runtime if installed() else "no",
        before=True,
        verify=verify,
        inputs=None if inputs is None else os.fspath(inputs),
    )
    work = Work(
        Rewriting(chosen, limits=bounds(limits), keep_partial=keep_partial, tidy=tidy),
        Reading(os.fspath(source), constant_inputs),
        checking,
        Writing(force=force, stamp=stamp),
        Notes(detail=True),
    )
    return _done(model, output, work)


@for_python
def optimize(
    model: AnyModel,
    output: StrPath | None = None,
    *,
    level: Literal["basic", "all"] = "all",
    static: Mapping[str, Sequence[int]] | None = None,
    rules: Rules = None,
    select: Texts = (),
    ignore: Texts = (),
    target: Texts = (),
    constant_inputs: Literal["auto", "yes", "no"] = "auto",
    verify: bool = False,
    tidy: bool = True,
    stamp: bool = True,
    force: bool = False,
    limits: Limits | None = None,
    runtime: Literal["no", "auto", "yes"] = "auto",
) -> Result:
    """Makes a model smaller and faster as `rewriter optimize` does, and returns the same bytes. Repairs do not run.

    Args:
        model, output: as for `fix`.
        level: "basic" runs only rules that keep outputs within 2 units in the last place. "all" also runs fusions that keep
            outputs within the bound that each rule states.
        static: fixed shapes that inputs get first, by name: {"image": (1, 3, 224, 224)}.
        rules, ignore, target, constant_inputs, verify, tidy, stamp, force, limits, runtime: as for `fix`.
        select: codes in place of those of `level`.

    Raises:
        RewriterError: as for `fix`, or `static` names no input.
    """
    _check_words(runtime, constant_inputs)
    check_word("level", level, tuple(LEVELS))
    work = Work(
        Rewriting(chosen_rules(rules, select, ignore, target, level=LEVELS[level]), limits=bounds(limits), tidy=tidy),
        Reading("auto", constant_inputs, tuple((static or {}).items())),
        Checking(runtime=runtime if installed() else "no", before=True, verify=verify),
        Writing(force=force, stamp=stamp),
        Notes(detail=True),
    )
    return _done(model, output, work)


@for_python
def check(
    model: AnyModel,
    rules: Rules = None,
    *,
    select: Texts = (),
    ignore: Texts = (),
    target: Texts = (),
    guess: bool = False,
    source: StrPath = "auto",
    constant_inputs: Literal["auto", "yes", "no"] = "auto",
    expect: StrPath | None = None,
    limits: Limits | None = None,
    runtime: Literal["no", "auto", "yes"] = "auto",
) -> Result:
    """Finds the rules that would fire on a model, and the places, as `rewriter check` does. Nothing is written, and the model
    is not changed.

    Args:
        model, rules, select, ignore, target, guess, source, constant_inputs, limits: as for `fix`.
        expect: an .npz file with inputs and the framework's outputs. The outputs of the model are compared with them.
        runtime: whether ONNX Runtime, if it is installed, loads the model; `Result.refused_before` is its error message.

    For an onnx-graphsurgeon graph or a `gs.Function`, only the rules run: without source file, and without ONNX Runtime unless
    you pass `expect` or `runtime="yes"`.

    Raises:
        RewriterError: the model, the rules or a file cannot be read.
    """
    _check_words(runtime, constant_inputs)
    if expect is not None and not os.path.isfile(expect):
        raise RewriterError(f"{os.fspath(expect)}: no such file")
    if isinstance(model, gs.Graph) and expect is None and runtime != "yes":
        chosen = chosen_rules(rules, select, ignore, target, guess=guess)
        log = run_on_graph(model, chosen, Knowledge(None, has_kernel=has_kernel), limits, keep=False)
        return Result(Outcome(IN_MEMORY, log=log), None, is_check=True)
    work = Work(
        Rewriting(chosen_rules(rules, select, ignore, target, guess=guess), limits=bounds(limits), keep=False),
        Reading(os.fspath(source), constant_inputs),
        Checking(runtime=runtime if installed() else "no", expect=None if expect is None else os.fspath(expect)),
        notes=Notes(detail=True),
    )
    return _done(model, None, work)


def check_word(name: str, value: object, words: Sequence[str]) -> None:
    """Raises RewriterError if the value of an argument is none of its words."""
    if value not in words:
        raise RewriterError(f"{name} is {' or '.join(map(repr, words))}, not {value!r}")


def _check_words(runtime: object, constant_inputs: object) -> None:
    check_word("runtime", runtime, WHETHER)
    check_word("constant_inputs", constant_inputs, WHETHER)


def _done(model: AnyModel, output: StrPath | None, work: Work) -> Result:
    with as_file(model) as (path, is_temporary), budgeted(Budget()):
        target = None if output is None else _target(Path(path), Path(output), force=work.writing.force)
        job = Job(path, target)
        outcome = Outcome(job.path)
        result = Result(outcome, do(job, work, outcome), is_check=not work.rewriting.keep)
        if is_temporary:
            result.hold()
        return result


def _target(path: Path, output: Path, *, force: bool) -> str:
    if os.path.realpath(path) != os.path.realpath(output):
        return str(output)
    if not force:
        raise RewriterError(f"{output} is the input itself; force=True overwrites it")
    return str(path)
