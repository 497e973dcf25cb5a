"""Processes that do jobs, one after the other or several at once, even if one of them crashes."""

from __future__ import annotations

import pickle
import signal
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection, wait
from typing import IO, TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from rewriter.app.batch.job import process
from rewriter.app.batch.journal import GroupCommit
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.core.errors import RewriterError, reason
from rewriter.core.isolation.budget import limit_processor
from rewriter.core.isolation.child import Interruption
from rewriter.core.record import field, record, replace

if TYPE_CHECKING:
    from rewriter.core.isolation.process import Process

Worker = Callable[[Job, Work], Outcome]


@record(slots=True)
class _Started:
    """A process, the number of its current job (-1: none), and the numbers of the jobs whose outcomes it has not returned."""

    process: Process
    current: int = -1
    open: list[int] = field(default_factory=list)


class Pool:
    """Jobs, and the processes that work on them.

    A process gets a job, or None if no job is left. It answers with its finished outcomes, numbered. The outcomes of a group
    of models are finished once the results of all of them are on the disk (`journal`).
    """

    def __init__(self, jobs: Sequence[Job], work: Work, worker: Worker, interruption: Interruption | None = None) -> None:
        self._interruption = interruption
        self._work = work
        self._worker = worker
        self._jobs = jobs
        self._next = 0
        self._again: list[tuple[int, Job]] = []
        self._failed: dict[int, Outcome] = {}
        self._unsaid: set[int] = set()
        self._current: dict[int, Job] = {}
        self._processes: list[_Started] = []

    def __len__(self) -> int:
        """How many processes there are."""
        return len(self._processes)

    def start(self) -> bool:
        """Starts a process with the next job. Returns False if no job is left, or if a signal ended the server that forks."""
        if not self._left:
            return False
        from rewriter.core.isolation.process import Process

        needed = "onnx_graphsurgeon", "rewriter.app.batch.job", __name__
        try:
            one = _Started(Process(serve, (self._work, self._worker), *needed))
        except (EOFError, OSError):
            if self._interruption is not None and self._interruption.number:
                return False
            raise
        self._processes.append(one)
        self._send_next(one)
        return True

    def collect(self) -> list[tuple[int, Outcome]]:
        """Waits for an event. Returns the jobs that it finished."""
        found = []
        waited: list[Any] = [one.process.connection for one in self._processes]
        ready = wait(waited if self._interruption is None else [*waited, self._interruption.reader])
        for one in [one for one in self._processes if one.process.connection in ready]:
            try:
                said: list[tuple[int, Outcome]] = one.process.connection.recv()
            except (EOFError, OSError):
                found.extend(self._lost(one))
                continue
            self._send_next(one)
            for position, outcome in said:
                one.open.remove(position)
                del self._current[position]
                lost = self._failed.pop(position, None)
                if lost is not None:
                    lost.output = outcome.output
                found.append((position, outcome if lost is None else lost))
            if one.current < 0 and not one.open:
                self._end(one)
        return found

    def stop(self) -> None:
        """Ends all processes, even in the middle of a job."""
        if self._processes:
            from rewriter.core.isolation.process import Process

            Process.stop(one.process for one in self._processes)

    def _send_next(self, one: _Started) -> None:
        """Sends the next job, or None if no job is left."""
        numbered_job: tuple[int, Job] | None = None
        if self._again:
            numbered_job = self._again.pop()
        elif self._left:
            numbered_job = self._next, self._jobs[self._next]
            self._next += 1
        one.current = -1
        if numbered_job is not None:
            one.current = numbered_job[0]
            one.open.append(numbered_job[0])
            self._current[numbered_job[0]] = numbered_job[1]
        one.process.send(numbered_job)

    @property
    def _left(self) -> bool:
        """Whether a job waits for a process."""
        return bool(self._again) or self._next < len(self._jobs)

    def _end(self, one: _Started) -> int | None:
        self._processes.remove(one)
        return one.process.end()

    def _lost(self, one: _Started) -> list[tuple[int, Outcome]]:
        """Handles the death of a process: its current job failed, and is tried once more as a mere copy.

        Earlier jobs whose results were not yet named are done again. Such a job fails if its process dies a second time.
        """
        exit_code = self._end(one)
        found = []
        for position in one.open:
            job = self._current.pop(position)
            if position != one.current and position not in self._unsaid:
                self._unsaid.add(position)
                self._again.append((position, replace(job, adopts=True)))
                continue
            late = exit_code == -getattr(signal, "SIGXCPU", 0) and exit_code != 0
            again = not late and position not in self._failed and not job.copy and job.target not in (None, job.path)
            self._failed.setdefault(position, Outcome(job.path, error=_cause(exit_code), late=late))
            if again:
                self._again.append((position, replace(job, copy=True, adopts=False)))
            else:
                found.append((position, self._failed.pop(position)))
        return found


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:
            name = f"signal {-exit_code}"
        if name == "SIGXCPU":
            return "the process that worked on it took too much time and was ended"
        return f"the process that worked on it was killed ({name}{', out of memory?' if name == 'SIGKILL' else ''})"
    return f"the process that worked on it ended (exit code {exit_code})"


