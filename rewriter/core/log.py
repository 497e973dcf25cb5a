"""What a run did and what it did not do: the record that reports are made of, with pictures of the graph around a firing, and
where the time went.

Time is exclusive: what is spent on facts while a rule asks for them is counted as facts, and not as the rule's matching.
Without a profile none of this is there, and nothing is slower for it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from rewriter.core.record import field, record

# What a firing looked like: the nodes around it before and after, as data that pictures are drawn from.
#
# A snapshot holds texts and numbers only. It can be sent to another process, and outlives the graph it was taken of.

Role = Literal["added", "removed", "edited", "matched", "around", "plain"]


@record(frozen=True, slots=True)
class Port:
    """An operand or output of a node.

    Attributes:
        tensor: number of the tensor in the snapshot; 0 for an operand that is left out.
        name: of the tensor.
        type: "float[1,64,N]", or "" when unknown.
        constant: of a constant its element type, shape and hash, or its few values; "" for what is computed or given.
        more: of an output, how many nodes read it that the snapshot does not show.
    """

    tensor: int
    name: str
    type: str = ""
    constant: str = ""
    more: int = 0


@record(frozen=True, slots=True)
class Box:
    """A node. A node that stands before and after has the same `key` in both.

    Its `role` is what a firing did to it; "matched" is what was matched and stays, or what a picture is about, "around" what
    merely stands near a firing, and "plain" has nothing to do with one.
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
    """Some nodes of one graph; `given` and `wanted` are those of their tensors that are inputs and outputs of the graph."""

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
    """One node, or one thing that the model declares, that a firing added, removed or edited.

    Attributes:
        name: of the node (of its first output where it has none), or what is declared ("model", a tensor's name).
        before: ONNX text, null for what was added.
        after: ONNX text, null for what was removed.
    """

    name: str
    before: str | None
    after: str | None


@record(slots=True)
class Condition:
    """A `where` line at a firing.

    Attributes:
        text: the condition, as the rule has it.
        value: "true".
        found: the values of its parts that decided it ("rank(x) is 4"); empty unless an audit was asked for.
    """

    text: str
    value: str
    found: str = ""


@record(frozen=True, slots=True)
class Weight:
    """A constant that a changed node reads.

    Attributes:
        name: of the initializer, or of the output of a `Constant` node.
        type: element type and shape, "float[64,3,7,7]".
        sha256: of its values, row by row, little-endian; empty when they cannot be read.
        values: all of them, "{0, -1}", when they are few; otherwise empty.
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
        rule: code of the rule; `title`, `kind`, `phase` are the rule's.
        place: scope path ("main", "If_3.then_branch", "function local::Name").
        root: name of the matched root node (its first output where it has no name), `op` its operator.
        matched: names of all matched nodes, pattern order.
        changes: what was added, removed, edited.
        conditions: each `where` line, and what it saw.
        parents: numbers of earlier firings that made or edited something that this one matched.
        microseconds: time of match and application.
        omitted: how many further changes are not listed.
        weights: constants that the changed nodes read; none unless an audit was asked for.
        verdict: "found" when nobody judged it, as in a check; "kept" when the result was judged and is as valid as the input;
            "verified" when besides the rule promises the same numbers, and the model before and after was run on the same
            inputs and gave them. What was rolled back is listed apart.
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
    """The pattern of `rule` stands at `root`, yet it did not fire since a question has no known answer, or since it could not
    apply.

    `reason` reads "rank of x (tensor 'pool0') is unknown"; `line` is the rule's line that asked (0: the pattern itself);
    `remedy` says what would make it known, or is empty; `error` is true when the condition or the rewrite raised.
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
    """A selected rule that was not tried on this model, and why ("exporter is pytorch, the rule is for mxnet")."""

    rule: str
    reason: str


@record(slots=True)
class Stop:
    """Why a run ended before its fixpoint: `kind` is one of Budget, Generation, Growth, Cycle, Time."""

    kind: str
    message: str
    rules: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@record(slots=True)
class RolledBack:
    """A firing that was taken back since the model was worse with it: `reason` names the judge and what it said.

    `place` and `root` are empty when the rule was taken back wherever it fired in this model, which was `times`. `changes` are
    those of the firing, or of one of them.
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
"""The judge that runs a result, by its name in reports."""

RUN_FAILURE = "it loads, and fails on generated inputs: "
"""How a refusal begins that is a failure to run."""


@record(slots=True)
class Judged:
    """What a judge said of the result: `refusal` is why it refuses it, "" when it takes it, null when it could not be asked."""

    judge: str
    refusal: str | None


@record(slots=True)
class Suppressed:
    """A firing that was ready to happen and that a configuration forbids: `reason` is the user's, `origin` where it stands."""

    rule: str
    title: str
    place: str
    root: str
    op: str
    reason: str
    origin: str


@record(frozen=True, slots=True)
class Question:
    """A place where a repair would fit that only the author can decide about (`evidence: guess`); `text` asks."""

    rule: str
    title: str
    place: str
    root: str
    op: str
    text: str

    @property
    def remedy(self) -> str:
        """What to do when the answer is yes."""
        return f"if so: --select DEFAULT,{self.rule}"


@record(slots=True)
class Verification:
    """What a comparison of the model before and after showed.

    Attributes:
        verdict: "agree"; "differ" when numbers changed as the rules announce; "wrong" when they are not the recorded ones; or
            "not verified" when nothing could be compared.
        runtime: in which both ran, with its version; "" when they did not.
        inputs, outputs: how many sets of inputs, and how many outputs were compared.
        largest: the largest absolute difference that no rule announced, on ordinary inputs; None when nothing was compared.
        findings: everything there is to report, a sentence each, which begins with its own verdict.
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
    """Everything that one run says about one model.

    Attributes:
        tries: how often a rule was tried at a node, whether it fired or not.
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
        """What a notebook shows: a row for each firing."""
        return self.table(repr(self))

    def table(self, caption: str) -> str:
        """HTML of the firings, for a notebook."""
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
"""What is told apart, in the order in which it happens."""


@record(slots=True)
class Profile:
    """Seconds by stage, and of matching and rewriting by rule, too.

    Attributes:
        stages: seconds by name.
        matching, rewriting: seconds by code of the rule.
        asked, fired: how often a rule was tried at a node, and how often it fired there.
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
        """What is done inside counts as this stage."""
        self.begin(name)
        try:
            yield
        finally:
            self.end()

    def begin(self, name: str) -> None:
        """What is done from here on counts as this stage, until its `end`."""
        self._turn()
        self._open.append(name)

    def end(self) -> None:
        """Ends the stage that was begun last."""
        self._turn()
        self._open.pop()

    def _turn(self) -> None:
        """Books the time since the last turn under what was going on."""
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
        """Adds another model's."""
        for name in ("stages", "matching", "rewriting"):
            mine = getattr(self, name)
            for key, seconds in getattr(other, name).items():
                mine[key] += seconds
        self.asked.update(other.asked)
        self.fired.update(other.fired)


def stage(profile: Profile | None, name: str) -> AbstractContextManager[None]:
    """What is done inside counts as this stage, when anybody counts."""
    return nullcontext() if profile is None else profile.stage(name)
