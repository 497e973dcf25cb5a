"""The record of a run, from which reports are made: firings, blocked rules, pictures of the graph around a firing, and times.

Times are exclusive: the time of facts that a rule needs counts as facts, and not as the rule's matching. Without a profile no
time is measured.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from rewriter.core.record import field, record

# The nodes around a firing before and after it, as data for pictures.
#
# A snapshot holds only texts and numbers, so it can be sent to another process and kept without the graph.

Role = Literal["added", "removed", "edited", "matched", "around", "plain"]


@record(frozen=True, slots=True)
class Port:
    """An operand or output of a node.

    Attributes:
        tensor: number of the tensor in the snapshot; 0 for an operand that is left out.
        name: name of the tensor.
        type: "float[1,64,N]", or "" if it is unknown.
        constant: element type, shape and hash of a constant, or its few values; "" for computed tensors and inputs.
        more: for an output, the number of its readers that the snapshot does not show.
    """

    tensor: int
    name: str
    type: str = ""
    constant: str = ""
    more: int = 0


@record(frozen=True, slots=True)
class Box:
    """A node. A node that exists before and after the firing has the same `key` in both.

    `role` is the effect of the firing on the node. "matched" nodes were matched and stay, or are the subject of the picture.
    "around" nodes are near the firing. "plain" nodes belong to a picture without a firing.
    """

    key: int
    op: str
    name: str
    role: Role
    attributes: tuple[tuple[str, str], ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@record(frozen=True, slots=True)
class View:
    """Some nodes of one graph. `given` are the graph inputs among their tensors, `wanted` the graph outputs."""

    boxes: tuple[Box, ...] = ()
    given: tuple[Port, ...] = ()
    wanted: tuple[Port, ...] = ()


@record(frozen=True, slots=True)
class Snapshot:
    """The surroundings of a firing before and after it."""

    before: View
    after: View


@record(slots=True)
class Change:
    """A node or a declaration of the model that a firing added, removed or edited.

    Attributes:
        name: name of the node (of its first output if the node has none), or of the declaration ("model", a tensor's name).
        before: ONNX text, null if it was added.
        after: ONNX text, null if it was removed.
    """

    name: str
    before: str | None
    after: str | None


@record(slots=True)
class Condition:
    """A `where` line at a firing.

    Attributes:
        text: the condition, as in the rule.
        value: "true".
        found: the values that decided it ("rank(x) is 4"); empty without an audit.
    """

    text: str
    value: str
    found: str = ""


@record(frozen=True, slots=True)
class Weight:
    """A constant that a changed node reads.

    Attributes:
        name: name of the initializer, or of the output of a `Constant` node.
        type: element type and shape, "float[64,3,7,7]".
        sha256: SHA-256 of its values, row by row, little-endian; empty if they cannot be read.
        values: all values, "{0, -1}", if they are few; otherwise empty.
        used: "before" the firing, "after" it, or "both".
    """

    name: str
    type: str
    sha256: str
    values: str
    used: str

    @property
    def text(self) -> str:
        """`float[64,3,7,7]#1a2b3c4d5e6f`."""
        return f"{self.type}#{self.sha256[:12] or '?'}"


@record(slots=True)
class Firing:
    """One application of one rule.

    Attributes:
        number: position in the run, from 1.
        rule: code of the rule. `title`, `kind` and `phase` are the rule's own.
        place: scope path ("main", "If_3.then_branch", "function local::Name").
        root: name of the matched root node (or of its first output if the node has no name). `op` is its operator.
        matched: names of all matched nodes, in the order of the pattern.
        changes: the nodes and declarations that were added, removed or edited.
        conditions: each `where` line, with its values.
        parents: numbers of earlier firings that made or edited a node that this one matched.
        microseconds: time of match and application.
        omitted: number of further changes that are not listed.
        weights: constants that the changed nodes read; empty without an audit.
        verdict: "found" if the result was not checked, as in `check`. "kept" if the result was checked and is as valid as the
            input. "verified" if the rule also promises the same outputs, and the models before and after returned them for
            the same inputs. Firings that were rolled back are listed separately.
    """

    number: int
    rule: str
    title: str
    kind: str
    phase: str
    place: str
    root: str
    op: str
    matched: tuple[str, ...]
    changes: tuple[Change, ...]
    conditions: tuple[Condition, ...]
    parents: tuple[int, ...]
    microseconds: float
    omitted: int = 0
    weights: tuple[Weight, ...] = ()
    verdict: str = "found"
    snapshot: Snapshot | None = field(default=None, metadata={"shown": False})


@record(slots=True)
class Blocked:
    """The pattern of `rule` matches at `root`, but the rule did not fire: a fact is unknown, or the rewrite was not possible.

    `reason` is a text such as "rank of x (tensor 'pool0') is unknown". `line` is the line of the condition in the rule (0: the
    pattern itself). `remedy` names a way to make the fact known, or is empty. `error` is true if the condition or the rewrite
    raised an error.
    """

    rule: str
    title: str
    place: str
    root: str
    op: str
    reason: str
    line: int = 0
    remedy: str = ""
    error: bool = False


@record(frozen=True, slots=True)
class Skipped:
    """A selected rule that was not tried on this model, with the reason ("exporter is pytorch, the rule is for mxnet")."""

    rule: str
    reason: str


@record(slots=True)
class Stop:
    """The reason why a run was stopped early. `kind` is one of Budget, Generation, Growth, Cycle, Time."""

    kind: str
    message: str
    rules: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@record(slots=True)
class RolledBack:
    """A firing that was rolled back because it made the model worse. `reason` names the check and its error message.

    `place` and `root` are empty if all firings of the rule in this model were rolled back; `times` is their number. `changes`
    are the changes of the firing, or of one of them.
    """

    rule: str
    title: str
    kind: str
    place: str
    root: str
    op: str
    reason: str
    times: int = 1
    changes: tuple[Change, ...] = ()


RUN = "ONNX Runtime, run"
"""The name in reports of the check that runs a result."""

RUN_FAILURE = "it loads, and fails on generated inputs: "
"""The beginning of the error message of a model that loads and does not run."""


@record(slots=True)
class Judged:
    """The verdict of a check on the result. `refusal` is its error message, "" if the check passed, null if it did not run."""

    judge: str
    refusal: str | None


@record(slots=True)
class Suppressed:
    """A firing that the configuration suppresses. `reason` is the user's reason, `origin` its place in the configuration."""

    rule: str
    title: str
    place: str
    root: str
    op: str
    reason: str
    origin: str


@record(frozen=True, slots=True)
class Question:
    """A place where a repair with `evidence: guess` matches. `text` is the question that you decide."""

    rule: str
    title: str
    place: str
    root: str
    op: str
    text: str

    @property
    def remedy(self) -> str:
        """The option to pass if the answer is yes."""
        return f"if so: --select DEFAULT,{self.rule}"


@record(slots=True)
class Verification:
    """The result of comparing the outputs of the model before and after.

    Attributes:
        verdict: "agree"; "differ" if outputs changed as the rules announce; "wrong" if they differ from the recorded outputs;
            "not verified" if no output could be compared.
        runtime: the runtime that ran both models, with its version; "" if they did not run.
        inputs, outputs: number of sets of inputs, and of outputs that were compared.
        largest: the largest absolute difference that no rule announced, on ordinary inputs; None if no output was compared.
        findings: the sentences to report. Each begins with its own verdict.
        verified: the numbers of the firings whose promise was checked and kept.
    """

    verdict: str
    runtime: str = ""
    inputs: int = 0
    outputs: int = 0
    largest: float | None = None
    findings: tuple[str, ...] = ()
    verified: tuple[int, ...] = ()


@record(slots=True)
class Log:
    """The record of one run on one model.

    Attributes:
        tries: number of attempts of a rule at a node, with or without a firing.
    """

    firings: list[Firing] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rolled_back: list[RolledBack] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    verification: Verification | None = None
    suppressed: list[Suppressed] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    tries: int = 0

    def __repr__(self) -> str:
        counts = ", ".join(f"{code} {number}" for code, number in sorted(self.counts.items()))
        return f"<Log {counts or 'no firing'}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: a row for each firing."""
        return self.table(repr(self))

    def table(self, caption: str) -> str:
        """HTML table of the firings, for notebooks."""
        from rewriter.core.notebook import table

        places = [one.root if one.place in ("", "main") else f"{one.place}: {one.root}" for one in self.firings]
        rows = [(one.rule, place, one.op, one.title) for one, place in zip(self.firings, places, strict=True)]
        return table(caption, ("rule", "node", "operator", "what was wrong"), rows)

    @property
    def counts(self) -> Counter[str]:
        """Firings by rule code."""
        return Counter(firing.rule for firing in self.firings)

    @property
    def changed(self) -> bool:
        """Whether any rule fired."""
        return bool(self.firings)


STAGES = (
    "load",
    "judge",
    "index",
    "rules made ready",
    "facts",
    "match",
    "rewrite",
    "rest of the run",
    "guard",
    "tidy",
    "stamp",
    "save",
)
"""The stages whose times are measured, in their order."""


@record(slots=True)
class Profile:
    """Seconds by stage, and seconds of matching and rewriting by rule.

    Attributes:
        stages: seconds by name.
        matching, rewriting: seconds by code of the rule.
        asked, fired: number of attempts and of firings, by code of the rule.
    """

    stages: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    matching: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rewriting: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    asked: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time inside as this stage."""
        self.begin(name)
        try:
            yield
        finally:
            self.end()

    def begin(self, name: str) -> None:
        """Counts the time from now on as this stage, until its `end`."""
        self._turn()
        self._open.append(name)

    def end(self) -> None:
        """Ends the stage that was begun last."""
        self._turn()
        self._open.pop()

    def _turn(self) -> None:
        """Books the time since the last turn under the present stage."""
        now = time.perf_counter()
        if self._open:
            name, _, code = self._open[-1].partition(" of ")
            if code and name in ("match", "rewrite"):
                (self.matching if name == "match" else self.rewriting)[code] += now - self._since
                self.stages[name] += now - self._since
            else:
                self.stages[self._open[-1]] += now - self._since
        self._since = now

    def add(self, other: Profile) -> None:
        """Adds the profile of another model."""
        for name in ("stages", "matching", "rewriting"):
            mine = getattr(self, name)
            for key, seconds in getattr(other, name).items():
                mine[key] += seconds
        self.asked.update(other.asked)
        self.fired.update(other.fired)


def stage(profile: Profile | None, name: str) -> AbstractContextManager[None]:
    """Counts the time inside as this stage, if there is a profile."""
    return nullcontext() if profile is None else profile.stage(name)
