"""What is known of a rule that fires in a model, or does not: the records that explanations are made of."""

from __future__ import annotations

from typing import Literal

from rewriter.log.records import Change, Condition
from rewriter.record import record

Stage = Literal["place", "pattern", "private", "where", "rewrite"]
STAGES: tuple[Stage, ...] = ("place", "pattern", "private", "where", "rewrite")

Depth = tuple[int, int, int]


@record(frozen=True, slots=True)
class FirstNo:
    """One question of a rule that was answered with no, with "unknown", or with an error.

    Attributes:
        stage: which part of the rule asked; the parts are asked in the order of `STAGES`.
        kind: what sort of question: "opset", "inside", "operator", "operands", "distinct", "same node", "scope", "outputs",
            "unused output", "attribute", "operand", "made by", "consumer", "constant", "value", "same", "type", "rank",
            "dimension", "run", "private", "where", "rewrite", "search", "interface".
        depth: how far the rule had come; the larger, the nearer to firing.
        asked: the question, mostly in the rule's own words.
        found: what the model has there.
        line: line of the rule file that asks.
        node: name of the node at which it was asked, "" for none.
        unknown: whether the answer is not "no" but "unknown"; `remedy` says what would make it known, or is "".
        error: whether asking raised an error.
    """

    stage: Stage
    kind: str
    depth: Depth
    asked: str
    found: str
    line: int = 0
    node: str = ""
    unknown: bool = False
    remedy: str = ""
    error: bool = False


@record(frozen=True, slots=True)
class RuleAnswer:
    """What became of the rule at one place.

    Attributes:
        place: path of the graph; `node` and `op` are those of the root, "" for a rule on the model as a whole.
        fires: whether it fires there, with the names of the `matched` nodes, `changes` and the values of its `conditions`.
        question: the deepest question that kept it from firing, None where it fires.
    """

    place: str
    node: str
    op: str
    fires: bool
    question: FirstNo | None = None
    matched: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    conditions: tuple[Condition, ...] = ()


@record(frozen=True, slots=True)
class Later:
    """A firing that only a run of all selected rules brings: `after` are the firings (rule, node) that made way for it."""

    place: str
    node: str
    op: str
    after: tuple[tuple[str, str], ...]


@record(frozen=True, slots=True)
class Earlier:
    """A place where the rule would fire, had not another rule fired there first."""

    place: str
    node: str
    rule: str
    at: str


@record(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about one rule and one model.

    Attributes:
        rule, title, path, line: the rule and where it stands.
        guards: why a run does not try the rule on this model at all; places are explained as if it did.
        ops: the operators at which the rule stands, "" for a rule on the model as a whole.
        answers: one for each place, those that fire first, then the near misses by depth.
        later, earlier: what a run of all selected rules changes in this.
        settled: (place, node) where the fact that was unknown is known in that run, and the rule does not fire.
        stops: why that run ended before its time.
    """

    rule: str
    title: str
    path: str
    line: int
    guards: tuple[str, ...]
    ops: tuple[str, ...]
    answers: tuple[RuleAnswer, ...]
    later: tuple[Later, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    settled: tuple[tuple[str, str], ...] = ()
    stops: tuple[str, ...] = ()
