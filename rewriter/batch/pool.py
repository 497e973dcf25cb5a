"""Jobs one after the other or in separate processes; results in the order of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rewriter.batch.job import process
from rewriter.batch.work import Job, Outcome, Work

Worker = Callable[[Job, Work], Outcome]


def run_all(
    jobs: Sequence[Job],
    work: Work,
    processes: int,
    done: Callable[[Outcome], object] = lambda outcome: None,
    worker: Worker = process,
    *,
    apart: bool = False,
) -> Iterator[Outcome]:
    """The outcomes of jobs, in their order.

    Args:
        jobs: what to do.
        work: what all of them share; pickled once for each process.
        processes: how many to use; 1 works in this process, unless `apart` wants a process of its own for several jobs.
        done: is told of every outcome as soon as it is there.
        worker: does one job.
    """
    if len(jobs) <= 1 or (processes == 1 and not apart):
        for job in jobs:
            outcome = worker(job, work)
            done(outcome)
            yield outcome
        return
    from rewriter.batch.processes import Pool

    pool = Pool(jobs, work, worker)
    try:
        waiting: dict[int, Outcome] = {}
        following = 0
        for _ in range(min(processes, len(jobs))):
            pool.start()
        while following < len(jobs):
            for position, outcome in pool.collect():
                done(outcome)
                waiting[position] = outcome
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    finally:
        pool.stop()
