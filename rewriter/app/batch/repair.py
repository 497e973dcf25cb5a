"""Repairing a model from Python as `rewriter fix` repairs it: source file, guard and record included, by the same code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import onnx

from rewriter.app.batch.job import do
from rewriter.app.batch.work import Job, Judging, Notes, Outcome, Reading, Rewriting, Work, Writing
from rewriter.app.report.document import place_text
from rewriter.core.engine.limits import Limits
from rewriter.core.errors import RewriterError, reason
from rewriter.core.graph.model import Model, load
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Log, RolledBack, Verification
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.onnx_runtime import installed

IN_MEMORY = "<model>"
"""The path of a model that was given as a message."""

MOST_ROWS = 100
"""Rewrites that a notebook shows."""


class Result:
    """What became of one model.

    Attributes:
        path: the model that was read; `output` is the file that was written, or None.
        log: of the run: firings with the texts of nodes before and after, what was blocked and why, notes.
        source: the framework's own file that was used, or None; why one was not used is among `log.notes`.
        exporter: who wrote the model, as far as is known.
        refused_before, refused_after: why ONNX Runtime refuses the model as it was, and the result; "" when it accepts it, None
            when it was not asked.
    """

    def __init__(self, outcome: Outcome, model: Model | None) -> None:
        self._outcome = outcome
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
        """What was rewritten, in order."""
        return self.log.firings

    @property
    def rolled_back(self) -> Sequence[RolledBack]:
        """What was taken back since the model was worse with it, with the reason."""
        return self.log.rolled_back

    @property
    def verification(self) -> Verification | None:
        """What a comparison of numbers showed; None when none was asked for."""
        return self.log.verification

    @property
    def unfinished(self) -> bool:
        """Whether a rule failed, a rewrite was taken back or the run was stopped."""
        return self._outcome.unfinished

    def hold(self) -> None:
        """Loads the result now, for the file that it was made of is going to go away."""
        self._model = self.model
        self.path = IN_MEMORY

    @property
    def model(self) -> Model:
        """The result; a model in which nothing changed is read when somebody asks for it."""
        if self._model is None:
            self._model = load(self.path)
        return self._model

    def save(self, path: StrPath, *, force: bool = False) -> None:
        """Writes the result, as the command would. Raises RewriterError where it cannot be written."""
        self.model.save(path, force=force, as_read=not self.changed)

    @property
    def proto(self) -> onnx.ModelProto:
        """The result as a message, weights included."""
        return self.model.to_proto()

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each rewrite."""
        rows = "".join(
            f"<tr><td>{escape(one.rule)}</td><td>{escape(place_text(one))}</td><td>{escape(one.title)}</td></tr>"
            for one in self.firings[:MOST_ROWS]
        )
        more = len(self.firings) - MOST_ROWS
        rest = f"<p>and {more:,} more</p>" if more > 0 else ""
        table = f"<table><tr><th>rule</th><th>node</th><th>what was wrong</th></tr>{rows}</table>{rest}" if rows else ""
        return f"<p>{escape(repr(self))}</p>{table}"

    def __repr__(self) -> str:
        done = "changed by tidying" if self.changed else "unchanged"
        if counts := self.log.counts:
            number = sum(counts.values())
            done = f"{number} rewrite{'s' * (number > 1)} by {', '.join(sorted(counts))}"
        parts = [done]
        if self.rolled_back:
            parts.append(f"{len(self.rolled_back)} rolled back")
        if self.refused_after:
            parts.append("still rejected by ONNX Runtime" if self.refused_before else "rejected by ONNX Runtime")
        elif self.refused_before and self.refused_after == "":
            parts.append("ONNX Runtime rejected it before and loads it now")
        return f"<Result {self.path}: {'; '.join(parts)}>"


