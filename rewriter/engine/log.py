"""What a run did and what it did not do: the record that reports are made of.

Counting is free; text (nodes before and after) is made only for firings, of nodes that are small by nature: a weight is shown
as its element type and shape, never by its values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Change:
    """One node or graph part that a firing added, removed or edited, as ONNX text; `before`/`after` None where there is
    none.
    """

    name: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Firing:
    """One application of one rule.

    Attributes:
        number: position in the run, from 1.
        rule: code of the rule; `title`, `kind`, `phase` are the rule's.
        place: scope path ("main", "If_3.then_branch", "function local::Name").
        root: name of the matched root node (its first output where it has no name), `op` its operator.
        matched: names of all matched nodes, pattern order.
        changes: what was added, removed, edited.
        conditions: text of each `where` line and the value that it had ("true").
        parents: numbers of earlier firings that made or edited something that this one matched.
        microseconds: time of match and application.
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
    conditions: tuple[tuple[str, str], ...]
    parents: tuple[int, ...]
    microseconds: float


@dataclass(slots=True)
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


@dataclass(slots=True)
class Skipped:
    """A selected rule that was not tried on this model, and why ("exporter is pytorch, the rule is for mxnet")."""

    rule: str
    reason: str


@dataclass(slots=True)
class Stop:
    """Why a run ended before its fixpoint: `kind` is one of Budget, Generation, Cycle, Time."""

    kind: str
    message: str
    rules: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class RolledBack:
    """A firing that was taken back since the model was worse with it: `reason` names the judge and what it said.

    `place` and `root` are empty when the rule was taken back wherever it fired in this model, which was `times`.
    """

    rule: str
    title: str
    kind: str
    place: str
    root: str
    op: str
    reason: str
    times: int = 1


@dataclass(slots=True)
class Verification:
    """What a comparison of the model before and after showed.

    Attributes:
        verdict: "agree", "differ" (as the kinds of the rules that fired say), or "not verified".
        runtime: in which both ran, with its version; "" when they did not.
        inputs, outputs: how many were compared.
        largest: the largest absolute difference that no rule announced; None when nothing was compared.
        findings: everything there is to say, a sentence each.
    """

    verdict: str
    runtime: str = ""
    inputs: int = 0
    outputs: int = 0
    largest: float | None = None
    findings: tuple[str, ...] = ()


@dataclass(slots=True)
class Log:
    """Everything that one run says about one model."""

    firings: list[Firing] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rolled_back: list[RolledBack] = field(default_factory=list)
    verification: Verification | None = None

    @property
    def counts(self) -> Counter[str]:
        """Firings by rule code."""
        return Counter(firing.rule for firing in self.firings)

    @property
    def changed(self) -> bool:
        """Whether any rule fired."""
        return bool(self.firings)
