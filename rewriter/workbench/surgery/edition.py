"""`rewriter edit`: edits of a model in the given order, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.trust.proof.batches import batch_difference
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery import edit_inputs, edit_names, edit_nodes
from rewriter.workbench.surgery.editing import Editing
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import parsed_types
from rewriter.workbench.surgery.same_numbers import Agreement, Step, agreement

Edit = tuple[str, str]
"""An edit: the name of its option without the dashes, and the option's value."""

KINDS: dict[str, Callable[[Editing, str], None]] = {
    "rename": edit_names.rename,
    "add-output": edit_names.add_output,
    "drop-output": edit_names.drop_output,
    "drop": edit_nodes.drop,
    "insert-after": edit_nodes.insert_after,
    "replace": edit_nodes.replace,
    "set": edit_nodes.set_attribute,
    "batch": edit_inputs.batch,
    "dtype": edit_inputs.dtype,
    "constant": edit_nodes.constant,
    "free": edit_nodes.free,
    "set-weight": edit_nodes.set_weight,
    "strip": edit_names.strip,
    "doc": edit_names.doc,
    "meta": edit_names.meta,
}
TYPE = "type"
"""The option that is no edit, but sets the type of a new output."""

TOGETHER = {"shape": edit_inputs.shapes}
"""Edits that are done together if several follow each other."""


def edit(model: Model, edits: Iterable[Edit], *, with_children: bool = False) -> Editing:
    """Edits a model; if an edit fails, the model may be half edited.

    Raises:
        RewriterError: an edit cannot be done; the text says why.
    """
    wanted = list(edits)
    if not all(isinstance(one, tuple) and len(one) == 2 and all(isinstance(part, str) for part in one) for one in wanted):
        raise RewriterError(f'an edit is a kind and a text, such as ("rename", "data=image"), not {wanted!r}')
    if with_children and "drop" not in (kind for kind, _ in wanted):
        raise RewriterError("--with-children needs --drop; pass both")
    editing = Editing(model, with_children=with_children)
    editing.types = parsed_types(text for kind, text in wanted if kind == TYPE)
    for kind, group in groupby((one for one in wanted if one[0] != TYPE), lambda one: one[0]):
        texts = [text for _, text in group]
        try:
            if kind in TOGETHER:
                TOGETHER[kind](editing, texts)
                editing.settle()
                continue
            for text in texts:
                KINDS[kind](editing, text)
                editing.settle()
        except KeyError:
            raise RewriterError(f"there is no edit {kind!r}; the edits are {', '.join([*KINDS, *TOGETHER])}") from None
        except RewriterError as error:
            raise RewriterError(f"--{kind}: {error}") from error
    _check_types_used(editing)
    return editing


def _check_types_used(editing: Editing) -> None:
    """Raises RewriterError for a type that no new output has taken: its name is wrong, or its `--add-output` is missing."""
    unused = [name for name in editing.types if name not in editing.new_outputs]
    if unused and unused[0] not in editing.parts.tensors:
        raise RewriterError(f"--{TYPE}: {editing.parts.missing(unused[0], 'tensor', editing.parts.tensors)}")
    if unused:
        raise RewriterError(f"--{TYPE}: {unused[0]!r} is no new output; --add-output {unused[0]} makes it one")


def edited(source: Opened, edits: Sequence[Edit], *, with_children: bool = False, checks: Checks | None = None) -> Surgery:
    """An edited model, checked and recorded.

    Raises:
        RewriterError: an edit cannot be done, or the result is less valid than the model was.
    """
    done = edit(source.read(), edits, with_children=with_children)
    command = command_text("edit", [(f"--{kind}", [text]) for kind, text in edits], with_children=with_children)

    def numbers(candidate: Candidate, most: int) -> Agreement:
        return _agreement(source, done, candidate, most)

    return finish(done.model, [source], command, done.did, done.notes, checks, numbers if done.same else None)


def _agreement(source: Opened, done: Editing, result: Candidate, most: int) -> Agreement:
    before = Candidate(source.read())
    wanted = [done.renamed.get(output.name, output.name) for output in result.proto.graph.output]
    step = Step(result, done.renamed, done.renamed)
    found = agreement(before, [Step(before)], [step], wanted, most=most)
    if found.ran and not found.difference:
        try:
            return Agreement(True, batch_difference(before, result) or "")
        except RewriterError as error:
            return Agreement(False, reason=str(error))
    return found
