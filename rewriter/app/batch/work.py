"""The work on models and its outcomes: records that worker processes receive and return; and which paths are no files of this
machine. Every command imports this module; few commands need `remote`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rewriter.core.engine.limits import Limits
from rewriter.core.log import Log, Profile
from rewriter.core.record import field, record, replace

if TYPE_CHECKING:
    from rewriter.app.configuration import Suppression
    from rewriter.app.report.document import ExpectationRecord
    from rewriter.core.engine.attempt import Coverage
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.language.rules import RuleSet
    from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict
    from rewriter.trust.difference import Difference
    from rewriter.trust.plan_file import Proposal


STDIN = "-"
STDOUT = "-"

_NAMES: dict[str, str] = {}
"""The names that users know for downloaded files."""


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, as s3://bucket/net.onnx or zip://net.onnx::https://example.org/models.zip."""
    return path is not None and "://" in path


def is_remote(path: str | None) -> bool:
    """Whether a path is no file, so that the model has to be transferred: a URL, or the standard input."""
    return path == STDIN or is_url(path)


def called(path: str, name: str) -> None:
    """Remembers the name that users know for a file."""
    _NAMES[path] = name


def with_names(text: str, names: Mapping[str, str] = _NAMES) -> str:
    """A text with the names that users know in place of the paths of downloaded files."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text


@record(frozen=True, slots=True)
class Job:
    """One model to work on.

    Attributes:
        target: where the result goes; None writes nothing.
        copy: writes it as it is without trying any rule.
        variant: the number of the variant of the work, if there are any.
        replaces: an existing result is an older result of this model.
        adopts: an existing result is kept as the result of the job if the same bytes would be written.
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
    """How a model is read before the rules begin, and what is known of it in addition to its file.

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
        keep: False is a check: every edit is rolled back.
        keep_partial: the rewrites are written even if the clock ended the run.
        tidy: also remove what was dead before any rule fired.
        suppress: firings that the configuration forbids.
        plan: the only firings that may happen, with the name of the plan's file; None: all may happen.
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
        runtime: whether ONNX Runtime loads the model of a check, and the result of a repair. "auto": models of moderate size;
            "yes": up to the size at which results are checked.
        moderate: "auto" leaves out larger models.
        before: before a repair, ONNX Runtime also loads the model.
        verify: also compare the outputs before and after. `inputs` is an .npz file with the model's inputs; None: generated.
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
        stamp: a model that changes gets a record of the run; `full_record`: a record that is sufficient for `undo`.
    """

    force: bool = False
    stamp: bool = False
    full_record: bool = False

    def replaces(self, job: Job) -> bool:
        """Whether the result of a job may replace an existing file."""
        return self.force or job.replaces


@record(frozen=True, slots=True)
class Notes:
    """What else is noted; no result depends on these fields.

    Attributes:
        count: the outcome says how many nodes the model and the result have.
        diff: also compare the result with the original.
        profile: measure the time of each stage.
        detail: the log has the texts of nodes and conditions.
        coverage: the counts of rules, for jobs done in this process.
        journal: files are hashed, to be noted in a journal.
        audit: what a report also needs of firings; files are then hashed, and the log also has its texts. None: no report is
            made.
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
        """Whether the files that are read and written are noted."""
        return self.journal or self.audit is not None


@record(frozen=True, slots=True)
class Planned:
    """A step of a recipe; `rules` are the rules that it runs, None if it runs none."""

    action: str
    rules: RuleSet | None


@record(frozen=True, slots=True)
class Work:
    """The settings that all jobs of a call share: a record for each stage of the work on a model.

    Attributes:
        seconds: for one model; None for no limit.
        memory: bytes for the process that works on it, and for the process of its checks.
        steps: that follow a repair until the consumers accept its result.
        variants: the same work with other settings, for models that have settings of their own in a configuration.
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
        """Whether models that load are run on generated inputs: in a check, unless the framework's inputs are known."""
        return not self.rewriting.keep and self.checking.expect is None

    @property
    def asks_before(self) -> bool:
        """Whether ONNX Runtime loads the model as it is."""
        return self.checking.runtime != "no" and (self.checking.before or not self.rewriting.keep)

    def everywhere(self, change: Callable[[Work], Work]) -> Work:
        """The work with the same change in itself and in its variants."""
        return replace(change(self), variants=tuple(map(change, self.variants)))


Stat = tuple[int, int, int, int]
"""Size, times of change of the content and of the file, in nanoseconds, and number of the file on its disk."""

StampRole = Literal["input", "input data", "source", "beside", "output", "output data"]


@record(frozen=True, slots=True)
class FileStamp:
    """A file as it was when a job read or wrote it.

    Attributes:
        role: as in reports; "beside" is a framework's file that was found and not used.
        path: as in the call; of data, as the model refers to it.
        sha256: None if the file cannot be read, or is data of more than 1 GiB; then size and times are compared.
        stat: taken before the file was read; None if it is not available.
    """

    role: StampRole
    path: str
    sha256: str | None
    stat: Stat | None


@record(slots=True)
class Outcome:
    """The outcome of one job.

    Attributes:
        output: the file that was written, None for none.
        log: of the run, None when there was none.
        late: the clock ended the work on the model, so that nothing was written.
        error: why the model failed, "" otherwise; `crash` is the traceback if this program caused it.
        constant_inputs: whether initializers that are also inputs were taken as constants; None when there are none.
        tidied: how many nodes, initializers and imports were removed because nothing used them.
        static: whether inputs got fixed shapes.
        nodes: of the model and of the result, if they were counted.
        differences: of the result from the original, if the call requires them.
        refusal: why ONNX Runtime does not load the model as it is; "" if it does, None if ONNX Runtime was not used.
        remaining: why it does not load the result of a repair, likewise.
        unjudged: checks that gave no verdict on the model or the result: a sentence for each.
        expectation: the comparison with the framework's own outputs.
        asked: the verdicts of consumers on the model as it is; `asked_after`: on the result of a repair.
        steps: the steps of a recipe that the result needed.
        stamps: the files that were read and written, for a report or a journal.
        profile: the time of each stage, if the call requires it.
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
        """Whether something is left: a rule failed, the run was stopped, a rewrite was rolled back, or the outputs differ from
        the outputs of the framework.
        """
        log = self.log
        if log is None:
            return False
        wrong = log.verification is not None and log.verification.verdict == "wrong"
        return wrong or bool(log.stops or log.rolled_back) or any(blocked.error for blocked in log.blocked)
