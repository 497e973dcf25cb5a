"""The work on models and its outcomes: records that worker processes receive and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rewriter.core.engine.limits import Limits
from rewriter.core.log import Log, Profile
from rewriter.core.record import field, record, replace

if TYPE_CHECKING:
    from rewriter.app.batch.file_records import FileStamp
    from rewriter.app.configuration import Suppression
    from rewriter.app.report.document import ExpectationRecord
    from rewriter.core.engine.coverage import Coverage
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.language.rules import RuleSet
    from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict
    from rewriter.trust.difference import Difference
    from rewriter.trust.plans.plan_file import Proposal


@record(frozen=True, slots=True)
class Job:
    """One model to work on.

    Attributes:
        target: where the result goes; None writes nothing.
        copy: writes it as it is without trying any rule.
        variant: the number of the variant of the work, where there are any.
        replaces: an existing result is an older one of this very model.
        adopts: an existing result is left, and counts, where it is what would be written.
    """

    path: str
    target: str | None = None
    copy: bool = False
    variant: int = 0
    replaces: bool = False
    adopts: bool = False


LEVELS = {"basic": "BASIC", "all": "OPTIMIZE"}
"""The selector of each level of `optimize`."""


@record(frozen=True, slots=True)
class Reading:
    """What a model is when the rules begin, and what is known of it beside its file.

    Attributes:
        source: "auto", "none" or a file.
        static: inputs that get fixed shapes first.
    """

    source: str = "auto"
    constant_inputs: Literal["auto", "yes", "no"] = "auto"
    static: tuple[tuple[str, Sequence[int]], ...] = ()


@record(frozen=True, slots=True)
class Rewriting:
    """Which rules run, and how far they may go.

    Attributes:
        rules: the selected ones, with their settings.
        keep: False is a check: every edit is taken back.
        keep_partial: what the rules did is written although the clock ended the run.
        tidy: also remove what was dead before any rule fired.
        suppress: firings that are not to happen, by the configuration.
        plan: the only firings that may happen, with the name of the file that says so; None: all may.
    """

    rules: RuleSet
    limits: Limits = field(default_factory=Limits)
    keep: bool = True
    keep_partial: bool = False
    tidy: bool = False
    suppress: tuple[Suppression, ...] = ()
    plan: tuple[str, tuple[Proposal, ...]] | None = None


@record(frozen=True, slots=True)
class Checking:
    """How models and results are checked.

    Attributes:
        runtime: whether ONNX Runtime loads them: of a check the model, of a repair the result. "auto": models of moderate size;
            "yes": up to the size at which results are checked.
        moderate: "auto" leaves out larger models.
        before: a repair also loads the model as it is.
        verify: also compare the numbers before and after; `inputs` is an .npz file with the model's inputs, None makes them up.
        expect: the file with the outputs of the framework, with `{dir}` and `{name}` for the folder and the name of the model.
        consumers: that also load the model and the result of a repair.
    """

    runtime: Literal["no", "auto", "yes"] = "no"
    moderate: bool = True
    before: bool = False
    verify: bool = False
    inputs: str | None = None
    expect: str | None = None
    consumers: tuple[Consumer, ...] = ()


@record(frozen=True, slots=True)
class Writing:
    """How results are written.

    Attributes:
        force: existing files may be replaced.
        stamp: a model that changes gets a record of the run; `full_record`: one that `undo` can do with.
    """

    force: bool = False
    stamp: bool = False
    full_record: bool = False

    def replaces(self, job: Job) -> bool:
        """Whether the result of a job may take the place of an existing file."""
        return self.force or job.replaces


@record(frozen=True, slots=True)
class Notes:
    """What else is found out and noted; no result depends on it.

    Attributes:
        count: the outcome says how many nodes the model and the result have.
        diff: also compare the result with what it was.
        profile: book where the time goes.
        detail: the log has the texts of nodes and conditions.
        coverage: where to count what rules did, for jobs done in this process.
        journal: files are hashed, to be noted in a journal.
        audit: what a report wants to know of firings besides; files are then hashed, and the log has its texts, too. None: no
            report is made.
    """

    count: bool = False
    diff: bool = False
    profile: bool = False
    detail: bool = False
    coverage: Coverage | None = None
    journal: bool = False
    audit: FiringAudit | None = None

    @property
    def stamped(self) -> bool:
        """Whether it is noted what the files were that are read and written."""
        return self.journal or self.audit is not None


@record(frozen=True, slots=True)
class Planned:
    """A step of a recipe; `rules` are those that it runs, None where it runs none."""

    action: str
    rules: RuleSet | None


@record(frozen=True, slots=True)
class Work:
    """What all jobs of a call share: a record for each stage of the work on a model.

    Attributes:
        seconds: for one model; None for no limit.
        memory: bytes for the process that works on it, and for the process of its checks.
        steps: that follow a repair until the consumers accept its result.
        variants: the same work with other settings, for models of which a configuration says something of their own.
    """

    rewriting: Rewriting
    reading: Reading = field(default_factory=Reading)
    checking: Checking = field(default_factory=Checking)
    writing: Writing = field(default_factory=Writing)
    notes: Notes = field(default_factory=Notes)
    seconds: float | None = None
    memory: int | None = None
    steps: tuple[Planned, ...] = ()
    variants: tuple[Work, ...] = ()

    @property
    def runs_models(self) -> bool:
        """Whether models that load are run on made-up inputs: in a check, unless there are the framework's own."""
        return not self.rewriting.keep and self.checking.expect is None

    @property
    def asks_before(self) -> bool:
        """Whether ONNX Runtime is asked about the model as it is."""
        return self.checking.runtime != "no" and (self.checking.before or not self.rewriting.keep)

    def everywhere(self, change: Callable[[Work], Work]) -> Work:
        """The work with the same change in itself and in its variants."""
        return replace(change(self), variants=tuple(map(change, self.variants)))


