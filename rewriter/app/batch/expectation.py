"""Whether a model returns the outputs of the framework, where it first differs, and which rules repair it (`check --expect`).

The framework's own inputs and outputs decide, in an .npz file next to the model. If the rules that run by default do not repair
it, guesses (`evidence: guess`) are tried: correct outputs decide where no fact of the model does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rewriter.app.report.document import ExpectationRecord
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model, load
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.record import replace
from rewriter.trust.proof.output_agreement import BOUND, OTHER_TENSOR, FrameworkOutputs
from rewriter.trust.proof.validity import Candidate, CannotRun

Repaired = Callable[[RuleSet], "tuple[Model | None, list[str]]"]
"""Reads the model anew and runs rules. Returns the result (None if no rule fired) and the codes of the rules that fired."""

MOST_TRIED = 24
"""Rules that are tried one by one."""

FOREIGN = (OTHER_TENSOR, "dimensions for input: ", "Invalid rank for input: ", "Unexpected input data type")
"""Parts of differences and of ONNX Runtime's error messages: inputs or outputs of another shape or type than in the file."""

MEMORY = 1 << 28
"""Bytes of tensors that are compared together to find the first layer that differs."""


def data_of(template: str, path: str) -> str:
    """The file of a model: `{dir}` is replaced by its folder, `{name}` by its name without ending."""
    return template.replace("{dir}", os.path.dirname(path) or ".").replace("{name}", Path(path).stem)


class Expectation:
    """A model and the outputs of the framework.

    Args:
        path: the model.
        data: an .npz file with inputs and outputs.
        rules: the rules that run by default, with the questions.
        repaired: runs rules on the model.
    """

    def __init__(self, path: str, data: str, rules: RuleSet, repaired: Repaired) -> None:
        self._path = path
        self._data = data
        self._rules = rules
        self._repaired = repaired

    def record(self) -> ExpectationRecord:
        """The result of the comparison. Raises RewriterError if a file cannot be read or does not match."""
        self._truth = FrameworkOutputs(self._data)
        candidate = Candidate(load(self._path))
        if not (outputs := len(self._truth.recorded(candidate))):
            what = f"{self._truth.missing(candidate)}; it may belong to another model"
            raise RewriterError(f"{self._data} has no output of {self._path}: {what}")
        before = self._off(load(self._path))
        model, fired = self._repaired(self._rules)
        after = before if model is None else self._off(model)
        if not before:
            harm = tuple(self._needed(fired)) if after else ()
            return ExpectationRecord(self._data, "", after, rules=harm, outputs=outputs)
        if not after and model is not None:
            return ExpectationRecord(self._data, before, after, self._first(model), tuple(self._needed(fired)))
        questions, model = self._questions()
        first = "" if model is None else self._first(model)
        is_foreign = not questions and any(words in before and words in after for words in FOREIGN)
        return ExpectationRecord(self._data, before, after, first, questions=questions, is_foreign=is_foreign)

    def _off(self, model: Model) -> str:
        try:
            return self._truth.off(Candidate(model))
        except CannotRun as error:
            return str(error)

    def _with(self, rules: Sequence[Rule]) -> tuple[str, Model | None]:
        """How the outputs of the model differ after some rules."""
        model, _ = self._repaired(replace(self._rules, rules=tuple(rules), questions=()))
        return ("unchanged", None) if model is None else (self._off(model), model)

    def _needed(self, fired: Sequence[str]) -> Iterator[str]:
        """The rules without which the outputs differ, out of the rules that fired. If no single rule is needed, all of them."""
        whole = self._with(self._rules.rules)[0]
        found = []
        for code in fired[:MOST_TRIED] if len(fired) > 1 else ():
            without, _ = self._with([rule for rule in self._rules if rule.code != code])
            if bool(without) != bool(whole):
                found.append(code)
        yield from found or fired

    def _questions(self) -> tuple[tuple[str, ...], Model | None]:
        """The guesses that repair the model, each by itself or else all together, and the repaired model."""
        asked = self._asked()
        right: Model | None = None
        found = []
        for rule in asked[:MOST_TRIED]:
            off, model = self._with([*self._rules.rules, rule])
            if not off:
                found.append(rule.code)
                right = right or model
        if not found and len(asked) > 1:
            off, right = self._with([*self._rules.rules, *asked])
            found = [] if off else [rule.code for rule in asked]
            right = None if off else right
        return tuple(found), right

    def _asked(self) -> list[Rule]:
        """The guesses that would fire here."""
        everything = replace(self._rules, rules=(*self._rules.rules, *self._rules.questions), questions=())
        _, fired = self._repaired(everything)
        return [rule for rule in self._rules.questions if rule.code in fired]

    def _first(self, right: Model) -> str:
        """The first tensor that differs from the tensor of a correct model, or the node that does not run."""
        from rewriter.core.onnxfile.files import temporary_folder
        from rewriter.trust.proof.layer_comparison import compare_models

        with temporary_folder() as folder:
            try:
                right.write(folder / "model.onnx")
                found = compare_models(
                    Path(self._path),
                    folder / "model.onnx",
                    inputs=self._data,
                    rtol=BOUND.rtol,
                    atol=BOUND.atol,
                    memory=MEMORY,
                    layers=False,
                )
            except RewriterError:
                return ""
        for node in found.blocked[0]:
            return f"{node.node} ({node.operator}), which does not run: {node.reason}"
        if found.first is None:
            return ""
        maker = found.first.layer.pair.maker
        return f"{maker.node} ({maker.operator}): {found.first.layer.message}"