def ends_on(number: int, group: GroupCommit) -> None:
    """Makes a signal end this process. The handler removes the results without a name, also if it interrupts their removal. It
    does so before it raises anything, because an exception may get lost.
    """

    def end(*_: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        group.close()
        raise SystemExit(1)

    signal.signal(number, end)


def serve(connection: Connection[Any, Any]) -> None:
    """The life of a process: receives the work, then jobs, and sends outcomes until the other end is closed."""
    from rewriter.core.isolation.process import received

    work, worker = received(connection)
    group = GroupCommit()
    ends_on(signal.SIGTERM, group)
    with suppress(EOFError, OSError), group:
        while True:
            numbered_job: tuple[int, Job] | None = connection.recv()
            if numbered_job is None:
                connection.send(group.commit())
                continue
            number, job = numbered_job
            limit_processor(job.path, work.seconds)
            connection.send(group.add(number, worker(job, work)))


# Records that wait on the disk, so that the records of many models do not fill the memory.

T = TypeVar("T")


class Spool(Generic[T]):
    """Records by their numbers, in a file without a name that only this process has.

    Iterating over the records of a list of models follows the order of the list, not the order in which they were added.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._offsets = array("q")
        self._count = 0

    def put(self, number: int, one: T) -> None:
        """Keeps a record under a number that is free. Raises RewriterError if the disk is full."""
        try:
            self._put(number, one)
        except OSError as error:
            raise RewriterError(f"{tempfile.gettempdir()}: {reason(error)}") from error

    def _put(self, number: int, one: T) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="rewriter-")  # noqa: SIM115 -- it stays open
        while len(self._offsets) <= number:
            self._offsets.append(-1)
        self._offsets[number] = self._file.seek(0, 2)
        self._count += 1
        pickle.dump(one, self._file, pickle.HIGHEST_PROTOCOL)

    def take(self, number: int) -> T:
        """The record of a number, which is there."""
        assert self._file is not None
        self._file.seek(self._offsets[number])
        found: Any = pickle.load(self._file)
        return found  # type: ignore[no-any-return]

    def numbers(self) -> Iterator[int]:
        """The numbers that have a record."""
        return (number for number, offset in enumerate(self._offsets) if offset >= 0)

    def __iter__(self) -> Iterator[T]:
        return map(self.take, self.numbers())

    def __len__(self) -> int:
        return self._count


# Jobs one after the other or in separate processes; results in the order of the jobs.

MOST_WAITING = 200
"""Outcomes that wait in memory for the outcomes of earlier jobs."""


def run_all(
    jobs: Sequence[Job],
    work: Work,
    processes: int,
    done: Callable[[Outcome], object] = lambda outcome: None,
    worker: Worker = process,
    *,
    apart: bool = False,
    interruption: Interruption | None = None,
) -> Iterator[Outcome]:
    """The outcomes of jobs, in their order; after an interruption, the outcomes so far.

    Args:
        jobs: what to do.
        work: what all of them share; pickled once for each process.
        processes: how many to use. 1 works in this process, unless `apart` is true and there are several jobs.
        done: called with each outcome as soon as it is there.
        worker: does one job.
        interruption: ends the work after a signal.
    """
    if len(jobs) <= 1 or (processes == 1 and not apart):
        if interruption is not None:
            interruption.waited = False
        for job in () if interruption is not None and interruption.number else jobs:
            outcome = worker(job, work)
            done(outcome)
            yield outcome
        return
    pool = Pool(jobs, work, worker, interruption)

    def groups() -> Generator[list[tuple[int, Outcome]], None, None]:
        left = len(jobs)
        try:
            while left and not (interruption is not None and interruption.number):
                while len(pool) < processes and pool.start():
                    pass
                found = pool.collect()
                left -= len(found)
                yield found
        finally:
            pool.stop()

    with closing(groups()) as numbered:
        yield from in_order(numbered, done)


def in_order(groups: Iterable[Sequence[tuple[int, Outcome]]], done: Callable[[Outcome], object]) -> Iterator[Outcome]:
    """The outcomes of groups in the order of their numbers. `done` is called with each as soon as it is there."""
    waiting: dict[int, Outcome | None] = {}
    spool: Spool[Outcome] = Spool()

    def taken(number: int) -> Outcome:
        return waiting.pop(number) or spool.take(number)

    following = 0
    for group in groups:
        for number, outcome in group:
            done(outcome)
            if len(waiting) < MOST_WAITING:
                waiting[number] = outcome
            else:
                spool.put(number, outcome)
                waiting[number] = None
        while following in waiting:
            yield taken(following)
            following += 1
    for number in sorted(waiting):
        yield taken(number)