def fix(
    model: AnyModel,
    output: StrPath | None = None,
    *,
    rules: RuleSet | None = None,
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
    """Repairs a model as `rewriter fix` does, and gives the same bytes. No configuration file is read.

    Args:
        model: its path, an `onnx.ModelProto`, an `onnx_ir.Model`, or what `torch.onnx.export(..., dynamo=True)` returns; the
            result is a copy.
        output: where the result goes; None writes nothing, and the result is `Result.model`.
        rules: from `load_rules()`, mostly with a call of `select`; None means the shipped ones that run by default.
        source: the framework's own file; "auto" finds one beside the model, "none" uses none.
        constant_inputs: whether initializers that are also inputs are constants; "auto": yes when all are.
        verify: also run the model before and after, and take back what changes numbers that its rule promises to keep.
        inputs: for `verify`, an .npz file with the model's inputs; None makes them up.
        tidy: also remove nodes, initializers and imports that nothing uses.
        stamp: leave a record of the run in a model that changes.
        force: replace an existing file, which may be the model itself.
        limits: when to stop a run that does not come to its end.
        keep_partial: keep what was done when the clock ended the run (`limits.seconds`), instead of an error.
        runtime: whether ONNX Runtime, where it is installed, is asked if it refuses the model and the result; "auto": models
            up to 256 MiB, and results that changed; "yes": up to 1 GiB.

    Raises:
        RewriterError: the model, the source file or the inputs cannot be read, or the result cannot be written.
    """
    if inputs is not None and not verify:
        raise RewriterError("`inputs` says what `verify` runs the model on; give both")
    rules = load_rules() if rules is None else rules
    work = Work(
        Rewriting(rules if rules.selected else rules.select(), limits=limits or Limits(), keep_partial=keep_partial, tidy=tidy),
        Reading(os.fspath(source), constant_inputs),
        Judging(
            runtime=runtime if installed() else "no",
            before=True,
            verify=verify,
            inputs=None if inputs is None else os.fspath(inputs),
        ),
        Writing(force=force, stamp=stamp),
        Notes(detail=True),
    )
    with as_file(model) as (path, temporary), budgeted(Budget()):
        job = Job(path, None if output is None else _target(Path(path), Path(output), force=force))
        outcome = Outcome(job.path)
        result = Result(outcome, do(job, work, outcome))
        if temporary:
            result.hold()
        return result


def _target(path: Path, output: Path, *, force: bool) -> str:
    if os.path.realpath(path) != os.path.realpath(output):
        return str(output)
    if not force:
        raise RewriterError(f"{output} is the input itself; force=True overwrites it")
    return str(path)


# A model that a program holds, as the file that everything else works on.


StrPath = os.PathLike[str] | str
AnyModel = StrPath | onnx.ModelProto | Any
"""A path, a message, an `onnx_ir.Model`, or what has a `model_proto`: PyTorch's `ONNXProgram`."""


@contextmanager
def as_file(model: AnyModel) -> Iterator[tuple[str, bool]]:
    """The path of the model, and whether it is a temporary file, which is gone afterwards.

    Raises:
        RewriterError: it is no model, it refers to external data, or it is larger than a message may be.
    """
    if isinstance(model, str | os.PathLike):
        yield os.fspath(model), False
        return
    message = _message(model)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in message.graph.initializer):
        raise RewriterError("the model refers to data in other files; save it, and give the path")
    with TemporaryDirectory(prefix="rewriter-") as folder:
        path = Path(folder, "model.onnx")
        try:
            path.write_bytes(message.SerializeToString())
        except OSError as error:
            raise RewriterError(f"{path}: {reason(error)}") from None
        except Exception as error:  # protobuf's own, which has no public base
            raise RewriterError(f"the model cannot be written as one message ({error}); save it with external data") from None
        yield str(path), True


def _message(model: Any) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    proto = getattr(model, "model_proto", None)
    if isinstance(proto, onnx.ModelProto):
        return proto
    ir = sys.modules.get("onnx_ir")
    if ir is not None and isinstance(model, ir.Model):
        from_ir: onnx.ModelProto = ir.to_proto(model)
        return from_ir
    kind = f"{type(model).__module__}.{type(model).__name__}"
    raise RewriterError(f"a model is a path, an onnx.ModelProto, an onnx_ir.Model or PyTorch's ONNXProgram, not a {kind}")
