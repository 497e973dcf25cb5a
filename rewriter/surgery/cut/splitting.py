"""`rewriter split`: a model as several that run one after the other, checked against the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rewriter.conditions.context import Knowledge
from rewriter.engine.run import run
from rewriter.errors import RewriterError
from rewriter.language.rules import RuleSet
from rewriter.proof.kernels import has_kernel
from rewriter.proof.models.validity import Candidate
from rewriter.record import record
from rewriter.report.style import counted
from rewriter.surgery.command_text import command_text
from rewriter.surgery.cut.extraction import same_as_whole
from rewriter.surgery.cut.split import Cuts, Part, Splitter, take
from rewriter.surgery.data_files import save
from rewriter.surgery.finish import Checks, Surgery, finish, size_of_runs
from rewriter.surgery.opened import Opened
from rewriter.surgery.ports import parsed_types

PLACE = "{}"
"""Where the number of a part stands in the name of its file."""

_SHOWN = 4  # tensors of a part


@record(frozen=True, slots=True)
class Split:
    """The parts of a model.

    Attributes:
        parts: in the order in which they run.
        plan: a line for each.
        notes: what else is to be said.
        same: whether the parts ran and gave what the whole gives; None when they were not run.
        joined: the options with which `merge` makes the whole of the parts again.
    """

    parts: list[Surgery]
    plan: list[str]
    notes: list[str]
    same: bool | None
    joined: list[str]


def split(
    source: Opened, cuts: Cuts, types: Sequence[str] = (), checks: Checks | None = None, rules: RuleSet | None = None
) -> Split:
    """Splits a model; with `rules` before each place where one of them would fire.

    Raises:
        RewriterError: it cannot be split so, or the parts do not give what the whole gives.
    """
    checks = checks or Checks()
    if rules is not None:
        cuts = Cuts(places=_places(source, rules))
    splitter = Splitter(source.read(), cuts)
    planned = splitter.plan()
    known = splitter.types(planned, parsed_types(types))
    inputs, outputs = ([tensor.name for tensor in side] for side in (splitter.graph.inputs, splitter.graph.outputs))
    options = [("--at", list(cuts.at)), ("--every", [str(cuts.every)] if cuts.every else [])]
    options.append(("--rule", [rule.code for rule in rules or ()]))
    options.append(("--max-size", [str(cuts.max_size)] if cuts.max_size else []))
    del splitter
    if checks.stamp:
        source.digest()  # once for all parts
    parts, notes = [], list[str]()
    for number, part in enumerate(planned, 1):
        model = source.read()
        take(model, part, known)
        command = command_text("split", [*options, ("--part", [f"{number}/{len(planned)}"])])
        parts.append(finish(model, [source], command, [], [], checks))
        notes += [f"part {number}: {note}" for note in parts[-1].notes]
    same = None
    if checks.runtime != "no" and not notes:
        candidates = [Candidate(part.model) for part in parts]
        found = same_as_whole(source, candidates, [], outputs, size_of_runs(checks))
        if found.difference:
            raise RewriterError(f"the parts compute something else, so nothing is written: {found.difference}")
        same = True if found.ran else None
        if not found.ran:
            notes.append(f"the numbers were not compared: {found.reason}")
    read = {name for part in planned for name in part.inputs}
    if unread := [name for name in inputs if name not in read]:
        notes.append(f"in no part, since nothing reads it: {_names(unread)}")
    plan = [_line(number, part) for number, part in enumerate(planned, 1)]
    return Split(parts, plan, notes, same, _joined(planned, inputs, outputs))


def _joined(parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """What has to be said to `merge`: inputs that several parts read, that parts have nothing to do with each other, and where
    inputs and outputs come in another order.
    """
    read = Counter(name for part in parts for name in part.inputs)
    made = {name for part in parts for name in part.outputs}
    given = list(dict.fromkeys(name for name in read if name not in made))
    left = [name for part in parts for name in part.outputs if name not in read]
    found = [word for name in given if read[name] > 1 for word in ("--share", name)]
    if len(parts) > 1 and not found and made.isdisjoint(read):
        found = ["--beside"]
    if given != (wanted := [name for name in inputs if name in read]):
        found += ["--inputs", ",".join(wanted)]
    return found if left == list(outputs) else [*found, "--outputs", ",".join(outputs)]


def _places(source: Opened, rules: RuleSet) -> list[tuple[str, ...]]:
    """Names of the nodes that rules match where they would fire. Raises RewriterError where there are none."""
    model = source.read()
    log = run(model.graph, rules, Knowledge(overridable=model.overridable, has_kernel=has_kernel), keep=False)
    places = [firing.matched for firing in log.firings if firing.place == "main"]
    if not places:
        raise RewriterError(f"--rule {', '.join(rule.code for rule in rules)}: it fires nowhere in the main graph")
    return places


def files_of(pattern: str, parts: int) -> list[Path]:
    """The files of so many parts. Raises RewriterError when the pattern has no place for a number."""
    if pattern.count(PLACE) != 1:
        raise RewriterError(f"-o {pattern}: has to say where the number of a part stands, as part{PLACE}.onnx")
    return [Path(pattern.replace(PLACE, str(number))) for number in range(1, parts + 1)]


def write_parts(parts: Sequence[Surgery], files: Sequence[Path], *, force: bool) -> list[Path]:
    """Writes all parts, or none. Errors as for `save`."""
    written: list[Path] = []
    existed = {file for file in files if file.exists()}
    try:
        for part, file in zip(parts, files, strict=True):
            written += save(part.model, file, force=force)
    except BaseException:
        for file in written:
            if file not in existed:
                file.unlink(missing_ok=True)
        raise
    return written


def _line(number: int, part: Part) -> str:
    size = f"{part.weights / 2**20:.1f} MiB" if part.weights >= 1 << 20 else f"{part.weights:,} bytes"
    return (
        f"part {number}: {counted(len(part.nodes), 'node')}, {size} of weights: {_names(part.inputs)} -> {_names(part.outputs)}"
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"