@record(slots=True)
class Outcome:
    """What became of one job.

    Attributes:
        output: the file that was written, None for none.
        log: of the run, None when there was none.
        late: the clock ended the work on it, so that nothing was written.
        error: why the model failed, "" otherwise; `crash` is the traceback when that was a mistake of this program.
        constant_inputs: whether initializers that are also inputs were taken as constants; None when there are none.
        tidied: how many nodes, initializers and imports were removed because nothing used them.
        static: whether inputs got fixed shapes.
        nodes: of the model and of the result, where they were to be counted.
        differences: of the result from the model as it was, when they were asked for.
        refusal: why ONNX Runtime does not load the model as it is, "" when it does, None when it was not asked.
        remaining: why it does not load the result of a repair, likewise.
        unjudged: judges that did not say whether they take the model or the result: a sentence of each.
        expectation: what the framework's own numbers say of it.
        asked: what consumers make of the model as it is; `asked_after`: of the result of a repair.
        steps: of a recipe, that the result needed.
        stamps: what was read and written, when a report or a journal is wanted.
        profile: where the time went, when that is wanted.
    """

    path: str
    output: str | None = None
    log: Log | None = None
    error: str = ""
    late: bool = False
    crash: str = ""
    exporter: str = ""
    source: str | None = None
    constant_inputs: bool | None = None
    tidied: int = 0
    static: bool = False
    nodes: tuple[int, int] | None = None
    differences: list[Difference] = field(default_factory=list)
    refusal: str | None = None
    remaining: str | None = None
    unjudged: list[str] = field(default_factory=list)
    expectation: ExpectationRecord | None = None
    asked: tuple[Verdict, ...] = ()
    asked_after: tuple[Verdict, ...] = ()
    steps: tuple[str, ...] = ()
    stamps: list[FileStamp] = field(default_factory=list)
    profile: Profile | None = None
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        return (
            not self.error and self.log is not None and (self.log.changed or self.tidied > 0 or self.static or bool(self.steps))
        )

    @property
    def unfinished(self) -> bool:
        """Whether something is left: a rule failed, the run was stopped, a rewrite was rolled back, or the numbers are not
        those that the framework computed.
        """
        log = self.log
        if log is None:
            return False
        wrong = log.verification is not None and log.verification.verdict == "wrong"
        return wrong or bool(log.stops or log.rolled_back) or any(blocked.error for blocked in log.blocked)
