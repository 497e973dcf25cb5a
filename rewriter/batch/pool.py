"""Jobs one after the other or in separate processes; results in the order of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rewriter.batch.interruption import Interruption
from rewriter.batch.job import process
from rewriter.batch.spool import Spool
from rewriter.batch.work import Job, Outcome, Work

Worker = Callable[[Job, Work], Outcome]


MOST_WAITING = 200
"""Outcomes that wait in memory for those of jobs before them."""


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
    """The outcomes of jobs, in their order; after an interruption those that are there.

    Args:
        jobs: what to do.
        work: what all of them share; pickled once for each process.
        processes: how many to use; 1 works in this process, unless `apart` wants a process of its own for several jobs.
        done: is told of every outcome as soon as it is there.
        worker: does one job.
        interruption: ends the work when a signal came.
    """
    if len(jobs) <= 1 or (processes == 1 and not apart):
        if interruption is not None:
            interruption.waited = False
        for job in () if interruption is not None and interruption.number else jobs:
            outcome = worker(job, work)
            done(outcome)
            yield outcome
        return
    from rewriter.batch.processes import Pool

    pool = Pool(jobs, work, worker, interruption)
    waiting: dict[int, Outcome | None] = {}
    spool: Spool[Outcome] = Spool()

    def taken(number: int) -> Outcome:
        return waiting.pop(number) or spool.take(number)

    following = 0
    try:
        while following < len(jobs) and not (interruption is not None and interruption.number):
            while len(pool) < processes and pool.start():
                pass
            for number, outcome in pool.collect():
                done(outcome)
                if len(waiting) < MOST_WAITING:
                    waiting[number] = outcome
                else:
                    spool.put(number, outcome)
                    waiting[number] = None
            while following in waiting:
                yield taken(following)
                following += 1
    finally:
        pool.stop()
    for number in sorted(waiting):
        yield taken(number)
